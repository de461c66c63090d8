"""The commit protocol (ARCHITECTURE.md 4): publish a sealed transaction, or abort it.

1. ``sealing.seal(draft)`` makes one journal record of all that the call will do. No file changes.
2. The writer appends the records of a batch and syncs once. From here on the calls will happen.
3. ``Prepared.publish()``, file by file: stage, exchange, compare the displaced file with the one
   that planning read.
4. ``abort()``, if they differ or the disk refuses: one synced record voids the call and the later
   calls of its batch. Then the files are restored.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from stet.wire.failures import Refused
from stet.wire.results import EditResult
from stetd.failpoints import failpoint
from stetd.history.objects import Image, NewObject
from stetd.session.sessions import Session
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import Abort, Change, PathChange, Published
from stetd.storage.paths_on_disk import Target
from stetd.storage.worktree import OnDisk, Worktree
from stetd.transaction.heads import (
    Head,
    HistoryBuilder,
    outside_changes,
    seal_outside,
    split_blobs,
)

_log = logging.getLogger(__name__)
#: Bytes. A larger file at a path counts as unreadable here. The call is planned again, and planning
#: refuses it.
_MAX_RECORDED = 1 << 26


class PreparedFile(msgspec.Struct):
    """One file of a prepared transaction."""

    target: Target
    before: OnDisk | None
    content: bytes | None
    after: Image | None
    temporary: str
    #: The exchange (or the rename, of a file created or deleted) is done.
    in_place: bool = False
    #: The file that the exchange moved to the temporary name: the one before; after an abort, ours.
    displaced: OnDisk | None = None
    #: Descriptor of the displaced file; -1: none. Staging opens it if the path still has the file
    #: that planning read. It serves to compare that file, and to watch it for late writes.
    displaced_fd: int = -1
    made_directories: list[str] = []

    @property
    def before_image(self) -> Image | None:
        """The image of the file before the call."""
        return self.before.image if self.before is not None else None

    @property
    def changes(self) -> bool:
        """Whether the call changes the file."""
        return self.before_image != self.after

    @property
    def path_change(self) -> PathChange:
        """The change as the journal has it."""
        return PathChange(self.target.path, self.before_image, self.after, self.temporary)

    def close(self) -> None:
        """Close the descriptor of the displaced file."""
        fd, self.displaced_fd = self.displaced_fd, -1
        if fd >= 0:
            os.close(fd)


class Displaced(Exception):
    """The path has changed since planning, or can't take the new content. Plan again.

    ``found``: the file that the abort records for the path; None: no file, or it can't be read.
    """

    def __init__(self, path: str, found: OnDisk | None) -> None:
        super().__init__(path)
        self.path = path
        self.found = found


class Prepared(msgspec.Struct):
    """A sealed transaction. Once its record is durable it must be published or aborted."""

    record: Change
    result: EditResult
    files: list[PreparedFile]
    objects: list[NewObject]
    head: Head
    session: Session | None
    targets: list[Target]
    #: The client wants to see the result only: never published.
    preview: bool = False
    #: Record the call even if it changes nothing: a later call reads its reply.
    journal_if_unchanged: bool = False

    @property
    def abort_reserve(self) -> int:
        """The most bytes of an abort record: contents before and after, 1 KiB a file, and 4 KiB."""
        return 4096 + sum(
            1024 + (work.before.size if work.before else 0) + len(work.content or b"")
            for work in self.files
        )

    def publish(self, worktree: Worktree) -> None:
        """Put every file in place (step 4). Temporary files stay until all are verified.

        Raises Displaced or OSError; the caller then aborts. Nothing is raised once all files
        are verified: the call has happened.
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
        """Close all descriptors."""
        for target in self.targets:
            target.close()
        for work in self.files:
            work.close()


# -- one file: stage, exchange, compare


def install(work: PreparedFile, worktree: Worktree) -> None:
    """Stage a file, exchange it with the one at its path, and compare that with what was read.

    Raises Displaced if they differ, or if somebody has changed the names on the way: the path, a
    directory above it, the temporary file; OSError, with the file's path, if the disk refuses.
    """
    _check_directory(work, worktree)
    try:
        # An earlier call of the batch may have made them, also for a file that is deleted now.
        if work.target.missing:
            worktree.make_directories(work.target, work.made_directories)
            failpoint("publish.made_directories")
        if work.content is not None and work.after is not None:
            _stage(work, work.content, work.after.mode, worktree)
        if work.before is None:
            worktree.rename_in(work.target, work.temporary)
            work.in_place = True
            failpoint("publish.in_place")
        else:
            _replace(work, work.before, worktree)
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
        raise Displaced(work.target.path, _read_path(work, worktree)) from error
    except OSError as error:
        error.filename = work.target.path
        raise
    _check_directory(work, worktree)  # it may have been moved since the first check


def _check_directory(work: PreparedFile, worktree: Worktree) -> None:
    if not worktree.resolver.in_place(work.target):
        raise Displaced(work.target.path, _read_path(work, worktree))


def _read_path(work: PreparedFile, worktree: Worktree) -> OnDisk | None:
    """The file at the path now; None if it can't be read, or is no file."""
    with suppress(OSError, Refused):
        return worktree.read_path(work.target.path, _MAX_RECORDED)
    return None


def _stage(work: PreparedFile, content: bytes, mode: int, worktree: Worktree) -> None:
    """Write the new content to the temporary file."""
    failpoint("publish.before_stage")
    work.displaced_fd = worktree.stage(work.target, work.temporary, content, mode, like=work.before)
    failpoint("publish.staged")
    if worktree.resulting_mode(work.target, mode) != mode:
        # This file system keeps no modes (FAT, NTFS), as staging has just found out. Planned again,
        # record and reply have the mode that the file will have.
        raise Displaced(work.target.path, work.before)


def _replace(work: PreparedFile, before: OnDisk, worktree: Worktree) -> None:
    """Exchange the file with the temporary one, or rename it out; compare what was displaced."""
    if work.content is None:
        worktree.rename_out(work.target, work.temporary)
    else:
        worktree.swap(work.target, work.temporary)
    work.in_place = True
    failpoint("publish.swapped")
    displaced = None
    if not worktree.matches_descriptor(work.target, work.temporary, before, work.displaced_fd):
        work.close()
        displaced = worktree.compare_displaced(work.target, work.temporary, before)
    failpoint("publish.in_place")
    if displaced is not None:
        raise Displaced(work.target.path, displaced)


def keep_displaced(work: PreparedFile, displaced: OnDisk, worktree: Worktree) -> None:
    """Keep a descriptor of the file at the temporary name, which is about to be removed."""
    work.displaced = displaced
    if work.displaced_fd < 0:
        work.displaced_fd = worktree.open_displaced(work.target, work.temporary)


# -- aborting


def abort(
    voided: Sequence[Prepared],
    cause: Exception,
    *,
    history: HistoryBuilder,
    number: int,
    journal: Journal,
    worktree: Worktree,
) -> tuple[Abort, int]:
    """Void ``voided[0]``, which failed to publish, and the later records of its batch.

    One record, with this ``number``, is synced before any file is restored (step 6). It
    names for every path the image that holds afterwards, and keeps the displaced content.
    ``history`` is at the head before the first voided record; all commits are added to it.

    Returns the record, and the number of the last one: each save that is found while restoring is
    one more record. Raises OSError or JournalBroken if a record can't be written or a file can't be
    restored; all other files are restored even then.
    """
    parent = history.head.commit
    images, displaced_blobs = _images_after_abort(voided, cause)
    blobs, private = split_blobs(displaced_blobs, [images], history.excludes)
    for prepared in voided:
        for commit in prepared.record.commits:
            # The abort voids the call, not the outside edits that were found with it.
            if commit.meta.kind == "outside":
                history.add(commit.meta, commit.changes)
                found = {image.oid for image in commit.changes.values() if image}
                blobs.update({o: data for o, data in prepared.record.blobs.items() if o in found})
    outside, _ = outside_changes(history, images)
    if outside:
        history.add_outside(outside, "changed outside")
    record = Abort(
        number=number,
        workspace=voided[0].record.workspace,
        voided=[prepared.record.number for prepared in voided],
        parent=parent,
        stands=images,
        commits=history.commits,
        blobs=blobs,
        time=history.time,
        private=private,
    )
    restorer = Restorer(worktree, journal, history, number, record.workspace)
    failpoint("abort.before_record")
    try:
        journal.append(record)
        journal.sync()
    finally:
        failpoint("abort.before_put_back")
        restorer.restore_all(voided[0].files)
    mark_published(journal, *range(number, restorer.number + 1))
    failpoint("abort.done")
    return record, restorer.number


def _images_after_abort(
    voided: Sequence[Prepared], cause: Exception
) -> tuple[dict[str, Image | None], dict[str, bytes]]:
    """For every voided path the image that holds once the files are restored, and new contents."""
    images: dict[str, Image | None] = {}
    blobs: dict[str, bytes] = {}
    for prepared in voided:
        for work in prepared.files:
            images.setdefault(work.target.path, work.before_image)
    if isinstance(cause, Displaced):
        # Also if no file is there: else recovery would take the voided image for the last one.
        images[cause.path] = cause.found.image if cause.found else None
        if cause.found is not None and cause.found.data is not None:
            blobs[cause.found.oid] = cause.found.data
    return images, blobs


def mark_published(journal: Journal, *numbers: int) -> None:
    """Mark records as carried out. A failure is only logged: recovery then checks their files."""
    try:
        journal.append(*(Published(number) for number in numbers))
    except (OSError, JournalBroken):
        _log.warning("could not mark record %d as published", numbers[0])


class Restorer(msgspec.Struct):
    """Restores files after an abort (step 7).

    Each exchange must displace the content that we put in place last. Any other file was saved
    in between: it is journalled, and goes in place next. ``number`` is that of the last record;
    the caller marks the new records as published together with its own.
    """

    worktree: Worktree
    journal: Journal
    history: HistoryBuilder
    number: int
    workspace: str

    def restore_all(self, works: Sequence[PreparedFile]) -> None:
        """Restore all files, the last first. Raises the first error, after all were tried."""
        failures: list[Exception] = []
        for work in reversed(works):
            try:
                self.restore(work)
            except (OSError, JournalBroken) as error:
                _log.error("%s could not be put back: %s", work.target.path, error)
                failures.append(error)
        if failures:
            raise failures[0]

    def restore(self, work: PreparedFile, *, record_displaced: bool = False) -> None:
        """Restore one file to what it was, or to what was saved since.

        ``record_displaced``: the journal does not have the displaced file yet; record it first.
        """
        work.close()  # it was of the original; what is displaced from now on is ours
        if record_displaced and work.before is not None and work.in_place:
            self._record_outside(work, self._read_temporary(work))
        if work.in_place:
            if work.before is None:
                self._remove_created(work)
            elif work.content is None:
                self._rename_back(work)
            else:
                self._swap_back(work)
        self.worktree.discard(work.target, work.temporary)
        self.worktree.remove_made(work.target, work.made_directories)

    def _swap_back(self, work: PreparedFile) -> None:
        """Exchange until the displaced file is the one that we put in place last.

        A displaced save is journalled before it goes in place again, but synced only at the end:
        until then it is also in the temporary file, where recovery finds it. If each save were
        synced, a program that saves in a loop would always save again meanwhile.
        """
        last_put = work.after
        needs_sync = False
        while True:
            next_put = None  # it can't be read, which is no obstacle
            with suppress(OSError):
                next_put = self._read_temporary(work).image
            try:
                self.worktree.swap(work.target, work.temporary)
            except FileNotFoundError:
                # Somebody deleted our transient content: the deletion is recorded, and stays.
                self._record_outside(work, None)
                if next_put is None:  # a directory: the history can't keep it
                    self._rename_back(work)
                return
            failpoint("abort.swapped_back")
            try:
                displaced = self._read_temporary(work)
            except FileNotFoundError:  # somebody removed it, perhaps with its directory
                break
            if displaced.has_image(last_put):
                keep_displaced(work, displaced, self.worktree)
                break
            self._record_outside(work, displaced, sync=False)
            needs_sync = True
            last_put = next_put
        if needs_sync:
            self.journal.sync()

    def _read_temporary(self, work: PreparedFile) -> OnDisk:
        return self.worktree.read_name(work.target, work.temporary)

    def _remove_created(self, work: PreparedFile) -> None:
        try:
            self.worktree.rename_out(work.target, work.temporary)
            displaced = self._read_temporary(work)
        except FileNotFoundError:
            return
        if displaced.has_image(work.after):
            keep_displaced(work, displaced, self.worktree)
        else:
            self._record_outside(work, displaced)
            self._rename_back(work)

    def _rename_back(self, work: PreparedFile) -> None:
        # If a newer file is there it stays, and if all was removed, too: the history has the
        # displaced one already.
        with suppress(FileExistsError, FileNotFoundError):
            self.worktree.rename_in(work.target, work.temporary)

    def _record_outside(
        self, work: PreparedFile, file: OnDisk | None, *, sync: bool = True
    ) -> None:
        """Journal what somebody has done to a file meanwhile; None: deleted it."""
        self.number += 1
        history = msgspec.structs.replace(self.history, commits=[], objects=[])
        record = seal_outside(
            [("changed outside", {work.target.path: file.image if file else None})],
            {file.oid: file.data} if file and file.data is not None else {},
            history,
            number=self.number,
            workspace=self.workspace,
        )
        self.history.head = history.head
        self.history.objects += history.new_objects(record.blobs)
        # performed=False: until the caller marks it, recovery has to put it in place.
        self.journal.append(msgspec.structs.replace(record, performed=False))
        if sync:
            self.journal.sync()
