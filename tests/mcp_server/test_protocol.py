"""The answers of the protocol are the ones that the official SDK gives."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from stet.mcp import catalogue, protocol
from stet.mcp.answers import Answer
from stet.mcp.protocol import Cancelled, Protocol, ToolCall
from stet.version import __version__

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


def of_ours(messages: list[dict[str, Any]]) -> list[Any]:
    """The answers of the protocol; to a tool call "said" with a _meta of its own."""
    ours = Protocol(catalogue.definitions(DIALECTS))
    answers = []
    for line in lines(messages):
        answer = ours.take(line)
        if isinstance(answer, ToolCall):
            said = Answer("said", {"said": answer.arguments}, is_error=True)
            answer = ours.answered(answer, said, {"of": answer.client})
        answers.append(answer)
    return [json.loads(each) for each in answers if isinstance(each, bytes)]


def sdk_server() -> Server[Any]:
    listed = types.ListToolsResult(
        tools=[
            types.Tool.model_validate(each, by_name=False)
            for each in catalogue.definitions(DIALECTS)
        ]
    )

    async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
        return listed

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        introduced = ctx.session.client_params
        return types.CallToolResult(
            content=[types.TextContent(text="said")],
            structured_content={"said": params.arguments or {}},
            is_error=True,
            _meta={"of": introduced.client_info.name if introduced else ""},
        )

    hint = CacheHint(ttl_ms=3_600_000, scope="private")
    return Server(
        catalogue.NAME,
        title=catalogue.NAME,
        version=__version__,
        instructions=catalogue.INSTRUCTIONS,
        cache_hints={"tools/list": hint, "server/discover": hint},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def of_sdk(messages: list[dict[str, Any]]) -> list[Any]:
    """The answers of the SDK's server."""

    async def exchange() -> list[Any]:
        server = sdk_server()
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
    assert HANDSHAKE_PROTOCOL_VERSIONS == protocol.HANDSHAKE_VERSIONS
    assert MODERN_PROTOCOL_VERSIONS == (protocol.MODERN_VERSION,)


@pytest.mark.parametrize("version", [*protocol.HANDSHAKE_VERSIONS, "1999-01-01", "2026-07-28"])
def test_a_handshake_is_answered_as_by_the_sdk(version: str) -> None:
    messages = [
        initialize(version),
        INITIALIZED,
        request(1, "tools/list"),
        request(2, "tools/list", {}),
        request(3, "tools/list", {"_meta": {"progressToken": 7}, "cursor": "x"}),
        request("four", "ping"),
        request(5, "tools/call", {"name": "read", "arguments": {"path": "a"}}),
        request(6, "tools/call", {"name": "read"}),
    ]
    assert of_sdk(messages) == of_ours(messages)
    assert len(of_ours(messages)) == 7


@pytest.mark.parametrize("client", [CLIENT, None])
def test_the_stateless_version_is_answered_as_by_the_sdk(client: object) -> None:
    meta = {**ENVELOPE, "io.modelcontextprotocol/clientInfo": client}
    messages = [
        request(1, "server/discover", {"_meta": meta}),
        request(2, "tools/list", {"_meta": meta}),
        request(3, "server/discover", {"_meta": {**meta, "other": 1}}),
    ]
    assert of_sdk(messages) == of_ours(messages)
    assert len(of_ours(messages)) == 3


ODD = [
    request(1, "tools/list"),
    request(1, "ping"),
    request(1, "ping", {"_meta": 3}),
    request(1, "nonsense"),
    request(1, "tools/call", {"name": "read"}),
    request(1, "tools/call", {"name": 3}),
    request(1, "tools/call"),
    request(1, "tools/list", {"cursor": 3}),
    request(1, "resources/list"),
    request(1, "server/discover"),
    request(1, "server/discover", {"_meta": {**ENVELOPE, VERSION_KEY: "2030-01-01"}}),
    request(1, "server/discover", {"_meta": {**ENVELOPE, VERSION_KEY: 3}}),
    request(1, "server/discover", {"_meta": {VERSION_KEY: "2026-07-28"}}),
    request(1, "server/discover", {"_meta": 3}),
    request(1, "tools/call", {"_meta": ENVELOPE}),
    request(1, "ping", {"_meta": ENVELOPE}),
    request(1, "nonsense", {"_meta": ENVELOPE}),
    initialize("2025-11-25", capabilities=3),
    initialize("2025-11-25", capabilities={"roots": 3}),
    initialize("2025-11-25", clientInfo={"name": "c"}),
    initialize("2025-11-25", _meta=ENVELOPE),
    initialize("2025-11-25", protocolVersion=3),
]
FIRST = {
    "nothing": [],
    "a handshake": [initialize("2025-06-18"), INITIALIZED],
    "a stateless request": [request(0, "tools/list", {"_meta": ENVELOPE})],
}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("message", ODD)
def test_what_is_odd_is_answered_as_by_the_sdk(first: str, message: dict[str, Any]) -> None:
    messages = [*FIRST[first], message]
    assert of_sdk(messages)[-1] == of_ours(messages)[-1]


def test_a_client_says_who_it_is_once_or_with_every_request() -> None:
    ours = Protocol([])
    ours.take(lines([initialize("2025-11-25")])[0])
    [line] = lines([request(1, "tools/call", {"name": "read", "arguments": 3})])
    assert ours.take(line) == ToolCall(1, "read", 3, {}, "c")
    meta = {**ENVELOPE, "io.modelcontextprotocol/clientInfo": {"name": "d", "version": "1"}}
    [line] = lines([request(1, "tools/call", {"name": "read", "_meta": meta})])
    assert Protocol([]).take(line) == ToolCall(1, "read", {}, meta, "d")


def test_what_needs_no_answer_gets_none() -> None:
    cancelled: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    [line] = lines([{**cancelled, "params": {"requestId": 7}}])
    assert Protocol([]).take(line) == Cancelled(7)
    replies = [{"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 1, "error": {}}]
    no_id = {**cancelled, "params": {"requestId": True}}
    for line in lines([cancelled, no_id, INITIALIZED, *replies]):
        assert Protocol([]).take(line) is None
