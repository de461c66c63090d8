"""Long work on the histories: one piece after the other, each computed by the historian.

Some of it is asked for by a person, who waits; the rest comes by itself: a history that has got
commits is looked at when no call has come for a while (:meth:`Upkeep.follow`), and retention once
in some hours. What a piece records goes through the journal as everything does
(:func:`record`), between two turns of the writer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import Future
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
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
from stetd.transaction.refusals import read_only

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: Drops what is too old or too much of a history; gives how many commits.
Retain = Callable[[Workspace, Progress], Awaitable[int]]
#: Seconds after which a history is looked at again for what retention drops.
_RETENTION_EVERY_S = 6 * 3600.0
#: A history that is never left alone is looked at all the same, so many seconds after a commit.
_SELDOM_S = 3600.0
_CHECKPOINT_S = 60.0


@dataclass(eq=False)
class Job(Generic[T]):
    """A piece of work: what it is called, for which workspace's root, and how it is done."""

    what: str
    root: str
    run: Callable[[Progress], Awaitable[T]]
    progress: Progress = field(default_factory=Progress)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Upkeep:
    """Does the work. ``idle_s``: seconds without a call after which the histories that have changed
    are looked at, 0 for never. ``retain``: drops what is to be dropped, None: nothing is.
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
        self._retain = retain
        self._jobs: deque[tuple[Job[Any], Future[Any]]] = deque()
        self._running: Job[Any] | None = None
        #: When the oldest commit came that was not looked at, by shadow repository.
        self._changed: dict[str, float] = {}
        self._retained: dict[str, float] = {}
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work."""
        self._task = self._loop.create_task(self._work())

    def submit(self, job: Job[T]) -> Future[T]:
        """Do this when what was asked for before is done."""
        future: Future[T] = self._loop.create_future()
        if self._task is None or self._task.done():
            _give_up(job, future)
        else:
            self._jobs.append((job, future))
            self._woken.set()
        return future

    def reconfigure(self, idle_s: float, retain: Retain | None) -> None:
        """Look at the histories by other times from now on."""
        self._idle_s, self._retain = idle_s, retain
        self._woken.set()

    def follow(self, shadow: str) -> None:
        """A shadow repository has new commits."""
        if shadow not in self._changed:
            self._changed[shadow] = time.monotonic()
            self._woken.set()

    @property
    def work(self) -> list[Job[Any]]:
        """What is being done, and then what waits."""
        waiting = [job for job, _ in self._jobs]
        return [self._running, *waiting] if self._running is not None else waiting

    async def close(self) -> None:
        """Give up what is being done, safely, and what waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # -- one after the other

    async def _work(self) -> None:
        try:
            while True:
                if self._jobs:
                    await self._carry_out(*self._jobs.popleft())
                    continue
                self._woken.clear()
                pause = self._pause()
                if pause is not None and pause <= 0:
                    await self._look()
                    continue
                try:
                    await asyncio.wait_for(self._woken.wait(), pause)
                except TimeoutError:
                    continue
        finally:
            for job, future in self._jobs:
                _give_up(job, future)
            self._jobs.clear()

    async def _carry_out(self, job: Job[T], future: Future[T]) -> None:
        self._running = job
        try:
            result = await job.run(job.progress)
        except asyncio.CancelledError:
            _give_up(job, future)
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asked
            if not future.cancelled():
                future.set_exception(error)
        else:
            if not future.cancelled():
                future.set_result(result)
        finally:
            self._running = None
            job.ended.set()

    def _pause(self) -> float | None:
        """Seconds until a history is to be looked at; None: none is."""
        if not self._idle_s:
            return None
        pauses = []
        if self._changed:
            longest = time.monotonic() - min(self._changed.values())
            pauses.append(min(self._idle_s - self._writer.quiet_s(), _SELDOM_S - longest))
        if self._retain is not None and self._retained:
            since = time.monotonic() - min(self._retained.values())
            pauses.append(_RETENTION_EVERY_S - since)
        return min(pauses, default=None)

    async def _look(self) -> None:
        """Have done what the histories need that have changed, or were not cut for long."""
        changed, self._changed = self._changed, {}
        for workspace in list(self._writer.state.open.values()):
            shadow = workspace.shadow
            try:
                if self._retain is not None and self._is_long_ago(shadow):
                    self._retained[shadow] = time.monotonic()
                    self.tell(Job("retention", workspace.root, _retaining(self._retain, workspace)))
                if shadow in changed and await self._writer.historian.ask("is due", shadow, bool):
                    self.tell(Job("gc", workspace.root, _tidying(self._writer, workspace)))
            except Refused as error:
                _log.warning("%s can't be looked at: %s", shadow, error)

    def _is_long_ago(self, shadow: str) -> bool:
        last = self._retained.get(shadow)
        return last is None or time.monotonic() - last > _RETENTION_EVERY_S

    def tell(self, job: Job[Any]) -> None:
        """Do this for nobody in particular: the log says what came of it."""

        def ended(future: Future[Any]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            if error is None:
                _log.info("%s of %s: %s", job.what, job.root, future.result())
            elif not (isinstance(error, Refused) and error.kind == Kind.SHUTTING_DOWN):
                _log.warning("%s of %s failed: %r", job.what, job.root, error)

        self.submit(job).add_done_callback(ended)


def _give_up(job: Job[Any], future: Future[Any]) -> None:
    stopping = f"{job.what}: the daemon is stopping; ask again when it is back."
    job.ended.set()
    if not future.done():
        future.set_exception(refuse(Kind.SHUTTING_DOWN, stopping))


def _retaining(retain: Retain, workspace: Workspace) -> Callable[[Progress], Awaitable[int]]:
    return lambda progress: retain(workspace, progress)


def _tidying(writer: Writer, workspace: Workspace) -> Callable[[Progress], Awaitable[Collected]]:
    return lambda progress: collect(writer, workspace, progress, drop=False)


# -- what all pieces of work need


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
    """See to it that a history may be added to. Raises Refused."""
    if writer.state.read_only is not None:
        raise read_only(writer.state.read_only)
    if writer.state.open.get(workspace.name) is not workspace:
        raise refuse(Kind.WORKSPACE_NOT_ALLOWED, "this workspace is no longer allowed")


def record(
    writer: Writer,
    workspace: str,
    *,
    commits: Sequence[CommitRecord] = (),
    paths: Sequence[PathChange] = (),
    cut: Cut | None = None,
    rewritten: Rewritten | None = None,
) -> int:
    """Make durable what was done to a history, where no file has to be written; its number.

    Raises Refused.
    """
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
    """Have a checkpoint begun, and wait for it; the newest one that is durable then, if any.

    It may be an older one, if no other could be taken: the caller has to look. ``fresh``: as in
    :meth:`stetd.engine.checkpointing.Checkpoints.begin`.
    """
    done = asyncio.Event()
    writer.checkpoints.begin(done.set, fresh=fresh)
    try:
        await asyncio.wait_for(done.wait(), _CHECKPOINT_S)
    except TimeoutError:
        return None
    return writer.checkpoints.recorded
