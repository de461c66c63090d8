"""A tool call of MCP as a call of stet. No I/O.

What a client may say beside the arguments, in ``_meta``:

    stet/request_id   the call's own id: the same one twice, in one session, is carried out once
    stet/session      the conversation that the call belongs to (stet.mcp.callers)
    x-codex-turn-metadata
                      Codex: with ``sandbox_mode``. Where it is "read-only", Codex does not let
                      the model write, and the model shall not write by way of stet either

Without a request id each call gets one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stet.calls import Call
from stet.errors import InputTooLarge, InvalidParams, NotPermitted
from stet.wire.results import (
    DiffResult,
    EditResult,
    LogResult,
    ReadResult,
    ShowResult,
    UpgradeResult,
)

REQUEST_KEY = "stet/request_id"
_CODEX_TURN_KEY = "x-codex-turn-metadata"

#: What each tool gives back.
RESULTS: dict[str, type[msgspec.Struct]] = {
    "patch": EditResult,
    "patch_file": EditResult,
    "patch_block": EditResult,
    "apply_patch": EditResult,
    "read": ReadResult,
    "undo": EditResult,
    "log": LogResult,
    "show": ShowResult,
    "diff": DiffResult,
    "request_mode_upgrade": UpgradeResult,
}

#: Half of what the daemon takes as one message unless it is configured otherwise. A larger one
#: would end the connection, and with it all other calls.
LARGEST_ARGUMENTS = 8 * 1024 * 1024

#: The daemon's bound for names of sessions, agents and requests.
_LONGEST_LABEL = 200
_LONGEST_WAIT = 86_400
_NOT_IN_LABELS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def call_of(
    tool: str, arguments: object, meta: Mapping[str, Any], offered: Sequence[str]
) -> Call[Any]:
    """The call to be sent, with a request id only if the client gives one.

    Raises InvalidParams, InputTooLarge and NotPermitted, written for a model.
    """
    if tool not in offered:
        raise InvalidParams(f'There is no tool "{tool}". The tools are: {", ".join(offered)}.')
    if not isinstance(arguments, dict):
        raise InvalidParams(
            f"The arguments of {tool} must be an object of named parameters, as its input schema "
            f"says; received {type(arguments).__name__}."
        )
    params = dict(arguments)
    _check_size(tool, params)
    result = RESULTS[tool]
    if result is EditResult:
        _check_sandbox(meta)
        given = label_in(meta, REQUEST_KEY)
        if given is not None:
            params["request_id"] = given
    return Call(tool, params, result, wait=_wait(params) if result is UpgradeResult else 0.0)


def label_in(meta: Mapping[str, Any], key: str) -> str | None:
    """A label that the client gives in ``_meta``. Raises InvalidParams for what is none."""
    value = meta.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value or label(value) != value:
        raise InvalidParams(
            f'_meta["{key}"] must be a text of 1 to {_LONGEST_LABEL} characters without control '
            "characters."
        )
    return value


def label(text: str) -> str:
    """A text as the daemon takes it for a name; empty if nothing is left of it."""
    return _NOT_IN_LABELS.sub("", text)[:_LONGEST_LABEL]


def _check_sandbox(meta: Mapping[str, Any]) -> None:
    turn = meta.get(_CODEX_TURN_KEY)
    if isinstance(turn, dict) and turn.get("sandbox_mode") == "read-only":
        raise NotPermitted(
            "Codex's sandbox is read-only, so nothing was changed. Reading works. Tell the person "
            "what you want to edit: they can let you write with /permissions, or by starting "
            "Codex with --sandbox workspace-write."
        )


def _wait(params: Mapping[str, Any]) -> float:
    """Seconds that the daemon will wait for a person; 0 for what it is going to refuse."""
    wait = params.get("wait")
    return wait if isinstance(wait, int | float) and 0 <= wait <= _LONGEST_WAIT else 0.0


def _check_size(tool: str, params: Mapping[str, Any]) -> None:
    try:
        size = len(msgspec.json.encode(params))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidParams(
            f"The arguments of {tool} can't be sent: {error}. Send text, numbers, booleans, lists "
            "and objects; text must be valid Unicode."
        ) from error
    if size > LARGEST_ARGUMENTS:
        raise InputTooLarge(
            f"The arguments of {tool} have {size:,} bytes; {LARGEST_ARGUMENTS:,} are the most. "
            "Nothing was changed. Send the edit in several smaller calls."
        )
