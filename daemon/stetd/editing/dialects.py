"""The edit dialects: from a call's own parameters to a plan.

A dialect raises Refused with every failure of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stetd.editing.apply_patch import dialect as apply_patch
from stetd.editing.edits import Plan, World
from stetd.editing.patch import dialect as patch
from stetd.editing.patch_block import dialect as patch_block
from stetd.editing.patch_file import dialect as patch_file

#: Method name to the function that plans its calls.
DIALECTS: Mapping[str, Callable[[Mapping[str, object], World], Plan]] = {
    "apply_patch": apply_patch.plan,
    "patch": patch.plan,
    "patch_block": patch_block.plan,
    "patch_file": patch_file.plan,
}
