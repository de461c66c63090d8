"""The server side of the Model Context Protocol: parses a client's lines, encodes answers. No I/O.

It speaks the versions that begin with ``initialize`` (HANDSHAKE_VERSIONS), and MODERN_VERSION, in
which every request has an envelope that names the client. The first valid request of a connection
decides between them. The answers are those of the official SDK
(``tests/mcp_server/test_protocol.py`` compares them).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import msgspec

from stet.mcp import catalogue
from stet.mcp.answers import Answer
from stet.version import __version__

#: Versions that begin with ``initialize``, oldest first; a client with another gets the last.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL, UNSUPPORTED_VERSION = -32603, -32022

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_SERVER = {"name": catalogue.NAME, "title": catalogue.NAME, "version": __version__}
_SERVER_META = {"io.modelcontextprotocol/serverInfo": _SERVER}
_ABOUT = {"capabilities": {"tools": {"listChanged": False}}, "instructions": catalogue.INSTRUCTIONS}
_RESULT_FIELDS = {
    "resultType": "complete",
    # The list of tools of a process never changes: other options need another process.
    "ttlMs": 3_600_000,
    "cacheScope": "private",
    "_meta": _SERVER_META,
}

Id = str | int


class ToolCall(NamedTuple):
    """A call of a tool. ``client``: the name that the client gives itself."""

    request: Id
    tool: str
    arguments: object
    meta: Mapping[str, Any]
    client: str


class Cancelled(NamedTuple):
    """The client no longer waits for the answer to this request."""

    request: Id


class _Refused(Exception):
    """A request gets an error of the protocol as its answer; args: code, message and data."""


class Protocol:
    """The protocol's state of one connection; takes every line that the client sends."""

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._tools = tools
        #: The version of the connection, None before the first valid request.
        self._version: str | None = None
        self._client = ""

    def take(self, line: bytes) -> bytes | ToolCall | Cancelled | None:
        """Parse a line: the line of its answer, None for no answer, or the event to act on."""
        try:
            message = _decoded(line)
        except (ValueError, RecursionError) as error:
            return error_line(None, PARSE_ERROR, f"Not a line of JSON: {error}")
        fields: dict[str, Any] = message if isinstance(message, dict) else {}
        if "method" not in fields and ("result" in fields or "error" in fields):
            return None  # a reply: an answer to it could start an endless exchange
        request, method, params = _id_in(fields, "id"), fields.get("method"), fields.get("params")
        if (
            fields.get("jsonrpc") != "2.0"
            or not isinstance(method, str)
            or not isinstance(params, dict | None)
            or ("id" in fields and request is None)
        ):
            return error_line(request, INVALID_REQUEST, _NOT_A_REQUEST)
        params = params or {}
        if request is None:  # a notification
            cancelled = _id_in(params, "requestId")
            if method == "notifications/cancelled" and cancelled is not None:
                return Cancelled(cancelled)
            return None
        try:
            answer = self._answer(request, method, params)
        except _Refused as refusal:
            return error_line(request, *refusal.args)
        return answer if isinstance(answer, ToolCall) else _result_line(request, answer)

    def answered(self, call: ToolCall, answer: Answer, meta: Mapping[str, Any]) -> bytes:
        """The line that answers a tool call."""
        result: dict[str, Any] = {
            "content": [{"type": "text", "text": answer.text}],
            "isError": answer.is_error,
        }
        if answer.structured is not None:
            result["structuredContent"] = answer.structured
        if self._version == MODERN_VERSION:
            result["resultType"] = "complete"
            meta = {**meta, **_SERVER_META}
        if meta:
            result["_meta"] = meta
        return _result_line(call.request, result)

    def _answer(
        self, request: Id, method: str, params: Mapping[str, Any]
    ) -> dict[str, Any] | ToolCall:
        meta = params.get("_meta")
        enveloped = isinstance(meta, dict) and _VERSION_KEY in meta
        if method == "initialize":
            return self._initialize(params)
        if self._version == MODERN_VERSION or (self._version is None and enveloped):
            _check_envelope(meta)
            self._version = MODERN_VERSION
        elif enveloped:
            raise _Refused(
                INVALID_REQUEST,
                f"this connection serves the handshake protocol era; requests carrying the "
                f"{MODERN_VERSION} envelope are not accepted on it",
            )
        modern = self._version == MODERN_VERSION
        if method == "ping" and not modern:
            _check(isinstance(meta, dict | None))
            return {}
        if method == "server/discover" and modern:
            return {"supportedVersions": [MODERN_VERSION], **_ABOUT, **_RESULT_FIELDS}
        if method not in ("tools/list", "tools/call"):
            raise _Refused(NO_METHOD, "Method not found", method)
        _check(self._version is not None and isinstance(meta, dict | None))
        if method == "tools/list":
            _check(isinstance(params.get("cursor"), str | None))
            return {"tools": self._tools, **(_RESULT_FIELDS if modern else {})}
        name, arguments = params.get("name"), params.get("arguments")
        _check(isinstance(name, str))
        client = (meta or {}).get(_CLIENT_KEY)
        client = client["name"] if _is_named(client) else self._client
        return ToolCall(
            request, str(name), {} if arguments is None else arguments, meta or {}, client
        )

    def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        asked, client = params.get("protocolVersion"), params.get("clientInfo")
        if self._version == MODERN_VERSION:
            requested = {"requested": asked} if isinstance(asked, str) else {}
            raise _Refused(
                UNSUPPORTED_VERSION,
                f"connection is serving the {MODERN_VERSION} protocol; the initialize handshake "
                "is not accepted",
                {"supported": [MODERN_VERSION], **requested},
            )
        _check(isinstance(asked, str) and _is_named(client))
        _check(_is_capabilities(params.get("capabilities")))
        self._version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        self._client = client["name"] if _is_named(client) else ""
        return {"protocolVersion": self._version, "serverInfo": _SERVER, **_ABOUT}


def _check(valid: bool) -> None:
    if not valid:
        raise _Refused(INVALID_PARAMS, "Invalid request parameters", "")


def _check_envelope(meta: object) -> None:
    if not isinstance(meta, dict) or _VERSION_KEY not in meta:
        raise _Refused(
            INVALID_PARAMS,
            f"params._meta must be an object carrying the required '{_VERSION_KEY}' and "
            f"'{_CAPABILITIES_KEY}' envelope keys",
        )
    version, client = meta[_VERSION_KEY], meta.get(_CLIENT_KEY)
    if not isinstance(version, str):
        raise _Refused(INVALID_PARAMS, "the protocol-version envelope value must be a string")
    if version != MODERN_VERSION:
        versions = {"supported": [MODERN_VERSION], "requested": version}
        raise _Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", versions)
    if _CAPABILITIES_KEY not in meta:
        raise _Refused(
            INVALID_PARAMS,
            f"params._meta is missing the required envelope key(s): {_CAPABILITIES_KEY}",
        )
    _check((client is None or _is_named(client)) and _is_capabilities(meta[_CAPABILITIES_KEY]))


def _is_named(client: object) -> TypeGuard[dict[str, str]]:
    return isinstance(client, dict) and all(
        isinstance(client.get(key), str) for key in ("name", "version")
    )


def _is_capabilities(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


# -- JSON-RPC

_NOT_A_REQUEST = (
    'Not a JSON-RPC request: one object with "jsonrpc": "2.0", a method, params, and an id that is '
    "a text or an integer."
)


def error_line(request: Id | None, code: int, message: str, data: object = None) -> bytes:
    """The line of an error response; ``request`` is None if the request's id is unknown."""
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return _encoded({"jsonrpc": "2.0", "id": request, "error": error})


def _result_line(request: Id, result: object) -> bytes:
    return _encoded({"jsonrpc": "2.0", "id": request, "result": result})


def _id_in(fields: Mapping[str, Any], name: str) -> Id | None:
    found = fields.get(name)
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def _number(text: str) -> int | float:
    """Parse a number with a point or an exponent. In JSON Schema 1.0 is an integer, too."""
    number = float(text)
    return int(number) if abs(number) <= 2**53 and number.is_integer() else number


_decode = msgspec.json.Decoder(float_hook=_number).decode


def _decoded(line: bytes) -> Any:
    try:
        return _decode(line)
    except ValueError:
        # json accepts more: lone surrogates, which JavaScript writes when it cuts a pair, and
        # numbers out of range. A later check then tells the client what is wrong.
        return json.loads(line, parse_float=_number)


def _encoded(message: object) -> bytes:
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:  # a lone surrogate, which is sent back unchanged
        return json.dumps(message).encode()
