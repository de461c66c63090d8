"""``observe``: the hooks of an agent report each use of its own tools, before and after it.

Some clients do not report a tool's end, or report it too early. The files that such a tool names
(``late``) are read first by each later call of the session (:mod:`stetd.observing.watched_tools`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from stet.wire.results import EditResult, ObservedFile, ObserveResult
from stetd.methods.caller import Caller, Params, wait_within
from stetd.observing.before_note import BeforeNote
from stetd.observing.current_content import NO_TIME, ScanRequest, ScanResult, first_few
from stetd.observing.recording import NOT_TOLD, Observation, ObservedBefore, note_id
from stetd.observing.watched_tools import Late, WatchedTools
from stetd.parameters import Observe, check_label, convert, invalid, split_common
from stetd.planning.world import OBSERVE

#: Seconds that a scan of a whole workspace may take at most, whatever ``within`` says.
_MAX_SCAN_S = 10.0
#: Seconds beyond its deadline that the answer of a scan may take to arrive.
_ANSWER_GRACE_S = 0.3
#: Files and bytes recorded at once before a tool runs; then other calls get their turn.
_CHUNK_FILES = 64
_CHUNK_BYTES = 4 << 20


async def observe(caller: Caller, params: Params) -> ObserveResult:
    """Record the files before a tool runs, or commit its changes afterwards."""
    common, own = split_common(params)
    asked = convert(Observe, OBSERVE, own)
    for name in ("if_match", "preview"):
        if common.get(name) is not None:
            raise invalid(f"observe: {name} can't be given; leave it out.")
    if asked.late is not None and (asked.phase != "before" or asked.paths is not None):
        raise invalid("observe: late goes with the phase before, and without paths.")
    for name in ("tool", "use", "subagent"):
        check_label(name, getattr(asked, name))
    if asked.use is not None:
        check_label("use", note_id(asked.use).lstrip())
    await _commit_late(caller, asked.use)
    if asked.phase == "stop":
        _watched_tools(caller).stopped(caller.session, background=bool(asked.background))
        return ObserveResult()
    if asked.paths is not None:
        return await _observe_paths(caller, asked, common)
    return await _observe_workspace(caller, asked, common)


async def _commit_late(caller: Caller, use: str | None) -> None:
    """Commit the changes of the session's late uses, except of the one that is being reported."""
    watched = _watched_tools(caller)
    for late, paths in list(watched.late_of(caller.session, current=use)):
        common = {"message": late.why} if late.why else {}
        planned = _observation(late, "after", paths, whole=True)
        result = await _submit(caller, {"late": late.use}, planned, common)
        for file in result.files:
            watched.found(caller.session, late, [file.path, file.old_path or file.path])


async def _observe_paths(caller: Caller, asked: Observe, common: Params) -> ObserveResult:
    watched = _watched_tools(caller)
    assert asked.phase != "stop", "BUG: a stop reads no file"
    planned = _observation(asked, asked.phase, asked.paths or ())
    result = await _submit(caller, _request_params(asked), planned, common)
    if isinstance(result, ObservedBefore):
        watched.expect(caller.session, asked.use, result.note.paths)
    else:
        watched.done(caller.session, asked.use)
    return _observe_result(result)


async def _observe_workspace(caller: Caller, asked: Observe, common: Params) -> ObserveResult:
    seconds = _MAX_SCAN_S if asked.within is None else min(asked.within, _MAX_SCAN_S)
    deadline = time.monotonic() + seconds
    watched = _watched_tools(caller)
    found = await _scan(caller, asked, deadline)
    if asked.phase == "before":
        return await _record_before(caller, asked, common, found, deadline)
    others = watched.expected_of_others(caller.session)
    paths = [path for path, _ in found.paths if path not in others]
    planned = _observation(
        asked, "after", paths, whole=True, note=BeforeNote(ignores=found.ignores)
    )
    result = await _submit(caller, _request_params(asked), planned, common)
    watched.done(caller.session, asked.use)
    return _observe_result(result, found.why)


async def _record_before(
    caller: Caller, asked: Observe, common: Params, found: ScanResult, deadline: float
) -> ObserveResult:
    """Commit as outside the files that differ, until the deadline; then record the note."""
    outside = None
    for chunk in _chunks(found.paths):
        if time.monotonic() > deadline:
            found.why = "there was no time to record all of it"
            break
        planned = Observation(phase="before", paths=chunk, whole=True)
        part = await _submit(caller, _request_params(asked), planned, {})
        outside = part.outside or outside
        if isinstance(part, ObservedBefore):
            found.add_skipped(part.note.passed)
    note = BeforeNote(
        whole=True,
        complete=not found.why,
        passed=found.passed,
        modes=found.modes,
        tree=found.tree,
        ignores={} if found.why else found.changed_ignores,
        excludes=found.excludes,
    )
    planned = _observation(asked, "before", found.kept, note=note)
    result = await _submit(caller, _request_params(asked), planned, common)
    outside = result.outside or outside
    if isinstance(result, ObservedBefore) and asked.use is not None and result.note.paths:
        late = Late(asked.use, asked.tool, asked.subagent, str(common.get("message") or ""))
        background, paths = bool(asked.background), result.note.paths
        watched = _watched_tools(caller)
        watched.expect(caller.session, asked.use, paths, late=late, background=background)
    inside = " is a workspace of its own; what the tool changes there is found there, as outside."
    warnings = [*(f"not scanned: {each}{inside}" for each in found.inner), *result.warnings]
    result = msgspec.structs.replace(result, outside=outside, warnings=first_few(warnings))
    return _observe_result(result, found.why)


async def _scan(caller: Caller, asked: Observe, deadline: float) -> ScanResult:
    """Scan the workspace for files that may differ; only one scan of a workspace runs at a time."""
    lock = _watched_tools(caller).scanning
    try:
        await wait_within(deadline - time.monotonic(), lock.acquire())
    except TimeoutError:
        return ScanResult(why="it was being scanned for others all the time")
    left = deadline - time.monotonic()
    try:
        most = caller.shared.settings.observe_max_files
        request = ScanRequest(most, deadline, list(asked.late or ()))
        scanned = caller.ask("scan the workspace", request, ScanResult)
        return await wait_within(left + _ANSWER_GRACE_S, scanned)
    except TimeoutError:
        late = "the process that scans has not answered in time"
        return ScanResult(why=late if left > 0 else NO_TIME)
    finally:
        lock.release()


def _watched_tools(caller: Caller) -> WatchedTools:
    return caller.shared.watched.setdefault(caller.workspace or "", WatchedTools())


def _observation(
    of: Observe | Late, phase: Literal["before", "after"], paths: Sequence[str], **more: Any
) -> Observation:
    """What the writer is to record of a tool's use."""
    return Observation(
        phase=phase, paths=list(paths), tool=of.tool, use=of.use, subagent=of.subagent, **more
    )


def _request_params(asked: Observe) -> Params:
    """The parameters that a retry of this call must repeat: all except ``within``."""
    given = msgspec.to_builtins(asked).items()
    return {name: value for name, value in given if name != "within" and value is not None}


async def _submit(caller: Caller, sent: Params, planned: Observation, common: Params) -> EditResult:
    """Record what was found. A retry is recognised by ``sent``, not by what was found."""
    note = None
    if planned.phase == "before":  # never a retry: the note of an earlier use is replaced
        common = {}
        note = note_id(planned.use) if planned.use is not None else None
    what = msgspec.to_builtins(planned)
    return await caller.submit(OBSERVE, sent, common, planned=what, note=note)


def _chunks(paths: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for path, file_size in paths:
        if chunk and (len(chunk) >= _CHUNK_FILES or size + file_size > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(path)
        size += file_size
    if chunk:
        yield chunk


def _observe_result(result: EditResult, why: str = "") -> ObserveResult:
    """The reply; ``why`` the workspace was not scanned as a whole, if it was not."""
    warnings = list(result.warnings)
    if why:
        warnings.append(
            f"the workspace was not scanned as a whole: {why}. What the tool changes in files "
            "that the history does not know is recorded as outside, when it is found."
        )
    return ObserveResult(
        commit=result.commit,
        outside=result.outside,
        files=msgspec.convert(result.files, list[ObservedFile], from_attributes=True),
        complete=not why,
        untold=NOT_TOLD in warnings,
        warnings=warnings,
        replayed=result.replayed,
        request=result.request,
    )
