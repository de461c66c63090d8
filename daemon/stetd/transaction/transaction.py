"""The commit protocol, PROTOCOL.md 4-7: a sealed transaction is published, or aborted.

sealing.seal(draft)     what the call will do, as one journal record; nothing has changed yet
(the writer appends the records of a batch and syncs once: from here on they happen)
Prepared.publish()      path by path: stage, exchange, compare what came out
abort(...)              something else came out, or the disk refused: one synced record voids
the call and the later ones of its batch, then files are put back
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from stet.wire.failures import Refused
from stet.wire.results import EditResult
from stetd.failpoints import failpoint
from stetd.history.excluding import NOTHING_EXCLUDED, Excludes
from stetd.history.objects import Image, LoadTree, NewObject
from stetd.session.sessions import Session
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import Abort, Change, Published
from stetd.storage.paths_on_disk import Target
from stetd.storage.worktree import COMPARED_MODE, OnDisk, Worktree
from stetd.transaction.heads import Found, Head, History, outside_changes, parted, seal_found

_log = logging.getLogger(__name__)
#: A larger file that somebody creates in the way is left for planning to refuse.
_MAX_RECORDED = 1 << 26


@dataclass(slots=True)
class FileWork:
    """One file of a prepared transaction."""

    target: Target
    before: OnDisk | None
    content: bytes | None
    after: Image | None
    temporary: str
    #: The names were exchanged: what is at the path is ours.
    in_place: bool = False
    #: What was displaced for good (a person's file, or after an abort ours).
    displaced: OnDisk | None = None
    #: A handle on what is displaced, from staging on if that is the file that was read: to compare
    #: it, and for the grace period. -1: none.
    displaced_fd: int = -1
    made_directories: list[str] = field(default_factory=list)

    @property
    def image(self) -> Image | None:
        """What was there before."""
        return self.before.image if self.before is not None else None

    @property
    def changes(self) -> bool:
        """Whether it is something else afterwards."""
        return self.image != self.after

    def close(self) -> None:
        """Give the handle on what was displaced back."""
        fd, self.displaced_fd = self.displaced_fd, -1
        if fd >= 0:
            os.close(fd)


class Displaced(Exception):
    """The file that was replaced was not the one that had been read."""

    def __init__(self, path: str, found: OnDisk | None) -> None:
        super().__init__(path)
        self.path = path
        self.found = found


@dataclass(slots=True)
class Prepared:
    """A sealed transaction. Once its record is durable it must be published or aborted."""

    record: Change
    result: EditResult
    files: list[FileWork]
    objects: list[NewObject]
    head: Head
    session: Session | None
    targets: list[Target]
    #: Only what would happen: never to be published.
    preview: bool = False
    #: It is recorded also where it changes nothing: a later call asks what it answered.
    noted: bool = False

    @property
    def abort_reserve(self) -> int:
        """Journal space that aborting this may take: every image again, and some more."""
        return 4096 + sum(
            1024 + (work.before.size if work.before else 0) + len(work.content or b"")
            for work in self.files
        )

    def publish(self, worktree: Worktree) -> None:
        """Put every file in place (PROTOCOL.md 4). Temporary files stay until all are verified.

        Raises Displaced or OSError; the caller then aborts. Once all files are verified
        nothing is raised any more: the call has happened.
        """
        for work in self.files:
            install(work, worktree)
        failpoint("publish.before_discard")
        for work in self.files:
            if work.before is not None:
                keep_displaced(work, work.before, worktree)
                worktree.discard(work.target, work.temporary)
                failpoint("publish.discarded")
        for directory in self.record.leftover_directories:
            worktree.remove_directory(directory)
        failpoint("publish.done")

    def close(self) -> None:
        """Give the directory handles back."""
        for target in self.targets:
            target.close()
        for work in self.files:
            work.close()


# -- one file: stage, exchange, compare


def install(work: FileWork, worktree: Worktree) -> None:
    """Stage a file, put it in place, and compare what came out.

    Raises Displaced if that is not what was read, or if the file's directory was moved away;
    OSError, with the file's path, if the disk refuses.
    """
    _check_in_place(work, worktree)
    try:
        _put_in_place(work, worktree)
    except OSError as error:
        error.filename = work.target.path
        raise
    _check_in_place(work, worktree)


def _check_in_place(work: FileWork, worktree: Worktree) -> None:
    if not worktree.resolver.in_place(work.target):
        raise Displaced(work.target.path, _what_has_the_path(work, worktree))


def _put_in_place(work: FileWork, worktree: Worktree) -> None:
    if work.content is not None and work.after is not None:
        _make_directories(work, worktree)
        failpoint("publish.before_stage")
        try:
            work.displaced_fd = worktree.stage(
                work.target, work.temporary, work.content, work.after.mode, like=work.before
            )
        except FileNotFoundError as error:  # the directory was removed
            raise Displaced(work.target.path, None) from error
        failpoint("publish.staged")
        if worktree.kept_mode(work.target, work.after.mode) != work.after.mode:
            # Files have another mode here (FAT, NTFS): planned again, the call says so.
            raise Displaced(work.target.path, work.before)
    if work.before is None:
        try:
            worktree.put_in(work.target, work.temporary)
        except FileExistsError as error:
            raise Displaced(work.target.path, _what_is_there(work, worktree)) from error
        work.in_place = True
        failpoint("publish.in_place")
        return
    try:
        if work.content is None:
            worktree.take_out(work.target, work.temporary)
        else:
            worktree.swap(work.target, work.temporary)
    except FileNotFoundError as error:
        raise Displaced(work.target.path, _what_is_there(work, worktree)) from error
    work.in_place = True
    failpoint("publish.swapped")
    if not worktree.is_out(work.target, work.temporary, work.before, work.displaced_fd):
        work.close()
        displaced = worktree.came_out(work.target, work.temporary, work.before)
        if displaced is not None:
            failpoint("publish.in_place")
            raise Displaced(work.target.path, displaced)
    failpoint("publish.in_place")


def _make_directories(work: FileWork, worktree: Worktree) -> None:
    if not work.target.missing:
        return
    try:
        worktree.make_directories(work.target, work.made_directories)
    except (NotADirectoryError, FileNotFoundError) as error:
        # A file got the directory's name, or the directory went away. Planned again, the
        # call is refused with the words for that.
        raise Displaced(work.target.path, None) from error
    failpoint("publish.made_directories")


def _what_is_there(work: FileWork, worktree: Worktree) -> OnDisk | None:
    """What somebody has just put at a path; None if it can't be read, or is no file."""
    try:
        return worktree.look(work.target.dir_fd, work.target.name, limit=_MAX_RECORDED)
    except (OSError, Refused):
        return None


def _what_has_the_path(work: FileWork, worktree: Worktree) -> OnDisk | None:
    """What a path leads to by now, which is not what the handle leads to; None if to no file."""
    try:
        with worktree.resolve_exactly(work.target.path) as target:
            return worktree.look(target.dir_fd, target.name, limit=_MAX_RECORDED)
    except (OSError, Refused):
        return None


def keep_displaced(work: FileWork, displaced: OnDisk, worktree: Worktree) -> None:
    """Keep a handle on what is at the temporary name, which is about to be removed."""
    work.displaced = displaced
    if work.displaced_fd < 0:
        work.displaced_fd = worktree.keep_open(work.target, work.temporary)


def is_image(found: OnDisk, image: Image | None) -> bool:
    """Whether what was found is what we put there (set-id bits may not be ours to keep)."""
    there = found.image
    if there is None or image is None:
        return there is image
    return there.oid == image.oid and not (there.mode ^ image.mode) & COMPARED_MODE


# -- aborting


def abort(
    voided: Sequence[Prepared],
    cause: Exception,
    *,
    base: Head,
    number: int,
    time: int,
    journal: Journal,
    worktree: Worktree,
    load: LoadTree,
    excludes: Excludes = NOTHING_EXCLUDED,
) -> tuple[Found[Abort], int]:
    """Void ``voided[0]``, which failed to publish, and the later records of its batch; gives what
    was found meanwhile, and the number of the last record.

    One record, synced before anything is put back (PROTOCOL.md 6): it names for every
    path the image that holds afterwards and keeps what was displaced. ``base`` is the
    head before the first voided record. Raises OSError or JournalBroken if the record
    can't be written or a file can't be put back; all that can be is put back even then.
    """
    history = History(base, load, time, excludes)
    stands, displaced_blobs = _what_stands(voided, cause)
    blobs, private = parted(displaced_blobs, [stands], excludes)
    for prepared in voided:
        for commit in prepared.record.commits:
            if commit.meta.kind == "outside":
                history.add(commit.meta, commit.changes)
                found = {image.oid for image in commit.changes.values() if image}
                blobs.update({o: data for o, data in prepared.record.blobs.items() if o in found})
    displaced, _ = outside_changes(history.head, stands, load, excludes)
    if displaced:
        history.add_outside(displaced, "changed outside")
    record = Abort(
        number=number,
        workspace=voided[0].record.workspace,
        voided=[prepared.record.number for prepared in voided],
        parent=base.commit,
        stands=stands,
        commits=history.commits,
        blobs=blobs,
        time=time,
        private=private,
    )
    put_back = PutBack(worktree, journal, history, number, record.workspace)
    failpoint("abort.before_record")
    try:
        journal.append(record)
        journal.sync()
    finally:
        failpoint("abort.before_put_back")
        put_back.restore_all(voided[0].files)
    mark_published(journal, *range(number, put_back.number + 1))
    failpoint("abort.done")
    return Found(record, history), put_back.number


def _what_stands(
    voided: Sequence[Prepared], cause: Exception
) -> tuple[dict[str, Image | None], dict[str, bytes]]:
    """For every voided path the image that holds once all is put back, and new contents."""
    stands: dict[str, Image | None] = {}
    blobs: dict[str, bytes] = {}
    for prepared in voided:
        for work in prepared.files:
            stands.setdefault(work.target.path, work.image)
    if isinstance(cause, Displaced):
        # Every path is named, or recovery would take the voided image for the last one.
        stands[cause.path] = cause.found.image if cause.found else None
        if cause.found is not None and cause.found.data is not None:
            blobs[cause.found.oid] = cause.found.data
    return stands, blobs


def mark_published(journal: Journal, *numbers: int) -> None:
    """Mark records as carried out: a hint for recovery; without it, it looks a second time."""
    try:
        journal.append(*(Published(number) for number in numbers))
    except (OSError, JournalBroken):
        _log.warning("could not mark record %d as published", numbers[0])


@dataclass(slots=True)
class PutBack:
    """Putting files back after an abort (PROTOCOL.md 7).

    Each swap expects what we last put in place. Anything else that comes out was saved
    by somebody in between: it is journalled and becomes what is put in next. These
    records have numbers up to ``number``; the caller marks them with its own.
    """

    worktree: Worktree
    journal: Journal
    history: History
    number: int
    workspace: str

    def restore_all(self, works: Sequence[FileWork]) -> None:
        """Take all files back, the last first. What fails does not keep the others."""
        failures: list[Exception] = []
        for work in reversed(works):
            try:
                self.restore(work)
            except (OSError, JournalBroken) as error:
                _log.error("%s could not be put back: %s", work.target.path, error)
                failures.append(error)
        if failures:
            raise failures[0]

    def restore(self, work: FileWork, *, record_displaced: bool = False) -> None:
        """Take one file back to what was displaced.

        ``record_displaced``: what came out is not known to the journal yet; record it.
        """
        work.close()  # from now on it is our text that is displaced
        if record_displaced and work.before is not None and work.in_place:
            self._found(work, self.worktree.look(work.target.dir_fd, work.temporary))
        if work.in_place:
            if work.before is None:
                self._take_out_again(work)
            elif work.content is None:
                self._put_in_again(work)
            else:
                self._swap_back(work)
        self.worktree.discard(work.target, work.temporary)
        self.worktree.remove_made(work.target, work.made_directories)

    def _swap_back(self, work: FileWork) -> None:
        """Swap until what comes out is what we last put in.

        Saves that come out are journalled, but not synced, before they go back in: the
        longer that takes, the likelier the next save lands meanwhile, and somebody who
        saves in a loop would keep the writer here. Until then a save is also in the
        temporary file, which recovery looks into.
        """
        last_put = work.after
        saved_meanwhile = False
        while True:
            coming = self._image_at_temporary(work)
            try:
                self.worktree.swap(work.target, work.temporary)
            except FileNotFoundError:
                # Our transient text was deleted: deleted it stays, and that is recorded.
                self._found(work, None)
                return
            failpoint("abort.swapped_back")
            out = self.worktree.look(work.target.dir_fd, work.temporary)
            if is_image(out, last_put):
                keep_displaced(work, out, self.worktree)
                break
            self._found(work, out, sync=False)
            saved_meanwhile = True
            last_put = coming
        if saved_meanwhile:
            self.journal.sync()

    def _image_at_temporary(self, work: FileWork) -> Image | None:
        """What is about to be put in; None if it can't be read, which must not keep it out."""
        try:
            return self.worktree.look(work.target.dir_fd, work.temporary).image
        except OSError:
            return None

    def _take_out_again(self, work: FileWork) -> None:
        try:
            self.worktree.take_out(work.target, work.temporary)
        except FileNotFoundError:
            return
        out = self.worktree.look(work.target.dir_fd, work.temporary)
        if is_image(out, work.after):
            keep_displaced(work, out, self.worktree)
        else:
            self._found(work, out)
            self._put_in_again(work)

    def _put_in_again(self, work: FileWork) -> None:
        try:
            self.worktree.put_in(work.target, work.temporary)
        except FileExistsError:
            # Somebody's newer file is there; what we hold is in the history already.
            return

    def _found(self, work: FileWork, out: OnDisk | None, *, sync: bool = True) -> None:
        self.number += 1
        found = seal_found(
            [("changed outside", {work.target.path: out.image if out else None})],
            {out.oid: out.data} if out and out.data is not None else {},
            self.history.continued(),
            number=self.number,
            workspace=self.workspace,
        )
        self.history.head = found.history.head
        self.history.objects += found.objects
        # Not done until the caller marks it: it may still have to be put in place.
        self.journal.append(msgspec.structs.replace(found.record, performed=False))
        if sync:
            self.journal.sync()
