"""How what a model sends differs from what the file has.

A mistake changes the lines of a hunk that are sent, signs and all, or the lines of the file that
the hunk covers; or nothing, where it can't be made. What a model adds is its own, but for
indentation, which is got wrong in all lines alike.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable

KEPT, GONE, ADDED = " ", "-", "+"
#: Given the choices, the lines that are sent, and the lines of the file.
Mistake = Callable[[random.Random, list[str], list[str]], None]


_WORD = re.compile(r"[A-Za-z_]{3,}")


def depth_of(text: str) -> int:
    """How many characters of white space a line begins with."""
    return len(text) - len(text.lstrip())


def _each_old(sent: list[str], change: Callable[[str], str], signs: str = KEPT + GONE) -> None:
    """Change what is sent of lines that are not blank."""
    for number, line in enumerate(sent):
        if line[:1] in signs and line[1:].strip():
            sent[number] = line[0] + change(line[1:])


def _trailing_in_text(rng: random.Random, sent: list[str], _: list[str]) -> None:
    _each_old(sent, lambda text: text + rng.choice(["  ", "\t", ""]))


def _trailing_in_file(rng: random.Random, _: list[str], file: list[str]) -> None:
    file[:] = [text + rng.choice(["  ", "\t", ""]) for text in file]


def _other_indentation(rng: random.Random, sent: list[str], _: list[str]) -> None:
    """All lines, added ones too, deeper or less deep."""
    depth = min((depth_of(line[1:]) for line in sent if line[1:].strip()), default=0)
    if not any(line[0] != ADDED and line[1:].strip() for line in sent):
        return
    if depth and rng.random() < 0.7:
        _each_old(sent, lambda text: text[depth:], KEPT + GONE + ADDED)
    else:
        _each_old(sent, lambda text: "    " + text, KEPT + GONE + ADDED)


def _one_line_indented(rng: random.Random, sent: list[str], _: list[str]) -> None:
    kept = [n for n, line in enumerate(sent) if line[0] == KEPT and line[1:].strip()]
    if len(kept) > 2:
        at = rng.choice(kept)
        sent[at] = KEPT + "  " + sent[at][1:]


_CURLY = str.maketrans({"'": "\u2019", '"': "\u201c", "-": "\u2013"})


def _curly(text: str) -> str:
    space = text[: depth_of(text)]
    return space + text[len(space) :].translate(_CURLY)


def _typography_in_text(_: random.Random, sent: list[str], __: list[str]) -> None:
    _each_old(sent, _curly)


def _typography_in_file(_: random.Random, __: list[str], file: list[str]) -> None:
    file[:] = map(_curly, file)


def _wide_typography(_: random.Random, sent: list[str], __: list[str]) -> None:
    """What Codex does not know: ellipses, primes, decomposed letters."""

    def change(text: str) -> str:
        space = text[: depth_of(text)]
        body = text[len(space) :].replace("...", "\u2026").replace("'", "\u2032")
        return space + unicodedata.normalize("NFD", body)

    _each_old(sent, change)


def _stale_word(rng: random.Random, sent: list[str], _: list[str]) -> None:
    """A line of the file that is remembered with another word."""
    kept = [n for n, line in enumerate(sent) if line[0] != ADDED and _WORD.search(line)]
    if kept:
        at = rng.choice(kept)
        sent[at] = sent[at][0] + _WORD.sub("stale", sent[at][1:], count=1)


def _blank_edges(rng: random.Random, sent: list[str], _: list[str]) -> None:
    before, after = rng.choice([(1, 0), (0, 1), (1, 1), (2, 1)])
    sent[:] = ["", *sent] if before == 1 else [*[""] * before, *sent]
    sent += [""] * after


def _bare_blank_lines(_: random.Random, sent: list[str], __: list[str]) -> None:
    sent[:] = ["" if line == KEPT else line for line in sent]


def _space_in_blank_lines(_: random.Random, sent: list[str], __: list[str]) -> None:
    sent[:] = ["         " if line == KEPT else line for line in sent]


def _two_spaces_within(rng: random.Random, sent: list[str], _: list[str]) -> None:
    at = rng.randrange(len(sent))
    if sent[at][0] != ADDED:
        sent[at] = sent[at][0] + re.sub(r"(?<=\S) (?=\S)", "  ", sent[at][1:], count=1)


MISTAKES: dict[str, Mistake] = {
    "trailing_space_in_text": _trailing_in_text,
    "trailing_space_in_file": _trailing_in_file,
    "other_indentation": _other_indentation,
    "one_line_indented": _one_line_indented,
    "typography_in_text": _typography_in_text,
    "typography_in_file": _typography_in_file,
    "wide_typography": _wide_typography,
    "stale_word": _stale_word,
    "blank_edges": _blank_edges,
    "bare_blank_lines": _bare_blank_lines,
    "space_in_blank_lines": _space_in_blank_lines,
    "two_spaces_within": _two_spaces_within,
}
