"""Replacing one file of a transaction: stage, put in place, compare what came out.

PROTOCOL.md 4. What to do about a difference is the transaction's business. A directory that
was moved away takes the handle on it along: before and after, it must be where its path says.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from enum import Enum, auto

from stet.wire.failures import Refused
from stetd.failpoints import hit
from stetd.history.objects import Image
from stetd.storage.paths_on_disk import Target
from stetd.storage.worktree import OnDisk, Worktree

_COMPARED_MODE = stat.S_IFMT(0o177777) | 0o777
#: A larger file that somebody creates in the way is left for planning to refuse.
_MAX_RECORDED = 1 << 26


class Stage(Enum):
    """How far a file's replacement has come."""

    UNTOUCHED = auto()
    STAGED = auto()
    IN_PLACE = auto()


@dataclass(slots=True)
class FileWork:
    """One file of a prepared transaction."""

    target: Target
    before: OnDisk | None
    content: bytes | None
    after: Image | None
    temporary: str
    stage: Stage = Stage.UNTOUCHED
    #: What was displaced for good (a person's file, or after an abort ours).
    displaced: OnDisk | None = None
    #: A handle on what is displaced, from staging on if that is the file that was read: to compare
    #: it, and for the grace period. -1: none.
    displaced_fd: int = -1
    made_directories: list[str] = field(default_factory=list)

    def close(self) -> None:
        """Give the handle on what was displaced back."""
        fd, self.displaced_fd = self.displaced_fd, -1
        if fd >= 0:
            os.close(fd)


class Displaced(Exception):
    """Something else than what was read stood at a path when it was replaced."""

    def __init__(self, path: str, found: OnDisk | None) -> None:
        super().__init__(path)
        self.path = path
        self.found = found


def install(work: FileWork, worktree: Worktree) -> None:
    """Stage a file, put it in place, and compare what came out.

    Raises Displaced if that is not what was read, or if the file's directory was moved away;
    OSError if the disk refuses.
    """
    _check_in_place(work, worktree)
    _put_in_place(work, worktree)
    _check_in_place(work, worktree)


def _check_in_place(work: FileWork, worktree: Worktree) -> None:
    if not worktree.resolver.in_place(work.target):
        raise Displaced(work.target.path, _what_has_the_path(work, worktree))


def _put_in_place(work: FileWork, worktree: Worktree) -> None:
    if work.content is not None and work.after is not None:
        _make_directories(work, worktree)
        hit("publish.before_stage")
        work.stage = Stage.STAGED
        try:
            work.displaced_fd = worktree.stage(
                work.target, work.temporary, work.content, work.after.mode, like=work.before
            )
        except FileNotFoundError as error:  # the directory was removed
            raise Displaced(work.target.path, None) from error
        hit("publish.staged")
    if work.before is None:
        try:
            worktree.put_in(work.target, work.temporary)
        except FileExistsError as error:
            raise Displaced(work.target.path, _what_is_there(work, worktree)) from error
        work.stage = Stage.IN_PLACE
        hit("publish.in_place")
        return
    try:
        if work.content is None:
            worktree.take_out(work.target, work.temporary)
        else:
            worktree.swap(work.target, work.temporary)
    except FileNotFoundError as error:
        raise Displaced(work.target.path, _what_is_there(work, worktree)) from error
    work.stage = Stage.IN_PLACE
    hit("publish.swapped")
    if not worktree.is_out(work.target, work.temporary, work.before, work.displaced_fd):
        work.close()
        displaced = worktree.came_out(work.target, work.temporary, work.before)
        if displaced is not None:
            hit("publish.in_place")
            raise Displaced(work.target.path, displaced)
    hit("publish.in_place")


def _make_directories(work: FileWork, worktree: Worktree) -> None:
    if not work.target.missing:
        return
    try:
        worktree.make_directories(work.target, work.made_directories)
    except (NotADirectoryError, FileNotFoundError) as error:
        # A file got the directory's name, or the directory went away. Planned again, the
        # call is refused with the words for that.
        raise Displaced(work.target.path, None) from error
    hit("publish.made_directories")


def _what_is_there(work: FileWork, worktree: Worktree) -> OnDisk | None:
    """What somebody has just put at a path; None if it can't be read, or is no file."""
    try:
        return worktree.look(work.target.dir_fd, work.target.name, limit=_MAX_RECORDED)
    except (OSError, Refused):
        return None


def _what_has_the_path(work: FileWork, worktree: Worktree) -> OnDisk | None:
    """What a path leads to by now, which is not what the handle leads to; None if to no file."""
    try:
        target = worktree.resolve_exactly(work.target.path)
    except (OSError, Refused):
        return None
    try:
        return worktree.look(target.dir_fd, target.name, limit=_MAX_RECORDED)
    except (OSError, Refused):
        return None
    finally:
        target.close()


def keep_displaced(work: FileWork, displaced: OnDisk, worktree: Worktree) -> None:
    """Keep a handle on what is at the temporary name, which is about to be removed."""
    work.displaced = displaced
    if work.displaced_fd < 0:
        work.displaced_fd = worktree.keep_open(work.target, work.temporary)


def clear_temporary(work: FileWork, worktree: Worktree) -> None:
    """Remove a temporary file whose content is accounted for, if the disk lets us."""
    worktree.discard(work.target, work.temporary)


def is_image(found: OnDisk, image: Image | None) -> bool:
    """Whether what was found is what we put there (set-id bits may not be ours to keep)."""
    there = found.image
    if there is None or image is None:
        return there is image
    return there.oid == image.oid and not (there.mode ^ image.mode) & _COMPARED_MODE
