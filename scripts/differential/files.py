"""Copies of real files, made more awkward, and what hunks are meant to make of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from differential.dice import Dice
from differential.hunks import Hunk
from differential.mistakes import ADDED, KEPT
from mutations.sources import sources

_BOM = b"\xef\xbb\xbf"
_EXOTIC = (
    "# na\u00efve caf\u00e9 \u2013 \u201cquoted\u201d \u2026 \u65e5\u672c\u8a9e \U0001f600",
    "TEXT = 'line\u2028separator and next\x85line'",
    "# a form\x0cfeed and a vertical\x0btab, a file\x1cseparator",
    "\u00a0\u3000# wide spaces",
    "e\u0301 = 'decomposed'",
)


@dataclass
class AwkwardFile:
    """A file as it is drawn: contents of lines, and how they end.

    ``border``: the first of the lines that end otherwise than those before. ``final``: whether
    the last line has a terminator. ``latin``: lines that are in Latin-1.
    """

    lines: list[str]
    end: str = "\n"
    border: int | None = None
    final: bool = True
    bom: bool = False
    latin: frozenset[int] = frozenset()

    def before(self) -> bytes:
        """Its bytes."""
        return self._bytes(list(self._lines(0, len(self.lines))))

    def after(self, hunks: Sequence[Hunk]) -> bytes:
        """Its bytes when the hunks have done what they mean.

        Added lines end like the lines around them. The last line has a terminator unless it is
        the old last line, which had none.
        """
        ends = self._kinds()
        out: list[tuple[int, str, str]] = []
        at = 0
        for hunk in hunks:
            out += self._lines(at, hunk.first)
            near = ends[max(0, hunk.first - 1) : hunk.end + 1]
            here = hunk.first
            for row in hunk.rows:
                if row.sign == ADDED:
                    out.append((-1, row.text, near[0] if near else self.end))
                    continue
                if row.sign == KEPT and here >= at:  # else the hunk before has it too
                    out += self._lines(here, here + 1)
                here += 1
            at = hunk.end
        out += self._lines(at, len(self.lines))
        inner = [(number, text, end or ends[number]) for number, text, end in out[:-1]]
        return self._bytes([*inner, *out[-1:]])

    def _kinds(self) -> list[str]:
        """How each line ends, or would if it were not the last."""
        count = len(self.lines)
        border = count if self.border is None else self.border
        other = "\r\n" if self.end == "\n" else "\n"
        return [self.end] * border + [other] * (count - border)

    def _lines(self, first: int, end: int) -> Iterator[tuple[int, str, str]]:
        ends = self._kinds()
        if ends and not self.final:
            ends[-1] = ""
        return ((number, self.lines[number], ends[number]) for number in range(first, end))

    def _bytes(self, lines: Sequence[tuple[int, str, str]]) -> bytes:
        body = b"".join(
            text.encode("latin-1" if number in self.latin else "utf-8") + end.encode()
            for number, text, end in lines
        )
        return _BOM + body if self.bom else body


def awkward_lines(dice: Dice, topic: str) -> list[str]:
    """The lines of a real file, with what makes the search for hunks harder."""
    rng = dice.on(f"{topic}:source")
    lines = list(rng.choice(sources()).lines)
    if dice.trait("passages_twice", topic, 0.15):
        size = min(len(lines), rng.randint(8, 60))
        first = rng.randrange(len(lines) - size + 1)
        block = lines[first : first + size]
        at = rng.choice([first + size, len(lines)])
        lines[at:at] = block
    if dice.trait("unicode_in_file", topic, 0.12):
        for _ in range(12):
            lines.insert(rng.randrange(len(lines)), rng.choice(_EXOTIC))
    if dice.trait("blank_lines_at_end", topic, 0.06):
        lines += [""] * rng.randint(1, 2)
    return lines


def awkward_bytes(dice: Dice, topic: str, lines: list[str], hunks: Sequence[Hunk]) -> AwkwardFile:
    """A file with these lines, which the hunks are for; lines outside of them may change."""
    file = AwkwardFile(lines)
    rng = dice.on(f"{topic}:bytes")
    if dice.chance(f"{topic}:crlf", 0.18):
        file.end = "\r\n"
    file.final = not (lines[-1] and dice.trait("no_final_newline", topic, 0.13))
    file.bom = dice.trait("bom", topic, 0.06)
    if dice.trait("two_kinds_of_terminators", topic, 0.07):
        file.border = _between(rng, lines, hunks)
    elif dice.trait("lone_cr", topic, 0.02):
        file.end = "\r"
    if dice.trait("latin_1_elsewhere", topic, 0.05):
        near = {n for hunk in hunks for n in range(hunk.first - 1, hunk.end + 1)}
        free = [n for n, text in enumerate(lines) if n not in near and text.isascii()]
        file.latin = frozenset(rng.sample(free, min(3, len(free))))
        for number in file.latin:
            lines[number] += "  # d\u00e9j\u00e0 vu"
    return file


def _between(rng: random.Random, lines: Sequence[str], hunks: Sequence[Hunk]) -> int | None:
    """A line outside of all hunks, and not beside one."""
    near = {n for hunk in hunks for n in range(hunk.first - 1, hunk.end + 2)}
    free = [number for number in range(1, len(lines)) if number not in near]
    return rng.choice(free) if free else None
