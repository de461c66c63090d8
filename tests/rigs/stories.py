"""What happens to a workspace in the crash rigs, as data: calls, saves by a person, and so on.

A story is a list of steps, a step a list of events. The events of a step belong together:
its calls share a batch; a save with ``lands`` happens in the middle of them, at the moment
when the daemon is about to do that to that name. Told without a crash, and when what a crash
has left undone is done, the events simply happen one after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A request of the agent with this request id."""

    name: str
    method: str
    params: Json


@dataclass(frozen=True)
class Save:
    """A person saves a file; ``lands``: just before (change of names, name)."""

    name: str
    path: str
    text: str
    lands: tuple[str, str] | None = None


@dataclass(frozen=True)
class Other:
    """A request that has no request id, the same however often it is sent."""

    name: str
    method: str
    params: Json = field(default_factory=dict)
    control: bool = False


Event = Call | Save | Other
Step = list[Event]
Durability = Literal["full", "relaxed"]
#: The number of a step, and the names of its events that happen, in order.
Order = tuple[int, tuple[str, ...]]


@dataclass(frozen=True)
class Story:
    """Files at the beginning, and what happens."""

    files: dict[str, str]
    steps: list[Step]
    #: What the files are in the end, by hand: the reference is not to be trusted blindly.
    ending: dict[str, str] | None
    durability: Durability = "full"
    #: Nothing in particular is promised about a power cut.
    kills_only: bool = False

    @property
    def events(self) -> list[Event]:
        """All events in the order in which they count as done."""
        return [event for step in self.steps for event in step]

    def retold(self, order: Order) -> Story:
        """The story with other events in one step; nobody knows how it ends."""
        step, names = order
        by_name = {event.name: event for event in self.steps[step]}
        steps = [*self.steps]
        steps[step] = [by_name[name] for name in names]
        return replace(self, steps=steps, ending=None)

    def orders(self, begun: set[str], done: set[str]) -> list[Order]:
        """What may have happened in the step that a crash interrupted, if saves belong to it.

        One that did not come to pass is left out: the story goes on without it. One that
        did has happened before or after any of the calls - after: a call is finished when
        the daemon starts again, and a file that has been saved meanwhile keeps the save
        (docs/limits.md).
        """
        for number, step in enumerate(self.steps):
            names = [event.name for event in step]
            landing = [e.name for e in step if isinstance(e, Save) and e.lands]
            if landing and begun.issuperset(names) and not done.issuperset(names):
                saves = [name for name in landing if name in done]
                calls = [name for name in names if name not in landing]
                return [(number, order) for order in _interleavings(saves, calls)]
        return []


def _interleavings(some: list[str], others: list[str]) -> Iterator[tuple[str, ...]]:
    """All orders that keep the order of both; first the one that has ``some`` first."""
    length = len(some) + len(others)
    for places in itertools.combinations(range(length), len(some)):
        first, second = iter(some), iter(others)
        yield tuple(next(first) if at in places else next(second) for at in range(length))


def _patch(name: str, path: str, *patches: Json) -> Call:
    return Call(name, "patch", {"path": path, "patches": list(patches)})


def _replace(old: str, new: str, **more: object) -> Json:
    return {"operation": "replace", "oldText": old, "newText": new, **more}


def _append(text: str) -> Json:
    return {"operation": "append_eof", "newText": text}


def _together(name: str, *calls: Call) -> Call:
    inner = [{"method": call.method, "params": call.params} for call in calls]
    return Call(name, "transaction", {"calls": inner})


def _told(name: str, phase: str, use: str, *paths: str) -> Other:
    named: Json = {"paths": list(paths)} if paths else {}
    return Other(name, "observe", {"phase": phase, "use": use, **named})


def _mode(name: str, mode: str, **more: object) -> Other:
    return Other(name, "mode_set", {"mode": mode, **more}, control=True)


_LONG = "".join(f"line {n} of a file that fills a segment of the journal\n" for n in range(400))
_CHECKPOINT = "checkpoint"

#: Every kind of call once, between two checkpoints and after them.
DAY = Story(
    files={
        "a.txt": "one\ntwo\nthree\n",
        "b.txt": "alpha\nbeta\n-\ngamma\n-\ndelta\nepsilon\n",
        "long.txt": _LONG,
        "tool.sh": "#!/bin/sh\necho old\n",
    },
    steps=[
        [_patch("r1", "a.txt", _replace("one", "1"))],
        [_patch("r2", "long.txt", _replace("line 7 ", "line seven "))],
        [_patch("r3", "new/deep/c.txt", _append("created\n"))],
        [
            _together(
                "r4",
                _patch("", "a.txt", _replace("two", "TWO")),
                _patch("", "b.txt", _replace("beta", "BETA")),
            )
        ],
        [Other("checkpoint 1", _CHECKPOINT)],
        [_patch("r5", "b.txt", _replace("gamma\n", "", toClipboard="cut"))],
        [Save("s1", "b.txt", "alpha\nBETA\n-\n-\ndelta\nepsilon\nby hand\n")],
        [_patch("r6", "b.txt", _replace("delta", "DELTA"))],
        [_mode("m1", "restricted", session="s")],
        [Other("c1", "clipboard_set", {"name": "note", "text": "kept\n"})],
        [_mode("m2", "unrestricted", session="s")],
        [Call("r7", "undo", {"request": "r4"})],
        [
            _patch("r8", "a.txt", _replace("three", "3")),
            _patch("r9", "a.txt", _replace("3", "III")),
            _patch("r10", "e.txt", _append("x\n")),
        ],
        [_patch("r11", "tool.sh", _replace("old", "new"))],
        [Save("s2", "tool.sh", "#!/bin/sh\necho by hand\n")],
        [Call("r12", "undo", {"request": "r3"})],
        # While a checkpoint is taken.
        [
            Other("checkpoint 2", _CHECKPOINT),
            _patch("r13", "a.txt", _replace("1\n", "I\n")),
            _patch("r14", "f.txt", _append("made during a checkpoint\n")),
        ],
        [Save("s3", "e.txt", "x\nby hand too\n")],
        [_patch("r15", "long.txt", _replace("line 9 ", "line nine "))],
        [_mode("m3", "restricted", scope="workspace")],
    ],
    ending={
        "a.txt": "I\ntwo\nIII\n",
        "b.txt": "alpha\nbeta\n-\n-\nDELTA\nepsilon\nby hand\n",
        "e.txt": "x\nby hand too\n",
        "f.txt": "made during a checkpoint\n",
        "long.txt": _LONG.replace("line 7 ", "line seven ").replace("line 9 ", "line nine "),
        "tool.sh": "#!/bin/sh\necho by hand\n",
    },
)

#: Somebody saves in the instant between reading and replacing, again and again.
COLLISIONS = Story(
    files={"a.txt": "one\ntwo\n", "b.txt": "alpha\nbeta\n"},
    steps=[
        [_patch("r1", "a.txt", _replace("one", "1"))],
        # Before a replacement, and once more before what was displaced is put back.
        [
            Save("s1", "a.txt", "1\ntwo\nsaved 1\n", ("exchange", "a.txt")),
            Save("s2", "a.txt", "1\ntwo\nsaved B\n", ("exchange", "a.txt")),
            _patch("r2", "a.txt", _replace("two", "2")),
        ],
        # The second file of two, in a batch whose second call builds on the first.
        [
            Save("s3", "b.txt", "alpha\nbeta\nsaved 3\n", ("exchange", "b.txt")),
            _together(
                "r3",
                _patch("", "a.txt", _replace("1\n", "I\n")),
                _patch("", "b.txt", _replace("beta", "BETA")),
                _patch("", "new/f.txt", _append("created\n")),
            ),
            _patch("r4", "a.txt", _replace("I\n", "eins\n", toClipboard="cut")),
            _patch("r5", "b.txt", _replace("alpha", "ALPHA")),
        ],
        # Where a file is to be made.
        [
            Save("s4", "g.txt", "saved 4\n", ("rename_new", "g.txt")),
            _patch("r6", "g.txt", _append("appended\n")),
        ],
        [Other("checkpoint", _CHECKPOINT)],
        [_patch("r7", "h.txt", _append("made\n"))],
        # While a file is taken away: the undo is planned again, and refused.
        [
            Save("s5", "h.txt", "made\nsaved 5\n", ("rename_new", "h.txt")),
            Call("r8", "undo", {"request": "r7"}),
        ],
        [
            Save("s6", "a.txt", "eins\n2\nsaved 6\n", ("exchange", "a.txt")),
            _together(
                "r9",
                _patch("", "b.txt", _replace("BETA", "beta")),
                _patch("", "a.txt", _replace("2\n", "zwei\n")),
            ),
        ],
    ],
    ending={
        "a.txt": "eins\nzwei\nsaved 6\n",
        "b.txt": "ALPHA\nbeta\nsaved 3\n",
        "g.txt": "saved 4\nappended\n",
        "h.txt": "made\nsaved 5\n",
        "new/f.txt": "created\n",
    },
)
#: A person takes an edit back by hand, to the byte. (After a power cut that can't be told from
#: an edit that did not reach the disk: docs/limits.md.)
PUT_BACK = Story(
    files={"a.txt": "one\ntwo\n", "b.txt": "alpha\n"},
    steps=[
        [_patch("r1", "a.txt", _replace("one", "1"))],
        [Save("s1", "a.txt", "one\ntwo\n")],
        [_patch("r2", "b.txt", _replace("alpha", "ALPHA"))],
        [Save("s2", "b.txt", "alpha\n")],
        [_patch("r3", "a.txt", _replace("two", "2")), _patch("r4", "c.txt", _append("made\n"))],
        [Other("checkpoint", _CHECKPOINT)],
        [_patch("r5", "a.txt", _replace("2", "II"))],
        [Save("s3", "a.txt", "one\n2\n")],
        [_patch("r6", "c.txt", _append("more\n"))],
    ],
    ending={"a.txt": "one\n2\n", "b.txt": "alpha\n", "c.txt": "made\nmore\n"},
    kills_only=True,
)
#: An agent edits with tools of its own, whose hooks tell before and afterwards. (The checkpoints
#: are there because recovery records as outside what was saved since in a file that was touched.)
OBSERVED = Story(
    files={"a.txt": "one\n", "b.txt": "alpha\n", "c.txt": "kept\n"},
    steps=[
        [_told("before 1", "before", "u1", "a.txt", "new.txt")],
        [Other("checkpoint 1", _CHECKPOINT)],
        [Save("s1", "a.txt", "two\n")],
        [Call("r1", "observe", {"phase": "after", "use": "u1", "paths": ["a.txt", "new.txt"]})],
        [_patch("r2", "b.txt", _replace("alpha", "ALPHA"))],
        [Call("r3", "undo", {"request": "r1"})],
        [_told("before 2", "before", "u2")],
        [Other("checkpoint 2", _CHECKPOINT)],
        [Save("s2", "new.txt", "made\n")],
        [Call("r4", "observe", {"phase": "after", "use": "u2"})],
        [_patch("r5", "new.txt", _append("more\n")), _patch("r6", "c.txt", _append("more\n"))],
        [Call("r7", "undo", {"request": "r6"})],
    ],
    ending={"a.txt": "one\n", "b.txt": "ALPHA\n", "c.txt": "kept\n", "new.txt": "made\nmore\n"},
)
STORIES = {
    "day": DAY,
    "collisions": COLLISIONS,
    "put-back": PUT_BACK,
    "observed": OBSERVED,
    # These two survive a kill, and promise nothing about a power cut.
    "relaxed-day": replace(DAY, durability="relaxed", kills_only=True),
    "relaxed-collisions": replace(COLLISIONS, durability="relaxed", kills_only=True),
}
