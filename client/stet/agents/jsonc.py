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

    put     replaces an item, or adds it as the last one, with missing containers above it
    remove  removes an item, and containers above it that are empty then and not in ``keep``

New text follows the layout of the old: line terminators, indentation, one line if the object is on
one, a comma at the end if the last item has one. ``remove`` undoes a ``put`` that added an item to
the byte, if there was a value and ``keep`` is that value. Each result is parsed and compared with
the wanted value, so that an unforeseen layout gives an error and no damage.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import msgspec

_DECODER = json.JSONDecoder()
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
#: A string, or a comment if the group matches. An unclosed comment ends the search: else the rest
#: of the text would be read once for each.
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*+"?|(//[^\r\n]*|/\*.*?\*/)|/\*.*', re.DOTALL)
#: A string, commas without a value before them, or a last comma if the group matches.
_LAST_COMMA = re.compile(
    r'"(?:[^"\\]|\\.)*+"?|(?:\A|[\[{,:])[ \t\r\n]*+(?:,[ \t\r\n]*+)++|(,)(?=[ \t\r\n]*[}\]])',
    re.DOTALL,
)
#: Blanks and comments up to the end of a line.
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*(?:[^*\r\n]|\*(?!/))*+\*/)*+(?://[^\r\n]*)?(?=\r?\n|$)")

Path = tuple[str | int, ...]


class NotJson(ValueError):
    """The text is no JSON; the message says where. Lines and columns count from 1."""


class Node(msgspec.Struct, frozen=True, dict=True):
    """A value in valid text, with its key (of an element: its index) if it is in another value.

    ``plain``: the text as :mod:`json` reads it. ``start``: the offset of the member or element,
    ``value``: that of its value.
    """

    text: str
    plain: str
    start: int
    value: int
    key: str | int | None = None

    @cached_property
    def end(self) -> int:
        """The offset after it."""
        return _decoded(self.plain, self.value)[1]

    @cached_property
    def comma(self) -> int | None:
        """The offset of the comma after it."""
        at = _skip(self.text, self.end)
        return at if self.text[at : at + 1] == "," else None

    @property
    def behind(self) -> int:
        """The offset after it and its comma."""
        return self.end if self.comma is None else self.comma + 1

    @property
    def kind(self) -> str:
        """What it is: an "object", an "array", or "" for anything else."""
        return {"{": "object", "[": "array"}.get(self.text[self.value], "")

    @property
    def is_on_one_line(self) -> bool:
        """Whether its value is."""
        return "\n" not in self.text[self.value : self.end]

    @cached_property
    def items(self) -> tuple[Node, ...]:
        """The items of an object or array; none of anything else."""
        items: list[Node] = []
        if not self.kind:
            return ()
        at = _skip(self.text, self.value + 1)
        while at < self.end - 1:
            value, key = at, len(items)
            if self.kind == "object":
                key, end = _decoded(self.plain, at)
                value = _skip(self.text, _skip(self.text, end) + 1)
            items.append(Node(self.text, self.plain, at, value, key))
            at = _skip(self.text, items[-1].behind)
        return tuple(items)


@lru_cache(maxsize=2)
def outline(text: str) -> Node | None:
    """The root value of a valid document; None if it has only trivia."""
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    return None if at == len(text) else Node(text, _read(text)[1], at, at)


def value_of(text: str, *, strict: bool = False) -> Any:
    """The value of a document; None also for one without a value. Raises NotJson."""
    return _read(text, strict=strict)[0]


def _read(text: str, *, strict: bool = False) -> tuple[Any, str]:
    """The value, and the text as :mod:`json` reads it: with blanks for BOM, comments and last
    commas, so that all offsets stay. Most texts have no comments.
    """
    text = " " + text[1:] if text.startswith("\ufeff") else text
    try:
        return json.loads(text, parse_constant=_refused), text
    except (ValueError, RecursionError) as error:
        plain = text if strict else _without_comments(text)
        if not plain.strip(" \t\r\n"):
            return None, plain
        if plain == text:
            raise _not_json(text, error) from None
    return _read(plain, strict=True)


def _decoded(plain: str, at: int) -> tuple[Any, int]:
    """The value at an offset of valid text, and the offset after it."""
    try:
        return _DECODER.raw_decode(plain, at)
    except RecursionError as error:  # value_of was called with a shallower stack
        raise _not_json(plain, error) from None


def _without_comments(text: str) -> str:
    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\r\n]", " ", found[0]) if found[1] else found[0]

    return _LAST_COMMA.sub(blank, _COMMENT.sub(blank, text))


def _not_json(text: str, error: Exception) -> NotJson:
    """The error and its place; the deepest nesting that can be read depends on Python's stack."""
    at, what = 0, "nested too deep" if isinstance(error, RecursionError) else str(error)
    if isinstance(error, json.JSONDecodeError):
        at, what = error.pos, error.msg
        if re.compile(r"[ \t\r\n]*/[/*]").match(text, at):
            at, what = text.index("/", at), "a comment, which this client does not read"
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return NotJson(f"line {line}, column {column}: {what}")


def find(node: Node, key: str | int) -> Node | None:
    """The item of an object or array; of several with one key the last, as parsers do."""
    return next((item for item in reversed(node.items) if item.key == key), None)


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
    """The text with this value at a path; parts that are equal in a value there stay as they are.

    An array's length as the last key appends. Raises NotJson and CannotSplice.
    """
    expected = value_of(text)
    root = outline(text)
    if root is None:  # a document that had no value yet
        newline = newline_of(text)
        gap = newline if text.strip("\ufeff") and not text.endswith("\n") else ""
        return put(f"{text}{gap}{{}}{newline}", path, value)
    if has(expected, path):
        found = lookup(expected, path)
        if found == value:
            return text
        if type(found) is type(value) and isinstance(value, dict | list):
            return _merged(text, path, found, value)
    node, depth = _descend(root, path)
    *above, key = path[: depth + 1]
    for below in reversed(path[depth + 1 :]):
        value = [value] if isinstance(below, int) else {below: value}
    kind = "array" if isinstance(key, int) else "object"
    if depth == len(path):
        lead = _indent_at(text, node.start) or ""
        fresh = _rendered(value, text, None if root.is_on_one_line else _unit(root), lead)
        changed = text[: node.value] + fresh + text[node.end :]
    elif node.kind == kind:
        changed = _inserted(root, node, key, value)
    else:
        raise CannotSplice(f"{_name(above)} is not an {kind}")
    container = lookup(expected, above)
    if isinstance(container, list) and key == len(container):
        container.append(value)
    else:
        container[key] = value
    return checked(changed, expected)


def _merged(text: str, path: Path, old: Any, new: Any) -> str:
    """The text with a new object or array for an old one, item by item."""
    before, after = (
        each if isinstance(each, dict) else dict(enumerate(each)) for each in (old, new)
    )
    for key in reversed(before):
        if key not in after:
            text = remove(text, (*path, key), keep=value_of(text))  # the object itself stays
    for key, each in after.items():
        text = put(text, (*path, key), each)
    return text


def remove(text: str, path: Path, keep: Any = None) -> str:
    """The text without the item at a path, and without objects and arrays above it that are empty
    then, unless ``keep`` has them or they contain a comment. Raises KeyError if there is no item.
    """
    expected = value_of(text)
    root = outline(text)
    if root is None or not has(expected, path):
        raise KeyError(path)
    while True:
        node, _ = _descend(root, path[:-1])
        item = find(node, path[-1])
        assert item is not None, "BUG: it is in the value and not in the text"
        around = text[node.value + 1 : item.start] + text[item.end : node.end - 1]
        if has(keep, path[:-1]) or len(node.items) > 1 or "/" in around:
            break
        path = path[:-1]
    del lookup(expected, path[:-1])[path[-1]]
    return checked(_cut(node, item), expected)


def lookup(value: Any, path: Sequence[str | int]) -> Any:
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


def _descend(root: Node, path: Path) -> tuple[Node, int]:
    """The deepest node on a path that exists, and its depth."""
    node = root
    for depth, key in enumerate(path):
        item = find(node, key)
        if item is None:
            return node, depth
        if sum(each.key == key for each in node.items) > 1:
            raise CannotSplice(f"{_name(path[: depth + 1])} stands there twice")
        node = item
    return node, len(path)


def _inserted(root: Node, node: Node, key: str | int, value: Any) -> str:
    """The text with an item added at the end of an object or array."""
    text, unit = node.text, _unit(root)
    line = text[text.rfind("\n", 0, node.value) + 1 : node.value]
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    last = node.items[-1] if node.items else None
    # What is empty will be laid out as the whole document is.
    flat = bool(root.items) and (node if last else root).is_on_one_line
    lead = None if last is None else _indent_at(text, last.start)
    lead = outer + unit if lead is None else lead
    label = "" if isinstance(key, int) else f"{json.dumps(key, ensure_ascii=False)}: "
    fresh = label + _rendered(value, text, None if flat else unit, lead)
    if not flat:
        fresh = newline_of(text) + lead + fresh
    if last is None:
        at, tail = node.end - 1, "" if flat else newline_of(text) + outer
        return text[:at] + fresh + tail + text[at:]
    at = last.behind
    if flat:
        fresh = " " + fresh
    elif rest := _REST_OF_LINE.match(text, at):
        at = rest.end()
    comma, end = (",", "") if last.comma is None else ("", ",")
    return text[: last.end] + comma + text[last.end : at] + fresh + end + text[at:]


def _indent_at(text: str, at: int) -> str | None:
    """The blanks before an offset, if nothing else is before it in its line."""
    start = text.rfind("\n", 0, at) + 1
    lead = text[start:at]
    return lead if start and not lead.strip(" \t") else None


def _unit(root: Node) -> str:
    """One level of indentation in this text."""
    lead = _indent_at(root.text, root.items[0].start) if root.items else None
    return lead or "  "


def _rendered(value: Any, text: str, unit: str | None, lead: str) -> str:
    """JSON for a value; None as unit: on one line."""
    rendered = json.dumps(value, ensure_ascii=False, indent=unit)
    return rendered.replace("\n", newline_of(text) + lead)


def _cut(node: Node, item: Node) -> str:
    """The text without an item, its comma, and the line break before it."""
    text, position = node.text, node.items.index(item)
    before = node.items[position - 1] if position else None
    line = re.compile(r"\r?\n[ \t]*$").search(text, 0, item.start)
    start, end = item.start, item.behind
    if line is None:
        if before is not None and text[start - 1] == " ":
            start -= 1
        elif before is None and item.comma is not None and text[end : end + 1] == " ":
            end += 1
    else:
        # The line before may be a comment, and text appended to it would be part of it.
        gap = text[before.behind if before else node.value + 1 : line.start()]
        commented = _skip(gap + "x", 0) > len(gap)
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


def _name(path: Sequence[str | int]) -> str:
    return ".".join(str(key) for key in path) or "the outermost value"


def checked(text: str, expected: Any, read: Callable[[str], Any] = value_of) -> str:
    """A new text, if it has the value that it should have. Raises CannotSplice."""
    with contextlib.suppress(ValueError):
        if read(text) == expected:
            return text
    raise CannotSplice("it is laid out in an unusual way")
