"""Long work on the histories: one thread that does one piece of it after the other.

A piece of work is a generator that yields between small steps. It is run for some milliseconds
at a time and pauses in between, longer while calls are carried out: the interpreter is shared
with the writer. What it has come to can be asked at any time (:meth:`Upkeep.work`).

Some of it is asked for by a person, who waits; the rest comes by itself: a history that has got
commits is looked at when no call has come for a while (``schedule``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from stetd.slices import QUIET_S, run_slice
from stetd.storage.repacking import Progress

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: Seconds of a pause between two slices while calls come, and while none does.
_LONG_PAUSE_S, _SHORT_PAUSE_S = 0.012, 0.0005
#: Seconds that a step may still take when the daemon stops. One that waits for a disk which is
#: full may never end; it is given up then, as by a kill.
_LAST_STEP_S = 20.0
#: A history that is never left alone is looked at all the same, so many seconds after another.
_SELDOM_S = 3600.0

Steps = Generator[None, None, T]


@dataclass(eq=False)
class Job(Generic[T]):
    """A piece of work: what it is called, for which workspace's root, and how it is done."""

    what: str
    root: str
    start: Callable[[Progress], Steps[T]]
    progress: Progress = field(default_factory=Progress)
    future: Future[T] = field(default_factory=Future)


class Upkeep:
    """The thread. ``quiet_s``: seconds since the last call; ``idle_s``: how many are enough to
    look at the histories that have changed, 0 for never; after ``again_s`` seconds all are looked
    at, changed or not.
    """

    def __init__(
        self,
        quiet_s: Callable[[], float],
        idle_s: float,
        again_s: float | None = None,
        last_step_s: float = _LAST_STEP_S,
    ) -> None:
        self._quiet_s = quiet_s
        self._idle_s = idle_s
        self._again_s = again_s
        self._last_step_s = last_step_s
        self._known: set[str] = set()
        self._looked = time.monotonic()
        self._jobs: deque[Job[Any]] = deque()
        self._running: Job[Any] | None = None
        self._changed_histories: dict[str, float] = {}
        self._condition = threading.Condition()
        self._stopping = False
        #: Gives the work that the history in this shadow repository needs by itself.
        self.needed_by: Callable[[str], Iterable[Job[Any]]] = lambda _: ()
        self._thread = threading.Thread(target=self._run, name="stet-upkeep", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    # -- called from any thread

    def submit(self, job: Job[T]) -> Future[T]:
        """Do this when what was asked for before is done."""
        job.future.set_running_or_notify_cancel()
        with self._condition:
            if self._stopping:
                job.future.set_exception(CancelledError())
            else:
                self._jobs.append(job)
                self._condition.notify_all()
        return job.future

    def reconfigure(self, idle_s: float, again_s: float | None) -> None:
        """Look at the histories by other times from now on."""
        with self._condition:
            self._idle_s, self._again_s = idle_s, again_s
            self._condition.notify_all()

    def follow(self, shadow: str) -> None:
        """A shadow repository has new commits."""
        with self._condition:
            self._known.add(shadow)
            if shadow not in self._changed_histories:
                self._changed_histories[shadow] = time.monotonic()
                self._condition.notify_all()

    @property
    def work(self) -> list[Job[Any]]:
        """What is being done, and then what waits."""
        with self._condition:
            return [*([self._running] if self._running else []), *self._jobs]

    def close(self) -> None:
        """Give up what is being done, safely, and what waits."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join(self._last_step_s)
        while self._jobs:
            self._jobs.popleft().future.set_exception(CancelledError())

    # -- the thread

    def _run(self) -> None:
        while True:
            with self._condition:
                self._running = None
                while not (self._jobs or self._stopping):
                    pause = self._pause()
                    if pause is not None and pause <= 0:
                        break
                    self._condition.wait(pause)
                if self._stopping:
                    return
                if self._jobs:
                    self._running = self._jobs.popleft()
            if self._running is not None:
                self._carry_out(self._running)
            else:
                self._look()

    def _pause(self) -> float | None:
        """Seconds until the histories that have changed are to be looked at; None: none has."""
        if not self._idle_s:
            return None
        if not self._changed_histories:
            if self._again_s is None or not self._known:
                return None
            return self._again_s - (time.monotonic() - self._looked)
        longest = time.monotonic() - min(self._changed_histories.values())
        return min(self._idle_s - self._quiet_s(), _SELDOM_S - longest)

    def _look(self) -> None:
        """Queue what the histories need that have changed."""
        with self._condition:
            shadows = list(self._changed_histories or self._known)
            self._changed_histories = {}
            self._looked = time.monotonic()
        for shadow in shadows:
            try:
                for job in self.needed_by(shadow):
                    self.submit(job)
            except Exception as error:  # noqa: BLE001 - nothing here may end the daemon
                _log.warning("%s can't be looked at: %r", shadow, error)

    def _carry_out(self, job: Job[Any]) -> None:
        steps = job.start(job.progress)
        try:
            while not self._stopping:
                done = run_slice(steps)
                if done is not None:
                    job.future.set_result(done[0])
                    return
                busy = self._quiet_s() < QUIET_S
                time.sleep(_LONG_PAUSE_S if busy else _SHORT_PAUSE_S)
            job.future.set_exception(CancelledError())
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            job.future.set_exception(error)
        finally:
            steps.close()
