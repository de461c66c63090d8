"""Ground truth: hunks of real source, sent with the mistakes that models make.

A hunk is a few lines of a module of the standard library and an edit of them. Old and new
text are spoilt in the same way, or the file is; what the file must be afterwards is known.
Every answer is right, refused or *wrong*, and none may be wrong.

Exact text is no tolerance: a hunk that, spoilt, stands elsewhere character for character
(terminators aside), or within a line, is left out.
"""

from __future__ import annotations

import asyncio.base_events
import asyncio.streams
import json.decoder
import json.encoder
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType

import pytest

from stetd.editing.matching.ladder import Match, locate
from stetd.editing.matching.rungs import Rung
from stetd.editing.text import Document

MODULES = (asyncio.base_events, asyncio.streams, json.decoder, json.encoder)
HUNKS = 80


@dataclass(frozen=True)
class Edit:
    """An edit of a file as lines: ``old`` and ``new`` as sent, ``before`` and ``after`` whole."""

    before: list[str]
    old: list[str]
    new: list[str]
    after: list[str]


@cache
def _source(module: ModuleType) -> list[str]:
    assert module.__file__
    with open(module.__file__, encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _edited(hunk: list[str], rng: random.Random) -> list[str]:
    index = rng.choice([index for index, line in enumerate(hunk) if line.strip()])
    line = hunk[index]
    indentation = _indentation(line)
    return [
        *hunk[:index],
        *rng.choice(
            [
                [line + "  # changed"],
                [line, indentation + "added()"],
                [indentation + "if wrapped:", indentation + "    " + line.lstrip()],
                [],
            ]
        ),
        *hunk[index + 1 :],
    ]


def _drawn(rng: random.Random) -> Edit:
    lines = _source(rng.choice(MODULES))
    while True:
        size = rng.choice([1, 2, 3, 5, 8])
        first = rng.randrange(len(lines) - size)
        hunk = lines[first : first + size]
        if any(line.strip() for line in hunk):
            new = _edited(hunk, rng)
            return Edit(lines, hunk, new, [*lines[:first], *new, *lines[first + size :]])


def _each(change: Callable[[str], str], lines: list[str]) -> list[str]:
    return [change(line) if line.strip() else line for line in lines]


def _shifted(edit: Edit, _: random.Random, amount: int = 4) -> Edit | None:
    if amount > 0:
        pad = " " * amount
        return replace(
            edit,
            old=_each(lambda line: pad + line, edit.old),
            new=_each(lambda line: pad + line, edit.new),
        )
    taken = " " * -amount
    if not all(line.startswith(taken) for line in [*edit.old, *edit.new] if line.strip()):
        return None
    return replace(
        edit,
        old=_each(lambda line: line[-amount:], edit.old),
        new=_each(lambda line: line[-amount:], edit.new),
    )


def _tabs(lines: list[str]) -> list[str] | None:
    if any(len(_indentation(line)) % 4 for line in lines):
        return None
    return _each(lambda line: "\t" * (len(_indentation(line)) // 4) + line.lstrip(), lines)


def _tabs_in_the_text(edit: Edit, _: random.Random) -> Edit | None:
    old, new = _tabs(edit.old), _tabs(edit.new)
    return replace(edit, old=old, new=new) if old is not None and new is not None else None


def _tabs_in_the_file(edit: Edit, _: random.Random) -> Edit | None:
    # Docstrings and continuation lines that are aligned stay as they are.
    def tabbed(line: str) -> str:
        width = len(_indentation(line))
        return "\t" * (width // 4) + " " * (width % 4) + line.lstrip(" ")

    if _tabs(edit.old) is None or _tabs(edit.new) is None:
        return None
    return replace(edit, before=_each(tabbed, edit.before), after=_each(tabbed, edit.after))


def _context(edit: Edit, change: Callable[[str], str]) -> Edit:
    """Change what is sent of the lines that the edit leaves alone."""
    kept = set(edit.old) & set(edit.new)
    return replace(
        edit,
        old=[change(line) if line in kept else line for line in edit.old],
        new=[change(line) if line in kept else line for line in edit.new],
    )


def _trailing_space(edit: Edit, _: random.Random) -> Edit:
    return _context(edit, lambda line: line + "  ")


def _typographic(edit: Edit, _: random.Random) -> Edit:
    table = str.maketrans({'"': "\u201d", "'": "\u2019", "-": "\u2010", " ": "\xa0"})
    return _context(edit, lambda line: _indentation(line) + line.lstrip(" ").translate(table))


def _wrong_first_line(edit: Edit, rng: random.Random) -> Edit | None:
    if edit.old[:1] != edit.new[:1] or not any(line.strip() for line in edit.old[1:]):
        return None
    wrong = rng.choice([edit.old[0] + "x", "misremembered()"])
    return replace(edit, old=[wrong, *edit.old[1:]], new=[wrong, *edit.new[1:]])


def _wrong_last_line(edit: Edit, rng: random.Random) -> Edit | None:
    turned = replace(edit, old=edit.old[::-1], new=edit.new[::-1])
    wrong = _wrong_first_line(turned, rng)
    return wrong and replace(wrong, old=wrong.old[::-1], new=wrong.new[::-1])


def _wrong_first_line_shifted(edit: Edit, rng: random.Random) -> Edit | None:
    wrong = _wrong_first_line(edit, rng)
    return wrong and _shifted(wrong, rng)


def _wrong_middle_line(edit: Edit, _: random.Random) -> Edit | None:
    middle = len(edit.old) // 2
    line = edit.old[middle]
    if not line.strip() or line not in edit.new or not 0 < middle < len(edit.old) - 1:
        return None
    return _context(edit, lambda kept: kept + "x" if kept == line else kept)


def _blank_edges(edit: Edit, _: random.Random) -> Edit:
    return replace(edit, old=["", *edit.old, "", ""], new=["", *edit.new, "", ""])


def _copied_elsewhere(edit: Edit, _: random.Random) -> Edit:
    return replace(_trailing_space(edit, _), before=[*edit.before, "", *edit.old], after=["never"])


MISTAKES: dict[str, tuple[Callable[[Edit, random.Random], Edit | None], float]] = {
    # the mistake, and the share that must come out right all the same
    "none": (lambda edit, _: edit, 0.8),
    "four spaces more": (_shifted, 0.8),
    "four spaces less": (lambda edit, rng: _shifted(edit, rng, -4), 0.8),
    "tabs in the text": (_tabs_in_the_text, 0.75),
    "tabs in the file": (_tabs_in_the_file, 0.8),
    "trailing space": (_trailing_space, 0.8),
    "typographic characters": (_typographic, 0.8),
    # half of them have a word changed, which no rung may let pass
    "a wrong first line": (_wrong_first_line, 0.3),
    "a wrong first line, shifted": (_wrong_first_line_shifted, 0.3),
    "a wrong last line": (_wrong_last_line, 0.3),
    "a wrong middle line": (_wrong_middle_line, 0.0),
    "blank lines around it": (_blank_edges, 0.7),
    "a copy elsewhere": (_copied_elsewhere, 0.0),
}


def _outcome(edit: Edit, end: str, terminator: str) -> str:
    text = "".join(line + terminator for line in edit.before)
    old, new = "\n".join(edit.old) + end, "\n".join(edit.new) + (end if edit.new else "")
    if not old.strip() or (not end and not edit.new):
        return "left out"
    found = locate(Document(False, text), old, new)
    if not isinstance(found, Match):
        return "refused"
    after = text[: found.start] + found.replacement + text[found.end :]
    if after == "".join(line + terminator for line in edit.after):
        return "right"
    return "left out" if found.rung in (Rung.EXACT, Rung.LINE_ENDINGS) else "wrong"


@pytest.mark.parametrize("terminator", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_no_spoilt_hunk_is_edited_wrongly(mistake: str, terminator: str) -> None:
    spoil, least_right = MISTAKES[mistake]
    outcomes: Counter[str] = Counter()
    for seed in range(HUNKS):
        rng = random.Random(f"{mistake} {seed}")
        edit = spoil(_drawn(rng), rng)
        if edit is not None:
            outcome = _outcome(edit, rng.choice(["\n", ""]), terminator)
            assert outcome != "wrong", (seed, edit.old, edit.new)
            outcomes[outcome] += 1
    tried = outcomes["right"] + outcomes["refused"]
    assert tried > HUNKS / 5
    assert outcomes["right"] >= least_right * tried, outcomes
