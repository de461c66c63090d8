"""What systemd hands over, and what it is told. The real manager is tested elsewhere."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stetd.server import systemd
from stetd.server.systemd import inherited_sockets

# In a process of its own, because the descriptors have to be 3 and 4. Arguments: the names
# of the descriptors, then what LISTEN_PID is to say ("own" or a number).
_ACTIVATED = """
import os, sys
from stetd.server.systemd import ActivationError, inherited_sockets
os.environ["LISTEN_PID"] = str(os.getpid()) if sys.argv[2] == "own" else sys.argv[2]
os.environ["LISTEN_FDS"] = "2"
if sys.argv[1] != "-":
    os.environ["LISTEN_FDNAMES"] = sys.argv[1]
try:
    found = inherited_sockets()
except ActivationError as error:
    sys.exit(f"refused: {error}")
for name in sorted(found):
    path = os.path.basename(found[name].getsockname())
    print(name, path, found[name].fileno(), found[name].get_inheritable())
print([name for name in os.environ if name.startswith("LISTEN_")])
"""


def activate(
    directory: Path, files: list[str], names: str, pid: str = "own"
) -> subprocess.CompletedProcess[str]:
    sockets = []
    for file in files:
        sockets.append(socket.socket(socket.AF_UNIX))
        sockets[-1].bind(str(directory / file))
        sockets[-1].listen()
    # The shell puts the two where systemd would. High numbers, so that neither is overwritten.
    one, two = (fcntl.fcntl(each.fileno(), fcntl.F_DUPFD_CLOEXEC, 100) for each in sockets)
    move = f'exec 3<&{one} 4<&{two} {one}<&- {two}<&-; exec "$@"'
    command = ["bash", "-c", move, "-", sys.executable, "-c", _ACTIVATED, names, pid]
    try:
        return subprocess.run(
            command, pass_fds=(one, two), capture_output=True, text=True, check=False
        )
    finally:
        os.close(one)
        os.close(two)
        for each in sockets:
            each.close()


@pytest.mark.parametrize("names", ["stetd.socket:stetd.socket", "-"])
@pytest.mark.parametrize("files", [["agent.sock", "control.sock"], ["control.sock", "agent.sock"]])
def test_sockets_are_told_by_their_files(tmp_path: Path, files: list[str], names: str) -> None:
    done = activate(tmp_path, files, names)
    found = [f"{file[:-5]} {file} {number} False" for number, file in enumerate(files, start=3)]
    assert ([*sorted(found), "[]", ""], "") == (done.stdout.split("\n"), done.stderr)


def test_sockets_for_another_process_are_not_taken(tmp_path: Path) -> None:
    assert activate(tmp_path, ["agent.sock", "control.sock"], "-", "1").stdout == "[]\n"


@pytest.mark.parametrize("files", [["a.sock", "control.sock"], ["a/agent.sock", "agent.sock"]])
def test_sockets_that_are_not_the_two_are_refused(tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "a").mkdir()
    done = activate(tmp_path, files, "-")
    assert done.stderr.startswith(f"refused: systemd passed a socket at '{tmp_path}/")


def test_without_the_variables_there_are_no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LISTEN_PID", raising=False)
    assert inherited_sockets() == {}


@pytest.mark.parametrize("abstract", [False, True])
def test_states_go_out_as_one_datagram(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    shown = f"@stet-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(shown.replace("@", "\0", 1))
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", shown)
        systemd.notify("READY=1", "STATUS=Serving")
        assert manager.recv(100) == b"READY=1\nSTATUS=Serving"


def test_manager_that_is_not_there_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    systemd.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    systemd.notify("READY=1")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_units_are_understood_by_systemd(tmp_path: Path) -> None:
    """Unknown keys exit 0 and are told on standard error only, so that must be empty."""
    units = Path(__file__).parents[2] / "systemd"
    for name in ("stetd.service", "stetd.socket"):
        text = (units / name).read_text().replace("%h/.local/bin/stetd", sys.executable)
        (tmp_path / name).write_text(text.replace("Documentation=man:stetd(1)\n", ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", *map(str, sorted(tmp_path.iterdir()))],
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
