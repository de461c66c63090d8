"""Planning undo, redo, rollback and restore, for the engine to carry out."""

from __future__ import annotations

from stetd.failpoints import failpoint
from stetd.historian.queries.commit_lookup import look_back
from stetd.historian.undo.restore import plan_restore
from stetd.historian.undo.undo import plan_redo, plan_rollback, plan_undo
from stetd.history.objects import EMPTY_TREE, Tree
from stetd.planning.proposals import Proposal, ProposedFile, Proposing
from stetd.planning.world import CallWorld
from stetd.processes.historian_messages import Place as Told
from stetd.repository.stored_objects import StoredObjects
from stetd.session.modes import UNRESTRICTED, Standing
from stetd.state.reading_place import Place
from stetd.state.workspace import Base, Workspace
from stetd.storage.disk import Disk
from stetd.transaction.drafts import DraftFile
from stetd.transaction.heads import Head

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
            lambda lookup: plan(lookup, workspace, asked.call, world),
            place.on_lag,
        )
        for item in draft.files:
            item.target.close()
        proposal = Proposal(
            kind=draft.kind,
            subject=draft.subject,
            files=[_proposed_file(item) for item in draft.files],
            message=draft.message,
            warnings=list(draft.warnings),
            reverts=draft.reverts,
            leftover_directories=list(draft.leftover_directories),
            record_always=draft.record_always,
            number=told.number,
        )
        failpoint("historian.proposed")
        return proposal
    finally:
        world.close()
        workspace.close()


def _proposed_file(item: DraftFile) -> ProposedFile:
    found = item.found.image if item.found is not None else None
    return ProposedFile(item.target.path, found, item.after, item.mode, item.old_path)
