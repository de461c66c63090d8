"""Laws of taking back, on random histories of agents alone, through a real daemon.

Every history ends with the same questions, each answered by comparing all files with all
files. Nobody else writes, so nothing may ever be in conflict.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from e2e.running_daemon import Client, Refusal, Site

PATHS = ["a.txt", "b.txt", "dir/c.txt", "dir/deep/d.txt", "e"]
STEPS = 25


class History:
    """Random calls of two agents on one workspace."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site = site
        self.dice = random.Random(seed)
        self.agents = [site.agent, site.another("conv-2")]
        self.lines = 0
        self.known: set[str] = set()
        for path in PATHS[:3]:
            site.write(path, "".join(self.line() for _ in range(30)))
            self.known.add(path)
        # The history begins with files that it knows: what they were before is nobody's edit.
        calls = [patch(path, "append_eof", self.line()) for path in PATHS[:3]]
        site.agent.call("transaction", calls=[{"method": m, "params": p} for m, p in calls])

    def line(self) -> str:
        self.lines += 1
        return f"line {self.lines}\n"

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.site.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.site.root)): path.read_bytes() for path in found}

    def step(self, agent: Client) -> None:
        """One call; some are refused, and change nothing."""
        files = self.files()
        self.known |= set(files)
        what = self.dice.choice(["edit"] * 14 + ["create", "delete", "move", "undo", "redo"])
        path = self.dice.choice(sorted(files) or PATHS)
        other = self.dice.choice([*PATHS, "moved/f.txt"])
        self.known.add(other)
        line = self.dice.choice(files.get(path, b"x\n").decode().splitlines(keepends=True) or [""])
        method, params = {
            "edit": patch(path, "replace", self.line(), oldText=line),
            "create": patch(other, "overwrite", self.line()),
            "delete": apply_patch(f"*** Delete File: {path}\n"),
            "move": apply_patch(
                f"*** Update File: {path}\n*** Move to: {other}\n@@\n-{line}+{self.line()}"
            ),
            "undo": ("undo", {"last": self.dice.choice([1, 1, 2, 3])}),
            "redo": ("redo", {}),
        }[what]
        outcome(agent, method, params)

    def commits(self) -> list[str]:
        """Of the newest first, those that are no outside edits."""
        return [each["commit"] for each in self.site.log(limit=200) if each["kind"] != "outside"]


def patch(path: str, operation: str, new: str, **more: str) -> tuple[str, dict[str, Any]]:
    return "patch", {
        "path": path,
        "patches": [{"operation": operation, "newText": new, **more}],
    }


def apply_patch(operations: str) -> tuple[str, dict[str, Any]]:
    return "apply_patch", {"input": f"*** Begin Patch\n{operations}*** End Patch"}


def outcome(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any] | Refusal:
    try:
        return client.call(method, **params)
    except Refusal as refusal:
        return refusal


@pytest.mark.parametrize("seed", range(12))
def test_the_laws_of_taking_back(site: Site, seed: int) -> None:
    history = History(site, seed)
    at_commit: dict[str, dict[str, bytes]] = {}
    for _ in range(STEPS):
        history.step(history.dice.choice(history.agents))
        at_commit[history.commits()[0]] = history.files()
    now = history.files()

    # Undo, then redo, of any set is the identity, or it is refused and changes nothing.
    standing = [
        each["commit"]
        for each in site.log(limit=200)
        if each["kind"] != "outside" and not each["reverted_by"]
    ]
    for size in (1, 1, 1, 2, 2, 3, len(standing)):
        some = history.dice.sample(standing, min(size, len(standing)))
        done = outcome(site.person, "undo", {"commits": some})
        if isinstance(done, Refusal):
            assert done.kind in ("conflict", "nothing_to_undo")
        else:
            site.person.call("redo", commits=[done["commit"]])
        assert history.files() == now

    # A rollback gives what was there, is never in conflict, and can itself be undone.
    for to in history.dice.sample(sorted(at_commit), min(4, len(at_commit))):
        done = outcome(site.person, "rollback", {"to": to})
        if isinstance(done, Refusal):
            assert (done.kind, at_commit[to]) == ("nothing_to_undo", now)
            continue
        assert history.files() == at_commit[to]
        site.person.call("undo", commits=[done["commit"]])
        assert history.files() == now

        # The same, file by file: restored one after the other.
        restored = []
        for path in sorted(history.known):
            result = outcome(site.person, "restore", {"path": path, "at": to})
            if isinstance(result, Refusal):
                assert result.kind in ("no_change", "file_not_found")
            else:
                restored.append(result["commit"])
        assert history.files() == at_commit[to]
        site.person.call("undo", commits=restored)
        assert history.files() == now
    assert site.fsck() == ""
