"""Reverts one change of one file, around later changes. Pure.

The base of the three-way merge is the file right after the commit (``after``); the sides are the
file now (``now``) and the file before the commit (``before``):

| the commit | now | becomes |
|---|---|---|
| any | as the commit left it | as it was before the commit: bytes, execution bit, link |
| any | as it was before the commit (put back by hand) | stays |
| changed the file | changed since | both sides merged; the same or adjacent lines: conflict |
| changed only the execution bit | changed since | the bit as before, the bytes as they are |
| changed the bytes | only the execution bit changed since | the bytes as before, the bit as it is |
| changed a binary file (NUL bytes), a link | changed since | conflict |
| changed the file | deleted since | conflict |
| created the file | changed since, its bits too | conflict |
| created the file | deleted since | stays deleted |
| deleted the file | another file there | conflict |

Lines end at ``\\n`` alone and are compared as bytes: ``\\r``, a BOM, bytes that are no UTF-8 and a
missing newline at the end of the file are part of their line. An empty file is a file.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stetd.history.objects import LINK


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

    @property
    def is_merge(self) -> bool:
        """Whether lines conflict, so that the hunks are pieces of the file."""
        return bool(self.hunks) and self.hunks[0].startswith("<<<<<<<")


#: (base, ours, theirs) to (content or None, hunks in conflict)
Merger = Callable[[bytes, bytes, bytes], tuple[bytes | None, list[str]]]


def revert_file(
    path: str,
    before: Version | None,
    after: Version | None,
    now: Version | None,
    merge: Merger,
) -> Version | None:
    """``now`` with the change from ``before`` to ``after`` reverted. Raises FileConflict."""
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
