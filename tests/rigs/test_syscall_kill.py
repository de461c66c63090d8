"""The daemon is killed at each of its system calls, one after the other, and started again.

strace kills it (SIGKILL) as it enters the N-th call of a kind, in one of its threads: while
it is told the story and stops, and while it recovers from a kill. All points with
STET_TEST_ALL=1, an even sample without.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from e2e.forking import ForkServer
from e2e.running_daemon import PATIENCE_S, ConnectionEnded, Site
from rigs import findings, story, tracer
from rigs.findings import Findings
from rigs.forked_daemon import ForkedDaemon
from rigs.tracer import Tracer

ALL = bool(os.environ.get("STET_TEST_ALL"))
SAMPLE = 16
KILLED = -signal.SIGKILL

pytestmark = pytest.mark.skipif(
    tracer.why_not() is not None, reason=tracer.why_not() or "strace works"
)

Point = tuple[int, str, int]


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


def _pause(after: str) -> None:
    """Time for a checkpoint in the middle of the story."""
    if after == "r3":
        time.sleep(0.3)


def _tell_and_stop(daemon: ForkedDaemon, site: Site) -> tuple[story.Told, int]:
    told = story.Told()
    story.tell(site, told, _pause)
    status = daemon.look()
    if status is None:
        os.kill(daemon.pid, signal.SIGTERM)
        status = daemon.wait()
    assert isinstance(status, int)
    return told, status


def _judge_after_restart(daemon: ForkedDaemon, site: Site, told: story.Told) -> story.Verdict:
    daemon.hang_up()
    daemon.start()
    site.connect()
    verdict = story.judge(site, told)
    # The call that kills may have been the historian's.
    log = [line for line in daemon.log().splitlines() if "the historian has ended (-9)" not in line]
    if daemon.stop() != 0 or log:
        verdict.torn.append(f"the daemon complains: {log}")
    return verdict


@pytest.mark.timeout(3600 if ALL else 120)
def test_killed_at_any_system_call_while_it_works(forks: ForkServer) -> None:
    tally = findings.begin("SIGKILL at every system call")

    def try_point(point: Point) -> bool:
        thread, call, number = point
        daemon = ForkedDaemon(forks, story.SETTINGS)
        try:
            daemon.start()
            site = story.prepare(daemon)
            victim = tracer.thread(daemon.pid, thread)
            with Tracer(victim, f"{call}:signal=KILL:when={number}"):
                told, status = _tell_and_stop(daemon, site)
            assert status in (0, KILLED), daemon.log()
            verdict = _judge_after_restart(daemon, site, told)
            verdict.add_to(tally, f"thread {thread}, {call} {number}")
            return status == KILLED
        finally:
            daemon.close()

    _sweep(_count_while_working(forks), try_point)
    _assert_clean(tally)


@pytest.mark.timeout(3600 if ALL else 120)
def test_killed_at_any_system_call_while_it_recovers(forks: ForkServer) -> None:
    tally = findings.begin("SIGKILL at every system call of a recovery")

    def try_point(point: Point) -> bool:
        _, call, number = point
        daemon = ForkedDaemon(forks, story.SETTINGS)
        try:
            site, told = _crash_in_the_transaction(daemon)
            pid = _fork_held(daemon)
            with Tracer(pid, f"{call}:signal=KILL:when={number}", follow=True):
                status = _let_it_start(daemon)
            if status is None:
                daemon.kill()
            verdict = _judge_after_restart(daemon, site, told)
            verdict.add_to(tally, f"recovery, {call} {number}")
            return status == KILLED
        finally:
            daemon.close()

    _sweep(_count_while_recovering(forks), try_point)
    _assert_clean(tally)


# -- which points there are


def _count_while_working(forks: ForkServer) -> list[Point]:
    daemon = ForkedDaemon(forks, story.SETTINGS)
    try:
        daemon.start()
        site = story.prepare(daemon)
        known = tracer.threads(daemon.pid)
        output = daemon.base / "trace"
        with Tracer(daemon.pid, follow=True, output=output):
            told, status = _tell_and_stop(daemon, site)
        assert (status, told.with_answer(story.Answer.DONE)) == (0, {"r1", "r2", "r3", "r4", "r5"})
        counts = tracer.count_calls(output, known)
    finally:
        daemon.close()
    return [(*key, n + 1) for key, count in sorted(counts.items()) for n in range(count)]


def _count_while_recovering(forks: ForkServer) -> list[Point]:
    daemon = ForkedDaemon(forks, story.SETTINGS)
    try:
        _crash_in_the_transaction(daemon)
        pid = _fork_held(daemon)
        output = daemon.base / "trace"
        with Tracer(pid, follow=True, output=output):
            assert _let_it_start(daemon) is None
            known = tracer.threads(pid)
        counts = tracer.count_calls(output, known)
    finally:
        daemon.close()
    # Whichever thread is first to reach N: the main thread does nearly all of it.
    most: dict[str, int] = {}
    for (_, call), count in counts.items():
        most[call] = max(count, most.get(call, 0))
    return [(0, call, n + 1) for call, count in sorted(most.items()) for n in range(count)]


def _crash_in_the_transaction(daemon: ForkedDaemon) -> tuple[Site, story.Told]:
    """Kill it between the two files of r3; what it recovers from then is the worst there is."""
    daemon.fork({"STET_FAILPOINT": "publish.in_place:3"})
    daemon.wait_until_it_answers()
    site = story.prepare(daemon)
    told = story.Told()
    story.tell(site, told)
    assert daemon.wait() == KILLED
    assert list(told.answers) == ["r1", "r2", "r3"]
    daemon.hang_up()
    return site, told


def _fork_held(daemon: ForkedDaemon) -> int:
    pid = daemon.fork(held=True)
    while daemon.look() != "stopped":
        time.sleep(0.001)
    return pid


def _let_it_start(daemon: ForkedDaemon) -> int | None:
    """Its exit status; None if it answers."""
    os.kill(daemon.pid, signal.SIGCONT)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        status = daemon.look()
        if isinstance(status, int):
            return status
        try:
            daemon.agent().call("status")
        except (OSError, ConnectionEnded):
            time.sleep(0.005)
        else:
            return None
    raise AssertionError(daemon.log())


# -- trying them


def _sweep(points: list[Point], try_point: object) -> None:
    assert callable(try_point)
    if not ALL:
        for point in tracer.spread(points, SAMPLE):
            try_point(point)
        return
    for thread, call in sorted({(thread, call) for thread, call, _ in points}):
        # Further than was counted: no two runs are quite the same. Far from it is a defect.
        most = 2 * max(n for t, c, n in points if (t, c) == (thread, call)) + 5
        for number in range(1, most):
            if not try_point((thread, call, number)):
                break
        else:
            raise AssertionError(f"{call} is reached more than {most} times")


def _assert_clean(tally: Findings) -> None:
    assert tally.points > 0
    assert (tally.torn, tally.lost, tally.duplicated) == (0, 0, 0), "\n".join(tally.notes)
