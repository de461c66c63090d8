"""Checkpoints: from the journal to where things are kept (PROTOCOL.md 8).

The writer takes the watermark and the snapshot; a thread syncs the workspace's files, and the
historian Git; the writer writes the checkpoint record and drops what is older. In that order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from stet.wire.failures import Refused
from stetd.config.settings import Settings
from stetd.failpoints import failpoint
from stetd.processes.historian_client import Historian, HistorianLost
from stetd.processes.historian_messages import Base
from stetd.state.state import State
from stetd.storage.disk import SyncFailed
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import Checkpoint
from stetd.storage.request_record import RequestRecord

_log = logging.getLogger(__name__)


class Checkpoints:
    """Takes checkpoints. ``make_read_only`` is called when none can be taken any more."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        historian: Historian,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        make_read_only: Callable[[str], None],
    ) -> None:
        self._state = state
        self._journal = journal
        self._historian = historian
        self._loop = loop
        self.settings = settings
        self._make_read_only = make_read_only
        self._given_up = False
        self._waiting: list[Callable[[], None]] = []
        self._not_before = 0.0
        self._fresh = False
        self.running = False
        #: Called before the snapshot: what is let go now is in no checkpoint.
        self.on_begin: Callable[[], None] = lambda: None
        #: Called when one has ended: the next may be due by now.
        self.on_end: Callable[[], None] = lambda: None
        #: What ``State.unsynced`` was when the one began that runs; it comes back if that fails.
        self.syncing: dict[str, set[str]] = {}
        #: The newest one that is durable, of those that this daemon has taken.
        self.recorded: Checkpoint | None = None
        #: Something has been journalled since the last one was begun.
        self.needed = False

    def give_up(self) -> None:
        """Take none any more: only the journal is to be trusted."""
        self._given_up = True

    def due_in(self, last_work: float) -> float | None:
        """Seconds until one is due if nothing happens any more; None if none is needed."""
        if not self.needed or self.running or self._given_up:
            return None
        since = last_work
        if self._journal.private_since is not None:  # calls must not keep it in the journal
            since = min(since, self._journal.private_since)
        due = max(since + self.settings.checkpoint_idle_s, self._not_before)
        return max(0.0, due - time.monotonic())

    def begin_if_due(self, last_work: float) -> None:
        """Begin one when there was no work for a while, or the journal has grown."""
        due_in = self.due_in(last_work)
        grown = self._journal.bytes > self.settings.checkpoint_bytes
        grown = grown and time.monotonic() >= self._not_before
        if due_in is not None and (due_in <= 0 or grown):
            self.begin()

    def begin(self, done: Callable[[], None] | None = None, *, fresh: bool = False) -> None:
        """Start a checkpoint: watermark and snapshot now, the syncs in the background.

        ``done`` is called after a checkpoint that was begun later
        than this call; also if it failed, which is then in the log. A daemon that is
        read-only takes none: it would drop the records that the next start has to settle.
        ``fresh``: nothing that is in the journal now stays in it.
        """
        self._fresh = self._fresh or fresh
        if done is not None:
            self._waiting.append(done)
        if self.running and not self._given_up:
            return
        waiting, self._waiting = self._waiting, []
        if self._given_up:
            for told in waiting:
                told()
            return
        self.running = True
        self.needed = False
        grown = self._journal.position.offset > self.settings.checkpoint_bytes // 4
        if self._fresh or grown or self._journal.private_since is not None:
            self._fresh = False
            self._start_segment()
        position = self._journal.position
        self._clear_leftovers()
        self.on_begin()
        snapshot = self._state.checkpoint(position.segment, position.offset)
        requests = list(self._state.requests.values())
        unsynced = self.syncing = self._state.unsynced
        self._state.unsynced = {}
        worktrees = {name: ws.worktree for name, ws in self._state.open.items()}

        def sync_files() -> None:
            for name, paths in unsynced.items():
                if name in worktrees:
                    worktrees[name].sync(paths)

        self._taking = self._loop.create_task(self._take(snapshot, requests, waiting, sync_files))

    async def _take(
        self,
        snapshot: Checkpoint,
        requests: list[RequestRecord],
        waiting: list[Callable[[], None]],
        sync_files: Callable[[], None],
    ) -> None:
        """Have all that the snapshot says made durable, and record it."""
        try:
            # In a thread: a disk may take long for it.
            await self._loop.run_in_executor(None, sync_files)
            kept = [each.name for each in snapshot.workspaces if each.unsettled is not None]
            await self._historian.make_durable([*kept, *self._state.given_up])
            failpoint("checkpoint.synced")
            if not self._given_up:
                await self._finish(snapshot, requests)
        except SyncFailed as error:
            self._make_read_only(f"a sync failed: {error.strerror}")
        except JournalBroken as error:
            self._make_read_only(str(error))
        except (HistorianLost, Refused, OSError) as error:
            _log.warning("no checkpoint could be taken: %s", error)
            self._defer()
        except Exception as error:  # noqa: BLE001 - a defect must not keep those who wait
            _log.exception("a checkpoint failed")
            self._make_read_only(f"internal error: {type(error).__name__}, see the log")
        self.running = False
        for done in waiting:
            done()
        if self._waiting:
            self.begin()
        else:
            self.on_end()

    async def _finish(self, snapshot: Checkpoint, requests: list[RequestRecord]) -> None:
        """Everything up to the watermark is durable: say so, then drop what is older."""
        failpoint("checkpoint.before_record")
        self._journal.append(snapshot)
        await self._loop.run_in_executor(None, self._journal.sync_beside)
        failpoint("checkpoint.recorded")
        if self._given_up:  # a sync that failed meanwhile has been reported to another handle
            return
        self.recorded = snapshot
        self.syncing = {}
        self._historian.base = Base.of(snapshot)
        await self._forget_what_is_kept(snapshot, requests)

    def _defer(self) -> None:
        self.needed = True
        for name, paths in self.syncing.items():
            self._state.unsynced.setdefault(name, set()).update(paths)
        self.syncing = {}
        self._not_before = time.monotonic() + self.settings.checkpoint_idle_s

    async def _forget_what_is_kept(
        self, snapshot: Checkpoint, requests: list[RequestRecord]
    ) -> None:
        """Drop from memory and from the journal what the checkpoint has made durable."""
        for request in requests:
            if self._state.requests.get(request.key) is request:
                del self._state.requests[request.key]
        try:
            held = [w.unsettled for w in snapshot.workspaces if w.unsettled is not None]
            keep = {n for each in held for n in range(each.segment, each.last + 1)}
            old = [n for n in self._journal.segments_before(snapshot.segment) if n not in keep]
            await self._loop.run_in_executor(None, self._journal.remove, old)
            self._journal.forget(old)
        except OSError as error:
            _log.warning("old journal segments remain: %s", error)

    def _clear_leftovers(self) -> None:
        """Try again to remove what could not be; the record will name what still is there."""
        for name, workspace in self._state.open.items():
            cleared = workspace.worktree.clear_leftovers()
            if cleared:
                self._state.unsynced.setdefault(name, set()).update(cleared)

    def _start_segment(self) -> None:
        """Begin a segment, so that all before the watermark can be dropped."""
        try:
            self._journal.start_segment()
        except OSError as error:
            _log.warning("the journal could not start a new segment: %s", error)
