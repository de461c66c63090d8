"""Input of ``apply_patch`` (DIALECTS.md 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from stetd.editing.tools.inputs.base import ToolInput, said

#: What other tools call the patch.
_PATCH_ELSEWHERE = ("patch", "diff", "text", "content")
_COMMANDS = ("apply_patch", "applypatch")


class ApplyPatchInput(ToolInput, frozen=True):
    """Input of ``apply_patch``."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {"input": _PATCH_ELSEWHERE}

    input: Annotated[str, said("The patch, from *** Begin Patch to *** End Patch", min_length=1)]
    ambiguous: Annotated[
        Literal["refuse", "first"],
        said(
            "What to do with a hunk that matches in several places: refuse the patch, or "
            "take the first place after the hunk before"
        ),
    ] = "refuse"
    overwrite: Annotated[bool, said("Let *** Add File replace files that exist")] = False

    @classmethod
    def called_otherwise(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The patch under another tool's name for it, if that is all there is; and the patch of a
        command line in parts, ``["apply_patch", "*** Begin Patch.."]``.
        """
        names = [name for name in _PATCH_ELSEWHERE if given.get(name) is not None]
        if given.get("input") is None and len(names) == 1:
            given = {"input" if key == names[0] else key: each for key, each in given.items()}
        patch = given.get("input")
        if isinstance(patch, list) and len(patch) == 2 and patch[0] in _COMMANDS:
            given = {**given, "input": patch[1]}
        return given
