"""The client's side of a connection, without any I/O: encodes requests, decodes replies.

    bytes to send   <- conversation.send(call, token)
    received bytes  -> conversation.feed(data)
    token, outcome  <- conversation.next_outcome()   until it returns None

Any number of calls may wait for answers, and answers may overtake each other. A token says which
call an outcome is of. :mod:`stet.session.connection` and :mod:`stet.aio` do the I/O.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from stet.calls import Call
from stet.errors import (
    ConnectionLost,
    FrameTooLarge,
    GarbledReply,
    InvalidParams,
    Overloaded,
    StetError,
    from_reply,
)
from stet.wire import messages
from stet.wire.framing import UNLIMITED_FRAME, Encoding, FrameError, Framer, enclose

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


class Conversation:
    """The state of one connection: unanswered requests, and received bytes and events."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        #: The unanswered calls, their tokens and sizes, by the ids of their requests.
        self.waiting: dict[int, tuple[Call[Any], Any, int]] = {}
        #: Params of the received notifications; there are none before ``subscribe``.
        self.events: deque[dict[str, Any]] = deque()
        #: The daemon refused what it can't answer by an id; then it closes the connection.
        self.refused = False
        self._framer = Framer(UNLIMITED_FRAME, encoding)
        self._last_id = 0

    def send(self, call: Call[Any], token: object) -> bytes:
        """The bytes to send for a call; ``token`` will come with its outcome.

        Raises InvalidParams for params that can't be encoded, or that would make the daemon refuse
        the message without its id.
        """
        number = self._last_id + 1
        try:
            messages.check_params(call.params)
            payload = messages.encode_request(self._encoding, number, call.method, call.params)
        except UNSENDABLE as error:
            raise unsendable(f"the params of {call.method}", error) from error
        self._last_id = number
        self.waiting[number] = call, token, len(payload)
        return enclose(self._encoding, payload)

    def feed(self, data: bytes) -> None:
        """Append received bytes."""
        self._framer.feed(data)

    def next_outcome(self) -> tuple[Any, Any] | None:
        """A call's token, and its result or error.

        None if more bytes are needed. Events go to ``events``. The error is the daemon's refusal,
        or GarbledReply for a result of another shape.

        Raises GarbledReply for a message that answers no request; ConnectionLost if the daemon says
        why it closes the connection, or refuses one of several requests without saying which. After
        these the connection must be closed.
        """
        while True:
            try:
                frame = self._framer.next_frame()
                if frame is None:
                    return None
                message = messages.decode_answer(self._encoding, frame)
            except (FrameError, ValueError) as error:
                raise GarbledReply(f"the daemon's reply is garbled: {error}") from error
            if not message.is_event:
                return self._outcome(message)
            self.events.append(message.params)

    def _outcome(self, reply: messages.Answer) -> tuple[Any, Any]:
        error = reply.error
        refusal = None if error is None else from_reply(error.code, error.message, error.data)
        if reply.id is None and refusal is not None:
            return self._unnamed(refusal)
        if not isinstance(reply.id, int) or reply.id not in self.waiting:
            raise GarbledReply(f"the daemon answered a request that was not asked: id {reply.id!r}")
        call, token, _ = self.waiting.pop(reply.id)
        return token, refusal or self._decoded(call, reply.result)

    def _decoded(self, call: Call[Any], result: msgspec.Raw) -> Any:
        try:
            return messages.decode_result(self._encoding, result, call.result)
        except ValueError as error:
            return GarbledReply(
                f"the daemon's result of {call.method} has another shape than this client "
                f"knows: {error}",
                request_id=call.request_id,
            )

    def _unnamed(self, refusal: StetError) -> tuple[Any, StetError]:
        if isinstance(refusal, Overloaded) or not self.waiting:
            # The daemon closes the connection; what has arrived is carried out all the same.
            text = f"the daemon closed the connection: {refusal.message}"
            raise ConnectionLost(text) from refusal
        if len(self.waiting) > 1 and not isinstance(refusal, FrameTooLarge):
            # All the others may have been carried out, so all must be sent again.
            raise ConnectionLost(
                f"the daemon refused one of {len(self.waiting)} calls without saying which: "
                f"{refusal.message}"
            ) from refusal
        self.refused = True
        # If the largest is not the one that was refused, it came later and was not read.
        largest = max(self.waiting, key=lambda number: self.waiting[number][2])
        return self.waiting.pop(largest)[1], refusal
