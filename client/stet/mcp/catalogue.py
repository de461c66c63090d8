"""The tools that ``stet mcp`` offers, and the server's description of itself.

The definitions are the output of ``stet tools --style mcp``. They are kept in ``tools.json``, so
that they are available before a daemon runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from stet.cli.usage import UsageError

#: The tools that edit; a model does best with one or two of them. All others are always offered.
DIALECTS = ("patch", "patch_file", "patch_block", "apply_patch")

NAME = "stet"
INSTRUCTIONS = """\
Edit files, apply patches, undo edits, see the history of edits. Each call is carried out whole or \
not at all, and recorded, so that the person can see it and take it back. An error changes nothing \
and says what to send instead. undo takes back your edits of this conversation, newest first, and \
keeps what others changed since. Paths are relative to the directory that the tools name, or \
absolute."""

#: The tools that every conversation needs, besides the first edit tool. Claude Code hides MCP tools
#: behind a search, but offers these at once.
ALWAYS_OFFERED = ("read", "undo")
_ALWAYS_KEY = "anthropic/alwaysLoad"
#: Without it Claude Code writes a result of more than 50,000 characters to a file, as JSON. The
#: limit, in UTF-16 units, has room for the longest text of :mod:`stet.mcp.answers`.
_RESULT_LIMIT = {"anthropic/maxResultSizeChars": 250_000}

#: Stands for the workspace in the descriptions of paths.
_PLACEHOLDER = "the working directory"


def definitions(
    dialects: Sequence[str] = DIALECTS, *, structured: bool = False, directory: str = _PLACEHOLDER
) -> list[dict[str, Any]]:
    """The tools in MCP's format, with these edit tools; ``structured``: with schemas of results.

    ``directory``: the base of relative paths. The tools name it, because a model may work in
    another directory than its client's servers: a subagent in a Git worktree.
    """
    named = msgspec.json.encode(os.fsencode(directory).decode(errors="replace"))[1:-1]
    at_once = (*ALWAYS_OFFERED, dialects[0])
    # Not with importlib.resources, which takes as long to load as the rest of this module.
    with open(os.path.join(os.path.dirname(__file__), "tools.json"), "rb") as file:
        text = file.read().replace(_PLACEHOLDER.encode(), named)
    tools = msgspec.json.decode(text, type=list[dict[str, Any]])
    return [
        {
            **{key: each for key, each in tool.items() if structured or key != "outputSchema"},
            "_meta": _RESULT_LIMIT | ({_ALWAYS_KEY: True} if tool["name"] in at_once else {}),
        }
        for tool in tools
        if tool["name"] not in DIALECTS or tool["name"] in dialects
    ]


def named_dialects(names: str) -> tuple[str, ...]:
    """Parse the option --tools: edit tools like "patch,apply_patch". Raises UsageError."""
    found = tuple(name.strip().replace("-", "_") for name in names.split(",") if name.strip())
    unknown = [name for name in found if name not in DIALECTS]
    if unknown or not found:
        raise UsageError(
            f"--tools: {', '.join(unknown) or 'an empty list'} names no tool that edits; these are "
            f"{', '.join(DIALECTS)}. All other tools are always offered"
        )
    return found
