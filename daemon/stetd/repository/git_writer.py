"""The background thread that writes the objects of journal records to Git.

Calls are answered when their journal record is durable and their files are in place. Their Git
objects follow here, in order, within a second. Objects that gather meanwhile are written together:
few as loose objects, many as a pack. A reader of the history first waits for all objects that it
may know of (:meth:`GitWriter.wait_for`), which makes the thread write them at once. Checkpoints
run here as well: they sync everything written since the last one; only then may the writer drop
journal segments.

Objects that can't be written (a full disk) are tried again, and ``status`` shows why; other
repositories are written meanwhile. Nothing is lost: the journal keeps its records until a
checkpoint succeeds. A task is not tried again: it fails if objects before it can't be written, and
whoever gave it may give it again. Readers and checkpoints are tasks, too.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

import msgspec

from stetd.failpoints import failpoint
from stetd.history.objects import NewObject
from stetd.repository.packing import merge_packs, write_pack
from stetd.repository.shadow_repo import ShadowRepository
from stetd.repository.stored_ids import all_loose_ids, each_id
from stetd.storage.disk import Disk
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


class _Objects(msgspec.Struct, frozen=True):
    repository: str
    objects: list[NewObject]
    head: str


class _Task(msgspec.Struct, frozen=True):
    """``repository`` None: for all of them."""

    repository: str | None
    run: Callable[[], None]
    future: Future[None]


class _Unsynced(msgspec.Struct):
    """Files written to one repository since the last checkpoint."""

    #: The objects that were loose before the first write: a power cut may have damaged them.
    loose: frozenset[str]
    files: set[str] = set()

    def sync(self, disk: Disk, repository: str) -> None:
        if not self.files:
            return  # the repository may have been removed
        folders = {os.path.dirname(path) for path in self.files}
        # A file may be gone because somebody used plain git gc, which syncs its packs.
        for path in sorted(self.files):
            with suppress(FileNotFoundError):
                disk.sync_path(path)
        for folder in folders:
            with suppress(FileNotFoundError):
                disk.sync_directory(folder)
        # Names of packs, too: a killed daemon's pack may have objects that are not written again.
        for folder in ("objects", "objects/pack", "refs/heads", "refs", "."):
            disk.sync_directory(os.path.join(repository, folder))
        self.files.clear()


class Unwritten(Exception):
    """The history can't be written at present. ``args``: the reason; None if it only takes long."""


class GitWriter:
    """Writes Git objects and references, and syncs them for checkpoints, in order."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._queue: list[_Objects | _Task] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._hurried = False
        self._unsynced: dict[str, _Unsynced] = {}
        #: By repository, the lock that whoever joins its packs holds.
        self.joining: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        #: Why the last attempt to write objects failed; None after a success.
        self.failure: str | None = None
        #: Called on this thread with the path of a repository that has new commits.
        self.on_commits: Callable[[str], None] = lambda _: None
        #: Called on this thread with the reason when writing fails, with None when it works again.
        self.on_trouble: Callable[[str | None], None] = lambda _: None
        self._thread = threading.Thread(target=self._run, name="stet-git", daemon=True)
        self._thread.start()

    def write(self, repository: str, objects: list[NewObject], head: str) -> None:
        """Hand over the objects of a record and the head that it makes."""
        self._put(_Objects(repository, objects, head))

    def checkpoint(self, sync_more: Callable[[], None]) -> Future[None]:
        """Sync all that was handed over before, then call ``sync_more``; see :meth:`run`."""
        return self.run(None, lambda: self._sync(sync_more))

    def run(self, repository: str | None, task: Callable[[], None]) -> Future[None]:
        """Run a function on this thread, after all that was handed over for this repository before
        (None: for any). The future fails as the function does, or with Unwritten.

        Nothing is written meanwhile. It must be quick, because readers may wait for later objects.
        """
        future: Future[None] = Future()
        self._put(_Task(repository, task, future))
        return future

    def _put(self, item: _Objects | _Task) -> None:
        with self._changed:
            self._queue.append(item)
            self._hurried = self._hurried or isinstance(item, _Task)
            if len(self._queue) == 1 or self._hurried:
                self._changed.notify_all()  # else the thread gathers, or is busy

    def wait_for(self, repository: str) -> None:
        """Wait until all that was handed over for a repository is written.

        Raises Unwritten after a minute, or if that fails meanwhile.
        """
        with self._changed:
            objects = (each for each in self._queue if isinstance(each, _Objects))
            if not any(each.repository == repository for each in objects):
                return
        try:
            self.run(repository, lambda: None).result(_PATIENCE_S)
        except TimeoutError as error:
            raise Unwritten(self.failure) from error

    def close(self) -> None:
        """Write all that was handed over, and stop; gives up after a minute."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        lower_priority(BEHIND_EDITS)
        while items := self._next_items():
            if self._round(items):
                if self.failure is not None:
                    self.failure = None
                    self.on_trouble(None)
            elif self._stopping:
                break

    def _next_items(self) -> Sequence[_Objects | _Task]:
        """All queued items, once somebody waits for them or they have gathered long enough."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._stopping)
            if self._queue:
                self._changed.wait_for(lambda: self._hurried or self._stopping, _GATHER_S)
                self._hurried = False
            return list(self._queue)

    def _round(self, items: Sequence[_Objects | _Task]) -> bool:
        """Write the queued objects, then run the tasks; returns whether all objects were written.

        A repository that can't be written delays no other one, but keeps its objects queued.
        """
        objects: defaultdict[str, list[_Objects]] = defaultdict(list)
        for item in items:
            if isinstance(item, _Objects):
                objects[item.repository].append(item)
        failed: set[str | None] = set()
        for repository, own in objects.items():
            try:
                self._write(repository, own)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                failed |= {repository, None}
                self._note(error)
            else:
                self._unqueue(own)
        tasks = [item for item in items if isinstance(item, _Task)]
        self._unqueue(tasks)
        # Those for all repositories last: a checkpoint takes long.
        for task in sorted(tasks, key=lambda each: each.repository is None):
            try:
                if task.repository in failed:
                    raise Unwritten(self.failure)
                task.run()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
                task.future.set_exception(error)
            else:
                task.future.set_result(None)
        return not failed

    def _note(self, error: Exception) -> None:
        if self.failure is None:
            _log.error("writing the shadow repository failed, trying again: %s", error)
        self.failure = f"{type(error).__name__}: {error}"
        self.on_trouble(self.failure)

    def _unqueue(self, items: Sequence[_Objects | _Task]) -> None:
        done = set(map(id, items))
        with self._changed:
            self._queue = [item for item in self._queue if id(item) not in done]

    def _sync(self, sync_more: Callable[[], None]) -> None:
        failpoint("checkpoint.before_sync")
        for repository, unsynced in self._unsynced.items():
            unsynced.sync(self._disk, repository)
        failpoint("checkpoint.git_synced")
        sync_more()
        failpoint("checkpoint.synced")

    def _write(self, path: str, items: list[_Objects]) -> None:
        repository = ShadowRepository(path)
        unsynced = self._unsynced.get(path) or _Unsynced(
            frozenset(each.hex() for each in each_id(all_loose_ids(path)))
        )
        self._unsynced[path] = unsynced
        objects = {each.oid: each for item in items for each in item.objects}
        failpoint("git.before_objects")
        repository.clear_damaged(unsynced.loose & objects.keys())
        unsynced.loose -= objects.keys()
        if len(objects) > _MANY or sum(len(each.content) for each in objects.values()) > _MUCH:
            unsynced.files.update(write_pack(path, objects.values(), self._disk))
            if self.joining[path].acquire(blocking=False):  # else gc does it
                try:
                    unsynced.files.update(merge_packs(path, self._disk))
                finally:
                    self.joining[path].release()
        else:
            repository.write(objects.values())
            unsynced.files.update(repository.loose_path(oid) for oid in objects)
        failpoint("git.before_reference")
        repository.set_head(items[-1].head)
        unsynced.files.add(repository.reference_path)
        failpoint("git.done")
        self.on_commits(path)
