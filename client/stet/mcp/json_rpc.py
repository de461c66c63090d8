"""JSON-RPC messages as lines, without the SDK: what is one, and what is answered to what is none.

No I/O. What a good message means is not decided here.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

PARSE_ERROR = -32700
INVALID_REQUEST = -32600

Id = str | int


class NotJson(Exception):
    """A line is no JSON, or nests too deep to be looked at."""


def decoded(line: bytes) -> Any:
    """The value of a line. Raises NotJson.

    Half of a surrogate pair is let pass: JavaScript writes it when a text was cut in the wrong
    place, and whoever asked is to be told, not left without an answer.
    """
    try:
        return json.loads(line) if has_surrogates(line) else msgspec.json.decode(line)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


def has_surrogates(line: bytes) -> bool:
    """Whether a line may hold half of a surrogate pair."""
    return b"\\ud" in line or b"\\uD" in line


def encoded(message: object) -> bytes:
    """A line for a message, without its end; what decoded() lets pass goes back as it came."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return json.dumps(message).encode()


def id_of(message: object) -> Id | None:
    """The id of a request or reply, None if it has none that may be one."""
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def result_line(request: Id, result: object) -> bytes:
    """The answer to a request."""
    return encoded({"jsonrpc": "2.0", "id": request, "result": result})


def error_line(request: Id | None, code: int, message: str) -> bytes:
    """The error for a request; None: nobody can tell which one."""
    error = {"code": code, "message": message}
    return encoded({"jsonrpc": "2.0", "id": request, "error": error})


def complaint(line: bytes) -> bytes | None:
    """The answer to a line that is no message; None where an answer could begin a quarrel."""
    try:
        message = decoded(line)
    except NotJson as error:
        return error_line(None, PARSE_ERROR, f"Not a line of JSON: {error}")
    if isinstance(message, dict) and "method" not in message and {"result", "error"} & set(message):
        return None
    return no_request(id_of(message))


def no_request(request: Id | None) -> bytes:
    """The answer to JSON that is no request."""
    return error_line(
        request,
        INVALID_REQUEST,
        'Not a JSON-RPC request: one object with "jsonrpc": "2.0", a method, params, and an id '
        "that is a text or an integer.",
    )


def too_long(limit: int) -> bytes:
    """The answer to a line that was passed over."""
    return error_line(
        None, INVALID_REQUEST, f"A message of more than {limit:,} bytes was passed over."
    )
