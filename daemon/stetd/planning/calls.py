"""Planning a call: from a request to a draft of its changes. Changes nothing.

A ``transaction`` is planned like one long call: each of its calls sees the files as the calls
before it will leave them. The plans are joined to one draft: one record and one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from msgspec.structs import replace

from stet.wire.failures import Failure, Kind, Refused, refuse
from stet.wire.results import BlockResult
from stetd.editing import time_limit
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan, World
from stetd.editing.paths import files_above
from stetd.editing.refusals import counted
from stetd.history.excluding import Excludes
from stetd.history.protecting import Protection
from stetd.parameters import Common, IfMatch, convert, invalid, split_common
from stetd.planning.plan_checks import check_draft, check_plan
from stetd.planning.proposals import Proposal, draft_of
from stetd.planning.world import CallLimits, CallWorld, EditCall
from stetd.session.sessions import Session
from stetd.state.workspace import Base, Workspace
from stetd.transaction.drafts import Draft

TRANSACTION = "transaction"
#: Methods that edit files in a dialect, alone or several at once.
EDIT_METHODS = frozenset({*DIALECTS, TRANSACTION})
#: Calls in one transaction.
MAX_CALLS = 1000
#: Plans one call of a dialect, by the name of its method. Raises Refused.
PlanDialect = Callable[[str, Mapping[str, Any], World], Plan]


def plan_directly(method: str, params: Mapping[str, Any], world: World) -> Plan:
    """The plan of one call of a dialect. Raises Refused; TakesLong if the time is limited."""
    return DIALECTS[method](params, world)


def plan_call(
    workspace: Workspace,
    base: Base,
    call: EditCall,
    session: Session | None,
    limits: CallLimits,
    protection: Protection,
    how: PlanDialect | Proposal = plan_directly,
) -> Draft:
    """Plan a call on ``base``, or use the historian's proposal; check limits and draft.

    Raises Refused, errors of ``how``, and PlanOutdated if the proposal does not hold.
    """
    clipboards = session.clipboards if session else {}
    with closing(CallWorld(workspace.worktree, call, limits, clipboards, base.files)) as world:
        if isinstance(how, Proposal):
            _check_if_match(call.if_match, call.params, world)
            draft = draft_of(how, world)
            draft.preview = call.preview
        else:
            draft = _draft(plan_dialects(call, world, workspace.excludes, how), call, world)
            for item in draft.files:
                limits.check_made(item.target.path, len(item.after or b""))
        written = sum(len(item.after) for item in draft.files if item.after is not None)
        limits.check(len(draft.files), written)
        check_draft(draft, base, call, protection)
        for item in draft.files:
            del world.seen[item.target.path]  # the draft closes its descriptor
    return draft


def check_if_match(workspace: Workspace, base: Base, call: EditCall, limits: CallLimits) -> None:
    """Refuse a call whose if_match is not the current content."""
    with closing(CallWorld(workspace.worktree, call, limits, unpublished=base.files)) as world:
        _check_if_match(call.if_match, call.params, world)


def plan_dialects(
    call: EditCall, world: CallWorld, excludes: Excludes, plan_dialect: PlanDialect
) -> list[Plan]:
    """The plans of a call's dialects, each on the files as the plans before it leave them.

    Raises Refused, and errors of ``plan_dialect``.
    """

    def planned(method: str, params: Mapping[str, Any], if_match: IfMatch | None) -> Plan:
        _check_if_match(if_match, params, world)
        plan = plan_dialect(method, params, world)
        check_plan(plan, excludes)
        world.check_links(plan)
        world.apply(plan)
        return plan

    if call.method != TRANSACTION:
        return [planned(call.method, call.params, call.if_match)]
    _check_if_match(call.if_match, call.params, world)
    plans: list[Plan] = []
    for number, (method, inner) in enumerate(_transaction_calls(call.params)):
        common, own = split_common(inner)
        try:
            if outside_only := sorted(set(common) - {"if_match"}):
                raise invalid(
                    f"{', '.join(outside_only)}: give this to the transaction, not to a call in it",
                )
            time_limit.check_time()
            plan = planned(method, own, convert(Common, method, common).if_match)
            if plan.preview and not call.preview:
                raise invalid(
                    "a transaction is carried out as one, so it can't hold a call that is only "
                    "tried: give preview: true to the transaction, and leave dry_run out of its "
                    "calls.",
                )
        except Refused as refusal:
            failures = [
                replace(each, message=f"call {number + 1}: {each.message}", call=number)
                for each in refusal.failures
            ]
            raise Refused(*failures, extra=refusal.extra) from refusal
        reports = tuple(replace(each, call=number) for each in plan.edits)
        results = tuple(replace(each, call=number) for each in plan.results)
        plans.append(replace(plan, edits=reports, results=results))
    return plans


def _transaction_calls(params: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    calls = params.get("calls")
    unknown = sorted(set(params) - {"calls"})
    if unknown or not isinstance(calls, list) or not calls or len(calls) > MAX_CALLS:
        raise invalid(
            "transaction: send calls: a list of 1 to "
            f'{MAX_CALLS} objects like {{"method": "patch", "params": {{...}}}}'
            + (f"; unknown: {', '.join(unknown)}" if unknown else ""),
        )
    for number, item in enumerate(calls):
        match item:
            case {"method": str(method), "params": dict()} if len(item) == 2:
                if method in DIALECTS:
                    continue
                why = (
                    f"{method!r} can't be part of a transaction; the methods that can are: "
                    f"{', '.join(DIALECTS)}"
                )
            case _:
                why = (
                    "each call is an object with method and params, "
                    'e.g. {"method": "patch", "params": {"path": "a.py", "patches": [...]}}'
                )
        raise refuse(Kind.INVALID_PARAMS, f"call {number + 1}: {why}", call=number)
    return [(item["method"], item["params"]) for item in calls]


def _draft(plans: Sequence[Plan], call: EditCall, world: CallWorld) -> Draft:
    """The changes of plans that the world has applied, as one draft."""
    files = world.changed
    failures = [
        Failure(
            Kind.NOT_A_FILE.value,
            f"{path}: the same call makes {above} a file, so nothing can stand below it.",
            path=path,
        )
        for path, above in files_above(p for p, item in files.items() if item.after is not None)
    ]
    if failures:
        raise Refused(*failures)
    for path, item in files.items():
        origin = world.origins.get(path)
        source = files.get(origin or "")
        if source is not None and source.after is None and item.found is None:
            item.old_path = origin
    preview = call.preview or any(plan.preview for plan in plans)
    messages = [plan.preview_message or plan.message if preview else plan.message for plan in plans]
    results = [result for plan in plans for result in plan.results]
    if call.method == TRANSACTION:
        subject = f"transaction: {counted(len(plans), 'call')}, {counted(len(files), 'file')}"
        message = "\n".join(f"call {number}: {text}" for number, text in enumerate(messages, 1))
        result: BlockResult | list[BlockResult] | None = results or None
    else:
        subject, message = plans[0].subject, messages[0]
        result = results if len(results) > 1 else results[0] if results else None
    return Draft(
        kind="edit",
        subject=subject,
        files=list(files.values()),
        edits=[report for plan in plans for report in plan.edits],
        message=message,
        warnings=[warning for plan in plans for warning in plan.warnings],
        clipboards={name: text for plan in plans for name, text in plan.clipboards.items()},
        clipboard_notes=[note for plan in plans for note in plan.clipboard_notes],
        preview=preview,
        result=result,
    )


def _check_if_match(expected: IfMatch | None, params: Mapping[str, Any], world: CallWorld) -> None:
    if isinstance(expected, str):
        path = params.get("path")
        if not isinstance(path, str):
            raise invalid(
                "if_match: this method can touch several files; "
                'send a map from path to blob id: {"src/a.py": "<oid>"}.',
            )
        expected = {path: expected}

    def described(oid: str | None) -> str:
        return "no file" if oid is None else f"blob {oid or repr(oid)}"

    failures = [
        Failure(
            Kind.STALE.value,
            f"{path}: if_match expects {described(oid)}, but there is {described(found)}. Read "
            "the file again and base the edit on what it says now.",
            path=path,
        )
        for path, oid in (expected or {}).items()
        if (found := world.oid(path)) != oid
    ]
    if failures:
        raise Refused(*failures)
