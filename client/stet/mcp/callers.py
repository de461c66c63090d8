"""Whose call it is: the conversation and the product that an MCP server is talking with.

The session is the conversation, so that what the agent does through stet and what its client's
hooks record of its other tools is one session. Where it is named, the first of these counts:

    stet/session        in the call's ``_meta``
    --session           of the server, or $STET_SESSION
    sessionId           in the call's ``_meta``: Codex, whose hooks call it session_id
    stet.agents.joining what a hook of the same client process has told: Claude Code, Gemini CLI,
                        opencode and others. Asked at each call, since /clear begins another one
    $CLAUDE_CODE_SESSION_ID
                        what Claude Code gives the server at its start, where no hooks run

else it is the process's own. With a ``secret`` only what is named by the first two is a
conversation's: hooks do not know the secret. The agent is the product's name as ``stet connect``
has it, whatever the client calls itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from stet.agents import joining
from stet.agents.clients import CLIENTS
from stet.mcp.tool_calls import label, label_in

SESSION_KEY = "stet/session"
_CODEX_SESSION_KEY = "sessionId"
_CLAUDE_SESSION = "CLAUDE_CODE_SESSION_ID"

_PRODUCTS = {client.mcp_name: client.name for client in CLIENTS.values()}


class Options(msgspec.Struct, frozen=True):
    """What ``stet mcp`` was told on its command line and in the environment.

    ``workspace``: an absolute directory. ``session``: that of calls that name none; None: the
    conversation that the client holds, or ``own_session``, which is this process's alone.

    ``agent``: instead of the name that the client gives itself. ``dialects``: the edit tools
    that are offered. ``secret``: of the session (CONTRACT.md 2). ``structured``: results have
    structured content beside the text.
    """

    workspace: str
    session: str | None
    own_session: str
    agent: str | None
    dialects: tuple[str, ...]
    secret: str | None
    structured: bool = False


class Caller(NamedTuple):
    """The session and the agent of a call."""

    session: str
    agent: str


def caller_of(meta: Mapping[str, Any], options: Options, client: str) -> Caller:
    """Whose call it is. ``client``: what the client calls itself. Raises InvalidParams."""
    session = label_in(meta, SESSION_KEY) or options.session
    agent = options.agent or _PRODUCTS.get(client) or label(client) or "mcp"
    if session is None and options.secret is None:
        told = meta.get(_CODEX_SESSION_KEY)
        if isinstance(told, str):
            return Caller(label(told) or options.own_session, agent)
        joined = joining.joined()
        if joined is not None:
            return Caller(label(joined[0]), options.agent or label(joined[1]))
        session = label(os.environ.get(_CLAUDE_SESSION, ""))
    return Caller(session or options.own_session, agent)
