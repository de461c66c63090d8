"""What the tools take: one pydantic model a tool, from which everything else is made.

    validated(Model, params)     checks a request, raises Refused with every mistake in it
    tool_definitions(style)      the same models as JSON Schemas for a language model

Models send near misses. Accepted is what can only mean one thing: a single patch object
instead of a list, the list or the object as a JSON string, field names in snake case, null
for a field that is left out. Everything else is ``invalid_params``, with the expected
fields, what was received, and the nearest field for a name that is misspelt.

*common* parameters (``message``, ``preview``, ``if_match``, ``request_id``) are taken out of
a request before a tool sees it; the schemas offer a model the first two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError
from rapidfuzz import fuzz, process, utils

from stet.wire.failures import Failure, Kind, Refused, refuse

STYLES = ("mcp", "openai", "anthropic")

#: Likeness (0 to 100) from which a misspelt name is taken for a field in the answer's advice.
_LIKENESS = 60

#: What other tools call our fields, for the advice in a refusal; too unlike to be measured.
_ELSEWHERE = {
    "oldText": ("old_string", "old_str", "old", "search", "find", "before", "original"),
    "newText": ("new_string", "new_str", "new", "replace", "replacement", "content", "text"),
    "operation": ("type", "command", "action", "mode", "kind"),
    "path": ("file_path", "filepath", "filename", "file"),
    "patches": ("edits", "changes", "operations"),
}


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
    """A JSON string that holds an object or a list, parsed; anything else as it is."""
    if isinstance(value, str) and value.lstrip(" \t\r\n")[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
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
        spelled: dict[object, object] = {}
        for key, each in value.items():
            if each is None:
                continue
            name = cls._field_called(key)
            if name != key and value.get(name) not in (None, each):
                name = key  # both spellings, with different values: not ours to choose
            spelled[name] = each
        return spelled

    @classmethod
    def _field_called(cls, key: object) -> object:
        """The name on the wire of the field that ``key`` spells in snake case, else ``key``."""
        field = cls.model_fields.get(key) if isinstance(key, str) else None
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
    ] = Field(min_length=1, description="Edits, all applied to the file as it is before the call")


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


Input = TypeVar("Input", bound=ToolInput)

_PATCH = """\
Precise edits of one text file. All patches of a call are applied together, to the file as it \
is before the call, or none is.

Operations:
- replace: put newText in the place of oldText, which must stand in the file EXACTLY ONCE
- append_eof: add newText at the end of the file
- prepend_bof: add newText at the beginning of the file
- overwrite: replace the whole file
All but replace create the file, and its directories, when it does not exist.

Clipboards keep text between patches and between calls. Use them to move or copy code, within \
a file or from file to file, instead of writing it again:
- cut: replace with empty newText and toClipboard
- copy: replace with the same name in toClipboard and fromClipboard (the file stays as it is)
- paste: any operation with fromClipboard

reindent changes the indentation of what is inserted: from each non-blank line it removes \
strip, then puts add before it.

Text is taken literally: no newline is added, and there are no escapes or wildcards. Small \
differences in white space or typographic quotes in oldText are tolerated when the place is \
unique, and reported. Every call can be taken back with undo."""

_READ = """\
Read a text file, or a range of its lines, as it is now or as it was after an earlier commit."""

_UNDO = """\
Take back edits of this session, the newest one unless told otherwise. Later edits stay; where \
they touch the same lines the undo is refused and nothing changes."""

_LOG = """\
List the recorded edits of this workspace, newest first: what was changed, by whom and why."""

_SHOW = "Show one recorded edit: who made it and why, and its diff."

_DIFF = """\
Show what differs between two recorded states of the workspace, or between one and the files \
as they are now."""

#: Name, model, description, whether it writes files.
_TOOLS: tuple[tuple[str, type[ToolInput], str, bool], ...] = (
    ("patch", PatchInput, _PATCH, True),
    ("read", ReadInput, _READ, False),
    ("undo", UndoInput, _UNDO, True),
    ("log", LogInput, _LOG, False),
    ("show", ShowInput, _SHOW, False),
    ("diff", DiffInput, _DIFF, False),
)

#: Parameters of every writing tool that the model is offered; validated by the daemon.
_COMMON: dict[str, object] = {
    "message": {"type": "string", "description": "Why you make this edit; kept in the history"},
    "preview": {"type": "boolean", "description": "Only show what would change"},
}


def validated(model: type[Input], params: Mapping[str, object], noun: str = "item") -> Input:
    """``params`` as ``model``; ``noun`` is the word for an element of its list.

    Raises Refused (invalid_params) with a failure for every field that is wrong.
    """
    try:
        return model.model_validate(dict(params))
    except ValidationError as error:
        failures = [_failure(model, noun, each) for each in error.errors(include_url=False)]
        raise Refused(*failures) from None


def tool_definitions(style: str) -> list[dict[str, object]]:
    """The tools for a language model in the shape of ``mcp``, ``openai`` or ``anthropic``.

    Raises Refused (invalid_params) for another style.
    """
    if style not in _SHAPES:
        known = ", ".join(STYLES)
        raise refuse(Kind.INVALID_PARAMS, f'style must be one of {known}; received "{style}".')
    return [
        _SHAPES[style](name, description, input_schema(model, writes=writes), writes)
        for name, model, description, writes in _TOOLS
    ]


def input_schema(model: type[ToolInput], *, writes: bool) -> dict[str, object]:
    """The JSON Schema of a model, without references, titles, defaults and nulls."""
    raw = model.model_json_schema(by_alias=True)
    plain = _plain(raw, raw.get("$defs", {}))
    assert isinstance(plain, dict)
    plain.pop("description", None)
    if writes:
        plain["properties"] |= _COMMON
    return plain


def _mcp(name: str, description: str, schema: object, writes: bool) -> dict[str, object]:
    annotations = {"readOnlyHint": not writes, "destructiveHint": False, "openWorldHint": False}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": annotations,
    }


def _openai(name: str, description: str, schema: object, _writes: bool) -> dict[str, object]:
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def _anthropic(name: str, description: str, schema: object, _writes: bool) -> dict[str, object]:
    return {"name": name, "description": description, "input_schema": schema}


_Shape = Callable[[str, str, object, bool], dict[str, object]]
_SHAPES: dict[str, _Shape] = {"mcp": _mcp, "openai": _openai, "anthropic": _anthropic}


def _plain(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """A schema with references resolved, in the subset that every vendor reads."""
    if isinstance(schema, list):
        return [_plain(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        return _plain({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, definitions)
    if "anyOf" in schema:
        kept = [each for each in schema["anyOf"] if each != {"type": "null"}]
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        if len(kept) > 1:
            return _plain(rest, definitions) | {"anyOf": _plain(kept, definitions)}
        return _plain({**kept[0], **rest}, definitions)
    plain = {}
    for key, value in schema.items():
        if key == "properties":
            plain[key] = {name: _plain(each, definitions) for name, each in value.items()}
        elif key not in ("$defs", "title", "default"):
            plain[key] = _plain(value, definitions)
    return plain


def _failure(model: type[ToolInput], noun: str, error: ErrorDetails) -> Failure:
    """A mistake that pydantic found, as a sentence for the model."""
    place = error["loc"]
    index = next((part for part in place if isinstance(part, int)), None)
    owner = _owner(model, place)
    label = "" if index is None else f"{noun} {index + 1}: "
    sentence = _sentence(error, owner, _dotted(place))
    return Failure(Kind.INVALID_PARAMS.value, f"{label}{sentence}", index=index)


def _sentence(error: ErrorDetails, owner: type[ToolInput], field: str) -> str:
    """What was wrong with ``field`` of ``owner``, what was received, what is expected."""
    expected = f"Expected fields: {_fields(owner)}."
    received = _received(error["input"])
    match error["type"]:
        case "missing":
            return f'"{field}" is missing. {expected} Received: {received}.'
        case "extra_forbidden":
            nearest = _nearest(field.rpartition(".")[2], _names(owner))
            hint = f' (did you mean "{nearest}"?)' if nearest else ""
            return f'unknown field "{field}"{hint}. {expected}'
        case "literal_error":
            choices = error["ctx"]["expected"]
            nearest = _nearest(str(error["input"]), [each.strip("'") for each in _words(choices)])
            hint = f' (did you mean "{nearest}"?)' if nearest else ""
            return f'"{field}" must be {choices}; received {received}{hint}.'
        case "too_short" | "string_too_short":
            return f'"{field}" is empty. {expected}'
        case kind if kind in _WANTED:
            where = f'"{field}"' if field else "the input"
            return f"{where} must be {_WANTED[kind]}; received {received}. {expected}"
    return f'"{field}": {error["msg"]}; received {received}. {expected}'


#: What a field of the wrong type should have been, by pydantic's name of the mistake.
_WANTED = {
    "string_type": "a string",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list of objects",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
}


def _owner(model: type[ToolInput], place: Sequence[str | int]) -> type[ToolInput]:
    """The model whose fields the last name in ``place`` belongs to."""
    names = [part for part in place if isinstance(part, str)]
    if model is PatchInput and names[:1] == ["patches"] and len(place) > 1:
        return Reindent if names[1:2] == ["reindent"] and len(names) > 1 else PatchRequest
    return model


def _dotted(place: Sequence[str | int]) -> str:
    """``reindent.strip``: the field within its patch; ``patches`` itself within the call."""
    after_index = [n for n, part in enumerate(place) if isinstance(part, int)]
    names = place[after_index[-1] + 1 :] if after_index else place
    return ".".join(str(part) for part in names)


def _names(model: type[ToolInput]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _fields(model: type[ToolInput]) -> str:
    """``path (required), patches (required)``."""
    return ", ".join(
        f"{field.alias or name} (required)" if field.is_required() else field.alias or name
        for name, field in model.model_fields.items()
    )


def _received(value: object) -> str:
    """What came instead, short enough to repeat to the model."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return f"an object with {', '.join(map(str, value)) or 'no fields'}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    written = json.dumps(value, default=str)
    return written if len(written) <= 80 else written[:80] + "..."


def _words(choices: str) -> list[str]:
    return choices.replace(" or ", ", ").split(", ")


def _nearest(name: str, names: Sequence[str]) -> str | None:
    """The one of ``names`` that ``name`` most likely stands for, if any is close."""
    for ours, theirs in _ELSEWHERE.items():
        if ours in names and name.lower() in theirs:
            return ours
    found = process.extractOne(
        name,
        names,
        scorer=fuzz.WRatio,
        processor=utils.default_process,
        score_cutoff=_LIKENESS,
    )
    return str(found[0]) if found else None
