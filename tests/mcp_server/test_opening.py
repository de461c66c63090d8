"""The answers that come before the SDK is loaded are the ones that the SDK gives."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from stet.mcp import catalogue, opening
from stet.mcp.opening import Asked, Opening
from stet.mcp.options import Options
from stet.mcp.tool_server import make_server

DIALECTS = ("patch", "apply_patch")
CLIENT = {"name": "c", "version": "1"}
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
ENVELOPE = {
    VERSION_KEY: "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(number: int | str, method: str, params: Any = None) -> dict[str, Any]:
    asked = {"jsonrpc": "2.0", "id": number, "method": method}
    return asked if params is None else {**asked, "params": params}


def initialize(version: str, **params: Any) -> dict[str, Any]:
    hello = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": CLIENT}
    return request("first", "initialize", {**hello, **params})


def lines(messages: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(message).encode() for message in messages]


def of_opening(messages: list[dict[str, Any]]) -> list[Any]:
    """The answers of the opening to messages that are all for it."""
    begun = Opening(catalogue.definitions(DIALECTS))
    answers = [begun.take(line) for line in lines(messages)]
    assert not [each for each in answers if isinstance(each, Asked)]
    return [json.loads(each) for each in answers if isinstance(each, bytes)]


def of_sdk(messages: list[dict[str, Any]]) -> list[Any]:
    """The answers of the SDK's server."""

    async def exchange() -> list[Any]:
        server = make_server(Options("/", "s", "own", None, DIALECTS, None))
        send, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, receive = anyio.create_memory_object_stream[SessionMessage](0)
        answers = []
        async with anyio.create_task_group() as group:
            options = server.create_initialization_options()
            group.start_soon(server.run, incoming, outgoing, options)
            for message in messages:
                parsed = types.jsonrpc_message_adapter.validate_python(message, by_name=False)
                await send.send(SessionMessage(parsed))
                if "id" in message:
                    answer = (await receive.receive()).message
                    answers.append(answer.model_dump(by_alias=True, exclude_unset=True))
            await send.aclose()
            await receive.aclose()
        return answers

    return asyncio.run(exchange())


def test_the_versions_are_the_sdks() -> None:
    assert HANDSHAKE_PROTOCOL_VERSIONS == opening.HANDSHAKE_VERSIONS
    assert MODERN_PROTOCOL_VERSIONS == (opening.MODERN_VERSION,)


@pytest.mark.parametrize("version", [*opening.HANDSHAKE_VERSIONS, "1999-01-01", "2026-07-28"])
def test_a_handshake_is_answered_as_by_the_sdk(version: str) -> None:
    messages = [
        initialize(version),
        INITIALIZED,
        request(1, "tools/list"),
        request(2, "tools/list", {}),
        request(3, "tools/list", {"_meta": {"progressToken": 7}}),
        request("four", "ping"),
    ]
    assert of_sdk(messages) == of_opening(messages)
    assert len(of_opening(messages)) == 5


@pytest.mark.parametrize("client", [CLIENT, None])
def test_the_stateless_version_is_answered_as_by_the_sdk(client: object) -> None:
    meta = {**ENVELOPE, "io.modelcontextprotocol/clientInfo": client}
    messages = [
        request(1, "server/discover", {"_meta": meta}),
        request(2, "tools/list", {"_meta": meta}),
        request(3, "server/discover", {"_meta": {**meta, "other": 1}}),
    ]
    assert of_sdk(messages) == of_opening(messages)
    assert len(of_opening(messages)) == 3


@pytest.mark.parametrize(
    "message",
    [
        request(1, "tools/list"),
        request(1, "ping"),
        request(1, "tools/call", {"name": "read"}),
        request(1, "server/discover", {"_meta": {**ENVELOPE, VERSION_KEY: "2030-01-01"}}),
        request(1, "server/discover", {"_meta": {VERSION_KEY: "2026-07-28"}}),
        request(1, "server/discover", {"_meta": 3}),
        request(1, "tools/list", [1]),
        request(1, "tools/call", {"_meta": ENVELOPE}),
        initialize("2025-11-25", capabilities=3),
        initialize("2025-11-25", capabilities={"roots": 3}),
        initialize("2025-11-25", clientInfo={"name": "c"}),
        initialize("2025-11-25", _meta=ENVELOPE),
        initialize("2025-11-25", protocolVersion=3),
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ],
)
def test_what_is_odd_is_left_to_the_sdk(message: dict[str, Any]) -> None:
    [line] = lines([message])
    assert Asked([line], []) == Opening([]).take(line)


def test_the_sdk_is_told_of_the_handshake_and_of_nothing_else() -> None:
    begun = Opening([])
    told = lines([initialize("2025-11-25"), INITIALIZED, request(9, "tools/call")])
    first, second, last = told
    assert begun.take(first)
    assert begun.take(second) is None
    for message in lines([request(1, "tools/list"), request(2, "ping")]):
        assert begun.take(message)
    assert begun.take(lines([{"jsonrpc": "2.0", "method": "notifications/other"}])[0]) is None
    assert Asked(told, ["first"]) == begun.take(last)


def test_only_a_client_that_knows_the_tools_is_expected_to_call_one() -> None:
    begun = Opening([])
    begun.take(lines([initialize("2025-11-25")])[0])
    assert begun.listed is False
    begun.take(lines([request(1, "tools/list")])[0])
    assert begun.listed is True


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage", -32700),
        (b'{"jsonrpc": "2.0", "id": 1', -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"3", -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
    ],
)
def test_what_is_no_message_is_answered_with_an_error(line: bytes, code: int) -> None:
    answer = Opening([]).take(line)
    assert isinstance(answer, bytes)
    assert json.loads(answer)["error"]["code"] == code
