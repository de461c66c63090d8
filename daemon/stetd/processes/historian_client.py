"""The engine's side of the historian: starts it, asks it, and restarts it when it is lost.

The historian may be killed at any instruction, stop, or hang: edits go on. A lost question is asked
again; a checkpoint that waits for the historian fails. Imports nothing that reads Git.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar

import msgspec

from stet.wire.failures import Kind, refuse
from stet.wire.first_use import known_to_msgspec
from stetd import __version__
from stetd.config.settings import Settings
from stetd.processes import children
from stetd.processes import historian_messages as messages
from stetd.processes.children import Declined, Failed, Message
from stetd.processes.remembered import Remembered
from stetd.storage.disk import SyncFailed
from stetd.storage.journal import Position
from stetd.storage.progress import Progress

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: Seconds after which the historian is told that the journal has grown, if nothing is asked.
_GATHER_S = 0.05
#: Seconds without a message after which the historian counts as hanging, if a question is open.
_SILENT_S = 30.0
#: Seconds before a restart: the first pause, which doubles with each restart, and the longest.
_RESTART_PAUSE_S, _MAX_RESTART_PAUSE_S = 0.05, 5.0
#: After a historian that ran longer than this, the pause is the first again.
_SOON_S = 10.0
#: Seconds that the historian has to end when the daemon stops.
_END_TIMEOUT_S = 60.0
#: Seconds between two pings for the progress of long work.
_PROGRESS_S = 0.25
#: How often a question is asked before it is refused.
_MAX_ATTEMPTS = 2


class HistorianLost(Exception):
    """The historian has not done what was asked; it may have ended."""


class Running(Protocol):
    """A running historian."""

    def kill(self) -> None:
        """End the process at once."""

    def wait(self) -> int:
        """Wait for its end; returns the exit status, negative for a signal."""


#: Starts a historian; returns the socket to it. Raises OSError.
Run = Callable[[], tuple[socket.socket, Running]]


def start_process(keep: Sequence[int] = ()) -> tuple[socket.socket, Running]:
    """Start a historian in a process of its own.

    ``keep``: descriptors that it inherits: the locks of the directories, so that the next daemon
    waits for its end.
    """
    level = logging.getLevelName(logging.getLogger().level)
    return children.start("stetd.historian.process", level, keep=keep)


class _Waiting(msgspec.Struct):
    """An open question; ``asked``: how often it was sent."""

    message: messages.Ask | messages.MakeDurable
    future: asyncio.Future[Any]
    progress: Progress | None
    asked: int


class Historian(msgspec.Struct):
    """The historian, as the engine sees it. Event loop only."""

    _loop: asyncio.AbstractEventLoop
    _state: str
    _settings: Settings
    _run: Run
    #: Where the next historian begins to follow.
    base: messages.StartingPoint
    #: The position in the journal before which all records are durable and settled (published or
    #: voided); it may be called between two turns of the writer.
    _position: Callable[[], Position]
    #: Why Git can't be written at present, and the number of failed attempts.
    trouble: str | None = None
    failures: int = 0
    #: The answered calls, as far as the engine knows them.
    remembered: Remembered = msgspec.field(default_factory=Remembered)
    #: Called with a shadow repository that has new commits.
    on_commits: Callable[[str], None] = lambda _: None
    _sent_position: Position | None = None
    _running: Running | None = None
    _writer: asyncio.StreamWriter | None = None
    _keeping: asyncio.Task[None] | None = None
    _waiting: dict[int, _Waiting] = {}
    _ids: Iterator[int] = msgspec.field(default_factory=lambda: count(1))
    _closing: bool = False
    _replacing: bool = False
    _upgraded: str | None = None
    _heard_at: float = 0.0
    _watching: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start a historian, and a new one whenever it ends."""
        reader = await self._begin()
        self._keeping = self._loop.create_task(self._keep(reader))

    async def _keep(self, reader: asyncio.StreamReader | None) -> None:
        """Read from one historian after the other; None: the first could not be started."""
        pause = _RESTART_PAUSE_S
        while True:
            if reader is not None:
                began = time.monotonic()
                await self._handle_all(reader)
                if self._closing:
                    return
                if time.monotonic() - began > _SOON_S:
                    pause = _RESTART_PAUSE_S
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_RESTART_PAUSE_S)
            reader = await self._begin()

    async def _begin(self) -> asyncio.StreamReader | None:
        """Start a historian. The first message tells it where to begin."""
        try:
            connected, self._running = self._run()
        except OSError as error:
            _log.error("no historian can be started: %s", error)
            self.trouble = f"the process that keeps it can't be started: {error.strerror}"
            self._ask_again()
            return None
        self._heard_at = time.monotonic()
        reader, self._writer = await asyncio.open_connection(sock=connected)
        self._send(
            messages.Begin(
                version=__version__, state=self._state, settings=self._settings, base=self.base
            )
        )
        self.trouble = None
        self._sent_position = None
        self._send_position()
        self._ask_again()
        self._watch()
        return reader

    async def _handle_all(self, reader: asyncio.StreamReader) -> None:
        """Handle all messages of a historian until it has ended."""
        assert self._writer is not None, "BUG: no historian to read from"
        assert self._running is not None, "BUG: a connection to nobody"
        try:
            while True:
                self._handle(await messages.read(reader))
        except (EOFError, OSError):
            pass  # it is gone
        except Exception as error:  # noqa: BLE001 - another one is started
            _log.error("the historian is not understood: %r", error, exc_info=error)
        finally:
            self._writer.transport.abort()
            self._writer = None
        self._running.kill()
        status = self._running.wait()
        self._running = None
        if self._watching is not None:
            self._watching.cancel()
        for number, waiting in list(self._waiting.items()):
            if self._closing or not isinstance(waiting.message, messages.Ask):
                self._settle(number, HistorianLost("the historian has ended"))
        if not self._closing and not self._replacing:
            _log.error("the historian has ended (%d); another one is started", status)
            self.trouble = self._upgraded or "the process that keeps it has ended"
        self._replacing = False

    def follow(self) -> None:
        """Tell the historian soon that the journal has grown."""
        if self._send_timer is None:
            self._send_timer = self._loop.call_later(_GATHER_S, self._send_position)

    async def ask(
        self,
        question: str,
        params: object,
        result: type[T],
        view: messages.WorkspaceView | None = None,
        progress: Progress | None = None,
    ) -> T:
        """Ask a question; returns the answer, of type ``result``. Raises Refused.

        ``progress``: of a long question; it is updated meanwhile.
        """
        asked = messages.Ask(
            id=next(self._ids),
            question=question,
            view=view,
            params=msgspec.msgpack.encode(params),
            long=progress is not None,
        )
        found: T = msgspec.msgpack.decode(
            await self._wait_for(asked, progress), type=known_to_msgspec(result)
        )
        return found

    async def make_durable(self, without: Collection[str]) -> None:
        """Have Git made durable as far as the journal is. Raises SyncFailed, HistorianLost.

        ``without``: workspaces to leave out; the journal keeps their records.
        """
        await self._wait_for(messages.MakeDurable(id=next(self._ids), without=list(without)))

    def reconfigure(self, settings: Settings) -> None:
        """Use other settings from now on."""
        self._settings = settings
        self._send(messages.Reconfigured(settings=settings))

    def restart(self) -> None:
        """Replace the historian by one that begins at the last checkpoint. No question is lost."""
        for waiting in self._waiting.values():
            waiting.asked = 0
        if self._running is not None:
            self._replacing = True
            self._running.kill()

    async def close(self) -> None:
        """End the historian after it has written everything."""
        self._closing = True
        assert self._keeping is not None, "BUG: it was never started"
        if self._writer is None:
            self._keeping.cancel()
            return
        self._send(messages.End())
        try:
            async with asyncio.timeout(_END_TIMEOUT_S):
                await asyncio.shield(self._keeping)
        except TimeoutError:
            _log.error("the historian did not end; the next start makes up for it")
            assert self._running is not None, "BUG: a connection to nobody"
            self._running.kill()

    # -- inside

    def _ask_again(self) -> None:
        """Send open questions again; refuse those that were sent _MAX_ATTEMPTS times."""
        for number, waiting in list(self._waiting.items()):
            if waiting.asked < _MAX_ATTEMPTS:
                waiting.asked += 1
                self._send(waiting.message)
            else:
                why = f"{self._upgraded}. Nothing was changed."
                lost = refuse(Kind.OVERLOADED, why) if self._upgraded else _LOST.copy()
                self._settle(number, lost)

    def _send(self, message: Message) -> None:
        if self._writer is not None:
            self._writer.write(children.encoded(message))

    def _send_position(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None
        position = self._position()
        if self._writer is not None and self._sent_position != position:
            self._sent_position = position
            self._send(messages.Durable(position=position))

    async def _wait_for(
        self, message: messages.Ask | messages.MakeDurable, progress: Progress | None = None
    ) -> Any:
        if self._closing:
            raise _STOPPING.copy()
        sent = self._writer is not None
        waiting = _Waiting(message, self._loop.create_future(), progress, asked=int(sent))
        self._waiting[message.id] = waiting
        if len(self._waiting) == 1:  # until now it had no reason to send anything
            self._heard_at = time.monotonic()
        self._send_position()
        self._send(message)
        if progress is not None and self._writer is not None:
            self._watch()
        try:
            return await waiting.future
        finally:
            self._waiting.pop(message.id, None)

    def _handle(self, said: messages.ToEngine) -> None:
        self._heard_at = time.monotonic()
        match said:
            case messages.Answer(id=number, outcome=messages.Found(result=result)):
                self._settle(number, result)
            case messages.Answer(id=number, outcome=Declined() as declined):
                self._settle(number, declined.refusal)
            case messages.Answer(id=number, outcome=messages.Cannot() as cannot):
                lost, failed = HistorianLost(cannot.reason), SyncFailed(errno.EIO, cannot.reason)
                self._settle(number, failed if cannot.sync_failed else lost)
            case messages.Answer(id=number, outcome=Failed() as failure):
                _log.error("a question failed: %s\n%s", failure.reason, failure.traceback)
                self._settle(number, _DEFECT.copy())
            case messages.Trouble():
                self.trouble, self.failures = said.reason, said.failures
            case messages.StoredReplies():
                self.remembered.begin(said.ids)
            case messages.Pong():
                for number, waiting in self._waiting.items():
                    if waiting.progress is not None and number in said.work:
                        waiting.progress.copy_from(said.work[number])
            case messages.NewCommits():
                self.on_commits(said.shadow)
            case messages.OtherVersion():
                _log.error("stetd was upgraded to %s meanwhile: restart it", said.version)
                why = f"stetd was upgraded to {said.version} meanwhile: restart it with stet stop"
                self._upgraded = why

    def _settle(self, number: int, outcome: msgspec.Raw | Exception) -> None:
        """Resolve a question's future, unless it is cancelled."""
        waiting = self._waiting.pop(number, None)
        if waiting is None or waiting.future.done():
            return
        if isinstance(outcome, Exception):
            waiting.future.set_exception(outcome)
        else:
            waiting.future.set_result(outcome)

    def _watch(self) -> None:
        """Ask for the progress of long work; kill a historian that hangs."""
        if self._watching is not None:
            self._watching.cancel()
        long = any(waiting.progress is not None for waiting in self._waiting.values())
        pause = _PROGRESS_S if long else _SILENT_S / 6
        self._watching = self._loop.call_later(pause, self._watch)
        if not self._waiting:
            return
        if time.monotonic() - self._heard_at > _SILENT_S:
            _log.error("the historian says nothing: it is ended")
            if self._running is not None:
                self._running.kill()
        else:
            self._send(messages.Ping())


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
