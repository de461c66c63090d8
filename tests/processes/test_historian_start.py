"""What a historian is told first, whatever happens meanwhile; when it is taken to hang; its end."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest

from stet.wire.failures import Kind, Refused
from stetd import __version__
from stetd.config.settings import Settings
from stetd.processes import children, historian_client
from stetd.processes import historian_messages as messages
from stetd.processes.historian_client import Historian, HistorianLost, Run, start_process
from stetd.storage.journal import Position


class Peer:
    """The other end of the socket, instead of a process."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.killed = False

    def kill(self) -> None:
        self.killed = True
        self.socket.close()

    def wait(self) -> int:
        return 0


class Peers:
    """All that were started, one after the other."""

    def __init__(self) -> None:
        self.all: list[Peer] = []

    def run(self) -> tuple[socket.socket, Peer]:
        near, far = socket.socketpair()
        self.all.append(Peer(far))
        return near, self.all[-1]


async def ended(historian: Historian, peers: Peers) -> None:
    """The last one is gone, and none is started any more."""
    assert historian._keeping is not None
    historian._closing = True
    peers.all[-1].kill()
    await historian._keeping


def historian_by(run: Run, position: Callable[[], Position] = lambda: Position(1, 8)) -> Historian:
    loop = asyncio.get_running_loop()
    return Historian(loop, "/state", Settings(), run, messages.StartingPoint(), position)


@pytest.mark.parametrize("turns", range(6))
def test_it_is_told_where_to_begin_before_anything_else(turns: int) -> None:
    peers = Peers()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        journal = Position(1, 8)
        historian = historian_by(peers.run, lambda: journal)
        starting = loop.create_task(historian.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        journal = Position(1, 80)
        historian._send_position()
        asked = loop.create_task(historian.ask("log", {}, str))
        await starting
        await asyncio.sleep(0.05)
        first = messages.receive(peers.all[0].socket)
        assert isinstance(first, messages.Begin)
        asked.cancel()
        historian._closing = True
        peers.all[0].kill()

    asyncio.run(story())


def test_a_question_is_refused_while_none_can_be_started() -> None:
    """Its program is replaced just now, or there are too many processes."""

    def run() -> tuple[socket.socket, Peer]:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    async def story() -> None:
        historian = historian_by(run)
        await historian.start()
        with pytest.raises(Refused) as refused:
            await asyncio.wait_for(historian.ask("log", {}, str), 20)
        assert refused.value.kind == Kind.OVERLOADED
        assert historian.trouble is not None
        assert os.strerror(errno.EAGAIN) in historian.trouble
        await historian.close()

    asyncio.run(story())


def test_a_question_counts_as_asked_when_it_was_sent() -> None:
    """Else one that came while none was running was refused after one loss, as of two."""
    peers = Peers()

    async def story() -> None:
        historian = historian_by(peers.run)
        await historian.start()
        peers.all[0].kill()
        async with asyncio.timeout(20):
            while historian._writer is not None:
                await asyncio.sleep(0)
            asked = asyncio.ensure_future(historian.ask("log", {}, str))
            for number in (1, 2):
                while len(peers.all) <= number or historian._writer is None:
                    await asyncio.sleep(0.01)
                assert not asked.done()
                peers.all[number].kill()
                while historian._writer is not None:
                    await asyncio.sleep(0.01)
            with pytest.raises(Refused, match="ended unexpectedly, twice"):
                await asked
            await ended(historian, peers)

    asyncio.run(story())


def test_a_checkpoint_that_it_leaves_undone_is_told_why() -> None:
    """The log said "no checkpoint could be taken", and nothing behind it."""
    peers = Peers()

    async def story() -> None:
        historian = historian_by(peers.run)
        await historian.start()
        asked = asyncio.ensure_future(historian.make_durable([]))
        await asyncio.sleep(0)
        peers.all[0].kill()
        with pytest.raises(HistorianLost, match="the historian has ended"):
            await asyncio.wait_for(asked, 20)
        historian._closing = True
        for peer in peers.all:
            peer.kill()

    asyncio.run(story())


def test_one_that_is_asked_something_is_to_give_a_sign_and_is_ended_without_any() -> None:
    peers = Peers()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        historian = historian_by(peers.run)
        await historian.start()
        (peer,) = peers.all
        peer.socket.settimeout(20)
        historian._heard_at -= 31
        historian._watch()
        assert not peer.killed  # nothing is wanted of it
        asked = loop.create_task(historian.ask("log", {}, str))
        await asyncio.sleep(0)
        historian._watch()
        while not isinstance(messages.receive(peer.socket), messages.Ping):
            pass
        assert not peer.killed
        historian._heard_at -= 31
        historian._watch()
        assert peer.killed
        historian._closing = True
        asked.cancel()

    asyncio.run(story())


def test_when_another_one_has_begun_there_is_no_trouble_any_more() -> None:
    peers = Peers()

    async def story() -> None:
        historian = historian_by(peers.run)
        await historian.start()
        peers.all[0].kill()
        async with asyncio.timeout(20):
            while historian.trouble is None:
                await asyncio.sleep(0.01)
            while historian.trouble is not None:
                await asyncio.sleep(0.01)
        assert len(peers.all) == 2
        historian._closing = True
        peers.all[1].kill()

    asyncio.run(story())


def test_one_that_is_not_understood_is_ended_and_another_one_is_started(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peers = Peers()

    async def story() -> None:
        historian = historian_by(peers.run)
        await historian.start()
        peers.all[0].socket.sendall(b"\0\0\0\1\xc1")
        async with asyncio.timeout(20):
            while len(peers.all) < 2:
                await asyncio.sleep(0.01)
        assert peers.all[0].killed
        historian._closing = True
        peers.all[1].kill()

    asyncio.run(story())
    assert "the historian is not understood" in caplog.text


def test_a_stop_waits_until_it_has_ended() -> None:
    peers = Peers()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        historian = historian_by(peers.run)
        await historian.start()
        closing = loop.create_task(historian.close())
        await asyncio.sleep(0)
        peers.all[0].socket.settimeout(20)
        while not isinstance(messages.receive(peers.all[0].socket), messages.End):
            pass
        assert not closing.done()
        peers.all[0].socket.close()
        await asyncio.wait_for(closing, 20)

    asyncio.run(story())


def test_one_of_another_version_is_not_used_and_the_log_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(historian_client, "__version__", "0.0")

    async def story() -> None:
        loop = asyncio.get_running_loop()
        historian = Historian(
            loop,
            "/state",
            Settings(),
            start_process,
            messages.StartingPoint(),
            lambda: Position(1, 8),
        )
        await historian.start()
        async with asyncio.timeout(20):
            while f"stetd was upgraded to {__version__} meanwhile: restart it" not in caplog.text:
                await asyncio.sleep(0.01)
            with pytest.raises(Refused, match=f"upgraded to {__version__} meanwhile: restart it"):
                await historian.ask("reached", "/state/workspaces/w", type(None))
            while historian.trouble is None:
                await asyncio.sleep(0.01)
        assert f"upgraded to {__version__} meanwhile: restart it" in historian.trouble
        await historian.close()

    asyncio.run(story())


def test_a_first_message_of_another_form_is_told_from_a_damaged_one() -> None:
    """What the messages say changes from version to version: the engine heard of a crash only."""
    connected, process = start_process()
    try:
        content = msgspec.msgpack.encode({"type": "Begin", "version": "0.0", "other": 1})
        connected.sendall(children.LENGTH.pack(len(content)) + content)
        answer = children.receive(connected)
        assert answer is not None
        expected = messages.OtherVersion(version=__version__)
        assert msgspec.msgpack.decode(answer, type=messages.OtherVersion) == expected
        assert process.wait() == 0
    finally:
        connected.close()
        process.kill()
        process.wait()


@pytest.mark.parametrize(("soon_s", "pauses"), [(1e9, [1, 2, 4]), (-1.0, [1, 1, 1])])
def test_the_pause_before_another_one_grows_until_one_has_lasted(
    soon_s: float, pauses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    peers, slept, sleep = Peers(), list[float](), asyncio.sleep

    async def sleep_at_once(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    async def story() -> None:
        historian = historian_by(peers.run)
        await historian.start()
        monkeypatch.setattr(asyncio, "sleep", sleep_at_once)
        async with asyncio.timeout(20):
            for count in range(1, 4):
                peers.all[-1].kill()
                while len(peers.all) == count:
                    await sleep(0.01)
        await ended(historian, peers)

    monkeypatch.setattr(historian_client, "_SOON_S", soon_s)
    asyncio.run(story())
    assert slept == [historian_client._RESTART_PAUSE_S * pause for pause in pauses]


def test_an_answer_that_comes_when_nobody_waits_any_more_is_dropped() -> None:
    peers = Peers()

    async def story() -> None:
        historian = historian_by(peers.run)
        await historian.start()
        asked = asyncio.create_task(historian.ask("log", {}, str))
        await asyncio.sleep(0)
        [number] = historian._waiting
        asked.cancel()
        historian._handle(messages.Answer(id=number, outcome=messages.Found(result=msgspec.Raw())))
        await ended(historian, peers)

    asyncio.run(story())


@pytest.mark.parametrize(("fails", "status"), [("", 0), ("raise OSError", 1)])
def test_a_historian_that_ends_waits_for_no_thread(fails: str, status: int) -> None:
    program = f"""
import sys, time
from stetd.historian import process

def serve(historian):
    historian._workers.submit(time.sleep, 60)
    {fails}

process.Historian.serve = serve
process.main([sys.argv[1], "CRITICAL"])
"""
    near, far = socket.socketpair()
    with near, far:
        command = [sys.executable, "-c", program, str(far.fileno())]
        ended = subprocess.run(command, pass_fds=[far.fileno()], timeout=30, check=False)
    assert ended.returncode == status
