"""Hunks over the lines of a file: what they change, and how a model may send them.

A hunk has its *true* rows, which the file has and the edit means, and the text that is *sent*.
What is sent is right, or off in one of the ways that models are off.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from differential.dice import Dice
from differential.mistakes import ADDED, GONE, KEPT, MISTAKES, depth_of

_HEADER = re.compile(r"\s*(?:async def|def|class)\b")
_DESCRIPTIONS = ("update the handler", "add what is missing", "imports", "the second case")


@dataclass(frozen=True)
class Row:
    """A line of a hunk: its sign and its text in the file, or the text that is added."""

    sign: str
    text: str


@dataclass
class Hunk:
    """Lines ``first`` to ``first + size`` of a file, edited.

    ``places``: the texts after its ``@@``; None: it begins without one. ``sent``: its lines as
    they are sent, signs and all. ``off``: they are not what the file has.
    """

    first: int
    rows: list[Row]
    places: list[str] | None = field(default_factory=lambda: [""])
    sent: list[str] = field(default_factory=list)
    end_of_file: bool = False
    off: bool = False
    #: The line of the file that the last of ``places`` is.
    under: int | None = None
    #: How many of the lines at its beginning are bare, and not in the file.
    invented: int = 0

    @property
    def old(self) -> list[str]:
        """The lines of the file that it covers."""
        return [row.text for row in self.rows if row.sign != ADDED]

    @property
    def size(self) -> int:
        """How many lines of the file it covers."""
        return sum(row.sign != ADDED for row in self.rows)

    @property
    def end(self) -> int:
        """The line after the last one that it covers."""
        return self.first + self.size

    def text(self) -> list[str]:
        """The hunk as lines of a patch."""
        places = [f"@@ {text}".rstrip(" ") for text in self.places or ()]
        ending = ["*** End of File"] if self.end_of_file else []
        return [*places, *self.sent, *ending]


def draw_hunks(dice: Dice, topic: str, lines: list[str]) -> list[Hunk]:
    """One to six hunks over ``lines``, in their order.

    Mistakes may be made on either side: lines of the file inside a hunk may change too.
    """
    rng = dice.on(f"{topic}:hunks")
    count = rng.choice([1, 1, 1, 2, 2, 3, 4, 5, 6])
    last = len(lines)
    while last and not lines[last - 1].strip():
        last -= 1
    starts = sorted(rng.randrange(last) for _ in range(count))
    if rng.random() < 0.15:
        starts[0] = 0
    if rng.random() < 0.25:
        starts[-1] = max(0, last - rng.randint(1, 3))
    hunks: list[Hunk] = []
    for number, start in enumerate(starts):
        here = f"{topic}:hunk{number}"
        hunk = _hunk(dice, here, lines, start, hunks, last)
        if hunk is not None:
            hunk.sent = [row.sign + row.text for row in hunk.rows]
            _spoil(dice, here, lines, hunk)
            _place(dice, here, lines, hunk, hunks)
            hunks.append(hunk)
    if not hunks:
        row = Row(ADDED, _new_text(rng, lines, 0))
        hunks.append(Hunk(len(lines), [row], sent=[row.sign + row.text]))
    _add_only(dice, topic, lines, hunks)
    if dice.on(f"{topic}:bare").random() < 0.15:
        hunks[0].places = None if hunks[0].places == [""] else hunks[0].places
    return hunks


def _hunk(
    dice: Dice, topic: str, lines: Sequence[str], start: int, before: Sequence[Hunk], last: int
) -> Hunk | None:
    rng = dice.on(topic)
    lead, tail = rng.choice([(0, 0), (1, 1), (2, 2), (3, 3), (3, 3), (5, 5), (0, 2), (3, 0)])
    removed, added = rng.choice([(0, 1), (0, 3), (1, 0), (1, 1), (1, 1), (1, 3), (2, 2), (4, 1)])
    free = before[-1].end if before else 0
    if before and dice.trait("shared_context", topic, 0.06):
        free = before[-1].end - _kept_at_end(before[-1])
        start = before[-1].end
        lead = 5
    begin = max(start, free)
    end = min(begin + removed, last)
    if begin >= last:
        return None
    first = max(free, begin - lead)
    stop = min(last, end + tail)
    if first == begin and end == stop and end == begin:
        stop = end + 1
    rows = [Row(KEPT, text) for text in lines[first:begin]]
    rows += _changed(rng, lines, begin, end, added)
    rows += [Row(KEPT, text) for text in lines[end:stop]]
    return Hunk(first, rows)


def _kept_at_end(hunk: Hunk) -> int:
    kept = 0
    for row in reversed(hunk.rows):
        if row.sign != KEPT:
            break
        kept += 1
    return kept


def _changed(
    rng: random.Random, lines: Sequence[str], begin: int, end: int, added: int
) -> list[Row]:
    """The changed lines of a hunk: in one group, or in two around a line that stays."""
    new = [Row(ADDED, _new_text(rng, lines, begin)) for _ in range(added)]
    gone = [Row(GONE, text) for text in lines[begin:end]]
    if len(gone) > 2 and rng.random() < 0.5:
        return [gone[0], *new, Row(KEPT, gone[1].text), *gone[2:], *new[:1]]
    return [*gone, *new]


def _new_text(rng: random.Random, lines: Sequence[str], near: int) -> str:
    close = next((text for text in lines[near:] if text.strip()), "")
    space, word = close[: len(close) - len(close.lstrip())], f"changed_{rng.randrange(10**6)}"
    choices = [
        f"{space}{word} = {rng.randrange(100)}",
        f"{close.rstrip()}  # {word}",
        f"{space}{word}(\u201cna\u00efve\u201d, '\u2026', \u65e5\u672c)  # \u2013 \U0001f600",
        f"{space}if {word}:",
        f"{space}$& \\1 ${{{word}}} %s {{}} @@ *** ---",
        "",
    ]
    return rng.choices(choices, [5, 3, 1, 1, 1, 1])[0]


# -- where it is said to be


def _place(
    dice: Dice, topic: str, lines: Sequence[str], hunk: Hunk, before: Sequence[Hunk]
) -> None:
    """``@@`` lines."""
    rng = dice.on(f"{topic}:place")
    if hunk.end == len(lines) and dice.chance(f"{topic}:eof", 0.5):
        hunk.end_of_file = True
        if not hunk.off and dice.trait("blank_context_at_end", topic, 0.2):
            hunk.sent.append(KEPT)
    elif not any(text.strip() for text in lines[hunk.end :]):
        hunk.end_of_file = dice.trait("blank_lines_after_end", topic, 0.7)
    kind = rng.choices(["none", "nearest", "stacked", "description", "range"], [50, 32, 8, 5, 3])[0]
    above = enclosing(lines, hunk)
    if kind == "nearest" and above:
        passed = before and above[-1] < before[-1].end
        if not passed or dice.trait("header_before_cursor", topic):
            hunk.places, hunk.under = [_spelled(rng, lines[above[-1]])], above[-1]
    elif kind == "stacked" and len(above) > 1:
        passed = before and above[-1] < before[-1].end
        if (not passed or dice.trait("header_before_cursor", topic)) and dice.trait(
            "stacked_headers", topic
        ):
            hunk.places = [_spelled(rng, lines[at]) for at in above[-2:]]
            hunk.under = above[-1]
    elif kind == "description" and dice.trait("description", topic):
        hunk.places = [rng.choice(_DESCRIPTIONS)]
    elif kind == "range" and dice.trait("git_range", topic):
        new = sum(row.sign != GONE for row in hunk.rows)
        hunk.places = [f"-{hunk.first + 1},{hunk.size} +{hunk.first + 1},{new} @@"]


def enclosing(lines: Sequence[str], hunk: Hunk) -> list[int]:
    """The lines that begin the functions and classes around a hunk, outermost first."""
    inside = [row.text for row in hunk.rows if row.sign != ADDED and row.text.strip()]
    depth = min((depth_of(text) for text in inside), default=0)
    found: list[int] = []
    for at in range(hunk.first - 1, -1, -1):
        text = lines[at]
        if text.strip() and depth_of(text) < depth:
            depth = depth_of(text)
            if _HEADER.match(text):
                found.append(at)
    return found[::-1]


def _spelled(rng: random.Random, text: str) -> str:
    return text.strip() if rng.random() < 0.5 else text


def _add_only(dice: Dice, topic: str, lines: Sequence[str], hunks: list[Hunk]) -> None:
    """Sometimes a hunk that only adds: under an ``@@`` line of its own, or at the end."""
    rng = dice.on(f"{topic}:only")
    row = Row(ADDED, f"only_added_{rng.randrange(10**6)} = 1")
    if dice.trait("added_at_end", topic, 0.06) and hunks[-1].end <= len(lines):
        added = Hunk(len(lines), [row], sent=[row.sign + row.text])
        added.end_of_file = rng.random() < 0.4
        hunks[-1].end_of_file = False
        if dice.trait("bare_blank_beside_added", topic, 0.4):
            added.sent.insert(0, "")
        hunks.append(added)
    elif dice.trait("added_under_header", topic, 0.07):
        heads = [at for at, text in enumerate(lines) if _HEADER.match(text)]
        free = [at for at in heads if all(not h.first - 1 <= at < h.end for h in hunks)]
        if free:
            at = rng.choice(free)
            added = Hunk(at + 1, [row], [_spelled(rng, lines[at])], [row.sign + row.text])
            hunks.append(added)
            hunks.sort(key=lambda hunk: (hunk.first, hunk.end))


# -- how it is sent


def _spoil(dice: Dice, topic: str, lines: list[str], hunk: Hunk) -> None:
    """One mistake, in about every fifth hunk."""
    rng = dice.on(f"{topic}:spoil")
    name = rng.choice(sorted(MISTAKES))
    if rng.random() < 0.2:
        sent, changed = list(hunk.sent), lines[hunk.first : hunk.end]
        MISTAKES[name](rng, sent, changed)
        spoilt = sent != hunk.sent or changed != lines[hunk.first : hunk.end]
        if spoilt and dice.trait(name, topic):
            hunk.sent = sent
            hunk.off = True
            hunk.invented = next((n for n, line in enumerate(sent) if line), 0)
            hunk.invented *= name == "blank_edges"
            lines[hunk.first : hunk.end] = changed
            stood = iter(changed)
            hunk.rows = [
                row if row.sign == ADDED else Row(row.sign, next(stood)) for row in hunk.rows
            ]
