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

import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain

import msgspec

from stetd.history.file_undoing import FileConflict, Merger, Version, take_back_file
from stetd.history.objects import EXECUTABLE, LINK

Moves = Iterable[tuple[str, str]]
#: Paths with permission bits before and after.
Regraded = Iterable[tuple[str, int, int]]


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


def full_mode(version: Version, bits: int | None) -> int:
    """The full mode of a file with these permission bits (None: the usual ones), except for
    execution, which follows the version.
    """
    if version.git_mode == LINK:
        return stat.S_IFLNK | 0o777
    bits = 0o644 if bits is None else bits
    executable = version.git_mode == EXECUTABLE
    if executable != bool(bits & stat.S_IXUSR):
        readable = (bits & 0o444) >> 2
        bits = bits | readable if executable else bits & ~0o111
    return stat.S_IFREG | bits


class Whereabouts:
    """Where a file of an older commit is now. Walks back over the commits that stand."""

    def __init__(self) -> None:
        self._now: dict[str, str | None] = {}
        #: The same in front of the commit that took these back.
        self._undone: dict[str, dict[str, str | None]] = {}

    def now(self, path: str) -> str | None:
        """The present path of the file that had this path; None: it is gone."""
        return self._now.get(path, path)

    def step_over(self, moves: Moves, oid: str = "", reverts: Iterable[str] = ()) -> None:
        """Go back behind a commit that made these moves, and took back others (``reverts``).

        Behind one that it took back, names mean what they mean in front of both: a name that was
        free when a file was moved there may have got its old file back.
        """
        if oid in self._undone:
            self._now.update((name, self._undone[oid].get(name, name)) for name in chain(*moves))
            return
        front = dict(self._now)
        self._undone.update((each, front) for each in reverts)
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

    ``look`` gives the current content of a path (raises InTheWay); ``merge`` merges contents;
    ``mode`` gives the full mode of a path that was looked at.
    """

    look: Callable[[str], Version | None]
    merge: Merger
    mode: Callable[[str], int | None] = lambda _: None
    #: Path to what it becomes; every path that was read.
    files: dict[str, Version | None] = {}
    #: Path to the full mode that it gets; None: no file, or one with the usual bits.
    modes: dict[str, int | None] = {}
    #: Path to the one that its file has at present, for files that get an old name back.
    moved_from: dict[str, str] = {}
    conflicts: list[FileConflict] = []
    #: Whether each file was found as the commit had left it, with its permission bits.
    exact: bool = True
    where: Whereabouts = msgspec.field(default_factory=Whereabouts)
    _regraded: dict[str, tuple[int, int]] = {}
    _recorded: Mapping[str, int] = {}

    def take_back(
        self,
        deltas: Iterable[FileDelta],
        moves: Moves,
        *,
        found: bool = False,
        regraded: Regraded = (),
        recorded: Mapping[str, int] = {},
    ) -> None:
        """Take a commit back. ``found``: it recorded content that it found.

        ``regraded``: the permission bits that it changed; ``recorded``: those of the files that
        come back.
        """
        by_path = {delta.path: delta for delta in deltas}
        self._regraded = {path: (before, after) for path, before, after in regraded}
        self._recorded = recorded
        for path in self._regraded.keys() - by_path.keys():
            self._grade_back(path)
        for old, new in moves:
            if old in by_path and new in by_path:
                self._guarded(partial(self._move_back, by_path[old], by_path[new]))
                del by_path[old], by_path[new]
            self.where.forget(old, new)
        for delta in by_path.values():
            if not (found and delta.before is None):
                self._guarded(partial(self._change_back, delta))

    def _grade_back(self, then: str) -> None:
        """Take back that a commit changed only the permission bits of a file."""
        path = self.where.now(then)
        if path is not None:
            with suppress(InTheWay):
                self._put(path, self._at(path), self._bits(path, then))

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
            self.modes[path] = self.mode(path)
        return self.files[path]

    def _find(self, path: str | None, delta: FileDelta) -> Version | None:
        now = self._at(path) if path is not None else None
        mode = full_mode(now, self._recorded.get(delta.path)) if now is not None else None
        self.exact &= now == delta.after and (path is None or self.modes[path] == mode)
        return now

    def _bits(self, path: str, then: str) -> int | None:
        """The permission bits of a file before the commit, which has it at ``then``."""
        mode = self.modes.get(path)
        if mode is None or not stat.S_ISREG(mode):
            return self._recorded.get(then)
        bits = stat.S_IMODE(mode)
        before, after = self._regraded.get(then, (bits, bits))
        self.exact &= bits == after
        return before if bits == after else bits

    def _put(self, path: str, version: Version | None, bits: int | None) -> None:
        self.files[path] = version
        self.modes[path] = full_mode(version, bits) if version is not None else None

    def _change_back(self, delta: FileDelta) -> FileConflict | None:
        if delta.after is None:  # it comes back under its own name, whatever was moved there since
            self.where.forget(delta.path)
        path = self.where.now(delta.path)
        now = self._find(path, delta)
        merged = take_back_file(path or delta.path, delta.before, delta.after, now, self.merge)
        if isinstance(merged, FileConflict):
            return merged
        if path is not None:
            self._put(path, merged, self._bits(path, delta.path))
        elif merged is not None:
            return FileConflict(delta.path, ["another file was moved here since"])
        return None

    def _move_back(self, source: FileDelta, moved: FileDelta) -> FileConflict | None:
        old, new = source.path, moved.path
        there = self.where.now(new)
        now = self._find(there, moved)
        if there not in (old, new) and now is not None:
            return FileConflict(new, [f"this file was moved on since, to {there}"])
        if there != old and self._at(old) is not None:
            if now is None and self._at(old) == source.before:
                return None  # put back by hand
            return FileConflict(old, ["something else stands here since"])
        merged = take_back_file(there or new, source.before, moved.after, now, self.merge)
        if isinstance(merged, FileConflict):
            return merged
        self._put(old, merged, self._bits(there or new, new))
        if there == new:
            # What was there if the move replaced a file.
            self._put(new, moved.before, self._recorded.get(new))
            self.moved_from[old] = self.moved_from.pop(new, new)
        return None
