"""Plans ``undo``, ``redo`` and ``rollback``: chooses the commits to revert, and makes a proposal.

:mod:`stetd.history.undone` defines which edits are in effect and what a rollback chooses;
:mod:`stetd.historian.undo.reverting` reverts the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import islice

from stet.wire.failures import Kind, Refused, refuse
from stetd.config.settings import Settings
from stetd.editing.refusals import counted
from stetd.failpoints import failpoint
from stetd.historian.index.history_index import CommitFilter
from stetd.historian.queries.commit_lookup import CommitLookup, Found, with_lookup
from stetd.historian.undo.restore import plan_restore
from stetd.historian.undo.reverting import is_exact, plan_revert, would_undo_twice
from stetd.history.commits import StoredCommit
from stetd.history.undone import (
    ABOUT_HISTORY,
    FOUND,
    REDOABLE,
    TAKES_BACK,
    choose_for_rollback,
    is_edit,
)
from stetd.parameters import invalid
from stetd.planning.proposals import Proposal, proposal_of
from stetd.planning.world import CallLimits, CallWorld, EditCall
from stetd.state.read_view import ReadView
from stetd.transaction.drafts import Draft

#: Commits that the message lists; more are only counted.
_MAX_LISTED = 50
_MAX_SUBJECT = 120


def plan_undo(lookup: CommitLookup, view: ReadView, call: EditCall, world: CallWorld) -> Draft:
    """Plan an ``undo``. Raises Refused: conflict, nothing_to_undo, unknown_commit, ..."""
    names, request = call.params.get("commits"), call.params.get("request")
    if names is not None:
        chosen = _named_commits(lookup, names, partial(_check_may_undo, lookup, call))
    elif request is not None:
        chosen = [_commit_of_request(lookup, call, request)]
    else:
        chosen = _newest_edits(lookup, view, call)
    done = "Would undo" if call.preview else "Undone"
    return _revert(lookup, view, world, chosen, "undo", done)


def plan_redo(lookup: CommitLookup, view: ReadView, call: EditCall, world: CallWorld) -> Draft:
    """Plan a ``redo``: revert undos and rollbacks. Raises as :func:`plan_undo`."""
    names = call.params.get("commits")
    if names is not None:
        chosen = _named_commits(lookup, names, partial(_check_may_redo, call))
    else:
        chosen = [_newest_undo(lookup, call)]
    done = "Would redo" if call.preview else "Redone"
    return _revert(lookup, view, world, chosen, "redo", f"{done}, by taking back")


def _named_commits(
    lookup: CommitLookup, names: Sequence[str], check: Callable[[Found], None]
) -> list[StoredCommit]:
    """The commits of these names, newest first. Raises what ``check`` raises for one of them."""
    found = lookup.find({lookup.resolve(name) for name in names})
    for each in found:
        check(each)
    return [each.commit for each in found]


def _revert(
    lookup: CommitLookup,
    view: ReadView,
    world: CallWorld,
    chosen: list[StoredCommit],
    kind: str,
    done: str,
) -> Draft:
    count = counted(len(chosen), "commit")
    what = _named(chosen[0]) if len(chosen) == 1 else count
    subject = _shortened(f"{kind} {what}")
    draft = plan_revert(lookup, view.excludes, world, chosen, kind, subject)
    draft.message = listed(f"{done} {count}", chosen)
    return draft


def plan_rollback(lookup: CommitLookup, view: ReadView, call: EditCall, world: CallWorld) -> Draft:
    """Plan a ``rollback``: revert all commits after one that pass the filters.

    Edits made outside are reverted only with ``include_outside``, which is for the person. Changes
    that were not recorded when the call came are kept, as in every undo. Raises what
    :func:`plan_undo` raises.
    """
    to = lookup.resolve(call.params["to"])
    session = _session_of(call)
    wanted = CommitFilter(session=session, agent=call.params.get("agent"))
    include_outside = bool(call.params.get("include_outside"))
    paths = view.possible_paths(call.params.get("paths") or ())

    def is_asked_for(commit: StoredCommit) -> bool:
        meta = commit.meta
        if paths and not lookup.is_touching(commit, paths):
            return False
        if meta.kind in FOUND:
            return include_outside and not lookup.found_only(commit)
        return is_edit(meta) or meta.kind in TAKES_BACK

    def passes(commit: StoredCommit) -> bool:
        # What is undone must not come back because its undo touched one of the paths.
        return wanted.matches(commit.meta) and (is_asked_for(commit) or lookup.is_undone(commit))

    chosen = choose_for_rollback(lookup.after(to), passes, may_stay=lookup.reverts_all)
    if not chosen:
        outside = "" if include_outside else " Edits made outside are not counted."
        raise _nothing(
            f"nothing after {to[:8]} is left to take back{_in_session(session)}.{outside}"
        )
    steps = choose_for_rollback(lookup.after(to), passes, may_stay=lambda _: False)
    if would_undo_twice(lookup, chosen):
        chosen = steps
    walked = chosen
    if chosen != steps:
        with closing(CallWorld(view.worktree, call, world.limits)) as trial:
            walked = steps if is_exact(lookup, trial, steps) else chosen
    count = counted(len(chosen), "commit")
    subject = f"rollback to {to[:8]}: {count}"
    draft = plan_revert(lookup, view.excludes, world, walked, "rollback", subject)
    draft.reverts = tuple(commit.oid for commit in chosen)
    done = "Would roll back" if call.preview else "Rolled back"
    draft.message = listed(f"{done} to {to[:8]}, taking back {count}", chosen)
    return draft


def _session_of(call: EditCall) -> str | None:
    """The session whose commits a call is about; None: those of all sessions (person only)."""
    named_session: str | None = call.params.get("session")
    return named_session if call.control else call.session


def _nothing(message: str) -> Refused:
    return refuse(Kind.NOTHING_TO_UNDO, message)


def _in_session(session: str | None, word: str = "in") -> str:
    return f" {word} session {session!r}" if session is not None else ""


def _named(commit: StoredCommit) -> str:
    """A commit for people: its short id and its subject."""
    return _shortened(f"{commit.oid[:8]} {commit.meta.subject}")


def _shortened(subject: str) -> str:
    """A subject with a limited length: it would grow with each undo of an undo."""
    if len(subject) <= _MAX_SUBJECT:
        return subject
    return subject[: _MAX_SUBJECT - 3] + "..."


def listed(what: str, commits: Sequence[StoredCommit]) -> str:
    """The message for the model: ``what`` was done to these commits."""
    lines = [f"  {_named(commit)}" for commit in commits[:_MAX_LISTED]]
    more = len(commits) - _MAX_LISTED
    if more > 0:
        lines.append(f"  and {more} more")
    return "\n".join([f"{what}:", *lines])


# -- undo


def _newest_edits(lookup: CommitLookup, view: ReadView, call: EditCall) -> list[StoredCommit]:
    params = call.params
    session, agent = _session_of(call), params.get("agent")
    last = 1 if params.get("last") is None else params["last"]
    paths = view.possible_paths(params.get("paths") or ())
    chosen = list(islice(lookup.standing_edits(session, agent, paths), last))
    if not chosen:
        which = _in_session(session)
        which += f" by agent {agent!r}" if agent is not None else ""
        which += " that touched the given paths" if params.get("paths") else ""
        raise _nothing(
            f"there is no edit left to undo{which}. Undos and edits made outside are not counted."
        )
    return chosen


def _commit_of_request(lookup: CommitLookup, call: EditCall, request: str) -> StoredCommit:
    session = _session_of(call)
    found = lookup.of_request(request, session)
    if found is None or (call.control and session not in (None, found.commit.meta.session)):
        raise refuse(
            Kind.UNKNOWN_REQUEST,
            f"no commit was made by request {request!r}{_in_session(session, 'of')}. `log` lists "
            "the commits with their requests.",
        )
    _check_may_undo(lookup, call, found)
    return found.commit


def _check_may_undo(lookup: CommitLookup, call: EditCall, found: Found) -> None:
    commit, undone_by = found
    refusal = None
    if undone_by is not None:
        refusal = _nothing(f"{commit.oid[:8]} is undone already, by {undone_by[:8]}.")
    elif commit.meta.kind in ABOUT_HISTORY:
        refusal = _nothing(
            f"{commit.oid[:8]} records what was done to the history ({commit.meta.kind}); it "
            "changed no file, and what is gone from the history can't be brought back."
        )
    elif commit.meta.kind in FOUND and lookup.found_only(commit):
        refusal = _nothing(
            f"{commit.oid[:8]} records what stood there before the first edit; "
            "there is nothing earlier to go back to."
        )
    _check_own(call, commit, "undo", refusal)


def _check_own(call: EditCall, commit: StoredCommit, command: str, refusal: Refused | None) -> None:
    """Refuse an agent a commit of others; else raise ``refusal``, if there is one.

    The agent is told the person's command, unless that would be refused, too.
    """
    if not call.control and commit.meta.session != call.session:
        advice = f" A person can {command} it with: stet {command} {commit.oid[:8]}"
        raise refuse(
            Kind.NOT_PERMITTED,
            f"{commit.oid[:8]} is not an edit of this session; an agent may take back its own "
            f"edits only.{'' if refusal else advice}",
        )
    if refusal is not None:
        raise refusal


# -- redo


def _newest_undo(lookup: CommitLookup, call: EditCall) -> StoredCommit:
    session = _session_of(call)
    newest: set[str] = set()
    for kind in REDOABLE:
        found = lookup.candidates(CommitFilter(session=session, kind=kind), after=None)
        standing = (c.oid for c, undone_by in found if undone_by is None and c.meta.kind == kind)
        newest.update(islice(standing, 1))
    if newest:
        return lookup.find(newest)[0].commit
    raise _nothing(
        f"there is no undo left to redo{_in_session(session)}. Each undo is redone once."
    )


def _check_may_redo(call: EditCall, found: Found) -> None:
    commit, undone_by = found
    kind, refusal = commit.meta.kind, None
    if kind not in REDOABLE:
        advice = ""
        if undone_by is not None:
            advice = f"; it was undone by {undone_by[:8]}, which can be redone"
        elif kind not in FOUND | ABOUT_HISTORY:
            advice = f"; to take it back, use undo: {commit.oid[:8]}"
        refusal = invalid(
            f"redo takes undos and rollbacks, but {commit.oid[:8]} is of kind {kind}{advice}."
        )
    elif undone_by is not None:
        refusal = _nothing(f"{commit.oid[:8]} is redone already, by {undone_by[:8]}.")
    _check_own(call, commit, "redo", refusal)


# -- proposals


_PLANNERS = {
    "undo": plan_undo,
    "redo": plan_redo,
    "rollback": plan_rollback,
    "restore": plan_restore,
}


def proposed(view: ReadView, call: EditCall, settings: Settings) -> Proposal:
    """Plan an undo, redo, rollback or restore. Raises Refused, MissingObject."""
    plan, limits = _PLANNERS[call.method], CallLimits.of(settings)
    with closing(CallWorld(view.worktree, call, limits)) as world:

        def propose(lookup: CommitLookup) -> Proposal:
            draft = plan(lookup, view, call, world)
            return proposal_of(draft, lookup.judged(draft.reverts), view.excludes.digest)

        proposal = with_lookup(view, propose)
        failpoint("historian.proposed")
        return proposal
