"""Planning a call: from a request to a draft of what it will do. Changes nothing.

A ``transaction`` is planned like one long call: each of its calls sees what the ones before
it will leave, and the drafts are joined to one, so that it is one record and one commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from msgspec.structs import replace

from stet.wire.failures import Failure, Kind, Refused, refuse
from stetd.editing import patience
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan, World
from stetd.editing.paths import directories_above
from stetd.editing.refusals import counted
from stetd.history.excluding import Excludes
from stetd.history.protecting import NOTHING_PROTECTED, Protection
from stetd.planning.excluded_contents import check_plan
from stetd.planning.plan_checks import admit
from stetd.planning.proposals import Proposal, draft_of
from stetd.planning.world import CallLimits, CallWorld, EditCall
from stetd.processes.recorded_plans import PlanDialect
from stetd.session.sessions import Session
from stetd.state.workspace import Base, Workspace
from stetd.transaction.drafts import Draft
from stetd.transaction.parameters import Common, IfMatch, convert, split_common

TRANSACTION = "transaction"
#: Methods that edit files in a dialect, alone or several at once.
EDIT_METHODS = frozenset({*DIALECTS, TRANSACTION})
#: Calls of one transaction.
MAX_CALLS = 1000


def plan_here(method: str, params: Mapping[str, Any], world: World) -> Plan:
    """The plan of one call of a dialect. Raises Refused, and TakesLong where that is limited."""
    return DIALECTS[method](params, world)


def plan_call(
    workspace: Workspace,
    base: Base,
    call: EditCall,
    session: Session | None,
    limits: CallLimits,
    protection: Protection = NOTHING_PROTECTED,
    plan_dialect: PlanDialect = plan_here,
    proposal: Proposal | None = None,
) -> Draft:
    """What a call wants to do, planned on ``base``. Raises Refused, and as ``plan_dialect``.

    ``proposal``: what the historian has planned. Raises Changed if it does not hold any more.
    """
    with closing(CallWorld(workspace, base, call, session, limits)) as world:
        _check_if_match(call.if_match, call.params, world)
        if proposal is not None:
            draft = draft_of(proposal, world)
        else:
            draft = _plan(workspace, call, world, plan_dialect)
    try:
        written = sum(len(item.after) for item in draft.files if item.after is not None)
        limits.check(len(draft.files), written)
        admit(draft, base, call, protection)
    except BaseException:
        for item in draft.files:
            item.target.close()
        raise
    return draft


def check_if_match(
    workspace: Workspace, base: Base, call: EditCall, session: Session | None, limits: CallLimits
) -> None:
    """Refuse a call at once that is not about what stands there."""
    with closing(CallWorld(workspace, base, call, session, limits)) as world:
        _check_if_match(call.if_match, call.params, world)


#: Asks for the plans of a call's dialects, one after the other, and is sent them.
Dialects = Generator[tuple[str, Mapping[str, Any]], Plan, list[Plan]]


async def plan_dialects(
    workspace: Workspace,
    call: EditCall,
    session: Session | None,
    limits: CallLimits,
    plan_dialect: Callable[[str, Mapping[str, Any], World], Awaitable[Plan]],
) -> None:
    """Have ``plan_dialect`` plan what dialects do in a call, on the files as they are on the disk.

    Raises Refused.
    """
    with closing(CallWorld(workspace, Base(workspace.head), call, session, limits)) as world:
        _check_if_match(call.if_match, call.params, world)
        dialects = _dialects(call, world, workspace.excludes)
        with suppress(StopIteration):
            wanted = next(dialects)
            while True:
                try:
                    plan = await plan_dialect(*wanted, world)
                except Refused as refusal:
                    wanted = dialects.throw(refusal)
                else:
                    wanted = dialects.send(plan)


def _plan(
    workspace: Workspace, call: EditCall, world: CallWorld, plan_dialect: PlanDialect
) -> Draft:
    plans = _planned(_dialects(call, world, workspace.excludes), world, plan_dialect)
    if call.method == TRANSACTION:
        return _transaction(plans, world, preview=call.preview)
    return _plan_edit(plans[0], world, preview=call.preview)


def _planned(dialects: Dialects, world: CallWorld, plan_dialect: PlanDialect) -> list[Plan]:
    wanted = next(dialects)
    while True:
        try:
            plan = plan_dialect(*wanted, world)
        except Refused as refusal:
            wanted = dialects.throw(refusal)
            continue
        try:
            wanted = dialects.send(plan)
        except StopIteration as end:
            plans: list[Plan] = end.value
            return plans


def _dialects(call: EditCall, world: CallWorld, excludes: Excludes) -> Dialects:
    """The plans of a call's dialects, each over what the ones before it will leave."""
    if call.method == TRANSACTION:
        return (yield from _inner_dialects(call, world, excludes))
    plan = yield call.method, call.params
    check_plan(plan, excludes)
    return [plan]


def _inner_dialects(call: EditCall, world: CallWorld, excludes: Excludes) -> Dialects:
    plans: list[Plan] = []
    for number, (method, inner) in enumerate(_transaction_calls(call.params)):
        common, own = split_common(inner)
        try:
            _check_if_match(_inner_if_match(method, common), own, world)
            patience.go_on()
            plan = yield method, own
            check_plan(plan, excludes)
        except Refused as refusal:
            raise _in_call(refusal, number) from refusal
        if plan.preview and not call.preview:
            tried = refuse(
                Kind.INVALID_PARAMS,
                "a transaction is carried out as one, so it can't hold a call that is only tried: "
                "give preview: true to the transaction, and leave dry_run out of its calls.",
            )
            raise _in_call(tried, number)
        world.apply(plan)
        reports = tuple(replace(each, call=number) for each in plan.edits)
        results = tuple(replace(each, call=number) for each in plan.results)
        plans.append(replace(plan, edits=reports, results=results))
    return plans


def _plan_edit(plan: Plan, world: CallWorld, *, preview: bool) -> Draft:
    preview = preview or plan.preview
    message = _told(plan, preview=preview)
    draft = _draft([plan], world, subject=plan.subject, message=message)
    draft.preview = preview
    if plan.results:
        draft.result = list(plan.results) if len(plan.results) > 1 else plan.results[0]
    return draft


def _transaction(plans: list[Plan], world: CallWorld, *, preview: bool) -> Draft:
    files = {planned.path for plan in plans for planned in plan.files}
    subject = f"transaction: {counted(len(plans), 'call')}, {counted(len(files), 'file')}"
    message = "\n".join(
        f"call {n + 1}: {_told(plan, preview=preview)}" for n, plan in enumerate(plans)
    )
    draft = _draft(plans, world, subject=subject, message=message)
    draft.result = [result for plan in plans for result in plan.results] or None
    return draft


def _told(plan: Plan, *, preview: bool) -> str:
    """What the model is told of a plan."""
    return plan.preview_message or plan.message if preview else plan.message


def _transaction_calls(params: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    calls = params.get("calls")
    unknown = sorted(set(params) - {"calls"})
    if unknown or not isinstance(calls, list) or not calls or len(calls) > MAX_CALLS:
        raise refuse(
            Kind.INVALID_PARAMS,
            "transaction: send calls: a list of 1 to "
            f'{MAX_CALLS} objects like {{"method": "patch", "params": {{...}}}}'
            + (f"; unknown: {', '.join(unknown)}" if unknown else ""),
        )
    checked = []
    for number, item in enumerate(calls):
        if not _is_call(item):
            raise refuse(
                Kind.INVALID_PARAMS,
                f"call {number + 1}: each call is an object with method and params, "
                'e.g. {"method": "patch", "params": {"path": "a.py", "patches": [...]}}',
                call=number,
            )
        if item["method"] not in DIALECTS:
            raise refuse(
                Kind.INVALID_PARAMS,
                f"call {number + 1}: {item['method']!r} can't be part of a transaction; "
                f"the methods that can are: {', '.join(DIALECTS)}",
                call=number,
            )
        checked.append((item["method"], item["params"]))
    return checked


def _is_call(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and set(item) == {"method", "params"}
        and isinstance(item["method"], str)
        and isinstance(item["params"], dict)
    )


def _inner_if_match(method: str, common: dict[str, Any]) -> IfMatch | None:
    outside_only = sorted(set(common) - {"if_match"})
    if outside_only:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"{', '.join(outside_only)}: give this to the transaction, not to a call in it",
        )
    return convert(Common, method, common).if_match


def _in_call(refusal: Refused, number: int) -> Refused:
    failures = [
        replace(each, message=f"call {number + 1}: {each.message}", call=number)
        for each in refusal.failures
    ]
    return Refused(*failures, extra=refusal.extra)


def _draft(plans: Sequence[Plan], world: CallWorld, *, subject: str, message: str) -> Draft:
    """Join plans: of every file the last content, of every clipboard the last text."""
    after: dict[str, bytes | None] = {}
    modes: dict[str, int | None] = {}
    for planned in (planned for plan in plans for planned in plan.files):
        after[planned.path] = planned.after
        if planned.mode is not None or planned.after is None:
            modes[planned.path] = planned.mode
    _refuse_files_above(after)
    files = {path: world.draft_file(path, content) for path, content in after.items()}
    for path, old_path in _moves(plans).items():
        item, source = files[path], files.get(old_path)
        gone = source is not None and source.found is not None and source.after is None
        if gone and item.found is None and item.after is not None:
            item.old_path = old_path
    for path, item in files.items():
        item.mode = modes.get(path)
    clipboards: dict[str, str] = {}
    for plan in plans:
        clipboards.update(plan.clipboards)
    return Draft(
        kind="edit",
        subject=subject,
        files=list(files.values()),
        edits=[report for plan in plans for report in plan.edits],
        message=message,
        warnings=[warning for plan in plans for warning in plan.warnings],
        clipboards=clipboards,
        clipboard_notes=[note for plan in plans for note in plan.clipboard_notes],
    )


def _moves(plans: Sequence[Plan]) -> dict[str, str]:
    """Target to source of what was moved, in one step or several."""
    origins: dict[str, str] = {}
    for plan in plans:
        moved = {
            planned.path: origins.get(planned.old_path, planned.old_path)
            for planned in plan.files
            if planned.old_path is not None
        }
        for planned in plan.files:
            if planned.after is None:
                origins.pop(planned.path, None)
        origins.update(moved)
    return origins


def _refuse_files_above(after: Mapping[str, bytes | None]) -> None:
    """Refuse a call that makes a file below a path at which it makes a file as well."""
    made = {path for path, content in after.items() if content is not None}
    failures = [
        Failure(
            Kind.NOT_A_FILE.value,
            f"{path}: the same call makes {above} a file, so nothing can stand below it.",
            path=path,
        )
        for path in sorted(made)
        for above in directories_above(path)
        if above in made
    ]
    if failures:
        raise Refused(*failures)


# -- if_match


def _stale(path: str, expected: str | None, found: str | None) -> Failure:
    def describe(oid: str | None) -> str:
        return f"blob {oid}" if oid else "no file"

    return Failure(
        Kind.STALE.value,
        f"{path}: if_match expects {describe(expected)}, but there is {describe(found)}. "
        "Read the file again and base the edit on what it says now.",
        path=path,
    )


def _check_if_match(expected: IfMatch | None, params: Mapping[str, Any], world: CallWorld) -> None:
    if expected is None:
        return
    if isinstance(expected, str):
        path = params.get("path")
        if not isinstance(path, str):
            raise refuse(
                Kind.INVALID_PARAMS,
                "if_match: this method can touch several files; "
                'send a map from path to blob id: {"src/a.py": "<oid>"}.',
            )
        expected = {path: expected}
    failures = [
        _stale(path, oid, found)
        for path, oid in expected.items()
        if (found := world.oid(path)) != oid
    ]
    if failures:
        raise Refused(*failures)
