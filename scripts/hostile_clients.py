"""Clients that no daemon should have: each connection does one thing wrong, over and over.

    python scripts/hostile_clients.py SOCKET WORKSPACE --connections N --idle N [--only WAY]

What lives here: the ways of being hostile, one function a way, each a round on a connection of
its own; they are repeated until the process is told to end (its standard input closes), at
least once each. Nothing is asserted here. Used by ``scripts/bench --hostile`` and by a rig of
the tests.

The files that these clients edit are their own (``hostile-N.txt``), so that whoever is good can
tell what became of its own.
"""

from __future__ import annotations

import argparse
import array
import json
import os
import random
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

#: Seconds that a hostile client waits for an answer, or for room in its socket.
_PATIENCE_S = 5.0
#: Seconds that it goes on at most, when told to end, for a whole round of each way.
_LAST_ROUND_S = 60.0
_MIB = 1024 * 1024
#: Bytes of stack for each thread: there are many.
_STACK = 256 * 1024


@dataclass(slots=True)
class Attacker:
    """One hostile client: where it connects, and its dice."""

    path: str
    workspace: str
    number: int
    random: random.Random

    @property
    def file(self) -> str:
        """The file that this client edits."""
        return f"hostile-{self.number}.txt"

    def connected(self) -> socket.socket:
        """A new connection, on which nothing was sent."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_PATIENCE_S)
        connection.connect(self.path)
        return connection

    def greeted(self) -> socket.socket:
        """A connection that speaks JSON and has said hello."""
        connection = self.connected()
        hello = {"protocol": 1, "workspace": self.workspace, "session": f"hostile-{self.number}"}
        connection.sendall(request("hello", hello))
        connection.recv(1 << 16)
        return connection


def request(method: str, params: dict[str, Any], number: int = 0) -> bytes:
    """A request as a line."""
    return json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n"


def framed(payload: bytes) -> bytes:
    """A payload of MessagePack as a frame."""
    return len(payload).to_bytes(4, "big") + payload


def drain(connection: socket.socket, most: int = 1 << 20) -> None:
    """Read what comes until nothing does for a moment, or ``most`` bytes have come."""
    connection.settimeout(0.2)
    with suppress(OSError):
        while most > 0 and (data := connection.recv(1 << 16)):
            most -= len(data)


# -- the ways


def garbage(one: Attacker) -> None:
    """Random bytes, as either encoding."""
    with one.connected() as connection:
        first = one.random.choice([b"{", b"\xc1", b"\x00\x00\x00\x20"])
        connection.sendall(first + one.random.randbytes(one.random.randrange(1, 4000)) + b"\n")
        drain(connection)


def oversized(one: Attacker) -> None:
    """A length of 4 GiB, or a line without an end."""
    with one.connected() as connection:
        if one.random.random() < 0.5:
            connection.sendall(b"\xff\xff\xff\xff" + bytes(4096))
        else:
            for _ in range(20):
                connection.sendall(b'{"' + b"x" * _MIB)
        drain(connection)


def nested(one: Attacker) -> None:
    """A call with parameters nested thousands deep."""
    method = one.random.choice(["patch", "log", "undo", "hello"])
    deep = 100_000
    with one.connected() as connection:
        if one.random.random() < 0.5:
            text = '{"id":1,"method":"%s","params":{"x":%s%s}}\n'
            connection.sendall((text % (method, "[" * deep, "]" * deep)).encode())
        else:
            head = b"\x82\xa6method" + msgspec.msgpack.encode(method) + b"\xa6params\x81\xa1x"
            connection.sendall(framed(head + b"\x91" * deep + b"\x90"))
        drain(connection)


def bomb(one: Attacker) -> None:
    """Megabytes of empty lists, or headers that claim billions of elements."""
    with one.connected() as connection:
        kind = one.random.randrange(3)
        if kind == 0:
            header = one.random.choice([b"\xdd", b"\xdf", b"\xc6", b"\xdb"]) + b"\xff\xff\xff\xff"
            connection.sendall(framed(b"\x82\xa6method\xa3log\xa6params\x81\xa1x" + header))
        elif kind == 1:
            count = 15 * _MIB
            head = b"\x82\xa6method\xa3log\xa6params\x81\xa1x\xdd" + count.to_bytes(4, "big")
            connection.sendall(framed(head + b"\x90" * count))
        else:
            values = b"[]," * (5 * _MIB)
            connection.sendall(b'{"method":"log","params":{"x":[' + values + b"[]]}}\n")
        drain(connection)


def byte_at_a_time(one: Attacker) -> None:
    """A sound request, so slowly that it never ends."""
    with one.connected() as connection:
        for byte in request("status", {"x": "y" * 200})[:-1]:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)


def half_a_large_frame(one: Attacker) -> None:
    """15 MiB of a frame, then nothing for a while: memory that is held for no call."""
    with one.connected() as connection:
        connection.sendall((15 * _MIB + 1).to_bytes(4, "big"))
        for _ in range(15):
            connection.sendall(bytes(_MIB))
        time.sleep(5.0)


def never_reads(one: Attacker) -> None:
    """Thousands of requests with long answers, none of which is read."""
    with one.greeted() as connection:
        connection.settimeout(1.0)
        with suppress(OSError):
            for number in range(20_000):
                connection.sendall(request("read", {"path": "large.txt"}, number))
        time.sleep(1.0)


def vanishes(one: Attacker) -> None:
    """Requests in work and half of another one, and gone."""
    with one.greeted() as connection:
        edits = b"".join(request("patch", rewriting(one, n), n) for n in range(8))
        connection.sendall(edits + request("log", {})[:-4])


def half_closes(one: Attacker) -> None:
    """Closes its side at once, and reads later."""
    with one.greeted() as connection:
        connection.sendall(b"".join(request("read", {"path": "large.txt"}, n) for n in range(20)))
        connection.shutdown(socket.SHUT_WR)
        time.sleep(0.2)
        drain(connection)


def floods_with_edits(one: Attacker) -> None:
    """Hundreds of sound edits in flight."""
    _flood(one, [request("patch", rewriting(one, n), n) for n in range(300)])


def floods_with_misses(one: Attacker) -> None:
    """Hundreds of edits in flight of which none is found, so that the nearest is looked for."""
    old = "".join(f"line {n} of no file\n" for n in range(20))
    params = {"path": "large.txt", "patches": [{"operation": "replace", "oldText": old}]}
    _flood(one, [request("patch", params, n) for n in range(300)])


def floods_with_reads(one: Attacker) -> None:
    """Hundreds of questions in flight."""
    ask: list[tuple[str, dict[str, Any]]] = [
        ("log", {"limit": 50}),
        ("status", {}),
        ("read", {"path": "large.txt"}),
        ("diff", {}),
    ]
    _flood(one, [request(*ask[n % len(ask)], n) for n in range(300)])


def floods_with_nonsense(one: Attacker) -> None:
    """Thousands of messages that are no requests."""
    _flood(one, [b'{"id": %d, "mehtod": 5}\n' % n for n in range(5_000)])


def slow_pattern(one: Attacker) -> None:
    """A regular expression that takes exponential time."""
    with one.greeted() as connection:
        change = {"search": "(?:a|a)*$", "replace": "b", "regex": True}
        connection.sendall(request("patch_file", {"path": "exponential.txt", "changes": [change]}))
        drain(connection)


def large_edit(one: Attacker) -> None:
    """A file of megabytes, written anew."""
    with one.greeted() as connection:
        text = "".join(f"{one.random.random()}\n" for _ in range(100)) * 2_000
        patch = {"operation": "overwrite", "newText": text}
        params = {"path": f"large-{one.file}", "patches": [patch]}
        connection.sendall(request("patch", params))
        drain(connection, 1 << 26)


def sends_descriptors(one: Attacker) -> None:
    """File descriptors with the bytes."""
    with one.connected() as connection, open(os.devnull, "rb") as null:
        sent = array.array("i", [null.fileno()] * 100)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)]
        for _ in range(20):
            connection.sendmsg([request("status", {})], rights)
        drain(connection)


def comes_and_goes(one: Attacker) -> None:
    """Connections that say nothing."""
    for _ in range(50):
        one.connected().close()


def rewriting(one: Attacker, number: int) -> dict[str, Any]:
    """A small edit of this client's own file."""
    patch = {"operation": "overwrite", "newText": f"{number} {one.random.random()}\n"}
    return {"path": one.file, "patches": [patch]}


def _flood(one: Attacker, requests: list[bytes]) -> None:
    """Send everything at once, and read the answers beside: as many as come soon."""
    ends = time.monotonic() + _PATIENCE_S
    with one.greeted() as connection:
        sending = threading.Thread(target=_send, args=(connection, b"".join(requests)))
        sending.start()
        with suppress(OSError):
            answers = connection.makefile("rb")
            for _ in requests:
                if time.monotonic() > ends or not answers.readline():
                    break
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        sending.join()


def _send(connection: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        connection.sendall(data)


WAYS: tuple[Callable[[Attacker], None], ...] = (
    floods_with_edits,
    garbage,
    floods_with_misses,
    bomb,
    floods_with_reads,
    slow_pattern,
    oversized,
    never_reads,
    large_edit,
    nested,
    byte_at_a_time,
    half_a_large_frame,
    vanishes,
    half_closes,
    floods_with_nonsense,
    sends_descriptors,
    comes_and_goes,
)


def attack(one: Attacker, way: Callable[[Attacker], None], counts: dict[str, int]) -> None:
    """Be hostile in this way for ever. A connection that is refused or dropped is no surprise."""
    while True:
        with suppress(OSError):
            way(one)
        counts[way.__name__] = counts.get(way.__name__, 0) + 1
        time.sleep(0.01)


def main() -> int:
    """Begin, say ``ready``, go on until standard input ends, print how often each way was gone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("socket")
    parser.add_argument("workspace")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--idle", type=int, default=0, help="connections that only say hello")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="this way and no other")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    threading.stack_size(_STACK)
    idle = [
        Attacker(options.socket, options.workspace, 10_000 + n, random.Random(n))
        for n in range(options.idle)
    ]
    kept = [one.greeted() if one.number % 2 else one.connected() for one in idle]
    counts: dict[str, int] = {}
    ways = [way for way in WAYS if not options.only or way.__name__ in options.only]
    for number in range(options.connections):
        dice = random.Random(options.seed * 1000 + number)
        one = Attacker(options.socket, options.workspace, number, dice)
        way = ways[number % len(ways)]
        threading.Thread(target=attack, args=(one, way, counts), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    ends = time.monotonic() + _LAST_ROUND_S
    while len(counts) < min(len(ways), options.connections) and time.monotonic() < ends:
        time.sleep(0.05)
    print(json.dumps({"idle": len(kept), "rounds": counts}), flush=True)
    return 0


if __name__ == "__main__":
    # Not a return: the threads are not waited for.
    main()
    os._exit(0)
