"""Long work on the histories: one job after the other, each computed by the historian.

Some of it is asked for by a person, who waits; the rest comes by itself: gc of a history with new
commits when no call has come for a while (:meth:`Upkeep.follow`), and retention every few hours.
What a job records goes through the journal (:func:`record`), between two turns of the writer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from stet.wire.failures import Kind, Refused, refuse
from stetd.engine.writer import Writer
from stetd.processes.works import Collected
from stetd.state.workspace import Workspace
from stetd.storage.journal_format import (
    Change,
    Checkpoint,
    CommitRecord,
    Cut,
    PathChange,
    Rewritten,
)
from stetd.storage.progress import Progress
from stetd.transaction.refusals import no_longer_allowed, read_only

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: Drops the commits of a history that are too old or too many; gives how many.
Retain = Callable[[Workspace, Progress], Awaitable[int]]
#: Seconds between two retentions of a history.
_RETENTION_EVERY_S = 6 * 3600.0
#: Seconds after which a history with new commits is examined though calls keep coming.
_SELDOM_S = 3600.0
_CHECKPOINT_S = 60.0


@dataclass(eq=False)
class Job(Generic[T]):
    """A piece of work: its name, the workspace's root, and the function that does it."""

    what: str
    root: str
    run: Callable[[Progress], Awaitable[T]]
    progress: Progress = field(default_factory=Progress)
    #: What carries it out, once it is submitted.
    task: asyncio.Task[T] = field(init=False)


class Upkeep:
    """Does the work. ``idle_s``: seconds without a call after which changed histories are
    examined, 0 for never. ``retain``: None if nothing is dropped.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        writer: Writer,
        idle_s: float,
        retain: Retain | None,
    ) -> None:
        self._loop = loop
        self._writer = writer
        self._idle_s = idle_s
        self.retain = retain
        #: The job that runs, then those that wait.
        self.work: list[Job[Any]] = []
        self._turn = asyncio.Lock()
        self._closed = False
        #: When the oldest commit came that was not examined, by shadow repository.
        self._changed: dict[str, float] = {}
        self._retained: dict[str, float] = {}
        self._woken = asyncio.Event()

    def start(self) -> None:
        """Start to look for work that comes by itself."""
        self._looking = self._loop.create_task(self._look_again_and_again())

    def submit(self, job: Job[T]) -> Future[T]:
        """Queue a job; gives its result. It goes on if nobody waits for that any more."""
        job.task = self._loop.create_task(self._carry_out(job))
        self.work.append(job)
        return asyncio.shield(job.task)

    async def _carry_out(self, job: Job[T]) -> T:
        stopping = f"{job.what}: the daemon is stopping; ask again when it is back."
        try:
            if self._closed:
                raise refuse(Kind.SHUTTING_DOWN, stopping)
            async with self._turn:
                return await job.run(job.progress)
        except asyncio.CancelledError:
            raise refuse(Kind.SHUTTING_DOWN, stopping) from None
        finally:
            self.work.remove(job)

    def reconfigure(self, idle_s: float, retain: Retain | None) -> None:
        """Change the options."""
        self._idle_s, self.retain = idle_s, retain
        self._woken.set()

    def follow(self, shadow: str) -> None:
        """A shadow repository has new commits."""
        if shadow not in self._changed:
            self._changed[shadow] = time.monotonic()
            self._woken.set()

    async def close(self) -> None:
        """Cancel the job that runs, and refuse those that wait."""
        self._closed = True
        await asyncio.sleep(0)  # a task that is cancelled before it has begun can't refuse
        tasks = [self._looking, *(job.task for job in self.work)]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _look_again_and_again(self) -> None:
        while True:
            self._woken.clear()
            pause = self._pause()
            if pause is not None and pause <= 0:
                async with self._turn:
                    await self._look()
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), pause)

    def _pause(self) -> float | None:
        """Seconds until a history is to be examined; None: none is."""
        if not self._idle_s:
            return None
        pauses = []
        if self._changed:
            longest = time.monotonic() - min(self._changed.values())
            pauses.append(min(self._idle_s - self._writer.quiet_s(), _SELDOM_S - longest))
        if self.retain is not None and self._retained:
            since = time.monotonic() - min(self._retained.values())
            pauses.append(_RETENTION_EVERY_S - since)
        return min(pauses, default=None)

    async def _look(self) -> None:
        """Queue jobs for the histories that have changed, or are due for retention."""
        changed, self._changed = self._changed, {}
        for workspace in list(self._writer.state.open.values()):
            shadow = workspace.shadow
            try:
                now = time.monotonic()
                last = self._retained.get(shadow, -math.inf)
                if self.retain is not None and now - last > _RETENTION_EVERY_S:
                    self._retained[shadow] = now
                    self.queue(Job("retention", workspace.root, partial(self.retain, workspace)))
                if shadow in changed and await self._writer.historian.ask("is due", shadow, bool):
                    tidy = partial(collect, self._writer, workspace, drop=False)
                    self.queue(Job("gc", workspace.root, tidy))
            except Refused as error:
                _log.warning("%s can't be scanned: %s", shadow, error)

    def queue(self, job: Job[Any]) -> None:
        """Queue a job that nobody waits for: the log has its result."""

        def ended(future: Future[Any]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            if error is None:
                _log.info("%s of %s: %s", job.what, job.root, future.result())
            elif not (isinstance(error, Refused) and error.kind == Kind.SHUTTING_DOWN):
                _log.warning("%s of %s failed: %r", job.what, job.root, error)

        self.submit(job).add_done_callback(ended)


# -- what all jobs need


async def collect(
    writer: Writer, workspace: Workspace, progress: Progress, *, drop: bool
) -> Collected:
    """Pack a history; with ``drop``, without what nothing needs. Raises Refused."""
    question = "collect" if drop else "tidy"
    try:
        return await writer.historian.work(question, workspace.shadow, Collected, progress)
    finally:
        # Packs that are gone take space as long as somebody has them open.
        if writer.state.open.get(workspace.name) is workspace:
            workspace.repository.reopen()


def check_open(writer: Writer, workspace: Workspace) -> None:
    """Check that a history may be added to. Raises Refused."""
    if writer.state.read_only is not None:
        raise read_only(writer.state.read_only)
    if writer.state.open.get(workspace.name) is not workspace:
        raise no_longer_allowed()


def record(
    writer: Writer,
    workspace: str,
    *,
    commits: Sequence[CommitRecord] = (),
    paths: Sequence[PathChange] = (),
    cut: Cut | None = None,
    rewritten: Rewritten | None = None,
) -> int:
    """Record what was done to a history where no file is written; its number. Raises Refused."""
    number = writer.state.number + 1
    writer.record(
        Change(
            number=number,
            workspace=workspace,
            paths=list(paths),
            commits=list(commits),
            blobs={},
            time=int(time.time()),
            performed=True,
            cut=cut,
            rewritten=rewritten,
        )
    )
    writer.state.number = number
    return number


async def checkpoint(writer: Writer, *, fresh: bool = False) -> Checkpoint | None:
    """Wait for a checkpoint; the newest durable one, which may be older if none could be taken.

    ``fresh``: as in :meth:`stetd.engine.checkpointing.Checkpoints.begin`.
    """
    done = asyncio.Event()
    writer.checkpoints.begin(done.set, fresh=fresh)
    try:
        await asyncio.wait_for(done.wait(), _CHECKPOINT_S)
    except TimeoutError:
        return None
    return writer.checkpoints.recorded
