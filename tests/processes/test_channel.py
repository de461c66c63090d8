"""What a process that plans and the daemon say is data, whole, and in time, or it is not heard."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from memory_world import MemoryWorld
from stet.wire.failures import Kind, Refused, refuse
from stetd.editing.edits import SourceFile
from stetd.processes.channel import (
    Call,
    Channel,
    ChannelBroken,
    ClipboardsAnswer,
    DaemonChannel,
    Exhausted,
    Ready,
    Said,
    answered,
    asked,
    understood,
)
from stetd.processes.framing import Declined
from stetd.processes.planner import Planner, PlannerLost, begin_planner
from stetd.processes.recorded_plans import Answer, Question

WORLD = MemoryWorld({"a.txt": b"one\n"})
EDIT = {"path": "a.txt", "patches": [{"operation": "replace", "oldText": "one", "newText": "2"}]}
ASKED = asked(("read", "a.txt"))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def soon() -> float:
    return time.monotonic() + 0.2


def message(content: bytes, size: int | None = None) -> bytes:
    """A message; ``size``: what it says of its length, if that is not so."""
    return struct.pack("!I", len(content) if size is None else size) + content


def said(message_: Said) -> bytes:
    return message(msgspec.msgpack.encode(message_))


class Runs:
    """Makes a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def cramped() -> Iterator[Planner]:
    """A process that plans and has little memory."""
    planner = asyncio.run(begin_planner(400 << 20))
    yield planner
    planner.close()


def ended(planner: Planner) -> bool:
    """Whether its process comes to an end."""
    process = planner._process
    assert process is not None
    return process.wait(30) == 0


def test_without_memory_for_a_file_nothing_in_it_is_taken_for_a_message(
    cramped: Planner, tmp_path: Path
) -> None:
    pickled = pickle.dumps(Runs(tmp_path / "ran"))
    data = struct.pack("!i", len(pickled)) + pickled + b"\n" * (96 << 20)
    recorded = asyncio.run(
        cramped.plan("patch", EDIT, MemoryWorld({"a.txt": data}), time.monotonic() + 60)
    )
    assert isinstance(recorded.outcome, Refused)
    assert recorded.outcome.message.startswith("Planning this call takes too much memory")
    with pytest.raises(PlannerLost):
        asyncio.run(cramped.plan("patch", EDIT, WORLD, time.monotonic() + 60))
    assert [] == list(tmp_path.iterdir())


def test_without_memory_for_a_call_it_is_refused_and_the_process_ends(cramped: Planner) -> None:
    params = {"path": "a.txt", "patches": ["x" * (96 << 20)]}
    recorded = asyncio.run(cramped.plan("patch", params, WORLD, time.monotonic() + 60))
    assert isinstance(recorded.outcome, Refused)
    assert recorded.outcome.message.startswith("Planning this call takes too much memory")
    assert ended(cramped)


def test_without_memory_to_plan_a_call_it_is_refused_and_the_process_ends(
    cramped: Planner,
) -> None:
    world = MemoryWorld({"a.txt": b"a" * (20 << 20) + "\U0001f600".encode()})
    recorded = asyncio.run(cramped.plan("patch", EDIT, world, time.monotonic() + 60))
    assert isinstance(recorded.outcome, Refused)
    assert recorded.outcome.message.startswith("Planning this call takes too much memory")
    assert ended(cramped)


ANSWERS: dict[str, Answer] = {
    "a file": SourceFile("a.txt", b"one\n", 0o100644),
    "an empty file": SourceFile("a.txt", b""),
    "no file": SourceFile("a.txt", None),
    "a name that is no text": SourceFile("caf\udce9", b"\xff\0"),
    "half a character": SourceFile("caf\ud83d", None),
    "clipboards": {"c": "kept\n"},
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_heard_as_it_was_said(
    ends: tuple[socket.socket, socket.socket], name: str
) -> None:
    ours, theirs = map(Channel, ends)
    ours.send(answered(ANSWERS[name]))
    assert ANSWERS[name] == understood(theirs.receive())


def test_a_refusal_is_heard_as_it_was_said(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = map(Channel, ends)
    refusal = refuse(Kind.STALE, "no", path="a.txt", candidates=[1, 2])
    refusal.extra = {"conflicts": [{"path": "a.txt", "hunks": ["x"]}]}
    ours.send(answered(refusal))
    heard = understood(theirs.receive())
    assert isinstance(heard, Refused)
    assert (refusal.failures, refusal.extra) == (heard.failures, heard.extra)


@pytest.mark.parametrize("question", [("read", "a.txt"), ("look", "caf\udce9")])
def test_a_question_is_heard_as_it_was_asked(question: Question) -> None:
    assert question == asked(question).question


NO_MESSAGES = {
    "nothing": b"",
    "half a length": b"\0\0",
    "half a message": message(b"\x80", 2),
    "no MessagePack": message(b"\xc1"),
    "no message of ours": message(msgspec.msgpack.encode({"type": "Call", "method": 1})),
    "text that is none": message(b"\x81\xa4type\xa4\xff\xff\xff\xff"),
    "a pickle": pickle.dumps({"a": 1}) * 3,
}


@pytest.mark.parametrize("name", NO_MESSAGES)
def test_what_is_no_whole_message_is_not_heard(
    ends: tuple[socket.socket, socket.socket], name: str
) -> None:
    ours, theirs = ends
    theirs.sendall(NO_MESSAGES[name])
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ChannelBroken):
        Channel(ours).receive()


SILENT = {
    "at once": b"",
    "in a length": b"\0\0",
    "in a message": message(b"\x80", 2),
}


@pytest.mark.parametrize("name", SILENT)
def test_a_process_that_falls_silent_anywhere_is_too_late_and_of_no_more_use(
    ends: tuple[socket.socket, socket.socket], name: str
) -> None:
    ours, theirs = ends
    theirs.sendall(SILENT[name])
    planner = Planner(DaemonChannel(ours))
    recorded = asyncio.run(planner.plan("patch", EDIT, WORLD, soon()))
    assert isinstance(recorded.outcome, Refused)
    assert recorded.outcome.message.startswith("Planning this call took too long")
    with pytest.raises(PlannerLost):
        asyncio.run(planner.plan("patch", EDIT, WORLD, soon()))


def test_a_process_that_does_not_listen_is_too_late(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    planner = Planner(DaemonChannel(ends[0]))
    recorded = asyncio.run(planner.plan("patch", {"path": "x" * (8 << 20)}, WORLD, soon()))
    assert isinstance(recorded.outcome, Refused)
    with pytest.raises(PlannerLost):
        asyncio.run(planner.plan("patch", EDIT, WORLD, soon()))


OUT_OF_PLACE = {
    "no message": message(b"\xc1"),
    "an answer": said(ClipboardsAnswer(clipboards={})),
    "a call": said(Call(method="patch", params={}, root=b"/")),
    "what was said at the beginning": said(Ready(version="")),
}


@pytest.mark.parametrize("name", OUT_OF_PLACE)
def test_what_is_no_outcome_of_planning_is_not_taken_for_one(
    ends: tuple[socket.socket, socket.socket], name: str
) -> None:
    ours, theirs = ends
    theirs.sendall(OUT_OF_PLACE[name])
    planner = Planner(DaemonChannel(ours))
    with pytest.raises(PlannerLost):
        asyncio.run(planner.plan("patch", EDIT, WORLD, soon()))


def test_why_a_process_ended_is_heard_though_it_was_not_listening_any_more(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    data = b"\n" * (8 << 20)

    def end_early() -> None:
        channel = Channel(theirs)
        channel.receive()
        channel.send(ASKED)
        theirs.recv(1)
        channel.send(Exhausted())
        theirs.close()

    ending = threading.Thread(target=end_early)
    ending.start()
    planner = Planner(DaemonChannel(ours))
    recorded = asyncio.run(
        planner.plan("patch", EDIT, MemoryWorld({"a.txt": data}), time.monotonic() + 60)
    )
    ending.join()
    assert isinstance(recorded.outcome, Refused)
    assert recorded.outcome.message.startswith("Planning this call takes too much memory")


def test_what_can_not_be_encoded_is_not_begun(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = map(Channel, ends)
    with pytest.raises(UnicodeEncodeError):
        ours.send(ClipboardsAnswer(clipboards={"c": "\udce9"}))
    ours.send(Exhausted())
    assert theirs.receive() == Exhausted()


def test_a_refusal_is_no_answer_to_be_taken_for_a_file() -> None:
    assert isinstance(understood(Declined.of(refuse(Kind.STALE, "no"))), Refused)
    with pytest.raises(ChannelBroken):
        understood(Exhausted())
