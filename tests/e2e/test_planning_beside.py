"""Calls that take long are planned beside the writer: in order, exactly once, on what stands there.

Failpoints hold such a call before it is planned (``beside.planning``) or before what was planned
is used (``beside.planned``). That the results are those of the writer itself is in
server/test_planning_process.py.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from e2e.rights_table import TOOL_DISABLED
from e2e.running_daemon import (
    DaemonProcess,
    Gate,
    Refusal,
    Site,
    eventually,
    once_reached,
    running,
)
from stet.wire.failures import Kind

#: Large enough not to be planned on the writer.
LINES = [f"line {n} of a large file\n" for n in range(30_000)]
LARGE = "".join(LINES)
RUNAWAY = {"search": "(?:a|a)*$", "replace": "b", "regex": True}


@contextmanager
def started(**environment: str) -> Iterator[Site]:
    with running(**environment) as daemon:
        site = daemon.site("w")
        site.write("large.txt", LARGE)
        site.write("small.txt", "one\n")
        site.write("runaway.txt", "a" * 60 + "!\n")
        yield site


@pytest.fixture(scope="module")
def plain() -> Iterator[Site]:
    with started() as site:
        yield site


@pytest.fixture
def planning() -> Iterator[Site]:
    """The first call that is planned beside is held for a moment before that."""
    with started(STET_FAILPOINT="beside.planning@sleep=2") as site:
        yield site


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """The first call that is planned beside is held here before it is carried out."""
    return Gate(tmp_path, "beside.planned")


@pytest.fixture
def planned(gate: Gate) -> Iterator[Site]:
    """Where the gate is."""
    with started(**gate.environment) as site:
        yield site


def patch(path: str, old: str, new: str, **more: Any) -> dict[str, Any]:
    return {
        "path": path,
        "patches": [{"operation": "replace", "oldText": old, "newText": new}],
        **more,
    }


def large_edit(number: int, **more: Any) -> dict[str, Any]:
    return patch("large.txt", LINES[number], f"new {number}\n", **more)


def with_edits(*numbers: int) -> bytes:
    text = LARGE
    for number in numbers:
        text = text.replace(LINES[number], f"new {number}\n", 1)
    return text.encode()


def subjects(site: Site) -> list[str]:
    return [each["message"].splitlines()[0] for each in site.log() if each["kind"] == "edit"][::-1]


def planners(daemon: DaemonProcess) -> list[int]:
    """The processes that plan."""
    pid = daemon.process.pid
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [each for each in children if is_planner(each)]


def is_planner(pid: int) -> bool:
    with suppress(OSError):
        return b"stetd.planning.planner" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def computing(daemon: DaemonProcess) -> int:
    """The process that plans, once it does."""
    found: list[int] = []

    def is_found() -> bool:
        for pid in planners(daemon):
            computed = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11])
            if computed > 60:  # it does more than begin
                found.append(pid)
        return bool(found)

    assert eventually(is_found), "no process plans anything"
    return found[0]


def gone(pid: int) -> bool:
    def has_ended() -> bool:
        try:
            return " Z " in Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True

    return eventually(has_ended)


def test_others_go_on_while_a_call_is_planned(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "beside.planning")
    with started(**gate.environment) as site:
        other = site.another("conv-2")
        site.agent.send("patch", **large_edit(100))
        gate.once_reached()
        for number in range(8):
            other.call("patch", **patch("small.txt", "one" + "+" * number, "one+" + "+" * number))
        assert site.agent.is_silent()
        gate.open()
        assert site.agent.receive().error is None
        assert with_edits(100) == site.bytes_of("large.txt")
        assert b"one" + b"+" * 8 + b"\n" == site.bytes_of("small.txt")


def test_a_pattern_that_runs_away_holds_nobody_else(plain: Site) -> None:
    hostile = [plain.another(f"hostile-{n}") for n in range(2)]
    for each in hostile:
        each.send("patch_file", path="runaway.txt", changes=[RUNAWAY])
    text = plain.bytes_of("small.txt").decode()
    for number in range(10):
        plain.replace("small.txt", text, text := f"{number}\n")
    assert all(each.is_silent() for each in hostile)
    for each in hostile:
        error = each.receive().error
        assert error is not None
        assert "The pattern runs away" in error.message
    assert b"9\n" == plain.bytes_of("small.txt")
    assert b"a" * 60 + b"!\n" == plain.bytes_of("runaway.txt")


def test_pipelined_calls_wait_for_the_one_before_them_and_see_it(planning: Site) -> None:
    client = planning.agent
    clipped = {"operation": "replace", "oldText": LINES[7], "newText": "", "toClipboard": "c"}
    added = {"operation": "append_eof", "fromClipboard": "c"}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("patch", patch("first.txt", "a", "b")),  # keeps the writer until the others are there
        ("patch", {"path": "large.txt", "patches": [clipped]}),
        ("patch", {"path": "small.txt", "patches": [added]}),
        ("clipboard_set", {"name": "c", "text": "two\n"}),
        ("patch", {"path": "small.txt", "patches": [added]}),
        ("patch", large_edit(100)),
        ("patch", patch("small.txt", "two\n", "three\n")),
    ]
    planning.write("first.txt", "a")
    frames = [client.frame(method, n, params) for n, (method, params) in enumerate(asked)]
    client.send_bytes(b"".join(frames))
    replies = [client.receive() for _ in asked]
    assert list(range(len(asked))) == [reply.id for reply in replies]
    assert [None] * len(asked) == [reply.error for reply in replies]
    assert b"one\n" + LINES[7].encode() + b"three\n" == planning.bytes_of("small.txt")
    assert with_edits(100).replace(LINES[7].encode(), b"") == planning.bytes_of("large.txt")
    files = ["first.txt", "large.txt", "small.txt", "small.txt", "large.txt", "small.txt"]
    assert [f"patch {file}: 1 edit" for file in files] == subjects(planning)


def test_what_somebody_saves_meanwhile_is_what_is_edited(planned: Site, gate: Gate) -> None:
    planned.agent.send("patch", **large_edit(100))
    gate.once_reached()
    saved = with_edits(5).decode()
    planned.write("large.txt", saved)
    gate.open()
    result = planned.agent.result_of(planned.agent.receive())
    assert with_edits(5, 100) == planned.bytes_of("large.txt")
    assert saved == planned.person.call("read", path="large.txt", at=result["outside"])["text"]


def test_what_another_session_does_meanwhile_is_what_is_edited(planned: Site, gate: Gate) -> None:
    other = planned.another("conv-2")
    planned.agent.send("patch", **large_edit(100, if_match=None))
    gate.once_reached()
    other.call("patch", **large_edit(5))  # is planned beside as well, while that one waits
    gate.open()
    assert planned.agent.receive().error is None
    assert with_edits(5, 100) == planned.bytes_of("large.txt")
    assert 2 == len(subjects(planned))


def test_an_edit_that_is_made_meanwhile_is_not_made_twice(planned: Site, gate: Gate) -> None:
    planned.agent.send("patch", **large_edit(100))
    gate.once_reached()
    planned.write("large.txt", with_edits(100))
    gate.open()
    error = planned.agent.receive().error
    assert error is not None
    assert Kind.OLD_TEXT_NOT_FOUND == error.data["kind"]
    assert with_edits(100) == planned.bytes_of("large.txt")


def test_a_file_that_never_rests_is_told() -> None:
    stop = threading.Event()

    def save(site: Site) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            os.replace(site.write("saved.txt", f"{number}\n{LARGE}"), site.root / "large.txt")

    with started(STET_FAILPOINT="beside.planned:*@sleep=0.5") as site:
        saving = threading.Thread(target=save, args=[site])
        saving.start()
        try:
            refusal = site.agent.refusal("patch", **large_edit(1))
        finally:
            stop.set()
            saving.join()
    assert Kind.CONTENDED == refusal.kind
    assert refusal.message.startswith("large.txt: the file kept changing while the call was tried")


def test_a_restriction_waits_for_a_call_that_is_being_planned(planned: Site, gate: Gate) -> None:
    planned.agent.send("patch", **large_edit(100))
    planned.agent.send("patch", **patch("small.txt", "one", "two"))
    gate.once_reached()
    number = planned.person.send("mode_set", mode="restricted", scope="workspace")
    planned.person.until_begun()
    assert LARGE.encode() == planned.bytes_of("large.txt")
    gate.open()
    reply = planned.person.receive()
    assert (number, None) == (reply.id, reply.error)
    assert with_edits(100) == planned.bytes_of("large.txt")
    assert [None, None] == [planned.agent.receive().error for _ in range(2)]
    assert TOOL_DISABLED == planned.agent.refusal("patch", **large_edit(101)).message
    assert with_edits(100) == planned.bytes_of("large.txt")


@pytest.mark.parametrize("scope", ["workspace", "session"])
def test_a_restriction_does_not_wait_for_ever_and_what_it_overtakes_is_refused(
    scope: str, tmp_path: Path
) -> None:
    """A client may have many in line that take long; nothing was done of those."""
    trace = tmp_path / "trace"
    with started(
        STET_FAILPOINT="beside.planning@sleep=600", STET_FAILPOINT_TRACE=str(trace)
    ) as site:
        site.agent.send("patch", **large_edit(100))
        site.agent.send("patch", **patch("small.txt", "one", "two"))
        once_reached(trace, "beside.planning")
        named = {"session": site.session} if scope == "session" else {"scope": "workspace"}
        answer = site.person.call("mode_set", mode="restricted", **named)
        assert "restricted" == answer[f"{scope}_mode"]
        errors = [site.agent.receive().error for _ in range(2)]
        assert [TOOL_DISABLED] * 2 == [error and error.message for error in errors]
        assert (
            TOOL_DISABLED == site.agent.refusal("patch", **patch("small.txt", "one", "two")).message
        )
        site.person.call("mode_set", mode="unrestricted", **named)
        assert not site.agent.call("patch", **patch("small.txt", "one", "two"))["replayed"]
        assert LARGE.encode() == site.bytes_of("large.txt")
        assert 1 == len(subjects(site))


def test_a_mode_that_its_own_client_sets_binds_what_comes_after_it(planning: Site) -> None:
    client = planning.agent
    client.send("patch", **large_edit(100))
    client.send("mode_set", mode="restricted")
    client.send("patch", **patch("small.txt", "one", "two"))
    client.send("patch", **large_edit(101))
    replies = [client.receive() for _ in range(4)]
    assert [None, None] == [reply.error for reply in replies[:2]]
    assert [TOOL_DISABLED] * 2 == [reply.error.message for reply in replies[2:] if reply.error]
    assert with_edits(100) == planning.bytes_of("large.txt")


def test_a_call_whose_client_has_gone_is_carried_out(planning: Site) -> None:
    planning.agent.send("patch", **large_edit(100))
    planning.agent.until_begun()
    planning.agent.close()
    assert eventually(lambda: with_edits(100) == planning.bytes_of("large.txt"))
    assert 1 == len(subjects(planning))


def test_a_retry_while_it_is_planned_gets_its_outcome(planning: Site) -> None:
    call = large_edit(100, request_id="r-1")
    planning.agent.send("patch", **call)
    again = planning.another("conv-1")
    again.send("patch", **call)
    other = planning.another("conv-1")
    assert Kind.INVALID_PARAMS == other.refusal("patch", **large_edit(1, request_id="r-1")).kind
    first = planning.agent.result_of(planning.agent.receive())
    second = again.result_of(again.receive())
    assert (False, True) == (first["replayed"], second["replayed"])
    assert first["commit"] == second["commit"]
    assert 1 == len(subjects(planning))


def test_a_transaction_with_a_runaway_inside_is_refused_whole(planning: Site) -> None:
    calls = [
        {"method": "patch", "params": patch("small.txt", "one", "two")},
        {"method": "patch_file", "params": {"path": "runaway.txt", "changes": [RUNAWAY]}},
    ]
    other = planning.another("conv-2")
    planning.agent.send("transaction", calls=calls)
    other.call("patch", **large_edit(100))
    error = planning.agent.receive().error
    assert error is not None
    assert error.message.startswith("call 2: ")
    assert b"one\n" == planning.bytes_of("small.txt")


def test_a_transaction_is_planned_as_one_and_its_calls_see_each_other(plain: Site) -> None:
    plain.write("large.txt", LARGE)
    plain.write("small.txt", "one\n")
    calls = [
        {"method": "patch", "params": large_edit(100)},
        {"method": "patch", "params": patch("large.txt", "new 100\n", "newer\n")},
        {"method": "patch", "params": patch("small.txt", "one", "two")},
    ]
    result = plain.agent.call("transaction", calls=calls)
    assert LARGE.replace(LINES[100], "newer\n").encode() == plain.bytes_of("large.txt")
    assert b"two\n" == plain.bytes_of("small.txt")
    assert ["large.txt", "small.txt"] == [each["path"] for each in result["files"]]
    assert "transaction: 3 calls, 2 files" == subjects(plain)[-1]


def test_a_preview_is_planned_beside_and_changes_nothing(plain: Site) -> None:
    plain.write("large.txt", LARGE)
    result = plain.agent.call("patch", **large_edit(100, preview=True))
    assert result["commit"] is None
    assert "+new 100\n" in result["diff"]
    assert LARGE.encode() == plain.bytes_of("large.txt")


def test_a_workspace_that_is_forgotten_meanwhile_is_not_written(planned: Site, gate: Gate) -> None:
    planned.agent.send("patch", **large_edit(100))
    gate.once_reached()
    planned.person.call("workspace_forget", root=str(planned.root))
    gate.open()
    error = planned.agent.receive().error
    assert error is not None
    assert Kind.WORKSPACE_NOT_ALLOWED == error.data["kind"]
    assert LARGE.encode() == planned.bytes_of("large.txt")


def test_a_stop_waits_for_what_is_being_planned(planning: Site) -> None:
    planning.agent.send("patch", **large_edit(100))
    planning.agent.send("patch", **patch("small.txt", "one", "two"))
    assert eventually(lambda: planners(planning.daemon))
    [made] = planners(planning.daemon)
    assert 0 == planning.daemon.stop()
    assert [None, None] == [planning.agent.receive().error for _ in range(2)]
    assert with_edits(100) == planning.bytes_of("large.txt")
    assert b"two\n" == planning.bytes_of("small.txt")
    assert gone(made)


@pytest.mark.parametrize("point", ["beside.planning", "beside.planned"])
def test_a_kill_while_a_call_is_planned_leaves_nothing_and_the_retry_does_it(point: str) -> None:
    with started(STET_FAILPOINT=point) as site:
        call = large_edit(100, request_id="r-1")
        site.agent.send("patch", **call)
        assert -signal.SIGKILL == site.daemon.wait()
        assert LARGE.encode() == site.bytes_of("large.txt")
        site.daemon.start()
        site.connect()
        assert not site.agent.call("patch", **call)["replayed"]
        assert with_edits(100) == site.bytes_of("large.txt")
        assert 1 == len(subjects(site))
        assert "" == site.fsck()


def test_processes_end_with_the_daemon_whatever_they_are_doing() -> None:
    with started() as site:
        site.agent.send("patch_file", path="runaway.txt", changes=[RUNAWAY])
        made = computing(site.daemon)
        site.daemon.kill()
        assert gone(made)


def test_a_lost_process_is_told_and_replaced_and_without_any_the_writer_plans(
    planned: Site, gate: Gate
) -> None:
    gate.open()
    daemon = planned.daemon
    planned.agent.send("patch_file", path="runaway.txt", changes=[RUNAWAY])
    os.kill(computing(daemon), signal.SIGKILL)
    error = planned.agent.receive().error
    assert error is not None
    assert error.message.startswith("The process that planned this call ended unexpectedly")
    planned.agent.call("patch", **large_edit(100))
    for process in planners(daemon):
        os.kill(process, signal.SIGKILL)
        assert gone(process)
    others = [planned.another(f"conv-{n}") for n in range(3)]
    for number, each in enumerate(others):
        each.send("patch", **large_edit(number))
    outcomes = [each.receive() for each in others]
    assert [None] * 3 == [each.error for each in outcomes]
    assert with_edits(0, 1, 2, 100) == planned.bytes_of("large.txt")


def test_a_file_that_is_too_large_is_refused_in_the_same_words(plain: Site) -> None:
    plain.write("huge.txt", b"x" * (65 << 20))
    with pytest.raises(Refusal, match=r"this file has 68,157,440 bytes, 67,108,864 is the most"):
        plain.agent.call("patch", **patch("huge.txt", "y", "z"))
