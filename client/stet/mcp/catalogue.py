"""The tools that ``stet mcp`` offers, and what it says of itself.

The definitions are what ``stet tools --style mcp`` prints, kept in ``tools.json`` so that they
are there before a daemon is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

#: The tools that edit; a model does best with one or two of them. All others are always there.
DIALECTS = ("patch", "patch_file", "patch_block", "apply_patch")

NAME = "stet"
TITLE = "stet"
INSTRUCTIONS = """\
Edit files, apply patches, undo edits, see the history of edits. Each call is carried out whole or \
not at all, and recorded, so that the person can see it and take it back. An error changes nothing \
and says what to send instead. undo takes back your edits of this conversation, newest first, and \
keeps what others changed since. Paths are relative to the workspace or absolute."""

#: The tools that matter in every conversation, beside the first of those that edit. Claude Code,
#: which hides MCP's tools behind a search, offers these at once.
ALWAYS_OFFERED = ("read", "undo")
_ALWAYS_KEY = "anthropic/alwaysLoad"
#: Without it Claude Code puts a result of more than 50,000 characters into a file, as JSON. What
#: is too long for a model is cut in :mod:`stet.mcp.answers`; this is that, counted in UTF-16.
_LONGEST = {"anthropic/maxResultSizeChars": 250_000}

#: In the descriptions of paths.
_HERE = "the working directory"

#: How long a client may keep the list of tools: with another version or other options the process
#: is another one.
LIST_TTL_MS = 3_600_000
CACHE_SCOPE: Literal["private"] = "private"


def definitions(
    dialects: Sequence[str] = DIALECTS, *, structured: bool = False, directory: str = _HERE
) -> list[dict[str, Any]]:
    """The tools as MCP has them, with these edit tools; ``structured``: and schemas of results.

    ``directory``: from which relative paths are. A model may work in another one than its
    client's servers, a subagent in a Git worktree.
    """
    named = msgspec.json.encode(os.fsencode(directory).decode(errors="replace"))[1:-1]
    at_once = (*ALWAYS_OFFERED, dialects[0])
    # Not by importlib.resources, which takes as long to load as the rest of this.
    with open(os.path.join(os.path.dirname(__file__), "tools.json"), "rb") as file:
        text = file.read().replace(_HERE.encode(), named)
    tools = msgspec.json.decode(text, type=list[dict[str, Any]])
    return [
        {
            **{key: each for key, each in tool.items() if structured or key != "outputSchema"},
            "_meta": _LONGEST | ({_ALWAYS_KEY: True} if tool["name"] in at_once else {}),
        }
        for tool in tools
        if tool["name"] not in DIALECTS or tool["name"] in dialects
    ]


def named_dialects(names: str) -> tuple[str, ...]:
    """The edit tools in a list like "patch,apply_patch". Raises ValueError for another name."""
    found = tuple(name.strip().replace("-", "_") for name in names.split(",") if name.strip())
    unknown = [name for name in found if name not in DIALECTS]
    if unknown or not found:
        raise ValueError(
            f"{', '.join(unknown) or 'an empty list'} names no tool that edits; these are "
            f"{', '.join(DIALECTS)}. All other tools are always offered"
        )
    return found
