"""Who is at the other end: the process that connected, and no later one with its id."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stetd.server.peer import credentials_of, peer_of, start_of

#: In a namespace where nobody else makes processes: one connects and ends, another gets its id.
REUSED = """
import os, socket, sys, time
from stetd.server.peer import peer_of, start_of

def child(act):
    pid = os.fork()
    if pid == 0:
        act()
        os.read(held, 1)
        os._exit(0)
    return pid

held, end = os.pipe()
listening, connecting = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
first = child(lambda: connecting.connect(sys.argv[1]))
accepted, _ = listening.accept()
peer = peer_of(accepted)
assert peer.pid == first and peer.start == start_of(first) != 0
os.write(end, b".")
os.waitpid(first, 0)
assert peer_of(accepted).start == start_of(first) == 0
time.sleep(0.05)
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(first - 1))
second = child(lambda: None)
assert second == first, "the id was not given again"
print(start_of(second) > peer.start, peer_of(accepted).start)
"""
_SPACES = ["unshare", "-Urpf", "--mount-proc"]


def _why_not() -> str | None:
    try:
        made = subprocess.run([*_SPACES, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "needs unshare"
    return f"no namespaces here: {made.stderr.strip()}" if made.returncode else None


_WHY_NOT = _why_not()


@pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "")
def test_a_later_process_with_the_same_id_is_told_apart(tmp_path: Path) -> None:
    command = [*_SPACES, sys.executable, "-c", REUSED, str(tmp_path / "s")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    later, start = done.stdout.split()
    assert "True" == later
    # What connected is asked for by the kernel's own handle, where it has one (Linux 6.5).
    kernel = tuple(int(number) for number in os.uname().release.split(".")[:2])
    assert start == "0" or kernel < (6, 5)


def test_the_process_is_told_with_its_name_and_start() -> None:
    one, other = socket.socketpair()
    with one, other:
        peer, whose = peer_of(one), credentials_of(one)
    assert (os.getpid(), start_of(os.getpid())) == (peer.pid, peer.start)
    assert (os.getuid(), os.getpid()) == whose
    assert peer.start > 0


def test_a_name_with_brackets_does_not_hide_the_start() -> None:
    program = "open('/proc/self/comm', 'w').write('a) 1 (b'); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        before = start_of(os.getpid())
        process.stdout.readline()
        assert start_of(process.pid) >= before > 0
        process.communicate(b"\n")
    assert 0 == start_of(process.pid)
