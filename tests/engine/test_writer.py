"""What the writer does with what waits, on a daemon in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from in_process import InProcess
from own_peer import own_peer
from stet.wire.failures import Kind, Refused, refuse
from stetd.config.directories import Directories
from stetd.config.settings import Settings
from stetd.engine.fair_queue import FairQueue, Lane, Waiting
from stetd.engine.long_planning import WRITER_PLANNING_BYTES
from stetd.engine.preparing import EditJob
from stetd.engine.writer import TURN_S, _settle, _take_batch
from stetd.processes.historian_client import Historian


class Turns:
    """In place of the planners: gives nobody a turn, and notes what says if a call is wanted."""

    def __init__(self) -> None:
        self.wanted: list[Callable[[], bool]] = []

    @asynccontextmanager
    async def turn(self, wanted: Callable[[], bool]) -> AsyncIterator[None]:
        self.wanted.append(wanted)
        await asyncio.Event().wait()
        yield

    def close(self) -> None:
        """As planners have it."""


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def daemon(tmp_path: Path, turns: Turns) -> Iterator[InProcess]:
    for name in ("state", "run", "w"):
        tmp_path.joinpath(name).mkdir(0o700)
    directories = Directories(*(str(tmp_path / name) for name in ("run", "state", "c.toml")))
    daemon = InProcess(Settings(checkpoint_idle_s=3600), directories, planners=turns)
    yield daemon
    daemon.close()


@pytest.mark.parametrize("error", [IndexError(), KeyboardInterrupt()])
def test_what_is_no_refusal_is_handed_on_as_it_is(error: BaseException) -> None:
    future: asyncio.Future[None] = asyncio.Future(loop=asyncio.new_event_loop())
    _settle(future, error)
    assert future.exception() is error
    future.get_loop().close()


def test_an_error_of_a_task_is_its_owners_and_the_writer_goes_on(daemon: InProcess) -> None:
    async def outcome() -> str | None:
        with pytest.raises(ZeroDivisionError):
            await daemon.writer.submit(lambda: 1 // 0)
        await daemon.writer.drain()
        return daemon.writer.state.read_only

    assert daemon.wait_for(outcome()) is None


def test_drained_is_what_has_done_all_that_waits(daemon: InProcess) -> None:
    async def drained() -> list[int]:
        done: list[int] = []
        for number in range(3):
            daemon.writer.submit(partial(done.append, number), Lane())
        await daemon.writer.drain()
        return sorted(done)

    assert daemon.wait_for(drained()) == [0, 1, 2]


def test_a_writer_for_which_nothing_waits_takes_no_turn(daemon: InProcess) -> None:
    async def takes_turns() -> bool:
        await daemon.writer.drain()
        await asyncio.sleep(0.05)
        return daemon.writer._next_turn is not None

    assert not daemon.wait_for(takes_turns())


@pytest.mark.parametrize(
    ("broken", "sound_calls"), [("take", 0), ("_draw", 1), ("charge", 0), ("put_back", 0)]
)
def test_a_defect_in_a_turn_leaves_nobody_waiting(
    daemon: InProcess, broken: str, sound_calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = getattr(FairQueue, broken)
    before = iter(range(sound_calls))

    def fail_once(*given: Any) -> Any:
        if next(before, None) is not None:
            return sound(*given)
        monkeypatch.setattr(FairQueue, broken, sound)
        raise ZeroDivisionError

    async def answers() -> list[Any]:
        monkeypatch.setattr(FairQueue, broken, fail_once)
        slow = [daemon.writer.submit(partial(time.sleep, 2 * TURN_S), Lane()) for _ in range(3)]
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*slow, return_exceptions=True)
            await daemon.writer.drain()
        return answers

    given = daemon.wait_for(answers())
    kinds = {answer and answer.kind for answer in given}
    assert kinds <= {None, "outcome_unknown"}
    assert "disk" not in " ".join(map(str, given))
    assert daemon.writer.state.read_only == "internal error: ZeroDivisionError, see the log"


@pytest.mark.parametrize(
    "corrupt",
    [
        lambda queue, lane: queue._ready.add(Lane()),
        lambda queue, lane: queue._ready.discard(lane),
        lambda queue, lane: lane.waiting.clear(),
        lambda queue, lane: queue._order.popitem(last=False),
    ],
)
def test_a_queue_whose_books_are_wrong_leaves_nobody_waiting_and_the_writer_at_rest(
    daemon: InProcess, corrupt: Callable[[FairQueue, Lane], None]
) -> None:
    async def answered() -> None:
        queue, lane = daemon.writer._queue, Lane()
        waiting = [daemon.writer.submit(lambda: None, each) for each in (lane, Lane())]
        corrupt(queue, lane)
        async with asyncio.timeout(20):
            await asyncio.gather(*waiting, return_exceptions=True)
            await daemon.writer.drain()
        assert queue.due_in() is None

    daemon.wait_for(answered())


def test_what_comes_in_a_pause_waits_for_its_end(daemon: InProcess) -> None:
    async def done() -> list[int]:
        done: list[int] = []
        before = daemon.writer.submit(partial(done.append, 1))
        with daemon.writer.pause():
            daemon.writer.submit(partial(done.append, 2))
            for _ in range(20):  # turns of the loop
                await asyncio.sleep(0)
            during = list(done)
        await before
        await daemon.writer.drain()
        return during + done

    assert daemon.wait_for(done()) == [1, 2]


def test_an_observation_of_nothing_leaves_nothing(daemon: InProcess, tmp_path: Path) -> None:
    async def observed() -> int:
        person = daemon.connect(control=True, peer=own_peer("person"))
        agent = daemon.connect(control=False, peer=own_peer("agent"))
        await person.call("workspace_allow", {"root": str(tmp_path / "w")})
        hello = {"protocol": 1, "workspace": str(tmp_path / "w"), "session": "s", "agent": "bot"}
        await agent.call("hello", hello)
        before = {"phase": "before", "paths": ["none.txt"], "use": "1"}
        await agent.call("observe", before)
        journal = daemon.writer.journal
        size = journal.bytes
        await agent.call("observe", {**before, "phase": "after", "request_id": "1"})
        return journal.bytes - size

    assert asyncio.run(observed()) == 0


def test_a_conflict_is_looked_up_once_where_nothing_was_committed_meanwhile(
    daemon: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[str] = []
    ask = daemon.writer.historian.ask

    async def noted(question: str, *more: Any) -> Any:
        questions.append(question)
        return await ask(question, *more)

    monkeypatch.setattr(Historian, "ask", staticmethod(noted))

    async def undone() -> None:
        person = daemon.connect(control=True, peer=own_peer("person"))
        await person.call("workspace_allow", {"root": str(tmp_path / "w")})
        await person.call("hello", {"protocol": 1, "workspace": str(tmp_path / "w")})
        made = []
        for text in ("one", "two"):
            patches = [{"operation": "overwrite", "newText": text}]
            made.append(await person.call("patch", {"path": "a", "patches": patches}))
        await person.call("undo", {"commits": [made[0].commit]})

    with pytest.raises(Refused, match="later changes are in the way"):
        asyncio.run(undone())
    assert questions.count("take back") == 1


def test_a_call_whose_client_is_gone_is_wanted_again_by_who_repeats_it(
    daemon: InProcess, turns: Turns, tmp_path: Path
) -> None:
    """Calls that nobody waits for are planned last."""
    patches = [{"operation": "overwrite", "newText": "x" * 2 * WRITER_PLANNING_BYTES}]
    hello = {"protocol": 1, "workspace": str(tmp_path / "w"), "session": "s", "agent": "bot"}

    async def asked() -> list[bool]:
        person = daemon.connect(control=True, peer=own_peer("person"))
        await person.call("workspace_allow", {"root": str(tmp_path / "w")})
        wanted: list[bool] = []
        calls = []
        for _ in range(2):
            agent = daemon.connect(control=False, peer=own_peer("agent"))
            await agent.call("hello", hello)
            call = agent.call("patch", {"path": "a", "patches": patches, "request_id": "r"})
            calls.append(asyncio.ensure_future(call))
            async with asyncio.timeout(20):
                while not turns.wanted:
                    await asyncio.sleep(0.01)
                while wanted and not daemon.on_loop(turns.wanted[0]):  # the repeated call arrives
                    await asyncio.sleep(0.01)
            wanted.append(daemon.on_loop(turns.wanted[0]))
            if len(wanted) == 1:
                agent.disconnected()
                wanted.append(daemon.on_loop(turns.wanted[0]))
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return wanted

    assert asyncio.run(asked()) == [True, False, True]
    assert len(turns.wanted) == 1


class Refusing(Turns):
    """Planners that give every call up."""

    @asynccontextmanager
    async def turn(self, wanted: Callable[[], bool]) -> AsyncIterator[None]:
        self.wanted.append(wanted)
        yield

    async def plan(self, *_: object) -> None:
        raise refuse(Kind.INPUT_TOO_LARGE, "planning this call took too long")


@pytest.mark.parametrize("turns", [Refusing()])
def test_a_call_that_planning_gives_up_is_not_planned_again_whatever_happened_before(
    daemon: InProcess, turns: Turns, tmp_path: Path
) -> None:
    """That is for what the historian says, which compares files with the history that it knew."""
    patches = [{"operation": "overwrite", "newText": "x" * 2 * WRITER_PLANNING_BYTES}]
    hello = {"protocol": 1, "workspace": str(tmp_path / "w"), "session": "s", "agent": "bot"}

    async def asked() -> None:
        person = daemon.connect(control=True, peer=own_peer("person"))
        await person.call("workspace_allow", {"root": str(tmp_path / "w")})
        agent = daemon.connect(control=False, peer=own_peer("agent"))
        await agent.call("hello", hello)
        [workspace] = daemon.writer.state.open.values()
        daemon.on_loop(lambda: workspace.note_commits(1, None))  # as after an abort
        await agent.call("patch", {"path": "a", "patches": patches})

    with pytest.raises(Refused, match="took too long"):
        asyncio.run(asked())
    assert len(turns.wanted) == 1


def call(lane: Lane, workspace: str = "w", *, alone: bool = False) -> EditJob:
    asked = SimpleNamespace(workspace=workspace, alone=alone)
    return EditJob(call=cast("Any", asked), future=cast("Any", None), lane=lane)


def test_calls_in_one_workspace_share_a_batch_but_none_passes_what_is_before_it_in_its_lane() -> (
    None
):
    first, second, third = Lane(), Lane(), Lane()
    one, task, behind = call(first), Waiting(lane=second, after_all=True), call(second)
    other, after = call(third), call(first)
    elsewhere, reads = call(Lane(), "another"), call(Lane(), alone=True)
    items: list[Waiting] = [one, task, behind, elsewhere, other, reads, after]
    assert _take_batch(items) == [one, other, after]
    assert items == [task, behind, elsewhere, reads]


def test_what_reads_the_history_or_the_files_has_a_batch_of_its_own() -> None:
    reads, other = call(Lane(), alone=True), call(Lane())
    items = [reads, other]
    assert _take_batch(items) == [reads]
    assert items == [other]
