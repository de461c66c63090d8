"""Edits go on while the historian is killed again and again, or stopped; nothing is lost."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.running_daemon import (
    PATIENCE_S,
    DaemonProcess,
    Refusal,
    Site,
    eventually,
    once_reached,
    running,
)
from rigs import findings

COMPLETE = bool(os.environ.get("STET_TEST_ALL"))
WRITERS = 16 if COMPLETE else 4
APPEND = {"operation": "append_eof", "newText": "more\n"}
SECONDS = 60.0 if COMPLETE else 6.0
SETTINGS = {"checkpoint_idle_s": 0.2, "checkpoint_bytes": 65536}


def historian_of(daemon: DaemonProcess) -> int | None:
    """The process id of the daemon's historian, if there is one just now."""
    pid = daemon.process.pid
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        with suppress(OSError):
            if b"stetd.historian.process" in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
    return None


def send(daemon: DaemonProcess, number: signal.Signals) -> int:
    """Send the historian a signal, once it is there; its process id."""
    assert eventually(lambda: historian_of(daemon) is not None)
    pid = historian_of(daemon)
    assert pid is not None
    os.kill(pid, number)
    return pid


def killed_all_the_time(daemon: DaemonProcess, over: threading.Event) -> None:
    while not over.wait(0.3):
        pid = historian_of(daemon)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def killed_each_second_and_stopped(daemon: DaemonProcess, over: threading.Event) -> None:
    seconds = 0
    while not over.wait(1):
        pid = historian_of(daemon)
        seconds += 1
        if pid is None:
            continue
        with suppress(ProcessLookupError):
            if seconds == int(SECONDS / 2):
                os.kill(pid, signal.SIGSTOP)
                over.wait(SECONDS / 6)
            os.kill(pid, signal.SIGKILL)


def stopped_once(daemon: DaemonProcess, over: threading.Event) -> None:
    pid = send(daemon, signal.SIGSTOP)
    over.wait(SECONDS / 2)
    os.kill(pid, signal.SIGCONT)


@pytest.fixture
def site() -> Iterator[Site]:
    with running(SETTINGS) as daemon:
        yield daemon.site("w")


class Writer(threading.Thread):
    """A client that appends to a file of its own, and undoes every fifth edit."""

    def __init__(self, site: Site, number: int, until: float) -> None:
        super().__init__()
        self.agent = site.another(f"conv-{number}")
        self.path = f"{number}.txt"
        self.until = until
        self.commits: list[str] = []
        self.text = ""
        self.refused: list[str] = []
        self.seconds: list[float] = []

    def run(self) -> None:
        made = 0
        while time.monotonic() < self.until:
            line = f"line {made}\n"
            patches = [{"operation": "append_eof", "newText": line}]
            began = time.monotonic()
            answer = self.agent.call("patch", path=self.path, patches=patches)
            self.seconds.append(time.monotonic() - began)
            self.commits.append(answer["commit"])
            made += 1
            self.text += line
            if made % 5 == 0:
                try:
                    self.commits.append(self.agent.call("undo")["commit"])
                    self.text = self.text.removesuffix(line)
                except Refusal as refused:
                    self.refused.append(str(refused.kind))


def crowd(site: Site, first: int, seconds: float) -> list[Writer]:
    """What they have done in so many seconds."""
    until = time.monotonic() + seconds
    writers = [Writer(site, first + n, until) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return writers


def p99_ms(writers: list[Writer]) -> float:
    taken = sorted(each for writer in writers for each in writer.seconds)
    return taken[len(taken) * 99 // 100] * 1000


@pytest.mark.timeout(600 if COMPLETE else 120)
@pytest.mark.parametrize(
    "trouble", [killed_all_the_time, killed_each_second_and_stopped, stopped_once]
)
def test_edits_go_on_and_nothing_is_lost_or_doubled(
    site: Site, trouble: Callable[[DaemonProcess, threading.Event], None]
) -> None:
    tally = findings.begin(f"a historian that is {trouble.__name__.replace('_', ' ')}")
    quiet = crowd(site, 100, SECONDS / 6)
    over = threading.Event()
    troubling = threading.Thread(target=trouble, args=(site.daemon, over))
    troubling.start()
    writers = crowd(site, 0, SECONDS)
    over.set()
    troubling.join()
    tally.points = sum(len(writer.commits) for writer in writers)
    tally.notes.append(f"p99 of edits {p99_ms(writers):.1f} ms, {p99_ms(quiet):.1f} before")
    logged = []
    cursor = None
    while True:
        page = site.person.call("log", limit=200, cursor=cursor)
        logged += [each["commit"] for each in page["commits"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    counted = Counter(logged)
    for writer in writers:
        assert writer.text == (site.root / writer.path).read_text()
        times = [counted[commit] for commit in writer.commits]
        assert times == [1] * len(writer.commits)
        assert len(writer.commits) >= 10
        assert set(writer.refused) <= {"overloaded"}
    assert site.fsck() == ""
    assert site.person.call("verify")["problems"] == []
    site.daemon.kill()
    site.daemon.start()
    site.connect()
    assert site.fsck() == ""
    assert [each["commit"] for each in site.log(limit=1)] == logged[:1]


def test_a_question_that_was_lost_is_asked_again(site: Site) -> None:
    site.overwrite("a.txt", "one\n")
    pid = send(site.daemon, signal.SIGSTOP)
    asking = threading.Thread(target=lambda: site.log(limit=1))
    asking.start()
    time.sleep(0.2)
    os.kill(pid, signal.SIGKILL)
    asking.join(PATIENCE_S)
    assert not asking.is_alive()


def test_without_a_historian_what_it_was_asked_is_answered_when_there_is_one(
    site: Site,
) -> None:
    send(site.daemon, signal.SIGKILL)
    site.overwrite("a.txt", "one\n")
    assert site.log(limit=1)[0]["files"][0]["path"] == "a.txt"
    assert site.agent.call("undo")["commit"]
    assert not (site.root / "a.txt").exists()


def test_a_part_of_the_journal_that_is_away_is_damage_and_not_an_end(site: Site) -> None:
    """The history would end where the journal does, and nobody would be told. It may come back."""
    site.overwrite("a.txt", "one\n")
    assert len(site.log()) == 1
    pid = send(site.daemon, signal.SIGSTOP)
    site.overwrite("a.txt", "two\n")
    away = (site.daemon.state / "journal").rename(site.daemon.base / "away")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(Refusal, match=r"1\.wal of the journal is missing") as refused:
        site.log()
    assert refused.value.kind == "io_error"
    away.rename(site.daemon.state / "journal")
    site.overwrite("a.txt", "three\n")
    assert len(site.log()) == 3


def test_a_conflict_names_who_edited_the_file_meanwhile(site: Site) -> None:
    site.write("a.txt", "one\n")
    edit = site.overwrite("a.txt", "two\n")["commit"]
    other = site.another("conv-2")
    pid = send(site.daemon, signal.SIGSTOP)
    site.person.send("undo", commits=[edit])
    site.person.until_begun()
    commit = other.overwrite("a.txt", "three\n")["commit"]
    os.kill(pid, signal.SIGCONT)
    with pytest.raises(Refusal) as refused:
        site.person.result_of(site.person.receive())
    assert refused.value.kind == "conflict"
    said = refused.value.message.splitlines()[0]
    assert said.endswith(f"Changed since by: {commit[:8]} (tester/conv-2).")


def test_no_checkpoint_is_taken_without_it(site: Site) -> None:
    pid = send(site.daemon, signal.SIGSTOP)
    commits = [site.overwrite("a.txt", f"{n}\n" * 2000)["commit"] for n in range(20)]
    time.sleep(1)
    site.daemon.kill()
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    site.daemon.start()
    site.connect()
    assert [each["commit"] for each in site.log(limit=20)] == commits[::-1]
    assert site.fsck() == ""


def killed_in_a_checkpoint(site: Site, base: Path) -> Callable[[], None]:
    trace = base / "trace"
    (base / "open").unlink()
    before = trace.read_text().splitlines().count("checkpoint.before_sync")
    site.overwrite("a.txt", "two\n")
    once_reached(trace, "checkpoint.before_sync", before + 1)
    send(site.daemon, signal.SIGKILL)
    (base / "open").touch()
    assert eventually(lambda: "no checkpoint could be taken" in site.daemon.log())
    return lambda: None


def held_up_in_a_checkpoint(site: Site, base: Path) -> Callable[[], None]:
    replies = sqlite3.connect(site.daemon.state / "requests.sqlite3", isolation_level=None)
    replies.execute("BEGIN EXCLUSIVE")
    site.overwrite("a.txt", "two\n")
    time.sleep(1)
    return replies.close


@pytest.mark.parametrize("trouble", [killed_in_a_checkpoint, held_up_in_a_checkpoint])
def test_until_a_checkpoint_is_durable_no_file_is_forgotten(
    trouble: Callable[[Site, Path], Callable[[], None]], tmp_path: Path
) -> None:
    """A file as a snapshot found it is what recovery goes by, and not what a call wrote before."""
    trace, is_open = tmp_path / "trace", tmp_path / "open"
    is_open.touch()  # as long as it is there, no checkpoint is held up
    held = f"checkpoint.before_sync:*@until={is_open}"
    with running(SETTINGS, STET_FAILPOINT=held, STET_FAILPOINT_TRACE=str(trace)) as daemon:
        site = daemon.site("w")
        before = trace.read_text().splitlines().count("checkpoint.recorded")
        site.overwrite("a.txt", "one\n")
        once_reached(trace, "checkpoint.recorded", before + 1)
        end = trouble(site, tmp_path)
        site.write("a.txt", "one\n")
        assert site.person.call("snapshot")["commit"]
        daemon.kill()
        end()
        daemon.start(STET_BOOT_ID="another")
        site.connect()
        assert site.bytes_of("a.txt") == b"one\n"
        assert [each["kind"] for each in site.log()] == ["snapshot", "edit", "edit"]


def test_a_client_sees_its_own_edit_though_the_historian_was_asked_more_than_it_took(
    site: Site,
) -> None:
    site.overwrite("a.txt", "one\n")
    pid = send(site.daemon, signal.SIGSTOP)
    others = [site.another(f"other-{number}") for number in range(3)]
    for other in others:
        other.send("log", text="x" * 400_000)
    time.sleep(0.2)
    commit = site.overwrite("a.txt", "two\n")["commit"]
    site.agent.send("log", limit=1)
    time.sleep(0.2)
    os.kill(pid, signal.SIGCONT)
    assert site.agent.result_of(site.agent.receive())["commits"][0]["commit"] == commit
    assert all(other.result_of(other.receive())["commits"] == [] for other in others)


def test_status_does_not_wait_for_it(site: Site) -> None:
    pid = historian_of(site.daemon)
    assert pid is not None
    assert eventually(lambda: site.person.call("status").get("shadow_bytes", 0) > 0)
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    told = site.person.call("status")
    assert time.monotonic() - began < 10
    assert told["workspaces"] == 1
    assert "shadow_bytes" not in told


def test_a_tool_does_not_wait_for_it_longer_than_it_says(site: Site) -> None:
    site.overwrite("a.txt", "one\n")
    assert site.log()  # it has begun, so that it ends with its engine
    send(site.daemon, signal.SIGSTOP)
    began = time.monotonic()
    told = site.agent.call("observe", phase="before", tool="Bash", use="u1", within=1)
    assert time.monotonic() - began < 10
    assert not told["complete"]
    assert "not answered in time" in told["warnings"][0]


def other_whose_history_is_gone(site: Site, *, forgotten: bool) -> Site:
    other = site.daemon.site("other")
    other.overwrite("b.txt", "one\n")
    other.log()
    time.sleep(1)  # a checkpoint
    if forgotten:
        other.person.call("workspace_forget", root=str(other.root))
    shutil.rmtree(other.shadow)
    return other


def test_a_history_that_is_gone_holds_up_no_checkpoint(site: Site) -> None:
    other_whose_history_is_gone(site, forgotten=True)
    for number in range(2):
        site.overwrite("a.txt", f"{number}\n")
        time.sleep(1)
        assert site.log(limit=1)
    assert "trouble" not in site.person.call("status")


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_historian_begins_though_a_history_is_gone(site: Site, *, forgotten: bool) -> None:
    other = other_whose_history_is_gone(site, forgotten=forgotten)
    send(site.daemon, signal.SIGKILL)
    commit = site.overwrite("a.txt", "two\n")["commit"]
    assert site.log(limit=1)[0]["commit"] == commit
    if not forgotten:
        other.agent.send("patch", path="b.txt", patches=[APPEND])
        time.sleep(0.5)
        assert site.log(limit=1)[0]["commit"] == commit
        assert "is no repository" in other.person.refusal("log").message
        # The checkpoint is refused, not left waiting, so that a later one can be taken.
        assert eventually(lambda: "no checkpoint could be taken" in site.daemon.log())


def test_one_that_hangs_does_not_outlive_its_engine(site: Site) -> None:
    """It would hold the locks, so that no other daemon could be started."""
    commit = site.overwrite("a.txt", "one\n")["commit"]
    assert site.log()
    send(site.daemon, signal.SIGSTOP)
    site.daemon.kill()
    site.daemon.start()
    site.connect()
    assert site.log()[0]["commit"] == commit


def test_a_stop_that_reaches_both_processes_ends_in_good_order(site: Site) -> None:
    site.overwrite("a.txt", "one\n")
    assert site.log(limit=1)
    pid = historian_of(site.daemon)
    assert pid is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    assert site.daemon.stop() == 0
    assert site.daemon.log() == ""
