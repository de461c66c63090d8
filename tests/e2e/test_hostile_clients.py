"""Clients that no daemon should have, each way on its own, end to end.

Whatever a client sends, it is answered or closed; the daemon lives, keeps its memory and its
handles bounded, and a good client beside it gets right answers. Frames and messages that are
just wrong are in test_bad_frames.py; all of it at once, in a crowd, is in
tests/rigs/test_hostile_crowd.py.
"""

from __future__ import annotations

import array
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from e2e.running_daemon import (
    BOTH,
    Client,
    ConnectionEnded,
    DaemonProcess,
    Site,
    eventually,
    faultless,
    running,
)
from historian.test_lost_historian import send
from stet.wire.failures import Kind
from stet.wire.framing import Encoding, enclose
from stetd.methods import METHODS

JSON, MSGPACK = Encoding.JSON, Encoding.MSGPACK
MIB = 1024 * 1024
#: What one connection's worst message may add to the daemon's memory: the message itself where
#: it is received, and once more as bytes to decode. Decoded blindly, it would be 1.2 GB.
ONE_MESSAGE_BYTES = 64 * MIB
HELD = 24 * MIB


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with faultless({"max_held_bytes": HELD, "log_level": '"error"'}) as process:
        yield process


@pytest.fixture(scope="module")
def site(daemon: DaemonProcess) -> Site:
    site = daemon.site("ws")
    site.write("a.txt", "one\n")
    site.write("large.txt", "a line of a large file\n" * 40_000)
    return site


def memory(pid: int) -> int:
    """What the process has resident; its peak begins here."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return in_status(pid, "VmRSS")


def in_status(pid: int, name: str) -> int:
    """A number of bytes that the kernel tells of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"the kernel does not tell {name}")


def handles(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def assert_still_right(site: Site) -> None:
    """The good client's edits are done, and its questions answered."""
    text = site.bytes_of("a.txt").decode()
    site.replace("a.txt", text, text + "more\n")
    assert site.agent.call("read", path="a.txt")["text"] == text + "more\n"


def refused_as(client: Client, kind: Kind) -> str:
    reply = client.receive()
    assert reply.error is not None
    assert kind == reply.error.data["kind"], reply.error.message
    return reply.error.message


def deep(encoding: Encoding, method: str, depth: int) -> bytes:
    """A call whose parameters nest so deep, made without nesting anything here."""
    if encoding is JSON:
        text = '{"id":7,"method":"%s","params":{"x":%s%s}}'
        return (text % (method, "[" * depth, "]" * depth)).encode()
    head = b"\x83\xa2id\x07\xa6method" + msgspec.msgpack.encode(method) + b"\xa6params\x81\xa1x"
    return head + b"\x91" * depth + b"\x90"


@pytest.mark.parametrize("encoding", BOTH, ids=str)
@pytest.mark.parametrize("control", [False, True], ids=["agent", "control"])
def test_parameters_of_every_method_that_nest_deep_are_refused(
    daemon: DaemonProcess, site: Site, encoding: Encoding, control: bool
) -> None:
    for method in METHODS:
        client = daemon.control(encoding) if control else daemon.agent(encoding)
        for depth in (9, 50_000):
            if encoding is JSON:
                client.call("status")  # says that it is JSON
            client.send_bytes(enclose(encoding, deep(encoding, method, depth)))
            reply = client.receive()
            assert reply.error is not None
            assert reply.error.data["kind"] == Kind.PARSE_ERROR, method
        client.close()
    assert_still_right(site)


@pytest.mark.parametrize("header", [b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"], ids=bytes.hex)
def test_a_header_that_claims_billions_takes_no_memory(
    daemon: DaemonProcess, site: Site, header: bytes
) -> None:
    before = memory(daemon.process.pid)
    for claimed in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"):
        bomb = b"\x82\xa6method\xa3log\xa6params\x81\xa1x" + header + claimed + b"\x90" * 40
        client = daemon.agent(MSGPACK)
        client.send_bytes(enclose(MSGPACK, bomb))
        refused_as(client, Kind.PARSE_ERROR)
        assert client.call("status")["protocol"] == 1
    assert in_status(daemon.process.pid, "VmHWM") - before < 8 * MIB
    assert_still_right(site)


@pytest.mark.parametrize("encoding", BOTH, ids=str)
def test_sixteen_megabytes_of_empty_lists_are_not_made(
    daemon: DaemonProcess, site: Site, encoding: Encoding
) -> None:
    if encoding is JSON:
        values = b'{"method":"log","params":{"x":[' + b"[]," * (5 * MIB) + b"[]]}}"
    else:
        count = 15 * MIB
        head = b"\x82\xa6method\xa3log\xa6params\x81\xa1x\xdd" + count.to_bytes(4, "big")
        values = head + b"\x90" * count
    before = memory(daemon.process.pid)
    for _ in range(3):
        client = daemon.agent(encoding)
        client.send_bytes(enclose(encoding, values))
        assert "100,000 values" in refused_as(client, Kind.INPUT_TOO_LARGE)
    assert in_status(daemon.process.pid, "VmHWM") - before < ONE_MESSAGE_BYTES
    assert_still_right(site)


@pytest.mark.parametrize(
    "number",
    [b"1" + b"0" * 400_000, b"-9223372036854775809", b"1e999", b"NaN", b"Infinity", b"-Infinity"],
    ids=["400,000 digits", "below 64 bits", "1e999", "NaN", "Infinity", "-Infinity"],
)
def test_numbers_that_are_none_of_ours_are_refused(
    daemon: DaemonProcess, site: Site, number: bytes
) -> None:
    client = daemon.agent(JSON)
    client.send_bytes(b'{"id":1,"method":"log","params":{"since":' + number + b"}}\n")
    refused_as(client, Kind.PARSE_ERROR)
    assert client.call("status")["protocol"] == 1
    assert_still_right(site)


def test_of_a_name_that_comes_twice_the_last_counts(site: Site) -> None:
    client = site.agent
    client.send_bytes(
        b'{"id":1,"id":"two","method":"show","method":"read",'
        b'"params":{"path":"large.txt","path":"a.txt"}}\n'
    )
    reply = client.receive()
    assert reply.id == "two"
    assert client.result_of(reply)["text"].encode() == site.bytes_of("a.txt")


@pytest.mark.parametrize("encoding", BOTH, ids=str)
def test_a_byte_at_a_time_holds_up_nobody_and_is_answered_in_the_end(
    daemon: DaemonProcess, site: Site, encoding: Encoding
) -> None:
    slow = daemon.agent(encoding)
    for byte in slow.frame("status", 1, {}):
        slow.send_bytes(bytes([byte]))
        assert site.agent.call("read", path="a.txt")["eol"] == "lf"
    assert slow.result_of(slow.receive())["protocol"] == 1


def test_who_vanishes_in_the_middle_leaves_nothing_behind(
    daemon: DaemonProcess, site: Site
) -> None:
    pid = daemon.process.pid
    assert_still_right(site)
    opened = handles(pid)
    for round_number in range(30):
        client = daemon.agent(BOTH[round_number % 2])
        if round_number % 3:
            site.greeted(client, session="vanishing")
            for number in range(20):  # replies of megabytes, which it will not read
                client.send_bytes(client.frame("read", number, {"path": "large.txt"}))
        client.send_bytes(client.frame("status", 99, {})[:-2])
        client.close()
    assert_still_right(site)
    assert eventually(lambda: handles(pid) <= opened + 4)


def test_file_descriptors_that_are_sent_along_are_closed(daemon: DaemonProcess, site: Site) -> None:
    pid = daemon.process.pid
    client = daemon.agent()
    client.call("status")
    opened = handles(pid)
    with open(os.devnull, "rb") as null:
        rights = array.array("i", [null.fileno()] * 50)
        for number in range(100):
            frame = client.frame("status", number, {})
            client.socket.sendmsg([frame], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            assert client.receive().id == number
    assert eventually(lambda: handles(pid) <= opened)  # a checkpoint has files open for a moment
    assert_still_right(site)


def test_who_reads_no_answers_takes_no_memory_and_holds_up_nobody(
    daemon: DaemonProcess, site: Site
) -> None:
    before = memory(daemon.process.pid)
    deaf = [site.greeted(daemon.agent(), session=f"deaf-{n}") for n in range(8)]
    for client in deaf:
        client.socket.settimeout(0.2)
        frames = b"".join(client.frame("read", n, {"path": "large.txt"}) for n in range(20_000))
        with pytest.raises(TimeoutError):
            client.send_bytes(frames)
    for _ in range(5):
        assert_still_right(site)
    # Each has 64 calls in work, with an answer of a megabyte: half a gigabyte in all.
    assert in_status(daemon.process.pid, "VmHWM") - before < HELD + ONE_MESSAGE_BYTES


def test_large_frames_that_never_end_are_given_up_when_they_are_too_much_together(
    daemon: DaemonProcess, site: Site
) -> None:
    before = memory(daemon.process.pid)
    clients = [daemon.agent(MSGPACK) for _ in range(6)]
    told = 0
    for client in clients:
        client.socket.settimeout(20)
        try:
            client.send_bytes((15 * MIB).to_bytes(4, "big"))
            for _ in range(14):
                client.send_bytes(bytes(MIB))
        except OSError:
            pass  # it was closed while it was sending: the answer is there all the same
    # One of these fits.
    assert eventually(lambda: sum(not client.is_silent() for client in clients) >= 5)
    for client in clients:
        client.socket.settimeout(1)
        try:
            message = refused_as(client, Kind.OVERLOADED)
        except (TimeoutError, ConnectionEnded):
            continue
        assert "max_held_bytes" in message
        told += 1
    assert told >= 4
    assert in_status(daemon.process.pid, "VmHWM") - before < HELD + ONE_MESSAGE_BYTES
    assert_still_right(site)


def test_a_large_edit_goes_through_while_others_hold_what_they_can(
    daemon: DaemonProcess, site: Site
) -> None:
    for _ in range(12):
        client = daemon.agent(MSGPACK)
        client.send_bytes((15 * MIB).to_bytes(4, "big") + bytes(2 * MIB))
    text = "a line\n" * 15_000
    site.overwrite("b.txt", text)
    assert site.bytes_of("b.txt") == text.encode()


def test_one_who_floods_does_not_keep_another_waiting_for_all_of_it(
    daemon: DaemonProcess, site: Site
) -> None:
    """64 calls of each flooder are in work, and the good client's comes after them."""
    flooders = [site.greeted(daemon.agent(), session=f"flood-{n}") for n in range(20)]
    daemon.process.send_signal(signal.SIGSTOP)  # so that none of them is done too early
    for number, client in enumerate(flooders):
        for step in range(64):
            patch = {"operation": "overwrite", "newText": f"{step}\n"}
            params = {"path": f"f{number}.txt", "patches": [patch]}
            client.send_bytes(client.frame("patch", step, params))
    writes = [{"operation": "overwrite", "newText": "good\n"}]
    site.agent.send("patch", path="good.txt", patches=writes)
    daemon.process.send_signal(signal.SIGCONT)
    good = site.agent.result_of(site.agent.receive())
    answered = {
        client: sum(1 for _ in range(64) if client.receive().id is not None) for client in flooders
    }
    assert set(answered.values()) == {64}
    order = [each["commit"] for each in reversed(site.log(limit=1000))]
    assert order[-1] != good["commit"]  # it was not the last, though it came last
    for number in range(20):  # and the order of each connection was kept
        assert site.bytes_of(f"f{number}.txt") == b"63\n"


def test_who_asks_for_much_and_goes_again_and_again_is_given_up(
    daemon: DaemonProcess, site: Site
) -> None:
    old = "".join(f"line {n} of no file\n" for n in range(20))
    slow = {"path": "large.txt", "patches": [{"operation": "replace", "oldText": old}]}
    for number in range(30):
        client = site.greeted(daemon.agent(), session="hasty")
        frames = b"".join(client.frame("patch", n, slow) for n in range(64))
        client.send_bytes(frames)
        client.close()
        if number % 10 == 0:
            assert_still_right(site)
    assert_still_right(site)


def test_what_a_client_that_is_gone_has_asked_is_looked_up_no_more() -> None:
    """A hundred that asked for sixty blames each, and left, kept everybody's log for minutes."""
    with running({"log_level": '"info"'}) as daemon:
        site = daemon.site("w")
        historian = send(daemon, signal.SIGSTOP)
        client = site.another("hasty")
        for _ in range(20):
            client.send("log")
        client.until_begun()
        client.close()
        for _ in range(2):  # its end is read before the second is answered
            site.agent.call("mode_get")
        os.kill(historian, signal.SIGCONT)
        assert eventually(lambda: daemon.log().count("method=log") == 20)
        results = re.findall(r"method=log .*result=(\w+)", daemon.log())
        assert results == ["ok", *["overloaded"] * 19]


def test_what_a_client_that_is_gone_has_done_is_recorded(site: Site) -> None:
    commit = site.overwrite("pinned.txt", "one\n")["commit"]
    hook, person = site.another("hook"), site.greeted(site.daemon.control())
    hook.call("observe", phase="before", tool="Bash", use="u1")
    site.write("b.txt", "by the tool\n")
    historian = send(site.daemon, signal.SIGSTOP)
    for client in (hook, person):
        client.send("log")  # what comes next is asked when this is answered
    hook.send("observe", phase="after", tool="Bash", use="u1")
    person.send("pin_set", name="good", commit=commit)
    for client in (hook, person):
        client.until_begun()
        client.close()
    for _ in range(2):  # their ends are read before the second is answered
        site.agent.call("mode_get")
    os.kill(historian, signal.SIGCONT)
    assert eventually(lambda: site.kinds(limit=1) == ["observed"])
    assert eventually(lambda: site.person.call("pin_list")["pins"])


def test_hundreds_of_idle_connections_cost_little(daemon: DaemonProcess, site: Site) -> None:
    before = memory(daemon.process.pid)
    idle = [daemon.agent(BOTH[n % 2]) for n in range(300)]
    assert_still_right(site)
    assert in_status(daemon.process.pid, "VmHWM") - before < 16 * MIB
    for client in idle[::50]:
        assert client.call("status")["protocol"] == 1
