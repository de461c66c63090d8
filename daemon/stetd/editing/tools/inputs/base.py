"""What all tool inputs share: their base class, and the near misses that are understood.

Models send near misses. Accepted is what can only mean one thing: a single object instead of
a list, the list or the object as a JSON string, field names in snake or camel case, null
for a field that is left out. Everything else is refused (:mod:`stetd.editing.tools.validation`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

import msgspec

#: A list longer than this is refused at once; within the token limit there is no room for it.
MAX_ELEMENTS = 10_000

#: Where a word begins in a name in camel case.
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")

#: What other tools call the file that a call edits.
PATH_ELSEWHERE = ("file_path", "filepath", "filename", "file")

#: A time: RFC 3339, or seconds.
Time: TypeAlias = str | int | float


class BrokenJson(ValueError):
    """A string begins like JSON, and is none."""


class ToolInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all inputs: unknown fields are refused, null means absent, snake case is read."""

    #: What other tools call our fields, for the advice in a refusal; too unlike to be measured.
    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {}

    @classmethod
    def called_otherwise(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What was given, with a field under its own name that was given under another tool's."""
        return given


class Field(NamedTuple):
    """One field of an input: its name here and on the wire, and what it may be.

    ``kinds``: the types it may have, without None; of a Literal its choices are ``choices``. Of a
    list ``element`` is the type of its elements. ``bounds``: as of :class:`msgspec.Meta`.
    """

    name: str
    wire: str
    required: bool
    kinds: tuple[Any, ...]
    choices: tuple[str, ...]
    element: Any
    bounds: msgspec.Meta


@cache
def fields_of(model: type[ToolInput]) -> tuple[Field, ...]:
    """The fields of an input, in order."""
    found = []
    for info in msgspec.structs.fields(model):
        annotated, meta = get_args(info.type)
        union = isinstance(annotated, UnionType) or get_origin(annotated) is Union
        kinds = get_args(annotated) if union else (annotated,)
        kinds = tuple(each for each in kinds if each not in (NoneType, msgspec.UnsetType))
        origin = get_origin(kinds[0])
        choices = get_args(kinds[0]) if origin is Literal else ()
        element = get_args(kinds[0])[0] if origin is list else None
        found.append(
            Field(info.name, info.encode_name, info.required, kinds, choices, element, meta)
        )
    return tuple(found)


def said(description: str, **bounds: Any) -> msgspec.Meta:
    """What a field is, for the language model, and its bounds."""
    return msgspec.Meta(description=description, **bounds)


def parsed(value: object) -> object:
    """A JSON string that holds an object or a list, parsed; anything else as it is.

    Line ends that were not escaped inside a string can only mean themselves. What begins
    like JSON and is none is refused here, with the place, which is what has to be mended.
    """
    if not isinstance(value, str) or value.lstrip(" \t\r\n")[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value, strict=False)
    except json.JSONDecodeError as error:
        raise BrokenJson(
            f"a string that is not valid JSON: {error.msg} at line {error.lineno}, "
            f"column {error.colno}"
        ) from None
    except (ValueError, RecursionError):
        return value


def listed(value: object) -> object:
    """A list for an object that stands where a list of such objects belongs."""
    value = parsed(value)
    return [value] if isinstance(value, Mapping) else value


def in_snake_case(key: str) -> str:
    """A name in camel case as a name in snake case."""
    return _HUMP.sub(lambda hump: f"_{hump.group().lower()}", key)
