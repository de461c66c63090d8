"""Planning undo, redo, rollback and restore, for the engine to carry out."""

from __future__ import annotations

from stetd.call_world import CallWorld
from stetd.drafts import Draft
from stetd.failpoints import hit
from stetd.heads import Head
from stetd.historian.messages import Place as Told
from stetd.history.objects import EMPTY_TREE, Tree
from stetd.indexed_past import look_back
from stetd.place import Place
from stetd.proposals import Proposal, ProposedFile, Proposing
from stetd.restore_planning import plan_restore
from stetd.rollback_planning import plan_rollback
from stetd.session.modes import UNRESTRICTED, Standing
from stetd.storage.disk import Disk
from stetd.storage.stored_objects import StoredObjects
from stetd.undo_planning import plan_redo, plan_undo
from stetd.workspace import Base, Workspace

_PLANNERS = {
    "undo": plan_undo,
    "redo": plan_redo,
    "rollback": plan_rollback,
    "restore": plan_restore,
}


def proposed(place: Place, told: Told, asked: Proposing, disk: Disk) -> Proposal:
    """Plan it. Raises Refused, MissingObject."""
    repository = StoredObjects(told.shadow)
    workspace = Workspace(told.name, told.root, repository, Standing(UNRESTRICTED), disk)
    workspace.excludes = place.excludes
    base = Base(Head(told.head, Tree({}, EMPTY_TREE), 0))
    world = CallWorld(workspace, base, asked.call, None, asked.limits)
    plan = _PLANNERS[asked.call.method]
    try:
        draft = look_back(
            repository,
            told.head,
            lambda past: plan(past, workspace, asked.call, world),
            place.on_damage,
        )
        try:
            proposal = _as_data(draft, told.number)
            hit("historian.proposed")
            return proposal
        finally:
            for item in draft.files:
                item.target.close()
    finally:
        world.close()
        workspace.close()


def _as_data(draft: Draft, number: int) -> Proposal:
    files = [
        ProposedFile(
            item.target.path,
            item.found.image if item.found is not None else None,
            item.after,
            item.mode,
            item.old_path,
        )
        for item in draft.files
    ]
    return Proposal(
        kind=draft.kind,
        subject=draft.subject,
        files=files,
        message=draft.message,
        warnings=list(draft.warnings),
        reverts=draft.reverts,
        leftover_directories=list(draft.leftover_directories),
        record_always=draft.record_always,
        number=number,
    )
