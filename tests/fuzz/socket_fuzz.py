"""Fuzzing of a real daemon through its sockets: sound requests, spoilt, from both sides.

Unlike the targets of :mod:`fuzz.targets` this is not guided by coverage and needs no atheris:
what it looks for is in how the daemon's parts work together. Seeds are sound calls of every
method; each is spoilt in the values (other types, huge, empty, names of one for another), in
the bytes (flipped, cut, doubled, spliced), or in how it is sent (a byte at a time, many at once,
cut off, never read, the other encoding), over either socket. Everything is drawn from one
number, which is printed; the daemon's threads are not, so a finding need not come again.

What must hold: every connection is answered or closed; a good client in between gets right
answers; the memory does not grow; at the end `verify` is content, `git fsck --strict` too, and
the workspace is what the history says.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from e2e.running_daemon import Client, ConnectionEnded, DaemonProcess, Site, fsck, running
from stet.wire.failures import Kind
from stet.wire.framing import Encoding, enclose
from stetd.methods import METHODS

#: Bytes that the daemon's anonymous memory may grow after the warm-up.
GROWTH_BYTES = 48 << 20
#: Part of the time that is warm-up, and its least number of rounds.
_WARM_UP = 0.3
#: Seconds that an answer may take on a machine that is busy.
_PATIENCE_S = 60.0
#: Rounds after which the good client makes a call.
_GOOD_EVERY = 10

#: Methods that end what is being tested, or another client's part of it.
_LEFT_OUT = {"shutdown", "workspace_forget", "workspace_purge", "history_rebuild", "forget"}

_EDIT = {"operation": "replace", "oldText": "one", "newText": "two", "toClipboard": "c"}
_BLOCK = (
    "===SKIPPY_PATCH_START:a.txt===\n===FIND===\none\n===REPLACE===\ntwo\n===SKIPPY_PATCH_END==="
)
_UPDATE = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch"
_PATCH = {"path": "a.txt", "patches": [_EDIT]}
#: A member that any call may be given, wanted or not.
_MEMBERS = ["path", "commits", "limit", "preview", "x", "session", "workspace"]
_SEEDS: Mapping[str, list[dict[str, Any]]] = {
    "hello": [{"protocol": 1, "session": "fuzz", "agent": "fuzzer", "client": {"name": "f"}}],
    "patch": [
        {**_PATCH, "message": "why", "request_id": "r", "if_match": None},
        {"path": "d/new.txt", "patches": [{"operation": "overwrite", "newText": "one\n" * 50}]},
        {"path": "a.txt", "patches": [{"operation": "append_eof", "fromClipboard": "c"}]},
    ],
    "patch_file": [
        {"path": "a.txt", "changes": [{"search": "o(n)e", "replace": "\\1", "regex": True}]},
        {"path": "a.txt", "changes": [{"search": "one\ntwo", "replace": "x", "fuzzy": 0.7}]},
    ],
    "patch_block": [{"text": _BLOCK, "filepath": "a.txt"}],
    "apply_patch": [
        {"input": _UPDATE},
        {"input": "*** Begin Patch\n*** Add File: n.txt\n+one\n*** End Patch"},
    ],
    "transaction": [{"calls": [{"method": "patch", "params": _PATCH}]}],
    "read": [{"path": "a.txt"}, {"path": "a.txt", "at": "HEAD~1", "start": 1, "end": 2}],
    "undo": [{}, {"last": 2, "paths": ["a.txt"]}, {"commits": ["HEAD"]}, {"request": "r"}],
    "redo": [{}, {"commits": ["HEAD"]}],
    "rollback": [{"to": "HEAD~3", "preview": True}, {"to": "HEAD~1"}],
    "restore": [{"path": "a.txt", "at": "HEAD~2"}],
    "log": [{}, {"path": "a.txt", "text": "one", "limit": 3}, {"since": "2020-01-01T00:00:00Z"}],
    "show": [{"commit": "HEAD"}],
    "diff": [{}, {"from": "HEAD~2", "to": "HEAD", "paths": ["d"]}],
    "blame": [{"path": "a.txt", "at": "HEAD"}],
    "export": [{"format": "jsonl", "limit": 3}, {"format": "diff", "from": "HEAD~2"}],
    "clipboard_get": [{"name": "c"}],
    "clipboard_set": [{"name": "c", "text": "one\n"}],
    "clipboard_delete": [{"name": "c"}],
    "mode_set": [{"mode": "restricted"}],
    "tools": [{"style": "openai", "api": "responses", "custom": True}],
    "subscribe": [{"events": ["commit", "mode"]}],
    "pin_set": [{"name": "p", "commit": "HEAD"}],
    "pin_delete": [{"name": "p"}],
    "verify": [{}],
    "snapshot": [{"message": "now"}],
    "gc": [{}],
}
_NUMBERS = [0, -1, 2**63 - 1, -(2**63), 0.5]
_TEXTS = ["", "a.txt", "d", ".", "d/../a.txt", "one", "HEAD", "HEAD~99999", "0" * 40, "(?:a|a)*$"]
_STRANGE = ["../a.txt", "/etc/passwd", ".git/config", "\0", "\x1b[31m", "\u2028", "é", "x" * 10_000]
_NESTED: list[Any] = [[], {}, [[]], [None] * 50, {"path": "a.txt"}, "\U0001f600" * 100]
_ODD: list[Any] = [None, True, *_NUMBERS, *_TEXTS, *_STRANGE, *_NESTED]


@dataclass
class Fuzzed:
    """What came of it: for the report and for the assertions."""

    seed: int
    rounds: int = 0
    answers: int = 0
    closed: int = 0
    good_calls: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    warm_bytes: int = 0
    end_bytes: int = 0
    commits: int = 0
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        """One line for people."""
        grown = (self.end_bytes - self.warm_bytes) / 1e6
        return (
            f"{self.rounds:,} rounds (seed {self.seed}): {self.answers:,} answers of "
            f"{len(self.kinds)} kinds, {self.closed:,} connections closed by the daemon, "
            f"{self.good_calls:,} good calls, {self.commits:,} commits, memory {grown:+.1f} MB"
        )


def anonymous_bytes(pid: int) -> int:
    """Resident memory that no file stands behind."""
    for row in Path(f"/proc/{pid}/status").read_text().splitlines():
        if row.startswith("RssAnon:"):
            return int(row.split()[1]) * 1024
    raise AssertionError("the kernel does not tell RssAnon")


def fuzz(seconds: float, seed: int) -> Fuzzed:
    """Fuzz a daemon of its own for so long, and judge it."""
    found = Fuzzed(seed)
    with running(
        {"log_level": '"error"', "frame_timeout_s": 2, "max_file_bytes": 200_000}
    ) as daemon:
        site = daemon.site("w", session="good")
        site.write("a.txt", "one\ntwo\nthree\n" * 5)
        _go_on(daemon, site, found, seconds)
        _judge(daemon, site, found)
    return found


def _go_on(daemon: DaemonProcess, site: Site, found: Fuzzed, seconds: float) -> None:
    dice = random.Random(found.seed)
    begun = time.monotonic()
    while (spent := time.monotonic() - begun) < seconds:
        _round(daemon, site, dice, found)
        found.rounds += 1
        if found.rounds % _GOOD_EVERY == 0:
            _good_call(site, found)
        if not found.warm_bytes and spent > _WARM_UP * seconds:
            found.warm_bytes = anonymous_bytes(daemon.process.pid)
        if daemon.process.poll() is not None:
            found.problems.append(f"the daemon ended in round {found.rounds}:\n{daemon.log()}")
            return
    found.end_bytes = anonymous_bytes(daemon.process.pid)


def _good_call(site: Site, found: Fuzzed) -> None:
    """An edit that must be done, by a client that does nothing wrong, on a file of its own."""
    number = found.good_calls = found.good_calls + 1
    site.overwrite("good.txt", f"good {number}\n")
    text = site.agent.call("read", path="good.txt")["text"]
    if text != f"good {number}\n" or site.bytes_of("good.txt") != text.encode():
        found.problems.append(f"good call {number} gave {text!r}")


def _judge(daemon: DaemonProcess, site: Site, found: Fuzzed) -> None:
    if found.problems:
        return
    site.person.call("mode_set", mode="unrestricted", scope="workspace")
    _good_call(site, found)
    verified = site.person.call("verify")
    found.commits = verified["commits"]
    if not verified["ok"]:
        found.problems.append(f"verify: {verified['problems']}")
    differs = site.person.call("diff")["files"]
    if differs:
        found.problems.append(f"the workspace is not what the history says: {differs}")
    if found.end_bytes - found.warm_bytes > GROWTH_BYTES:
        found.problems.append(f"the memory grew: {found.line()}")
    if "internal" in found.kinds:
        found.problems.append(f"{found.kinds['internal']} internal errors:\n{daemon.log()}")
    if daemon.stop() != 0:
        found.problems.append(f"the daemon did not stop in good order:\n{daemon.log()}")
    if complaints := fsck(site.shadow):
        found.problems.append(f"git fsck: {complaints}")


# -- one round


def _round(daemon: DaemonProcess, site: Site, dice: random.Random, found: Fuzzed) -> None:
    encoding = dice.choice(list(Encoding))
    control = dice.random() < 0.3
    path = daemon.runtime / ("control.sock" if control else "agent.sock")
    client = Client(str(path), encoding)
    client.socket.settimeout(_PATIENCE_S)
    try:
        if dice.random() < 0.85:
            hello = {"protocol": 1, "workspace": str(site.root), "session": f"f{dice.randrange(5)}"}
            client.send_bytes(client.frame("hello", 0, hello))
            client.receive()
        frames = [_frame(client, control, site, dice) for _ in range(dice.randrange(1, 6))]
        dice.choice(_WAYS)(client, frames, dice)
        _take_answers(client, found)
    except (ConnectionEnded, BrokenPipeError, ConnectionResetError):
        found.closed += 1
    except TimeoutError:
        found.problems.append(f"round {found.rounds}: no answer in {_PATIENCE_S:.0f} s")
    finally:
        client.close()


def _frame(client: Client, control: bool, site: Site, dice: random.Random) -> bytes:
    names = sorted(set(METHODS) - _LEFT_OUT)
    if not control:
        names = [name for name in names if dice.random() < 0.9 or METHODS[name].control]
    method = dice.choice(names)
    params: Any = dice.choice(_SEEDS.get(method, [{}]))
    if method == "hello":
        params = {**params, "workspace": str(site.root)}
    if dice.random() < 0.6:
        params = _spoilt(params, dice)
    frame = client.frame(method, dice.choice([1, 2, "x", None]), params)
    if dice.random() < 0.3:
        payload = frame[:-1] if client.encoding is Encoding.JSON else frame[4:]
        frame = enclose(client.encoding, _damaged(payload, dice).replace(b"\n", b" "))
    return frame


def _spoilt(value: Any, dice: random.Random, depth: int = 0) -> Any:
    """A value in which something is another than it should be."""
    if dice.random() < 0.15 and depth:
        return dice.choice(_ODD)
    if isinstance(value, dict):
        spoilt = {key: _spoilt(each, dice, depth + 1) for key, each in value.items()}
        if dice.random() < 0.1:
            spoilt[
                dice.choice(["path", "commits", "limit", "preview", "x", "session", "workspace"])
            ] = dice.choice(_ODD)
        if spoilt and dice.random() < 0.1:
            del spoilt[dice.choice(list(spoilt))]
        return spoilt
    if isinstance(value, list):
        spoilt_list = [_spoilt(each, dice, depth + 1) for each in value]
        return spoilt_list * dice.choice([1, 1, 1, 0, 2, 30])
    if isinstance(value, str) and dice.random() < 0.3:
        at = dice.randrange(len(value) + 1)
        return value[:at] + dice.choice(["\n", "*", " ", "\\", "=", "one", "\t", ""]) + value[at:]
    return value


def _damaged(data: bytes, dice: random.Random) -> bytes:
    """Bytes flipped, cut, doubled or spliced."""
    at, length = dice.randrange(len(data) + 1), dice.randrange(1, 20)
    match dice.randrange(5):
        case 0:
            return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at : at + length] * dice.randrange(2, 50) + data[at:]
        case 3:
            return data[:at] + data[at + length :]
        case _:
            return data[:at] + dice.randbytes(length) + data[at:]


# -- how it is sent


def _at_once(client: Client, frames: list[bytes], dice: random.Random) -> None:
    client.send_bytes(b"".join(frames))


def _in_pieces(client: Client, frames: list[bytes], dice: random.Random) -> None:
    data = b"".join(frames)[:4000]
    while data:
        size = dice.randrange(1, 200)
        client.send_bytes(data[:size])
        data = data[size:]


def _many(client: Client, frames: list[bytes], dice: random.Random) -> None:
    client.send_bytes(b"".join(frames) * dice.randrange(2, 15))


def _cut_off(client: Client, frames: list[bytes], dice: random.Random) -> None:
    data = b"".join(frames)
    client.send_bytes(data[: dice.randrange(len(data))])
    if dice.random() < 0.5:
        raise ConnectionEnded  # gone, without reading anything


def _other_encoding(client: Client, frames: list[bytes], dice: random.Random) -> None:
    client.send_bytes(dice.randbytes(dice.randrange(1, 300)))


_WAYS: list[Callable[[Client, list[bytes], random.Random], None]] = [
    _at_once,
    _at_once,
    _at_once,
    _in_pieces,
    _many,
    _cut_off,
    _other_encoding,
]


def _take_answers(client: Client, found: Fuzzed) -> None:
    """Read to the end: every whole message is answered, then the daemon closes."""
    with suppress(OSError):
        client.socket.shutdown(socket.SHUT_WR)
    while True:
        try:
            reply = client.receive()
        except AssertionError:  # an event: it has subscribed
            continue
        except msgspec.MsgspecError as error:
            found.problems.append(f"round {found.rounds}: an answer that can't be read: {error}")
            return
        found.answers += 1
        kind = "ok" if reply.error is None else str(reply.error.data["kind"])
        if kind != "ok" and kind not in set(Kind):
            found.problems.append(f"round {found.rounds}: an error of no known kind: {reply}")
        if kind == Kind.INTERNAL and reply.error is not None:
            found.problems.append(f"round {found.rounds}: {reply.error.message}")
        found.kinds[kind] = found.kinds.get(kind, 0) + 1
