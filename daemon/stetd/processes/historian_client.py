"""The engine's end of the historian: it is started, asked, and started again if it is lost.

It may be killed at any instruction, stop, or hang: edits go on. A question that was lost is asked
again; a checkpoint that waits for it fails. Imports nothing that reads Git.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from stet.wire.failures import Kind, refuse
from stet.wire.first_use import known
from stetd import __version__
from stetd.processes import children
from stetd.processes import historian_messages as messages
from stetd.processes.recorded_plans import refused_anew
from stetd.processes.remembered import Remembered
from stetd.storage.disk import SyncFailed
from stetd.storage.journal import Position
from stetd.storage.progress import Progress

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: Seconds after which it hears that the journal has grown, if nothing is asked.
_GATHER_S = 0.05
#: Seconds of silence after which it is taken to hang, while something is asked of it.
_SILENT_S = 30.0
#: Seconds until another one is started, doubled each time that one ends soon.
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
#: Seconds that it must have run for the pause to start from its least.
_SOON_S = 10.0
#: Seconds that it has to end when the daemon stops.
_END_S = 60.0
#: Seconds between two questions for the progress of long work.
_PROGRESS_S = 0.25
#: How often a question is asked before it is refused.
_MOST_ASKED = 2


class HistorianLost(Exception):
    """The historian has not done what was asked, and has perhaps ended."""


class Running(Protocol):
    """A historian that runs."""

    def kill(self) -> None:
        """End the process at once."""

    def wait(self) -> int:
        """Wait until it has ended; the exit status, below 0 the signal that has ended it."""


def start_process(connected: socket.socket, keep: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """A historian in a process of its own, at the other end of a socket.

    ``keep``: descriptors that it holds as long as it lives: the locks of the directories, so that
    the next daemon waits for its end.
    """
    level = logging.getLevelName(logging.getLogger().level)
    return children.start("stetd.historian.process", connected, level, keep=keep)


@dataclass(slots=True)
class _Waiting:
    """A question, and who waits for the answer."""

    message: messages.Ask | messages.MakeDurable
    future: asyncio.Future[Any]
    asked: int = 0


class Historian(asyncio.Protocol):
    """The historian, as the engine has it. All on the event loop.

    ``position``: between two turns of the loop, the place in the journal before which all records
    are durable and settled (published, or voided).
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        state: str,
        options: messages.Options,
        run: Callable[[socket.socket], Running],
        base: messages.Base,
        position: Callable[[], Position],
    ) -> None:
        self._loop = loop
        self._state = state
        self._options = options
        self._run = run
        #: Where the next one begins.
        self.base = base
        self._position = position
        #: Why Git can't be written at present, and how often an attempt has failed.
        self.trouble: str | None = None
        self.failures = 0
        #: What is known of answered calls.
        self.remembered = Remembered()
        #: Called with a shadow repository that has got commits.
        self.on_commits: Callable[[str], None] = lambda _: None
        self._told: Position | None = None
        self._running: Running | None = None
        self._transport: asyncio.Transport | None = None
        self._received = messages.Received()
        self._waiting: dict[int, _Waiting] = {}
        self._last_id = 0
        #: How far long work has come, by the question's id.
        self._works: dict[int, Progress] = {}
        self._full = False
        self._closing = False
        self._began = 0.0
        self._pause = _PAUSE_S
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[None] = loop.create_future()

    async def start(self) -> None:
        """Start one."""
        near, far = socket.socketpair()
        try:
            self._running = self._run(far)
        except OSError as error:
            _log.error("no historian can be started: %s", error)
            self.trouble = f"the process that keeps it can't be started: {error.strerror}"
            near.close()
            self._ask_again()
            self._start_later()
            return
        finally:
            far.close()
        self._began = self._heard = time.monotonic()
        await self._loop.create_connection(lambda: self, sock=near)

    def follow(self) -> None:
        """The journal has grown: say so to the historian soon."""
        if self._telling is None and not self._full:
            self._telling = self._loop.call_later(_GATHER_S, self._tell)

    async def ask(
        self, question: str, params: object, result: type[T], place: messages.Place | None = None
    ) -> T:
        """The answer to a question, of this type. Raises Refused."""
        encoded = msgspec.msgpack.encode(params)
        self._last_id += 1
        asked = messages.Ask(id=self._last_id, question=question, place=place, params=encoded)
        found: T = msgspec.msgpack.decode(await self._wait_for(asked), type=known(result))
        return found

    async def work(
        self,
        question: str,
        params: object,
        result: type[T],
        progress: Progress,
        place: messages.Place | None = None,
    ) -> T:
        """As :meth:`ask`, for a question that takes long: ``progress`` follows it."""
        number = self._last_id + 1
        self._works[number] = progress
        if self._transport is not None:
            self._watch()
        try:
            return await self.ask(question, params, result, place)
        finally:
            del self._works[number]

    async def make_durable(self, without: Collection[str]) -> None:
        """Make Git durable as far as the journal is. Raises SyncFailed, HistorianLost.

        ``without``: workspaces whose records the journal keeps.
        """
        self._last_id += 1
        await self._wait_for(messages.MakeDurable(id=self._last_id, without=list(without)))

    def reconfigure(self, options: messages.Options) -> None:
        """Go by other options."""
        self._options = options
        self._say(options)

    def restart(self) -> None:
        """Start another one, at the last checkpoint. No question is lost by it."""
        for waiting in self._waiting.values():
            waiting.asked = 0
        if self._running is not None:
            self._running.kill()

    async def close(self) -> None:
        """End the historian, once it has written what is left."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is None:
            return
        self._say(messages.End())
        try:
            await asyncio.wait_for(asyncio.shield(self._ended), _END_S)
        except TimeoutError:
            _log.error("the historian did not end; the next start makes up for it")
            assert self._running is not None, "BUG: a connection to nobody"
            self._running.kill()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send where to begin, before anything else."""
        assert isinstance(transport, asyncio.Transport), "BUG: no socket"
        self._transport = transport
        self._received = messages.Received()
        self._full = False
        self._say(
            messages.Begin(
                version=__version__, state=self._state, options=self._options, base=self.base
            )
        )
        self.trouble = None
        self._told = None
        self._tell()
        self._ask_again()
        self._watch()

    def pause_writing(self) -> None:
        """The historian does not read at present."""
        self._full = True

    def resume_writing(self) -> None:
        """The historian reads again: send how far the journal is durable."""
        self._full = False
        self._tell()

    def data_received(self, data: bytes) -> None:
        """Take what it says."""
        self._heard = time.monotonic()
        for said in self._received.feed(data):
            self._hear(said)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        """The historian is gone: start another one."""
        self._transport = None
        status = 0
        if self._running is not None:
            self._running.kill()
            status = self._running.wait()
            self._running = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for number, waiting in list(self._waiting.items()):
            if self._closing or not isinstance(waiting.message, messages.Ask):
                self._settle(number, error=HistorianLost())
        if self._closing:
            if not self._ended.done():
                self._ended.set_result(None)
            return
        _log.error("the historian has ended (%d); another one is started", status)
        self.trouble = "the process that keeps it has ended"
        if time.monotonic() - self._began > _SOON_S:
            self._pause = _PAUSE_S
        self._start_later()

    # -- inside

    def _start_later(self) -> None:
        self._timer = self._loop.call_later(self._pause, self._start_again)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)

    def _start_again(self) -> None:
        self._timer = None
        self._starting = self._loop.create_task(self.start())

    def _ask_again(self) -> None:
        """Ask what was not answered, but for what was asked often enough: that is refused."""
        for number, waiting in list(self._waiting.items()):
            if waiting.asked < _MOST_ASKED:
                waiting.asked += 1
                self._say(waiting.message)
            else:
                self._settle(number, error=refused_anew(_LOST))

    def _say(self, message: messages.Message) -> None:
        if self._transport is not None:
            self._transport.write(messages.encoded(message))

    def _tell(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        position = self._position()
        if self._transport is not None and self._told != position:
            self._told = position
            self._say(messages.Durable(segment=position.segment, offset=position.offset))

    async def _wait_for(self, message: messages.Ask | messages.MakeDurable) -> Any:
        if self._closing:
            raise refused_anew(_STOPPING)
        waiting = _Waiting(message, self._loop.create_future(), 1)
        self._waiting[message.id] = waiting
        if len(self._waiting) == 1:  # nothing was wanted of it before
            self._heard = time.monotonic()
        self._tell()
        self._say(message)
        try:
            return await waiting.future
        finally:
            self._waiting.pop(message.id, None)

    def _hear(self, said: messages.ToEngine) -> None:
        match said:
            case messages.Answer():
                self._settle(said.id, said.result)
            case messages.Declined():
                self._settle(said.id, error=said.refusal)
            case messages.Cannot(reason=reason):
                failed = SyncFailed(5, reason) if said.sync_failed else HistorianLost(reason)
                self._settle(said.id, error=failed)
            case messages.Failed():
                _log.error("a question failed: %s\n%s", said.reason, said.traceback)
                self._settle(said.id, error=refused_anew(_DEFECT))
            case messages.Trouble():
                self.trouble, self.failures = said.reason, said.failures
            case messages.Answered():
                self.remembered.begin(said.filters)
            case messages.Pong():
                for number in said.work.keys() & self._works.keys():
                    self._works[number].copy_from(said.work[number])
            case messages.NewCommits():
                self.on_commits(said.shadow)
            case messages.OtherVersion():
                _log.error("stetd was upgraded to %s meanwhile: restart it", said.version)

    def _settle(self, number: int, result: object = None, error: Exception | None = None) -> None:
        """Answer a question, if anybody still waits."""
        waiting = self._waiting.pop(number, None)
        if waiting is None or waiting.future.done():
            return
        if error is not None:
            waiting.future.set_exception(error)
        else:
            waiting.future.set_result(result)

    def _watch(self) -> None:
        """Follow long work, and end a historian that hangs, so that another one is started."""
        if self._timer is not None:
            self._timer.cancel()
        pause = _PROGRESS_S if self._works else _SILENT_S / 6
        self._timer = self._loop.call_later(pause, self._watch)
        if not self._waiting:
            return
        if time.monotonic() - self._heard > _SILENT_S:
            _log.error("the historian says nothing: it is ended")
            if self._running is not None:
                self._running.kill()
        else:
            self._say(messages.Ping())


_LOST = refuse(
    Kind.OVERLOADED,
    "The process that keeps the history ended unexpectedly, twice, while it looked for the answer. "
    "Nothing was changed. Ask for less (a path, fewer commits), or try again in a moment.",
)
_DEFECT = refuse(
    Kind.INTERNAL,
    "The daemon failed while it looked into the history; the details are in its log.",
)
_STOPPING = refuse(
    Kind.SHUTTING_DOWN,
    "The daemon is stopping; this was not begun. Connect again in a moment and send it again.",
)
