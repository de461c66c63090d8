"""Refusals that need a machine in trouble: a full disk, a failed sync, a rush, a stop.

Also here a call changes nothing unless it says that it does not know; what a rush of saves
leaves in the history is what somebody saved.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import (
    PATIENCE_S,
    DaemonProcess,
    Gate,
    Refusal,
    Site,
    eventually,
    running,
)
from stet.wire.framing import Encoding
from stetd.engine.preparing import MAX_UNWRITTEN
from stetd.refusals import history_unwritable, io_failure
from unwritable import unwritable

_libc = ctypes.CDLL(None, use_errno=True)
_MS_RDONLY, _MS_REMOUNT = 1, 32
BIG = "".join(f"line {n:07}\n" for n in range(60_000))


def assert_refused(refusal: Refusal, kind: str, *says: str) -> None:
    assert refusal.kind == kind, refusal.message
    assert refusal.code == -32000
    for part in says:
        assert part in refusal.message


# -- others save all the time


@contextmanager
def saving(file: Path) -> Iterator[list[bytes]]:
    """Somebody saves a file, by rename as editors do, again and again; gives what was saved."""
    saved: list[bytes] = []
    stop = threading.Event()
    beside = file.with_name("being-saved")

    def save() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            content = b"one\nsaved %d\n" % number
            beside.write_bytes(content)
            saved[:] = [content]
            beside.rename(file)

    thread = threading.Thread(target=save)
    thread.start()
    try:
        while not saved:
            time.sleep(0.001)
        yield saved
    finally:
        stop.set()
        thread.join()


def test_a_file_that_keeps_changing_is_contended(own_site: Site) -> None:
    site = own_site
    file = site.write("a.txt", "one\n")
    site.write("b.txt", "b\n")
    patches = [{"operation": "replace", "oldText": "one\n", "newText": "", "toClipboard": "c"}]
    refusal: Refusal | None = None
    edits = 0
    with saving(file) as saved:
        for _ in range(200):  # on a busy machine a save may come too late for all attempts
            site.agent.call("clipboard_set", name="c", text="kept")
            try:
                site.agent.call("patch", path="a.txt", patches=patches)
            except Refusal as refused:
                refusal = refused
                if refusal.kind != "old_text_not_found":  # read between an edit and a save
                    break
            else:
                edits += 1
    assert refusal is not None
    assert_refused(
        refusal,
        "contended",
        "a.txt: the file kept changing while the call was tried",
        "nothing of the call was applied. Read the file again and retry when it has settled.",
    )
    assert site.bytes_of("a.txt") == saved[-1]
    assert sorted(path.name for path in site.root.iterdir()) == ["a.txt", "b.txt"]
    assert site.agent.call("clipboard_get", name="c")["text"] == "kept"
    assert site.kinds(limit=1000).count("edit") == edits
    assert site.fsck() == ""
    site.agent.call("patch", path="a.txt", patches=patches)
    assert site.bytes_of("a.txt") == saved[-1].removeprefix(b"one\n")


# -- disks


def test_a_file_that_does_not_fit_is_storage_full_and_the_daemon_goes_on(own_site: Site) -> None:
    site = own_site
    site.write("big.txt", BIG)
    site.overwrite("small.txt", "x\n")
    before = site.picture()
    pid = site.daemon.process.pid
    unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1_500_000, unlimited[1]))
    patches = [{"operation": "replace", "oldText": "line 0000000\n", "newText": ""}]
    for _ in range(3):
        refusal = site.agent.refusal("patch", path="big.txt", patches=patches)
        assert_refused(
            refusal, "storage_full", "File too large", "Free some space and send the call again."
        )
        assert site.picture() == before
    site.overwrite("small.txt", "still works\n")
    resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
    site.agent.call("patch", path="big.txt", patches=patches)
    assert site.bytes_of("big.txt") == BIG.encode().removeprefix(b"line 0000000\n")
    site.restart()
    assert site.fsck() == ""


def test_a_limit_below_the_size_of_the_journal_is_storage_full_until_it_is_raised(
    own_site: Site,
) -> None:
    site = own_site
    for number in range(5):
        site.overwrite("a.txt", f"{number}\n" * 10_000)
    pid = site.daemon.process.pid
    before, unlimited = site.picture(), resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, unlimited[1]))
    patches = [{"operation": "overwrite", "newText": "x\n"}]
    for _ in range(2):
        refusal = site.agent.refusal("patch", path="a.txt", patches=patches)
        assert_refused(refusal, "storage_full", "File too large", "Nothing was changed.")
        assert site.picture() == before
    resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
    site.agent.call("patch", path="a.txt", patches=patches)
    site.crash()
    assert site.bytes_of("a.txt") == b"x\n"
    assert site.fsck() == ""


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_whatever_says_that_no_more_fits_is_storage_full(code: int) -> None:
    error = OSError(code, os.strerror(code), "a.txt")
    for refused in (io_failure(error), history_unwritable(str(error))):
        assert refused.kind == "storage_full"
        assert "Free some space and send the call again." in refused.message


@pytest.fixture
def mounted() -> Iterator[Site]:
    """A workspace on a file system of its own, of 512 KiB.

    No grace period: a replaced file that is still open keeps its file system busy.
    """
    daemon = DaemonProcess({"grace_s": 0})
    root = daemon.base / "mounted"
    root.mkdir()
    try:
        if _mount(root, 0, b"size=512k") != 0:
            pytest.skip(f"nothing can be mounted here: {os.strerror(ctypes.get_errno())}")
        daemon.start()
        daemon.control().call("workspace_allow", root=str(root))
        yield Site(daemon, root, "conv-1")
        daemon.kill()
    finally:
        _libc.umount2(os.fsencode(root), 2)
        daemon.close()


def _mount(root: Path, flags: int, options: bytes) -> int:
    return int(_libc.mount(b"tmpfs", os.fsencode(root), b"tmpfs", flags, options))


def test_a_full_workspace_is_storage_full_and_changes_nothing(mounted: Site) -> None:
    site = mounted
    site.write("a.txt", "x" * 100_000 + "\nend\n")
    site.write("filler", b"f" * 380_000)
    before = site.picture()
    patches = [{"operation": "replace", "oldText": "end\n", "newText": ""}]
    refusal = site.agent.refusal("patch", path="a.txt", patches=patches)
    assert_refused(refusal, "storage_full", "No space left on device", "Free some space")
    after = site.picture()
    assert {path: each[2] for path, each in after.files.items()} == {
        path: each[2] for path, each in before.files.items()
    }
    assert (after.clipboards, after.mode) == (before.clipboards, before.mode)
    assert {each["kind"] for each in site.log()} <= {"outside"}
    (site.root / "filler").unlink()
    site.agent.call("patch", path="a.txt", patches=patches)
    assert site.bytes_of("a.txt") == b"x" * 100_000 + b"\n"
    assert site.fsck() == ""


def test_a_read_only_workspace_is_an_io_error_and_changes_nothing(mounted: Site) -> None:
    site = mounted
    site.write("a.txt", "one\n")
    site.replace("a.txt", "one", "two")
    before = site.picture()
    assert _mount(site.root, _MS_REMOUNT | _MS_RDONLY, b"") == 0
    patches = [{"operation": "replace", "oldText": "two", "newText": "three"}]
    for path in ("a.txt", "new/b.txt"):
        more = patches if path == "a.txt" else [{"operation": "overwrite", "newText": "x"}]
        refusal = site.agent.refusal("patch", path=path, patches=more)
        assert_refused(refusal, "io_error", "Read-only file system. Nothing was changed.")
        assert site.picture() == before
    assert site.agent.refusal("undo").kind == "io_error"
    assert site.picture() == before
    assert site.agent.call("read", path="a.txt")["text"] == "two\n"
    assert _mount(site.root, _MS_REMOUNT, b"") == 0
    site.replace("a.txt", "two", "three")
    assert site.fsck() == ""


@pytest.fixture
def without_checkpoints() -> Iterator[Site]:
    """A workspace of a daemon that takes a checkpoint only when it stops."""
    with running({"checkpoint_idle_s": 600}) as daemon:
        yield daemon.site("w")


@contextmanager
def failing(daemon: DaemonProcess, syscall: str) -> Iterator[None]:
    """Every call of a system call fails with EIO."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    tracer = subprocess.Popen(
        [
            *(strace, "-f", "-p", str(daemon.process.pid), "-o", os.devnull),
            *("-e", f"trace={syscall}", "-e", f"inject={syscall}:error=EIO"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracer.stderr is not None
    try:
        line = tracer.stderr.readline()
        if "attached" not in line:
            pytest.skip(f"strace can't attach here: {line}")
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(PATIENCE_S)
        tracer.stderr.close()


def test_a_failed_sync_is_outcome_unknown_then_read_only_until_the_restart(
    without_checkpoints: Site,
) -> None:
    site = without_checkpoints
    site.write("a.txt", "one\n")
    site.replace("a.txt", "one", "two")
    patches = [{"operation": "replace", "oldText": "two", "newText": "three"}]
    call: dict[str, Any] = {"path": "a.txt", "patches": patches, "request_id": "r"}
    with failing(site.daemon, "fdatasync"):
        refusal = site.agent.refusal("patch", **call)
    assert_refused(refusal, "outcome_unknown", "Ask again then with the same request_id.")
    before = site.picture()
    for method, params in [
        ("patch", call),
        ("undo", {}),
        ("clipboard_set", {"name": "c", "text": "x"}),
        ("mode_set", {"mode": "restricted"}),
    ]:
        refusal = site.agent.refusal(method, **params)
        assert_refused(refusal, "read_only", "the daemon is read-only: fdatasync of the journal")
    hello = {"protocol": 1, "workspace": str(site.root), "session": "new"}
    assert site.daemon.agent().refusal("hello", **hello).kind == "read_only"
    assert site.picture() == before
    assert "fdatasync" in site.agent.call("status")["read_only"]
    assert site.agent.call("read", path="a.txt")["text"] == "two\n"
    assert len(site.log()) == 2
    preview = site.agent.call("patch", preview=True, path="a.txt", patches=patches)
    assert "+three" in preview["diff"]

    site.daemon.stop()
    site.daemon.start()
    site.connect()
    assert site.agent.call("status")["read_only"] is None
    result = site.agent.call("patch", **call)
    assert site.bytes_of("a.txt") == b"three\n"
    assert result["request"] == "r"
    assert [each["request"] for each in site.log()].count("r") == 1
    assert site.fsck() == ""


@pytest.mark.parametrize("how", ["moved", "copied", "removed"])
def test_while_the_journal_is_away_nothing_is_answered_as_done(own_site: Site, how: str) -> None:
    """As by `rm -r ~/.local/state/stet` beside the daemon: what it does would be nowhere."""
    site = own_site
    site.overwrite("a.txt", "one\n")
    site.write("a.txt", "by hand\n")
    before, state = site.picture(), site.daemon.state
    away = state.rename(state.with_name("away"))
    if how == "copied":
        shutil.copytree(away, state)
    elif how == "removed":
        shutil.rmtree(away)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("patch", {"path": "a.txt", "patches": [{"operation": "overwrite", "newText": "x"}]}),
        ("clipboard_set", {"name": "c", "text": "x"}),
        ("mode_set", {"mode": "restricted"}),
    ]
    for method, params in calls:
        refusal = site.agent.refusal(method, **params)
        assert_refused(refusal, "io_error", "was moved or removed", "Nothing was changed.")
    assert site.bytes_of("a.txt") == b"by hand\n"
    if how == "moved":
        away.rename(state)
        assert site.picture() == before
        assert site.overwrite("a.txt", "two\n")["outside"] is not None
    site.daemon.restart()
    assert (site.root / "a.txt").read_text() == ("two\n" if how == "moved" else "by hand\n")


def test_of_a_history_that_can_not_be_written_only_so_much_waits(own_site: Site) -> None:
    """It waits in memory."""
    site = own_site
    site.overwrite("big.txt", "")
    site.write("big.txt", BIG * 5)
    assert site.fsck() == ""

    def edit(number: int) -> Refusal | None:
        patches = [{"operation": "append_eof", "newText": f"edit {number}\n"}]
        try:
            site.agent.call("patch", path="big.txt", patches=patches)
        except Refusal as refused:
            return refused
        return None

    taken = 0
    with unwritable(site.shadow):
        while (refusal := edit(taken)) is None:
            taken += 1
            assert taken * len(BIG) * 5 < MAX_UNWRITTEN
        assert_refused(refusal, "io_error", "the history can't be written at present", "Try again")
        assert (taken + 2) * len(BIG) * 5 > MAX_UNWRITTEN  # what stood there before is kept, too
        edited = BIG * 5 + "".join(f"edit {number}\n" for number in range(taken))
        assert site.bytes_of("big.txt") == edited.encode()
        site.person.call("mode_set", mode="restricted", scope="workspace")
        site.person.call("mode_set", mode="unrestricted", scope="workspace")
    deadline = time.monotonic() + 60
    while edit(taken) is not None:
        assert time.monotonic() < deadline
    kinds = site.kinds(limit=1000)
    assert kinds == ["edit"] * (taken + 1) + ["outside", "edit"]
    assert site.git("show", "history~1:big.txt") == edited
    assert site.fsck() == ""


def test_replies_that_can_not_be_stored_are_in_the_status_until_they_can(own_site: Site) -> None:
    """Else the journal would grow, and nobody would know why."""
    site = own_site
    site.overwrite("a.txt", "one\n")
    with closing(sqlite3.connect(site.daemon.state / "requests.sqlite3")) as other:
        other.execute("BEGIN EXCLUSIVE")
        site.overwrite("a.txt", "two\n")
        assert eventually(
            lambda: "requests.sqlite3" in site.person.call("status").get("trouble", "")
        )
    assert eventually(lambda: "trouble" not in site.person.call("status"))


def test_a_large_file_is_read_though_the_history_can_not_be_written(own_site: Site) -> None:
    site = own_site
    site.write("large.txt", BIG)
    with unwritable(site.shadow):
        site.overwrite("a.txt", "one\n")
        assert site.agent.call("read", path="large.txt", start=2, end=2)["text"] == "line 0000001\n"


def test_a_history_that_can_not_be_written_leaves_other_workspaces_theirs(own_site: Site) -> None:
    site, other = own_site, own_site.daemon.site("other")
    with unwritable(site.shadow):
        site.overwrite("a.txt", "one\n")
        commit = other.overwrite("b.txt", "two\n")["commit"]
        refusal = site.person.refusal("log")
        assert_refused(refusal, "io_error", "the history can't be written at present", "Try again")
        assert other.ids() == [commit]
        assert other.person.call("verify")["problems"] == []
        other.person.call("gc")
        other.agent.call("undo", commits=[commit])
        assert not (other.root / "b.txt").exists()
    assert site.kinds() == ["edit"]
    assert site.fsck() == other.fsck() == ""


# -- too late


def test_a_call_that_comes_during_the_stop_is_refused_and_the_one_in_flight_answered(
    tmp_path: Path,
) -> None:
    gate = Gate(tmp_path, "beside.planned")
    with running(**gate.environment) as daemon:
        site = daemon.site("w", encoding=Encoding.MSGPACK)
        site.write("a.txt", "one\n")
        late = site.another("conv-2")
        # Of so much text that it is planned beside the others.
        two = "two\n" * 20_000
        patches = [{"operation": "replace", "oldText": "one\n", "newText": two}]
        site.agent.send("patch", path="a.txt", patches=patches)
        gate.once_reached()
        daemon.process.send_signal(signal.SIGTERM)
        while (daemon.runtime / "agent.sock").exists():
            time.sleep(0.005)
        overwrite = [{"operation": "overwrite", "newText": "late\n"}]
        refusal = late.refusal("patch", path="b.txt", patches=overwrite, request_id="late")
        assert_refused(
            refusal,
            "shutting_down",
            "this call was not started and changed nothing. Connect again in a moment",
        )
        gate.open()  # a stop waits for ten seconds
        done = site.agent.result_of(site.agent.receive())
        assert daemon.wait() == 0
        assert site.bytes_of("a.txt") == two.encode()
        daemon.start()
        site.connect()
        assert site.log(limit=1)[0]["commit"] == done["commit"]
        assert not (site.root / "b.txt").exists()
        late = site.another("conv-2")
        assert not late.call("patch", path="b.txt", patches=overwrite, request_id="late")[
            "replayed"
        ]
