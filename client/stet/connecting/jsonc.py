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
from functools import cached_property
from typing import Any

#: Deeper files are refused; a hostile one would exhaust the stack.
DEEPEST = 200

_SPACE = re.compile(r"[ \t\r\n]*")
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
#: What a value may hide its end behind, in text that is known to be sound.
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")

Path = tuple[str | int, ...]


class NotJson(Exception):
    """The text is no JSON; ``line`` and ``column`` count from 1."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {what}")
        self.line = line
        self.column = column


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Node:
    """Where a value stands in sound text. What is in it is looked at when it is asked for.

    A client may keep megabytes in the file, and only a few places in it matter.
    """

    text: str
    start: int
    end: int

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
        if not self.is_object and not self.is_array:
            return ()
        items = []
        at = _skip(self.text, self.start + 1)
        while at < self.end - 1:
            item = self._item(at)
            items.append(item)
            at = _skip(self.text, item.end if item.comma is None else item.comma + 1)
        return tuple(items)

    def _item(self, start: int) -> Item:
        key, at = None, start
        if self.is_object:
            end = _end_of_value(self.text, at)
            key = json.loads(self.text[at:end])
            at = _skip(self.text, _skip(self.text, end) + 1)
        node = Node(self.text, at, _end_of_value(self.text, at))
        behind = _skip(self.text, node.end)
        return Item(start, key, node, behind if self.text[behind] == "," else None)


def outline(text: str) -> Node | None:
    """Where the value of a sound document stands; None if there is nothing but trivia in it."""
    at = _skip(text, _beginning(text))
    return None if at == len(text) else Node(text, at, _end_of_value(text, at))


def value_of(text: str, *, strict: bool = False) -> Any:
    """The value of a document; None also for one without a value. Raises NotJson."""
    try:
        # A hundred times faster, and right where it accepts: every JSON text is one here.
        return json.loads(text[_beginning(text) :], parse_constant=_refused)
    except (ValueError, RecursionError):
        return _Reader(text, strict).document()


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


def _beginning(text: str) -> int:
    return 1 if text.startswith("\ufeff") else 0


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _skip(text: str, at: int, pattern: re.Pattern[str] = _TRIVIA) -> int:
    """The place after the trivia."""
    found = pattern.match(text, at)
    assert found is not None, "BUG: it matches nothing, too"
    return found.end()


def _end_of_value(text: str, at: int) -> int:
    """Where a value ends, in sound text."""
    if text[at] not in "{[":
        scalar = (_STRING if text[at] == '"' else _SCALAR).match(text, at)
        assert scalar is not None, "BUG: no value in sound text"
        return scalar.end()
    depth = 0
    for token in _BRACKET.finditer(text, at):
        if token[0] in ("{", "["):
            depth += 1
        elif token[0] in ("}", "]"):
            depth -= 1
            if depth == 0:
                return token.end()
    raise AssertionError("BUG: a bracket without its counterpart in sound text")


class _Reader:
    """Reads a whole document by the grammar above, and tells what is wrong with it."""

    def __init__(self, text: str, strict: bool) -> None:
        self._text = text
        self._strict = strict

    def document(self) -> Any:
        at = self._skip(_beginning(self._text))
        if at == len(self._text):
            return None
        value, end = self._value(at, 0)
        rest = self._skip(end)
        if rest != len(self._text):
            raise self._error(rest, "something stands after the end of the value")
        return value

    def _error(self, at: int, what: str) -> NotJson:
        if self._strict and self._text.startswith(("//", "/*"), at):
            what = "a comment, which this client does not read"
        before = self._text[:at]
        line = before.count("\n") + 1
        return NotJson(what, line, at - (before.rfind("\n") + 1) + 1)

    def _skip(self, at: int) -> int:
        return _skip(self._text, at, _SPACE if self._strict else _TRIVIA)

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        if depth > DEEPEST:
            raise self._error(at, f"nested deeper than {DEEPEST} levels")
        opening = self._text[at : at + 1]
        if opening == "{":
            items, end = self._items(at, depth, "}")
            return dict(items), end
        if opening == "[":
            items, end = self._items(at, depth, "]")
            return [value for _, value in items], end
        found = (_STRING if opening == '"' else _SCALAR).match(self._text, at)
        if found is None:
            raise self._error(at, self._why(at))
        try:
            return json.loads(found[0]), found.end()
        except ValueError:  # a number of thousands of digits
            raise self._error(at, "a number that is too long") from None

    def _why(self, at: int) -> str:
        if at == len(self._text):
            return "the file ends where a value should stand"
        return "not a value (a string, number, object, array, true, false or null)"

    def _items(self, start: int, depth: int, closing: str) -> tuple[list[tuple[str, Any]], int]:
        items: list[tuple[str, Any]] = []
        at, comma = self._skip(start + 1), None
        while not self._text.startswith(closing, at):
            if items and comma is None:
                raise self._error(at, f"a comma or {closing} should stand here")
            key = ""
            if closing == "}":
                key, at = self._key(at)
            value, end = self._value(at, depth + 1)
            items.append((key, value))
            at = self._skip(end)
            comma = at if self._text.startswith(",", at) else None
            at = at if comma is None else self._skip(comma + 1)
        if self._strict and comma is not None:
            raise self._error(comma, "a comma after the last item")
        return items, at + 1

    def _key(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self._text, at)
        if found is None:
            raise self._error(at, 'a key in double quotes, or "}", should stand here')
        colon = self._skip(found.end())
        if not self._text.startswith(":", colon):
            raise self._error(colon, "a colon should stand here")
        return json.loads(found[0]), self._skip(colon + 1)
