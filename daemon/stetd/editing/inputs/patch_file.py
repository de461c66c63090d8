"""Input of ``patch_file`` (DIALECTS.md 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt

from stetd.editing.inputs.base import MAX_ELEMENTS, PATH_ELSEWHERE, Text, ToolInput, listed, parsed

#: The least similarity that ``fuzzy`` may ask for; below it anything resembles anything.
LEAST_FUZZY = 0.5
#: At most so many lines are shown around each change.
MOST_CONTEXT = 50


class ChangeRequest(ToolInput):
    """One change of a ``patch_file`` call."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {
        "search": ("old_string", "old_str", "old", "oldtext", "old_text", "find", "before"),
        "replace": ("new_string", "new_str", "new", "newtext", "new_text", "replacement", "after"),
        "occurrence": ("count", "nth", "index", "match", "instance"),
        "near_line": ("line", "line_number", "lineno", "near"),
        "regex": ("regexp", "is_regex", "pattern", "use_regex"),
        "fuzzy": ("threshold", "similarity", "fuzzy_threshold"),
    }

    search: Text = Field(
        description="Exact text to find; must stand in the file once unless occurrence is given"
    )
    replace: Text = Field(description="Text to put in its place (empty to delete)")
    occurrence: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Which exact occurrence to replace, from 1; only needed when there are several",
    )
    near_line: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Of several occurrences take the one nearest to this line, from 1",
    )
    regex: StrictBool = Field(
        default=False,
        description=(
            "search is a regular expression: ^ and $ match at lines, . stays within a line unless "
            "(?s) is given, and replace may use \\1 and \\g<name>"
        ),
    )
    fuzzy: StrictFloat | None = Field(
        default=None,
        ge=LEAST_FUZZY,
        le=1,
        description=(
            "If search stands nowhere, take the whole lines most like it, from 0.5 to 1 (equal); "
            "refused unless one place is clearly best"
        ),
    )


class PatchFileInput(ToolInput):
    """Input of ``patch_file``."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {
        "path": PATH_ELSEWHERE,
        "changes": ("edits", "patches", "operations", "replacements"),
        "dry_run": ("preview_only", "test", "simulate"),
        "context": ("context_lines", "lines"),
        "backup": ("bak", "create_backup", "make_backup"),
    }

    path: Text = Field(min_length=1, description="File to edit, relative to the working directory")
    changes: Annotated[
        list[Annotated[ChangeRequest, BeforeValidator(parsed)]], BeforeValidator(listed)
    ] = Field(
        min_length=1,
        max_length=MAX_ELEMENTS,
        description="Changes, made in this order, each in the text that the one before it leaves",
    )
    dry_run: StrictBool = Field(
        default=False, description="Only tell what would change; the file stays as it is"
    )
    context: StrictInt | None = Field(
        default=None,
        ge=0,
        le=MOST_CONTEXT,
        description="Show each change in the answer, with so many lines around it",
    )
    backup: StrictBool = Field(
        default=False, description="Keep the file as it was beside it, as path.bak"
    )
