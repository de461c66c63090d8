"""What a peer is believed to see: real processes, each in a view of the file system of its own.

``base`` has two workspaces, ``ws1`` and ``ws2``. A sandbox is a shell in namespaces, made
by a script that says what is mounted there; then it is asked about both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from stet.wire.results import Peer
from stetd.methods import greeting
from stetd.methods.caller import Caller
from stetd.server.peer import sees, start_of

_PR_SET_DUMPABLE = 4


def _why_not() -> str | None:
    if shutil.which("unshare") is None:
        return "needs unshare"
    made = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, text=True, check=False)
    return None if made.returncode == 0 else f"no namespaces here: {made.stderr.strip()}"


_WHY_NOT = _why_not()
needs_namespaces = pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in ("ws1/deep", "ws2/deep", "other"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@contextmanager
def peer(*command: str) -> Iterator[int]:
    """A process that has printed ``ready``; its id, as long as it is there."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        if said != b"ready\n":
            pytest.fail(f"{said!r}: {process.communicate()[1].decode()}")
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def sandbox(script: str, base: Path, *words: str) -> tuple[str, ...]:
    """A shell in a user and mount namespace of its own, where ``$b`` is the base."""
    whole = f"set -e; b={base}\n{script}\n{STAY}"
    return "unshare", "-Urm", "bash", "-c", whole, "-", *words


STAY = "echo ready; exec cat"

#: A root directory in memory, with ws1 in it at its path, as bubblewrap makes it.
NEW_ROOT = """
mkdir $b/new; mount -t tmpfs new $b/new; cd $b/new
mkdir -p .$b/ws1 .$b/ws2 old; mount --rbind $b/ws1 .$b/ws1
"""
#: The programs that the rest of a script needs are put into the new root.
PROGRAMS = """
for each in /bin /usr /lib /lib64 /proc
do if [ -e $each ]; then mkdir -p .$each; mount --rbind $each .$each; fi; done
"""
#: Go there, and let go of the old one.
ENTER = f"{PROGRAMS}pivot_root . old; cd /; umount -l /old\n"
CHANGE_ROOT = f"{PROGRAMS}exec chroot . bash -c '{STAY}'\n"

#: What is done, and which of the workspaces the process is then believed to see.
VIEWS = {
    "a namespace of its own": (":", "ws1 ws2"),
    "only the one it was given": (f"{NEW_ROOT}{ENTER}", "ws1"),
    "read-only": (f"{NEW_ROOT}mount -o remount,bind,ro .$b/ws1{ENTER}", "ws1"),
    "under another mount": ("mount -t tmpfs x $b/ws2", "ws1"),
    "mounted under, further up": ("mount -t tmpfs x $b; mkdir $b/ws1 $b/ws2", ""),
    "the one mounted over the other": ("mount --bind $b/ws1 $b/ws2", "ws1"),
    "both exchanged": (
        """mount --bind $b/ws1 $b/other
        mount --bind $b/ws2 $b/ws1; mount --bind $b/other $b/ws2""", "",
    ),
    "a directory inside over it": ("mount --bind $b/ws2/deep $b/ws2", "ws1"),
    "itself over itself": ("mount --bind $b/ws2 $b/ws2", "ws1 ws2"),
    "hidden, and put back over that": (
        """mount --bind $b/ws2 $b/other
        mount -t tmpfs x $b/ws2; mount --bind $b/other $b/ws2""", "ws1 ws2",
    ),
    "an overlay of it": (
        """mount -t tmpfs x $b/other; mkdir $b/other/u $b/other/w
        mount -t overlay -o lowerdir=$b/ws2,upperdir=$b/other/u,workdir=$b/other/w x $b/ws2""",
        "ws1",
    ),
    "something over the root": ("mount -t tmpfs x /", "ws1 ws2"),
    "a link in its place": (f"{NEW_ROOT}rmdir .$b/ws2; ln -s ws1 .$b/ws2{ENTER}", "ws1"),
    "a link above it": (
        f"""{NEW_ROOT}umount .$b/ws1; rmdir .$b/ws1 .$b/ws2 .$b; mkdir -p x/ws1 x/ws2
        ln -s /x .$b; mount --rbind $b/ws1 x/ws1; mount --rbind $b/ws1 x/ws2{ENTER}""", "",
    ),
    "the one it has under the other's name": (
        f"{NEW_ROOT}mount --bind $b/ws1 .$b/ws2{ENTER}", "ws1",
    ),
    "the other's path inside of the one it has": (
        f"""{NEW_ROOT}mkdir -p $b/ws1$b/ws2 $b/ws1/old; mount --bind $b/ws1 .; cd $b/new
        {ENTER}""", "",
    ),
    "moved out of the one it has": (
        f"""{NEW_ROOT}mkdir $b/ws1/x; mount --bind $b/ws1/x .$b/ws2; mv $b/ws1/x $b/moved
        {ENTER}""", "ws1",
    ),
    "removed from the one it has": (
        f"{NEW_ROOT}mkdir $b/ws1/x; mount --bind $b/ws1/x .$b/ws2; rmdir $b/ws1/x{ENTER}", "ws1",
    ),
    "more mounts than are looked at": (
        """mount -t tmpfs x $b/other; mkdir $b/other/{1..12}
        for n in {1..12}; do mount --rbind $b/other $b/other/$n; done""", "",
    ),
    "changed roots": (f"{NEW_ROOT}{CHANGE_ROOT}", "ws1"),
    "changed roots to what is no mount": (
        f"""{NEW_ROOT}mkdir -p r$b/ws1; mount --bind $b/ws1 r$b/ws1; cd r
        {CHANGE_ROOT}""", "",
    ),
    "cannot uncover what was hidden before": (
        f"""mount -t tmpfs x $b/ws2
        exec unshare -Urm bash -c '! umount '$b'/ws2; ! mount --bind '$b' /mnt
        mount --rbind '$b' /mnt; ! umount /mnt/ws2; mount --rbind /mnt '$b'; {STAY}' """,
        "ws1",
    ),
}  # fmt: skip


def seen(pid: int, base: Path) -> str:
    return " ".join(name for name in ("ws1", "ws2") if sees(pid, str(base / name)))


@needs_namespaces
@pytest.mark.parametrize("view", VIEWS)
def test_a_peer_sees_what_is_the_same_directory_for_it(view: str, base: Path) -> None:
    script, expected = VIEWS[view]
    with peer(*sandbox(script, base)) as pid:
        assert expected == seen(pid, base)


@needs_namespaces
@pytest.mark.parametrize(
    "name", ["a b", "a - b", "a\nb", "a\r9 1 8:1 b", "a\\040b", "a#b", "a\tb", "é\u2028", "x\\"]
)
def test_odd_names_are_told_apart(name: str, tmp_path: Path) -> None:
    odd, other = tmp_path / name, tmp_path / "other"
    for each in (odd, other):
        each.mkdir()
    for source, expected in ((odd, (True, True)), (other, (False, True))):
        with peer(*sandbox('mount --bind "$1" "$2"', tmp_path, str(source), str(odd))) as pid:
            assert expected == (sees(pid, str(odd)), sees(pid, str(other)))


def test_a_process_that_may_not_be_looked_into_sees_what_we_see(base: Path) -> None:
    """Not dumpable, as ssh-agent and the like, and whoever has just changed its ids."""
    program = (
        f"import ctypes, sys; ctypes.CDLL(None).prctl({_PR_SET_DUMPABLE}, 0);"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with peer(sys.executable, "-c", program) as pid:
        assert seen(pid, base) == "ws1 ws2"


def test_a_process_that_has_ended_sees_nothing(base: Path) -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not sees(process.pid, str(base))  # not reaped yet
    process.wait()
    assert not sees(process.pid, str(base))
    assert not sees(0, str(base))


def test_a_process_that_did_not_connect_enters_nothing(base: Path) -> None:
    """One that has the id of the one that did; or that had ended already (0)."""
    pid, nothing = os.getpid(), cast("Any", None)
    started = start_of(pid)
    entered = [
        start
        for start in (started, started - 1, 0)
        if greeting._peer_sees(Caller(nothing, False, Peer(pid, "x"), start, nothing), str(base))
    ]
    assert [started] == entered


def test_what_is_not_there_or_behind_a_link_is_not_seen(base: Path) -> None:
    (base / "link").symlink_to(base / "ws1")
    assert sees(os.getpid(), str(base / "ws1"))
    for name in ("link", "link/deep", "missing"):
        assert not sees(os.getpid(), str(base / name))


@needs_namespaces
def test_a_daemon_in_a_user_namespace_sees_what_its_peers_see(base: Path) -> None:
    asked = (
        "import ctypes, sys\nfrom stetd.server.peer import sees\n"
        "assert ctypes.CDLL(None).unshare(0x10000000) == 0\n"  # CLONE_NEWUSER
        "print([sees(int(pid), sys.argv[1] + w) for pid in sys.argv[2:] for w in ('/ws1', '/ws2')])"
    )
    with peer(*sandbox(f"{NEW_ROOT}{ENTER}", base)) as pid:
        arguments = (str(base), str(os.getpid()), str(pid))
        answered = subprocess.run(
            [sys.executable, "-c", asked, *arguments], capture_output=True, text=True, check=True
        )
    assert answered.stdout == "[True, True, True, False]\n"
