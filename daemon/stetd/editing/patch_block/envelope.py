"""The JSON around the blocks of ``patch_block``: which files does it name?

The seed's tool is called with an action like::

    {"actions": [{"type": "tool_call", "tool": "PatchFileTool",
                  "arguments": {"filepath": "/path/to/file.txt"}}], ...}

or with the arguments alone, ``{"filepath": ...}``, in a fence or not, before the block. Only
that is read here; all other prose, JSON that is broken, and calls of other tools say nothing.
Never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import msgspec

from stetd.editing.patch_block.grammar import Prose

#: The names under which a call of this tool is known.
_OURS = ("patchfiletool", "patch_block")
#: Members that lead from an envelope to the arguments of a call.
_INWARD = ("actions", "tool_calls", "function", "arguments", "parameters", "input")
_DEEPEST = 8
_OBJECT = re.compile(r'\{\s*"')
#: So many stretches that begin like an object and are none, then no more are looked at.
_MOST_BROKEN = 100

_decoder = json.JSONDecoder(strict=False)


class NamedFile(msgspec.Struct, frozen=True):
    """A path that the JSON names; ``line`` is where that JSON begins in the text, from 1."""

    path: str
    line: int


def named_files(prose: Iterable[Prose]) -> list[NamedFile]:
    """The files that calls of this tool in ``prose`` name, in order, each path once."""
    found: dict[str, NamedFile] = {}
    for stretch in prose:
        for value, offset in _objects(stretch.text):
            for path in _filepaths(value, _DEEPEST):
                line = stretch.line + stretch.text.count("\n", 0, offset)
                found.setdefault(path, NamedFile(path, line))
    return list(found.values())


def _objects(text: str) -> Iterator[tuple[object, int]]:
    """The JSON objects in ``text`` that are not inside another one, and where they begin."""
    position = broken = 0
    while broken < _MOST_BROKEN and (opening := _OBJECT.search(text, position)):
        position = opening.start() + 1
        try:
            value, position = _decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            broken += 1
            continue
        yield value, opening.start()


def _filepaths(value: object, depth: int) -> Iterator[str]:
    """Every ``filepath`` in the arguments of this tool's calls in ``value``."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        value = _parsed(value)
    if isinstance(value, list) and depth:
        for each in value:
            yield from _filepaths(each, depth - 1)
    if not isinstance(value, dict) or _of_another_tool(value):
        return
    path = value.get("filepath")
    if isinstance(path, str) and path:
        yield path
    if depth:
        for name in _INWARD:
            if isinstance(value.get(name), dict | list | str):
                yield from _filepaths(value[name], depth - 1)


def _parsed(text: str) -> object:
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        return None


def _of_another_tool(value: dict[str, object]) -> bool:
    """Whether an object is a call of a tool that is not this one."""
    names = (value.get("tool"), value.get("name"))
    return any(isinstance(name, str) and name.lower() not in _OURS for name in names)
