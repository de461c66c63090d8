"""Input of ``patch_file`` (DIALECTS.md 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from stetd.editing.tools.inputs.base import MAX_ELEMENTS, PATH_ELSEWHERE, ToolInput, said

#: The least similarity that ``fuzzy`` may ask for; below it anything resembles anything.
LEAST_FUZZY = 0.5
#: At most so many lines are shown around each change.
MOST_CONTEXT = 50


class ChangeRequest(ToolInput, frozen=True):
    """One change of a ``patch_file`` call."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {
        "search": ("old_string", "old_str", "old", "oldtext", "old_text", "find", "before"),
        "replace": ("new_string", "new_str", "new", "newtext", "new_text", "replacement", "after"),
        "occurrence": ("count", "nth", "index", "match", "instance"),
        "near_line": ("line", "line_number", "lineno", "near"),
        "regex": ("regexp", "is_regex", "pattern", "use_regex"),
        "fuzzy": ("threshold", "similarity", "fuzzy_threshold"),
    }

    search: Annotated[
        str, said("Exact text to find; must stand in the file once unless occurrence is given")
    ]
    replace: Annotated[str, said("Text to put in its place (empty to delete)")]
    occurrence: Annotated[
        int | None,
        said("Which exact occurrence to replace, from 1; only needed when there are several", ge=1),
    ] = None
    near_line: Annotated[
        int | None,
        said("Of several occurrences take the one nearest to this line, from 1", ge=1),
    ] = None
    regex: Annotated[
        bool,
        said(
            "search is a regular expression: ^ and $ match at lines, . stays within a line unless "
            "(?s) is given, and replace may use \\1 and \\g<name>"
        ),
    ] = False
    fuzzy: Annotated[
        float | None,
        said(
            "If search stands nowhere, take the whole lines most like it, from 0.5 to 1 (equal); "
            "refused unless one place is clearly best",
            ge=LEAST_FUZZY,
            le=1,
        ),
    ] = None


class PatchFileInput(ToolInput, frozen=True):
    """Input of ``patch_file``."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {
        "path": PATH_ELSEWHERE,
        "changes": ("edits", "patches", "operations", "replacements"),
        "dry_run": ("preview_only", "test", "simulate"),
        "context": ("context_lines", "lines"),
        "backup": ("bak", "create_backup", "make_backup"),
    }

    path: Annotated[str, said("File to edit, relative to the working directory", min_length=1)]
    changes: Annotated[
        list[ChangeRequest],
        said(
            "Changes, made in this order, each in the text that the one before it leaves",
            min_length=1,
            max_length=MAX_ELEMENTS,
        ),
    ]
    dry_run: Annotated[bool, said("Only tell what would change; the file stays as it is")] = False
    context: Annotated[
        int | None,
        said("Show each change in the answer, with so many lines around it", ge=0, le=MOST_CONTEXT),
    ] = None
    backup: Annotated[bool, said("Keep the file as it was beside it, as path.bak")] = False
