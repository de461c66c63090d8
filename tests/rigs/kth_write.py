"""The k-th-write rig: a daemon whose disk stops at every change there is, and a judge.

    python -m rigs.kth_write [--sample N | --point P ..] [--seed S] [--story S ..] [--part I N]

run in the directory of the tests. A *point* is ``story:k:mode`` or, with a second crash while
the first is recovered from, ``story:k:mode:j:mode``; the modes are

    kill      the process ends, the machine goes on (same boot)
    keep      a power cut, but everything had reached the disk (another boot)
    drop      a power cut, everything unsynced is lost
    garble    a power cut, of what was not synced something is left

With ``+outage`` somebody saves a file before the daemon starts again, with ``+recovery`` while
it recovers, in the instant before it first replaces a file.

At each point the story is told in a process of its own until its disk stops; the directory
becomes what the machine would find; then another process starts a daemon there and judges:

- it starts, and serves;
- the workspace, the clipboards, the modes and the history are as after some event of the
  story, not before the last acknowledged one and not after the last that had begun;
- what somebody else has saved is on disk or in the history;
- every call is sent again: what was applied is answered as before and not applied again,
  what was not is applied now; in the end all is as if nothing had happened;
- git finds nothing wrong with the history.

A JSON line per point goes to standard output: ``{"point", "crashed", "violations": [[torn |
lost | duplicated, text]..], "trace"}``. Without ``--sample`` every k is tried in every mode.
``STET_MUTANT`` names a defect to be given to the daemon (:mod:`rigs.mutants`).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Self

from e2e.running_daemon import fsck
from rigs import mutants
from rigs.crashable_disk import STOPPED, CrashableDisk, load_remains, power_cut
from rigs.stories import STORIES, Call, Json, Order, Save, Story
from rigs.telling import Notes, Teller, save_by_renaming
from stetd.editing.tokens import load_encoding
from stetd.history.objects import object_id
from stetd.storage.disk import Disk

MODES = ("kill", "keep", "drop", "garble")
_MEMORY = "/dev/shm"  # nothing is really synced, so nothing has to be written to a disk
_LONGEST_S = 60
#: What somebody saves while the daemon is down.
_LATE = "saved before the daemon was back\n"
Violation = tuple[str, str]


@dataclass(frozen=True)
class Point:
    """Where it crashes, and how; perhaps a second time while recovering."""

    story: str
    k: int
    mode: str
    j: int | None = None
    second_mode: str = ""
    #: When somebody saves a file before the daemon serves again: "outage", "recovery".
    save: str = ""

    def __str__(self) -> str:
        parts = [self.story, str(self.k), self.mode]
        if self.j is not None:
            parts += [str(self.j), self.second_mode]
        return ":".join(parts) + (f"+{self.save}" if self.save else "")

    @classmethod
    def parse(cls, text: str) -> Point:
        where, _, save = text.partition("+")
        story, k, mode, *second = where.split(":")
        j, second_mode = (int(second[0]), second[1]) if second else (None, "")
        return cls(story, int(k), mode, j, second_mode, save)


@dataclass
class Verdict:
    """What was found at a point; ``crashed``: it was before the end of the story."""

    point: str
    crashed: bool = True
    violations: list[Violation] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    #: How many changes the (second) crash came after; less than j: it was not reached.
    count: int = 0


# -- processes and places


class Place:
    """A directory for one point: ``disk`` is the machine's, beside it is what the test knows."""

    def __init__(self, story: Story) -> None:
        memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        self.directory = tempfile.mkdtemp(prefix="stet-kth-", dir=memory)
        self.disk = self.beside("disk")
        self.notes = Notes(self.beside("notes"))
        self.durability = story.durability
        os.mkdir(self.disk)
        for name in ("ws", "state", "run"):
            os.mkdir(os.path.join(self.disk, name), 0o700)
        os.chmod(os.path.join(self.disk, "ws"), 0o755)
        for name, content in story.files.items():
            path = os.path.join(self.disk, "ws", name)
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(content)
            os.chmod(path, 0o755 if name.endswith(".sh") else 0o644)

    def beside(self, name: str) -> str:
        """A path beside the disk."""
        return os.path.join(self.directory, name)

    def save_late(self, name: str, save: Callable[[str, str], None]) -> None:
        """Somebody saves a file before the daemon is back, over what stands there."""
        path = os.path.join(self.disk, "ws", name)
        replaced = None
        if os.path.exists(path):
            with open(path, encoding="latin-1", newline="") as file:
                replaced = file.read()
        save(path, _LATE)
        self.notes.add(done=_LATE, answer={"path": name, "replaced": replaced})

    def run(self, boot: int, work: Callable[[], Coroutine[object, object, None]]) -> str | None:
        """Do something in a process of its own; what went wrong, None if nothing did.

        That its disk stopped is as it should be.
        """
        child = os.fork()
        if child == 0:
            self._in_child(boot, work)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return f"ended by signal {os.WTERMSIG(status)} (a hang, if it is {signal.SIGALRM})"
        if os.WEXITSTATUS(status) in (0, STOPPED):
            return None
        with open(self.beside("log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def _in_child(self, boot: int, work: Callable[[], Coroutine[object, object, None]]) -> None:
        status = 1
        try:
            signal.alarm(_LONGEST_S)
            log = os.open(self.beside("log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 2)
            os.environ["STET_BOOT_ID"] = f"boot-{boot}"
            os.environ["HOME"] = self.directory  # or nothing in /dev could be a workspace
            asyncio.run(work())
            status = 0
        except BaseException:  # noqa: BLE001 - whatever it is, it belongs into the log
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    def fsck(self) -> str:
        """What git complains about."""
        workspaces = os.path.join(self.disk, "state", "workspaces")
        return "".join(fsck(os.path.join(workspaces, name)) for name in os.listdir(workspaces))

    def in_history(self) -> set[str]:
        """The ids of all objects that the histories hold."""
        workspaces = os.path.join(self.disk, "state", "workspaces")
        found: set[str] = set()
        for name in os.listdir(workspaces):
            shadow = os.path.join(workspaces, name)
            command = ["git", "--git-dir", shadow, "rev-list", "--objects", "--all"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            found.update(line[:40] for line in done.stdout.splitlines())
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.directory)


# -- the story as it should be


@dataclass(frozen=True)
class Reference:
    """A story without a crash: the world before each event and at the end, the refusals."""

    story: Story
    worlds: list[Json]
    refusals: dict[str, str | None]


class References:
    """Stories without a crash, each told once."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, Order | None], Reference] = {}
        self._changes: dict[str, list[str]] = {}

    def get(self, name: str, order: Order | None = None) -> Reference:
        """A story told event by event, perhaps with one step in another order."""
        if (name, order) not in self._told:
            story = STORIES[name] if order is None else STORIES[name].retold(order)
            self._told[name, order] = _tell_without_crash(story)
        return self._told[name, order]

    def changes(self, name: str) -> list[str]:
        """The changes that the disk sees while a story is told in one go."""
        if name not in self._changes:
            story = STORIES[name]
            with Place(story) as place:
                failed = place.run(1, lambda: _tell(place, story, None, 0))
                assert failed is None, failed
                self._changes[name] = load_remains(place.beside("remains")).trace
        return self._changes[name]


def _tell_without_crash(story: Story) -> Reference:
    with Place(story) as place:
        failed = place.run(1, lambda: _picture_all(place, story))
        assert failed is None, failed
        with open(place.beside("pictures"), encoding="utf-8") as file:
            reference = Reference(story, *json.load(file))
    ending = {path: text.partition(" ")[2] for path, text in reference.worlds[-1]["files"].items()}
    if story.ending is not None:
        assert ending == story.ending, _difference({"files": story.ending}, {"files": ending})
    return reference


async def _picture_all(place: Place, story: Story) -> None:
    teller = Teller(place.disk, Disk(), place.durability)
    await teller.greet()
    worlds = [await teller.world()]
    refusals = {}
    for event in story.events:
        refusals[event.name] = (await teller.perform(event)).get("refused")
        worlds.append(await teller.world())
    with open(place.beside("pictures"), "w", encoding="utf-8") as file:
        json.dump([worlds, refusals], file)


async def _tell(place: Place, story: Story, stop_at: int | None, seed: int) -> None:
    if stop_at is not None:
        mutants.become_what_is_asked_for(recovering=False)
    disk = CrashableDisk(place.disk, place.beside("remains"), stop_at, seed)
    teller = Teller(place.disk, disk, place.durability, place.notes)
    await teller.greet()
    missing = await teller.tell(story.steps)
    await asyncio.to_thread(teller.daemon.close)
    if stop_at is None:
        assert not missing, f"{missing}: the moment for this did not come"
        disk.stop()


async def _start_only(place: Place, point: Point, seed: int) -> None:
    """Start on what a crash has left; stopped in the middle, or killed right after."""
    mutants.become_what_is_asked_for(recovering=True)
    after_kill = None
    if point.mode == "kill" and os.path.exists(place.beside("stopped")):
        after_kill = load_remains(place.beside("stopped"))
    disk = CrashableDisk(place.disk, place.beside("remains"), point.j, seed, after_kill)
    _, done = place.notes.read()
    if _LATE in done:
        disk.synced_outside(os.path.join(place.disk, "ws", done[_LATE]["path"]))
    if point.save == "recovery":
        names = {*STORIES[point.story].files, "e.txt", "f.txt", "g.txt", "h.txt"}

        def save_now(what: str, moved: tuple[str, ...]) -> None:
            for name in names.intersection(moved):
                disk.before = None
                place.save_late(name, disk.saved_outside)

        disk.before = save_now
    Teller(place.disk, disk, place.durability)
    disk.stop()


# -- one point


def try_point(point: Point, references: References) -> Verdict:
    """Crash there, and judge."""
    verdict = Verdict(str(point))
    with Place(STORIES[point.story]) as place:
        boot, failed = _crash(place, point, verdict)
        begun, done = place.notes.read()
        late = done.pop(_LATE, {"path": None, "replaced": None})
        if failed is None:
            orders: list[Order | None] = [*STORIES[point.story].orders(begun, set(done))] or [None]
            told = [references.get(point.story, order) for order in orders]
            judges = [Judge(t, begun, done, late["path"]) for t in told]
            failed = place.run(boot, lambda: _judge(place, judges))
        if failed is None:
            with open(place.beside("violations"), encoding="utf-8") as file:
                verdict.violations += [tuple(pair) for pair in json.load(file)]
            # What a person saves over is theirs to lose.
            saves = [
                event
                for event in STORIES[point.story].events
                if isinstance(event, Save) and event.name in done and event.text != late["replaced"]
            ]
            verdict.violations += _look_from_outside(place, saves)
        else:
            verdict.violations.append(("torn", failed))
        return verdict


def _crash(place: Place, point: Point, verdict: Verdict) -> tuple[int, str | None]:
    """Tell the story up to the point; which boot it is then, and what failed on the way."""
    seed = random.Random(str(point)).getrandbits(32)
    boot = 1
    failed = place.run(boot, lambda: _tell(place, STORIES[point.story], point.k, seed))
    if failed is None:
        verdict.crashed = os.path.exists(place.beside("remains"))
        boot = _come_back(place, point.mode, boot, seed, verdict)
    if point.save == "outage":
        place.save_late(random.Random(seed).choice(("a.txt", "b.txt")), save_by_renaming)
    if failed is None and point.j is not None:
        failed = place.run(boot, lambda: _start_only(place, point, seed))
        boot = _come_back(place, point.second_mode, boot, seed + 1, verdict)
    return boot, failed


def _come_back(place: Place, mode: str, boot: int, seed: int, verdict: Verdict) -> int:
    """Make of the disk what is found after the crash; the number of the boot it is found in."""
    if os.path.exists(place.beside("remains")):
        remains = load_remains(place.beside("remains"))
        os.rename(place.beside("remains"), place.beside("stopped"))
        verdict.trace += [*remains.trace[-12:], f"-- {mode}"]
        verdict.count = remains.count
        if mode in ("drop", "garble"):
            power_cut(place.disk, remains, mode, seed)
    return boot if mode == "kill" else boot + 1


def _look_from_outside(place: Place, saves: list[Save]) -> Iterator[Violation]:
    complaints = place.fsck()
    if complaints:
        yield "torn", f"git fsck: {complaints}"
    known = place.in_history()
    for save in saves:
        path = os.path.join(place.disk, "ws", save.path)
        there = b""
        if os.path.exists(path):
            with open(path, "rb") as file:
                there = file.read()
        content = save.text.encode()
        if there != content and object_id("blob", content) not in known:
            yield "lost", f"{save.name}: what was saved in {save.path} is nowhere"


# -- judging


async def _judge(place: Place, judges: list[Judge]) -> None:
    """Start, look, send everything again; by the first judge whose story fits what is found."""
    mutants.become_what_is_asked_for(recovering=True)
    teller = Teller(place.disk, Disk(), place.durability)
    await teller.greet()
    world = await teller.world()
    found = [judge.look(world) for judge in judges]
    violations = min(found, key=len)
    if not violations:
        judge = judges[found.index([])]
        violations = [v async for v in judge.retry(teller)]
        violations += judge.compare_end(await teller.world())
    await asyncio.to_thread(teller.daemon.close)
    with open(place.beside("violations"), "w", encoding="utf-8") as file:
        json.dump(violations, file)


class Judge:
    """What a story and the notes promise, against what is found."""

    def __init__(
        self, reference: Reference, begun: set[str], done: dict[str, Json], late: str | None
    ) -> None:
        self._events = reference.story.events
        self._reference = reference
        self._done = done
        numbers = {event.name: number for number, event in enumerate(self._events, start=1)}
        self._first = max((numbers[name] for name in done), default=0)
        self._last = max((numbers[name] for name in begun if name in numbers), default=0)
        #: The file that somebody has saved meanwhile: it is theirs, whatever the calls say.
        self._late = late
        #: How many events have happened, as the world shows; and how many of them surely: what
        #: was not answered and changes nothing that is looked at may not have.
        self._happened = self._surely = 0

    def look(self, world: Json) -> list[Violation]:
        """Find the event after which the world is as it is found."""
        twice = {r for r in world["requests"] if world["requests"].count(r) > 1}
        if twice:
            return [("duplicated", f"{sorted(twice)} are in the history more than once")]
        worlds = [self._with_late_save(other) for other in self._reference.worlds]
        legal = range(self._first, self._last + 1)
        fitting = [n for n in legal if worlds[n] == world]
        if fitting:
            self._happened, self._surely = fitting[-1], fitting[0]
            return []
        elsewhere = [n for n, other in enumerate(worlds) if other == world]
        if elsewhere and elsewhere[-1] < self._first:
            name = self._events[self._first - 1].name
            back_to = self._events[elsewhere[-1] - 1].name if elsewhere[-1] else "the beginning"
            return [("lost", f"{name} was acknowledged; the world is as after {back_to}")]
        kind = "lost" if len(world["requests"]) < len(worlds[self._first]["requests"]) else "torn"
        differences = [
            f"after {self._events[n - 1].name if n else 'nothing'}: "
            + _difference(worlds[n], world)
            for n in legal
        ]
        return [(kind, "; or ".join(differences))]

    def _with_late_save(self, world: Json) -> Json:
        if self._late is None:
            return world
        return {**world, "files": {**world["files"], self._late: f"100644 {_LATE}"}}

    async def retry(self, teller: Teller) -> AsyncIterator[Violation]:
        """Send all calls again, in order; let happen what has not."""
        for number, event in enumerate(self._events):
            happened = number < self._happened
            if self._late is not None and not happened:
                return  # what a call comes to on this file is not known
            if not isinstance(event, Call) and number < self._surely:
                continue
            answer = await teller.perform(event)
            if not isinstance(event, Call):
                continue
            expected = self._reference.refusals[event.name]
            if answer.get("refused") != expected:
                yield "torn", f"{event.name}, sent again: {answer}, expected {expected}"
            elif expected is None and answer["replayed"] != happened:
                kind = "duplicated" if happened else "torn"
                yield kind, f"{event.name}, sent again: {answer}; applied before: {happened}"
            elif expected is None and event.name in self._done:
                before = self._done[event.name]["commit"]
                if answer["commit"] != before:
                    yield "duplicated", f"{event.name} was {before}, sent again {answer}"

    def compare_end(self, world: Json) -> list[Violation]:
        """All has happened, once."""
        number = -1 if self._late is None else self._happened
        expected = self._with_late_save(self._reference.worlds[number])
        if world == expected:
            return []
        return [("torn", f"in the end: {_difference(expected, world)}")]


def _difference(expected: Json, found: Json) -> str:
    parts = []
    for key, wanted in expected.items():
        there = found[key]
        if isinstance(wanted, dict):
            for name in sorted({*wanted, *there}):
                if wanted.get(name) != there.get(name):
                    a, b = wanted.get(name), there.get(name)
                    parts.append(f"{key} {name}: {_short(b)}, expected {_short(a)}")
        elif wanted != there:
            parts.append(f"{key}: {there}, expected {wanted}")
    return ", ".join(parts)


def _short(text: str | None) -> str:
    return repr(text if text is None or len(text) < 120 else text[:60] + " ... " + text[-40:])


# -- which points


def modes_of(story: str) -> tuple[str, ...]:
    """The crashes that a story is told with."""
    return ("kill",) if STORIES[story].kills_only else MODES


def all_points(stories: Sequence[str], references: References, crashes: int) -> Iterator[Point]:
    """Every k in every mode; and for each second crashes, in turn all through recovery.

    For the many syncs of objects one of those, else three.
    """
    turn = itertools.product(range(71), MODES, ("", "outage", "", "recovery"))
    seconds = itertools.cycle(turn)
    for story in stories:
        changes = references.changes(story)
        for k in range(len(changes) + 1):
            alike = k < len(changes) and "stet-git fsync" in changes[k]
            for mode in modes_of(story):
                yield Point(story, k, mode)
                for _ in range((1 if alike else 3) * (crashes - 1)):
                    j, second, save = next(seconds)
                    second = second if second in modes_of(story) else "kill"
                    yield Point(story, k, mode, j, second, save)


def sampled_points(
    stories: Sequence[str], references: References, number: int, seed: int
) -> Iterator[Point]:
    """Points picked at random, every second one with a second crash.

    Of the many syncs of objects each tells little, so fewer of them are picked.
    """
    pick = random.Random(seed)
    for n in range(number):
        seldom = n % 8 == 7
        story = pick.choice([s for s in stories if STORIES[s].kills_only == seldom] or stories)
        changes = references.changes(story)
        weights = [1 if "stet-git fsync" in change else 8 for change in changes]
        modes = modes_of(story)
        if n % 8 == 3:  # killed while staging a file, and again while that is mended
            staging = [k for k, change in enumerate(changes) if " write .stet" in change]
            yield Point(story, pick.choice(staging), "kill", pick.randrange(20, 36), "kill")
            continue
        k = pick.choices(range(len(changes)), weights)[0]
        mode = "kill" if n % 8 == 5 else pick.choice(modes)
        if n % 2:
            save = pick.choice(("", "outage", "recovery"))
            yield Point(story, k, mode, pick.randrange(70), pick.choice(modes), save)
        else:
            yield Point(story, k, mode, save=pick.choice(("", "", "outage")))


def main() -> int:
    parser = argparse.ArgumentParser(description="Crash a daemon at the k-th change of its disk.")
    parser.add_argument("--sample", type=int, help="how many points to try, picked at random")
    parser.add_argument("--seed", type=int, default=1, help="what the picking starts from")
    parser.add_argument("--story", action="append", choices=sorted(STORIES))
    parser.add_argument("--seconds", type=float, help="begin no point after so long")
    parser.add_argument("--crashes", type=int, choices=(1, 2), default=2, help="of all points")
    parser.add_argument("--first", action="store_true", help="stop at the first violation")
    parser.add_argument(
        "--part",
        nargs=2,
        type=int,
        default=(0, 1),
        help="I N: try only the points I, I + N, I + 2 N, ..",
    )
    parser.add_argument("--point", action="append", default=[], help="try only this one")
    given = parser.parse_args()
    for name in [name for name in os.environ if name.startswith(("GIT_", "STET_"))]:
        if name != "STET_MUTANT":
            del os.environ[name]
    load_encoding()  # once, before forking
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the disk holds on to every inode
    if not mutants.fit():
        return 1
    references = References()
    stories = given.story or list(STORIES)
    chosen: Iterable[Point] = [Point.parse(text) for text in given.point]
    if not given.point and given.sample is not None:
        chosen = sampled_points(stories, references, given.sample, given.seed)
    elif not given.point:
        chosen = all_points(stories, references, given.crashes)
    begun = time.monotonic()
    for point in itertools.islice(chosen, given.part[0], None, given.part[1]):
        if given.seconds and time.monotonic() - begun > given.seconds:
            break
        verdict = try_point(point, references)
        print(json.dumps(asdict(verdict)), flush=True)
        if given.first and verdict.violations:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
