"""What happens to a service in its life, under a real ``systemd --user``.

Each function is one scenario, with a manager, a home and a daemon of its own; the tests in
``test_service.py`` run ``python -m service.scenarios NAME`` inside the namespaces. They assert;
nothing is reported but a traceback.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import stet
from service import person
from service.person import HOME, RUNTIME, STATE, UNITS, WORKSPACE, shown, stet_command, systemctl
from stet.service.unit_files import HARDENED

CLIENTS = 8
#: Calls of each client; restarts under load; kills. STET_TEST_ALL=1 takes as many as it should
#: stand; a start takes a second of a processor, and the usual run has few of them.
EVERYTHING = bool(os.environ.get("STET_TEST_ALL"))
CALLS = 500 if EVERYTHING else 40
RESTARTS = 100 if EVERYTHING else 4
KILLS = 6 if EVERYTHING else 3
#: About the bytes of one call's line.
_LINE = len("client-0-call-100\n")


def install_and_first_request() -> None:
    """Installed with one command; the first request starts the daemon; again changes nothing."""
    WORKSPACE.mkdir()
    told = person.as_json("service", "install")
    assert told["changed"] == ["stetd.service", "stetd.socket"]
    assert told["units"] == [str(UNITS / "stetd.socket"), str(UNITS / "stetd.service")]
    assert told["pid"] == person.main_pid() == person.answering_pid()
    systemctl("stop", "stetd.service")
    assert stet_command("service", "status").stdout.startswith("stetd.socket:  active (listening)")
    assert person.main_pid() == 0  # asking for the state starts nothing
    stet_command("init")
    pid = person.main_pid()
    assert pid == person.answering_pid()
    before = {file: file.stat().st_mtime_ns for file in UNITS.iterdir()}
    again = person.as_json("service", "install")
    assert (again["changed"], again["pid"]) == ([], pid)
    assert before == {file: file.stat().st_mtime_ns for file in UNITS.iterdir()}
    person.only_the_service_ran()
    known = person.as_json("service", "status")
    assert (known["pid"], known["version"], known["enabled"]) == (pid, stet.__version__, True)
    assert known["says"]
    hardened(pid)


def hardened(pid: int) -> None:
    """What the unit asks for is in force, and an edit passes through it, with who made it."""
    status = Path(f"/proc/{pid}/status").read_text()
    for line in ("NoNewPrivs:\t1\n", "Seccomp:\t2\n"):
        assert line in status, status
    # Only a hardened one costs what a user namespace costs.
    assert os.readlink("/proc/self/ns/user") == os.readlink(f"/proc/{pid}/ns/user")
    with stet.connect(WORKSPACE, "s") as session:
        session.patch("f.txt", [stet.append_eof("added\n")])
        (commit, *_) = session.history()
    assert (WORKSPACE / "f.txt").read_text() == "added\n"
    assert commit.peer is not None
    command = Path("/proc/self/comm").read_text().strip()
    assert (commit.peer.pid, commit.peer.command) == (os.getpid(), command)


#: Says hello in a workspace, in a view of the file system where $1 is covered.
_COVERED = """
mount -t tmpfs x "$1" && exec "$2" -c "import stet; stet.connect('$3', 'x').close()"
"""


def hardened_day() -> None:
    """A service in namespaces of its own: a day as any other, and what it costs is refused."""
    WORKSPACE.mkdir()
    other = HOME / "other"
    other.mkdir()
    told = person.as_json("service", "install", "--hardened")
    assert told["changed"] == ["stetd.service", HARDENED, "stetd.socket"]
    judge = ("systemd-analyze", "security", "--user", "--offline=true", "--threshold=40")
    person.run(*judge, str(UNITS / "stetd.service"))
    for root in (WORKSPACE, other):
        stet_command("init", str(root))
    systemctl("stop", "stetd.service")
    with stet.connect(WORKSPACE, "s") as session:
        session.patch("f.txt", [stet.append_eof("added\n")])
        assert (WORKSPACE / "f.txt").read_text() == "added\n"
        session.undo()
        assert not (WORKSPACE / "f.txt").exists()
        _refuses_a_foreign_group(session)
    pid = person.main_pid()
    own = Path("/proc/self/ns")
    spaces = {each.name for each in own.iterdir() if each.readlink() != _space(pid, each.name)}
    assert {"user", "mnt", "net"} <= spaces
    _refuses_who_does_not_see(other)
    assert person.as_json("doctor")["ok"]
    person.only_the_service_ran()
    again = person.as_json("service", "install")
    assert (again["changed"], again["hardened"], again["pid"]) == ([], True, pid)
    back = person.as_json("service", "install", "--no-hardened")
    assert (back["changed"], back["hardened"]) == ([HARDENED], False)
    assert not (UNITS / HARDENED).parent.exists()
    assert Path("/proc/self/ns/user").readlink() == _space(person.main_pid(), "user")
    stet_command("service", "install", "--hardened")
    assert str(UNITS / HARDENED) in person.as_json("service", "uninstall")["removed"]
    assert not (UNITS / HARDENED).parent.exists()


def _space(pid: int, name: str) -> Path:
    return Path(f"/proc/{pid}/ns/{name}").readlink()


def _refuses_a_foreign_group(session: stet.Session) -> None:
    """The group could not be kept, so the edit is refused; its own kind of new file works."""
    shared = WORKSPACE / "shared.txt"
    shared.write_text("one\n")
    subprocess.run(["sudo", "chgrp", "4242", str(shared)], check=True)
    said = ""
    try:
        session.patch("shared.txt", [stet.overwrite("two\n")])
    except stet.StetError as error:
        said = error.message
    assert "stet service install --no-hardened" in said, said
    assert (shared.read_text(), shared.stat().st_gid) == ("one\n", 4242)


def _refuses_who_does_not_see(other: Path) -> None:
    def hello(workspace: Path) -> subprocess.CompletedProcess[str]:
        covered = (str(other), sys.executable, str(workspace))
        return person.run("unshare", "-Urm", "bash", "-c", _COVERED, "-", *covered, check=False)

    assert 0 == hello(WORKSPACE).returncode
    assert "is not what this process sees" in hello(other).stderr


def takes_over_from_a_started_daemon() -> None:
    """A daemon that a command started makes room; what it did is there, and clients go on."""
    WORKSPACE.mkdir()
    stet_command("init")
    first = person.answering_pid()
    assert not person.main_pid()
    with person.flight(2, 0) as flying:
        person.until("calls", lambda: flying.written() > 20 * _LINE)
        stet_command("service", "install")
        written = flying.written()
        person.until("more calls", lambda: flying.written() > written + 20 * _LINE)
        (WORKSPACE / "stop").touch()
        answers = flying.landed()
    assert person.answering_pid() == person.main_pid() != first
    person.check_applied_once(answers)


def killed_in_full_flight() -> None:
    """kill -9 with eight clients in full flight: each request is applied exactly once."""
    person.installed()
    whole = CLIENTS * CALLS * _LINE
    with person.flight(CLIENTS, CALLS) as flying:
        for kill in range(1, KILLS + 1):
            person.until("progress", lambda: flying.written() > kill * whole // (KILLS + 1))  # noqa: B023
            os.kill(person.answering_pid(), signal.SIGKILL)
        answers = flying.landed()
    assert CLIENTS * CALLS == person.check_applied_once(answers)
    assert int(shown("stetd.service", "NRestarts")) >= KILLS
    person.only_the_service_ran()


def restarted_under_load() -> None:
    """Restarts, in good order and by SIGKILL: nothing is lost, nothing there twice."""
    person.installed()
    person.dropin("limit.conf", "[Unit]\nStartLimitIntervalSec=0\n")
    dice = random.Random(7)
    seen = set()
    with person.flight(CLIENTS, 0) as flying:
        for number in range(RESTARTS):
            written = flying.written()
            person.until("progress", lambda: flying.written() > written + 20 * _LINE)  # noqa: B023
            time.sleep(dice.random() * 0.2)
            pid = person.answering_pid()
            seen.add(pid)
            if number % 2:
                os.kill(pid, signal.SIGKILL)
            else:
                systemctl("restart", "stetd.service")
        (WORKSPACE / "stop").touch()
        answers = flying.landed()
    assert RESTARTS == len(seen)
    assert all(answers)
    person.check_applied_once(answers)
    person.only_the_service_ran()


def client_in_the_middle_of_a_restart() -> None:
    """A call that the old daemon carries out is finished; one made meanwhile waits. Once each."""
    person.installed()
    held = person.dropin(
        "hold.conf", "[Service]\nEnvironment=STET_FAILPOINT=publish.swapped:2@sleep=3\n"
    )
    systemctl("restart", "stetd.service")
    old = person.answering_pid()
    answers: dict[str, stet.wire.results.EditResult] = {}

    def call(name: str) -> None:
        with stet.connect(WORKSPACE, name) as session:
            session.mode_get()
            ready.wait(30)
            append = stet.append_eof(f"{name}\n")
            answers[name] = session.patch("f.txt", [append], request_id=name)

    ready = threading.Event()
    with stet.connect(WORKSPACE, "first") as session:
        session.patch("f.txt", [stet.append_eof("begin\n")])
    callers = [threading.Thread(target=call, args=(name,)) for name in ("held", "waiting")]
    callers[0].start()
    ready.set()
    person.until("the call is held", lambda: b"held" in (WORKSPACE / "f.txt").read_bytes())
    held.unlink()
    systemctl("daemon-reload")
    restart = subprocess.Popen(["systemctl", "--user", "restart", "stetd.service"])
    callers[1].start()
    for caller in callers:
        caller.join(60)
    assert restart.wait(60) == 0
    assert "begin\nheld\nwaiting\n" == (WORKSPACE / "f.txt").read_text()
    assert {"held", "waiting"} == set(answers)
    assert old != person.answering_pid()
    person.only_the_service_ran()


def hung_writer() -> None:
    """A writer that makes no progress is killed by the watchdog; the call is applied once."""
    person.installed()
    (WORKSPACE / "f.txt").write_text("zero\n")
    hanging = person.dropin(
        "hang.conf",
        "[Service]\nWatchdogSec=3s\nEnvironment=STET_FAILPOINT=publish.swapped@sleep=600\n",
    )
    systemctl("restart", "stetd.service")
    old = person.answering_pid()
    hanging.write_text("[Service]\nWatchdogSec=3s\n")
    systemctl("daemon-reload")
    with stet.connect(WORKSPACE, "s") as session:
        done = session.patch("f.txt", [stet.append_eof("once\n")], request_id="one")
        assert done.replayed
        assert "zero\nonce\n" == (WORKSPACE / "f.txt").read_text()
        assert [done.commit] == [each.commit for each in session.history() if each.kind == "edit"]
    assert old != person.answering_pid()
    assert "1" == shown("stetd.service", "NRestarts")
    # SIGABRT is the watchdog's; it makes Python tell where each thread was.
    said = (HOME / "services.err").read_text()
    assert "Fatal Python error: Aborted" in said, said
    assert "failpoints.py" in said
    calm = person.main_pid()
    time.sleep(5)  # and one that works, or has nothing to do, is left alone
    assert calm == person.main_pid()


def reloaded() -> None:
    """A new configuration holds from the reload on, in the same process; a wrong one does not."""
    person.installed()
    pid = person.answering_pid()
    config = HOME / ".config/stet/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("max_file_bytes = 10\n")
    (WORKSPACE / "f.txt").write_text("more than ten bytes\n")
    append = [stet.append_eof("x\n")]
    with stet.connect(WORKSPACE, "s") as session:
        session.patch("f.txt", append)
        systemctl("reload", "stetd.service")

        def refused() -> bool:
            try:
                session.patch("f.txt", append)
            except stet.FileTooLarge:
                return True
            return False

        person.until("the new configuration", refused)
        config.write_text("max_file_bytes = none\n")
        systemctl("reload", "stetd.service")
        time.sleep(1)
        assert refused()
        config.write_text("")
        systemctl("reload", "stetd.service")
        person.until("the defaults", lambda: not refused())
    assert pid == person.main_pid() == person.answering_pid()


def idle_daemon_ends_and_comes_back() -> None:
    """With idle_exit_s the daemon ends when nobody is there; the next request starts it."""
    config = HOME / ".config/stet/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("idle_exit_s = 1\n")
    person.installed()
    person.until("it ends", lambda: person.main_pid() == 0)
    assert "active" == shown("stetd.socket", "ActiveState")
    assert "success" == shown("stetd.service", "Result")
    with stet.connect(WORKSPACE, "s") as session:
        session.patch("f.txt", [stet.append_eof("x\n")])
        assert person.main_pid() == person.answering_pid()
    assert not (STATE / "stetd.log").exists()


def uninstalled() -> None:
    """Uninstalling stops and removes; the history stays, and is found by the next daemon."""
    person.installed()
    own = UNITS / "other.service"
    own.write_text("[Service]\nExecStart=/bin/true\n")
    with stet.connect(WORKSPACE, "s") as session:
        commit = session.patch("f.txt", [stet.append_eof("x\n")]).commit
    pid = person.main_pid()
    told = person.as_json("service", "uninstall")
    assert told["removed"] == [str(UNITS / "stetd.socket"), str(UNITS / "stetd.service")]
    assert not os.path.exists(f"/proc/{pid}")
    assert ["other.service"] == sorted(
        each.name for each in UNITS.rglob("*") if each.is_file() or each.is_symlink()
    )
    assert "not-found" == shown("stetd.service", "LoadState")
    assert [] == [each.name for each in RUNTIME.iterdir() if each.is_socket()]
    assert 1 == stet_command("service", "status", check=False).returncode
    assert commit == person.as_json("log")["commits"][0]["commit"]  # by a daemon of its own
    refused = stet_command("service", "uninstall", "--purge-history", "--yes", check=False)
    assert refused.returncode == 1
    assert f"Stop it first: kill {person.answering_pid()}" in refused.stderr
    assert STATE.is_dir()
    stet_command("service", "install")
    unasked = stet_command("service", "uninstall", "--purge-history", check=False)
    assert (unasked.returncode, STATE.is_dir()) == (2, True)
    (STATE / "a-note").write_text("of the person\n")
    told = person.as_json("service", "uninstall", "--purge-history", "--yes")
    assert ["a-note"] == os.listdir(STATE)
    assert str(STATE / "journal") in told["purged"]
    assert "x\n" == (WORKSPACE / "f.txt").read_text()


def odd_directories() -> None:
    """Paths with spaces, percent and dollar signs come through the units as they are."""
    WORKSPACE.mkdir()
    odd = HOME / "a 100%h $HOME ${b}; c"
    places = {
        "STET_STATE_DIR": str(odd / "state"),
        "STET_CONFIG": str(odd / "config.toml"),
        "STET_RUNTIME_DIR": str(odd / "run"),
    }
    odd.mkdir()
    (odd / "config.toml").write_text('durability = "relaxed"\n')
    (odd / "bin").mkdir()
    (odd / "bin/stetd").symlink_to(Path(sys.executable).with_name("stetd"))
    (odd / "bin/python").symlink_to(sys.executable)
    (odd / "pyvenv.cfg").write_text(Path(sys.prefix, "pyvenv.cfg").read_text())
    (odd / "lib").symlink_to(Path(sys.prefix, "lib"))
    os.environ.update(places)
    person.run(str(odd / "bin/python"), "-m", "stet.cli", "service", "install")
    assert (
        f'ExecStart=":{str(odd).replace("%", "%%")}/bin/stetd"'
        in (UNITS / "stetd.service").read_text()
    )
    told = stet_command("status", "--json").stdout
    assert '"durability":"relaxed"' in told
    assert f'"pid":{person.main_pid()},' in told
    assert (odd / "state/journal").is_dir()
    assert not STATE.exists()


def nothing_of_others_is_touched() -> None:
    """Units that somebody else wrote are neither replaced nor removed."""
    UNITS.mkdir(parents=True)
    WORKSPACE.mkdir()
    foreign = UNITS / "stetd.service"
    foreign.write_text("[Service]\nExecStart=/bin/true\n")
    refused = stet_command("service", "install", check=False)
    assert refused.returncode == 1
    assert f"mv '{foreign}' '{foreign}.old'" in refused.stderr
    assert ["stetd.service"] == os.listdir(UNITS)
    stet_command("service", "uninstall")
    assert "[Service]\nExecStart=/bin/true\n" == foreign.read_text()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
