"""Taking several commits back, newest first, and following files that were moved. Pure.

Commits say which files they moved. Walking back from the newest commit, :class:`Whereabouts`
knows where a file of each commit is now, so that an edit is taken back in the file that it was
made in, whatever its name is today:

| the commit | since | becomes |
|---|---|---|
| changed ``a`` | ``a`` moved to ``b`` | taken back in ``b`` |
| created ``a`` | ``a`` moved to ``b`` | ``b`` is removed, if nobody changed it |
| changed ``a`` | another file was moved onto ``a`` | conflict: its file is gone |
| moved ``a`` to ``b`` | ``b`` changed | ``a`` again, with the later changes |
| moved ``a`` to ``b`` | moved back by hand | what else the commit changed is taken back in ``a`` |
| moved ``a`` to ``b`` | moved on to ``c``, or something new at ``a`` | conflict |
| found ``a`` (``outside``, ``snapshot``) | any | stays: what was found is never removed |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

import msgspec

from stetd.history.file_undoing import FileConflict, Merger, Version, take_back_file

Moves = Iterable[tuple[str, str]]


class InTheWay(Exception):
    """A path has something else than a file, or can't be reached under this name any more."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = f"{reason}. Take back by itself what put that there, or move it away, first"


class FileDelta(msgspec.Struct, frozen=True):
    """One file of a commit: what it was, what the commit made of it."""

    path: str
    before: Version | None
    after: Version | None


class Whereabouts:
    """Where a file of an older commit is now. Walks back over the commits that stand."""

    def __init__(self) -> None:
        self._now: dict[str, str | None] = {}

    def now(self, path: str) -> str | None:
        """The present path of the file that had this path; None: it is gone."""
        return self._now.get(path, path)

    def step_over(self, moves: Moves) -> None:
        """Go back behind a commit that made these moves."""
        present = [(old, new, self.now(new)) for old, new in moves]
        for _, new, _ in present:
            self._now[new] = None
        for old, _, there in present:
            self._now[old] = there

    def forget(self, *paths: str) -> None:
        """From here on back, these paths mean themselves: what moved or removed them is undone."""
        for path in paths:
            self._now.pop(path, None)


class TakingBack(msgspec.Struct):
    """The files as they become while commits are taken back, one after the other.

    ``look`` gives the current content of a path (raises InTheWay); ``merge`` merges contents.
    """

    look: Callable[[str], Version | None]
    merge: Merger
    #: Path to what it becomes; every path that was read.
    files: dict[str, Version | None] = {}
    #: Path to the one that its file has at present, for files that get an old name back.
    moved_from: dict[str, str] = {}
    conflicts: list[FileConflict] = []
    where: Whereabouts = msgspec.field(default_factory=Whereabouts)

    def step_over(self, moves: Moves) -> None:
        """Leave a commit as it is, and go on with the one before it."""
        self.where.step_over(moves)

    def take_back(self, deltas: Iterable[FileDelta], moves: Moves, *, found: bool = False) -> None:
        """Take a commit back. ``found``: it recorded content that it found."""
        by_path = {delta.path: delta for delta in deltas}
        for old, new in moves:
            if old in by_path and new in by_path:
                self._guarded(partial(self._move_back, by_path[old], by_path[new]))
                del by_path[old], by_path[new]
            self.where.forget(old, new)
        for delta in by_path.values():
            if not (found and delta.before is None):
                self._guarded(partial(self._change_back, delta))

    def include(self, paths: Iterable[str]) -> None:
        """Read these files, too: a commit that is taken back changed only their permission bits."""
        for path in paths:
            there = self.where.now(path)
            if there is not None:
                with suppress(InTheWay):
                    self._at(there)

    def _guarded(self, step: Callable[[], FileConflict | None]) -> None:
        try:
            conflict = step()
        except InTheWay as obstacle:
            conflict = FileConflict(obstacle.path, [obstacle.reason])
        if conflict is not None:
            self.conflicts.append(conflict)

    def _at(self, path: str) -> Version | None:
        if path not in self.files:
            self.files[path] = self.look(path)
        return self.files[path]

    def _change_back(self, delta: FileDelta) -> FileConflict | None:
        if delta.after is None:  # it comes back under its own name, whatever was moved there since
            self.where.forget(delta.path)
        path = self.where.now(delta.path)
        now = self._at(path) if path is not None else None
        merged = take_back_file(path or delta.path, delta.before, delta.after, now, self.merge)
        if isinstance(merged, FileConflict):
            return merged
        if path is not None:
            self.files[path] = merged
        elif merged is not None:
            return FileConflict(delta.path, ["another file was moved here since"])
        return None

    def _move_back(self, source: FileDelta, moved: FileDelta) -> FileConflict | None:
        old, new = source.path, moved.path
        there = self.where.now(new)
        now = self._at(there) if there is not None else None
        if there not in (old, new) and now is not None:
            return FileConflict(new, [f"this file was moved on since, to {there}"])
        if there != old and self._at(old) is not None:
            if now is None and self._at(old) == source.before:
                return None  # put back by hand
            return FileConflict(old, ["something else stands here since"])
        merged = take_back_file(there or new, source.before, moved.after, now, self.merge)
        if isinstance(merged, FileConflict):
            return merged
        self.files[old] = merged
        if there == new:
            self.files[new] = moved.before  # what was there if the move replaced a file
            self.moved_from[old] = self.moved_from.pop(new, new)
        return None
