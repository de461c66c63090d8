"""The daemon put together: lock, journal, recovery, event loop; and taken apart again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from stetd import __version__
from stetd.call_world import CallLimits
from stetd.checkpointing import WriterLimits
from stetd.config import Settings
from stetd.directories import Directories
from stetd.handlers import Handlers
from stetd.history.excluding import Excludes
from stetd.history.protecting import Protection
from stetd.indexing import Indexer
from stetd.needs import RETENTION_EVERY_S, Needs
from stetd.planning_beside import PlanningBeside
from stetd.recovery import Recovery, contents
from stetd.retaining import Policy
from stetd.state import State
from stetd.storage.background import Background
from stetd.storage.disk import Disk
from stetd.storage.journal import Journal, JournalBroken, read_journal
from stetd.storage.journal_format import FormatError
from stetd.storage.request_store import RequestStore
from stetd.taking_up import TakingUp
from stetd.upkeep import Upkeep
from stetd.workspace import Workspace
from stetd.workspaces import Workspaces
from stetd.writer import Writer

_log = logging.getLogger(__name__)
T = TypeVar("T")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
#: The event loop shares the interpreter with threads; short turns keep it quick.
_SWITCH_INTERVAL_S = 0.0005
_CHECKPOINT_TIMEOUT_S = 30.0
#: Seconds in which calls that wait are still begun when the daemon is told to end.
_QUEUE_S = 10.0
_CHECKPOINT_LOOK_S = 0.05
#: Seconds after a call for which the indexing thread keeps back.
_BUSY_S = 0.25
#: What the writer's connection to the replies keeps of them in memory.
_ASKED_CACHE_KIB = 256


class StartError(Exception):
    """The daemon can't start; the message says why and what a person can do."""


class UnreadableState(StartError):
    """It was written by a newer version, or by something else; trying again does not help."""


def boot_id() -> str:
    """Which boot this is; ``STET_BOOT_ID`` stands in for it in tests of power cuts."""
    chosen = os.environ.get("STET_BOOT_ID")
    if chosen:
        return chosen
    with open(_BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


@dataclass(slots=True)
class Daemon:
    """A running daemon without its sockets. Everything in it happens on ``loop``."""

    loop: asyncio.AbstractEventLoop
    handlers: Handlers
    writer: Writer
    background: Background
    indexer: Indexer
    upkeep: Upkeep
    _stores: list[RequestStore]
    _beside: PlanningBeside | None

    @classmethod
    def open(
        cls,
        settings: Settings,
        directories: Directories,
        disk: Disk | None = None,
        tell: Callable[[str], None] = lambda _: None,
        beside: PlanningBeside | None = None,
    ) -> Daemon:
        """Recover the state, start to work. The caller holds the lock. Raises StartError.

        ``disk``: what all writing goes through, if not the real one. ``tell`` is told in words
        what is being done. ``beside``: where calls are planned that take long, if not on the
        loop; it is closed with the daemon.
        """
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        loop = asyncio.new_event_loop()
        try:
            return cls._open(loop, settings, directories, disk or Disk(), tell, beside)
        except FormatError as error:
            raise UnreadableState(str(error)) from error
        except JournalBroken as error:
            raise StartError(str(error)) from error
        except OSError as error:
            where = os.fsdecode(error.filename) if error.filename else directories.state
            raise StartError(f"{where}: {error.strerror}") from error

    @classmethod
    def _open(
        cls,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        directories: Directories,
        disk: Disk,
        tell: Callable[[str], None],
        beside: PlanningBeside | None,
    ) -> Daemon:
        wal = os.path.join(directories.state, "journal")
        for directory in (wal, os.path.join(directories.state, "workspaces")):
            os.makedirs(directory, mode=0o700, exist_ok=True)
        for directory in (directories.state, os.path.dirname(directories.state)):
            disk.sync_directory(directory)
        boot = boot_id()
        excludes = Excludes(settings.exclude)
        state = State(directories.state, disk, boot=boot, excludes=excludes)
        tell("Reading the journal")
        checkpoint, records = contents(read_journal(wal, disk))
        recovery = Recovery(state, boot)
        recovery.replay(checkpoint, records)
        journal = Journal(
            wal, disk, boot=boot, version=__version__, relaxed=settings.durability == "relaxed"
        )
        background = Background(disk)
        taking_up = TakingUp(state, recovery, journal, background)
        for number, known in enumerate(list(state.known.values()), start=1):
            tell(f"Recovering workspace {number} of {len(state.known)}: {len(records)} records")
            taking_up.at_start(known)
        path = os.path.join(directories.state, "requests.sqlite3")
        # The first is only asked, for one row at a time.
        stores = [RequestStore(path, _ASKED_CACHE_KIB), RequestStore(path)]
        limits = _limits(settings)
        writer = Writer(loop, state, journal, background, stores[0], stores[1], limits, beside)
        report = recovery.report
        tell("Writing a checkpoint")
        loop.run_until_complete(_checkpoint_now(writer))
        if report.records:
            _log.info(
                "recovered %d records: finished %s; kept as outside %s; restored from torn %s",
                report.records,
                report.rolled_forward,
                report.kept,
                report.torn,
            )
        indexer = _start_indexing(state, writer)
        needs = Needs(writer, _policy(settings), indexer.rebuild)
        upkeep = _start_upkeep(writer, needs, settings)

        def follow(shadow: str) -> None:
            indexer.follow(shadow)
            upkeep.follow(shadow)

        def resume(workspace: Workspace) -> None:
            if state.known[workspace.name].forgetting is not None:
                upkeep.submit(needs.rest_of_forgetting(workspace))

        background.on_commits = follow
        workspaces = Workspaces(writer, taking_up, directories.runtime, resume, directories.config)
        handlers = Handlers(writer, background, workspaces, settings, indexer, upkeep, needs)
        return cls(loop, handlers, writer, background, indexer, upkeep, stores, beside)

    def reconfigure(self, settings: Settings) -> None:
        """Go by other settings from now on, but for those that need a restart."""
        self.handlers.settings = settings
        limits = _limits(settings)
        self.writer.reconfigure(limits)
        self.writer.state.exclude(Excludes(settings.exclude))
        needs = self.handlers.needs
        needs.policy = _policy(settings)
        self.upkeep.reconfigure(settings.gc_idle_s, RETENTION_EVERY_S if needs.policy else None)

    def begin_to_stop(self) -> None:
        """From now on calls that wait are begun for some seconds only, then refused."""
        self.writer.finish_within(_QUEUE_S)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the loop, and wait for it."""
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        """Finish what is queued, write a checkpoint, let everything go."""
        self.run(self._stop())
        self.loop.close()

    async def _stop(self) -> None:
        self.begin_to_stop()
        # It may wait for the writer.
        await self.loop.run_in_executor(None, self.upkeep.close)
        await self.writer.drain()
        self.writer.end_grace()
        await _checkpoint_now(self.writer)
        self.writer.stop()
        if self._beside is not None:
            self._beside.close()
        self.indexer.close()
        self.background.close()
        self.handlers.close()
        self.writer.journal.close()
        for workspace in self.writer.state.open.values():
            workspace.close()
        for store in self._stores:
            store.close()


def _start_indexing(state: State, writer: Writer) -> Indexer:
    """Let the indexes follow Git from now on, and add what they miss."""
    indexer = Indexer(lambda: writer.quiet_s() > _BUSY_S)
    for workspace in list(state.open.values()):
        indexer.follow(workspace.shadow)
    indexer.start()
    return indexer


def _start_upkeep(writer: Writer, needs: Needs, settings: Settings) -> Upkeep:
    """Let histories be packed, and cut if wanted, when nothing else is to be done."""
    again_s = RETENTION_EVERY_S if needs.policy else None
    upkeep = Upkeep(writer.quiet_s, settings.gc_idle_s, again_s)
    upkeep.needed_by = needs.of
    for workspace in list(writer.state.open.values()):
        upkeep.follow(workspace.shadow)
        if writer.state.known[workspace.name].forgetting is not None:
            upkeep.submit(needs.rest_of_forgetting(workspace))
    upkeep.start()
    return upkeep


async def _checkpoint_now(writer: Writer) -> None:
    """Take a checkpoint and wait for it; not for long if the disk refuses."""
    done = asyncio.Event()
    background = writer.background
    failures = background.failures
    writer.checkpoints.begin(done.set)
    deadline = time.monotonic() + _CHECKPOINT_TIMEOUT_S
    while not done.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), _CHECKPOINT_LOOK_S)
        if background.failures > failures + 1 or time.monotonic() > deadline:
            _log.error("no checkpoint could be written: %s", background.failure)
            return


def _policy(settings: Settings) -> Policy:
    return Policy(settings.retention_days, settings.retention_mb << 20)


def _limits(settings: Settings) -> WriterLimits:
    return WriterLimits(
        call=CallLimits(settings.max_file_bytes, settings.max_call_files, settings.max_call_bytes),
        max_clipboard_bytes=settings.max_clipboard_bytes,
        checkpoint_bytes=settings.checkpoint_bytes,
        checkpoint_idle_s=settings.checkpoint_idle_s,
        grace_s=settings.grace_s,
        request_record_calls=settings.request_record_calls,
        request_record_s=settings.request_record_s,
        protection=Protection(settings.protected, settings.protected_action),
        default_mode=settings.default_mode,
    )
