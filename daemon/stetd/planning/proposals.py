"""Undo, redo, rollback and restore: planned by the historian, carried out by the engine.

A proposal has for each file the image that it was made from. The engine publishes it only if the
files still have these images, and if no later commit touches them or takes back a commit that the
plan depends on.
Otherwise the engine asks for another proposal. (:func:`draft_of` checks the images,
``Workspace.check_unchanged`` the commits.)
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from stetd.history.objects import Image
from stetd.history.reverting_commits import InTheWay
from stetd.planning.world import CallWorld
from stetd.state.workspace import PlanOutdated
from stetd.transaction.drafts import Draft


class ProposedFile(msgspec.Struct, frozen=True):
    """The new content of a file; ``found``: the image that it was made from."""

    path: str
    found: Image | None
    after: bytes | None
    mode: int | None
    old_path: str | None


class Proposal(msgspec.Struct, frozen=True):
    """A draft as data: ``draft`` is without its files.

    ``judged``: the commits that the plan takes to be undone, or not. ``excludes``: digest of the
    patterns of excluded files.
    """

    draft: Draft
    files: list[ProposedFile]
    judged: list[str]
    excludes: str


def proposal_of(draft: Draft, judged: list[str], excludes: str) -> Proposal:
    """A draft as data."""
    files = []
    for item in draft.files:
        found = item.found.image if item.found is not None else None
        files.append(ProposedFile(item.target.path, found, item.after, item.mode, item.old_path))
    return Proposal(replace(draft, files=[]), files, judged, excludes)


def draft_of(proposal: Proposal, world: CallWorld) -> Draft:
    """The draft on the current files. Raises PlanOutdated if one has another image; Refused."""
    files = []
    for file in proposal.files:
        try:
            found = world.read_entry(file.path)
        except InTheWay as obstacle:  # the next proposal refuses it as a conflict
            raise PlanOutdated(file.path) from obstacle
        if (found.image if found is not None else None) != file.found:
            raise PlanOutdated(file.path)
        item = world.draft_file(file.path, file.after)
        item.mode, item.old_path = file.mode, file.old_path
        files.append(item)
    return replace(proposal.draft, files=files)
