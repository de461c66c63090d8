"""Starts and stops the daemon's parts: journal, recovery, historian, writer, upkeep, methods."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from stetd import __version__
from stetd.config.directories import Directories
from stetd.config.settings import Settings
from stetd.engine.long_planning import Planners
from stetd.engine.writer import Writer
from stetd.methods import Handlers
from stetd.methods.workspaces import Workspaces
from stetd.processes.historian_client import Historian, Run
from stetd.processes.historian_messages import StartingPoint
from stetd.recovery.startup import Recovery, split_records
from stetd.recovery.workspaces import WorkspaceOpener
from stetd.state.state import State
from stetd.state.workspace import Workspace
from stetd.storage.disk import Disk
from stetd.storage.journal import Journal, read_journal
from stetd.storage.request_record import check_version
from stetd.upkeep.forget import finish as finish_forgetting
from stetd.upkeep.retention import retain
from stetd.upkeep.schedule import Job, Upkeep

_log = logging.getLogger(__name__)
#: The event loop shares the GIL with helper threads; a short interval keeps its latency low.
_SWITCH_INTERVAL_S = 0.0005
_CHECKPOINT_TIMEOUT_S = 30.0
#: Seconds after the begin of a stop in which queued calls are still started.
_DRAIN_S = 10.0


def boot_id() -> str:
    """The id of the current boot; ``STET_BOOT_ID`` replaces it in tests of power cuts."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return os.environ.get("STET_BOOT_ID") or file.read().strip()


class Daemon(msgspec.Struct):
    """A running daemon without its sockets. All of it runs on ``loop``."""

    loop: asyncio.AbstractEventLoop
    handlers: Handlers
    writer: Writer
    _planners: Planners | None

    @classmethod
    def open(
        cls,
        settings: Settings,
        directories: Directories,
        start: Run,
        disk: Disk | None = None,
        tell: Callable[[str], None] = lambda _: None,
        planners: Planners | None = None,
    ) -> Daemon:
        """Recover the state and start all parts. The caller holds the instance lock.

        ``start``: starts a historian. ``disk``: makes all changes of files. ``tell`` is called
        with a sentence for each step. ``planners``: plan calls that take long; None: the loop
        plans all calls. Raises FormatError, JournalBroken, OSError.
        """
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        loop = asyncio.new_event_loop()
        # For calls that may hang in the kernel: syncs of a checkpoint, reading a peer's mounts.
        loop.set_default_executor(ThreadPoolExecutor(2, thread_name_prefix="stet-help"))
        disk = disk or Disk()
        wal = os.path.join(directories.state, "journal")
        for directory in (wal, os.path.join(directories.state, "workspaces")):
            os.makedirs(directory, mode=0o700, exist_ok=True)
        for directory in (directories.state, os.path.dirname(directories.state)):
            disk.sync_path(directory)
        boot = boot_id()
        state = State(directories.state, disk, boot=boot, settings=settings)
        check_version(os.path.join(directories.state, "requests.sqlite3"))
        tell("Reading the journal")
        checkpoint, records = split_records(read_journal(wal, disk))
        recovery = Recovery(state)
        recovery.replay(checkpoint, records)
        journal = Journal(
            wal, disk, boot=boot, version=__version__, relaxed=settings.durability == "relaxed"
        )
        base, opening = StartingPoint.of(checkpoint), WorkspaceOpener(state, recovery, journal)
        for number, known in enumerate(list(state.known.values()), start=1):
            tell(f"Recovering workspace {number} of {len(state.known)}: {len(records)} records")
            opening.at_start(known)
        historian = Historian(
            loop, directories.state, settings, start, base, lambda: journal.position
        )
        for request in state.requests.values():
            historian.remembered.add(request)
        loop.run_until_complete(historian.start())
        writer = Writer(loop, state, journal, historian, planners)
        report = recovery.report
        if report.records:
            tell("Writing a checkpoint")
            loop.run_until_complete(writer.checkpoints.take(_CHECKPOINT_TIMEOUT_S))
            _log.info(
                "recovered %d records: finished %s; kept as outside %s; restored from torn %s",
                report.records,
                report.rolled_forward,
                report.kept,
                report.torn,
            )

        upkeep = Upkeep(loop, writer, partial(retain, writer))

        def resume(workspace: Workspace) -> None:
            if state.known[workspace.name].forgetting is not None:
                rest = partial(finish_forgetting, writer, workspace)
                upkeep.queue(Job("forget", workspace.root, rest))

        historian.on_commits = upkeep.follow
        workspaces = Workspaces(writer, opening, directories, resume)
        handlers = Handlers(writer, workspaces, upkeep)
        for workspace in state.open.values():
            upkeep.follow(workspace.shadow)
            resume(workspace)
        return cls(loop, handlers, writer, planners)

    def reconfigure(self, settings: Settings) -> None:
        """Apply new settings, except those that need a restart."""
        self.writer.state.reconfigure(settings)
        self.writer.historian.reconfigure(settings)
        self.handlers.upkeep.reconfigured()

    def begin_to_stop(self) -> None:
        """Start queued calls for _DRAIN_S more seconds; then refuse those that are left."""
        self.writer.finish_within(_DRAIN_S)

    def close(self) -> None:
        """Finish queued calls, write a checkpoint, and close everything."""
        self.loop.run_until_complete(self._stop())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    async def _stop(self) -> None:
        self.begin_to_stop()
        await self.handlers.upkeep.close()
        await self.writer.drain()
        self.writer.record_late_writes(all_of_them=True)
        await self.writer.checkpoints.take(_CHECKPOINT_TIMEOUT_S)
        await self.writer.stop()
        if self._planners is not None:
            self._planners.close()
        await self.writer.historian.close()
        await self.handlers.notices.close()
        self.writer.journal.close()
        for workspace in self.writer.state.open.values():
            workspace.close()
