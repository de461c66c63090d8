"""The power goes at a failpoint: a copy of the disk's image, mounted, is all that is left.

State and workspace lie on a file system in an image file. The daemon stops itself (SIGSTOP) at
every failpoint while it starts, is told the story, and stops; each time the image is copied
with the file system still mounted. What the kernel has not written yet is in no copy: that is
the power cut. Each copy is then mounted in the place of the original, and a daemon recovers on
it, under another boot id. ext4 and a sample of the points; xfs, btrfs, all points, and cuts
during recovery from a cut with STET_TEST_ALL=1.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.forking import ForkServer
from e2e.running_daemon import PATIENCE_S, ConnectionEnded, Refusal, Site
from rigs import findings, mounts, story
from rigs.forked_daemon import ForkedDaemon

ALL = bool(os.environ.get("STET_TEST_ALL"))
SAMPLE = 12
_MIB = 1 << 20


@dataclass(frozen=True)
class FileSystem:
    """How to make and mount one. The options make it as forgetful as it may be."""

    name: str
    size: int
    mkfs: tuple[str, ...]
    options: str


FILE_SYSTEMS = [
    FileSystem("ext4", 64 * _MIB, ("mkfs.ext4", "-q", "-F"), "loop,noauto_da_alloc,commit=300"),
    FileSystem("xfs", 320 * _MIB, ("mkfs.xfs", "-q"), "loop,nouuid"),
    FileSystem("btrfs", 128 * _MIB, ("mkfs.btrfs", "-q"), "loop,commit=300"),
]


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


@pytest.fixture(params=FILE_SYSTEMS, ids=lambda each: each.name)
def system(request: pytest.FixtureRequest) -> FileSystem:
    chosen: FileSystem = request.param
    if chosen.name != "ext4" and not ALL:
        pytest.skip("only with STET_TEST_ALL=1")
    return _usable(chosen)


def _usable(chosen: FileSystem) -> FileSystem:
    reason = mounts.why_not_images(chosen.name)
    if reason is not None:
        pytest.skip(reason)
    return chosen


@dataclass(frozen=True)
class Cut:
    """The image as the power cut left it, and what the client knew then."""

    point: str
    image: Path
    told: story.Told


class Machine:
    """A daemon whose state and workspace are on an image that is mounted for a while."""

    def __init__(self, forks: ForkServer, system: FileSystem) -> None:
        self.daemon = ForkedDaemon(forks, story.SETTINGS, place="m", state="m")
        self.image = self.daemon.base / "image"
        self.system = system
        mounts.make_image(self.image, system.size, *system.mkfs)
        self._cuts = self._judged = 0

    def close(self) -> None:
        self.daemon.close()

    def prepare(self) -> Site:
        """The story's workspace, and a daemon that has stopped in good order. All is synced."""
        with self.powered(self.image):
            self.daemon.start()
            site = story.prepare(self.daemon)
            assert self.daemon.stop() == 0
            self.daemon.hang_up()
        return site

    def powered(self, image: Path) -> AbstractContextManager[Path]:
        """The image, mounted where the daemon looks for it."""
        return mounts.mounted(self.daemon.place, "-o", self.system.options, str(image))

    def cuts(
        self,
        image: Path,
        told: story.Told,
        act: Callable[[], None],
        wanted: Callable[[str], bool],
        *,
        boot: str = "boot-1",
        tricks: Mapping[str, Any] = {},
    ) -> list[Cut]:
        """Run a daemon on an image, stopping at every failpoint; cut at those wanted.

        ``act`` is run in a thread once the daemon starts; when it ends the daemon is told to.
        """
        cuts = []
        points = self.daemon.base / "points"
        points.write_text("")
        with self.powered(image):
            device = self._loop_device(image)
            pid = self.daemon.fork(
                {"STET_BOOT_ID": boot}, tricks={**tricks, "stop_at": str(points)}
            )
            actor = threading.Thread(target=self._act_and_end, args=(act, pid))
            actor.start()
            try:
                while (status := self.daemon.look()) is None or status == "stopped":
                    if status is None:
                        time.sleep(0.0005)
                        continue
                    name = points.read_text().splitlines()[-1]
                    if wanted(name):
                        time.sleep(0.005)  # a reply that was just sent counts
                        cuts.append(self._cut(name, image, told, device))
                    os.kill(pid, signal.SIGCONT)
            finally:
                if self.daemon.running:
                    self.daemon.kill()
                actor.join()
            assert status == 0, self.daemon.log()
            self.daemon.hang_up()
        return cuts

    @staticmethod
    def _act_and_end(act: Callable[[], None], pid: int) -> None:
        try:
            act()
        finally:
            os.kill(pid, signal.SIGTERM)

    @staticmethod
    def _loop_device(image: Path) -> Path:
        listed = subprocess.run(
            ["losetup", "-n", "-O", "NAME", "-j", str(image)],
            capture_output=True,
            text=True,
            check=True,
        )
        return Path(listed.stdout.strip()).relative_to("/dev")

    def _cut(self, name: str, image: Path, told: story.Told, device: Path) -> Cut:
        self._cuts += 1
        copy = self.daemon.base / f"cut-{self._cuts}"
        activity = Path("/sys/block", device, "stat")
        with told.lock:
            known = told.copy()
            for _ in range(20):
                # Nothing may be written while the copy is made, or it is of no one moment.
                before = activity.read_text().split()
                _copy(image, copy)
                after = activity.read_text().split()
                if before[4:7] == after[4:7] and int(before[8]) == int(after[8]) == 0:
                    return Cut(f"{name} ({self._cuts})", copy, known)
        raise AssertionError("the kernel never stops writing to the image")

    def judge(self, site: Site, cut: Cut, boot: str) -> story.Verdict:
        """Recover on what is left, and judge."""
        # Each time another file: a loop device that still had the last one would be taken again,
        # with what the kernel remembers of it.
        self._judged += 1
        copy = self.daemon.base / f"judged-{self._judged}"
        _copy(cut.image, copy)
        with _removed_afterwards(copy), self.powered(copy):
            try:
                self.daemon.start(STET_BOOT_ID=boot)
                site.connect()
                return story.judge(site, cut.told.copy())
            except (AssertionError, Refusal, ConnectionEnded) as error:
                return story.Verdict(lost=[f"nobody can work here any more: {error}"])
            finally:
                if self.daemon.running:
                    self.daemon.kill()
                self.daemon.hang_up()


@contextmanager
def _removed_afterwards(file: Path) -> Iterator[None]:
    try:
        yield
    finally:
        file.unlink()


def _copy(image: Path, copy: Path) -> None:
    mounts.run("cp", "--sparse=always", str(image), str(copy))


def _connect(site: Site) -> None:
    """Say hello to a daemon that takes its time to start."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            site.connect()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)
        else:
            return


def _pause(after: str) -> None:
    if after == "r3":
        time.sleep(0.3)


def _tell(site: Site, told: story.Told) -> None:
    _connect(site)
    story.tell(site, told, _pause)


@pytest.fixture
def machine(forks: ForkServer, system: FileSystem) -> Iterator[Machine]:
    built = Machine(forks, system)
    try:
        yield built
    finally:
        built.close()


@pytest.mark.timeout(3600 if ALL else 120)
def test_the_power_goes_at_any_failpoint(machine: Machine) -> None:
    tally = findings.begin(f"a power cut at every failpoint ({machine.system.name})")
    site = machine.prepare()
    told = story.Told()
    cuts = machine.cuts(machine.image, told, lambda: _tell(site, told), lambda name: True)
    assert told.with_answer(story.Answer.DONE) == {"r1", "r2", "r3", "r4", "r5"}
    step = 1 if ALL else max(1, len(cuts) // SAMPLE)
    for cut in cuts[::step]:
        machine.judge(site, cut, "boot-2").add_to(tally, cut.point)
    if ALL:
        for cut in [each for each in cuts if each.point.startswith("publish.in_place")][2:6:3]:
            again = machine.cuts(
                cut.image, cut.told, lambda: _connect(site), lambda name: True, boot="boot-2"
            )
            for second in again:
                verdict = machine.judge(site, second, "boot-3")
                verdict.add_to(tally, f"{cut.point}, then {second.point}")
    assert tally.points > 0
    assert (tally.torn, tally.lost, tally.duplicated) == (0, 0, 0), "\n".join(tally.notes)


def test_without_syncs_an_acknowledged_edit_is_lost(forks: ForkServer) -> None:
    """The rig can fail: the mutant that syncs nothing is caught."""
    machine = Machine(forks, _usable(FILE_SYSTEMS[0]))
    try:
        site = machine.prepare()
        told = story.Told()
        cuts = machine.cuts(
            machine.image,
            told,
            lambda: _tell(site, told),
            lambda name: name == "reply.before",
            tricks={"no_sync": True},
        )
        assert len(cuts) == len(story.CALLS)
        assert any(machine.judge(site, cut, "boot-2").lost for cut in cuts)
    finally:
        machine.close()
