"""One client's connection: decodes frames, hands requests to the handlers in order, sends replies.

Life of a connection::

    made -> [turned away: one refusal] -> closing -> lost
         -> serving <-> paused (not reading) -> draining -> closing -> lost

While a connection is paused the daemon does not read from it, so a flood stays in the client's own
socket buffer. A connection is paused while

- ``max_pipelined`` requests, or ``max_frame`` bytes of requests, are in progress,
- all connections together have too much in progress (``stetd.server.shared_limits``),
- ``hello`` is in progress: the requests after it need the session that it opens,
- more requests have arrived than one turn of the event loop may start,
- the client does not read its replies (more than HIGH_WATER bytes wait to be sent).

A client that does not read its replies, or stops in the middle of a frame, is dropped after
``frame_timeout_s``. ``stetd.methods`` has the methods, and keeps the order of writing calls.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Coroutine, Generator
from functools import lru_cache, partial
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
from stetd.refusals import shutting_down
from stetd.server.peer import PeerProcess, credentials_of, hung_up, peer_of
from stetd.server.shared_limits import LARGE

if TYPE_CHECKING:
    from stetd.server.server import Server

#: Reading is paused when more bytes of replies than this wait to be sent. A client must also read
#: this many bytes in each frame_timeout_s, or it counts as not reading.
HIGH_WATER = 1024 * 1024
#: Seconds that a connection stays open before it is closed: one that is turned away may still send
#: its request, whose encoding and id the refusal needs; one with a bad frame may finish sending.
LINGER_S = 2.0
#: A connection yields to the others after so many requests, or seconds, in one turn of the loop.
_TURN_REQUESTS = 8
_TURN_S = 0.0005
#: The receive buffer of all connections. Received bytes are copied out in the same turn.
_RECEIVED = memoryview(bytearray(256 * 1024))

_METHOD_NAME = re.compile(r"[a-z_]{1,40}")

log = logging.getLogger("stetd.connection")


class CallHandler(Protocol):
    """Carries out the calls of one connection."""

    async def call(self, method: str, params: dict[str, Any]) -> object:
        """Carry out a call. Returns a result that msgspec can encode. Raises Refused.

        The call starts at once; it becomes a task only if it has to wait. Writing calls reach the
        writer before the first ``await``, so they are carried out in the order of their start.
        """

    def labels(self) -> dict[str, str | None]:
        """The caller's agent and session, for the log."""

    def disconnected(self) -> None:
        """The client has disconnected: its calls go on. It may be said twice."""


class Handlers(Protocol):
    """Makes the handler of each new connection."""

    def connect(self, *, control: bool, peer: PeerProcess, client: ClientConnection) -> CallHandler:
        """The handler of a new connection; it sends its events through ``client``."""


class ClientConnection(asyncio.BufferedProtocol):
    """The server's side of one connection. Everything in it runs on the event loop."""

    def __init__(self, server: Server, *, control: bool) -> None:
        self.control = control
        #: Requests in progress.
        self.tasks: set[asyncio.Task[None]] = set()
        self._server = server
        self._shared_limits = server.shared_limits
        self._loop = asyncio.get_running_loop()
        self._framer = Framer(server.settings.max_frame)
        self._handler: CallHandler | None = None
        self._turned_away: Refused | None = None
        self._transport: asyncio.Transport
        self._pid = 0
        self._command = ""
        self._hello: asyncio.Task[None] | None = None
        self._replies_waiting = False
        self._peer_sent_eof = False
        self._input_ignored = False  # after a bad frame, or when it held too much memory
        self._last_received = self._loop.time()
        self._bytes_sent = 0
        self._bytes_in_work = 0
        self._writable = asyncio.Event()  # cleared while replies wait; always set when draining
        self._writable.set()
        self._lost_events = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # -- asyncio.BufferedProtocol ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Check whose process connected, and admit it or turn it away."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER, low=HIGH_WATER // 4)
        uid, self._pid = credentials_of(transport.get_extra_info("socket"))
        self._turned_away = self._server.admit(self, uid, self._pid)
        if self._turned_away is not None:
            self._arm("linger", LINGER_S, self._turn_away, None)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's name
        """The shared receive buffer; to allocate one per read would cost more than the read."""
        return _RECEIVED

    def buffer_updated(self, nbytes: int) -> None:
        """Cut the received bytes into requests and start them."""
        self._last_received = self._loop.time()
        if self._input_ignored:
            return
        if self._handler is None and self._turned_away is None:
            self._open()
        self._framer.feed(_RECEIVED[:nbytes])
        self._shared_limits.grew(nbytes)
        self.start_requests()

    def eof_received(self) -> bool:
        """Answer the requests that came before the end of the stream, then close."""
        self._peer_sent_eof = True
        if self._handler is not None and hung_up(self._transport.get_extra_info("socket")):
            # The client closed both directions, so no reply can reach it: its calls need not wait.
            self._handler.disconnected()
        self.start_requests()
        return True

    def pause_writing(self) -> None:
        """Pause reading: the client does not read its replies."""
        self._replies_waiting = True
        if not self._server.stopping:
            self._writable.clear()
        self._watch_replies()
        self._update_reading()

    def resume_writing(self) -> None:
        """Resume: the client has read its replies."""
        self._replies_waiting = False
        self._disarm("unread")
        self._writable.set()
        if self._lost_events:
            lost, self._lost_events = self._lost_events, 0
            self.notify(LostEvent(lost))
        self.start_requests()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        """Forget the client. Its calls go on, and their changes are recorded."""
        for name in list(self._timers):
            self._disarm(name)
        # Calls in progress still refer to this connection; free its half-received frame.
        self._framer = Framer(self._server.settings.max_frame, self._framer.encoding)
        self._writable.set()
        if self._handler is not None:
            self._handler.disconnected()
        self._server.forget(self)

    # -- for the server and the handlers ---------------------------------------------------

    def notify(self, event: object) -> None:
        """Send an event. While replies wait, events are only counted, and reported as lost."""
        if self._input_ignored:
            return  # it is being closed, and after EOF nothing can be written
        if self._replies_waiting:
            self._lost_events += 1
        else:
            self._send(encode_event(self._encoding, event))

    async def wait_writable(self) -> None:
        """Wait until the client has read its replies or has disconnected, or the daemon drains."""
        while not (self._writable.is_set() or self._transport.is_closing()):
            await self._writable.wait()

    def drain(self) -> None:
        """The server stops: refuse new requests; requests in progress go on."""
        self._writable.set()
        self.start_requests()

    def close(self, linger_s: float | None = None) -> None:
        """Close when all replies are sent, or at the latest after ``linger_s`` seconds."""
        self._transport.close()
        if linger_s is not None:
            self._arm("linger", linger_s, self.abort)
        else:
            self._watch_replies()

    def abort(self) -> None:
        """Close at once, and drop the replies that wait."""
        self._transport.abort()

    @property
    def held(self) -> int:
        """Bytes of memory that the daemon holds for this client."""
        return self._framer.buffered + self._bytes_in_work + self._transport.get_write_buffer_size()

    def shed(self) -> None:
        """Refuse and close: all connections together hold too much, and this one the most."""
        log.warning("pid %d holds %d bytes: connection closed", self._pid, self.held)
        self._framer = Framer(self._server.settings.max_frame, self._framer.encoding)
        self._input_ignored = True
        if self._transport.get_write_buffer_size():
            self.abort()
            return
        self._refuse(None, _HOLDS_THE_MOST)
        self._update_reading()

    # -- requests --------------------------------------------------------------------------

    def _open(self) -> None:
        """Make the handler, when the first bytes come: a silent client should cost nothing."""
        try:
            peer = peer_of(self._transport.get_extra_info("socket"))
            self._command = peer.command
            self._handler = self._server.handlers.connect(
                control=self.control, peer=peer, client=self
            )
        except Exception:
            log.exception("a connection from pid %d could not be opened", self._pid)
            failed = "The daemon failed to open the connection; see its log."
            self._turned_away = refuse(Kind.INTERNAL, failed)
            self._arm("linger", LINGER_S, self._turn_away, None)

    def start_requests(self) -> None:
        """Start the requests that have arrived, within the limits.

        Only a few in each turn of the loop: refusals are answered at once, and a flood of them
        must not block the other connections.
        """
        began, started = time.monotonic(), 0
        try:
            while self._framer.has_frame and self._may_start():
                if started == _TURN_REQUESTS or (started and time.monotonic() > began + _TURN_S):
                    self._schedule_turn()
                    break
                frame = self._framer.next_frame()
                assert frame is not None, "BUG: has_frame without a frame"
                self._start(frame)
                started += 1
        except FrameError as error:
            self._refuse(None, error)
            self._input_ignored = True
        self._update_reading()

    def _schedule_turn(self) -> None:
        """Leave complete frames for the next turn of the loop."""
        if "turn" not in self._timers:
            self._arm("turn", 0, self.start_requests)

    def _may_start(self) -> bool:
        if self._transport.is_closing() or self._input_ignored or self._replies_waiting:
            return False
        if self._server.stopping:
            return True
        if self._hello is not None or len(self.tasks) >= self._server.settings.max_pipelined:
            return False
        size = self._framer.frame_bytes
        if self._bytes_in_work and self._bytes_in_work + size > self._server.settings.max_frame:
            return False
        may_decode = self._shared_limits.may_decode(size, self.start_requests)
        return may_decode and self._shared_limits.has_room(size, self._schedule_turn)

    def _start(self, frame: bytes) -> None:
        large = len(frame) >= LARGE
        began = time.thread_time() if large else 0.0  # other processes' time must not count
        try:
            request = decode_request(self._encoding, frame)
        except MalformedMessage as error:
            self._refuse(error.id, error)
            return
        finally:
            if large:
                self._shared_limits.decoded(time.thread_time() - began)
        if self._turned_away is not None:
            self._turn_away(request.id)
        elif self._server.stopping:
            self._log_call(request.method, time.perf_counter(), Kind.SHUTTING_DOWN.value)
            if request.id is not None:
                self._refuse(request.id, shutting_down())
        else:
            serving = self._serve(request)
            try:
                waits_for = serving.send(None)
            except StopIteration:
                return
            task = self._loop.create_task(_resume(serving, waits_for))
            self.tasks.add(task)
            self._bytes_in_work += len(frame)
            self._shared_limits.begin(len(frame))
            if request.method == "hello":
                self._hello = task
            task.add_done_callback(partial(self._served, len(frame)))

    async def _serve(self, request: Request) -> None:
        started = time.perf_counter()
        result: object = None
        assert self._handler is not None, "BUG: a request on a connection that was turned away"
        try:
            result = await self._handler.call(request.method, request.params)
            payload, outcome = encode_result(self._encoding, request.id, result), "ok"
        except Refused as refused:
            payload, outcome = self._refusal(request.id, refused), refused.kind
        except asyncio.CancelledError:
            payload, outcome = self._refusal(request.id, _CUT_OFF), _CUT_OFF.kind
        except Exception as error:
            # A defect of the daemon; it must not affect the calls of other clients.
            log.exception("%s failed", _loggable(request.method))
            payload, outcome = self._refusal(request.id, _internal(error)), Kind.INTERNAL.value
        if request.id is not None:
            self._send(payload)
        self._log_call(request.method, started, outcome, result)

    def _served(self, size: int, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self._bytes_in_work -= size
        self._shared_limits.end(size)
        if task is self._hello:
            self._hello = None
        if not task.cancelled() and task.exception() is not None:
            log.error("a reply could not be sent", exc_info=task.exception())
            self.abort()
        self.start_requests()

    # -- replies ---------------------------------------------------------------------------

    @property
    def _encoding(self) -> Encoding:
        return self._framer.encoding or Encoding.JSON

    def _send(self, payload: bytes) -> None:
        if self._transport.is_closing():
            return
        frame = enclose(self._encoding, payload)
        self._bytes_sent += len(frame)
        self._transport.write(frame)
        if self._transport.get_write_buffer_size():
            self._shared_limits.grew(len(frame))

    def _refuse(self, id: str | int | None, refused: Refused) -> None:  # noqa: A002
        self._send(self._refusal(id, refused))

    def _refusal(self, id: str | int | None, refused: Refused) -> bytes:  # noqa: A002
        data = {"kind": refused.kind, "failures": refused.failures, **refused.extra}
        if refused.kind == Kind.PARSE_ERROR and refused.failures[0].line is not None:
            data["line"] = refused.failures[0].line
        code = code_of(Kind(refused.kind))
        return encode_error(self._encoding, id, code, refused.message, data)

    def _turn_away(self, id: str | int | None) -> None:  # noqa: A002
        if self._turned_away is not None and not self._transport.is_closing():
            self._refuse(id, self._turned_away)
            self.close()

    def _log_call(self, method: str, started: float, outcome: str, result: object = None) -> None:
        socket = "control" if self.control else "agent"
        labels = self._handler.labels() if self._handler is not None else {}
        edit = result if isinstance(result, EditResult) else None
        caller = _fields(socket=socket, pid=self._pid, command=self._command, **labels)
        answer = _fields(
            method=_loggable(method),
            files=len(edit.files) if edit is not None else None,
            commit=edit.commit if edit is not None else None,
            ms=round((time.perf_counter() - started) * 1000, 1),
            result=outcome,
        )
        self._server.log_call(caller, answer)

    # -- pausing and closing ---------------------------------------------------------------

    def _update_reading(self) -> None:
        """Pause or resume reading; watch for a stalled frame; close when nothing is left to do."""
        if self._transport.is_closing():
            return
        if self._input_ignored or self._peer_sent_eof:
            self._close_when_answered()
        elif "turn" in self._timers or not self._may_start():
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
            if self._framer.mid_frame and "stalled" not in self._timers:
                self._arm("stalled", self._server.settings.frame_timeout_s, self._check_stalled)

    def _close_when_answered(self) -> None:
        """Close as soon as all received requests are answered."""
        if self.tasks or (self._framer.has_frame and not self._input_ignored):
            return
        if self._input_ignored and not self._peer_sent_eof:
            # The client may still be sending, and if we closed now its write would fail before
            # it reads the refusal. So we send the refusal and EOF, and drop further input.
            if "linger" not in self._timers:
                self._arm("linger", LINGER_S, self.abort)
                self._transport.write_eof()
                self._transport.resume_reading()
            return
        try:
            self._framer.end()  # after a bad frame nothing more was fed
        except FrameError as error:
            self._refuse(None, error)
        self.close()

    def _check_stalled(self) -> None:
        if not self._framer.mid_frame:
            return
        left = limit = self._server.settings.frame_timeout_s
        if self._transport.is_reading():  # else reading is paused, and the client can't be late
            left -= self._loop.time() - self._last_received
        if left > 0:
            self._arm("stalled", left, self._check_stalled)
        else:
            text = f"The connection paused for {limit:g} s in the middle of a message. Send whole "
            self._refuse(None, refuse(Kind.PARSE_ERROR, text + "messages."))
            self.close()

    def _watch_replies(self) -> None:
        # Bytes that have left the daemon so far, to the client or its socket buffer.
        before = self._bytes_sent - self._transport.get_write_buffer_size()

        def check() -> None:
            if self._bytes_sent - self._transport.get_write_buffer_size() - before >= HIGH_WATER:
                self._watch_replies()
                return
            log.warning("pid %d does not read its replies: connection dropped", self._pid)
            self.abort()

        self._arm("unread", self._server.settings.frame_timeout_s, check)

    def _arm(self, name: str, seconds: float, do: Callable[..., None], *args: object) -> None:
        """Start a timer; one of the same name is stopped."""
        self._disarm(name)

        def expire() -> None:
            del self._timers[name]
            do(*args)

        self._timers[name] = self._loop.call_later(seconds, expire)

    def _disarm(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


async def _resume(serving: Coroutine[Any, Any, None], waits_for: Any) -> None:
    """Run the rest of a coroutine that was started without a task, and waits for ``waits_for``."""
    await _rest(serving, waits_for)


@coroutine
def _rest(serving: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    # No task takes a generator from Python 3.12 on, so `_resume` awaits it.
    while True:
        try:
            value = yield waits_for
        except BaseException as error:  # noqa: BLE001 - the coroutine handles it
            step = partial(serving.throw, error)
        else:
            step = partial(serving.send, value)
        try:
            waits_for = step()
        except StopIteration:
            return


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


@lru_cache(maxsize=512)
def _fields(**fields: str | float | None) -> Fields:
    return Fields(fields)


def _loggable(method: str) -> str:
    """A method's name for the log; other text could be file content, so it becomes "?"."""
    return method if _METHOD_NAME.fullmatch(method) else "?"
