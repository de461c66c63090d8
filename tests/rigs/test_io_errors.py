"""The disk refuses: I/O errors, full disks, no permission. Nothing stands in part, ever.

Either the call is refused and nothing has changed, or it is ``outcome_unknown`` and settled at
the next start; "not applied" is never said of something that appears later. Afterwards the
daemon goes on, or is read-only and says so in ``status``. Once the cause is gone it works
again: by itself, or, read-only, after a restart.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from e2e.forking import ForkServer
from e2e.running_daemon import PATIENCE_S, Site, eventually
from rigs import findings, mounts, story, tracer
from rigs.findings import Findings
from rigs.forked_daemon import ForkedDaemon
from rigs.tracer import Tracer

ALL = bool(os.environ.get("STET_TEST_ALL"))
SAMPLE = 8
FAULTS = ["EIO", "ENOSPC"]
#: Refusals that may come of a fault: of the call itself, or of an undo of a refused call.
ALLOWED = {
    *("storage_full", "io_error", "read_only", "outcome_unknown"),
    *("unknown_request", "nothing_to_undo"),
}
NO_SPACE = os.strerror(errno.ENOSPC)
no_strace = tracer.why_not()
no_mounts = mounts.why_not_tmpfs()


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


@pytest.fixture
def daemon(forks: ForkServer) -> Iterator[ForkedDaemon]:
    process = ForkedDaemon(forks, story.SETTINGS)
    try:
        yield process
    finally:
        process.close()


# -- judging


def until_at_rest(state: Path) -> None:
    """Wait until no checkpoint is under way: nothing has changed for a second."""
    seen: list[tuple[Path, int]] = []
    since, deadline = time.monotonic(), time.monotonic() + 60
    while time.monotonic() - since < 1:
        found = seen
        with suppress(FileNotFoundError):  # it was just removed: look again
            found = sorted((path, path.stat().st_mtime_ns) for path in state.rglob("*"))
        if found != seen:
            seen, since = found, time.monotonic()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def settle(site: Site, told: story.Told) -> story.Verdict:
    """The cause is gone: judge the daemon as it is, if it goes on; restart it; judge again."""
    daemon = site.daemon
    assert isinstance(daemon, ForkedDaemon)
    verdict = story.Verdict()
    status = daemon.look()
    if status is not None:
        verdict.torn.append(f"the daemon ended with {status}")
    else:
        _judge_this_life(site, told, verdict)
        daemon.kill()
    if verdict:
        return verdict
    daemon.hang_up()
    daemon.start()
    site.connect()
    verdict = story.judge(site, told)
    if site.person.call("status")["read_only"] is not None:
        verdict.torn.append("read-only after a restart")
    assert daemon.stop() == 0, daemon.log()
    return verdict


def _judge_this_life(site: Site, told: story.Told, verdict: story.Verdict) -> None:
    if told.kinds() - ALLOWED:
        verdict.torn.append(f"refused in a strange way: {told.refusals}")
    site.connect()
    read_only = site.person.call("status")["read_only"]
    unknown = told.with_answer(story.Answer.UNKNOWN)
    if read_only is None and unknown:
        verdict.torn.append(f"{unknown} unknown, and the daemon is not read-only")
    elif read_only is None:
        again = story.judge(site, told, leftovers=True)
        verdict.torn += again.torn
        verdict.lost += again.lost
        verdict.duplicated += again.duplicated


def _pause(after: str) -> None:
    """Time for a checkpoint in the middle of the story."""
    if after == "r3":
        time.sleep(0.3)


def assert_clean(tally: Findings) -> None:
    assert tally.points > 0
    assert (tally.torn, tally.lost, tally.duplicated) == (0, 0, 0), "\n".join(tally.notes)


# -- errors from the kernel, put there by strace


def _points(forks: ForkServer) -> list[tuple[int, str, int]]:
    daemon = ForkedDaemon(forks, story.SETTINGS)
    try:
        daemon.start()
        site = story.prepare(daemon)
        known = tracer.threads(daemon.pid)
        output = daemon.base / "trace"
        with Tracer(daemon.pid, follow=True, output=output):
            story.tell(site, story.Told(), _pause)
            time.sleep(0.3)
        counts = tracer.count_calls(output, known)
    finally:
        daemon.close()
    return [
        (thread, call, n + 1)
        for (thread, call), count in sorted(counts.items())
        for n in range(count)
        if call != "sendto"  # no disk, but the reply's way
    ]


@pytest.mark.skipif(no_strace is not None, reason=no_strace or "strace works")
@pytest.mark.timeout(3600 if ALL else 120)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_any_system_call_fails(forks: ForkServer, lasting: bool) -> None:
    tally = findings.begin(f"an error of any system call, {'lasting' if lasting else 'once'}")
    points = _points(forks)
    chosen = points if ALL else tracer.spread(points, SAMPLE)
    for place, (thread, call, number) in enumerate(chosen):
        # In turns, and the other way round when it lasts: so every call meets both.
        fault = FAULTS[(place + lasting) % 2]
        daemon = ForkedDaemon(forks, story.SETTINGS)
        try:
            daemon.start()
            site = story.prepare(daemon)
            told = story.Told()
            when = f"{number}+" if lasting else f"{number}"
            victim = tracer.thread(daemon.pid, thread)
            with Tracer(victim, f"{call}:error={fault}:when={when}"):
                story.tell(site, told, _pause)
            settle(site, told).add_to(tally, f"thread {thread}, {call} {when}: {fault}")
        finally:
            daemon.close()
    assert_clean(tally)


# -- short writes


@pytest.mark.parametrize("most", [1, 7, 4096])
def test_short_writes_are_continued(daemon: ForkedDaemon, most: int) -> None:
    daemon.fork(tricks={"short_writes": most})
    daemon.wait_until_it_answers()
    site = story.prepare(daemon)
    told = story.Told()
    story.tell(site, told)
    assert told.with_answer(story.Answer.DONE) == {"r1", "r2", "r3", "r4", "r5"}
    assert not settle(site, told)


@pytest.mark.timeout(600)
def test_no_file_may_grow_beyond_a_limit(forks: ForkServer) -> None:
    tally = findings.begin("a limit on the size of files (short writes, then EFBIG)")
    for limit in range(2048, 18000, 256 if ALL else 2048):
        daemon = ForkedDaemon(forks, story.SETTINGS)
        try:
            daemon.start()
            site = story.prepare(daemon)
            assert daemon.stop() == 0
            daemon.hang_up()
            told = story.Told()
            daemon.fork(tricks={"file_size": limit})
            try:
                daemon.wait_until_it_answers()
            except AssertionError:
                assert "Traceback" not in daemon.log()
                daemon.start()
                site.connect()
            else:
                site.connect()
                story.tell(site, told, _pause)
                daemon.kill()
                daemon.start()
            settle(site, told).add_to(tally, f"{limit} bytes")
        finally:
            daemon.close()
    assert_clean(tally)


# -- real causes, that come after one of the calls and go again


def through_trouble(
    daemon: ForkedDaemon,
    cause: Callable[[Site], Callable[[], None]],
    after: str,
    until: str = "the end",
) -> tuple[story.Told, story.Verdict]:
    """Tell the story; after a call make trouble; after another mend it; and judge.

    ``until`` r4 where the trouble is about directories: that r5 can't remove one is no fault.
    """
    daemon.start()
    site = story.prepare(daemon)
    told = story.Told()
    mend: list[Callable[[], None]] = []

    def pause(request: str) -> None:
        if request == after:
            mend.append(cause(site))
        if request == until:
            mend.pop()()

    try:
        story.tell(site, told, pause)
        time.sleep(0.3)  # the background meets the trouble too
    finally:
        for each in mend:
            each()
    return told, settle(site, told)


def _fill(place: Path, left: int, site: Site) -> Callable[[], None]:
    """Fill a file system but for so many bytes."""
    filler = place / "filler"
    free = os.statvfs(place)
    with filler.open("wb", buffering=0) as file:
        size = max(0, free.f_bavail * free.f_bsize - left)
        try:
            while size > 0:
                size -= file.write(bytes(min(size, 1 << 16)))
        except OSError:
            pass
    return filler.unlink


@pytest.mark.skipif(no_mounts is not None, reason=no_mounts or "mounting works")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", ["workspace", "state", "both"])
def test_the_disk_is_full_for_a_while(forks: ForkServer, what: str) -> None:
    tally = findings.begin(f"a full disk ({what})")
    refused: set[str] = set()
    levels = [0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 300] if ALL else [0, 2, 12]
    for pages, after in product(levels, ["r1", "r2", "r3"] if ALL else ["r1"]):
        daemon = ForkedDaemon(
            forks,
            story.SETTINGS,
            place="." if what == "state" else "m",
            state="." if what == "workspace" else "m",
        )
        full = daemon.base / "m"
        fill = partial(_fill, full, pages * 4096)
        try:
            with mounts.mounted(full, "-t", "tmpfs", "-o", "size=4m", "tmpfs"):
                told, verdict = through_trouble(daemon, fill, after)
                refused |= told.kinds()
                verdict.add_to(tally, f"{pages} pages left after {after}")
        finally:
            daemon.close()
    assert_clean(tally)
    assert "storage_full" in refused
    assert "outcome_unknown" not in refused


@pytest.mark.skipif(no_mounts is not None, reason=no_mounts or "mounting works")
def test_a_full_disk_holds_up_neither_a_stop_nor_the_word_about_it(forks: ForkServer) -> None:
    daemon = ForkedDaemon(forks, {**story.SETTINGS, "log_level": '"warning"'}, state="m")
    full = daemon.base / "m"
    try:
        with mounts.mounted(full, "-t", "tmpfs", "-o", "size=4m", "tmpfs"):
            daemon.start()
            site = story.prepare(daemon)
            told = story.Told()
            story.send(site.agent, story.CALLS[0], told)
            mend = _fill(full, 0, site)
            story.tell(site, told)
            assert told.kinds() == {"storage_full"}
            assert eventually(lambda: NO_SPACE in site.person.call("status").get("trouble", ""))
            time.sleep(1)  # a checkpoint is begun, which can't end
            assert daemon.stop() == 0
            # The one that waited for its end was begun after all was closed.
            assert "Bad file descriptor" not in daemon.log()
            daemon.start()
            site.connect()
            assert (
                site.agent.refusal(story.CALLS[1].method, **story.CALLS[1].params).kind
                == "storage_full"
            )
            mend()
            assert not story.judge(site, told)
            assert site.person.call("status").get("trouble") is None
    finally:
        daemon.close()


@pytest.mark.skipif(no_mounts is not None, reason=no_mounts or "mounting works")
def test_no_inodes_are_left(daemon: ForkedDaemon) -> None:
    def cause(site: Site) -> Callable[[], None]:
        fillers = [site.root.parent / f"filler{n}" for n in range(40)]
        for filler in fillers:
            try:
                filler.touch()
            except OSError:
                break

        def mend() -> None:
            for filler in fillers:
                filler.unlink(missing_ok=True)

        return mend

    daemon.place = daemon.base / "m"
    with mounts.mounted(daemon.place, "-t", "tmpfs", "-o", "nr_inodes=24", "tmpfs"):
        told, verdict = through_trouble(daemon, cause, "r1")
        assert told.kinds() >= {"storage_full"}
        assert not verdict


@pytest.mark.skipif(no_mounts is not None, reason=no_mounts or "mounting works")
def test_the_workspace_becomes_read_only_for_a_while(daemon: ForkedDaemon) -> None:
    def cause(site: Site) -> Callable[[], None]:
        deadline = time.monotonic() + PATIENCE_S  # busy while a displaced file is still watched
        while time.monotonic() < deadline:
            try:
                mounts.run("mount", "-o", "remount,ro", str(site.root.parent))
                break
            except AssertionError:
                time.sleep(0.02)
        return lambda: mounts.run("mount", "-o", "remount,rw", str(site.root.parent))

    daemon.place = daemon.base / "m"
    with mounts.mounted(daemon.place, "-t", "tmpfs", "tmpfs"):
        told, verdict = through_trouble(daemon, cause, "r1")
        assert told.refusals["r2"] == (
            "io_error: new/deep/c.txt: Read-only file system. Nothing was changed."
        )
        assert not verdict


@pytest.mark.parametrize("what", ["a.txt", "."])
def test_something_is_immutable_for_a_while(daemon: ForkedDaemon, what: str) -> None:
    def cause(site: Site) -> Callable[[], None]:
        try:
            mounts.run("chattr", "+i", str(site.root / what))
        except (AssertionError, FileNotFoundError) as error:
            pytest.skip(f"no file can be made immutable here: {error}")
        return lambda: mounts.run("chattr", "-i", str(site.root / what))

    told, verdict = through_trouble(daemon, cause, "r2", until="r4")
    assert told.refusals["r3"].startswith("io_error")
    assert not verdict


@pytest.mark.parametrize(("what", "until"), [(".", "r4"), ("new/deep", "the end")])
def test_a_directory_may_not_be_written_for_a_while(
    daemon: ForkedDaemon, what: str, until: str
) -> None:
    def cause(site: Site) -> Callable[[], None]:
        (site.root / what).chmod(0o555)
        return lambda: (site.root / what).chmod(0o755)

    daemon.tricks = {"powerless": True}
    told, verdict = through_trouble(daemon, cause, "r2", until)
    assert "io_error" in told.kinds()
    assert not verdict


@pytest.mark.skipif(no_strace is not None, reason=no_strace or "strace works")
def test_after_a_failed_sync_of_the_journal_it_is_read_only_and_says_so(
    daemon: ForkedDaemon,
) -> None:
    daemon.start()
    site = story.prepare(daemon)
    until_at_rest(daemon.state)
    told = story.Told()
    writer = tracer.threads(daemon.pid)[0]
    with Tracer(writer, "fdatasync:error=EIO:when=1"):
        story.tell(site, told)
    assert told.refusals["r1"].startswith("outcome_unknown")
    assert told.refusals["r2"].startswith("read_only")
    assert "fdatasync of the journal failed" in site.person.call("status")["read_only"]
    assert site.agent.call("read", path="keep/mine.txt")["text"]
    assert not settle(site, told)


def test_sigterm_ends_a_read_only_daemon(daemon: ForkedDaemon) -> None:
    if no_strace is not None:
        pytest.skip(no_strace)
    daemon.start()
    site = story.prepare(daemon)
    with Tracer(tracer.threads(daemon.pid)[0], "fdatasync:error=EIO:when=1"):
        story.tell(site, story.Told())
    os.kill(daemon.pid, signal.SIGTERM)
    assert daemon.wait() == 0


@pytest.mark.skipif(no_strace is not None, reason=no_strace or "strace works")
@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("pause", [0.3, 0], ids=["checkpoint", "no checkpoint"])
def test_what_can_not_be_removed_is_removed_later(
    daemon: ForkedDaemon, end: str, pause: float
) -> None:
    daemon.start()
    site = story.prepare(daemon)
    told = story.Told()
    with Tracer(tracer.threads(daemon.pid)[0], "unlinkat:error=EIO:when=1+"):
        story.tell(site, told)
        time.sleep(pause)
    assert told.with_answer(story.Answer.DONE) == {"r1", "r2", "r3", "r4", "r5"}
    assert list(site.root.glob("**/.stet-*"))
    if end == "stop":
        assert daemon.stop() == 0
        assert not list(site.root.glob("**/.stet-*"))
    else:
        daemon.kill()
    daemon.hang_up()
    daemon.start()
    site.connect()
    assert not story.judge(site, told)
