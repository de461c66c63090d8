"""Writing ``apply_patch`` calls in tests, on workspaces in memory."""

from __future__ import annotations

from collections.abc import Mapping

from stet.wire.failures import Refused
from stetd.editing.apply_patch.dialect import plan
from stetd.editing.edits import Plan
from tree_world import Tree, TreeWorld


def patch(*lines: str) -> str:
    """The lines between the first and the last of a patch."""
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])


def planned(tree: Tree | Mapping[str, bytes], text: str, **options: object) -> Plan:
    """The plan of the call on a workspace."""
    tree = tree if isinstance(tree, Tree) else Tree(tree)
    return plan({"input": text, **options}, TreeWorld(tree))


def after(tree: Tree | Mapping[str, bytes], text: str, **options: object) -> dict[str, bytes]:
    """The files after the call."""
    tree = tree if isinstance(tree, Tree) else Tree(tree)
    return dict(tree.after(planned(tree, text, **options)).files)


def updated(data: bytes, *hunks: str, **options: object) -> bytes:
    """The bytes of one file after an update with these lines."""
    return after({"a.txt": data}, patch("*** Update File: a.txt", *hunks), **options)["a.txt"]


def rungs(data: bytes, *hunks: str) -> list[str]:
    """By which rung each hunk was matched."""
    plan = planned({"a.txt": data}, patch("*** Update File: a.txt", *hunks))
    return [report.rung for report in plan.edits]


def refused(tree: Tree | Mapping[str, bytes], text: str, **options: object) -> Refused:
    """The refusal that the call meets; fails when it is accepted."""
    try:
        plan = planned(tree, text, **options)
    except Refused as refusal:
        return refusal
    raise AssertionError(f"the call was accepted: {plan}")


def unplaced(data: bytes, *hunks: str, **options: object) -> Refused:
    """The refusal of an update of one file with these lines."""
    return refused({"a.txt": data}, patch("*** Update File: a.txt", *hunks), **options)
