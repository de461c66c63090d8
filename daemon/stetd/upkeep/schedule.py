"""Long work on histories: jobs that run one after the other, each computed by the historian.

A person asks for some jobs and waits for them. Others are scheduled: gc of a history with new
commits when the daemon is idle (:meth:`Upkeep.follow`), and retention every six hours. Jobs record
their results in the journal (:func:`record`), between two turns of the writer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from stet.wire.failures import Kind, Refused, refuse
from stetd.engine.writer import Writer
from stetd.processes.long_work import Collected
from stetd.refusals import no_longer_allowed, read_only
from stetd.state.workspace import Workspace
from stetd.storage.journal_format import Change, Cut, PathChange, Rewritten
from stetd.storage.progress import Progress
from stetd.transaction.heads import HistoryBuilder

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: Applies the retention policy to a history; returns the number of dropped commits.
Retain = Callable[[Workspace, Progress], Awaitable[int]]
#: Seconds between two retention passes over all histories.
_RETENTION_INTERVAL_S = 6 * 3600.0
#: Seconds after which a history with new commits is checked although the daemon is not idle.
_BUSY_INTERVAL_S = 3600.0
#: Seconds for which a job waits for a checkpoint.
CHECKPOINT_TIMEOUT_S = 60.0


class Job(Generic[T]):
    """A piece of work: its name, the workspace's root, and the function that does it."""

    #: The task that runs it; set by :meth:`Upkeep.submit`.
    task: asyncio.Task[T]

    def __init__(self, what: str, root: str, run: Callable[[Progress], Awaitable[T]]) -> None:
        self.what = what
        self.root = root
        self.run = run
        self.progress = Progress()


class Upkeep:
    """The queue of jobs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, writer: Writer, retain: Retain) -> None:
        self._loop = loop
        self._writer = writer
        self._retain = retain
        #: The running job, then the queued ones.
        self.jobs: list[Job[Any]] = []
        #: Held by the running job.
        self._running = asyncio.Lock()
        self._closed = False
        #: By shadow repository, when its first commit came since the last check.
        self._changed_since: dict[str, float] = {}
        #: When the last retention pass began.
        self._retained_at: float | None = None
        self._woken = asyncio.Event()
        self._scheduling = loop.create_task(self._schedule())

    def submit(self, job: Job[T]) -> Future[T]:
        """Queue a job; returns the future of its result. Cancelling that does not stop the job."""
        job.task = self._loop.create_task(self._carry_out(job))
        self.jobs.append(job)
        return asyncio.shield(job.task)

    async def _carry_out(self, job: Job[T]) -> T:
        stopping = f"{job.what}: the daemon is stopping; ask again when it is back."
        try:
            if self._closed:
                raise refuse(Kind.SHUTTING_DOWN, stopping)
            async with self._running:
                return await job.run(job.progress)
        except asyncio.CancelledError:
            raise refuse(Kind.SHUTTING_DOWN, stopping) from None
        finally:
            self.jobs.remove(job)

    @property
    def retain(self) -> Retain | None:
        """Applies the retention policy; None if nothing is to be dropped."""
        settings = self._writer.state.settings
        return self._retain if settings.retention_days or settings.retention_mb else None

    def reconfigured(self) -> None:
        """Look again what is due when: the settings have changed."""
        self._woken.set()

    def follow(self, shadow: str) -> None:
        """Note that a shadow repository has new commits."""
        if shadow not in self._changed_since:
            self._changed_since[shadow] = time.monotonic()
            self._woken.set()

    async def close(self) -> None:
        """Cancel the running job and refuse the queued ones."""
        self._closed = True
        await asyncio.sleep(0)  # a task that is cancelled before its first step can't refuse
        tasks = [self._scheduling, *(job.task for job in self.jobs)]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _schedule(self) -> None:
        while True:
            self._woken.clear()
            pause = self._next_check_s()
            if pause is not None and pause <= 0:
                async with self._running:
                    await self._check_histories()
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    def _next_check_s(self) -> float | None:
        """Seconds until a history is due for a check; None: none is."""
        idle_s, pauses = self._writer.state.settings.gc_idle_s, []
        if not idle_s:
            return None
        if self._changed_since:
            longest = time.monotonic() - min(self._changed_since.values())
            pauses.append(min(idle_s - self._writer.quiet_s(), _BUSY_INTERVAL_S - longest))
        if self.retain is not None and self._retained_at is not None:
            pauses.append(self._retained_at + _RETENTION_INTERVAL_S - time.monotonic())
        return min(pauses, default=None)

    async def _check_histories(self) -> None:
        """Queue gc of the histories that need it, and retention of all if that is due."""
        changed, self._changed_since = self._changed_since, {}
        retain, now = self.retain, time.monotonic()
        if self._retained_at is not None and now < self._retained_at + _RETENTION_INTERVAL_S:
            retain = None
        if retain is not None:
            self._retained_at = now
        for workspace in list(self._writer.state.open.values()):
            shadow = workspace.shadow
            try:
                if retain is not None:
                    self.queue(Job("retention", workspace.root, partial(retain, workspace)))
                if shadow in changed and await self._writer.historian.ask("is due", shadow, bool):
                    tidy = partial(collect, self._writer, workspace, drop=False)
                    self.queue(Job("gc", workspace.root, tidy))
            except Refused as error:
                _log.warning("%s can't be scanned: %s", shadow, error)

    def queue(self, job: Job[Any]) -> None:
        """Queue a job that no caller waits for; its result goes to the log."""

        def ended(future: Future[Any]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            if error is None:
                _log.info("%s of %s: %s", job.what, job.root, future.result())
            elif not (isinstance(error, Refused) and error.kind == Kind.SHUTTING_DOWN):
                _log.warning("%s of %s failed: %r", job.what, job.root, error)

        self.submit(job).add_done_callback(ended)


# -- steps that jobs share


async def collect(
    writer: Writer, workspace: Workspace, progress: Progress, *, drop: bool
) -> Collected:
    """Pack a history; with ``drop``, without unreachable objects. Raises Refused."""
    question = "collect" if drop else "tidy"
    try:
        return await writer.historian.ask(question, workspace.shadow, Collected, progress=progress)
    finally:
        # Removed packs take disk space for as long as they are open.
        if writer.state.open.get(workspace.name) is workspace:
            workspace.repository.reopen()


def check_open(writer: Writer, workspace: Workspace) -> None:
    """Check that commits may be added to a history. Raises Refused."""
    if writer.state.read_only is not None:
        raise read_only(writer.state.read_only)
    if writer.state.open.get(workspace.name) is not workspace:
        raise no_longer_allowed()


def record(
    writer: Writer,
    workspace: Workspace,
    history: HistoryBuilder | None = None,
    *,
    paths: Sequence[PathChange] = (),
    cut: Cut | None = None,
    rewritten: Rewritten | None = None,
) -> None:
    """Make a change of a history durable, then put it in force. It writes no file.

    ``history``: the head with the new commits. Raises Refused.
    """
    state, name = writer.state, workspace.name
    number = state.number + 1
    writer.record(
        Change(
            number=number,
            workspace=name,
            paths=list(paths),
            commits=history.commits if history is not None else [],
            blobs={},
            time=int(time.time()),
            performed=True,
            cut=cut,
            rewritten=rewritten,
        )
    )
    state.number = number
    if cut is not None:
        state.change_known(name, cut=cut)
    if rewritten is not None:
        state.change_known(name, forgetting=rewritten if rewritten.head else None)
    if history is not None:
        workspace.head = history.head
        writer.committed(workspace, number, history.objects)
