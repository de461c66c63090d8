"""Input of ``apply_patch`` (DIALECTS.md 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, StrictBool, model_validator

from stetd.editing.inputs.base import Text, ToolInput

#: What other tools call the patch.
_PATCH_ELSEWHERE = ("patch", "diff", "text", "content")
_COMMANDS = ("apply_patch", "applypatch")


def _argument(value: object) -> object:
    """The patch of a command line in parts, ``["apply_patch", "*** Begin Patch.."]``."""
    if isinstance(value, list) and len(value) == 2 and value[0] in _COMMANDS:
        return value[1]
    return value


class ApplyPatchInput(ToolInput):
    """Input of ``apply_patch``."""

    elsewhere: ClassVar[Mapping[str, Sequence[str]]] = {"input": _PATCH_ELSEWHERE}

    input: Annotated[Text, BeforeValidator(_argument)] = Field(
        min_length=1, description="The patch, from *** Begin Patch to *** End Patch"
    )
    ambiguous: Literal["refuse", "first"] = Field(
        default="refuse",
        description="What to do with a hunk that matches in several places: refuse the patch, or "
        "take the first place after the hunk before",
    )
    overwrite: StrictBool = Field(
        default=False, description="Let *** Add File replace files that exist"
    )

    @model_validator(mode="before")
    @classmethod
    def _called_otherwise(cls, value: object) -> object:
        """The patch under another tool's name for it, if that is all there is."""
        if not isinstance(value, Mapping) or value.get("input") is not None:
            return value
        names = [name for name in _PATCH_ELSEWHERE if value.get(name) is not None]
        if len(names) != 1:
            return value
        return {"input" if key == names[0] else key: each for key, each in value.items()}
