"""What the tools take: one pydantic model a tool.

From these models requests are validated (``validating``) and the JSON Schemas for language
models are made (``tool_schemas``); field descriptions are written for those models.

Models send near misses. Accepted is what can only mean one thing: a single patch object
instead of a list, the list or the object as a JSON string, field names in snake case, null
for a field that is left out. Everything else is refused.

*common* parameters (``message``, ``preview``, ``if_match``, ``request_id``) are no part of the
models: they are taken out of a request before a tool sees it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

#: A list longer than this is refused at once; within the token limit there is no room for it.
MAX_PATCHES = 10_000


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


def _parsed(value: object) -> object:
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


def _listed(value: object) -> object:
    """A list for an object that stands where a list of such objects belongs."""
    value = _parsed(value)
    return [value] if isinstance(value, Mapping) else value


Text = Annotated[StrictStr, AfterValidator(_sound)]
Time = Text | StrictInt | StrictFloat


class ToolInput(BaseModel):
    """Base of all inputs: unknown fields are refused, null means absent, snake case is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _spelled_as_defined(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        spelled: dict[str, object] = {}
        for key, each in value.items():
            if each is None:
                continue
            written = str(key).encode("utf-8", "backslashreplace").decode()
            name = cls._field_called(written)
            if name != written and value.get(name) not in (None, each):
                name = written  # both spellings, with different values: not ours to choose
            spelled[name] = each
        return spelled

    @classmethod
    def _field_called(cls, key: str) -> str:
        """The name on the wire of the field that ``key`` spells in snake case, else ``key``."""
        field = cls.model_fields.get(key)
        return field.alias if field and field.alias else key


class Reindent(ToolInput):
    """How to move the inserted text to another indentation."""

    strip: Text = Field(default="", description="Remove this prefix from each non-blank line")
    add: Text = Field(default="", description="Then put this prefix before each non-blank line")


class PatchRequest(ToolInput):
    """One edit of a ``patch`` call."""

    operation: Literal["replace", "append_eof", "prepend_bof", "overwrite"] = Field(
        description="What to do"
    )
    old_text: Text = Field(
        default="",
        alias="oldText",
        description="Text to look for; must stand in the file exactly once (required for replace)",
    )
    new_text: Text = Field(
        default="",
        alias="newText",
        description="Text to put in its place (empty to delete; not needed with fromClipboard)",
    )
    to_clipboard: Text = Field(
        default="",
        alias="toClipboard",
        description="replace only: store the text that was matched in this clipboard",
    )
    from_clipboard: Text = Field(
        default="",
        alias="fromClipboard",
        description="Insert the text of this clipboard; newText is ignored then",
    )
    reindent: Annotated[Reindent, BeforeValidator(_parsed)] = Field(
        default=Reindent(), description="Change the indentation of the text that is inserted"
    )

    @property
    def has_new_text(self) -> bool:
        """Whether the patch says what to insert, be it nothing."""
        return "new_text" in self.model_fields_set or bool(self.from_clipboard)


class PatchInput(ToolInput):
    """Input of ``patch``."""

    path: Text = Field(min_length=1, description="File to edit, relative to the working directory")
    patches: Annotated[
        list[Annotated[PatchRequest, BeforeValidator(_parsed)]], BeforeValidator(_listed)
    ] = Field(
        min_length=1,
        max_length=MAX_PATCHES,
        description="Edits, all applied to the file as it is before the call",
    )


class ReadInput(ToolInput):
    """Input of ``read``."""

    path: Text = Field(min_length=1, description="File to read, relative to the working directory")
    at: Text = Field(default="", description="Read the file as it was right after this commit")
    start: StrictInt = Field(default=1, ge=1, description="First line to read, from 1")
    end: StrictInt | None = Field(default=None, ge=1, description="Last line to read")


class UndoInput(ToolInput):
    """Input of ``undo``."""

    commits: list[Text] | None = Field(
        default=None, description="Commits to take back (ids from log)"
    )
    last: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Take back the newest so many edits of this session (default 1)",
    )
    request: Text = Field(default="", description="Take back the call with this request id")
    session: Text = Field(default="", description="Only edits of this session")
    agent: Text = Field(default="", description="Only edits of this agent")
    paths: list[Text] | None = Field(
        default=None, description="Only edits that touched these files"
    )


class LogInput(ToolInput):
    """Input of ``log``."""

    path: Text = Field(default="", description="Only commits that touched this file")
    session: Text = Field(default="", description="Only commits of this session")
    agent: Text = Field(default="", description="Only commits of this agent")
    method: Text = Field(default="", description="Only commits made by this method, such as patch")
    since: Time = Field(default="", description="Only from this time on (RFC 3339, or seconds)")
    until: Time = Field(default="", description="Only up to this time (RFC 3339, or seconds)")
    text: Text = Field(default="", description="Only commits that add, remove or mention this text")
    limit: StrictInt = Field(default=50, ge=1, description="At most so many commits")
    cursor: Text = Field(default="", description="Go on where an earlier answer stopped")


class ShowInput(ToolInput):
    """Input of ``show``."""

    commit: Text = Field(min_length=1, description="Commit id, unique prefix, HEAD or HEAD~n")


class DiffInput(ToolInput):
    """Input of ``diff``."""

    from_: Text = Field(default="", alias="from", description="Commit to compare from")
    to: Text = Field(
        default="", description="Commit to compare to (default: the files as they are now)"
    )
    paths: list[Text] | None = Field(default=None, description="Only these files")
