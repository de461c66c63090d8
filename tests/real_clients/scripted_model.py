"""A language model that says what a script tells it: the APIs of four vendors on 127.0.0.1.

A script is a list of steps; a step is a tool call (:class:`Use`), several at once (a tuple), or
the closing text. Which step is next follows from the conversation that the client sends: as many
tool results as it holds have been played. So the server keeps no state of a conversation, a
repeated request gets the same answer, and side requests (titles, summaries), which offer no tools,
get a fixed text.

Every request is kept (:attr:`ScriptedModel.requests`): they show which tools the client offers
its model, and what the model is shown of each result.

    /v1/messages                                   Anthropic, Claude Code
    /v1/responses                                  OpenAI, Codex
    /v1/chat/completions                           OpenAI, opencode, Qwen Code
    /v1beta/models/NAME:streamGenerateContent      Google, Gemini CLI
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

END = "That is all."


@dataclass(frozen=True)
class Use:
    """A tool call. ``tool`` is the name that the client offers it under, or the end of one
    (``stet__patch``); ``given`` its arguments, or the text of a tool that takes a text.
    """

    tool: str
    given: dict[str, Any] | str


#: What a script plays before it wants to see results.
Step = Use | tuple[Use, ...]


@dataclass(frozen=True)
class Offered:
    """A tool as a request offers it to the model."""

    name: str
    description: str
    #: As the client sends it: what the model is charged for.
    definition: dict[str, Any]
    #: The group that a client puts the tool in, and calls it with.
    namespace: str | None = None
    takes_text: bool = False


@dataclass
class Request:
    """One request for the model's next words."""

    path: str
    body: dict[str, Any]
    tools: list[Offered]
    #: The texts of the tool results so far, as the model is shown them.
    results: list[str]
    #: The first message of the conversation.
    prompt: str = ""


@dataclass
class ScriptedModel:
    """The server; a context manager. ``steps`` may be set anew between conversations.

    ``tasks``: the steps of conversations whose first message has this text, a subagent's.
    """

    steps: Sequence[Step] = ()
    tasks: dict[str, Sequence[Step]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    #: Called before a step is played, with its number.
    before_step: Callable[[int], None] | None = None
    #: Requests that no API here knows.
    strangers: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def conversation(self) -> list[Request]:
        """The requests that offered tools, but for those of tasks."""
        return [
            each
            for each in self.requests
            if each.tools and not any(text in each.prompt for text in self.tasks)
        ]

    @property
    def results(self) -> list[str]:
        """What the model was shown of the tool results, in the newest request."""
        return self.conversation[-1].results if self.conversation else []

    def find(self, ending: str) -> Offered | None:
        """A tool that was offered under a name that ends so."""
        for request in self.conversation:
            for tool in request.tools:
                if _full(tool).endswith(ending):
                    return tool
        return None

    def next_calls(self, request: Request) -> list[Call]:
        """The calls of the step to be played; none: the closing text."""
        number = len(request.results)
        task = next((steps for text, steps in self.tasks.items() if text in request.prompt), None)
        played = 0
        for step in (self.steps if task is None else task) if request.tools else ():
            uses = (step,) if isinstance(step, Use) else step
            if played == number:
                if self.before_step is not None:
                    self.before_step(number)
                return [(use, _offered(use, request)) for use in uses]
            played += len(uses)
        return []


def _offered(use: Use, request: Request) -> Offered | None:
    found = [tool for tool in request.tools if _full(tool).endswith(use.tool)]
    exact = [tool for tool in found if tool.name == use.tool]
    return next(iter([*exact, *found]), None)


def _full(tool: Offered) -> str:
    return f"{tool.namespace}__{tool.name}" if tool.namespace else tool.name


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        scripted = model

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripted: ScriptedModel

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """What a client asks before it begins: which models there are."""
        if self.headers.get("Upgrade"):
            self._answer(b"{}", status=426)
        elif self.path.partition("?")[0].endswith("/models"):
            self._answer(b'{"object": "list", "data": [], "models": []}')
        else:
            self._is_strange()

    def do_HEAD(self) -> None:
        """Claude Code asks whether there is anybody."""
        self._answer(b"")

    def do_POST(self) -> None:
        """The model's next words."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        body = json.loads(raw or b"{}")
        for end, api in APIS.items():
            if path.endswith(end):
                request = api.read(path, body)
                self.scripted.requests.append(request)
                events = api.answer(request, self.scripted.next_calls(request))
                self._stream(events, typed=api.typed)
                return
        for end, answer in _FIXED.items():
            if path.endswith(end):
                self._answer(json.dumps(answer).encode())
                return
        self._is_strange()

    def _is_strange(self) -> None:
        self.scripted.strangers.append(f"{self.command} {self.path}")
        self._answer(b"{}", status=404)

    def _answer(self, data: bytes, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[Event], *, typed: bool) -> None:
        data = b""
        for event in events:
            if typed and isinstance(event, dict):
                data += f"event: {event['type']}\n".encode()
            text = event if isinstance(event, str) else json.dumps(event)
            data += f"data: {text}\n\n".encode()
        self._answer(data, kind="text/event-stream")


Call = tuple[Use, Offered | None]
Event = dict[str, Any] | str


@dataclass(frozen=True)
class _Api:
    read: Callable[[str, dict[str, Any]], Request]
    answer: Callable[[Request, list[Call]], Iterator[Event]]
    typed: bool = False


def _call_id(request: Request, place: int) -> str:
    """Another one for each call, also in subagents, which begin with other prompts."""
    return f"toolu_{zlib.crc32(request.prompt.encode()):08x}{len(request.results) + place + 1:04d}"


def _name(use: Use, tool: Offered | None) -> str:
    return tool.name if tool is not None else use.tool


def _text_of(content: Any) -> str:
    """The text in the content of a message, whatever the vendor calls its parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_text_of(each) for each in content)
    if isinstance(content, dict):
        for key in ("text", "content", "output"):
            if key in content:
                return _text_of(content[key])
    return json.dumps(content)


# -- Anthropic


def _read_messages(path: str, body: dict[str, Any]) -> Request:
    results = [
        _text_of(part.get("content"))
        for message in body.get("messages", [])
        if isinstance(message.get("content"), list)
        for part in message["content"]
        if part.get("type") == "tool_result"
    ]
    tools = [
        Offered(tool.get("name", ""), tool.get("description", ""), tool)
        for tool in body.get("tools") or []
    ]
    return Request(path, body, tools, results, _first(body.get("messages")))


def _first(messages: Any) -> str:
    """The text of the first message of a user."""
    of_user = [each for each in messages or [] if each.get("role") == "user"]
    return _text_of(of_user[0].get("content")) if of_user else ""


def _answer_messages(request: Request, calls: list[Call]) -> Iterator[Event]:
    usage = {"input_tokens": 10, "output_tokens": 10}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", "m"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    if not calls:
        yield _block_start(0, {"type": "text", "text": ""})
        yield _block_delta(0, {"type": "text_delta", "text": END})
        yield {"type": "content_block_stop", "index": 0}
    for place, (use, tool) in enumerate(calls):
        named = {"id": _call_id(request, place), "name": _name(use, tool), "input": {}}
        yield _block_start(place, {"type": "tool_use", **named})
        given = json.dumps(use.given)
        yield _block_delta(place, {"type": "input_json_delta", "partial_json": given})
        yield {"type": "content_block_stop", "index": place}
    reason = "tool_use" if calls else "end_turn"
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": usage,
    }
    yield {"type": "message_stop"}


def _block_start(index: int, block: dict[str, Any]) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _block_delta(index: int, delta: dict[str, Any]) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": delta}


# -- OpenAI, responses


def _read_responses(path: str, body: dict[str, Any]) -> Request:
    results = [
        _text_of(item.get("output"))
        for item in body.get("input", [])
        if isinstance(item, dict) and str(item.get("type")).endswith("_output")
    ]
    offered = list(body.get("tools") or [])
    for item in body.get("input", []):  # what a search for tools has found; what is offered in code
        if isinstance(item, dict) and item.get("type") in (
            "tool_search_output",
            "additional_tools",
        ):
            offered += item.get("tools") or []
    tools: list[Offered] = []
    for tool in offered:
        inner = tool.get("tools")
        if isinstance(inner, list):
            tools += [
                Offered(
                    each["name"],
                    each.get("description", ""),
                    each,
                    tool.get("name"),
                    takes_text=each.get("type") == "custom",
                )
                for each in inner
            ]
        else:
            tools.append(
                Offered(
                    tool.get("name") or tool.get("type", ""),
                    tool.get("description", ""),
                    tool,
                    takes_text=tool.get("type") == "custom",
                )
            )
    return Request(path, body, tools, results)


def _answer_responses(request: Request, calls: list[Call]) -> Iterator[Event]:
    yield {"type": "response.created", "response": {"id": "resp_1"}}
    if not calls:
        said = [{"type": "output_text", "text": END}]
        message = {"type": "message", "role": "assistant", "id": "msg_1", "content": said}
        yield {"type": "response.output_item.done", "item": message}
    for place, (use, tool) in enumerate(calls):
        item: dict[str, Any] = {"call_id": _call_id(request, place), "name": _name(use, tool)}
        if use.tool == "tool_search":
            item["type"] = "tool_search_call"
            item |= {"execution": "client", "arguments": use.given}
            del item["name"]
        elif tool is not None and tool.takes_text:
            item |= {"type": "custom_tool_call", "input": use.given}
        else:
            item |= {"type": "function_call", "arguments": json.dumps(use.given)}
        if tool is not None and tool.namespace:
            item["namespace"] = tool.namespace
        yield {"type": "response.output_item.done", "item": item}
    usage = {
        "input_tokens": 10,
        "input_tokens_details": None,
        "output_tokens": 10,
        "output_tokens_details": None,
        "total_tokens": 20,
    }
    yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}


# -- OpenAI, chat completions


def _read_chat(path: str, body: dict[str, Any]) -> Request:
    messages = body.get("messages", [])
    results = [_text_of(each.get("content")) for each in messages if each.get("role") == "tool"]
    tools = [
        Offered(tool["function"]["name"], tool["function"].get("description", ""), tool)
        for tool in body.get("tools") or []
        if "function" in tool
    ]
    for result in results:  # what Qwen Code's search for tools has found
        for text in re.findall(r"^<function>(.*)</function>$", result, re.MULTILINE):
            tool = json.loads(text)
            tools.append(Offered(tool["name"], tool["description"], tool))
    return Request(path, body, tools, results, _first(messages))


def _answer_chat(request: Request, calls: list[Call]) -> Iterator[Event]:
    head = {
        "id": "chat_1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": request.body.get("model", "m"),
    }
    delta: dict[str, Any] = {"role": "assistant"}
    if not calls:
        delta["content"] = END
    else:
        delta["tool_calls"] = [
            {
                "index": place,
                "id": _call_id(request, place),
                "type": "function",
                "function": {"name": _name(use, tool), "arguments": json.dumps(use.given)},
            }
            for place, (use, tool) in enumerate(calls)
        ]
    yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    end = {"index": 0, "delta": {}, "finish_reason": reason}
    yield {**head, "choices": [end], "usage": usage}
    yield "[DONE]"


# -- Google


def _read_google(path: str, body: dict[str, Any]) -> Request:
    results = [
        _text_of(part["functionResponse"].get("response"))
        for content in body.get("contents", [])
        for part in content.get("parts", [])
        if "functionResponse" in part
    ]
    tools = [
        Offered(each["name"], each.get("description", ""), each)
        for tool in body.get("tools") or []
        for each in tool.get("functionDeclarations", [])
    ]
    return Request(path, body, tools, results)


def _google_text(text: str) -> dict[str, Any]:
    return _google_parts([{"text": text}])


def _google_parts(parts: list[dict[str, Any]]) -> dict[str, Any]:
    content = {"role": "model", "parts": parts}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 10,
            "candidatesTokenCount": 10,
            "totalTokenCount": 20,
        },
        "modelVersion": "m",
    }


def _answer_google(request: Request, calls: list[Call]) -> Iterator[Event]:
    if not calls:
        yield _google_text(END)
        return
    named = [{"name": _name(use, tool), "args": use.given} for use, tool in calls]
    yield _google_parts([{"functionCall": each} for each in named])


APIS = {
    "/messages": _Api(_read_messages, _answer_messages, typed=True),
    "/responses": _Api(_read_responses, _answer_responses, typed=True),
    "/chat/completions": _Api(_read_chat, _answer_chat),
    ":streamGenerateContent": _Api(_read_google, _answer_google),
}

#: Side requests: counting tokens, choosing a model.
_FIXED = {
    "/count_tokens": {"input_tokens": 1},
    ":countTokens": {"totalTokens": 1},
    ":generateContent": _google_text('{"model_choice": "flash"}'),
}
