"""JSON with comments, read with the place of everything in it. Pure; changes nothing.

    document = [BOM] trivia [value trivia]
    value    = object | array | string | number | "true" | "false" | "null"
    object   = "{" trivia [member {"," trivia member} [","]] "}"
    member   = string trivia ":" trivia value trivia
    array    = "[" trivia [value trivia {"," trivia value trivia} [","]] "]"
    trivia   = any of: space, tab, CR, LF, "//" up to the end of the line, "/*" up to "*/"

This is what VS Code and Zed read. ``strict`` is RFC 8259 itself, for clients that read nothing
else. :mod:`json` reads both, once comments and last commas are blanks.

The packages that keep comments do not serve: json-five leaves commas and white space around a new
member to the caller, jsonc-edit wraps a JavaScript library, and what they put in they can't take
out to the byte. So :mod:`.json_splicing` cuts and pastes at the places that are found here.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=[ \t\r\n]*[}\]])', re.DOTALL)

Path = tuple[str | int, ...]


class NotJson(Exception):
    """The text is no JSON; ``line`` and ``column`` count from 1."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {what}")
        self.line = line
        self.column = column


class Item(NamedTuple):
    """A member of an object, from its key on, or an element of an array (``key`` None).

    ``comma`` is where the comma behind it stands; None if there is none.
    """

    start: int
    key: str | None
    node: Node
    comma: int | None

    @property
    def end(self) -> int:
        """Where its value ends."""
        return self.node.end


@dataclass(frozen=True)
class Node:
    """Where a value stands in sound text; ``plain`` is the text as :mod:`json` reads it."""

    text: str
    plain: str
    start: int

    @cached_property
    def end(self) -> int:
        """The place behind it."""
        return _decoded(self.plain, self.start)[1]

    @property
    def is_object(self) -> bool:
        """Whether it is an object."""
        return self.text[self.start] == "{"

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return self.text[self.start] == "["

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The items of an object or array; none of anything else."""
        items: list[Item] = []
        if not self.is_object and not self.is_array:
            return ()
        at = _skip(self.text, self.start + 1)
        while at < self.end - 1:
            start, key = at, None
            if self.is_object:
                key, end = _decoded(self.plain, at)
                at = _skip(self.text, _skip(self.text, end) + 1)
            node = Node(self.text, self.plain, at)
            behind = _skip(self.text, node.end)
            has_comma = self.text[behind] == ","
            items.append(Item(start, key, node, behind if has_comma else None))
            at = _skip(self.text, behind + 1) if has_comma else behind
        return tuple(items)


def outline(text: str) -> Node | None:
    """Where the value of a sound document stands; None if there is nothing but trivia in it."""
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    return None if at == len(text) else Node(text, _plain(text), at)


def value_of(text: str, *, strict: bool = False) -> Any:
    """The value of a document; None also for one without a value. Raises NotJson."""
    text = _unmarked(text)
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text, parse_constant=_refused)
    if not strict:
        text = _plain(text)
    if not text.strip(" \t\r\n"):
        return None
    try:
        return json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise _not_json(text, error) from None


def _decoded(plain: str, at: int) -> tuple[Any, int]:
    """The value at a place of sound text, and the place behind it."""
    try:
        return json.JSONDecoder().raw_decode(plain, at)
    except RecursionError as error:  # value_of stood less deep in the stack
        raise _not_json(plain, error) from None


def _unmarked(text: str) -> str:
    return " " + text[1:] if text.startswith("\ufeff") else text


def _plain(text: str) -> str:
    """The text with blanks for a mark, comments and last commas, so that all places stay."""

    def without_comment(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\r\n]", " ", found[0])

    def without_comma(found: re.Match[str]) -> str:
        if found[0] != ",":
            return found[0]
        before = found.string[: found.start()].rstrip(" \t\r\n")[-1:]
        return "," if before in ("", "[", "{", ",", ":") else " "

    return _LAST_COMMA.sub(without_comma, _COMMENT.sub(without_comment, _unmarked(text)))


def _not_json(text: str, error: Exception) -> NotJson:
    """What is wrong, and where; the deepest nesting that is read is what Python's stack holds."""
    if not isinstance(error, json.JSONDecodeError):
        deep = isinstance(error, RecursionError)
        return NotJson("nested too deep" if deep else str(error), 1, 1)
    at, what = error.pos, error.msg
    if re.compile(r"[ \t\r\n]*/[/*]").match(text, at):
        at, what = text.index("/", at), "a comment, which this client does not read"
    return NotJson(what, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def find(node: Node, key: str | int) -> Item | None:
    """The item of an object or array; of several with one key the last, which is the one read."""
    if isinstance(key, int):
        return node.items[key] if node.is_array and key < len(node.items) else None
    if not node.is_object:
        return None
    return next((item for item in reversed(node.items) if item.key == key), None)


def comments(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """The comments in a stretch of trivia."""
    return re.finditer(r"//[^\r\n]*|/\*.*?\*/", text[start:end], re.DOTALL)


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _skip(text: str, at: int) -> int:
    """The place after the trivia."""
    found = _TRIVIA.match(text, at)
    assert found is not None, "BUG: it matches nothing, too"
    return found.end()
