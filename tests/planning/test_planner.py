"""Processes that plan: what they answer is what planning here answers, and they end when told.

What a process says is data, whole, and in time, or it is not heard.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from planning_calls import planning
from stet.wire.failures import Kind, Refused
from stetd.editing.edits import Plan
from stetd.engine.long_planning import Planner, PlannerLost, PlanningFailed, begin_planner
from stetd.history.excluding import NOTHING_EXCLUDED
from stetd.planning.calls import PlanDialect, plan_dialects, plan_directly
from stetd.planning.planner import Planning, Ready, RecordedPlan, Replay, given_up
from stetd.planning.world import CallWorld
from stetd.processes.children import Declined, Message
from stetd.state.workspace import PlanOutdated
from stetd.storage.disk import Disk
from stetd.storage.worktree import Worktree

TEXT = "".join(f"def f{n}(x):\n\treturn x + {n}  \n" for n in range(200)).encode()
FILES = {
    "a.py": TEXT,
    "crlf.txt": TEXT.replace(b"\n", b"\r\n"),
    "bytes.txt": b"caf\xe9\n" + TEXT,
    "empty.txt": b"",
    "runaway.txt": b"a" * 60 + b"!",
    "binary": b"\0\1",
}
CLIPBOARDS = {"c": "kept\n"}
#: Seconds: longer than any test takes.
LONG = 600.0


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
OUTSIDE = patches("../x", {"operation": "append_eof", "newText": "x"})
RUNAWAY = change("runaway.txt", search="(?:a|a)*$", replace="", regex=True)


@pytest.fixture(scope="module")
def planner() -> Iterator[Planner]:
    planner = asyncio.run(begin_planner())
    yield planner
    planner.close()


@pytest.fixture
def cramped() -> Iterator[Planner]:
    """A process that plans and has little memory."""
    planner = asyncio.run(begin_planner(400 << 20))
    yield planner
    planner.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        tmp_path.joinpath(name).write_bytes(content)
    return tmp_path


def called(root: Path, call: tuple[str, Mapping[str, Any]]) -> Planning:
    return planning(root, *call, clipboards=CLIPBOARDS)


def told(asked: Planning, plan: PlanDialect = plan_directly) -> object:
    """The plans of a call, or what it is refused with, planned here."""
    try:
        with (
            closing(Worktree(asked.root, Disk())) as worktree,
            closing(CallWorld(worktree, asked.call, asked.limits, asked.clipboards)) as world,
        ):
            return plan_dialects(asked.call, world, NOTHING_EXCLUDED, plan)
    except Refused as refusal:
        return refusal.failures, refusal.extra


def outcome(recorded: list[RecordedPlan]) -> object:
    """The same, as it was recorded."""
    refusals = [each.outcome.refusal for each in recorded if isinstance(each.outcome, Declined)]
    if refusals:
        return refusals[0].failures, refusals[0].extra
    return [each.outcome for each in recorded]


def planned(planner: Planner, asked: Planning, seconds: float = LONG) -> list[RecordedPlan]:
    return asyncio.run(planner.plan(asked, seconds))


@pytest.mark.parametrize("name", CALLS)
def test_the_outcome_is_that_of_planning_here_also_when_it_is_replayed(
    planner: Planner, root: Path, name: str
) -> None:
    asked = called(root, CALLS[name])
    recorded = planned(planner, asked)
    assert told(asked) == outcome(recorded) == told(asked, Replay(recorded))


def test_the_calls_of_a_transaction_are_recorded_up_to_the_one_that_is_refused(
    planner: Planner, root: Path
) -> None:
    calls = [CALLS[name] for name in ("exact", "from a clipboard", "a miss", "a block")]
    inner = [{"method": method, "params": params} for method, params in calls]
    asked = called(root, ("transaction", {"calls": inner}))
    recorded = planned(planner, asked)
    assert [True, True, False] == [isinstance(each.outcome, Plan) for each in recorded]
    assert told(asked) == told(asked, Replay(recorded))


@pytest.mark.parametrize("content", [TEXT + b"\n", None])
def test_a_plan_does_not_hold_once_a_file_that_it_was_made_from_is_another(
    planner: Planner, root: Path, content: bytes | None
) -> None:
    asked = called(root, CALLS["exact"])
    recorded = planned(planner, asked)
    if content is None:
        root.joinpath("a.py").unlink()
    else:
        root.joinpath("a.py").write_bytes(content)
    with pytest.raises(PlanOutdated):
        told(asked, Replay(recorded))


@pytest.mark.parametrize("clipboards", [{"c": "another\n"}, {}])
def test_a_plan_does_not_hold_once_the_clipboards_are_others(
    planner: Planner, root: Path, clipboards: dict[str, str]
) -> None:
    recorded = planned(planner, called(root, CALLS["exact"]))
    with pytest.raises(PlanOutdated):
        told(planning(root, *CALLS["exact"], clipboards), Replay(recorded))


def test_a_refusal_does_not_hold_either_once_there_is_what_was_missing(
    planner: Planner, root: Path
) -> None:
    asked = called(root, CALLS["a miss"])
    recorded = planned(planner, asked)
    assert isinstance(recorded[0].outcome, Declined)
    root.joinpath("a.py").write_bytes(b"def f7(y):\n")
    with pytest.raises(PlanOutdated):
        told(asked, Replay(recorded))


def test_only_what_was_planned_is_replayed(planner: Planner, root: Path) -> None:
    asked = called(root, CALLS["exact"])
    recorded = planned(planner, asked)
    replay = Replay(recorded)
    told(asked, replay)
    with pytest.raises(PlanOutdated):
        told(asked, replay)
    with pytest.raises(PlanOutdated):
        told(called(root, CALLS["a move"]), Replay(recorded))


def test_what_the_world_refuses_is_refused(planner: Planner, root: Path) -> None:
    asked = called(root, OUTSIDE)
    (recorded,) = planned(planner, asked)
    assert isinstance(recorded.outcome, Declined)
    assert [Kind.PATH_OUTSIDE_WORKSPACE] == [each.kind for each in recorded.outcome.failures]
    assert ["read"] == [each.kind for each in recorded.asked]
    assert told(asked) == told(asked, Replay([recorded]))


def test_a_workspace_that_is_gone_has_no_plan_and_the_process_goes_on(
    planner: Planner, root: Path
) -> None:
    assert [] == planned(planner, called(root / "gone", CALLS["exact"]))
    assert [True] == [
        isinstance(each.outcome, Plan) for each in planned(planner, called(root, CALLS["exact"]))
    ]


def test_a_defect_is_told_and_the_process_goes_on(planner: Planner, root: Path) -> None:
    with pytest.raises(PlanningFailed, match="KeyError"):
        planned(planner, called(root, ("no such dialect", {})))
    assert [True] == [
        isinstance(each.outcome, Plan) for each in planned(planner, called(root, CALLS["exact"]))
    ]


def test_what_takes_too_long_is_refused(root: Path) -> None:
    planner = asyncio.run(begin_planner())
    with pytest.raises(Refused, match="took too long"):
        planned(planner, called(root, RUNAWAY), 0.2)
    planner.close()
    with pytest.raises(PlannerLost):
        planned(planner, called(root, CALLS["exact"]))


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
        with pytest.raises(OSError, match="Too many open files"):
            runner.run(begin_planner())
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert open_before == os.listdir("/proc/self/fd")
    runner.close()


def test_a_call_does_not_show_its_secret(root: Path) -> None:
    """It could come into the log with an exception."""
    call = msgspec.structs.replace(called(root, CALLS["exact"]).call, secret="hush")
    assert "hush" not in repr(call)


# -- memory

TOO_MUCH = "Planning this call takes too much memory"


def ended(planner: Planner) -> bool:
    """Whether its process comes to an end."""
    return planner._process.wait(30) == 0


@pytest.mark.parametrize("large", ["a file", "its text"])
def test_without_memory_for_a_file_a_call_is_refused_and_the_process_ends(
    cramped: Planner, root: Path, large: str
) -> None:
    text = b"\n" * (200 << 20) if large == "a file" else b"a" * (20 << 20) + "\U0001f600".encode()
    root.joinpath("a.py").write_bytes(text)
    with pytest.raises(Refused, match=TOO_MUCH):
        planned(cramped, called(root, CALLS["exact"]))
    assert ended(cramped)


def test_without_memory_for_a_call_it_is_refused_and_the_process_ends(
    cramped: Planner, root: Path
) -> None:
    with pytest.raises(Refused, match=TOO_MUCH):
        planned(cramped, called(root, patches("a.py", {"oldText": "x" * (200 << 20)})))
    assert ended(cramped)


def test_the_texts_of_calls_that_are_planned_are_freed(cramped: Planner, root: Path) -> None:
    """Each took 17 MB of the 400 until the collector came by, which it did after hundreds."""
    lines = [f"line {n} of many\n" for n in range(60_000)]
    root.joinpath("long.txt").write_text("".join(lines))
    gone = "".join([*lines[10:15], "gone\n", *lines[16:20]])
    miss = patches("long.txt", {"operation": "replace", "oldText": gone, "newText": ""})
    for _ in range(40):
        recorded = planned(cramped, called(root, miss))
        assert [isinstance(each.outcome, Declined) for each in recorded] == [True]


# -- messages


@pytest.fixture
def ends() -> Iterator[tuple[Planner, socket.socket]]:
    """The engine's side of a process, and the process's end."""
    ours, theirs = socket.socketpair()
    yield Planner(ours, cast("Any", None)), theirs
    ours.close()
    theirs.close()


def message(content: bytes, size: int | None = None) -> bytes:
    """A message; ``size``: what it says of its length, if that is not so."""
    return struct.pack("!I", len(content) if size is None else size) + content


def said(message_: Message) -> bytes:
    return message(msgspec.msgpack.encode(message_))


NO_OUTCOMES = {
    "nothing": b"",
    "half a length": b"\0\0",
    "half a message": message(b"\x80", 2),
    "no MessagePack": message(b"\xc1"),
    "no message of ours": message(msgspec.msgpack.encode({"type": "Planned", "plans": 1})),
    "text that is none": message(b"\x81\xa4type\xa4\xff\xff\xff\xff"),
    "what was said at the beginning": said(Ready(version="")),
}


@pytest.mark.parametrize("name", NO_OUTCOMES)
def test_what_is_no_outcome_of_planning_is_not_taken_for_one(
    ends: tuple[Planner, socket.socket], root: Path, name: str
) -> None:
    planner, theirs = ends
    theirs.sendall(NO_OUTCOMES[name])
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(PlannerLost):
        planned(planner, called(root, CALLS["exact"]))


@pytest.mark.parametrize("name", ["nothing", "half a length", "half a message"])
def test_a_process_that_falls_silent_anywhere_is_too_late(
    ends: tuple[Planner, socket.socket], root: Path, name: str
) -> None:
    planner, theirs = ends
    theirs.sendall(NO_OUTCOMES[name])
    with pytest.raises(Refused, match="took too long"):
        planned(planner, called(root, CALLS["exact"]), 0.2)


def test_a_process_that_does_not_listen_is_too_late(
    ends: tuple[Planner, socket.socket], root: Path
) -> None:
    with pytest.raises(Refused, match="took too long"):
        planned(ends[0], called(root, ("patch", {"path": "x" * (8 << 20)})), 0.2)


def test_why_a_process_ended_is_heard_though_it_was_not_listening_any_more(
    ends: tuple[Planner, socket.socket], root: Path
) -> None:
    planner, theirs = ends

    def end_early() -> None:
        theirs.recv(1)
        theirs.sendall(said(Declined.of(given_up("takes too much memory"))))
        theirs.close()

    ending = threading.Thread(target=end_early)
    ending.start()
    with pytest.raises(Refused, match=TOO_MUCH):
        planned(planner, called(root, ("patch", {"path": "x" * (8 << 20)})))
    ending.join()
