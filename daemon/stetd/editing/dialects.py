"""The dialects that agents edit in: from a request to a plan.

A dialect is one module here, one row in this table, and one folder of test fixtures.
Matching, planning, application and feedback are shared, one layer down. A dialect gets
the call's own parameters (*common* ones are the caller's) and raises Refused with every
failure of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stetd.editing.apply_patch import dialect as apply_patch
from stetd.editing.edits import Plan, World
from stetd.editing.patch import dialect as patch
from stetd.editing.patch_block import dialect as patch_block
from stetd.editing.patch_file import dialect as patch_file

Dialect = Callable[[Mapping[str, object], World], Plan]

#: Method name to the function that plans its calls.
DIALECTS: Mapping[str, Dialect] = {
    "apply_patch": apply_patch.plan,
    "patch": patch.plan,
    "patch_block": patch_block.plan,
    "patch_file": patch_file.plan,
}
