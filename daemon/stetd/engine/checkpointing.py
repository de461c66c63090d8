"""Checkpoints: all that the journal says is made durable elsewhere, then dropped.

In this order: the writer takes the watermark and the snapshot; a thread syncs the workspace's
files and the historian syncs Git; the writer writes the checkpoint record and drops old segments.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from stet.wire.failures import Refused
from stetd.failpoints import failpoint
from stetd.processes.historian_client import Historian, HistorianLost
from stetd.processes.historian_messages import StartingPoint
from stetd.state.state import State
from stetd.storage.disk import SyncFailed
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import Checkpoint

_log = logging.getLogger(__name__)
#: Seconds between two checks whether a checkpoint that somebody waits for can still be taken.
_POLL_S = 0.05


class Checkpointer(msgspec.Struct):
    """Takes checkpoints."""

    _state: State
    _journal: Journal
    _historian: Historian
    #: Called when no checkpoint can be taken any more.
    _make_read_only: Callable[[str], None]
    #: Called before the snapshot is taken.
    on_begin: Callable[[], None]
    #: Called when a checkpoint has ended: the next may be due.
    on_end: Callable[[], None]
    running: bool = False
    #: ``State.unsynced`` as the running checkpoint took it; given back if that fails.
    syncing: dict[str, set[str]] = {}
    #: The newest durable checkpoint of this daemon.
    recorded: Checkpoint | None = None
    #: Records were appended since the last checkpoint began.
    needed: bool = False
    _waiting: list[Callable[[], None]] = []
    _not_before: float = 0.0
    _fresh: bool = False
    _taking: asyncio.Task[None] | None = None

    def due_in(self, last_work: float) -> float | None:
        """Seconds until a checkpoint is due if no call comes; None if none is needed.

        It is due after a while without work, or when the journal has grown.
        """
        if not self.needed or self.running or self._state.read_only is not None:
            return None
        due = self._not_before
        if self._journal.bytes <= self._state.settings.checkpoint_bytes:
            # Excluded contents go soon, also between calls.
            since = min(last_work, self._journal.private_since or last_work)
            due = max(due, since + self._state.settings.checkpoint_idle_s)
        return max(0.0, due - time.monotonic())

    def begin(self, done: Callable[[], None] | None = None, *, fresh: bool = False) -> None:
        """Begin a checkpoint: take watermark and snapshot now, sync in the background.

        ``done`` is called when a checkpoint that began now or later has ended, also if it failed
        (the log says so). A read-only daemon takes none, because a checkpoint drops records that
        the next start has to settle. ``fresh``: begin a segment, so that all records are dropped.
        """
        self._fresh = self._fresh or fresh
        if done is not None:
            self._waiting.append(done)
        read_only = self._state.read_only is not None
        if self.running and not read_only:
            return
        waiting, self._waiting = self._waiting, []
        if read_only:
            for callback in waiting:
                callback()
            return
        self.running = True
        self.needed = False
        grown = self._journal.position.offset > self._state.settings.checkpoint_bytes // 4
        if self._fresh or grown or self._journal.private_since is not None:
            self._fresh = False
            self._start_segment()
        position = self._journal.position
        self._clear_leftovers()
        self.on_begin()
        snapshot = self._state.checkpoint(position.segment, position.offset)
        unsynced = self.syncing = self._state.unsynced
        self._state.unsynced = {}
        worktrees = {name: ws.worktree for name, ws in self._state.open.items()}

        def sync_files() -> None:
            for name, paths in unsynced.items():
                if name in worktrees:
                    worktrees[name].sync(paths)

        self._taking = asyncio.create_task(self._take(snapshot, waiting, sync_files))

    async def take(self, seconds: float, *, fresh: bool = False) -> Checkpoint | None:
        """Take a checkpoint; returns the newest durable one, which is older if this one failed.

        None: it takes longer than this, or writing Git keeps failing. ``fresh``: as in
        :meth:`begin`.
        """
        done, failures = asyncio.Event(), self._historian.failures
        self.begin(done.set, fresh=fresh)
        deadline = time.monotonic() + seconds
        while not done.is_set():
            if self._historian.failures > failures + 1 or time.monotonic() > deadline:
                why = self._historian.trouble or "it takes too long"
                _log.error("no checkpoint could be written: %s", why)
                with suppress(ValueError):  # nobody waits for the next one: don't begin it
                    self._waiting.remove(done.set)
                return None
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await done.wait()
        return self.recorded

    async def _take(
        self,
        snapshot: Checkpoint,
        waiting: list[Callable[[], None]],
        sync_files: Callable[[], None],
    ) -> None:
        """Make all that the snapshot says durable, then record it."""
        try:
            # In a thread, because a disk may take long.
            await asyncio.to_thread(sync_files)
            kept = [each.name for each in snapshot.workspaces if each.unsettled is not None]
            await self._historian.make_durable([*kept, *self._state.given_up])
            failpoint("checkpoint.synced")
            if self._state.read_only is None:
                await self._finish(snapshot)
        except SyncFailed as error:
            self._make_read_only(f"a sync failed: {error.strerror}")
        except JournalBroken as error:
            self._make_read_only(str(error))
        except (HistorianLost, Refused, OSError) as error:
            _log.warning("no checkpoint could be taken: %s", error)
            self._retry_later()
        except Exception as error:  # noqa: BLE001 - the callbacks must be called
            _log.exception("a checkpoint failed")
            self._make_read_only(f"internal error: {type(error).__name__}, see the log")
        self.running = False
        for done in waiting:
            done()
        if self._waiting:
            self.begin()
        else:
            self.on_end()

    async def _finish(self, snapshot: Checkpoint) -> None:
        """Everything before the watermark is durable: record that, then drop what is older."""
        # Now, not after the wait: a historian that is started meanwhile must need none of that.
        self._historian.base = StartingPoint.of(snapshot)
        failpoint("checkpoint.before_record")
        self._journal.append(snapshot)
        await asyncio.to_thread(self._journal.sync_in_thread)
        failpoint("checkpoint.recorded")
        if self._state.read_only is not None:
            # A sync by the writer has failed; the kernel tells only that descriptor.
            return
        self.recorded = snapshot
        self.syncing = {}
        await self._drop_durable(snapshot)

    def _retry_later(self) -> None:
        self.needed = True
        for name, paths in self.syncing.items():
            self._state.unsynced.setdefault(name, set()).update(paths)
        self.syncing = {}
        self._not_before = time.monotonic() + self._state.settings.checkpoint_idle_s

    async def _drop_durable(self, snapshot: Checkpoint) -> None:
        """Drop the replies and the segments that the checkpoint has made durable elsewhere."""
        answered = self._state.requests.items()
        self._state.requests = {k: each for k, each in answered if each.seq > snapshot.number}
        try:
            held = [w.unsettled for w in snapshot.workspaces if w.unsettled is not None]
            keep = {n for each in held for n in range(each.segment, each.last + 1)}
            old = [n for n in self._journal.segments_before(snapshot.segment) if n not in keep]
            await asyncio.to_thread(self._journal.remove, old)
            self._journal.forget(old)
        except OSError as error:
            _log.warning("old journal segments remain: %s", error)

    def _clear_leftovers(self) -> None:
        """Try again to remove leftovers; the checkpoint names those that remain."""
        for name, workspace in self._state.open.items():
            cleared = workspace.worktree.clear_leftovers()
            if cleared:
                self._state.unsynced.setdefault(name, set()).update(cleared)

    def _start_segment(self) -> None:
        """Begin a segment, so that all segments before the watermark can be dropped."""
        try:
            self._journal.start_segment()
        except OSError as error:
            _log.warning("the journal could not start a new segment: %s", error)
