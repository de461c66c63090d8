"""Encoding and decoding of requests, replies and events, without any I/O (docs/sockets.md).

JSON-RPC 2.0 shapes, in JSON or MessagePack alike::

    request = {"id": ID, "method": TEXT, "params": {..}}        ; no "id", or null: notification
    reply   = {"id": ID, "result": ANY}
            | {"id": ID, "error": {"code": INT, "message": TEXT, "data": {"kind": TEXT, ..}}}
    event   = {"method": "event", "params": {..}}
    ID      = TEXT | INT                                        ; never a boolean or a float

Every message may have ``"jsonrpc": "2.0"``; stet never sends it. ``params`` may be absent or null.

In both encodings params use the JSON data model only: null, booleans, 64-bit signed integers,
finite floats, text, lists, maps with text keys; nested at most MAX_DEPTH deep, at most MAX_VALUES
values.

Unknown members of a *request* are refused, because a misspelt ``parms`` would run the method
without its parameters. Unknown members of replies and events are ignored, so that the daemon may
add some.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final, NewType

import msgspec

from stet.wire.failures import Failure, Kind, Refused
from stet.wire.first_use import known_to_msgspec
from stet.wire.framing import Encoding
from stet.wire.value_count import holds_more_values_than

#: How deep lists and maps in ``params`` may nest, params itself included. A method needs 7
#: at most (transaction: params, calls, call, params, patches, patch, reindent).
MAX_DEPTH: Final = 8

#: How many values a request may hold, names of members included. A message of at most so many
#: bytes can't hold more, so its values are not counted.
MAX_VALUES: Final = 100_000

_LEAST, _MOST = -(2**63), 2**63 - 1
_Integer = Annotated[int, msgspec.Meta(ge=_LEAST, le=_MOST)]
# With a bound msgspec refuses NaN and the infinities of MessagePack.
_Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


def _nested(depth: int) -> Any:
    """The type of a value whose lists and maps nest at most ``depth`` deep.

    So msgspec refuses deeper nesting and says where, before the stack can overflow here or in later
    code that walks the params. Each level is a NewType, because hashing a union walks all of it:
    without, naming the type would take 2**depth steps. msgspec's copy of the type has 2**depth
    nodes (2.5 ms at depth 8), so it is only made when the first request is decoded.
    """
    opaque: Any = NewType  # type checkers refuse a NewType that is made in a loop
    scalar: Any = None | bool | _Integer | _Finite | str
    value = scalar
    for level in range(depth):
        inner: Any = opaque(f"Level{level}", value)
        value = scalar | list[inner] | dict[str, inner]
    return value


Id = str | int | None


class Request(msgspec.Struct, frozen=True):
    """A request. ``id`` None: a notification, which gets no reply."""

    method: str
    params: dict[str, Any] = {}
    id: str | _Integer | None = None


class ErrorObject(msgspec.Struct, frozen=True):
    """The ``error`` of a reply; ``data`` holds ``kind`` and the members of that kind."""

    code: int
    message: str
    data: dict[str, Any] = {}


_NO_RESULT = msgspec.Raw()


class Answer(msgspec.Struct, frozen=True):
    """A message from the daemon. The reply to the request with this ``id`` (None: to a message
    without a readable id): a ``result``, still encoded (:func:`decode_result`), or an ``error``. Or
    an event for a subscriber, in ``params``.
    """

    id: str | int | None = None
    result: msgspec.Raw = _NO_RESULT
    error: ErrorObject | None = None
    method: str | None = None
    params: dict[str, Any] = {}

    @property
    def is_event(self) -> bool:
        """Whether it is no reply."""
        return self.result is _NO_RESULT and self.error is None


class MalformedMessage(Refused):
    """A valid frame with a malformed message: it is answered with ``id``, the connection goes on.

    ``kind`` is PARSE_ERROR, with ``id`` None, if the message is not a JSON-RPC request;
    INVALID_PARAMS, with the request's id, if only its params have the wrong shape; INPUT_TOO_LARGE
    if it holds too many values.
    """

    def __init__(self, kind: Kind, message: str, id: str | int | None = None) -> None:  # noqa: A002
        super().__init__(Failure(kind, message))
        self.id = id


_MODULES: dict[Encoding, Any] = {Encoding.JSON: msgspec.json, Encoding.MSGPACK: msgspec.msgpack}


@cache
def _request_decoder(encoding: Encoding) -> Callable[[bytes], Any]:
    fields = [("params", _nested(MAX_DEPTH), None), ("jsonrpc", str, "2.0")]
    envelope = msgspec.defstruct("Envelope", fields, bases=(Request,), forbid_unknown_fields=True)
    decode: Callable[[bytes], Any] = _MODULES[encoding].Decoder(envelope).decode
    return decode


class _OnlyId(msgspec.Struct, frozen=True):
    """Decodes only the id of a message."""

    id: str | _Integer | None = None


_ANSWER_DECODERS: dict[Encoding, Callable[[bytes], Answer]] = {
    encoding: module.Decoder(Answer).decode for encoding, module in _MODULES.items()
}
# The hook is for texts of a subclass, which some libraries return.
_ENCODERS: dict[Encoding, Callable[[object], bytes]] = {
    encoding: module.Encoder(enc_hook=str.__str__).encode for encoding, module in _MODULES.items()
}

#: Exceptions of msgspec for bytes that it can't decode. UnicodeDecodeError is a ValueError.
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)

_REQUEST_SHAPE = (
    'Send an object like {"id": 1, "method": "status", "params": {}}, where id is a string or '
    "an integer."
)


def decode_request(encoding: Encoding, frame: bytes) -> Request:
    """The request in a payload. Raises only MalformedMessage."""
    if len(frame) > MAX_VALUES and holds_more_values_than(MAX_VALUES, encoding, frame):
        request = None
        with contextlib.suppress(*_UNDECODABLE):
            request = _MODULES[encoding].decode(frame, type=known_to_msgspec(_OnlyId)).id
        raise MalformedMessage(
            Kind.INPUT_TOO_LARGE,
            f"The message holds more than {MAX_VALUES:,} values. Send fewer edits in one call.",
            request,
        )
    try:
        envelope = _request_decoder(encoding)(frame)
    except _UNDECODABLE as error:
        raise _malformed_request(encoding, error) from error
    if envelope.jsonrpc != "2.0":
        raise MalformedMessage(
            Kind.PARSE_ERROR,
            f'The message says jsonrpc {envelope.jsonrpc!r}; only "2.0" is spoken. Send '
            '"jsonrpc": "2.0" or leave it out.',
        )
    params = {} if envelope.params is None else envelope.params
    if not isinstance(params, dict):
        text = 'params must be an object with named members, like {"name": value, ..}.'
        raise MalformedMessage(Kind.INVALID_PARAMS, text, envelope.id)
    return Request(envelope.method, params, envelope.id)


def _malformed_request(encoding: Encoding, error: Exception) -> MalformedMessage:
    name = "JSON" if encoding is Encoding.JSON else "MessagePack"
    if isinstance(error, UnicodeDecodeError):
        text = f"The message holds text that is not UTF-8 ({error.reason}). Send UTF-8 only."
    elif isinstance(error, msgspec.ValidationError):
        text = f"The message is {name}, but not a request: {error}. {_REQUEST_SHAPE}"
        if "`array`" in str(error) or "`object`" in str(error):
            text += f" Lists and objects in params nest at most {MAX_DEPTH} deep."
    else:
        text = f"The message is not {name}: {error}. {_REQUEST_SHAPE}"
    return MalformedMessage(Kind.PARSE_ERROR, text)


def decode_answer(encoding: Encoding, frame: bytes) -> Answer:
    """The reply or event in a payload. Raises only ValueError."""
    try:
        answer = _ANSWER_DECODERS[encoding](frame)
    except _UNDECODABLE as error:
        raise ValueError(f"The daemon sent a message that can't be read: {error}") from error
    if answer.is_event and answer.method != "event":
        raise ValueError("The daemon sent a message that is neither a reply nor an event.")
    return answer


def decode_result(encoding: Encoding, result: msgspec.Raw, type: Any) -> Any:  # noqa: A002
    """A reply's result as a value of ``type``. Raises ValueError if it has another shape."""
    try:
        return _MODULES[encoding].decode(result, type=known_to_msgspec(type))
    except _UNDECODABLE as error:
        raise ValueError(f"The daemon's result is not what was expected: {error}") from error


def check_params(value: object, depth: int = MAX_DEPTH) -> None:
    """Raise ValueError for params that :func:`decode_request` would refuse or read differently:
    the encoders accept more types, and JSON's writes an infinity as null.
    """
    if isinstance(value, (dict, list, tuple)):
        if not depth:
            raise ValueError(f"lists and objects nest more than {MAX_DEPTH} deep")
        for key in value if isinstance(value, dict) else ():
            if not isinstance(key, str):
                raise ValueError(f"{key!r} names a member, and is no text")
        for inner in value.values() if isinstance(value, dict) else value:
            if type(inner) is not str:  # a shortcut: most values are strings
                check_params(inner, depth - 1)
    elif type(value) is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
    elif isinstance(value, int):
        if not _LEAST <= value <= _MOST:
            raise ValueError("an integer has more than 64 bits")
    elif not isinstance(value, str | None):
        raise ValueError(f"a value is of the type {type(value).__name__}")


def encode_request(encoding: Encoding, request: Id, method: str, params: object) -> bytes:
    """A request's payload. ``request``: its id."""
    return _ENCODERS[encoding]({"id": request, "method": method, "params": params})


def encode_result(encoding: Encoding, request: Id, result: object) -> bytes:
    """The payload of a successful reply. A result that msgspec can't encode (a lone surrogate, an
    integer of more than 64 bits in MessagePack) is a defect; the exception is msgspec's.
    """
    return _ENCODERS[encoding]({"id": request, "result": result})


def encode_error(
    encoding: Encoding, request: Id, code: int, message: str, data: dict[str, Any]
) -> bytes:
    """The payload of an error reply; ``data`` holds ``kind`` and the members of that kind."""
    error = {"code": code, "message": message, "data": data}
    return _ENCODERS[encoding]({"id": request, "error": error})


def encode_event(encoding: Encoding, params: object) -> bytes:
    """The payload of a notification to a subscriber."""
    return _ENCODERS[encoding]({"method": "event", "params": params})
