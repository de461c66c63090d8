"""Taking commits back: which ones, and what each file becomes. Pure.

A commit is taken back file by file with a three-way merge: the base is the file as the
commit left it, one side is what stands there now, the other what stood there before the
commit. Later edits, an agent's or a person's, stay; where both sides changed the same or
adjacent lines there is a conflict, and nothing at all is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stetd.history.commits import StoredCommit

#: Kinds that take others back: their ``reverts`` are undone while they stand.
TAKES_BACK = frozenset({"undo", "redo", "rollback"})
#: Kinds that ``undo last: n`` counts.
EDITS = frozenset({"edit", "observed", "restore"})


@dataclass(frozen=True, slots=True)
class Version:
    """A file's content and Git mode."""

    data: bytes
    git_mode: int


@dataclass(frozen=True, slots=True)
class FileConflict:
    """Why a file can't be taken back, with the hunks (or one sentence)."""

    path: str
    hunks: list[str]


class Standing:
    """Which commits are undone, learnt while walking the history from its newest commit.

    A commit is undone while some commit that takes it back is itself not taken back:
    undoing an undo brings the edit back.
    """

    def __init__(self) -> None:
        self._taken_back: dict[str, str] = {}

    def reverted_by(self, commit: StoredCommit) -> str | None:
        """Which standing commit took this one back. Call once for each, newest first."""
        by = self._taken_back.get(commit.oid)
        if by is None and commit.meta.kind in TAKES_BACK:
            for oid in commit.meta.reverts:
                self._taken_back.setdefault(oid, commit.oid)
        return by


def walk_standing(walk: Iterator[StoredCommit]) -> Iterator[tuple[StoredCommit, str | None]]:
    """Each commit of a walk from the newest, with the one that took it back."""
    standing = Standing()
    for commit in walk:
        yield commit, standing.reverted_by(commit)


#: (base, ours, theirs) to (content or None, hunks in conflict)
Merger = Callable[[bytes, bytes, bytes], tuple[bytes | None, list[str]]]


def take_back_file(
    path: str,
    before: Version | None,
    after: Version | None,
    now: Version | None,
    merge: Merger,
) -> Version | FileConflict | None:
    """What a file becomes when the change ``before`` to ``after`` is taken back from ``now``."""
    if now == after:
        return before
    if now == before:
        return now
    if after is None:
        return FileConflict(path, ["the commit deleted this file; it was created again since"])
    if now is None:
        if before is None:
            return None
        return FileConflict(path, ["this file was deleted since"])
    if before is None:
        return FileConflict(path, ["the commit created this file; it was changed since"])
    mode = before.git_mode if now.git_mode == after.git_mode else now.git_mode
    if 0o120000 in (before.git_mode, after.git_mode, now.git_mode):
        return FileConflict(path, ["this is, or was, a symbolic link; it was changed since"])
    if before.data == after.data:
        return Version(now.data, mode)
    content, hunks = merge(after.data, now.data, before.data)
    return FileConflict(path, hunks) if content is None else Version(content, mode)
