"""Edits JSON with comments: adds and removes values, and keeps every other byte. Pure.

    document = [BOM] trivia [value trivia]
    value    = object | array | string | number | "true" | "false" | "null"
    object   = "{" trivia [member {"," trivia member} [","]] "}"
    member   = string trivia ":" trivia value trivia
    array    = "[" trivia [value trivia {"," trivia value trivia} [","]] "]"
    trivia   = any of: space, tab, CR, LF, "//" up to the end of the line, "/*" up to "*/"

VS Code and Zed read this. ``strict`` is RFC 8259, for clients that read nothing else. :mod:`json`
reads both once comments and last commas are blanks. Packages that keep comments do not suffice:
json-five leaves commas and white space around a new member to the caller, jsonc-edit wraps a
JavaScript library, and neither can remove to the byte what it has added.

    put     replaces a member, or adds it as the last one, with missing objects above it
    altered replaces a value; parts that are equal in both values stay as they are
    append  adds an element at the end of an array, which is made if it is missing
    remove  removes an item, and objects above it that are empty then and not in ``keep``

New text follows the layout of the old: line terminators, indentation, one line if the object is on
one, a comma at the end if the last item has one. ``remove`` undoes ``put`` and ``append`` to the
byte, if there was a value and ``keep`` is that value. Each result is parsed and compared with the
wanted value, so that an unforeseen layout gives an error and no damage.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import msgspec

_DECODER = json.JSONDecoder()
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
#: A string, or a comment if the group matches. An unclosed comment ends the search: else the rest
#: of the text would be read once for each.
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*+"?|(//[^\r\n]*|/\*.*?\*/)|/\*.*', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+"?|,(?=[ \t\r\n]*[}\]])', re.DOTALL)
#: Blanks and comments up to the end of a line.
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*(?:[^*\r\n]|\*(?!/))*+\*/)*+(?://[^\r\n]*)?(?=\r?\n|$)")

Path = tuple[str | int, ...]


class NotJson(Exception):
    """The text is no JSON; ``line`` and ``column`` count from 1."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {what}")
        self.line, self.column = line, column


class Item(NamedTuple):
    """A member of an object, or an element of an array; ``comma``: the offset of its comma."""

    start: int
    key: str | None
    node: Node
    comma: int | None

    @property
    def end(self) -> int:
        """The offset after its value."""
        return self.node.end


class Node(msgspec.Struct, frozen=True, dict=True):
    """The place of a value in valid text; ``plain``: the text as :mod:`json` reads it."""

    text: str
    plain: str
    start: int

    @cached_property
    def end(self) -> int:
        """The offset after it."""
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
            items.append(Item(start, key, node, behind if self.text[behind] == "," else None))
            at = _skip(self.text, behind + 1)
        return tuple(items)


@lru_cache(maxsize=2)
def outline(text: str) -> Node | None:
    """The root value of a valid document; None if it has only trivia."""
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
    """The value at an offset of valid text, and the offset after it."""
    try:
        return _DECODER.raw_decode(plain, at)
    except RecursionError as error:  # value_of was called with a shallower stack
        raise _not_json(plain, error) from None


def _unmarked(text: str) -> str:
    return " " + text[1:] if text.startswith("\ufeff") else text


def _plain(text: str) -> str:
    """The text with blanks for BOM, comments and last commas, so that all offsets stay."""
    text = _unmarked(text)
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(text)  # ten times as fast, and most texts have no comments
        return text

    def without_comment(found: re.Match[str]) -> str:
        return re.sub(r"[^\r\n]", " ", found[0]) if found[1] else found[0]

    def without_comma(found: re.Match[str]) -> str:
        if found[0] != ",":
            return found[0]
        at = found.start()
        while found.string[at - 1 : at] in (" ", "\t", "\r", "\n"):
            at -= 1
        return "," if found.string[at - 1 : at] in ("", "[", "{", ",", ":") else " "

    return _LAST_COMMA.sub(without_comma, _COMMENT.sub(without_comment, text))


def _not_json(text: str, error: Exception) -> NotJson:
    """The error and its place; the deepest nesting that can be read depends on Python's stack."""
    if isinstance(error, RecursionError):
        return NotJson("nested too deep", 1, 1)
    if not isinstance(error, json.JSONDecodeError):
        return NotJson(str(error), 1, 1)
    at, what = error.pos, error.msg
    if re.compile(r"[ \t\r\n]*/[/*]").match(text, at):
        at, what = text.index("/", at), "a comment, which this client does not read"
    return NotJson(what, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def find(node: Node, key: str | int) -> Item | None:
    """The item of an object, or one that is in an array; of several the last, as parsers do."""
    if isinstance(key, int):
        return node.items[key]
    return next((item for item in reversed(node.items) if item.key == key), None)


def comments(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """The comments in a stretch of trivia."""
    return re.finditer(r"//[^\r\n]*|/\*.*?\*/", text[start:end], re.DOTALL)


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _skip(text: str, at: int) -> int:
    found = _TRIVIA.match(text, at)
    assert found is not None, "BUG: the pattern matches an empty text"
    return found.end()


# -- adding and removing ---------------------------------------------------------------------


class CannotSplice(Exception):
    """The value can't be put into the text; the message says why."""


def put(text: str, path: Path, value: Any) -> str:
    """The text with this value at the path of keys. Raises NotJson and CannotSplice."""
    expected = value_of(text)
    root = outline(text)
    if root is None:  # a document that had no value yet
        newline = newline_of(text)
        gap = newline if text.strip("\ufeff") and not text.endswith("\n") else ""
        expected = _nested(path, value)
        return _checked(f"{text}{gap}{_rendered(expected, text, '  ', '')}{newline}", expected)
    node, done, inside = _descend(root, path)
    if done == len(path):
        assert inside is not None, "BUG: a path has keys"
        lead = _indent_at(text, inside.start) or ""
        unit = None if _on_one_line(text, root) else _unit(text, root)
        lookup(expected, path[:-1])[path[-1]] = value
        fresh = _rendered(value, text, unit, lead)
        return _checked(text[: node.start] + fresh + text[node.end :], expected)
    if not node.is_object:
        raise CannotSplice(f"{_name(path[:done])} is not an object")
    value = _nested(path[done + 1 :], value)
    lookup(expected, path[:done])[path[done]] = value
    key = f"{json.dumps(path[done], ensure_ascii=False)}: "
    return _checked(_inserted(text, root, node, key, value), expected)


def altered(text: str, path: Path, value: Any) -> str:
    """The text with a value replaced; parts that are equal in both values stay as they are.

    Raises as ``put``, and KeyError if there is no value.
    """
    root = value_of(text)
    found = lookup(root, path)
    if found == value:
        return text
    if type(found) is not type(value) or not isinstance(value, dict | list):
        return put(text, path, value)
    old, new = (
        each if isinstance(each, dict) else dict(enumerate(each)) for each in (found, value)
    )
    for key in reversed(old):
        if key not in new:
            text = remove(text, (*path, key), keep=root)
    for key, each in new.items():
        if key in old:
            text = altered(text, (*path, key), each)
        elif isinstance(key, int):
            text = append(text, path, each)
        else:
            text = put(text, (*path, key), each)
    return text


def append(text: str, path: Path, value: Any) -> str:
    """The text with this value appended to an array. Raises as ``put``."""
    before = value_of(text)
    root = outline(text)
    if root is None or not has(before, path):
        return put(text, path, [value])
    node, _, _ = _descend(root, path)
    if not node.is_array:
        raise CannotSplice(f"{_name(path)} is not an array")
    changed = _inserted(text, root, node, "", value)
    lookup(before, path).append(value)
    return _checked(changed, before)


def remove(text: str, path: Path, keep: Any = None) -> str:
    """The text without the item at a path, and without objects and arrays above it that are empty
    then, unless ``keep`` has them or they contain a comment. Raises KeyError if there is no item.
    """
    before = value_of(text)
    root = outline(text)
    if root is None or not has(before, path):
        raise KeyError(path)
    while True:
        node, _, _ = _descend(root, path[:-1])
        item = find(node, path[-1])
        assert item is not None, "BUG: it is in the value and not in the text"
        gaps = ((node.start + 1, item.start), (item.end, node.end - 1))
        if has(keep, path[:-1]) or len(node.items) > 1:
            break
        if any(True for gap in gaps for _ in comments(text, *gap)):
            break
        path = path[:-1]
    del lookup(before, path[:-1])[path[-1]]
    return _checked(_cut(text, node, item), before)


def lookup(value: Any, path: Path) -> Any:
    """The value at a path. Raises KeyError."""
    for key in path:
        indexed = isinstance(value, list) and isinstance(key, int) and key < len(value)
        if not indexed and not (isinstance(value, dict) and key in value):
            raise KeyError(path)
        value = value[key]
    return value


def has(value: Any, path: Path) -> bool:
    """Whether there is a value at a path."""
    with contextlib.suppress(KeyError):
        lookup(value, path)
        return True
    return False


def newline_of(text: str) -> str:
    """The first line terminator in a text."""
    found = re.search(r"\r?\n", text)
    return found[0] if found else "\n"


# -- places and layout -----------------------------------------------------------------------


def _descend(root: Node, path: Path) -> tuple[Node, int, Item | None]:
    """The deepest node on a path that exists, its depth, and the item that it is the value of."""
    node, inside = root, None
    for done, key in enumerate(path):
        item = find(node, key)
        if item is None:
            return node, done, inside
        if sum(each.key == key for each in node.items) > 1:
            raise CannotSplice(f"{_name(path[: done + 1])} stands there twice")
        node, inside = item.node, item
    return node, len(path), inside


def _inserted(text: str, root: Node, node: Node, key: str, value: Any) -> str:
    """The text with a value (after its key) added at the end of an object or array."""
    newline, unit = newline_of(text), _unit(text, root)
    outer = _line_indent(text, node.start)
    flat = key + _rendered(value, text, None, "")
    if not node.items:
        if not _on_one_line(text, root) or not root.items:
            lead = outer + unit
            flat = f"{newline}{lead}{key}{_rendered(value, text, unit, lead)}{newline}{outer}"
        return text[: node.end - 1] + flat + text[node.end - 1 :]
    last = node.items[-1]
    at = _behind(last)
    comma, end = (",", "") if last.comma is None else ("", ",")
    fresh = f" {flat}{end}"
    if not _on_one_line(text, node):
        found = _indent_at(text, last.start)
        lead = outer + unit if found is None else found
        fresh = f"{newline}{lead}{key}{_rendered(value, text, unit, lead)}{end}"
        rest = _REST_OF_LINE.match(text, at)
        at = rest.end() if rest else at
    return text[: last.end] + comma + text[last.end : at] + fresh + text[at:]


def _behind(item: Item) -> int:
    """The offset after an item and its comma."""
    return item.end if item.comma is None else item.comma + 1


def _indent_at(text: str, at: int) -> str | None:
    """The blanks before an offset, if nothing else is before it in its line."""
    start = text.rfind("\n", 0, at) + 1
    lead = text[start:at]
    return lead if start and not lead.strip(" \t") else None


def _line_indent(text: str, at: int) -> str:
    """The blanks at the beginning of an offset's line."""
    lead = text[text.rfind("\n", 0, at) + 1 : at]
    return lead[: len(lead) - len(lead.lstrip(" \t"))]


def _unit(text: str, root: Node) -> str:
    """One level of indentation in this text."""
    lead = _indent_at(text, root.items[0].start) if root.items else None
    return lead or "  "


def _on_one_line(text: str, node: Node) -> bool:
    return "\n" not in text[node.start : node.end]


def _rendered(value: Any, text: str, unit: str | None, lead: str) -> str:
    """JSON for a value; None as unit: on one line."""
    rendered = json.dumps(value, ensure_ascii=False, indent=unit)
    return rendered.replace("\n", newline_of(text) + lead)


def _cut(text: str, node: Node, item: Item) -> str:
    """The text without an item, its comma, and the line break before it."""
    position = node.items.index(item)
    before = node.items[position - 1] if position else None
    line = re.compile(r"\r?\n[ \t]*$").search(text, 0, item.start)
    start, end = item.start, _behind(item)
    if line is None:
        if before is not None and text[start - 1] == " ":
            start -= 1
        elif before is None and item.comma is not None and text[end : end + 1] == " ":
            end += 1
    else:
        # The line before may be a comment, and text appended to it would be part of it.
        previous = _behind(before) if before else node.start + 1
        commented = any(
            found[0].startswith("//") and previous + found.end() == line.start()
            for found in comments(text, previous, line.start())
        )
        alone = before is None and item.comma is None
        if not commented or re.compile(r"[ \t]*(?:\r?\n|$)").match(text, end):
            start = line.start()
        if alone and not commented:
            tail = re.compile(r"\r?\n[ \t]*(?=[}\]])").match(text, end)
            end = tail.end() if tail else end
    kept = text[:start]
    if item.comma is None and before is not None and before.comma is not None:
        kept = text[: before.comma] + text[before.comma + 1 : start]
    return kept + text[end:]


def _nested(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _name(path: Path) -> str:
    return ".".join(str(key) for key in path) or "the outermost value"


def _checked(text: str, expected: Any) -> str:
    with contextlib.suppress(NotJson):
        if value_of(text) == expected:
            return text
    raise CannotSplice("it is laid out in an unusual way")
