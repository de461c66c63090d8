"""Input of ``patch_block`` (DIALECTS.md 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from stetd.editing.inputs.base import PATH_ELSEWHERE, Text, ToolInput


class PatchBlockInput(ToolInput):
    """Input of ``patch_block``."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {
        "text": ("block", "blocks", "patch", "patches", "changes", "input", "content", "answer"),
        "filepath": ("path", *PATH_ELSEWHERE),
    }

    text: Text = Field(
        description="One or more patch blocks, each from its ===SKIPPY_PATCH_START:path=== line "
        "to its ===SKIPPY_PATCH_END=== line, with at least one ===FIND===/===REPLACE=== pair"
    )
    filepath: Text = Field(
        default="", description="The file that the block is for; must be the block's own path"
    )
