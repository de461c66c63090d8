"""Converts MCP tool calls to calls of stet, and finds the session and the agent of each.

docs/mcp.md lists the keys of ``_meta``, and says which name of a conversation takes precedence. The
session is the conversation, so that the agent's edits through stet and the edits that its client's
hooks record are in one session. The conversation that a hook of the same client process reports
(:mod:`stet.agents.joining`) is read at each call, since /clear begins another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stet.agents import joining
from stet.agents.clients import CLIENTS
from stet.calls import Call
from stet.errors import InputTooLarge, InvalidParams, NotPermitted
from stet.mcp.catalogue import DIALECTS
from stet.session.conversation import UNSENDABLE, unsendable
from stet.wire import results
from stet.wire.results import EditResult, UpgradeResult

REQUEST_KEY = "stet/request_id"
SESSION_KEY = "stet/session"
_CODEX_SESSION_KEY = "sessionId"
_CODEX_TURN_KEY = "x-codex-turn-metadata"
_CLAUDE_SESSION = "CLAUDE_CODE_SESSION_ID"

_AGENT_NAMES = {client.mcp_name: client.name for client in CLIENTS.values()}

RESULTS: dict[str, type[msgspec.Struct]] = {
    **dict.fromkeys(DIALECTS, EditResult),
    "read": results.ReadResult,
    "undo": EditResult,
    "log": results.LogResult,
    "show": results.ShowResult,
    "diff": results.DiffResult,
    "request_mode_upgrade": UpgradeResult,
}

#: Half of the daemon's default limit for a message. A message above the limit would end the
#: connection, and with it all other calls.
LARGEST_ARGUMENTS = 8 * 1024 * 1024

#: The daemon's limits for names of sessions, agents and requests, and for ``wait`` in seconds.
_LONGEST_LABEL = 200
_LONGEST_WAIT_S = 86_400
_NOT_IN_LABELS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def call_of(
    tool: str, arguments: object, meta: Mapping[str, Any], offered: Sequence[str]
) -> Call[Any]:
    """Convert a tool call to a call, with a request id only if the client gives one.
    Raises InvalidParams, InputTooLarge and NotPermitted, written for a model.
    """
    if tool not in offered:
        raise InvalidParams(f'There is no tool "{tool}". The tools are: {", ".join(offered)}.')
    if not isinstance(arguments, dict):
        raise InvalidParams(
            f"The arguments of {tool} must be an object of named parameters, as its input schema "
            f"says; received {type(arguments).__name__}."
        )
    # Models fill in what they need not send; nothing that a reading tool takes is ever empty.
    result = RESULTS[tool]
    params = {key: each for key, each in arguments.items() if result is EditResult or each != ""}
    try:
        size = len(msgspec.json.encode(params))
    except UNSENDABLE as error:
        raise unsendable(f"The arguments of {tool}", error) from error
    if size > LARGEST_ARGUMENTS:
        raise InputTooLarge(
            f"The arguments of {tool} have {size:,} bytes; {LARGEST_ARGUMENTS:,} are the most. "
            "Nothing was changed. Send the edit in several smaller calls."
        )
    if result is EditResult:
        turn = meta.get(_CODEX_TURN_KEY)
        if isinstance(turn, dict) and turn.get("sandbox_mode") == "read-only":
            raise NotPermitted(
                "Codex's sandbox is read-only, so nothing was changed. Reading works. Tell the "
                "person what you want to edit: they can let you write with /permissions, or by "
                "starting Codex with --sandbox workspace-write."
            )
        given = label_in(meta, REQUEST_KEY)
        if given is not None:
            params["request_id"] = given
    # Seconds that the daemon will wait for a person; 0 for a value that it will refuse.
    wait = params.get("wait") if result is UpgradeResult else 0.0
    if not isinstance(wait, int | float) or not 0 <= wait <= _LONGEST_WAIT_S:
        wait = 0.0
    return Call(tool, params, result, wait=wait)


def label_in(meta: Mapping[str, Any], key: str) -> str | None:
    """A label that the client gives in ``_meta``. Raises InvalidParams for an invalid one."""
    value = meta.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value or label(value) != value:
        raise InvalidParams(
            f'_meta["{key}"] must be a text of 1 to {_LONGEST_LABEL} characters without control '
            "characters, and no white space at its ends."
        )
    return value


def label(text: str) -> str:
    """Reduce a text to a name that the daemon accepts; empty if nothing is left of it."""
    return _NOT_IN_LABELS.sub("", text).strip()[:_LONGEST_LABEL].strip()


# -- the session and the agent of a call


class Options(msgspec.Struct, frozen=True):
    """The options of ``stet mcp``, from its command line and the environment.

    ``workspace``: an absolute directory. ``session``: the session of calls that name none; None:
    the client's conversation, or else ``own_session``, which only this process uses. ``agent``:
    replaces the client's name for itself. ``dialects``: the edit tools offered. ``secret``: the
    session's (docs/mcp.md). ``structured``: results have structured content besides the text.
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
    """The caller. ``client``: the name that the client gives itself. Raises InvalidParams."""
    session = label_in(meta, SESSION_KEY) or options.session
    agent = options.agent or _AGENT_NAMES.get(client) or label(client) or "mcp"
    if session is None and options.secret is None:
        named = meta.get(_CODEX_SESSION_KEY)
        if isinstance(named, str):
            return Caller(label(named) or options.own_session, agent)
        joined = joining.joined()
        if joined is not None:
            return Caller(label(joined[0]), options.agent or label(joined[1]))
        session = label(os.environ.get(_CLAUDE_SESSION, ""))
    return Caller(session or options.own_session, agent)
