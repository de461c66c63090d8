"""What all tool inputs share: their base class, and the near misses that are understood.

Models send near misses. Accepted is what can only mean one thing: a single object instead of
a list, the list or the object as a JSON string, field names in snake or camel case, null
for a field that is left out. Everything else is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

#: A list longer than this is refused at once; within the token limit there is no room for it.
MAX_ELEMENTS = 10_000

#: Where a word begins in a name in camel case.
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")

#: What other tools call the file that a call edits.
PATH_ELSEWHERE = ("file_path", "filepath", "filename", "file")


def _sound(text: str) -> str:
    """Refuses half of a surrogate pair: it can not be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PydanticCustomError(
            "lone_surrogate",
            "character {position} is half of a surrogate pair",
            {"position": error.start + 1},
        ) from None
    return text


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
        raise PydanticCustomError(
            "broken_json",
            "a string that is not valid JSON: {reason} at line {line}, column {column}",
            {"reason": error.msg, "line": error.lineno, "column": error.colno},
        ) from None
    except (ValueError, RecursionError):
        return value


def listed(value: object) -> object:
    """A list for an object that stands where a list of such objects belongs."""
    value = parsed(value)
    return [value] if isinstance(value, Mapping) else value


Text = Annotated[StrictStr, AfterValidator(_sound)]
Time = Text | StrictInt | StrictFloat


class ToolInput(BaseModel):
    """Base of all inputs: unknown fields are refused, null means absent, snake case is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: What other tools call our fields, for the advice in a refusal; too unlike to be measured.
    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _spelled_as_defined(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        spelled: dict[str, object] = {}
        for key, each in value.items():
            if each is None:
                continue
            if key in cls._names():
                spelled[key] = each
                continue
            written = str(key).encode("utf-8", "backslashreplace").decode()
            name = cls._field_called(written)
            if name != written and value.get(name) not in (None, each):
                name = written  # both spellings, with different values: not ours to choose
            spelled[name] = each
        return spelled

    @classmethod
    @cache
    def _names(cls) -> frozenset[str]:
        """The names of the fields on the wire."""
        return frozenset(field.alias or name for name, field in cls.model_fields.items())

    @classmethod
    def _field_called(cls, key: str) -> str:
        """The name on the wire of the field that ``key`` spells in another case, else ``key``."""
        name = _HUMP.sub(lambda hump: f"_{hump.group().lower()}", key)
        field = cls.model_fields.get(name)
        return (field.alias or name) if field else key
