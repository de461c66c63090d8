"""Planning ``undo`` and ``redo``: which commits they take back.

What stands is defined in :mod:`stetd.history.undoing`; what becomes of the files in
:mod:`stetd.historian.undo.reverting`.
"""

from __future__ import annotations

from itertools import islice

from stet.wire.failures import Kind, Refused, refuse
from stetd.historian.queries.commit_lookup import CommitLookup, Found
from stetd.historian.undo.reverting import counted, listed, named, shortened, take_back
from stetd.history.commit_rows import Wanted
from stetd.history.commits import StoredCommit
from stetd.history.undoing import ABOUT_HISTORY, FOUND, REDOABLE, TAKES_BACK
from stetd.planning.world import CallWorld, EditCall
from stetd.state.workspace import Workspace
from stetd.transaction.drafts import Draft


def plan_undo(
    lookup: CommitLookup, workspace: Workspace, call: EditCall, world: CallWorld
) -> Draft:
    """Plan an ``undo``. Raises Refused: conflict, nothing_to_undo, unknown_commit, ..."""
    chosen = _choose_for_undo(lookup, workspace, call)
    what = named(chosen[0]) if len(chosen) == 1 else counted(chosen)
    draft = take_back(lookup, world, chosen, "undo", shortened(f"undo {what}"))
    draft.message = listed(f"Undone {counted(chosen)}", chosen)
    return draft


def plan_redo(lookup: CommitLookup, _: Workspace, call: EditCall, world: CallWorld) -> Draft:
    """Plan a ``redo``: take undos and rollbacks back. Raises as :func:`plan_undo`."""
    chosen = _choose_for_redo(lookup, call)
    what = named(chosen[0]) if len(chosen) == 1 else counted(chosen)
    draft = take_back(lookup, world, chosen, "redo", shortened(f"redo {what}"))
    draft.message = listed(f"Redone, by taking back {counted(chosen)}", chosen)
    return draft


def session_of(call: EditCall) -> str | None:
    """The session whose commits a call is about; None: all of them (the person's call)."""
    named_session: str | None = call.params.get("session")
    return named_session if call.control else call.session


def paths_of(workspace: Workspace, call: EditCall) -> list[str]:
    """The paths that a call is about, as the history spells them; none: all of them."""
    resolver = workspace.worktree.resolver
    return [resolver.canonical(path, call.directory) for path in call.params.get("paths") or []]


# -- undo


def _choose_for_undo(
    lookup: CommitLookup, workspace: Workspace, call: EditCall
) -> list[StoredCommit]:
    """The commits to take back, newest first."""
    params = call.params
    if params.get("commits") is not None:
        found = lookup.find({lookup.resolve(name) for name in params["commits"]})
        for each in found:
            _check_may_undo(lookup, call, each)
        return [each.commit for each in found]
    if params.get("request") is not None:
        return [_commit_of_request(lookup, call, params["request"])]
    return _newest_edits(lookup, workspace, call)


def _newest_edits(lookup: CommitLookup, workspace: Workspace, call: EditCall) -> list[StoredCommit]:
    params = call.params
    session, agent = session_of(call), params.get("agent")
    last = 1 if params.get("last") is None else params["last"]
    chosen = list(islice(lookup.standing_edits(session, agent, paths_of(workspace, call)), last))
    if not chosen:
        raise refuse(
            Kind.NOTHING_TO_UNDO,
            "there is no edit left to undo"
            + (f" in session {session!r}" if session is not None else "")
            + ". Undos and edits made outside are not counted.",
        )
    return chosen


def _commit_of_request(lookup: CommitLookup, call: EditCall, request: str) -> StoredCommit:
    session = session_of(call)
    found = lookup.of_request(request, session)
    if found is None or (call.control and session not in (None, found.commit.meta.session)):
        raise refuse(
            Kind.UNKNOWN_REQUEST,
            f"no commit was made by request {request!r}"
            + (f" of session {session!r}" if session is not None else "")
            + ". `log` lists the commits with their requests.",
        )
    _check_may_undo(lookup, call, found)
    return found.commit


def _check_may_undo(lookup: CommitLookup, call: EditCall, found: Found) -> None:
    commit, undone_by = found
    _check_own(call, commit, "undo")
    if undone_by is not None:
        raise refuse(
            Kind.NOTHING_TO_UNDO, f"{commit.oid[:8]} is undone already, by {undone_by[:8]}."
        )
    if commit.meta.kind in ABOUT_HISTORY:
        raise refuse(
            Kind.NOTHING_TO_UNDO,
            f"{commit.oid[:8]} records what was done to the history ({commit.meta.kind}); it "
            "changed no file, and what is gone from the history can't be brought back.",
        )
    if commit.meta.kind in FOUND and lookup.found_only(commit):
        raise refuse(
            Kind.NOTHING_TO_UNDO,
            f"{commit.oid[:8]} records what stood there before the first edit; "
            "there is nothing earlier to go back to.",
        )


def _check_own(call: EditCall, commit: StoredCommit, command: str) -> None:
    if not call.control and commit.meta.session != call.session:
        raise refuse(
            Kind.NOT_PERMITTED,
            f"{commit.oid[:8]} is not an edit of this session; an agent may take back its own "
            f"edits only. A person can {command} it with: stet {command} {commit.oid[:8]}",
        )


# -- redo


def _choose_for_redo(lookup: CommitLookup, call: EditCall) -> list[StoredCommit]:
    names = call.params.get("commits")
    if names is None:
        return [_newest_undo(lookup, call)]
    found = lookup.find({lookup.resolve(name) for name in names})
    for each in found:
        _check_may_redo(call, each)
    return [each.commit for each in found]


def _newest_undo(lookup: CommitLookup, call: EditCall) -> StoredCommit:
    session = session_of(call)
    newest: set[str] = set()
    for kind in REDOABLE:
        found = lookup.candidates(Wanted(session=session, kind=kind), after=None)
        standing = (c.oid for c, undone_by in found if undone_by is None and c.meta.kind == kind)
        newest.update(islice(standing, 1))
    if newest:
        return lookup.find(newest)[0].commit
    raise refuse(
        Kind.NOTHING_TO_UNDO,
        "there is no undo left to redo"
        + (f" in session {session!r}" if session is not None else "")
        + ". Each undo is redone once.",
    )


def _check_may_redo(call: EditCall, found: Found) -> None:
    commit, undone_by = found
    _check_own(call, commit, "redo")
    if commit.meta.kind not in REDOABLE:
        raise _not_an_undo(commit, undone_by)
    if undone_by is not None:
        raise refuse(
            Kind.NOTHING_TO_UNDO, f"{commit.oid[:8]} is redone already, by {undone_by[:8]}."
        )


def _not_an_undo(commit: StoredCommit, undone_by: str | None) -> Refused:
    advice = f"to take it back, use undo: {commit.oid[:8]}"
    if undone_by is not None and commit.meta.kind not in TAKES_BACK:
        advice = f"it was undone by {undone_by[:8]}, which can be redone"
    return refuse(
        Kind.INVALID_PARAMS,
        f"redo takes undos and rollbacks, but {commit.oid[:8]} is of kind {commit.meta.kind}; "
        f"{advice}.",
    )
