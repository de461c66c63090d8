"""Random edits, saves, undos and restarts against a model that knows what must stand.

The model is a few dictionaries; what an undo must give is asked of ``git merge-file``, which
the contract names as the rule. After every step all files are compared byte for byte, and the
log commit for commit: kind, session, files, and what is undone by what.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run

from e2e.running_daemon import DaemonProcess, Refusal, Site, fsck

PATHS = ["a.txt", "dir/b.txt", "dir/sub/c.txt"]
SESSIONS = ["one", "two"]
Content = bytes | None
Changes = dict[str, tuple[Content, Content]]
_sites = count(1)


@dataclass
class Commit:
    """A commit as it must be in the log."""

    id: str
    kind: str
    session: str | None
    changes: Changes
    reverts: list[str] = field(default_factory=list)
    first_seen: bool = False


def git_id(content: Content) -> str | None:
    """The blob id that Git gives a content; None for no file."""
    if content is None:
        return None
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()


def merge(after: bytes, now: bytes, before: bytes) -> Content:
    """What git makes of taking ``before`` to ``after`` back from ``now``; None: a conflict."""
    with tempfile.TemporaryDirectory() as name:
        files = []
        for number, content in enumerate((now, after, before)):
            file = Path(name, str(number))
            file.write_bytes(content)
            files.append(str(file))
        done = subprocess.run(["git", "merge-file", "-p", *files], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


class Conflict(Exception):
    """The model says that an undo can't be done."""


def taken_back(before: Content, after: Content, now: Content) -> Content:
    """What a file must become. Raises Conflict."""
    if now in (after, before):
        return before
    if after is None or now is None or before is None:
        raise Conflict
    merged = merge(after, now, before)
    if merged is None:
        raise Conflict
    return merged


class Histories(RuleBasedStateMachine):
    """One workspace, two agents, a person."""

    daemon: DaemonProcess

    def __init__(self) -> None:
        super().__init__()
        self.disk: dict[str, bytes] = {}
        self.known: dict[str, bytes] = {}
        self.commits: list[Commit] = []
        self.words = count(1)
        self.site: Site

    @initialize()
    def allow(self) -> None:
        self.site = self.daemon.site(f"h{next(_sites)}")
        self._greet()

    def _greet(self) -> None:
        self.agents = {name: self.site.another(name) for name in SESSIONS}

    def teardown(self) -> None:
        if hasattr(self, "site"):
            assert fsck(self.site.shadow) == ""

    def word(self) -> str:
        """A line that stands nowhere else."""
        return f"word {next(self.words)}.\n"

    # -- what a person does beside the daemon

    @rule(path=st.sampled_from(PATHS), place=st.floats(0, 1), lines=st.integers(1, 12))
    def save(self, path: str, place: float, lines: int) -> None:
        old = self.disk.get(path, b"").splitlines(keepends=True)
        at = round(place * len(old))
        new = [self.word().encode() for _ in range(lines)]
        self._put(path, b"".join(old[:at] + new + old[at + lines % 2 :]))

    @rule(path=st.sampled_from(PATHS))
    def remove(self, path: str) -> None:
        if path in self.disk:
            self._put(path, None)

    @rule(path=st.sampled_from(PATHS))
    def put_back(self, path: str) -> None:
        """`git checkout` of what the history had last."""
        if path in self.known:
            self._put(path, self.known[path])

    def _put(self, path: str, content: Content) -> None:
        file = self.site.root / path
        if content is None:
            file.unlink()
            del self.disk[path]
        else:
            self.site.write(path, content)
            self.disk[path] = content

    # -- what agents do

    @rule(
        session=st.sampled_from(SESSIONS),
        path=st.sampled_from(PATHS),
        place=st.floats(0, 1, exclude_max=True),
        what=st.sampled_from(["replace", "delete", "append", "prepend", "overwrite"]),
        preview=st.sampled_from([False, False, False, True]),
    )
    def edit(self, session: str, path: str, place: float, what: str, preview: bool) -> None:
        lines = self.disk.get(path, b"").decode().splitlines(keepends=True)
        new = self.word()
        patch: dict[str, Any] = {"operation": "append_eof", "newText": new}
        after = "".join([*lines, new])
        if what in ("replace", "delete") and lines:
            at = int(place * len(lines))
            new = "" if what == "delete" else new
            patch = {"operation": "replace", "oldText": lines[at], "newText": new}
            after = "".join([*lines[:at], new, *lines[at + 1 :]])
        elif what == "prepend":
            patch["operation"] = "prepend_bof"
            after = "".join([new, *lines])
        elif what == "overwrite":
            patch["operation"] = "overwrite"
            after = new
        result = self.agents[session].call("patch", path=path, patches=[patch], preview=preview)
        if preview:
            assert result["commit"] is None
            return
        changes: Changes = {path: (self.disk.get(path), after.encode())}
        self._done(result, "edit", session, changes)

    @precondition(lambda self: self.commits)
    @rule(data=st.data(), by_person=st.booleans())
    def undo_one(self, data: st.DataObject, by_person: bool) -> None:
        commit = data.draw(st.sampled_from(self.commits), "commit")
        session = commit.session
        if session is None or by_person:
            session = None
        self._undo(session, [commit], {"commits": [commit.id[:12]]})

    @rule(session=st.sampled_from([None, *SESSIONS]), last=st.integers(1, 4))
    def undo_last(self, session: str | None, last: int) -> None:
        chosen = [
            commit
            for commit in reversed(self.commits)
            if commit.kind == "edit"
            and session in (None, commit.session)
            and self.undone_by(commit) is None
        ][:last]
        self._undo(session, chosen, {"last": last})

    def _undo(self, session: str | None, chosen: list[Commit], params: dict[str, Any]) -> None:
        client = self.site.person if session is None else self.agents[session]
        done = not chosen or any(self.undone_by(c) is not None or c.first_seen for c in chosen)
        versions: dict[str, Content] = {}
        conflict = False
        for commit in chosen:
            for path, (before, after) in commit.changes.items():
                now = versions.setdefault(path, self.disk.get(path))
                try:
                    versions[path] = taken_back(before, after, now)
                except Conflict:
                    conflict = True
        if done or conflict:
            before_call = self.site.picture()
            refusal = client.refusal("undo", **params)
            assert refusal.kind == ("nothing_to_undo" if done else "conflict")
            assert self.site.picture() == before_call
            return
        result = client.call("undo", **params)
        assert result["undone"] == [commit.id for commit in chosen]
        changes = {path: (self.disk.get(path), after) for path, after in versions.items()}
        self._done(result, "undo", session, changes, result["undone"])

    def _done(
        self,
        result: dict[str, Any],
        kind: str,
        session: str | None,
        changes: Changes,
        reverts: list[str] = [],  # noqa: B006 - never changed
    ) -> None:
        """Take over what a call did, and what it found."""
        found = {
            path: (self.known.get(path), self.disk.get(path))
            for path in changes
            if self.known.get(path) != self.disk.get(path)
        }
        assert (result["outside"] is not None) is bool(found)
        if found:
            seen = all(before is None for before, _ in found.values())
            self.commits.append(Commit(result["outside"], "outside", None, found, [], seen))
        really = {path: (old, new) for path, (old, new) in changes.items() if old != new}
        self.commits.append(Commit(result["commit"], kind, session, really, reverts))
        assert sorted(each["path"] for each in result["files"]) == sorted(really)
        for path, (_, after) in changes.items():
            self._know(path, after)
            if after is None:
                self.disk.pop(path, None)
            else:
                self.disk[path] = after

    # -- life goes on

    @precondition(lambda self: len(self.commits) > 3)
    @rule(how=st.sampled_from(["restart", "kill"]))
    def restart(self, how: str) -> None:
        if how == "kill":
            self.daemon.kill()
            self.daemon.start()
        else:
            self.daemon.restart()
        self.site.connect()
        self._greet()
        if how == "kill":
            self._adopt_what_recovery_found()

    def _adopt_what_recovery_found(self) -> None:
        """Files that are not as a recent call left them are recorded at the start."""
        known = {commit.id for commit in self.commits}
        for each in reversed(self.site.log(limit=1000)):
            if each["commit"] in known:
                continue
            assert each["kind"] == "outside"
            changes: Changes = {}
            for change in each["files"]:
                path = change["path"]
                changes[path] = (self.known.get(path), self.disk.get(path))
                assert changes[path][0] != changes[path][1]
                assert [git_id(content) for content in changes[path]] == [
                    change["before"],
                    change["after"],
                ]
            seen = each["message"].startswith("first seen")
            self.commits.append(Commit(each["commit"], "outside", None, changes, [], seen))
            for path, (_, now) in changes.items():
                self._know(path, now)

    def _know(self, path: str, content: Content) -> None:
        if content is None:
            self.known.pop(path, None)
        else:
            self.known[path] = content

    # -- what must hold

    def undone_by(self, commit: Commit) -> str | None:
        """The newest standing commit that took this one back."""
        for other in reversed(self.commits):
            if commit.id in other.reverts and self.undone_by(other) is None:
                return other.id
        return None

    @invariant()
    def files_are_as_the_model_says(self) -> None:
        if not hasattr(self, "site"):
            return
        found = {
            str(path.relative_to(self.site.root)): path.read_bytes()
            for path in self.site.root.rglob("*")
            if path.is_file()
        }
        assert found == self.disk

    @invariant()
    def the_log_is_as_the_model_says(self) -> None:
        if not hasattr(self, "site"):
            return
        expected = [
            (
                commit.id,
                commit.kind,
                commit.session,
                sorted(commit.changes),
                commit.reverts,
                self.undone_by(commit),
            )
            for commit in reversed(self.commits)
        ]
        assert expected == [
            (
                each["commit"],
                each["kind"],
                each["session"],
                sorted(change["path"] for change in each["files"]),
                each["reverts"],
                each["reverted_by"],
            )
            for each in self.site.log(limit=1000)
        ]


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    process = DaemonProcess({"grace_s": 0})
    try:
        process.start()
        yield process
    finally:
        process.close()


def test_random_histories_are_what_the_model_says(daemon: DaemonProcess) -> None:
    machine = type("Machine", (Histories,), {"daemon": daemon})
    few = settings(
        max_examples=12,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        # A step takes milliseconds and a restart a second: shrinking would take hours.
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    try:
        run(machine, settings=few)
    except Refusal as refusal:
        raise AssertionError(f"{refusal.message}\n{daemon.log()}") from refusal
