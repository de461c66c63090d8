"""What an earlier version left on the disk is opened whole; what a later one left is refused."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.running_daemon import DaemonProcess, files_below, fsck
from golden.state import (
    BOOT,
    SECRET,
    SESSIONS,
    alone,
    daemon_in,
    files_of,
    greeted,
    person,
    replace,
    session_told,
    told,
    unpack,
)
from stetd.storage.journal_format import LEVEL, MAGIC, Opened, frames

ARCHIVES = sorted(Path(__file__).parent.glob("v*.tar.xz"))


#: What diffs say since: that a file was moved.
_MOVED = re.compile(r"^similarity index \d+%\nrename from .*\nrename to .*\n", re.MULTILINE)
_ONLY_MOVED = re.compile(rf"^diff --git .*\n{_MOVED.pattern[1:]}(?!index )", re.MULTILINE)


def at_least(expected: Any, found: Any) -> bool:
    """Whether ``found`` says all that ``expected`` says; a later version may say more."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            key in found and at_least(value, found[key]) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(at_least, expected, found))
    if isinstance(expected, str) and isinstance(found, str):
        return expected == _MOVED.sub("", _ONLY_MOVED.sub("", found))
    return bool(expected == found)


@pytest.mark.parametrize("boot", [BOOT, "another boot"])
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_state_of_an_earlier_version_is_opened_whole_and_goes_on(archive: Path, boot: str) -> None:
    with alone() as base, daemon_in(base) as daemon:
        expected = unpack(archive, base)
        daemon.start(STET_BOOT_ID=boot)
        check_history(daemon, base, expected)
        check_sessions(daemon, base, expected)
        check_requests(daemon, base, expected)
        check_forgotten(daemon, base, expected)
        go_on(daemon, base, expected)
        assert [line for line in daemon.log().splitlines() if " ERROR " in line] == []


def check_history(daemon: DaemonProcess, base: Path, expected: Any) -> None:
    for name in ("w", "old"):
        found = told(daemon, base / name)
        assert found["files"] == expected[name]["files"]
        if name == "old":  # its oldest commits were dropped: nobody is named for their lines now
            nobody = {"kind": "retention", "agent": None, "session": None, "time": None}
            expected[name]["blame"] = [each | nobody for each in expected[name]["blame"]]
        assert at_least(expected[name], found)


def check_sessions(daemon: DaemonProcess, base: Path, expected: Any) -> None:
    for session, more in SESSIONS.items():
        client = greeted(daemon, base / "w", session, **more)
        assert at_least(expected["sessions"][session], session_told(client))
    hello = {"protocol": 1, "workspace": str(base / "w"), "session": "conv-2"}
    assert daemon.agent().refusal("hello", **hello).kind == "not_permitted"


def check_requests(daemon: DaemonProcess, base: Path, expected: Any) -> None:
    """Each is answered as it was, and applied no second time."""
    before = files_of(base / "w")
    for session, method, params, answer in expected["requests"].values():
        client = greeted(daemon, base / "w", session, **SESSIONS[session])
        found = client.call(method, **params)
        assert found["replayed"]
        assert answer is None or at_least({**answer, "replayed": True}, found)
        other = {**params, "message": "another call"}
        assert client.refusal(method, **other).kind == "invalid_params"
    assert files_of(base / "w") == before


def check_forgotten(daemon: DaemonProcess, base: Path, expected: Any) -> None:
    there = person(daemon, base / "w")
    assert expected["forgotten"] != {}
    for old, message in expected["forgotten"].items():
        found = there.call("show", commit=old)
        assert found["commit"] != old
        assert found["message"].split("\n")[0] == message.split("\n")[0]


def go_on(daemon: DaemonProcess, base: Path, expected: Any) -> None:
    """Edit, undo what the earlier version did, start again."""
    root = base / "w"
    agent = greeted(daemon, root, "conv-2", secret=SECRET)
    agent.call("patch", **replace("new/b.txt", "ß", "ss"))
    edit = next(
        each["commit"]
        for each in expected["w"]["log"]
        if each["message"].startswith("patch a.py") and each["request"] == "journalled"
    )
    person(daemon, root).call("undo", commits=[edit])
    assert b"return 2\n" in (root / "a.py").read_bytes()
    before = files_of(root)
    daemon.restart()
    there = person(daemon, root)
    assert (files_of(root), there.call("verify")["problems"]) == (before, [])
    assert len(there.call("log", limit=1000)["commits"]) == len(expected["w"]["log"]) + 2
    assert fsck(there.call("hello", protocol=1, workspace=str(root))["workspace"]["shadow"]) == ""


def newer_level(segment: Path) -> None:
    segment.write_bytes(MAGIC + frames(Opened(9, "boot", "7.8.9", LEVEL + 1)))


def newer_format(segment: Path) -> None:
    head = MAGIC[:-1] + bytes([MAGIC[-1] + 1])
    segment.write_bytes(head + frames(Opened(9, "boot", "7.8.9", LEVEL + 1)))


def newer_record(segment: Path) -> None:
    payload = msgspec.msgpack.encode(["Novelty", 1])
    length = struct.pack(">I", len(payload))
    crc = struct.pack(">I", zlib.crc32(payload, zlib.crc32(length)))
    head = frames(Opened(9, "boot", "7.8.9", LEVEL))
    segment.write_bytes(MAGIC + head + length + crc + payload)


@pytest.mark.parametrize("newer", [newer_level, newer_format, newer_record])
def test_state_of_a_later_version_is_refused_with_advice_and_left_alone(newer: Any) -> None:
    with alone() as base, daemon_in(base) as daemon:
        unpack(ARCHIVES[0], base)
        segment = base / "state" / "journal" / "00099999.wal"
        newer(segment)
        before = content(base)
        run = started(daemon)
        assert run.returncode == 6
        assert run.stderr.startswith(f"stetd: {segment}: this state was last used by stetd 7.8.9,")
        assert "pip install 'stetd>=7.8.9'" in run.stderr
        assert content(base) == before


def test_memory_of_requests_of_a_later_version_is_refused_not_begun_anew() -> None:
    with alone() as base, daemon_in(base) as daemon:
        unpack(ARCHIVES[0], base)
        path = base / "state" / "requests.sqlite3"
        database = sqlite3.connect(path)
        database.execute("PRAGMA user_version = 99")
        database.close()
        before = path.read_bytes()
        run = started(daemon)
        assert run.returncode == 6
        assert f"{path}: this state was last used by a newer stetd" in run.stderr
        assert path.read_bytes() == before


def started(daemon: DaemonProcess) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "stetd.cli"],
        env=daemon.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def content(base: Path) -> Any:
    shutil.rmtree(base / "state" / "index", ignore_errors=True)
    with_lock = files_below(base)
    return {
        path: (mode, data)
        for path, (mode, _, data) in with_lock.items()
        if os.path.basename(path) != "stetd.lock"
    }
