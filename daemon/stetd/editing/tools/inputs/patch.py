"""Input of ``patch`` (DIALECTS.md 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, UnsetType, field

from stetd.editing.tools.inputs.base import MAX_ELEMENTS, PATH_ELSEWHERE, ToolInput, said


class Reindent(ToolInput, frozen=True):
    """How to move the inserted text to another indentation."""

    strip: Annotated[str, said("Remove this prefix from each non-blank line")] = ""
    add: Annotated[str, said("Then put this prefix before each non-blank line")] = ""


class PatchRequest(ToolInput, frozen=True):
    """One edit of a ``patch`` call."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {
        "oldText": ("old_string", "old_str", "old", "search", "find", "before", "original"),
        "newText": ("new_string", "new_str", "new", "replace", "replacement", "content", "text"),
        "operation": ("type", "command", "action", "mode", "kind"),
    }

    operation: Annotated[
        Literal["replace", "append_eof", "prepend_bof", "overwrite"], said("What to do")
    ]
    old_text: Annotated[
        str, said("Text to look for; must stand in the file exactly once (required for replace)")
    ] = field(default="", name="oldText")
    given_text: Annotated[
        str | UnsetType,
        said("Text to put in its place (empty to delete; not needed with fromClipboard)"),
    ] = field(default=UNSET, name="newText")
    to_clipboard: Annotated[
        str, said("replace only: store the text that was matched in this clipboard")
    ] = field(default="", name="toClipboard")
    from_clipboard: Annotated[
        str, said("Insert the text of this clipboard; newText is ignored then")
    ] = field(default="", name="fromClipboard")
    reindent: Annotated[Reindent, said("Change the indentation of the text that is inserted")] = (
        Reindent()
    )

    @property
    def new_text(self) -> str:
        """The text to put in place; "" if none was given."""
        return "" if self.given_text is UNSET else self.given_text

    @property
    def has_new_text(self) -> bool:
        """Whether the patch says what to insert, be it nothing."""
        return self.given_text is not UNSET or bool(self.from_clipboard)


class PatchInput(ToolInput, frozen=True):
    """Input of ``patch``."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {
        "path": PATH_ELSEWHERE,
        "patches": ("edits", "changes", "operations"),
    }

    path: Annotated[str, said("File to edit, relative to the working directory", min_length=1)]
    patches: Annotated[
        list[PatchRequest],
        said(
            "Edits, all applied to the file as it is before the call",
            min_length=1,
            max_length=MAX_ELEMENTS,
        ),
    ]
