"""The SDK's server with our tools: who asks, what for, and the answer in the SDK's shapes.

Every failure of a call is a tool error, which a model reads and can act on: wrong arguments and
unknown tools too, for which the protocol would have errors that clients keep from the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server

from stet.errors import StetError
from stet.mcp import catalogue
from stet.mcp.answers import answered, refused
from stet.mcp.callers import SESSION_KEY, caller_of
from stet.mcp.options import Options
from stet.mcp.sessions import Sessions
from stet.mcp.tool_calls import REQUEST_KEY, call_of
from stet.version import __version__
from stet.wire.results import EditResult

#: Under this name the handler finds arguments that are no object; the SDK would refuse them.
_ODD_ARGUMENTS = "stet/odd_arguments"

Context = ServerRequestContext[Any, Any]


def make_server(options: Options) -> Server[Any]:
    """A server with the tools that the options name, which belongs to the running event loop."""
    tools = _Tools(options)
    server: Server[Any] = Server(
        catalogue.NAME,
        title=catalogue.TITLE,
        version=__version__,
        instructions=catalogue.INSTRUCTIONS,
        cache_hints={
            method: CacheHint(ttl_ms=catalogue.LIST_TTL_MS, scope=catalogue.CACHE_SCOPE)
            for method in ("tools/list", "server/discover")
        },
        on_list_tools=tools.listed,
        on_call_tool=tools.call,
    )
    server.middleware.append(_let_odd_arguments_pass)
    return server


async def _let_odd_arguments_pass(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Arguments that are no object get to the handler, for an error that a model sees."""
    params = ctx.params
    if ctx.method == "tools/call" and params is not None:
        arguments = params.get("arguments")
        if arguments is not None and not isinstance(arguments, dict):
            odd = {**params, "arguments": {_ODD_ARGUMENTS: arguments}}
            return await call_next(replace(ctx, params=odd))
    return await call_next(ctx)


class _Tools:
    """The handlers of ``tools/list`` and ``tools/call``."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._sessions = Sessions(options.workspace, options.secret)
        definitions = catalogue.definitions(options.dialects, structured=options.structured)
        self._listed = types.ListToolsResult(
            tools=[types.Tool.model_validate(each, by_name=False) for each in definitions]
        )
        self._names = [each["name"] for each in definitions]

    async def listed(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return self._listed

    async def call(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        meta: dict[str, Any] = dict((ctx.params or {}).get("_meta") or {})
        arguments: object = params.arguments or {}
        if isinstance(arguments, dict) and _ODD_ARGUMENTS in arguments:
            arguments = arguments[_ODD_ARGUMENTS]
        told: dict[str, Any] = {}
        try:
            call = call_of(params.name, arguments, meta, self._names)
            caller = caller_of(meta, self._options, _client(ctx, meta))
            told[SESSION_KEY] = caller.session
            result = await self._sessions.perform(caller, call)
            request = getattr(result, "request", None) if call.result is EditResult else None
            answer = answered(result, call.params, caller.session)
        except StetError as error:
            request = error.data.get("request_id")
            answer = refused(error)
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)],
            # Claude Code and Codex show their models this instead of the text, where it is given.
            structured_content=answer.structured if self._options.structured else None,
            is_error=answer.is_error,
            _meta={**told, **({REQUEST_KEY: request} if request else {})} or None,
        )


def _client(ctx: Context, meta: dict[str, Any]) -> str:
    """What the client calls itself: with this request, or when it introduced itself."""
    client = meta.get(types.CLIENT_INFO_META_KEY)
    introduced = ctx.session.client_params
    name = client.get("name") if isinstance(client, dict) else None
    if not isinstance(name, str) and introduced is not None:
        name = introduced.client_info.name
    return name if isinstance(name, str) else ""
