"""``observe``: what an agent does with its own tools, reported by its hooks before and afterwards.

Where a client does not report a tool's end, or too early, the files that it names (``late``) are
scanned first by each later call of the session. See :mod:`stetd.observing.watched_tools`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from stet.wire.results import EditResult, ObservedFile, ObserveResult
from stetd.methods.caller import Caller, Params
from stetd.observing.before_note import BeforeNote
from stetd.observing.current_content import NO_TIME, Differing, Looking, few
from stetd.observing.recording import NOT_TOLD, Observation, ObservedBefore, note_id
from stetd.observing.watched_tools import Late, WatchedTools
from stetd.planning.world import OBSERVE
from stetd.transaction.parameters import Observe, check_label, convert, invalid, split_common

#: Seconds that looking at a whole workspace takes at most, whatever is asked.
_MOST_SECONDS = 10.0
#: So long a scan waits at least for those of others.
_TRIED_S = 0.01
#: Seconds that its answer has to come, after it has ended in time.
_ANSWERED_S = 0.3
#: What is seen for the first time is recorded in so many files and bytes a call, so that
#: others get their turn in between.
_CHUNK_FILES = 64
_CHUNK_BYTES = 4 << 20


async def observe(caller: Caller, params: Params) -> ObserveResult:
    """Note what a tool is about to change, or record what it has changed."""
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
        _watched(caller).stopped(caller.session, background=bool(asked.background))
        return ObserveResult()
    if asked.paths is not None:
        return await _named(caller, asked, common)
    return await _whole(caller, asked, common)


async def _commit_late(caller: Caller, use: str | None) -> None:
    """Commit what late uses of the session have changed, other than the one that is reported."""
    watched = _watched(caller)
    for late, paths in list(watched.late_of(caller.session, but=use)):
        common = {"message": late.why} if late.why else {}
        planned = _planned(late, "after", paths, whole=True)
        result = await _submit(caller, {"late": late.use}, planned, common)
        for file in result.files:
            watched.found(caller.session, late, [file.path, file.old_path or file.path])


async def _named(caller: Caller, asked: Observe, common: Params) -> ObserveResult:
    watched = _watched(caller)
    assert asked.phase != "stop", "BUG: looks at nothing"
    planned = _planned(asked, asked.phase, asked.paths or ())
    result = await _submit(caller, _sent(asked), planned, common)
    if isinstance(result, ObservedBefore):
        watched.expect(caller.session, asked.use, result.note.paths)
    else:
        watched.done(caller.session, asked.use)
    return _told(result, complete=True)


async def _whole(caller: Caller, asked: Observe, common: Params) -> ObserveResult:
    seconds = _MOST_SECONDS if asked.within is None else min(asked.within, _MOST_SECONDS)
    deadline = time.monotonic() + seconds
    watched = _watched(caller)
    found = await _scan(caller, asked, deadline)
    if asked.phase == "before":
        return await _before_whole(caller, asked, common, found, deadline)
    others = watched.expected_of_others(caller.session)
    paths = [path for path, _ in found.paths if path not in others]
    planned = _planned(asked, "after", paths, whole=True, note=BeforeNote(ignores=found.ignores))
    result = await _submit(caller, _sent(asked), planned, common)
    watched.done(caller.session, asked.use)
    return _told(result, complete=found.complete, why=found.why)


async def _before_whole(
    caller: Caller, asked: Observe, common: Params, found: Differing, deadline: float
) -> ObserveResult:
    """Record what the history does not know yet, as far as time allows, and note how far."""
    outside = None
    for chunk in _chunks(found.paths):
        if time.monotonic() > deadline:
            found.complete, found.why = False, "there was no time to record all of it"
            break
        planned = Observation(phase="before", paths=chunk, whole=True)
        part = await _submit(caller, _sent(asked), planned, {})
        outside = part.outside or outside
        if isinstance(part, ObservedBefore):
            found.pass_over(part.note.passed)
    note = BeforeNote(
        whole=True,
        complete=found.complete,
        passed=found.passed,
        modes=found.modes,
        tree=found.tree,
        ignores=found.untold if found.complete else {},
        excludes=found.excludes,
    )
    planned = _planned(asked, "before", found.kept, note=note)
    result = await _submit(caller, _sent(asked), planned, common)
    outside = result.outside or outside
    if isinstance(result, ObservedBefore) and asked.use is not None and result.note.paths:
        late = Late(asked.use, asked.tool, asked.subagent, str(common.get("message") or ""))
        background, paths = bool(asked.background), result.note.paths
        watched = _watched(caller)
        watched.expect(caller.session, asked.use, paths, late=late, background=background)
    inside = " is a workspace of its own; what the tool changes there is found there, as outside."
    warnings = [*(f"not scanned: {each}{inside}" for each in found.inner), *result.warnings]
    result = msgspec.structs.replace(result, outside=outside, warnings=few(warnings))
    return _told(result, complete=found.complete, why=found.why)


async def _scan(caller: Caller, asked: Observe, deadline: float) -> Differing:
    """What of the workspace may differ; one scan of a workspace at a time."""
    lock = _watched(caller).scanning
    try:
        # With no time at all it would not even be tried.
        await asyncio.wait_for(lock.acquire(), max(_TRIED_S, deadline - time.monotonic()))
    except TimeoutError:
        return Differing(why="it was being scanned for others all the time")
    left = deadline - time.monotonic()
    try:
        most = caller.shared.settings.observe_max_files
        looking = Looking(most, deadline, list(asked.late or ()))
        scanned = caller.ask("look at the workspace", looking, Differing)
        return await asyncio.wait_for(scanned, left + _ANSWERED_S)
    except TimeoutError:
        late = "the process that scans has not answered in time"
        return Differing(why=late if left > 0 else NO_TIME)
    finally:
        lock.release()


def _watched(caller: Caller) -> WatchedTools:
    return caller.shared.watched.setdefault(caller.workspace or "", WatchedTools())


def _planned(
    of: Observe | Late, phase: Literal["before", "after"], paths: Sequence[str], **more: Any
) -> Observation:
    """What is to be recorded of a tool's use."""
    return Observation(
        phase=phase, paths=list(paths), tool=of.tool, use=of.use, subagent=of.subagent, **more
    )


def _sent(asked: Observe) -> Params:
    """What the client has sent, by which a retry is known from another call."""
    given = msgspec.to_builtins(asked).items()
    return {name: value for name, value in given if name != "within" and value is not None}


async def _submit(caller: Caller, sent: Params, planned: Observation, common: Params) -> EditResult:
    """Have the changes recorded. A retry is known by what was ``sent``, not by what was found."""
    note = None
    if planned.phase == "before":  # not a retry, but noted, for the newest use of this name
        common = {}
        note = note_id(planned.use) if planned.use is not None else None
    what = msgspec.to_builtins(planned)
    return await caller.submit(OBSERVE, sent, common, planned=what, note=note)


def _chunks(paths: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for path, its_size in paths:
        if chunk and (len(chunk) >= _CHUNK_FILES or size + its_size > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(path)
        size += its_size
    if chunk:
        yield chunk


def _told(result: EditResult, *, complete: bool, why: str = "") -> ObserveResult:
    warnings = list(result.warnings)
    if not complete:
        warnings.append(
            f"the workspace was not scanned as a whole: {why}. What the tool changes in files "
            "that the history does not know is recorded as outside, when it is found."
        )
    return ObserveResult(
        commit=result.commit,
        outside=result.outside,
        files=msgspec.convert(result.files, list[ObservedFile], from_attributes=True),
        complete=complete,
        untold=NOT_TOLD in warnings,
        warnings=warnings,
        replayed=result.replayed,
        request=result.request,
    )
