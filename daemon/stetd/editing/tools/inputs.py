"""The inputs of all tools, as types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import field

#: A list longer than this is refused at once; within the token limit there is no room for it.
MAX_ELEMENTS = 10_000
_MANY = {"min_length": 1, "max_length": MAX_ELEMENTS}
#: Names of other tools for the path of the file.
_FOREIGN_PATH = ("file_path", "filepath", "filename", "file")
#: Numbers with bounds that may be null; msgspec takes no bounds around a union.
_FromOne = Annotated[int, msgspec.Meta(ge=1)]


class ToolInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all inputs: unknown fields are refused, null means absent, snake case is read."""

    #: Names of other tools for a field or a choice, for advice: a similarity search misses them.
    foreign_names: ClassVar[Mapping[str, Sequence[str]]] = {}

    @classmethod
    def with_own_names(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object, with foreign names that are understood replaced by ours; here none are."""
        return given


class Field(NamedTuple):
    """One field of an input: its name in Python, and what it may be."""

    name: str
    required: bool
    #: The types that it may have, without None.
    kinds: tuple[Any, ...]
    #: The values of a Literal.
    choices: tuple[str, ...]
    #: The type of a list's elements.
    element: Any
    bounds: msgspec.Meta
    description: str


@cache
def fields_of(model: type[ToolInput]) -> Mapping[str, Field]:
    """The fields of an input, in order, by their names on the wire."""
    found = {}
    for info in msgspec.structs.fields(model):
        annotated, meta = get_args(info.type)
        bounds = meta
        union = get_origin(annotated) in (UnionType, Union)
        kinds = get_args(annotated) if union else (annotated,)
        kinds = tuple(each for each in kinds if each is not NoneType)
        if get_origin(kinds[0]) is Annotated:
            kind, bounds = get_args(kinds[0])
            kinds = (kind,)
        origin = get_origin(kinds[0])
        choices = get_args(kinds[0]) if origin is Literal else ()
        element = get_args(kinds[0])[0] if origin is list else None
        found[info.encode_name] = Field(
            info.name, info.required, kinds, choices, element, bounds, meta.description
        )
    return found


def doc(description: str, **bounds: Any) -> msgspec.Meta:
    """A field's description for the language model, and its bounds."""
    return msgspec.Meta(description=description, **bounds)


class Reindent(ToolInput, frozen=True):
    """How to move the inserted text to another indentation."""

    strip: Annotated[str, doc("Remove this prefix from each non-blank line")] = ""
    add: Annotated[str, doc("Then put this prefix before each non-blank line")] = ""


class PatchRequest(ToolInput, frozen=True):
    """One edit of a ``patch`` call."""

    foreign_names: ClassVar[Mapping[str, Sequence[str]]] = {
        "oldText": ("old_string", "old_str", "old", "search", "find", "before", "original"),
        "newText": ("new_string", "new_str", "new", "replace", "replacement", "content", "text"),
        "operation": ("type", "command", "action", "mode", "kind"),
        # Values of operation.
        "replace": ("delete", "remove", "edit", "update", "modify"),
        "overwrite": ("create", "write"),
    }

    operation: Annotated[
        Literal["replace", "append_eof", "prepend_bof", "overwrite"], doc("What to do")
    ]
    old_text: Annotated[
        str, doc("Text to look for; must stand in the file exactly once (required for replace)")
    ] = field(default="", name="oldText")
    new_text: Annotated[
        str | None,
        doc("Text to put in its place (empty to delete; not needed with fromClipboard)"),
    ] = field(default=None, name="newText")
    to_clipboard: Annotated[
        str, doc("replace only: store the text that was matched in this clipboard")
    ] = field(default="", name="toClipboard")
    from_clipboard: Annotated[
        str, doc("Insert the text of this clipboard; newText is ignored then")
    ] = field(default="", name="fromClipboard")
    reindent: Annotated[Reindent, doc("Change the indentation of the text that is inserted")] = (
        Reindent()
    )


class PatchInput(ToolInput, frozen=True):
    """Input of ``patch``."""

    foreign_names: ClassVar[Mapping[str, Sequence[str]]] = {
        "path": _FOREIGN_PATH,
        "patches": ("edits", "changes", "operations"),
    }

    path: Annotated[str, doc("File to edit, relative to the working directory", min_length=1)]
    patches: Annotated[
        list[PatchRequest], doc("Edits, all applied to the file as it is before the call", **_MANY)
    ]


#: The least similarity that ``fuzzy`` may ask for; below it anything resembles anything.
LEAST_FUZZY = 0.5
#: At most so many lines are shown around each change.
MOST_CONTEXT = 50


class ChangeRequest(ToolInput, frozen=True):
    """One change of a ``patch_file`` call."""

    foreign_names: ClassVar[Mapping[str, Sequence[str]]] = {
        "search": ("old_string", "old_str", "old", "oldtext", "old_text", "find", "before"),
        "replace": ("new_string", "new_str", "new", "new_text", "content", "replacement", "after"),
        "occurrence": ("count", "nth", "index", "match", "instance"),
        "near_line": ("line", "line_number", "lineno", "near"),
        "regex": ("regexp", "is_regex", "pattern", "use_regex"),
        "fuzzy": ("threshold", "similarity", "fuzzy_threshold"),
    }

    search: Annotated[
        str, doc("Exact text to find; must stand in the file once unless occurrence is given")
    ]
    replace: Annotated[str, doc("Text to put in its place (empty to delete)")]
    occurrence: Annotated[
        _FromOne | None,
        doc("Which exact occurrence to replace, from 1; only needed when there are several"),
    ] = None
    near_line: Annotated[
        _FromOne | None, doc("Of several occurrences take the one nearest to this line, from 1")
    ] = None
    regex: Annotated[
        bool,
        doc(
            "search is a regular expression: ^ and $ match at lines, . stays within a line unless "
            "(?s) is given, and replace may use \\1 and \\g<name>"
        ),
    ] = False
    fuzzy: Annotated[
        Annotated[float, msgspec.Meta(ge=LEAST_FUZZY, le=1)] | None,
        doc(
            "If search stands nowhere, take the whole lines most like it, from 0.5 to 1 (equal); "
            "refused unless one place is clearly best"
        ),
    ] = None


class PatchFileInput(ToolInput, frozen=True):
    """Input of ``patch_file``."""

    foreign_names: ClassVar[Mapping[str, Sequence[str]]] = {
        "path": _FOREIGN_PATH,
        "changes": ("edits", "patches", "operations", "replacements"),
        "dry_run": ("preview_only", "test", "simulate"),
        "context": ("context_lines", "lines"),
        "backup": ("bak", "create_backup", "make_backup"),
    }

    path: Annotated[str, doc("File to edit, relative to the working directory", min_length=1)]
    changes: Annotated[
        list[ChangeRequest],
        doc("Changes, made in this order, each in the text that the one before it leaves", **_MANY),
    ]
    dry_run: Annotated[bool, doc("Only tell what would change; the file stays as it is")] = False
    context: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=MOST_CONTEXT)] | None,
        doc("Show each change in the answer, with so many lines around it"),
    ] = None
    backup: Annotated[bool, doc("Keep the file as it was beside it, as path.bak")] = False


class PatchBlockInput(ToolInput, frozen=True):
    """Input of ``patch_block``."""

    foreign_names: ClassVar[Mapping[str, Sequence[str]]] = {
        "text": ("block", "blocks", "patch", "patches", "changes", "input", "content", "answer"),
        "filepath": ("path", *_FOREIGN_PATH),
    }

    text: Annotated[
        str,
        doc(
            "One or more patch blocks, each from its ===SKIPPY_PATCH_START:path=== line "
            "to its ===SKIPPY_PATCH_END=== line, with at least one ===FIND===/===REPLACE=== pair"
        ),
    ]
    filepath: Annotated[
        str, doc("The file that the block is for; must be the block's own path")
    ] = ""


#: Names of other tools for the patch.
_FOREIGN_PATCH = ("patch", "diff", "text", "content")
_COMMANDS = ("apply_patch", "applypatch")


class ApplyPatchInput(ToolInput, frozen=True):
    """Input of ``apply_patch``."""

    foreign_names: ClassVar[Mapping[str, Sequence[str]]] = {"input": (*_FOREIGN_PATCH, "command")}

    input: Annotated[str, doc("The patch, from *** Begin Patch to *** End Patch", min_length=1)]
    ambiguous: Annotated[
        Literal["refuse", "first"],
        doc(
            "What to do with a hunk that matches in several places: refuse the patch, or "
            "take the first place after the hunk before"
        ),
    ] = "refuse"
    overwrite: Annotated[bool, doc("Let *** Add File replace files that exist")] = False

    @classmethod
    def with_own_names(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The patch under another tool's name for it, or as ``["apply_patch", "*** Begin .."]``."""
        names = [name for name in _FOREIGN_PATCH if given.get(name) is not None]
        if given.get("input") is None and len(names) == 1:
            given = {"input" if key == names[0] else key: each for key, each in given.items()}
        patch = given.get("input")
        if isinstance(patch, list) and len(patch) == 2 and patch[0] in _COMMANDS:
            given = {**given, "input": patch[1]}
        return given


class ReadInput(ToolInput, frozen=True):
    """Input of ``read``."""

    path: Annotated[str, doc("File to read, relative to the working directory", min_length=1)]
    at: Annotated[str, doc("Read the file as it was right after this commit")] = ""
    start: Annotated[int, doc("First line to read, from 1", ge=1)] = 1
    end: Annotated[_FromOne | None, doc("Last line to read")] = None


class UndoInput(ToolInput, frozen=True):
    """Input of ``undo``: an agent undoes what is of its own session."""

    commits: Annotated[list[str] | None, doc("Commits to take back (ids from log)")] = None
    last: Annotated[
        _FromOne | None, doc("Take back the newest so many edits of this session (default 1)")
    ] = None
    paths: Annotated[list[str] | None, doc("Only edits that touched these files")] = None


class LogInput(ToolInput, frozen=True):
    """Input of ``log``."""

    path: Annotated[str, doc("Only commits that touched this file")] = ""
    session: Annotated[str, doc("Only commits of this session")] = ""
    agent: Annotated[str, doc("Only commits of this agent")] = ""
    since: Annotated[str | float, doc("Only from this time on (RFC 3339, or seconds)")] = ""
    text: Annotated[str, doc("Only commits that add, remove or mention this text")] = ""
    limit: Annotated[int, doc("At most so many commits", ge=1)] = 50
    cursor: Annotated[str, doc("Go on where an earlier answer stopped")] = ""


class ShowInput(ToolInput, frozen=True):
    """Input of ``show``."""

    commit: Annotated[str, doc("Commit id, unique prefix, HEAD or HEAD~n", min_length=1)]


class DiffInput(ToolInput, frozen=True):
    """Input of ``diff``."""

    from_: Annotated[str, doc("Commit to compare from")] = field(default="", name="from")
    to: Annotated[str, doc("Commit to compare to (default: the files as they are now)")] = ""
    paths: Annotated[list[str] | None, doc("Only these files")] = None


class UpgradeInput(ToolInput, frozen=True):
    """Input of ``request_mode_upgrade``."""

    reason: Annotated[str, doc("What for; the person reads it")] = ""
    wait: Annotated[
        float,
        doc("Seconds to wait for the decision, at most (default: do not wait)", ge=0, le=86_400),
    ] = 0
