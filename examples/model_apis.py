"""Three ways in which models ask for tools and are answered, behind one interface.

What lives here: the shapes of OpenAI's chat completions, OpenAI's responses and Anthropic's
messages, as far as an agent loop needs them. Nothing here knows stet or a network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Json = dict[str, Any]
Style = Literal["openai", "anthropic"]


@dataclass(frozen=True)
class ToolCall:
    """A call that a model wants to be made. ``trouble``: why its arguments can't be read."""

    id: str
    tool: str
    arguments: Json
    trouble: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a call, in words for the model."""

    call: ToolCall
    text: str
    is_error: bool


class Api(Protocol):
    """One vendor's interface."""

    #: What to ask stet's ``tools`` for.
    style: Style
    options: Mapping[str, Any]

    def question(self, text: str) -> Json:
        """A conversation's first entry."""

    def said(self, reply: Mapping[str, Any]) -> str:
        """The text in a reply, which may be none."""

    def calls(self, reply: Mapping[str, Any]) -> list[ToolCall]:
        """The calls in a reply, in order."""

    def continuation(self, reply: Mapping[str, Any], outcomes: Sequence[Outcome]) -> list[Json]:
        """What a reply and its outcomes add to the conversation."""


def _parsed(id: str, tool: str, text: str) -> ToolCall:  # noqa: A002 - the vendors' word
    """A call whose arguments are JSON in a string, as OpenAI's models write them."""
    try:
        arguments = json.loads(text)
    except ValueError as error:
        return ToolCall(id, tool, {}, f"The arguments are not JSON: {error}. Send an object.")
    if not isinstance(arguments, dict):
        return ToolCall(id, tool, {}, "The arguments are not an object. Send an object.")
    return ToolCall(id, tool, arguments)


class ChatCompletions:
    """OpenAI's chat completions, which many other services speak too."""

    style: Style = "openai"
    options: Mapping[str, Any] = {}

    def question(self, text: str) -> Json:
        return {"role": "user", "content": text}

    def said(self, reply: Mapping[str, Any]) -> str:
        return str(reply["choices"][0]["message"]["content"] or "")

    def calls(self, reply: Mapping[str, Any]) -> list[ToolCall]:
        wanted = reply["choices"][0]["message"].get("tool_calls") or []
        return [
            _parsed(each["id"], each["function"]["name"], each["function"]["arguments"])
            for each in wanted
        ]

    def continuation(self, reply: Mapping[str, Any], outcomes: Sequence[Outcome]) -> list[Json]:
        # There is no field for an error: the text says that it is one.
        results = [
            {"role": "tool", "tool_call_id": each.call.id, "content": each.text}
            for each in outcomes
        ]
        return [reply["choices"][0]["message"], *results]


class Responses:
    """OpenAI's responses, with ``apply_patch`` as a custom tool whose input is the patch itself."""

    style: Style = "openai"
    options: Mapping[str, Any] = {"api": "responses", "custom": True}

    def question(self, text: str) -> Json:
        return {"role": "user", "content": text}

    def said(self, reply: Mapping[str, Any]) -> str:
        return "".join(
            part["text"]
            for item in reply["output"]
            if item["type"] == "message"
            for part in item["content"]
            if part["type"] == "output_text"
        )

    def calls(self, reply: Mapping[str, Any]) -> list[ToolCall]:
        made = []
        for item in reply["output"]:
            if item["type"] == "function_call":
                made.append(_parsed(item["call_id"], item["name"], item["arguments"]))
            elif item["type"] == "custom_tool_call":
                made.append(ToolCall(item["call_id"], item["name"], {"input": item["input"]}))
        return made

    def continuation(self, reply: Mapping[str, Any], outcomes: Sequence[Outcome]) -> list[Json]:
        kinds = {item.get("call_id"): item["type"] for item in reply["output"]}
        results = [
            {
                "type": f"{kinds[each.call.id]}_output",
                "call_id": each.call.id,
                "output": each.text,
            }
            for each in outcomes
        ]
        return [*reply["output"], *results]


class Messages:
    """Anthropic's messages."""

    style: Style = "anthropic"
    options: Mapping[str, Any] = {}

    def question(self, text: str) -> Json:
        return {"role": "user", "content": text}

    def said(self, reply: Mapping[str, Any]) -> str:
        return "".join(part["text"] for part in reply["content"] if part["type"] == "text")

    def calls(self, reply: Mapping[str, Any]) -> list[ToolCall]:
        return [
            ToolCall(part["id"], part["name"], part["input"])
            for part in reply["content"]
            if part["type"] == "tool_use"
        ]

    def continuation(self, reply: Mapping[str, Any], outcomes: Sequence[Outcome]) -> list[Json]:
        added: list[Json] = [{"role": "assistant", "content": reply["content"]}]
        if outcomes:
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": each.call.id,
                    "content": each.text,
                    "is_error": each.is_error,
                }
                for each in outcomes
            ]
            added.append({"role": "user", "content": results})
        return added


APIS: dict[str, Api] = {
    "chat": ChatCompletions(),
    "responses": Responses(),
    "anthropic": Messages(),
}
