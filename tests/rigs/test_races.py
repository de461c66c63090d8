"""Names that another process changes between check and use: nothing outside is ever touched.

The editor here is what a call does to a file - resolve, read, stage, swap, compare, put back -
without journal and socket, so that 10,000 operations take seconds; both ways of resolving. The
same through a daemon's socket is in ``e2e/test_containment_races.py``. That the rig can fail is
seen in every run: an editor that checks a path and then writes by it does escape, and so does one
that does not ask where its directory has gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from rigs import findings
from rigs.swapping import PRECIOUS, Shared, arrange, contents, picture, swapping, times_away
from stet.wire.failures import Refused
from stetd.history.objects import Image, object_id
from stetd.storage import paths_on_disk
from stetd.storage.disk import Disk
from stetd.storage.paths_on_disk import Resolver, Target
from stetd.storage.worktree import OnDisk, Worktree, temporary_name
from stetd.transaction.transaction import Displaced, PreparedFile, Restorer, install

OPERATIONS = 10_000
_LIMIT = 1 << 20
#: After an operation that found the directory gone: most would, else.
_PAUSE_S = 0.0003


@dataclass(frozen=True)
class Operation:
    """``text`` None deletes the file, or with ``reads`` reads it."""

    path: str
    text: str | None
    reads: bool = False


Editor = Callable[[Operation], bool]


def operations(kind: str, count: int) -> list[Operation]:
    """What an editor is to do. Texts are never the same twice."""
    if kind == "file":
        return [Operation("f", None if n % 3 == 2 else f"{n}\n", n % 3 == 2) for n in range(count)]
    cycle = [
        lambda n: Operation("d/f", f"{n}\n"),
        lambda n: Operation(f"d/new-{n % 64}", f"{n}\n"),
        lambda n: Operation("d/sub/f", f"{n}\n"),
        lambda n: Operation("d/f", None, reads=True),
        lambda n: Operation(f"d/deep-{n % 64}/er/new", f"{n}\n"),
        lambda n: Operation(f"d/new-{(n - 4) % 64}", None),
        lambda n: Operation("d/../d/new", f"{n}\n"),
        lambda n: Operation(f"d/deep-{(n - 3) % 64}/er/new", None),
    ]
    return [cycle[n % len(cycle)](n) for n in range(count)]


# -- editors


class Quiet(Restorer):
    """Restores without a journal."""

    def _record_outside(
        self, work: PreparedFile, file: OnDisk | None, *, sync: bool = True
    ) -> None:
        self.number += 1

    def _swap_back(self, work: PreparedFile) -> None:
        self.journal = cast("Any", self)
        super()._swap_back(work)

    def sync(self) -> None:
        """The journal's."""


class Contained:
    """Edits as the daemon does."""

    def __init__(self, root: Path) -> None:
        self._worktree = Worktree(str(root), Disk())

    def __call__(self, operation: Operation) -> bool:
        try:
            target = self._worktree.resolver.resolve(operation.path)
        except Refused:
            return False
        try:
            return self._edit(operation, target)
        except Refused:
            return False
        finally:
            target.close()

    def _edit(self, operation: Operation, target: Target) -> bool:
        if "d" in target.missing:  # it is outside; another one in its place is not wanted here
            return False
        found = self._worktree.read(target, _LIMIT)
        if found is not None:
            assert found.data != PRECIOUS, "read outside"
            if found.image is None or found.image.git_mode == 0o120000:
                return False
        if operation.reads or (found is None and operation.text is None):
            return not operation.reads
        content = operation.text.encode() if operation.text is not None else None
        after = Image(object_id("blob", content), 0o100644) if content is not None else None
        work = PreparedFile(target, found, content, after, temporary_name())
        try:
            install(work, self._worktree)
        except (Displaced, OSError):
            nothing = cast("Any", None)
            Quiet(self._worktree, nothing, nothing, 0, "w").restore(work)
            return False
        finally:
            work.close()
        if found is not None:
            self._worktree.discard(work.target, work.temporary)
        if operation.text is None and operation.path.count("/") > 1:
            self._worktree.remove_directory(os.path.dirname(target.path))
        return True


class CheckedByName:
    """The mutant: resolves a path, checks it, and then writes by it."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def __call__(self, operation: Operation) -> bool:
        path = os.path.join(self._root, operation.path)
        try:
            if not os.path.realpath(path).startswith(self._root + "/"):
                return False
            if operation.text is not None:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                Path(path).write_text(operation.text)
            elif not operation.reads:
                os.unlink(path)
        except OSError:
            return False
        return True


# -- the race


def run(
    base: Path, kind: str, edit: Editor, todo: list[Operation], until: Callable[[list[bool]], bool]
) -> tuple[list[bool], Shared]:
    """Carry operations out while names change, up to a defect; which of them took effect."""
    done = []
    with swapping(base, kind) as shared:
        for number, operation in enumerate(todo):
            shared.next_phase()
            done.append(edit(operation))
            shared.next_phase()
            if kind == "moved" and not done[-1]:
                time.sleep(_PAUSE_S)
            if number % 100 == 99 and until(done):
                break
    return done, shared


def expected(todo: list[Operation], done: list[bool]) -> dict[str, str]:
    """The files that the operations leave."""
    files = {"f": "0\n", "d/f": "0\n", "d/sub/f": "0\n"}
    for operation, effective in zip(todo, done, strict=False):
        path = os.path.normpath(operation.path)
        if effective and operation.text is not None:
            files[path] = operation.text
        elif effective and not operation.reads:
            files.pop(path, None)
    return files


def escapes(base: Path, todo: list[Operation], done: list[bool]) -> list[str]:
    """What happened to the directory while it was outside, and should not have."""
    found = []
    for away in times_away(base):
        if away.touched:
            found.append(f"after operation {away.operations // 2} the directory was touched")
        found += [f"{name} was left outside" for name in away.settled if ".stet-" in name]
        number = away.operations // 2
        if away.operations % 2 == 0 or number >= len(done) or todo[number].reads:
            continue
        name = os.path.normpath(todo[number].path).removeprefix("d/")
        text = todo[number].text
        if done[number] and away.at_once.get(name) != text:
            found.append(f"operation {number} took effect after the directory had gone")
        if not done[number] and text is not None and away.settled.get(name) == text:
            found.append(f"operation {number} was refused and took effect outside")
    return found


@pytest.mark.parametrize("use_openat2", [True, False], ids=["openat2", "walk"])
@pytest.mark.parametrize("kind", ["directory", "file", "moved"])
def test_nothing_outside_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, use_openat2: bool
) -> None:
    if not use_openat2:
        monkeypatch.setattr(paths_on_disk, "_SYS_OPENAT2", 100_000)  # no such call
    tally = findings.begin(f"races, {kind}, {'openat2' if use_openat2 else 'walk'}")
    workspace = arrange(tmp_path, kind)
    before = picture(tmp_path / "outside")
    todo = operations(kind, OPERATIONS)
    edit = Contained(workspace)
    done, shared = run(tmp_path, kind, edit, todo, lambda done: False)
    tally.points = len(done)
    tally.notes.append(f"{shared.swaps} swaps, {done.count(False)} refused or withdrawn")
    if kind == "moved":
        assert escapes(tmp_path, todo, done) == []
        outside = picture(tmp_path / "outside")
        assert {p: entry[3] for p, entry in outside.items()} == {
            p: entry[3] for p, entry in before.items()
        }
    else:
        assert picture(tmp_path / "outside") == before
        (workspace / ("e" if kind == "directory" else "g")).unlink()
    if kind == "file":  # a text that was withdrawn may have been exchanged back in
        texts = {operation.text for operation in todo}
        assert contents(workspace).pop("f") in texts
        assert sorted(contents(workspace)) == ["d/f", "d/sub/f", "f"]
    else:
        assert contents(workspace) == expected(todo, done)


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_an_editor_that_checks_and_then_writes_by_path_escapes(tmp_path: Path, kind: str) -> None:
    workspace = arrange(tmp_path, kind)
    before = picture(tmp_path / "outside")
    _, shared = run(
        tmp_path,
        kind,
        CheckedByName(workspace),
        operations(kind, OPERATIONS),
        lambda done: picture(tmp_path / "outside") != before,
    )
    assert picture(tmp_path / "outside") != before, f"no escape in {shared.swaps} swaps"


def test_an_editor_that_does_not_ask_where_its_directory_went_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Resolver, "in_place", lambda self, target: True)
    workspace = arrange(tmp_path, "moved")
    todo = operations("moved", OPERATIONS)
    edit = Contained(workspace)

    def escaped(done: list[bool]) -> bool:
        return escapes(tmp_path, todo, done) != []

    done, shared = run(tmp_path, "moved", edit, todo, escaped)
    assert escaped(done), f"no escape in {shared.swaps} swaps"
