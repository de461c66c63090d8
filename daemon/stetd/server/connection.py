"""One client's connection: bytes in, requests to the handlers in order, replies out.

Life of a connection::

    made -> [turned away: one refusal] -> closing -> lost
         -> serving <-> held back (reading is paused) -> draining -> closing -> lost

Held back means that nothing more is read, so that a flood stays in the client's own socket
buffer. It happens while

- ``max_pipelined`` requests are in work, or ``max_frame`` bytes of them,
- all connections together have too much in work (``stetd.server.shared_limits``),
- ``hello`` is in work: what follows it needs the session that it makes,
- more came at once than one turn on the event loop may take,
- the client does not take its replies (more than HIGH_WATER bytes wait to be sent).

A client that leaves replies waiting, or pauses in the middle of a frame, for
``frame_timeout_s`` is dropped. What methods mean, and the order of writing calls, is the handlers'
business (``stetd.methods``).
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import TYPE_CHECKING, Any, Protocol, cast

from stet.wire.events import LostEvent
from stet.wire.failures import Kind, Refused, code_of, refuse
from stet.wire.framing import Encoding, FrameError, Framer, enclose
from stet.wire.messages import (
    MalformedMessage,
    Request,
    decode_request,
    encode_error,
    encode_event,
    encode_result,
)
from stet.wire.results import EditResult
from stetd.config.logs import Fields
from stetd.server.peer import Credentials, PeerProcess, credentials_of, hung_up, peer_of
from stetd.server.shared_limits import LARGE

if TYPE_CHECKING:
    from stetd.server.server import Server

#: Bytes of replies that may wait for a client before nothing more is read from it. Also what
#: it must take within each frame_timeout_s to count as reading at all.
HIGH_WATER = 1024 * 1024
#: Seconds in which a connection that is turned away may say what it wanted, for its encoding and
#: id, and one that sent a bad frame may finish sending it.
PARTING_S = 2.0
#: Requests, and seconds, after which a turn on the event loop ends and others have theirs.
_TURN_REQUESTS = 8
_TURN_S = 0.0005
#: Where every connection receives. What is in it is taken out in the same turn.
_RECEIVED = memoryview(bytearray(256 * 1024))

_METHOD_NAME = re.compile(r"[a-z_]{1,40}")

log = logging.getLogger("stetd.connection")
call_log = logging.getLogger("stetd.calls")


class Calls(Protocol):
    """What carries out the calls of one connection."""

    async def call(self, method: str, params: dict[str, Any]) -> object:
        """Carry out a call; a result that msgspec can encode. Raises Refused.

        It is begun at once, and as a task only if it waits for something. Writing work is handed
        to the writer before the first await, so calls are carried out in the order of their start.
        """

    def labels(self) -> dict[str, str | None]:
        """Who is asking, for the log."""

    def disconnected(self) -> None:
        """The client is gone; calls in work go on, their results go nowhere."""


class Handlers(Protocol):
    """What a server serves."""

    def connect(self, *, control: bool, peer: PeerProcess, client: ClientConnection) -> Calls:
        """A new connection; by it (``client``) events are sent."""


class ClientConnection(asyncio.BufferedProtocol):
    """The server's side of one connection. Everything in it runs on the event loop."""

    def __init__(self, server: Server, *, control: bool) -> None:
        self.control = control
        #: Requests in work.
        self.tasks: set[asyncio.Task[None]] = set()
        self._server = server
        self._crowd = server.crowd
        self._loop = asyncio.get_running_loop()
        self._framer = Framer(server.settings.max_frame)
        self._calls: Calls | None = None
        self._turned_away: Refused | None = None
        self._transport: asyncio.Transport
        self._credentials: Credentials
        self._command = ""
        self._hello: asyncio.Task[None] | None = None
        self._replies_waiting = False
        self._more_frames = False  # than one turn may take; the next turn is scheduled
        self._draining = False
        self._ended = False  # nothing more will come: the client closed its side
        self._gone = False  # the handlers know that nobody is there any more
        self._broken = False  # nothing more can be understood: a frame could not be cut
        self._heard = self._loop.time()
        self._sent = 0
        self._in_work = 0  # bytes
        self._taken = asyncio.Event()  # the client has taken its replies, or nobody may wait
        self._taken.set()
        self._lost_events = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # -- asyncio.BufferedProtocol ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Look at whose it is, and admit it or not."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER, low=HIGH_WATER // 4)
        self._credentials = credentials_of(transport.get_extra_info("socket"))
        self._turned_away = self._server.admit(self, self._credentials)
        if self._turned_away is not None:
            self._after("parting", PARTING_S, self._turn_away, None)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's name
        """Where to put what comes. A buffer of its own for each piece would cost more than it."""
        return _RECEIVED

    def buffer_updated(self, nbytes: int) -> None:
        """Cut what came into requests and start them."""
        self._heard = self._loop.time()
        if self._broken:
            return  # it is not listened to any more
        if self._calls is None and self._turned_away is None:
            self._open()
        self._framer.feed(_RECEIVED[:nbytes])
        self._crowd.grew(nbytes)
        self.advance()

    def eof_received(self) -> bool:
        """Answer what was asked before the client closed its side, then close ours."""
        self._ended = True
        if self._calls is not None and hung_up(self._transport.get_extra_info("socket")):
            # Not only done with asking, but gone: nobody waits for what calls in work wait for.
            self._tell_gone()
        self.advance()
        return True

    def pause_writing(self) -> None:
        """Read no more from a client that does not take its replies."""
        self._replies_waiting = True
        if not self._draining:
            self._taken.clear()
        self._watch_progress()
        self._regulate()

    def resume_writing(self) -> None:
        """Go on after the client took its replies."""
        self._replies_waiting = False
        self._cancel("unread")
        self._taken.set()
        if self._lost_events:
            lost, self._lost_events = self._lost_events, 0
            self.notify(LostEvent(lost))
        self.advance()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        """Forget the client. Calls in work go on; what they change is recorded."""
        for name in list(self._timers):
            self._cancel(name)
        self._ended = True
        # Whoever still knows of this connection must not keep what was half received on it.
        self._framer = Framer(self._server.settings.max_frame, self._framer.encoding)
        self._taken.set()
        self._tell_gone()
        self._server.left(self)

    def _tell_gone(self) -> None:
        """Tell the handlers, once, that nobody is there any more."""
        if self._calls is not None and not self._gone:
            self._gone = True
            self._calls.disconnected()

    # -- for the server and the handlers ---------------------------------------------------

    def notify(self, event: object) -> None:
        """Send an event. A slow client gets only the number of those that it did not take."""
        if self._replies_waiting:
            self._lost_events += 1
        else:
            self._send(encode_event(self._encoding, event))

    async def taken(self) -> None:
        """Wait until the client has taken its replies, or is gone."""
        while not (self._taken.is_set() or self._transport.is_closing()):
            await self._taken.wait()

    def drain(self) -> None:
        """From now on refuse what comes in; what is in work goes on."""
        self._draining = True
        self._taken.set()
        self.advance()

    def close(self, patience_s: float | None = None) -> None:
        """Close once the client has taken what was sent; ``patience_s``: within so many seconds."""
        self._transport.close()
        if patience_s is not None:
            self._after("parting", patience_s, self.abort)
        else:
            self._watch_progress()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    @property
    def held(self) -> int:
        """Bytes that this client makes the daemon keep."""
        return self._framer.buffered + self._in_work + self._transport.get_write_buffer_size()

    def shed(self) -> None:
        """Close, because all connections together hold too much and this one holds the most."""
        log.warning("pid %d holds %d bytes: connection closed", self._credentials.pid, self.held)
        self._framer = Framer(self._server.settings.max_frame, self._framer.encoding)
        self._broken = True
        if self._transport.get_write_buffer_size():
            self.abort()
            return
        self._refuse(None, _HOLDS_THE_MOST)
        self._regulate()

    # -- requests --------------------------------------------------------------------------

    def _open(self) -> None:
        """Get ready for what a client says. Not before it says something: that costs too much."""
        try:
            peer = peer_of(self._transport.get_extra_info("socket"))
            self._command = peer.command
            self._calls = self._server.handlers.connect(
                control=self.control, peer=peer, client=self
            )
            return
        except Refused as refused:
            self._turned_away = refused
        except Exception:
            log.exception("a connection from pid %d could not be opened", self._credentials.pid)
            failed = "The daemon failed to open the connection; see its log."
            self._turned_away = refuse(Kind.INTERNAL, failed)
        self._after("parting", PARTING_S, self._turn_away, None)

    def advance(self) -> None:
        """Start the requests that are there, as many as may be in work.

        A few at a time: refusals are answered on the spot, and a flood of them must not keep
        the loop from other connections.
        """
        ends = self._loop.time() + _TURN_S
        try:
            for _ in range(_TURN_REQUESTS):
                frame = self._framer.next_frame() if self._may_start() else None
                if frame is None:
                    break
                self._start(frame)
                if self._loop.time() > ends:
                    self._take_another_turn()
                    break
            else:
                self._take_another_turn()
        except FrameError as error:
            self._refuse(None, refuse(error.kind, error.message))
            self._broken = True
        self._regulate()

    def _take_another_turn(self) -> None:
        def turn() -> None:
            self._more_frames = False
            self.advance()

        if not self._more_frames:
            self._more_frames = True
            self._loop.call_soon(turn)

    def _may_start(self) -> bool:
        if self._transport.is_closing() or self._broken or self._replies_waiting:
            return False
        if self._draining:
            return True
        if self._hello is not None or len(self.tasks) >= self._server.settings.max_pipelined:
            return False
        size = self._framer.frame_bytes
        if self._in_work and self._in_work + size > self._server.settings.max_frame:
            return False
        has_turn = self._crowd.has_turn(size, self.advance)
        return has_turn and self._crowd.has_room(size, self._take_another_turn)

    def _start(self, frame: bytes) -> None:
        large = len(frame) >= LARGE
        began = time.thread_time() if large else 0.0  # others may have the processor meanwhile
        try:
            request = decode_request(self._encoding, frame)
        except MalformedMessage as error:
            self._refuse(error.id, refuse(error.kind, error.message))
            return
        finally:
            if large:
                self._crowd.decoded(len(frame), time.thread_time() - began)
        if self._turned_away is not None:
            self._turn_away(request.id)
        elif self._draining:
            self._log_call(request.method, time.perf_counter(), _SHUTTING_DOWN.kind)
            if request.id is not None:
                self._refuse(request.id, _SHUTTING_DOWN)
        else:
            serving = self._serve(request)
            try:
                waits_for = serving.send(None)
            except StopIteration:
                return
            task = self._loop.create_task(_go_on(serving, waits_for))
            self.tasks.add(task)
            self._in_work += len(frame)
            self._crowd.begin(len(frame))
            if request.method == "hello":
                self._hello = task
            task.add_done_callback(partial(self._served, len(frame)))

    async def _serve(self, request: Request) -> None:
        started = time.perf_counter()
        result: object = None
        assert self._calls is not None, "BUG: a request on a connection that was turned away"
        try:
            result = await self._calls.call(request.method, request.params)
            payload, outcome = encode_result(self._encoding, request.id, result), "ok"
        except Refused as refused:
            payload, outcome = self._refusal(request.id, refused), refused.kind
        except asyncio.CancelledError:
            payload, outcome = self._refusal(request.id, _CUT_OFF), _CUT_OFF.kind
        except Exception as error:
            # A defect of ours, whatever it is: it must not take other clients' calls along.
            log.exception("%s failed", _loggable(request.method))
            payload, outcome = self._refusal(request.id, _internal(error)), Kind.INTERNAL.value
        if request.id is not None:
            self._send(payload)
        self._log_call(request.method, started, outcome, result)

    def _served(self, size: int, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self._in_work -= size
        self._crowd.end(size)
        if task is self._hello:
            self._hello = None
        if not task.cancelled() and task.exception() is not None:
            log.error("a reply could not be sent", exc_info=task.exception())
            self.abort()
        self.advance()

    # -- replies ---------------------------------------------------------------------------

    @property
    def _encoding(self) -> Encoding:
        return self._framer.encoding or Encoding.JSON

    def _send(self, payload: bytes) -> None:
        if self._transport.is_closing():
            return
        frame = enclose(self._encoding, payload)
        self._sent += len(frame)
        self._transport.write(frame)
        if self._transport.get_write_buffer_size():
            self._crowd.grew(len(frame))

    def _refuse(self, id: str | int | None, refused: Refused) -> None:  # noqa: A002
        self._send(self._refusal(id, refused))

    def _refusal(self, id: str | int | None, refused: Refused) -> bytes:  # noqa: A002
        data = {"kind": refused.kind, "failures": refused.failures, **refused.extra}
        code = code_of(Kind(refused.kind))
        return encode_error(self._encoding, id, code, refused.message, data)

    def _turn_away(self, id: str | int | None) -> None:  # noqa: A002
        if self._turned_away is not None and not self._transport.is_closing():
            self._refuse(id, self._turned_away)
            self.close()

    def _log_call(self, method: str, started: float, outcome: str, result: object = None) -> None:
        if not call_log.isEnabledFor(logging.INFO):
            return
        fields: dict[str, str | int | float | None] = {
            "socket": "control" if self.control else "agent",
            "pid": self._credentials.pid,
            "command": self._command,
            **(self._calls.labels() if self._calls is not None else {}),
            "method": _loggable(method),
        }
        if isinstance(result, EditResult):
            fields |= {"files": len(result.files), "commit": result.commit}
        fields |= {"ms": round((time.perf_counter() - started) * 1000, 1), "result": outcome}
        call_log.info("call %s", Fields(fields))

    # -- holding back and giving up --------------------------------------------------------

    def _regulate(self) -> None:
        """Read on or hold back, watch or stop watching for a pause inside a frame, close."""
        if self._transport.is_closing():
            return
        if self._broken or self._ended:
            self._part()
        elif self._more_frames or not self._may_start():
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
            if self._framer.mid_frame and "stalled" not in self._timers:
                self._after("stalled", self._server.settings.frame_timeout_s, self._check_stalled)

    def _part(self) -> None:
        """Close when everything that was understood has been answered."""
        if self.tasks or (self._framer.has_frame and not self._broken):
            return
        if self._broken and not self._ended:
            # The client may still be sending; closing now would fail its write before it
            # reads why. It gets the answer and the end of our side, and is not listened to.
            if "parting" not in self._timers:
                self._after("parting", PARTING_S, self.abort)
                self._transport.write_eof()
                self._transport.resume_reading()
            return
        if not self._broken:
            try:
                self._framer.end()
            except FrameError as error:
                self._refuse(None, refuse(error.kind, error.message))
        self.close()

    def _check_stalled(self) -> None:
        if not self._framer.mid_frame:
            return
        left = limit = self._server.settings.frame_timeout_s
        if self._transport.is_reading():  # else it is us who pause, not the client
            left -= self._loop.time() - self._heard
        if left > 0:
            self._after("stalled", left, self._check_stalled)
        else:
            text = f"The connection paused for {limit:g} s in the middle of a message. Send whole "
            self._refuse(None, refuse(Kind.PARSE_ERROR, text + "messages."))
            self.close()

    def _watch_progress(self) -> None:
        # What the client has taken so far, or its socket buffer.
        before = self._sent - self._transport.get_write_buffer_size()

        def check() -> None:
            if self._sent - self._transport.get_write_buffer_size() - before >= HIGH_WATER:
                self._watch_progress()
                return
            pid = self._credentials.pid
            log.warning("pid %d does not read its replies: connection dropped", pid)
            self.abort()

        self._after("unread", self._server.settings.frame_timeout_s, check)

    def _after(self, name: str, seconds: float, do: Callable[..., None], *args: object) -> None:
        self._cancel(name)

        def expire() -> None:
            del self._timers[name]
            do(*args)

        self._timers[name] = self._loop.call_later(seconds, expire)

    def _cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


@coroutine
def _go_on(serving: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """What a task does with a coroutine that has been begun already."""
    while True:
        try:
            value = yield waits_for
        except BaseException as error:  # noqa: BLE001 - it is the coroutine's
            step = partial(serving.throw, error)
        else:
            step = partial(serving.send, value)
        try:
            waits_for = step()
        except StopIteration:
            return


_SHUTTING_DOWN = refuse(
    Kind.SHUTTING_DOWN,
    "The daemon is stopping; this call was not started and changed nothing. Connect again in a "
    "moment and send it again.",
)
_HOLDS_THE_MOST = refuse(
    Kind.OVERLOADED,
    "All connections together hold more bytes than max_held_bytes allows, and this one the most of "
    "them, so it is closed. A message that it had not sent wholly was not started. Connect again "
    "in a moment, and send less at a time.",
)
_CUT_OFF = refuse(
    Kind.OUTCOME_UNKNOWN,
    "The daemon is stopping and could not wait for this call. Whether it took effect is settled "
    "at the next start: send it again then, with the same request_id.",
)


def _internal(error: Exception) -> Refused:
    return refuse(
        Kind.INTERNAL,
        f"The daemon failed while it handled this call ({type(error).__name__}); the details are "
        "in its log. To learn whether the call took effect, send it again with the same "
        "request_id: it is carried out at most once.",
    )


def _loggable(method: str) -> str:
    """A method's name for the log; anything that can't be one is content, and left out."""
    return method if _METHOD_NAME.fullmatch(method) else "?"
