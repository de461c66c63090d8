"""Putting a table into TOML text and taking it out, with every other byte as it stands. Pure.

A table is written behind everything else, after an empty line, which TOML allows in any file:

    [servers.name]
    key = value          strings, numbers, booleans, arrays of them, inline tables

and is found again by its header, as are the tables below it. A header is looked for outside of
strings of several lines only. The results are read with ``tomllib`` and compared with what should
be in them, as :mod:`.json_splicing` does. TOML packages that keep comments give a whole document
back from a tree; this only has to find two lines in it.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from stet.connecting.json_splicing import CannotSplice, has, lookup, newline_of

_HEADER = re.compile(r"[ \t]*\[(?!\[)([^\[\]\r\n]*)\][ \t]*(?:#[^\r\n]*)?(?=\r?\n|\Z)")
_ANY_HEADER = re.compile(r"[ \t]*\[")
#: What may hide a line break or a bracket: comments, and strings of every kind.
_TOKEN = re.compile(
    r'#[^\r\n]*|"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\r\n]|\\.)*"|\'[^\'\r\n]*\'|[\[\]{}]|\n',
    re.DOTALL,
)
_ASSIGNED = re.compile(
    r"""[ \t]*(?:[A-Za-z0-9_-]+|"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*')[ \t]*=[ \t]*"""
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")

Path = tuple[str, ...]


class Table(NamedTuple):
    """A table as it stands: the keys of its header, and the end of its last line with anything."""

    path: Path
    start: int
    end: int


def value_of(text: str) -> dict[str, Any]:
    """The value of a document, which may begin with a byte order mark. Raises TOMLDecodeError."""
    return tomllib.loads(text.removeprefix("\ufeff"))


def put(text: str, path: Path, value: Mapping[str, Any]) -> str:
    """The text with this table: where it stands, else at the end. Raises CannotSplice, ValueError.

    What is as ``value`` has it stays as it stands, comments as well.
    """
    before = value_of(text)
    newline = newline_of(text)
    if has(before, path):
        changed = _replaced(text, path, lookup(before, path), value)
    else:
        body = _table(path, value, newline)
        # Whether the last line was ended can be seen afterwards: then there is an empty line.
        changed = f"{text}{newline}{body}{newline}" if text else f"{body}{newline}"
    expected = copy.deepcopy(before)
    above = expected
    for key in path[:-1]:
        above = above.setdefault(key, {})
        if not isinstance(above, dict):
            raise CannotSplice(f"{key} is not a table")
    above[path[-1]] = dict(value)
    return _checked(changed, expected)


def _replaced(text: str, path: Path, found: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    own = _own(text, path)
    if not own or own[0].path != path:
        raise CannotSplice(f"{'.'.join(path)} is not a table with a header of its own")
    staying = set()
    for key in dict.fromkeys(table.path[len(path)] for table in own[1:]):
        inner = value.get(key)
        if inner == found[key]:
            staying.add(key)
        elif isinstance(inner, dict) and _own(text, (*path, key))[0].path == (*path, key):
            text = _replaced(text, (*path, key), found[key], inner)
            staying.add(key)
    for table in reversed(_own(text, path)[1:]):
        if table.path[len(path)] not in staying:
            text = _cut(text, table)
    rest = {key: each for key, each in value.items() if key not in staying}
    block = _altered(text[own[0].start : own[0].end], found, rest, newline_of(text))
    return text[: own[0].start] + block + text[own[0].end :]


def _altered(block: str, found: Mapping[str, Any], value: Mapping[str, Any], newline: str) -> str:
    """The lines of one table with these members: what is the same in both stays as it stands."""
    ends = [*_line_starts(block)[1:], len(block)]
    lines = [block[start:end] for start, end in pairwise(ends)]
    keys = [next(iter(value_of(line)), None) for line in lines]
    kept, told = [block[: ends[0]]], set()
    for line, key in zip(lines, keys, strict=True):
        if key is None or (key in value and value[key] == found[key]):
            changed: str | None = line
        elif key in value and keys.count(key) == 1:
            changed = _with_value(line, value[key])
        else:
            changed = None
        if changed is not None:
            kept.append(changed)
            told.add(key)
    fresh = [f"{_key(key)} = {_value(each)}" for key, each in value.items() if key not in told]
    return newline.join(["".join(kept).rstrip("\r\n"), *fresh])


def _with_value(line: str, value: Any) -> str | None:
    """A member with another value, and the comment behind it; None if its key has dots."""
    begun = _ASSIGNED.match(line)
    if begun is None:
        return None
    depth, end = 0, len(line)
    for token in _TOKEN.finditer(line, begun.end()):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if token[0].startswith("#") and depth == 0:
            end = token.start()
    end = len(line[:end].rstrip())
    return line[: begun.end()] + _value(value) + line[end:]


def remove(text: str, path: Path) -> str:
    """The text without a table and those below it. Raises KeyError if there is none."""
    before = value_of(text)
    lookup(before, path)
    own = _own(text, path)
    changed = text
    for table in reversed(own):
        changed = _cut(changed, table)
    expected = copy.deepcopy(before)
    del lookup(expected, path[:-1])[path[-1]]
    found = value_of(changed) if own else before
    for depth in range(len(path) - 1, 0, -1):
        # What was there for this table only is gone with it, unless it has a header.
        if not lookup(expected, path[:depth]) and not has(found, path[:depth]):
            del lookup(expected, path[: depth - 1])[path[depth - 1]]
    return _checked(changed, expected)


def _own(text: str, path: Path) -> list[Table]:
    """The table at a path and those below it, in their order in the text."""
    return [table for table in tables(text) if table.path[: len(path)] == path]


def tables(text: str) -> list[Table]:
    """The tables with headers, arrays of tables apart."""
    headers: list[tuple[Path | None, int]] = []
    for start in _line_starts(text):
        found = _HEADER.match(text, start)
        if found:
            headers.append((_keys(found[1]), start))
        elif _ANY_HEADER.match(text, start):
            headers.append((None, start))
    places = pairwise([start for _, start in headers] + [len(text)])
    return [
        Table(path, start, start + _length(text[start:end]))
        for (path, _), (start, end) in zip(headers, places, strict=True)
        if path is not None
    ]


def _line_starts(text: str) -> list[int]:
    """Where lines begin that are in no string and no array."""
    starts, depth = [1 if text.startswith("\ufeff") else 0], 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
        elif token[0] in ("]", "}"):
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            starts.append(token.end())
    return starts


def _keys(header: str) -> Path | None:
    """The keys of a header; None if it is none."""
    try:
        found: Any = tomllib.loads(f"[{header}]")
    except tomllib.TOMLDecodeError:
        return None
    keys = []
    while found:
        ((key, found),) = found.items()
        keys.append(key)
    return tuple(keys)


def _length(text: str) -> int:
    """Up to the end of the last line of a table; comments after that are the next one's."""
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return len("".join(lines).rstrip("\r\n"))


def _cut(text: str, table: Table) -> str:
    """The text without a table, the end of its last line, and the empty line before it."""
    start, end = table.start, table.end
    ended = re.compile(r"\r?\n").match(text, end)
    end = ended.end() if ended else end
    # The last line of a text that was not ended has its end only because of the table.
    empty = r"(?:(?<=\n)|\A)\r?\n\Z" if end < len(text) else r"\r?\n\Z"
    before = re.search(empty, text[:start])
    return text[: before.start() if before else start] + text[end:]


def _table(path: Path, value: Mapping[str, Any], newline: str) -> str:
    lines = [f"[{'.'.join(map(_key, path))}]"]
    lines += [f"{_key(key)} = {_value(each)}" for key, each in value.items()]
    return newline.join(lines)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        # The escapes of JSON are TOML's as well; DEL must be one there.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        told = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items())
        return f"{{ {told} }}" if told else "{}"
    raise CannotSplice(f"{value!r} was put there by hand and is not understood")


def _checked(text: str, expected: Any) -> str:
    try:
        found = value_of(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotSplice(f"it is laid out in an unusual way ({error})") from error
    if found != expected:
        raise CannotSplice("it is laid out in an unusual way")
    return text
