"""A hunk with the file that it is for: what stands there, what is sent, what must come of it.

A draft keeps two versions of its hunk side by side, line by line: the *true* one, which the
file has and the edit means, and the one that is *sent*. Spoiling changes one of them, or the
file and the true one together.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from mutations.sources import Source

#: What a line of a hunk is to the edit: it stays, goes, or comes.
KEPT, GONE, ADDED = " ", "-", "+"


@dataclass(frozen=True)
class Line:
    """A line of a hunk, as a patch has it."""

    tag: str
    text: str


@dataclass(frozen=True)
class Hunk:
    """Lines of a hunk; ``first``: the index of its first line in the file."""

    first: int
    lines: tuple[Line, ...]

    @property
    def old(self) -> list[str]:
        """The lines that it replaces."""
        return [line.text for line in self.lines if line.tag != ADDED]

    @property
    def new(self) -> list[str]:
        """The lines that take their place."""
        return [line.text for line in self.lines if line.tag != GONE]


@dataclass(frozen=True)
class Draft:
    """One case before it is sent.

    ``file`` are the contents of the file's lines, ``ends`` their terminators; only the last may
    be empty. ``others`` are further hunks of the call, sent as they are. ``possible``: there is
    a right answer beside a refusal; False when the text that is sent means something else than
    what stands there.
    """

    file: tuple[str, ...]
    ends: tuple[str, ...]
    true: Hunk
    sent: tuple[Line, ...]
    others: tuple[Hunk, ...] = ()
    possible: bool = True
    bom: bool = False
    #: Terminator of the lines that are sent.
    sent_end: str = "\n"
    #: Whether old and new text end with a terminator (for dialects that don't speak in lines).
    terminated: bool = True
    #: What was done to the text makes sense only where it is no list of lines.
    as_text: bool = False
    #: Lines that are not UTF-8: these become Latin-1 bytes.
    latin: frozenset[int] = frozenset()

    @property
    def span(self) -> range:
        """The lines of the file that the hunk replaces."""
        return range(self.true.first, self.true.first + len(self.true.old))

    def before(self) -> bytes:
        """The file's bytes."""
        return self._bytes(self._lines(0, len(self.file)))

    def after(self, *, ends_last_line: bool = False) -> bytes:
        """The file's bytes after all hunks of the call.

        ``ends_last_line``: a last line that is new gets a terminator that the old one lacked.
        """
        lines = list(self._edited())
        if lines and not self.ends[-1]:
            text, _, index = lines[-1]
            lines = [(text, end or "\n", index) for text, end, index in lines[:-1]]
            is_new = index != len(self.file) - 1
            lines.append((text, "\n" if is_new and ends_last_line else "", index))
        return self._bytes(lines)

    def without_hunk(self) -> bytes:
        """The file's bytes after the other hunks alone."""
        return replace(self, true=Hunk(self.true.first, ())).after()

    def _bytes(self, lines: Iterable[tuple[str, str, int]]) -> bytes:
        body = b"".join(
            text.encode("latin-1" if index in self.latin else "utf-8") + end.encode()
            for text, end, index in lines
        )
        return b"\xef\xbb\xbf" + body if self.bom else body

    def _edited(self) -> Iterator[tuple[str, str, int]]:
        """Contents, terminators and old indexes (-1: new) of the lines afterwards."""
        at = 0
        for hunk in sorted((self.true, *self.others), key=lambda each: each.first):
            yield from self._lines(at, hunk.first)
            at = hunk.first
            for line in hunk.lines:
                if line.tag == ADDED:
                    yield line.text, self.ends[max(0, at - 1)] or "\n", -1
                    continue
                if line.tag == KEPT:
                    yield from self._lines(at, at + 1)
                at += 1
        yield from self._lines(at, len(self.file))

    def _lines(self, first: int, end: int) -> Iterator[tuple[str, str, int]]:
        return ((self.file[index], self.ends[index], index) for index in range(first, end))

    def sending(self, lines: Sequence[Line], *, possible: bool = True) -> Draft:
        """The draft with other lines sent."""
        return replace(self, sent=tuple(lines), possible=self.possible and possible)

    def change_sent(self, change: Callable[[str], str], tags: str = KEPT + GONE + ADDED) -> Draft:
        """The draft with the sent lines of some tags changed, blank ones not."""
        return self.sending(
            [
                Line(line.tag, change(line.text))
                if line.tag in tags and line.text.strip()
                else line
                for line in self.sent
            ]
        )

    def change_file(self, change: Callable[[str], str], *, added: bool = False) -> Draft:
        """The draft with all lines of the file changed that are not blank.

        ``added``: what the edit adds to the file is changed in the same way.
        """

        def changed(text: str) -> str:
            return change(text) if text.strip() else text

        def in_hunk(hunk: Hunk) -> Hunk:
            return replace(
                hunk,
                lines=tuple(
                    Line(line.tag, changed(line.text)) if added or line.tag != ADDED else line
                    for line in hunk.lines
                ),
            )

        return replace(
            self,
            file=tuple(map(changed, self.file)),
            true=in_hunk(self.true),
            others=tuple(map(in_hunk, self.others)),
        )

    def with_lines_put(self, at: int, lines: Sequence[str]) -> Draft:
        """The draft with lines put into the file before line ``at``, outside every hunk."""
        count = len(lines)

        def moved(hunk: Hunk) -> Hunk:
            assert not hunk.first < at < hunk.first + len(hunk.old), "BUG: lines put into a hunk"
            return replace(hunk, first=hunk.first + count) if hunk.first >= at else hunk

        return replace(
            self,
            file=(*self.file[:at], *lines, *self.file[at:]),
            ends=(*self.ends[:at], *["\n"] * count, *self.ends[at:]),
            true=moved(self.true),
            others=tuple(map(moved, self.others)),
        )


def indentation(text: str) -> str:
    """The leading spaces of a line."""
    return text[: len(text) - len(text.lstrip(" "))]


# -- drawing


def drawn(source: Source, rng: random.Random) -> Draft:
    """A hunk of a file with its edit, and sometimes further hunks of the same call."""
    true = next(filter(None, (_hunk(source.lines, rng, []) for _ in count())))
    others: list[Hunk] = []
    while rng.random() < 0.25:
        other = _hunk(source.lines, rng, [true, *others])
        others += [other] if other else []
    return Draft(
        file=source.lines,
        ends=("\n",) * len(source.lines),
        true=true,
        sent=true.lines,
        others=tuple(others),
        terminated=rng.random() < 0.6,
    )


def _hunk(lines: Sequence[str], rng: random.Random, taken: Sequence[Hunk]) -> Hunk | None:
    """A hunk well apart from those that there are, if it falls so."""
    size = rng.choice([1, 2, 3, 4, 6, 9, 14])
    first = rng.randrange(len(lines) - size)
    old = lines[first : first + size]
    apart = all(
        first + size + 8 < hunk.first or hunk.first + len(hunk.old) + 8 < first for hunk in taken
    )
    return Hunk(first, _edited(old, rng)) if apart and any(map(str.strip, old)) else None


def _edited(old: Sequence[str], rng: random.Random) -> tuple[Line, ...]:
    """An edit of one or two places among these lines."""
    filled = [index for index, line in enumerate(old) if line.strip()]
    changed = set(rng.sample(filled, 2 if len(filled) > 4 and rng.random() < 0.4 else 1))
    lines: list[Line] = []
    for index, text in enumerate(old):
        lines += _change(text, rng) if index in changed else [Line(KEPT, text)]
    return tuple(lines)


def _change(text: str, rng: random.Random) -> list[Line]:
    """What an edit makes of one line: another line, more lines, or none."""
    space = indentation(text)
    kept, gone = Line(KEPT, text), Line(GONE, text)
    word = f"changed_{rng.randrange(1000)}"
    match rng.randrange(6):
        case 0:
            return [gone, Line(ADDED, f"{text}  # {word}")]
        case 1:
            return [kept, Line(ADDED, f"{space}{word}()")]
        case 2:
            return [Line(ADDED, f"{space}{word} = 1"), kept]
        case 3:
            return [
                gone,
                Line(ADDED, f"{space}if {word}:"),
                Line(ADDED, f"{space}    {text.lstrip()}"),
            ]
        case 4:
            block = [
                f"{space}with {word}():",
                f"{space}    {word}.step()",
                "",
                f"{space}{word}.close()",
            ]
            return [gone, *(Line(ADDED, line) for line in block)]
        case _:
            return [gone]
