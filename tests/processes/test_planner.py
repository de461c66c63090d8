"""Processes that plan: what they answer is what planning here answers, and they end when told."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from memory_world import MemoryWorld
from stet.wire.failures import Kind, Refused, refuse
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan, SourceFile
from stetd.processes.planner import NoPlanner, Planner, PlannerLost, PlanningFailed, begin_planner
from stetd.processes.recorded_plans import Changed, RecordedPlan, Replay

TEXT = "".join(f"def f{n}(x):\n\treturn x + {n}  \n" for n in range(200)).encode()
FILES = {
    "a.py": TEXT,
    "crlf.txt": TEXT.replace(b"\n", b"\r\n"),
    "bytes.txt": b"caf\xe9\n" + TEXT,
    "empty.txt": b"",
    "runaway.txt": b"a" * 60 + b"!",
    "binary": b"\0\1",
}
WORLD = MemoryWorld(FILES, {"c": "kept\n"})
#: This module may have been imported hours before its tests are run.
LATER = time.monotonic() + 86_400
FENCED = refuse(Kind.PATH_PROTECTED, "not this one", path="a.py")


def patches(path: str, *patches: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "patch", {"path": path, "patches": list(patches)}


def change(path: str, **given: Any) -> tuple[str, dict[str, Any]]:
    return "patch_file", {"path": path, "changes": [given]}


OLD = "def f7(x):\n\treturn x + 7"
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": patches("a.py", {"operation": "replace", "oldText": OLD, "newText": "pass"}),
    "tolerant": patches("crlf.txt", {"operation": "replace", "oldText": OLD, "newText": "a\nb"}),
    "to a clipboard": patches(
        "a.py", {"operation": "replace", "oldText": OLD, "newText": "", "toClipboard": "d"}
    ),
    "from a clipboard": patches("new", {"operation": "append_eof", "fromClipboard": "c"}),
    "not UTF-8": patches("bytes.txt", {"operation": "append_eof", "newText": "x\n"}),
    "binary": patches("binary", {"operation": "append_eof", "newText": "x\n"}),
    "a miss": patches("a.py", {"operation": "replace", "oldText": "def f7(y):", "newText": "x"}),
    "several": patches("a.py", {"operation": "replace", "oldText": "return x", "newText": "y"}),
    "nothing said": patches("a.py"),
    "a pattern": change(
        "a.py", search=r"f(1\d\d)\(x\)(?=:\n\treturn x \+ 150)", replace=r"g\1", regex=True
    ),
    "fuzzy": change("a.py", search="def f77(z):\n\treturn z + 77", replace="no", fuzzy=0.7),
    "with a backup": ("patch_file", {**change("a.py", search=OLD, replace="")[1], "backup": True}),
    "a block": (
        "patch_block",
        {"text": f"a.py\n```\n<<<<<<< SEARCH\n{OLD}\n=======\npass\n>>>>>>> REPLACE\n```\n"},
    ),
    "a move": (
        "apply_patch",
        {
            "input": "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n"
            "-def f7(x):\n+def g7(x):\n*** Delete File: empty.txt\n*** End Patch\n"
        },
    ),
}
RUNAWAY = change("runaway.txt", search="(?:a|a)*$", replace="", regex=True)


@pytest.fixture(scope="module")
def planner() -> Iterator[Planner]:
    planner = asyncio.run(begin_planner())
    yield planner
    planner.close()


def told(outcome: Plan | Refused) -> object:
    if isinstance(outcome, Refused):
        return outcome.failures, outcome.extra
    return outcome


def planned_here(method: str, params: Mapping[str, Any]) -> Plan | Refused:
    try:
        return DIALECTS[method](params, WORLD)
    except Refused as refusal:
        return refusal


@pytest.mark.parametrize("name", CALLS)
def test_the_outcome_is_that_of_planning_here_also_when_it_is_replayed(
    planner: Planner, name: str
) -> None:
    method, params = CALLS[name]
    expected = told(planned_here(method, params))
    recorded = asyncio.run(planner.plan(method, params, WORLD, LATER))
    assert expected == told(recorded.outcome)
    try:
        replayed: Plan | Refused = Replay([recorded])(method, params, WORLD)
    except Refused as refusal:
        replayed = refusal
    assert expected == told(replayed)


@pytest.mark.parametrize(
    "changed",
    [
        MemoryWorld({**FILES, "a.py": TEXT + b"\n"}, WORLD.clipboards),
        MemoryWorld({}, WORLD.clipboards),
        MemoryWorld(FILES, {"c": "another\n"}),
        MemoryWorld(FILES, {}),
    ],
)
def test_a_plan_does_not_hold_where_anything_that_it_was_made_from_is_otherwise(
    planner: Planner, changed: MemoryWorld
) -> None:
    method, params = CALLS["exact"]
    recorded = asyncio.run(planner.plan(method, params, WORLD, LATER))
    with pytest.raises(Changed):
        Replay([recorded])(method, params, changed)


def test_a_refusal_does_not_hold_either_once_there_is_what_was_missing(planner: Planner) -> None:
    recorded = asyncio.run(planner.plan(*CALLS["a miss"], WORLD, LATER))
    assert isinstance(recorded.outcome, Refused)
    with pytest.raises(Changed):
        Replay([recorded])(*CALLS["a miss"], MemoryWorld({"a.py": b"def f7(y):\n"}))


def test_only_what_was_planned_is_replayed(planner: Planner) -> None:
    recorded = asyncio.run(planner.plan(*CALLS["exact"], WORLD, LATER))
    replay = Replay([recorded])
    replay(*CALLS["exact"], WORLD)
    with pytest.raises(Changed):
        replay(*CALLS["exact"], WORLD)
    with pytest.raises(Changed):
        Replay([recorded])("apply_patch", {}, WORLD)


@dataclass(frozen=True)
class Fenced(MemoryWorld):
    """A world that refuses to be read, or fails."""

    failure: Exception = FENCED

    def read(self, path: str) -> SourceFile:
        raise self.failure


def test_what_the_world_refuses_is_refused(planner: Planner) -> None:
    recorded = asyncio.run(planner.plan(*CALLS["exact"], Fenced(), LATER))
    assert isinstance(recorded.outcome, Refused)
    assert [Kind.PATH_PROTECTED] == [each.kind for each in recorded.outcome.failures]
    assert ["read"] == [question[0] for question, _ in recorded.answers]


def test_a_world_that_fails_is_no_lost_process() -> None:
    planner = asyncio.run(begin_planner())
    with pytest.raises(FileExistsError):
        asyncio.run(planner.plan(*CALLS["exact"], Fenced(failure=FileExistsError()), LATER))
    planner.close()


def test_a_defect_is_told_and_the_process_goes_on(planner: Planner) -> None:
    with pytest.raises(PlanningFailed, match="KeyError"):
        asyncio.run(planner.plan("no such dialect", {}, WORLD, LATER))
    assert isinstance(asyncio.run(planner.plan(*CALLS["exact"], WORLD, LATER)).outcome, Plan)


def test_what_takes_too_long_is_refused_and_the_process_ended() -> None:
    planner = asyncio.run(begin_planner())
    recorded: RecordedPlan = asyncio.run(planner.plan(*RUNAWAY, WORLD, time.monotonic() + 0.2))
    assert isinstance(recorded.outcome, Refused)
    assert "took too long" in recorded.outcome.message
    assert planner._process is not None
    assert planner._process.wait(20) != 0
    planner.close()


def test_a_process_that_was_ended_is_lost() -> None:
    planner = asyncio.run(begin_planner())
    planner.close()
    with pytest.raises(PlannerLost):
        asyncio.run(planner.plan(*CALLS["exact"], WORLD, LATER))


@pytest.mark.parametrize("left", range(4))
def test_without_descriptors_for_it_there_is_no_process_and_nothing_stays_open(
    left: int,
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    runner = asyncio.Runner()
    runner.get_loop()
    open_before = os.listdir("/proc/self/fd")
    highest = max(map(int, open_before))  # whatever other tests have left open
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 50, before[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(left):
            os.close(taken.pop())
        with pytest.raises(NoPlanner, match="Too many open files"):
            runner.run(begin_planner())
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert open_before == os.listdir("/proc/self/fd")
    runner.close()
