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
    _check(asked, common)
    watched = caller.shared.watched.setdefault(caller.workspace or "", WatchedTools())
    await _commit_late(caller, watched, asked.use)
    if asked.phase == "stop":
        watched.stopped(caller.session, background=bool(asked.background))
        return ObserveResult()
    # What a retry of this call must repeat.
    given = msgspec.to_builtins(asked).items()
    sent = {name: value for name, value in given if name != "within" and value is not None}
    found, outside = ScanResult(), None
    if asked.paths is not None:
        planned = _observation(asked, asked.phase, asked.paths)
    else:
        seconds = _MAX_SCAN_S if asked.within is None else min(asked.within, _MAX_SCAN_S)
        deadline = time.monotonic() + seconds
        found = await _scan(caller, watched, asked, deadline)
        if asked.phase == "before":
            outside = await _record_differing(caller, sent, found, deadline)
            planned = _observation(asked, "before", found.kept, found=found)
        else:
            others = watched.expected_of_others(caller.session)
            paths = [path for path, _ in found.paths if path not in others]
            planned = _observation(asked, "after", paths, whole=True, found=found)
    result = await _submit(caller, sent, planned, common)
    if isinstance(result, ObservedBefore):
        paths, late = result.note.paths, None
        if asked.paths is None:
            why, background = str(common.get("message") or ""), bool(asked.background)
            late = Late(asked.use or "", asked.tool, asked.subagent, why, background)
        if late is None or paths:
            watched.expect(caller.session, asked.use, paths, late)
    elif watched.done(caller.session, asked.use) and asked.use and not common.get("request_id"):
        # Without an id of the client the same command has the same use again, perhaps unannounced.
        spent = Observation(phase="before", paths=[], use=asked.use)
        await _submit(caller, sent, spent, {})
    return _observe_result(result, found, outside)


def _check(asked: Observe, common: Params) -> None:
    """Refuse parameters that do not go together."""
    for name in ("if_match", "preview"):
        if common.get(name) is not None:
            raise invalid(f"observe: {name} can't be given; leave it out.")
    if asked.late is not None and (asked.phase != "before" or asked.paths is not None):
        raise invalid("observe: late goes with the phase before, and without paths.")
    for name in ("tool", "use", "subagent"):
        check_label(name, getattr(asked, name))
    if asked.use is not None:
        check_label("use", note_id(asked.use).lstrip())


async def _commit_late(caller: Caller, watched: WatchedTools, use: str | None) -> None:
    """Commit the changes of the session's late uses, except of the one that is being reported."""
    for late, paths in list(watched.late_of(caller.session, current=use)):
        common = {"message": late.why} if late.why else {}
        planned = _observation(late, "after", paths, whole=True)
        result = await _submit(caller, {"late": late.use}, planned, common)
        for file in result.files:
            watched.found(caller.session, late, [file.path, file.old_path or file.path])


async def _record_differing(
    caller: Caller, sent: Params, found: ScanResult, deadline: float
) -> str | None:
    """Commit as outside the files that differ, until the deadline; returns the last commit."""
    outside = None
    for chunk in _chunks(found.paths):
        if time.monotonic() > deadline:
            found.why = "there was no time to record all of it"
            break
        part = await _submit(caller, sent, Observation(phase="before", paths=chunk, whole=True), {})
        outside = part.outside or outside
        if isinstance(part, ObservedBefore):
            found.add_skipped(part.note.passed)
    return outside


async def _scan(
    caller: Caller, watched: WatchedTools, asked: Observe, deadline: float
) -> ScanResult:
    """Scan the workspace for files that may differ; only one scan of a workspace runs at a time."""
    try:
        await wait_within(deadline - time.monotonic(), watched.scanning.acquire())
    except TimeoutError:
        return ScanResult(why="it was being scanned for others all the time")
    left = deadline - time.monotonic()
    try:
        most = caller.state.settings.observe_max_files
        request = ScanRequest(most, deadline, list(asked.late or ()))
        scanned = caller.ask("scan the workspace", request, ScanResult, goes_on=True)
        return await wait_within(left + _ANSWER_GRACE_S, scanned)
    except TimeoutError:
        late = "the process that scans has not answered in time"
        return ScanResult(why=late if left > 0 else NO_TIME)
    finally:
        watched.scanning.release()


def _observation(
    of: Observe | Late, phase: Literal["before", "after"], paths: Sequence[str], **more: Any
) -> Observation:
    """What the writer is to record of a tool's use."""
    return Observation(
        phase=phase, paths=list(paths), tool=of.tool, use=of.use, subagent=of.subagent, **more
    )


async def _submit(caller: Caller, sent: Params, planned: Observation, common: Params) -> EditResult:
    """Record what was found. A retry is recognised by ``sent``, not by what was found."""
    note = None
    if planned.phase == "before":  # never a retry: the note of an earlier use is replaced
        common = {}
        note = note_id(planned.use) if planned.use is not None else None
    what = msgspec.structs.asdict(planned)
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


def _observe_result(result: EditResult, found: ScanResult, outside: str | None) -> ObserveResult:
    """The reply; ``outside``: the last commit of what the scan found before the tool."""
    inside = " is a workspace of its own; what the tool changes there is found there, as outside."
    inner = found.inner if isinstance(result, ObservedBefore) else []
    # The warnings of the result were cut to the first few already.
    warnings = [*first_few([f"not scanned: {each}{inside}" for each in inner]), *result.warnings]
    if found.why:
        warnings.append(
            f"the workspace was not scanned as a whole: {found.why}. What the tool changes in "
            "files that the history does not know is recorded as outside, when it is found."
        )
    return ObserveResult(
        commit=result.commit,
        outside=result.outside or outside,
        files=msgspec.convert(result.files, list[ObservedFile], from_attributes=True),
        complete=not found.why,
        untold=NOT_TOLD in warnings,
        warnings=warnings,
        replayed=result.replayed,
        request=result.request,
    )
