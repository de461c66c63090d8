"""The daemon put together: lock, journal, recovery, event loop; and taken apart again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from stetd import __version__
from stetd.config.directories import Directories
from stetd.config.settings import Settings
from stetd.engine.long_planning import Planners
from stetd.engine.writer import Writer
from stetd.history.excluding import Excludes
from stetd.methods import Handlers
from stetd.methods.workspaces import Workspaces
from stetd.processes.historian_client import Historian, Run, start_process
from stetd.processes.historian_messages import Base, Options
from stetd.recovery.startup import Recovery, contents
from stetd.recovery.workspaces import Opening
from stetd.state.state import State
from stetd.state.workspace import Workspace
from stetd.storage.disk import Disk
from stetd.storage.journal import Journal, read_journal
from stetd.storage.request_record import check_version
from stetd.upkeep.forget import rest_of_forgetting
from stetd.upkeep.retention import Policy, retain
from stetd.upkeep.schedule import Retain, Upkeep

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: The event loop shares the interpreter with threads; short turns keep it quick.
_SWITCH_INTERVAL_S = 0.0005
_CHECKPOINT_TIMEOUT_S = 30.0
#: Seconds in which calls that wait are still begun when the daemon is to end.
_QUEUE_S = 10.0
_CHECKPOINT_LOOK_S = 0.05


def boot_id() -> str:
    """Which boot this is; ``STET_BOOT_ID`` replaces it in tests of power cuts."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return os.environ.get("STET_BOOT_ID") or file.read().strip()


@dataclass(slots=True)
class Daemon:
    """A running daemon without its sockets. Everything in it happens on ``loop``."""

    loop: asyncio.AbstractEventLoop
    handlers: Handlers
    writer: Writer
    _planners: Planners | None

    @classmethod
    def open(
        cls,
        settings: Settings,
        directories: Directories,
        disk: Disk | None = None,
        run: Run | None = None,
        tell: Callable[[str], None] = lambda _: None,
        planners: Planners | None = None,
        keep: Sequence[int] = (),
    ) -> Daemon:
        """Recover the state, start to work. The caller holds the lock.

        ``disk``: what writing goes through; ``run`` begins a historian, if it is not to be a
        process. ``keep``: descriptors that are open until the last process has ended. ``tell`` is
        called in words what is being done. ``planners``: where calls are planned that take long, if
        not on the loop. Raises FormatError, JournalBroken, OSError.
        """
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        loop = asyncio.new_event_loop()
        # For what may hang in the kernel: syncs of a checkpoint, looking at a peer's mounts.
        loop.set_default_executor(ThreadPoolExecutor(2, thread_name_prefix="stet-help"))
        disk = disk or Disk()
        wal = os.path.join(directories.state, "journal")
        for directory in (wal, os.path.join(directories.state, "workspaces")):
            os.makedirs(directory, mode=0o700, exist_ok=True)
        for directory in (directories.state, os.path.dirname(directories.state)):
            disk.sync_directory(directory)
        boot = boot_id()
        state = State(directories.state, disk, boot=boot, excludes=Excludes(settings.exclude))
        check_version(os.path.join(directories.state, "requests.sqlite3"))
        tell("Reading the journal")
        checkpoint, records = contents(read_journal(wal, disk))
        recovery = Recovery(state, boot)
        recovery.replay(checkpoint, records)
        journal = Journal(
            wal, disk, boot=boot, version=__version__, relaxed=settings.durability == "relaxed"
        )
        base, opening = Base.of(checkpoint), Opening(state, recovery, journal)
        for number, known in enumerate(list(state.known.values()), start=1):
            tell(f"Recovering workspace {number} of {len(state.known)}: {len(records)} records")
            opening.at_start(known)
        run = run or partial(start_process, keep=keep)
        historian = Historian(
            loop, directories.state, _options(settings), run, base, lambda: journal.position
        )
        for request in state.requests.values():
            historian.remembered.add(request)
        loop.run_until_complete(historian.start())
        writer = Writer(loop, state, journal, historian, settings, planners)
        report = recovery.report
        if report.records:
            tell("Writing a checkpoint")
            loop.run_until_complete(_checkpoint_now(writer))
            _log.info(
                "recovered %d records: finished %s; kept as outside %s; restored from torn %s",
                report.records,
                report.rolled_forward,
                report.kept,
                report.torn,
            )

        upkeep = Upkeep(loop, writer, settings.gc_idle_s, _retain(writer, settings))

        def resume(workspace: Workspace) -> None:
            if state.known[workspace.name].forgetting is not None:
                upkeep.queue(rest_of_forgetting(writer, workspace))

        historian.on_commits = upkeep.follow
        workspaces = Workspaces(writer, opening, directories, resume)
        handlers = Handlers(writer, workspaces, settings, upkeep)
        upkeep.start()
        for workspace in state.open.values():
            upkeep.follow(workspace.shadow)
            resume(workspace)
        return cls(loop, handlers, writer, planners)

    def reconfigure(self, settings: Settings) -> None:
        """Go by other settings from now on, but for those that need a restart."""
        self.handlers.settings = settings
        self.writer.reconfigure(settings)
        self.writer.state.exclude(Excludes(settings.exclude))
        self.writer.historian.reconfigure(_options(settings))
        retain = _retain(self.writer, settings)
        self.handlers.upkeep.reconfigure(settings.gc_idle_s, retain)

    def begin_to_stop(self) -> None:
        """From now on calls that wait are begun for some seconds only, then refused."""
        self.writer.finish_within(_QUEUE_S)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the loop, and wait for it."""
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        """Finish what is queued, write a checkpoint, let everything go."""
        self.run(self._stop())
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()

    async def _stop(self) -> None:
        self.begin_to_stop()
        await self.handlers.upkeep.close()
        await self.writer.drain()
        self.writer.end_grace()
        await _checkpoint_now(self.writer)
        await self.writer.stop()
        if self._planners is not None:
            self._planners.close()
        await self.writer.historian.close()
        await self.handlers.notices.close()
        self.writer.journal.close()
        for workspace in self.writer.state.open.values():
            workspace.close()


async def _checkpoint_now(writer: Writer) -> None:
    """Take a checkpoint and wait for it; not for long if the disk refuses."""
    done = asyncio.Event()
    historian = writer.historian
    failures = historian.failures
    writer.checkpoints.begin(done.set)
    deadline = time.monotonic() + _CHECKPOINT_TIMEOUT_S
    while not done.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), _CHECKPOINT_LOOK_S)
        if historian.failures > failures + 1 or time.monotonic() > deadline:
            _log.error("no checkpoint could be written: %s", historian.trouble)
            return


def _retain(writer: Writer, settings: Settings) -> Retain | None:
    """What drops history by the configuration; None: nothing is dropped."""
    policy = Policy(settings.retention_days, settings.retention_mb << 20)
    if not policy:
        return None
    return lambda workspace, progress: retain(writer, workspace, policy, progress)


def _options(settings: Settings) -> Options:
    return msgspec.convert(settings, Options, from_attributes=True)
