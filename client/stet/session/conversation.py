"""The client's side of a connection, without any I/O: encodes requests, decodes replies.

    bytes to send   <- conversation.send(method, params)
    received bytes  -> conversation.feed(data)
    answers         <- conversation.next_answer()   until it returns None

Any number of requests may wait for answers. Each answer has the id of its request, and answers may
overtake each other. :mod:`stet.session.connection` and :mod:`stet.aio` do the I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from stet.calls import Call
from stet.errors import (
    ConnectionLost,
    GarbledReply,
    InvalidParams,
    Overloaded,
    StetError,
    from_reply,
)
from stet.wire import messages
from stet.wire.framing import UNLIMITED_FRAME, Encoding, FrameError, Framer, enclose

T = TypeVar("T")
#: Characters shown on each side of one that can't be sent.
_SHOWN = 40
#: Exceptions of the encoders and of check_params. UnicodeEncodeError is a ValueError.
UNSENDABLE = (TypeError, ValueError, OverflowError, RecursionError)


def unsendable(what: str, error: Exception) -> InvalidParams:
    """The refusal of a call's params, or of a tool's arguments, that can't be encoded."""
    if isinstance(error, UnicodeEncodeError):
        # A lone surrogate: Python reads file names like that if they are not UTF-8.
        around = error.object[max(0, error.start - _SHOWN) : error.end + _SHOWN]
        return InvalidParams(
            f"{what} cannot be sent: {around!r} is not valid UTF-8. Names and texts must be valid "
            "Unicode, without lone surrogates; rename a file whose name is not."
        )
    return InvalidParams(
        f"{what} cannot be sent: {error}. Send text, finite numbers, booleans, lists and objects."
    )


class Answer(msgspec.Struct, frozen=True):
    """The reply to request ``id`` (None: to no request): a still encoded result, or the error."""

    id: int | None
    result: msgspec.Raw | None
    error: StetError | None


class Conversation:
    """The state of one connection: unanswered requests, and received bytes and events."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        #: Ids of the unanswered requests.
        self.waiting: set[int] = set()
        #: Params of the received notifications; there are none before ``subscribe``.
        self.events: deque[dict[str, Any]] = deque()
        #: The daemon refused what it can't answer by an id; then it closes the connection.
        self.refused = False
        self._framer = Framer(UNLIMITED_FRAME, encoding)
        self._last_id = 0

    def send(self, method: str, params: Mapping[str, Any]) -> tuple[int, bytes]:
        """A new request: its id and the bytes to send.

        Raises InvalidParams for params that can't be encoded, or that would make the daemon refuse
        the message without its id.
        """
        number = self._last_id + 1
        try:
            messages.check_params(params)
            payload = messages.encode_request(self.encoding, number, method, params)
        except UNSENDABLE as error:
            raise unsendable(f"the params of {method}", error) from error
        self._last_id = number
        self.waiting.add(number)
        return number, enclose(self.encoding, payload)

    def feed(self, data: bytes) -> None:
        """Append received bytes."""
        self._framer.feed(data)

    def next_answer(self) -> Answer | None:
        """The next answer; None if more bytes are needed. Events go to ``events``.

        Raises GarbledReply for a message that answers no request; ConnectionLost if the daemon says
        why it closes the connection, or refuses one of several requests without saying which. After
        these the connection must be closed.
        """
        while True:
            try:
                frame = self._framer.next_frame()
                if frame is None:
                    return None
                message = messages.decode_reply(self.encoding, frame)
            except (FrameError, messages.MalformedMessage) as error:
                raise GarbledReply(f"the daemon's reply is garbled: {error.message}") from error
            if not isinstance(message, messages.Event):
                return self._answer(message)
            self.events.append(message.params)

    def _answer(self, reply: messages.Reply) -> Answer:
        error = reply.error
        refusal = None if error is None else from_reply(error.code, error.message, error.data)
        if reply.id is None and refusal is not None:
            return self._unnamed(refusal)
        if not isinstance(reply.id, int) or reply.id not in self.waiting:
            raise GarbledReply(f"the daemon answered a request that was not asked: id {reply.id!r}")
        self.waiting.discard(reply.id)
        return Answer(reply.id, reply.result, refusal)

    def _unnamed(self, refusal: StetError) -> Answer:
        if isinstance(refusal, Overloaded) and self.waiting:
            # The daemon closes the connection; a call that has arrived is carried out all the same.
            text = f"the daemon closed the connection: {refusal.message}"
            raise ConnectionLost(text) from refusal
        if len(self.waiting) > 1:
            # All the others may have been carried out, so all must be sent again.
            raise ConnectionLost(
                f"the daemon refused one of {len(self.waiting)} calls without saying which: "
                f"{refusal.message}"
            ) from refusal
        self.refused = True
        return Answer(self.waiting.pop() if self.waiting else None, None, refusal)


def outcome(call: Call[T], answer: Answer, encoding: Encoding) -> T | StetError:
    """The typed result of a call, its refusal, or GarbledReply for a result of another shape."""
    if answer.error is not None:
        return answer.error
    assert answer.result is not None, "BUG: an answer with neither result nor error"
    wanted: Any = Any if call.result is object else call.result
    try:
        value: T = messages.decode_result(encoding, answer.result, wanted)
    except messages.MalformedMessage as error:
        return GarbledReply(
            f"the daemon's result of {call.method} has another shape than this version of "
            f"stet knows: {error.message}",
            request_id=call.request_id,
        )
    return value
