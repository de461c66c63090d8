"""The background thread that writes the objects of journal records to Git.

Calls are answered when their journal record is durable and their files are in place. Their Git
objects follow here, in order, within a second. Objects that gather meanwhile are written together:
few as loose objects, many as a pack. A reader of the history first waits for all objects that it
may know of (:meth:`GitWriter.wait_for`), which makes the thread write them at once. Checkpoints
run here as well: they sync everything written since the last one; only then may the writer drop
journal segments.

A failure (a full disk) is shown in ``status``, and the attempt is repeated; other repositories are
written meanwhile. Nothing is lost: the journal keeps its records until a checkpoint succeeds, and
that waits for all repositories. A waiting reader is told of the first failed attempt. A failed
*sync* is not repeated, because a second one may succeed although data are lost: the checkpoint is
given up, and the writer is told.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import groupby

import msgspec

from stetd.failpoints import failpoint
from stetd.history.objects import NewObject
from stetd.repository.object_files import all_loose_ids
from stetd.repository.packing import merge_packs, write_pack
from stetd.repository.shadow_repo import ShadowRepository
from stetd.repository.stored_ids import each_id
from stetd.storage.disk import Disk, SyncFailed
from stetd.storage.priority import BEHIND_EDITS, lower_priority

_log = logging.getLogger(__name__)
#: Seconds for which objects gather before they are written, and between two attempts.
_GATHER_S = 0.8
#: Seconds to wait for all that was handed over.
_PATIENCE_S = 60.0
#: Number of objects above which they are written as a pack.
_MANY = 48
#: Bytes of objects above which they are written as a pack.
_MUCH = 256 << 10
#: Number of ids of recently written objects that are kept, so as not to write these again.
_REMEMBERED = 4_000


class _Objects(msgspec.Struct, frozen=True, eq=False):
    """The objects of a record, and the head that it makes."""

    repository: str
    objects: list[NewObject]
    head: str


class _Task(msgspec.Struct, frozen=True, eq=False):
    """A function to run. ``repository`` None: it is a checkpoint."""

    repository: str | None
    run: Callable[[], None]
    #: Errors that belong to whoever asked; after others it is tried again.
    final: type[BaseException]
    future: Future[None] = msgspec.field(default_factory=Future)


_Item = _Objects | _Task


class _Unsynced(msgspec.Struct):
    """Files written to one repository since the last checkpoint, and recent objects."""

    #: The objects that were loose before the first write: a power cut may have damaged them.
    loose: frozenset[str]
    files: set[str] = set()
    #: Ids of objects recently written to this repository. Each repository has its own: the same
    #: file in two workspaces is one id, but two objects.
    recent: set[str] = set()

    def sync(self, disk: Disk, repository: str) -> None:
        if not self.files:
            return  # the repository may have been removed
        folders = {os.path.dirname(path) for path in self.files}
        # A file may be gone because somebody used plain git gc, which syncs its packs.
        for path in (*sorted(self.files), *folders):
            with suppress(FileNotFoundError):
                disk.sync_path(path)
        # Names of packs, too: a killed daemon's pack may have objects that are not written again.
        for folder in ("objects", "objects/pack", "refs/heads", "refs", "."):
            disk.sync_path(os.path.join(repository, folder))
        self.files.clear()


class Unwritten(Exception):
    """The history can't be written at present. ``args``: the reason; None if it only takes long."""


class GitWriter:
    """Writes Git objects and references, and syncs them for checkpoints, in order."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        #: What is to be done, in order, by repository; None: checkpoints.
        self._queue: dict[str | None, list[_Item]] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._hurried = False
        self._unsynced: dict[str, _Unsynced] = {}
        self._not_joining: set[str] = set()
        #: Repositories of forgotten workspaces: a person may move them away, or remove them.
        self.forgotten: set[str] = set()
        #: Why the last attempt failed; None after a success.
        self.failure: str | None = None
        #: Numbers of failed attempts, by repository; None: of checkpoints.
        self._failures: Counter[str | None] = Counter()
        #: Numbers of records that were handed over, and written, by repository. (A future for each
        #: would take more memory than small records, and many may wait.)
        self._handed_over: Counter[str] = Counter()
        self._written: Counter[str] = Counter()
        #: Called on this thread with the path of a repository that has new commits.
        self.on_commits: Callable[[str], None] = lambda _: None
        #: Called on this thread when writing fails or works again: reason (or None), failures.
        self.on_trouble: Callable[[str | None, int], None] = lambda _reason, _failures: None
        self._thread = threading.Thread(target=self._run, name="stet-git", daemon=True)
        self._thread.start()

    @property
    def failures(self) -> int:
        """The number of failed attempts."""
        return self._failures.total()

    def write(self, repository: str, objects: list[NewObject], head: str) -> None:
        """Hand over the objects of a record and the head that it makes."""
        self._put(_Objects(repository, objects, head))

    def checkpoint(self, sync_more: Callable[[], None]) -> Future[None]:
        """Write and sync all that was handed over before, then call ``sync_more``.

        The future fails only with SyncFailed; after other errors the checkpoint is tried again.
        """
        return self._later(_Task(None, lambda: self._sync(sync_more), SyncFailed))

    def run(self, repository: str, task: Callable[[], None]) -> Future[None]:
        """Run a function on this thread, after all that was handed over for this repository before.

        For changes of a repository's files: nothing is written to it meanwhile. The function is not
        tried again, and must be quick, because readers may wait for later objects.
        """
        return self._later(_Task(repository, task, BaseException))

    @contextmanager
    def not_joining(self, repository: str) -> Iterator[None]:
        """A context in which the packs of a repository are not joined."""
        self.run(repository, lambda: self._not_joining.add(repository)).result()
        try:
            yield
        finally:
            self.run(repository, lambda: self._not_joining.discard(repository)).result()

    def remove(self, repository: str, change: Callable[[], None]) -> None:
        """Remove objects while nothing is written to the repository."""

        def carry_out() -> None:
            change()
            # Before the next write: objects that were removed may have to be written again.
            if repository in self._unsynced:
                self._unsynced[repository].recent.clear()

        self.run(repository, carry_out).result()

    def _later(self, task: _Task) -> Future[None]:
        self._put(task)
        return task.future

    def _put(self, item: _Item) -> None:
        with self._changed:
            if isinstance(item, _Objects):
                self._handed_over[item.repository] += 1
            else:
                self._hurried = True
            if self._hurried or not self._queue:
                self._changed.notify_all()  # else the thread gathers, or is busy
            self._queue.setdefault(item.repository, []).append(item)

    def wait_for(self, repository: str) -> None:
        """Wait until all that was handed over for a repository is written.

        Raises Unwritten after a minute, or if an attempt fails meanwhile.
        """
        with self._changed:
            wanted, failures = self._handed_over[repository], self._failures[repository]
            if self._written[repository] >= wanted:
                return
            self._hurried = True
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: (
                    self._written[repository] >= wanted or self._failures[repository] != failures
                ),
                _PATIENCE_S,
            )
            if self._written[repository] < wanted:
                raise Unwritten(self.failure)

    def close(self) -> None:
        """Write all that was handed over, and stop; gives up after a minute."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        lower_priority(BEHIND_EDITS)
        while waiting := self._next_round():
            if self._round(waiting):
                if self.failure is not None:
                    self.failure = None
                    self.on_trouble(None, self.failures)
            elif self._stopping:
                break

    def _next_round(self) -> dict[str | None, list[_Item]]:
        """All queued items, once somebody waits for them or they have gathered long enough."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._stopping)
            if self._queue:
                self._changed.wait_for(lambda: self._hurried or self._stopping, _GATHER_S)
                self._hurried = False
            return {repository: list(items) for repository, items in self._queue.items()}

    def _round(self, waiting: dict[str | None, list[_Item]]) -> bool:
        """Carry out the queued items that can be; returns whether all were.

        A repository that can't be written delays no other repository, but all checkpoints.
        """
        checkpoints = waiting.pop(None, [])
        all_done = True
        for repository, items in waiting.items():
            # All objects up to the next task are written together.
            steps = (list(step) for _, step in groupby(items, type))
            all_done = all(self._attempt(repository, step) for step in steps) and all_done
        return all_done and all(self._attempt(None, [item]) for item in checkpoints)

    def _attempt(self, repository: str | None, items: Sequence[_Item]) -> bool:
        """Carry out items of one type; returns False if that fails, and keeps them queued."""
        try:
            self._do(items)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
            if self.failure is None:
                _log.error("writing the shadow repository failed, trying again: %s", error)
            with self._changed:
                self.failure = f"{type(error).__name__}: {error}"
                self._failures[repository] += 1
                self._changed.notify_all()
            self.on_trouble(self.failure, self.failures)
            return False
        with self._changed:
            self._written.update(item.repository for item in items if isinstance(item, _Objects))
            del self._queue[repository][: len(items)]  # only this thread removes items
            if not self._queue[repository]:
                del self._queue[repository]
            self._changed.notify_all()
        return True

    def _do(self, items: Sequence[_Item]) -> None:
        if objects := [item for item in items if isinstance(item, _Objects)]:
            self._write(objects[0].repository, objects)
        for task in (item for item in items if isinstance(item, _Task)):
            try:
                task.run()
            except task.final as error:
                task.future.set_exception(error)
            else:
                task.future.set_result(None)

    def _sync(self, sync_more: Callable[[], None]) -> None:
        failpoint("checkpoint.before_sync")
        try:
            for repository, unsynced in list(self._unsynced.items()):
                if not self._is_gone(repository):
                    unsynced.sync(self._disk, repository)
                if repository in self.forgotten:
                    del self._unsynced[repository]
            failpoint("checkpoint.git_synced")
            sync_more()
        except SyncFailed as error:
            _log.error("a sync failed, no checkpoint can be taken any more: %s", error)
            raise
        failpoint("checkpoint.synced")

    def _is_gone(self, repository: str) -> bool:
        return repository in self.forgotten and not os.path.isdir(repository)

    def _write(self, path: str, items: list[_Objects]) -> None:
        if self._is_gone(path):
            return
        repository = ShadowRepository(path)
        unsynced = self._unsynced.get(path) or _Unsynced(
            frozenset(each.hex() for each in each_id(all_loose_ids(path)))
        )
        self._unsynced[path] = unsynced
        recent = unsynced.recent
        objects = {o.oid: o for item in items for o in item.objects if o.oid not in recent}
        failpoint("git.before_objects")
        repository.clear_damaged(unsynced.loose & objects.keys())
        if len(objects) > _MANY or sum(len(each.content) for each in objects.values()) > _MUCH:
            unsynced.files.update(write_pack(path, objects.values(), self._disk))
            if path not in self._not_joining:
                unsynced.files.update(merge_packs(path, self._disk))
        else:
            repository.write(objects.values())
            unsynced.files.update(repository.loose_path(oid) for oid in objects)
        failpoint("git.before_reference")
        repository.set_head(items[-1].head)
        unsynced.files.add(repository.reference_path)
        failpoint("git.done")
        self.on_commits(path)
        if len(recent) > _REMEMBERED:
            recent.clear()
        recent.update(objects)
