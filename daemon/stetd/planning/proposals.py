"""Undo, redo, rollback and restore: planned by the historian, carried out by the engine.

A proposal says of each file from which image it was made. The engine publishes it only if these
still stand, and if nothing that it committed since touches these files or takes anything back;
else it has it proposed again.
"""

from __future__ import annotations

import msgspec

from stetd.history.objects import Image
from stetd.planning.world import CallLimits, CallWorld, EditCall
from stetd.processes.recorded_plans import Changed
from stetd.transaction.drafts import Draft


class Proposing(msgspec.Struct, frozen=True):
    """What is to be taken back."""

    call: EditCall
    limits: CallLimits


class ProposedFile(msgspec.Struct, frozen=True):
    """What a file is to become; ``found``: what it was made from."""

    path: str
    found: Image | None
    after: bytes | None
    mode: int | None
    old_path: str | None


class Proposal(msgspec.Struct, frozen=True):
    """A draft (:class:`stetd.transaction.drafts.Draft`) as data."""

    kind: str
    subject: str
    files: list[ProposedFile]
    message: str
    warnings: list[str]
    reverts: tuple[str, ...]
    leftover_directories: list[str]
    record_always: bool
    #: The record up to which the history was read.
    number: int


_AS_IN_A_DRAFT = (
    "kind", "subject", "message", "warnings", "reverts", "leftover_directories", "record_always",
)  # fmt: skip


def proposal_of(draft: Draft, number: int) -> Proposal:
    """A draft as data; what it holds open is let go."""
    files = []
    for item in draft.files:
        item.target.close()
        found = item.found.image if item.found is not None else None
        file = ProposedFile(item.target.path, found, item.after, item.mode, item.old_path)
        files.append(file)
    same = {name: getattr(draft, name) for name in _AS_IN_A_DRAFT}
    return Proposal(files=files, number=number, **same)


def draft_of(proposal: Proposal, world: CallWorld) -> Draft:
    """The draft, on the current content. Raises Changed if that is something else, Refused."""
    for file in proposal.files:
        found = world.look_at(file.path)
        if (found.image if found is not None else None) != file.found:
            raise Changed(file.path)
    files = []
    for file in proposal.files:
        item = world.draft_file(file.path, file.after)
        item.mode, item.old_path = file.mode, file.old_path
        files.append(item)
    return Draft(files=files, **{name: getattr(proposal, name) for name in _AS_IN_A_DRAFT})
