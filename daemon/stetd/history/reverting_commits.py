"""Reverts several commits, newest first, and follows files that were moved. Pure.

Commits say which files they moved. Walking back from the newest one, :class:`PresentPaths` knows
where a file of each commit is now, so that an edit is reverted in the file that it was made in,
whatever its name is today:

| the commit | since | becomes |
|---|---|---|
| changed ``a`` | ``a`` moved to ``b`` | reverted in ``b`` |
| created ``a`` | ``a`` moved to ``b`` | ``b`` is removed, if nobody changed it |
| changed ``a`` | another file was moved onto ``a`` | conflict: its file is gone |
| moved ``a`` to ``b`` | ``b`` changed | ``a`` again, with the later changes |
| moved ``a`` to ``b`` | moved back by hand | what else the commit changed is reverted in ``a`` |
| moved ``a`` to ``b`` | moved on to ``c``, or something new at ``a`` | conflict |
| found ``a`` (``outside``, ``snapshot``) | any | stays: what was found is never removed |
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain

import msgspec

from stetd.history.commits import CommitMeta, StoredCommit
from stetd.history.objects import EXECUTABLE, LINK
from stetd.history.undone import FOUND


class Version(msgspec.Struct, frozen=True):
    """A file's content and Git mode."""

    data: bytes
    git_mode: int


class FileConflict(Exception):
    """A file can't be reverted. ``hunks``: those that conflict, or one sentence."""

    def __init__(self, path: str, *hunks: str) -> None:
        super().__init__(path, *hunks)
        self.path = path
        self.hunks = list(hunks)


class InTheWay(FileConflict):
    """A path has something else than a file, or can't be reached under this name any more."""

    def __init__(self, path: str, reason: str) -> None:
        advice = "Take back by itself what put that there, or move it away, first"
        super().__init__(path, f"{reason}. {advice}")


class FileDelta(msgspec.Struct, frozen=True):
    """One file of a commit: what it was, what the commit made of it."""

    path: str
    before: Version | None
    after: Version | None


#: (base, ours, theirs) to (content or None, hunks in conflict)
Merger = Callable[[bytes, bytes, bytes], tuple[bytes | None, list[str]]]


def revert_file(
    path: str,
    before: Version | None,
    after: Version | None,
    now: Version | None,
    merge: Merger,
) -> Version | None:
    r"""``now`` with the change from ``before`` to ``after`` reverted. Raises FileConflict.

    The base of the three-way merge is the file right after the commit (``after``); the sides are
    the file now (``now``) and the file before the commit (``before``):

    | the commit | now | becomes |
    |---|---|---|
    | any | as the commit left it | as it was before the commit: bytes, execution bit, link |
    | any | as it was before the commit (put back by hand) | stays |
    | changed the file | changed since | both sides merged; the same or adjacent lines: conflict |
    | changed only the execution bit | changed since | the bit as before, the bytes as they are |
    | changed the bytes | only the execution bit changed | the bytes as before, the bit as it is |
    | changed a binary file (NUL bytes), a link | changed since | conflict |
    | changed the file | deleted since | conflict |
    | created the file | changed since, its bits too | conflict |
    | created the file | deleted since | stays deleted |
    | deleted the file | another file there | conflict |

    Lines end at ``\n`` alone and are compared as bytes: ``\r``, a BOM, bytes that are no UTF-8 and
    a missing newline at the end of the file are part of their line. An empty file is a file.
    """
    if now == after:
        return before
    if now == before:
        return now
    if after is None:
        raise FileConflict(path, "the commit deleted this file; it was created again since")
    if now is None:
        if before is None:
            return None
        raise FileConflict(path, "this file was deleted since")
    if before is None:
        raise FileConflict(path, "the commit created this file; it was changed since")
    if LINK in (before.git_mode, after.git_mode, now.git_mode):
        raise FileConflict(path, "this is, or was, a symbolic link; it was changed since")
    mode = before.git_mode if now.git_mode == after.git_mode else now.git_mode
    if before.data == after.data or now.data == before.data:
        return Version(now.data, mode)
    if now.data == after.data:
        return Version(before.data, mode)
    content, hunks = merge(after.data, now.data, before.data)
    if content is None:
        raise FileConflict(path, *hunks)
    return Version(content, mode)


def full_mode(version: Version, bits: int | None) -> int:
    """The ``st_mode`` of a file with these permission bits (None: 0644), but for execution, which
    follows the version.
    """
    if version.git_mode == LINK:
        return stat.S_IFLNK | 0o777
    bits = 0o644 if bits is None else bits
    executable = version.git_mode == EXECUTABLE
    if executable != bool(bits & stat.S_IXUSR):
        readable = (bits & 0o444) >> 2
        bits = bits | readable if executable else bits & ~0o111
    return stat.S_IFREG | bits


class PresentPaths(msgspec.Struct):
    """Where a file of an older commit is now. Walks back over the commits that are not reverted."""

    _now: dict[str, str | None] = {}
    #: By a commit that was passed by: the paths after the commit that had taken it back.
    _undone: dict[str, dict[str, str | None]] = {}

    def now(self, path: str) -> str | None:
        """The present path of the file that had this path; None: it is gone."""
        return self._now.get(path, path)

    def pass_by(self, commit: StoredCommit) -> None:
        """Go back to before a commit.

        Before one that was taken back, its paths mean what they mean after the commit that took it
        back: at a name that was free when a file was moved there, an older file may stand again.
        """
        moves = commit.meta.moves
        if commit.oid in self._undone:
            after = self._undone[commit.oid]
            then = {name: after.get(name, name) for name in chain(*moves)}
            for old, new in moves:
                if self.now(new) != after.get(new, new):  # moved back, perhaps to an older name
                    then[old] = self.now(new)
            self._now.update(then)
            return
        after = dict(self._now)
        self._undone.update((oid, after) for oid in commit.meta.reverts)
        present = [(old, new, self.now(new)) for old, new in moves]
        for _, new, _ in present:
            self._now[new] = None
        for old, _, now in present:
            self._now[old] = now

    def reset(self, *paths: str) -> None:
        """Before here, these paths mean themselves: what moved or removed them is reverted."""
        for path in paths:
            self._now.pop(path, None)


class RevertedFiles(msgspec.Struct):
    """The files as they become while commits are reverted, one after the other.

    ``read`` gives the file at a path of the workspace (raises InTheWay), ``mode_of`` the full mode
    of a path that was read; ``merge`` merges contents.
    """

    read: Callable[[str], Version | None]
    mode_of: Callable[[str], int | None]
    merge: Merger
    #: Path to what it becomes; every path that was read.
    files: dict[str, Version | None] = {}
    #: Path to the full mode that it gets; None: no file, or one with the usual bits.
    modes: dict[str, int | None] = {}
    #: Path to the one that its file has at present, for files that get an old name back; None: no
    #: file of the present.
    moved_from: dict[str, str | None] = {}
    conflicts: list[FileConflict] = []
    #: Whether each file was found as the commit had left it, with its permission bits.
    exact: bool = True
    paths: PresentPaths = msgspec.field(default_factory=PresentPaths)
    # Of the commit that is being reverted:
    _regraded: dict[str, tuple[int, int]] = {}
    _recorded: Mapping[str, int] = {}

    def revert(
        self, meta: CommitMeta, deltas: Iterable[FileDelta], recorded: Mapping[str, int]
    ) -> None:
        """Revert a commit. ``recorded``: the permission bits of the files that come back."""
        by_path = {delta.path: delta for delta in deltas}
        self._regraded = {path: (before, after) for path, before, after in meta.regraded}
        self._recorded = recorded
        for path in self._regraded.keys() - by_path.keys():
            self._revert_bits(path)
        for old, new in meta.moves:
            if old in by_path and new in by_path:
                with self._noting_conflicts():
                    self._revert_move(by_path.pop(old), by_path.pop(new))
            self.paths.reset(old, new)
        for delta in by_path.values():
            if not (meta.kind in FOUND and delta.before is None):
                with self._noting_conflicts():
                    self._revert_change(delta)

    @contextmanager
    def _noting_conflicts(self) -> Iterator[None]:
        try:
            yield
        except FileConflict as conflict:
            # A copy: the traceback would keep the contents of all files of the commit in memory.
            self.conflicts.append(FileConflict(conflict.path, *conflict.hunks))

    def _revert_bits(self, then: str) -> None:
        """Revert that the commit changed only the permission bits of a file."""
        path = self.paths.now(then)
        with suppress(InTheWay):
            if path is not None and (now := self._current(path)) is not None:
                self._set(path, now, self._bits_before(path, then))
                return
        self.exact = False

    def _current(self, path: str) -> Version | None:
        """The file at a path, as the commits reverted so far leave it."""
        if path not in self.files:
            self.files[path] = self.read(path)
            self.modes[path] = self.mode_of(path)
        return self.files[path]

    def _compared(self, path: str | None, delta: FileDelta) -> Version | None:
        """The file of a change, now at ``path``; sets ``exact``."""
        now = self._current(path) if path is not None else None
        mode = full_mode(now, self._recorded.get(delta.path)) if now is not None else None
        self.exact &= now == delta.after and (path is None or self.modes[path] == mode)
        return now

    def _bits_before(self, path: str, then: str, old: str = "") -> int | None:
        """The permission bits that a file had before the commit, which has it at ``then``.

        ``old``: the name that it had before the commit, if that was another.
        """
        mode = self.modes.get(path)
        if mode is None or not stat.S_ISREG(mode):
            return self._recorded.get(old or then)
        bits = stat.S_IMODE(mode)
        before, after = self._regraded.get(then, (bits, bits))
        self.exact &= bits == after
        return before if bits == after else bits

    def _set(self, path: str, version: Version | None, bits: int | None) -> None:
        self.files[path] = version
        self.modes[path] = full_mode(version, bits) if version is not None else None
        if version is None:
            self.moved_from[path] = None  # what comes back here is another file

    def _revert_change(self, delta: FileDelta) -> None:
        if delta.after is None:  # it comes back under its own name, whatever was moved there since
            self.paths.reset(delta.path)
        path = self.paths.now(delta.path)
        now = self._compared(path, delta)
        merged = revert_file(path or delta.path, delta.before, delta.after, now, self.merge)
        if path is not None:
            self._set(path, merged, self._bits_before(path, delta.path))

    def _revert_move(self, source: FileDelta, moved: FileDelta) -> None:
        old, new = source.path, moved.path
        path = self.paths.now(new)
        now = self._compared(path, moved)
        if path not in (old, new) and now is not None:
            raise FileConflict(new, f"this file was moved on since, to {path}")
        if path != old and self._current(old) is not None:
            if now is None and self._current(old) == source.before:
                return  # put back by hand
            raise FileConflict(old, "something else stands here since")
        merged = revert_file(path or new, source.before, moved.after, now, self.merge)
        self._set(old, merged, self._bits_before(path or new, new, old))
        if path == new:
            origin = self.moved_from.get(new, new)
            # What was there if the move replaced a file.
            self._set(new, moved.before, self._recorded.get(new))
            self.moved_from |= {new: None, old: origin}
