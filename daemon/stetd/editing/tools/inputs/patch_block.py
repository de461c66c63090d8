"""Input of ``patch_block`` (DIALECTS.md 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from stetd.editing.tools.inputs.base import PATH_ELSEWHERE, ToolInput, said


class PatchBlockInput(ToolInput, frozen=True):
    """Input of ``patch_block``."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {
        "text": ("block", "blocks", "patch", "patches", "changes", "input", "content", "answer"),
        "filepath": ("path", *PATH_ELSEWHERE),
    }

    text: Annotated[
        str,
        said(
            "One or more patch blocks, each from its ===SKIPPY_PATCH_START:path=== line "
            "to its ===SKIPPY_PATCH_END=== line, with at least one ===FIND===/===REPLACE=== pair"
        ),
    ]
    filepath: Annotated[
        str, said("The file that the block is for; must be the block's own path")
    ] = ""
