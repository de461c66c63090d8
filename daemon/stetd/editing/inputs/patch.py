"""Input of ``patch`` (DIALECTS.md 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from stetd.editing.inputs.base import MAX_ELEMENTS, PATH_ELSEWHERE, Text, ToolInput, listed, parsed


class Reindent(ToolInput):
    """How to move the inserted text to another indentation."""

    strip: Text = Field(default="", description="Remove this prefix from each non-blank line")
    add: Text = Field(default="", description="Then put this prefix before each non-blank line")


class PatchRequest(ToolInput):
    """One edit of a ``patch`` call."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {
        "oldText": ("old_string", "old_str", "old", "search", "find", "before", "original"),
        "newText": ("new_string", "new_str", "new", "replace", "replacement", "content", "text"),
        "operation": ("type", "command", "action", "mode", "kind"),
    }

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
    reindent: Annotated[Reindent, BeforeValidator(parsed)] = Field(
        default=Reindent(), description="Change the indentation of the text that is inserted"
    )

    @property
    def has_new_text(self) -> bool:
        """Whether the patch says what to insert, be it nothing."""
        return "new_text" in self.model_fields_set or bool(self.from_clipboard)


class PatchInput(ToolInput):
    """Input of ``patch``."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {
        "path": PATH_ELSEWHERE,
        "patches": ("edits", "changes", "operations"),
    }

    path: Text = Field(min_length=1, description="File to edit, relative to the working directory")
    patches: Annotated[
        list[Annotated[PatchRequest, BeforeValidator(parsed)]], BeforeValidator(listed)
    ] = Field(
        min_length=1,
        max_length=MAX_ELEMENTS,
        description="Edits, all applied to the file as it is before the call",
    )
