"""JSON with comments, read with the place of everything in it. Pure; changes nothing.

    document = [BOM] trivia [value trivia]
    value    = object | array | string | number | "true" | "false" | "null"
    object   = "{" trivia [member {"," trivia member} [","]] "}"
    member   = string trivia ":" trivia value trivia
    array    = "[" trivia [value trivia {"," trivia value trivia} [","]] "]"
    trivia   = any of: space, tab, CR, LF, "//" up to the end of the line, "/*" up to "*/"

This is what VS Code and Zed read (RFC 8259, with both kinds of comments and a comma after the
last item). ``strict`` is RFC 8259 itself, for clients that read nothing else.

:mod:`.json_splicing` cuts and pastes in the text at the places that are found here. The packages
that keep comments do not serve: json-five leaves commas and white space around a new member to
the caller, jsonc-edit wraps a JavaScript library, and what they put in they can't take out to the
byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: Deeper files are refused; a hostile one would exhaust the stack.
DEEPEST = 200

_SPACE = re.compile(r"[ \t\r\n]*")
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")

Path = tuple[str | int, ...]


class NotJson(Exception):
    """The text is no JSON; ``line`` and ``column`` count from 1."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {what}")
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Node:
    """A value, where it stands, and the items of an object or array."""

    start: int
    end: int
    value: Any
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
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


def parse(text: str, *, strict: bool = False) -> Node | None:
    """The value of a document; None if there is nothing but trivia in it. Raises NotJson."""
    reader = _Reader(text, strict)
    at = reader.skip(1 if text.startswith("\ufeff") else 0)
    if at == len(text):
        return None
    root = reader.value(at, 0)
    rest = reader.skip(root.end)
    if rest != len(text):
        raise reader.error(rest, "something stands after the end of the value")
    return root


def value_of(text: str, *, strict: bool = False) -> Any:
    """The value alone; None for a document without one."""
    root = parse(text, strict=strict)
    return None if root is None else root.value


def find(node: Node, key: str | int) -> Item | None:
    """The item of an object or array; of several with one key the last, which is the one read."""
    if isinstance(key, int):
        return node.items[key] if isinstance(node.value, list) and key < len(node.items) else None
    if not isinstance(node.value, dict):
        return None
    return next((item for item in reversed(node.items) if item.key == key), None)


def comments(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """The comments in a stretch of trivia."""
    return re.finditer(r"//[^\r\n]*|/\*.*?\*/", text[start:end], re.DOTALL)


class _Reader:
    def __init__(self, text: str, strict: bool) -> None:
        self._text = text
        self._strict = strict

    def error(self, at: int, what: str) -> NotJson:
        before = self._text[:at]
        line = before.count("\n") + 1
        return NotJson(what, line, at - (before.rfind("\n") + 1) + 1)

    def skip(self, at: int) -> int:
        """The place after the trivia."""
        found = (_SPACE if self._strict else _TRIVIA).match(self._text, at)
        assert found is not None, "BUG: both match nothing, too"
        return found.end()

    def value(self, at: int, depth: int) -> Node:
        if depth > DEEPEST:
            raise self.error(at, f"nested deeper than {DEEPEST} levels")
        opening = self._text[at : at + 1]
        if opening in ("{", "["):
            return self._container(at, depth, "}" if opening == "{" else "]")
        pattern = _STRING if opening == '"' else _SCALAR
        found = pattern.match(self._text, at)
        if found is None:
            raise self.error(at, self._why(at))
        try:
            return Node(at, found.end(), json.loads(found[0]))
        except ValueError:  # a number of thousands of digits
            raise self.error(at, "a number that is too long") from None

    def _why(self, at: int) -> str:
        if at == len(self._text):
            return "the file ends where a value should stand"
        if self._strict and self._text.startswith(("//", "/*"), at):
            return "a comment, which this client does not read"
        return "not a value (a string, number, object, array, true, false or null)"

    def _container(self, start: int, depth: int, closing: str) -> Node:
        items: list[Item] = []
        at = self.skip(start + 1)
        while not self._text.startswith(closing, at):
            if items and items[-1].comma is None:
                raise self.error(at, f"a comma or {closing} should stand here")
            item = self._item(at, depth, keyed=closing == "}")
            items.append(item)
            at = self.skip(item.end if item.comma is None else item.comma + 1)
        if self._strict and items and items[-1].comma is not None:
            raise self.error(items[-1].comma, "a comma after the last item")
        found: Any = [item.node.value for item in items]
        if closing == "}":
            found = {item.key: item.node.value for item in items}
        return Node(start, at + 1, found, tuple(items))

    def _item(self, at: int, depth: int, *, keyed: bool) -> Item:
        key, begin = None, at
        if keyed:
            found = _STRING.match(self._text, at)
            if found is None:
                raise self.error(at, 'a key in double quotes, or "}", should stand here')
            key = json.loads(found[0])
            at = self.skip(found.end())
            if not self._text.startswith(":", at):
                raise self.error(at, "a colon should stand here")
            at = self.skip(at + 1)
        node = self.value(at, depth + 1)
        behind = self.skip(node.end)
        return Item(begin, key, node, behind if self._text.startswith(",", behind) else None)
