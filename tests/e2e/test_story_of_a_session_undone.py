"""Three agents and a person edit the same ten files 300 times; one agent's session is undone.

The model owns lines and knows nothing of merging: a file is a row of cells, each a line that
stands nowhere else, with who put it in and who took it out. What the files must be without an
agent follows by leaving out what it put in and keeping what it took out.

The one thing that the story avoids is a conflict: between what the agent touched and what the
others touched there is always a line that nobody did. The others meet each other anywhere.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from e2e.running_daemon import Client, Site

FILES = [f"src/part{n}.py" for n in range(7)] + ["README.md", "deep/er/notes.txt", "a"]
LINES = 40
STEPS = 300
#: Whose session is undone; it works in the middle of the story only.
CULPRIT, BEGIN, END = "culprit", 60, 240
AGENTS = [CULPRIT, "second", "third"]
PERSON = "person"


@dataclass(eq=False)
class Cell:
    """A line, who put it in (None: it was there) and who took it out (None: it stands)."""

    text: str
    put_in: str | None = None
    taken_out: str | None = None

    @property
    def stands(self) -> bool:
        return self.taken_out is None

    def is_touched(self, by_culprit: bool) -> bool:
        """Whether the culprit, or one of the others, touched it."""
        return any(who is not None and (who == CULPRIT) is by_culprit for who in self._who)

    @property
    def is_untouched(self) -> bool:
        return self._who == (None, None)

    @property
    def _who(self) -> tuple[str | None, str | None]:
        return self.put_in, self.taken_out


@dataclass
class Model:
    """All files."""

    dice: random.Random
    files: dict[str, list[Cell]] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        for path in FILES:
            self.files[path] = [Cell(self.line("base")) for _ in range(LINES)]

    def line(self, who: str) -> str:
        return f"{who} wrote line {next(self.numbers)}\n"

    def text(self, path: str, without: str | None = None) -> str:
        """A file as it stands, or as it would be without somebody."""
        return "".join(
            cell.text
            for cell in self.files[path]
            if cell.put_in != (without or "-") and cell.taken_out in (None, without)
        )

    def edit(self, who: str, path: str) -> tuple[str, str]:
        """Choose an edit and carry it out here: the old text (stands once), and the new."""
        cells = self.files[path]
        while True:
            standing = [at for at, cell in enumerate(cells) if cell.stands]
            first = self.dice.randrange(len(standing) - 3)
            taken = standing[first : first + self.dice.choice([0, 1, 1, 2, 3])]
            anchor = standing[first + len(taken)]
            start = taken[0] if taken else anchor
            if self._is_free(who, path, start, anchor):
                break
        old = "".join(cells[at].text for at in [*taken, anchor])
        new = [Cell(self.line(who), who) for _ in range(self.dice.choice([0, 1, 1, 2, 3]))]
        if not taken and not new:
            new = [Cell(self.line(who), who)]
        for at in taken:
            cells[at].taken_out = who
        result = "".join(cell.text for cell in [*new, cells[anchor]])
        cells[anchor:anchor] = new
        return old, result

    def _is_free(self, who: str, path: str, start: int, end: int) -> bool:
        """Whether cells ``start`` to before ``end``, up to a line that nobody touched on both
        sides, are no concern of the other side.
        """
        cells, others = self.files[path], who != CULPRIT
        while start > 0 and not cells[start - 1].is_untouched:
            start -= 1
        while end < len(cells) and not cells[end].is_untouched:
            end += 1
        return not any(cell.is_touched(others) for cell in cells[start:end])


class Story:
    """The model beside the real workspace."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site = site
        self.dice = random.Random(seed)
        self.model = Model(self.dice)
        self.agents = {name: site.another(name, agent=name) for name in AGENTS}
        self.commits: dict[str, list[str]] = {name: [] for name in AGENTS}
        for path in FILES:
            site.write(path, self.model.text(path))

    def tell(self) -> None:
        for step in range(STEPS):
            names = [PERSON, *AGENTS] if BEGIN <= step < END else [PERSON, *AGENTS[1:]]
            who = self.dice.choice(names)
            paths = self.dice.sample(FILES, self.dice.choice([1, 1, 1, 2, 3]))
            if who == PERSON:
                self.model.edit(who, paths[0])
                self.site.write(paths[0], self.model.text(paths[0]))
            else:
                self.commits[who].append(self.call(self.agents[who], who, paths))

    def call(self, client: Client, who: str, paths: list[str]) -> str:
        """One call of an agent, over one file or several; its commit."""
        calls = []
        for path in paths:
            old, new = self.model.edit(who, path)
            calls.append(self.dice.choice([patch, patch_file, patch_block])(path, old, new))
        if len(calls) == 1:
            method, params = calls[0]
        else:
            inner = [{"method": method, "params": params} for method, params in calls]
            method, params = "transaction", {"calls": inner}
        commit: str = client.call(method, **params)["commit"]
        return commit

    def check(self, without: str | None = None) -> None:
        """The files are as the model says, byte for byte."""
        found = {path: self.site.bytes_of(path).decode() for path in FILES}
        assert found == {path: self.model.text(path, without) for path in FILES}

    def check_nobody_else_changed(self, before: dict[str, list[str]]) -> None:
        """Of the lines that are not the culprit's, all are there, in their order."""
        for path, lines in before.items():
            now = self.site.bytes_of(path).decode().splitlines()
            known = set(lines)
            mine = f"{CULPRIT} wrote"
            assert [line for line in now if line in known] == [
                line for line in lines if not line.startswith(mine)
            ]
            assert not any(line.startswith(mine) for line in now)

    def lines(self) -> dict[str, list[str]]:
        return {path: self.site.bytes_of(path).decode().splitlines() for path in FILES}

    def undone(self) -> set[str]:
        """The commits that the log says are undone, of all there are."""
        found: set[str] = set()
        cursor = None
        while True:
            page = self.site.person.call("log", limit=500, cursor=cursor)
            found |= {each["commit"] for each in page["commits"] if each["reverted_by"]}
            cursor = page["cursor"]
            if cursor is None:
                return found


Method = tuple[str, dict[str, Any]]


def patch(path: str, old: str, new: str) -> Method:
    return "patch", {
        "path": path,
        "patches": [{"operation": "replace", "oldText": old, "newText": new}],
    }


def patch_file(path: str, old: str, new: str) -> Method:
    return "patch_file", {"path": path, "changes": [{"search": old, "replace": new}]}


def patch_block(path: str, old: str, new: str) -> Method:
    text = (
        f"===SKIPPY_PATCH_START:{path}===\n===FIND===\n{old}===REPLACE===\n{new}"
        "===SKIPPY_PATCH_END===\n"
    )
    return "patch_block", {"text": text}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_whole_session_is_undone_from_the_middle(site: Site, seed: int) -> None:
    story = Story(site, seed)
    story.tell()
    story.check()
    before = story.lines()
    culprits = story.commits[CULPRIT]
    assert len(culprits) > 30

    preview = site.person.call("undo", session=CULPRIT, last=1000, preview=True)
    story.check()
    result = site.person.call("undo", session=CULPRIT, last=1000)
    assert result["undone"] == preview["undone"] == culprits[::-1]
    story.check(without=CULPRIT)
    story.check_nobody_else_changed(before)
    assert story.undone() == set(culprits)

    site.person.call("redo")
    story.check()
    assert story.undone() == {result["commit"]}

    # The same by a rollback, and by the agent itself, one call after the other.
    first = site.person.call("show", commit=culprits[0])["parent"]
    rollback = site.person.call("rollback", to=first, session=CULPRIT)
    assert rollback["undone"] == culprits[::-1]
    story.check(without=CULPRIT)
    site.person.call("undo", commits=[rollback["commit"]])
    story.check()
    for commit in reversed(culprits):
        assert story.agents[CULPRIT].call("undo")["undone"] == [commit]
    story.check(without=CULPRIT)
    assert story.agents[CULPRIT].refusal("undo").kind == "nothing_to_undo"
    assert site.fsck() == ""
