"""A client's first requests, answered without the SDK, which takes over a second to load.

Every client begins with the same few requests, and their answers are known before anything
happens: ``initialize`` or ``server/discover``, ``tools/list``, ``ping``. They are answered here
in their plain form. Anything else, and anything odd about these, is the SDK's. It is told of
the handshake then, the only one of these requests that leaves something behind. The answers are
the SDK's own, which ``tests/mcp_server/test_opening.py`` compares, for every version of the
protocol. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stet.mcp import catalogue, json_rpc
from stet.version import __version__

#: Versions that begin with ``initialize``, oldest first; who asks for another is offered the last.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
#: The version in which every request says who asks, and for what version.
MODERN_VERSION = "2026-07-28"

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"

_SERVER = {"name": catalogue.NAME, "title": catalogue.TITLE, "version": __version__}
_CAPABILITIES = {"tools": {"listChanged": False}}


class Asked(NamedTuple):
    """What the server is to be told first, and the requests in it that have their answers."""

    lines: list[bytes]
    answered: list[json_rpc.Id]


class Opening:
    """The beginning of one connection: give it every line until it asks for the server."""

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._tools = tools
        #: The version that the connection has taken, None before the first request.
        self._version: str | None = None
        self._handshake = Asked([], [])
        #: Whether the client knows the tools: its next request is likely to be a call.
        self.listed = False

    def take(self, line: bytes) -> bytes | Asked | None:
        """What to answer to a line, None for nothing; or what the server is to be told first.

        The line itself is then the last of what it is told.
        """
        try:
            message = json_rpc.decoded(line)
        except json_rpc.NotJson:
            return json_rpc.complaint(line)
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return json_rpc.complaint(line)
        method, params = message.get("method"), message.get("params")
        if "id" not in message:
            # Of notifications only this one is about something that may have happened here.
            if method == "notifications/initialized":
                self._handshake.lines.append(line)
            return None
        request = json_rpc.id_of(message)
        result = None if request is None else self._result(method, params)
        if request is None or result is None:
            return Asked([*self._handshake.lines, line], self._handshake.answered)
        if method == "initialize":
            self._handshake.lines.append(line)
            self._handshake.answered.append(request)
        self.listed = self.listed or method == "tools/list"
        return json_rpc.result_line(request, result)

    def _result(self, method: object, params: object) -> dict[str, Any] | None:
        """The result of a request, None where the SDK has to answer."""
        if params is None:
            params = {}
        if not isinstance(method, str) or not isinstance(params, dict):
            return None
        modern = _is_modern(params)
        if self._version is None and modern is True:
            self._version = MODERN_VERSION
        if self._version == MODERN_VERSION:
            return self._modern(method, params) if modern is True else None
        if modern is not False:
            return None
        if self._version is None:
            return self._initialized(params) if method == "initialize" else None
        return self._legacy(method, params)

    def _initialized(self, params: Mapping[str, Any]) -> dict[str, Any] | None:
        asked = params.get("protocolVersion")
        if not (
            isinstance(asked, str)
            and _is_named(params.get("clientInfo"))
            and _is_capabilities(params.get("capabilities"))
        ):
            return None
        self._version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {
            "protocolVersion": self._version,
            "capabilities": _CAPABILITIES,
            "serverInfo": _SERVER,
            "instructions": catalogue.INSTRUCTIONS,
        }

    def _legacy(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        if not params.keys() <= {"_meta"}:
            return None
        return {"ping": {}, "tools/list": {"tools": self._tools}}.get(method)

    def _modern(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        if not params.keys() <= {"_meta"}:
            return None
        complete = {
            "resultType": "complete",
            "ttlMs": catalogue.LIST_TTL_MS,
            "cacheScope": catalogue.CACHE_SCOPE,
            "_meta": {_SERVER_KEY: _SERVER},
        }
        if method == "server/discover":
            return {
                "supportedVersions": [MODERN_VERSION],
                "capabilities": _CAPABILITIES,
                "instructions": catalogue.INSTRUCTIONS,
                **complete,
            }
        if method == "tools/list":
            return {"tools": self._tools, **complete}
        return None


def _is_modern(params: Mapping[str, Any]) -> bool | None:
    """Whether a request is of MODERN_VERSION; None if that can't be said, or it is malformed."""
    meta = params.get("_meta")
    if meta is None or (isinstance(meta, dict) and _VERSION_KEY not in meta):
        return False
    if not isinstance(meta, dict) or meta[_VERSION_KEY] != MODERN_VERSION:
        return None
    client = meta.get(_CLIENT_KEY)
    sound = (client is None or _is_named(client)) and _is_capabilities(meta.get(_CAPABILITIES_KEY))
    return True if sound else None


def _is_named(client: object) -> bool:
    return isinstance(client, dict) and all(
        isinstance(client.get(key), str) for key in ("name", "version")
    )


def _is_capabilities(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())
