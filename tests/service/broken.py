"""Broken installations, each made on purpose: ``python -m service.broken NAME``.

Run inside the private namespaces, as a person with a home, a history of one edit, and sudo. Each
is broken in one way; ``stet doctor`` has to name that, and to print a command that mends it. The
commands are run as they were printed, in their order, by a shell; then doctor must have nothing
to say, and the history must be whole. Exit status SKIPPED, with the reason, where it can't be made.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from service import person
from service.person import HOME, RUNTIME, STATE, WORKSPACE
from service.private_manager import SKIPPED
from service.wheels import make_environment, make_wheel
from stet.service.spawn import Endpoint, holder, is_running

#: The check that has to name it, and how it is made.
INSTALLATIONS: dict[str, tuple[str, Callable[[], None]]] = {}


def broken(check: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register how an installation is broken, and the check of ``stet doctor`` that names it."""

    def register(make: Callable[[], None]) -> Callable[[], None]:
        INSTALLATIONS[make.__name__] = (check, make)
        return make

    return register


def stop(number: int = signal.SIGTERM) -> None:
    """End the daemon."""
    endpoint = Endpoint(str(RUNTIME), str(STATE), control=True)
    pid = holder(endpoint)
    assert pid is not None
    os.kill(pid, number)
    person.until("the daemon ends", lambda: not is_running(pid))


def sudo(*command: str) -> None:
    """What only root can do; SKIPPED if not even root can."""
    if subprocess.run(["sudo", *command], check=False).returncode != 0:
        print(f"this can't be done here: {' '.join(command)}")
        sys.exit(SKIPPED)


def newest_segment() -> Path:
    """The journal's segment that was written last."""
    return max((STATE / "journal").glob("*.wal"))


@broken("agent.sock")
def stale_socket() -> None:
    """Sockets that nobody listens on."""
    stop()
    (RUNTIME / "stetd.lock").unlink()
    (STATE / "stetd.lock").unlink()
    for name in ("agent.sock", "control.sock"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(RUNTIME / name))
        (RUNTIME / name).chmod(0o600)


@broken("state directory")
def wrong_owner() -> None:
    """A command was run with sudo, and the history became root's."""
    stop()
    sudo("chown", "-R", "0:0", str(STATE))


@broken("disk space")
def full_disk() -> None:
    """The log has filled the disk of the history."""
    stop()
    image, away = Path("/run/disk.img"), HOME / "away"
    STATE.rename(away)
    STATE.mkdir(0o700)
    sudo("truncate", "-s", "1G", str(image))
    sudo("mkfs.ext4", "-q", "-F", str(image))
    sudo("mount", "-o", "loop", str(image), str(STATE))
    sudo("rmdir", str(STATE / "lost+found"))
    sudo("chown", f"{os.getuid()}:{os.getgid()}", str(STATE))
    STATE.chmod(0o700)
    subprocess.run(["cp", "-a", f"{away}/.", str(STATE)], check=True)
    with open(STATE / "stetd.log", "a") as log:
        free = os.statvfs(STATE)
        os.posix_fallocate(log.fileno(), 0, (free.f_bavail - 4) * free.f_frsize)


@broken("service")
def missing_unit() -> None:
    """Somebody tidied the units up, and kept one."""
    stop()
    person.stet_command("service", "install")
    person.systemctl("stop", "stetd.socket", "stetd.service")
    (person.UNITS / "stetd.service").unlink()
    person.systemctl("daemon-reload")


@broken("service")
def login_without_variables() -> None:
    """A shell that knows nothing of the login, as by su, beside a service that does."""
    person.stet_command("service", "install")
    del os.environ["XDG_RUNTIME_DIR"]


@broken("journal")
def newer_state() -> None:
    """A newer version has written the journal; this one refuses it."""
    stop()
    offered = HOME / "offered"
    offered.mkdir()
    make_wheel(offered, "99.0", journal_format=2)
    old = make_wheel(HOME, "0.0.1", journal_format=1)
    binaries = make_environment(HOME / "environment", old)
    os.environ["PATH"] = f"{binaries}:{os.environ['PATH']}"
    os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(offered), "PIP_QUIET": "1"}
    for segment in (STATE / "journal").glob("*.wal"):
        with open(segment, "r+b") as file:
            file.seek(7)
            file.write(b"\2")


@broken("configuration")
def bad_configuration() -> None:
    """An option that there is not, and a value that can't be."""
    stop()
    config = HOME / ".config/stet/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('log_level = "info"\ndurabilty = "full"\nmax_frame = "large"\n')


@broken("runtime directory")
def no_runtime_directory() -> None:
    """A session without a login, as by su: the directory that is named was never made."""
    stop()
    os.environ["XDG_RUNTIME_DIR"] = "/run/user/1500.missing"


@broken("journal")
def corrupt_journal_tail() -> None:
    """A write of the journal was cut off."""
    stop(signal.SIGKILL)
    sound = newest_segment()
    data = sound.read_bytes().rstrip(b"\0")
    sound.write_bytes(data + b"\0\0\1\0half of a record")


@broken("lock")
def dead_daemon_with_lock() -> None:
    """The daemon was killed; lock files and sockets are still there."""
    stop(signal.SIGKILL)


@broken("daemon")
def hung_daemon() -> None:
    """It has the lock, and does not answer."""
    pid = holder(Endpoint(str(RUNTIME), str(STATE), control=True))
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)


@broken("state directory")
def read_only_state() -> None:
    """Nothing can be written to the state directory."""
    stop()
    STATE.chmod(0o500)


@broken("state directory")
def read_only_disk() -> None:
    """The disk of the history was mounted read-only, as after an error."""
    stop()
    sudo("mount", "--bind", str(STATE), str(STATE))
    sudo("mount", "-o", "remount,bind,ro", str(STATE))


def shell(*commands: str) -> list[Any]:
    """What commands print as JSON, a value a line, one after the other in one shell."""
    script = "\n".join(["set -e", *commands])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=WORKSPACE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{script}\n{done.stdout}{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def main(name: str) -> None:
    """Make it, let doctor name it, mend it as doctor says, and look again."""
    check, make = INSTALLATIONS[name]
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    WORKSPACE.mkdir()
    person.stet_command("init")
    person.run("stet", "apply-patch", "*** Begin Patch\n*** Add File: a\n+a\n*** End Patch\n")
    (log,) = shell("stet log --json")
    make()
    # On standard error doctor says that a hung daemon does not answer yet.
    (found,) = shell("stet doctor --json 2>/dev/null || true")
    wrong = [each for each in found["findings"] if not each["ok"]]
    print(*(f"{each['check']}: {each['detail']}\n  {each['mend']}" for each in wrong), sep="\n")
    assert check in [each["check"] for each in wrong]
    mends = [f"{{ {each['mend']}; }} >/dev/null" for each in wrong]
    after, kept, verified = shell(
        *mends, "stet doctor --json || true", "stet log --json", "stet verify --json"
    )
    assert after["ok"], [each for each in after["findings"] if not each["ok"]]
    assert [log["commits"], True] == [kept["commits"], verified["ok"]]


if __name__ == "__main__":
    main(sys.argv[1])
