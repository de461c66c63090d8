"""Planning ``rollback``: everything after a commit that passes the filters is taken back.

Which commits that are is a pure rule (:func:`stetd.history.undoing.choose_for_rollback`).
Edits made outside are taken back only with ``include_outside``, which is the person's; what
was not recorded yet when the call came is kept in any case, as after every undo.
"""

from __future__ import annotations

from stet.wire.failures import Kind, refuse
from stetd.historian.queries.commit_lookup import CommitLookup
from stetd.historian.undo.reverting import counted, listed, take_back, would_undo_twice
from stetd.historian.undo.undo import paths_of, session_of
from stetd.history.commits import StoredCommit
from stetd.history.undoing import FOUND, TAKES_BACK, choose_for_rollback, is_edit
from stetd.planning.world import CallWorld, EditCall
from stetd.state.workspace import Workspace
from stetd.transaction.drafts import Draft


def plan_rollback(
    lookup: CommitLookup, workspace: Workspace, call: EditCall, world: CallWorld
) -> Draft:
    """Plan a ``rollback``. Raises Refused: conflict, nothing_to_undo, unknown_commit, ..."""
    to = lookup.resolve(call.params["to"])
    session, agent = session_of(call), call.params.get("agent")
    include_outside = bool(call.params.get("include_outside"))
    paths = paths_of(workspace, call)

    def passes(commit: StoredCommit) -> bool:
        meta = commit.meta
        return (
            (session is None or meta.session == session)
            and (agent is None or meta.agent == agent)
            and (not paths or lookup.is_touching(commit, paths))
            and (
                include_outside and not lookup.found_only(commit)
                if meta.kind in FOUND
                else is_edit(meta) or meta.kind in TAKES_BACK
            )
        )

    chosen = choose_for_rollback(lookup.after(to), passes)
    if would_undo_twice(lookup, chosen) is not None:
        chosen = choose_for_rollback(lookup.after(to), passes, sparing=False)
    if not chosen:
        raise refuse(
            Kind.NOTHING_TO_UNDO,
            f"nothing after {to[:8]} is left to take back"
            + (f" in session {session!r}" if session is not None else "")
            + ("." if include_outside else ". Edits made outside are not counted."),
        )
    subject = f"rollback to {to[:8]}: {counted(chosen)}"
    draft = take_back(lookup, world, chosen, "rollback", subject)
    draft.message = listed(f"Rolled back to {to[:8]}, taking back {counted(chosen)}", chosen)
    return draft
