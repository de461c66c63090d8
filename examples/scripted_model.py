"""A model that gives recorded replies, so that the example needs no network and no key.

A recording is a list of replies in the shape of its interface, as the vendors' libraries give
them (``response.model_dump()``). The model insists on what the real interfaces insist on: that
every call that it asked for has a result in the conversation, and that the tools that it calls
were offered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from model_apis import Api

RECORDINGS = Path(__file__).parent / "recordings"


class BadRequest(Exception):
    """What a real interface would answer with status 400."""


class ScriptedModel:
    """Gives the replies of ``recordings/NAME.json`` one after the other."""

    def __init__(self, name: str, api: Api) -> None:
        self._api = api
        recorded = (RECORDINGS / f"{name}.json").read_text(encoding="utf-8")
        self._replies: list[dict[str, Any]] = json.loads(recorded)
        self._asked_for: list[str] = []

    def reply(
        self, tools: Sequence[Mapping[str, Any]], conversation: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The next recorded reply. Raises BadRequest."""
        said = json.dumps(list(conversation))
        for call_id in self._asked_for:
            if said.count(f'"{call_id}"') != 2:
                raise BadRequest(f"no result, or more than one, for the tool call {call_id}")
        found = self._replies.pop(0)
        calls = self._api.calls(found)
        unknown = {call.tool for call in calls} - {_name(tool) for tool in tools}
        if unknown:
            raise BadRequest(f"no such tools: {', '.join(sorted(unknown))}")
        self._asked_for += [call.id for call in calls]
        return found


def _name(tool: Mapping[str, Any]) -> str:
    inner = tool.get(tool["type"], tool) if "type" in tool else tool
    name: str = inner["name"]
    return name
