"""What models get wrong about a text, and what a file looks like that they did not expect.

A mistake makes of a draft another, or None where it can't be made. Mistakes about characters
are made in lines that the file has (kept and removed ones); what a model adds is its own and is
taken as it is. Mistakes about indentation are made in all lines.

Where the text comes to differ by a word from what stands there, a refusal is right, and so is
the edit that was meant; anything else is wrong.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace

from mutations.drafts import ADDED, GONE, KEPT, Draft, Line, indentation

Mistake = Callable[[Draft, random.Random], Draft | None]

_WORD = re.compile(r"[A-Za-z_]\w+")
#: Letters and digits with twins of another alphabet, or that look like another.
_LOOK_ALIKES = str.maketrans("aceopxyl0OI", "\u0430\u0441\u0435\u043e\u0440\u0445\u04431O0l")


def none(draft: Draft, _: random.Random) -> Draft:
    return draft


# -- indentation


def deeper(draft: Draft, rng: random.Random) -> Draft:
    pad = " " * rng.choice([2, 4, 8])
    return draft.change_sent(lambda text: pad + text)


def shallower(draft: Draft, _: random.Random) -> Draft | None:
    lines = [line.text for line in draft.sent if line.text.strip()]
    least = min(len(indentation(text)) for text in lines)
    return draft.change_sent(lambda text: text[least:]) if least else None


def one_level_less(draft: Draft, _: random.Random) -> Draft | None:
    lines = [line.text for line in draft.sent if line.text.strip()]
    if min(len(indentation(text)) for text in lines) < 8:
        return None
    return draft.change_sent(lambda text: text[4:])


def first_line_not_indented(draft: Draft, _: random.Random) -> Draft | None:
    """The text begins with the first character that can be seen."""
    old = next(index for index, line in enumerate(draft.sent) if line.tag != ADDED)
    new = next((index for index, line in enumerate(draft.sent) if line.tag != GONE), old)
    first, other = draft.sent[old].text, draft.sent[new].text
    if not first.startswith(" ") or indentation(first) != indentation(other) or not other.strip():
        return None
    if old != new and draft.sent[old].tag == KEPT:
        return None  # old and new text would not have it in common any more
    lines = list(draft.sent)
    for index in {old, new}:
        lines[index] = Line(lines[index].tag, lines[index].text.lstrip(" "))
    return replace(draft.sending(lines), as_text=True)


def cut_at_both_ends(draft: Draft, rng: random.Random) -> Draft | None:
    """The text begins within its first line and ends within its last."""
    first, last = draft.sent[0], draft.sent[-1]
    if len(draft.sent) < 3 or first.tag != KEPT or last.tag != KEPT:
        return None
    words, others = list(_WORD.finditer(first.text)), list(_WORD.finditer(last.text))
    if not words or not others:
        return None
    head = Line(KEPT, first.text[rng.choice(words).start() :])
    tail = Line(KEPT, last.text[: rng.choice(others).end()])
    cut = draft.sending([head, *draft.sent[1:-1], tail])
    return replace(cut, as_text=True, terminated=False)


def unevenly_indented(draft: Draft, rng: random.Random) -> Draft | None:
    """One line of several has another indentation than it should."""
    places = [i for i, line in enumerate(draft.sent) if line.tag == KEPT and line.text.strip()]
    if len(places) < 2:
        return None
    lines = list(draft.sent)
    at = rng.choice(places)
    lines[at] = Line(KEPT, " " * rng.choice([1, 2, 4]) + lines[at].text)
    return draft.sending(lines)


def _tabbed(text: str, unit: int = 4) -> str:
    width = len(indentation(text))
    return "\t" * (width // unit) + " " * (width % unit) + text.lstrip(" ")


def _in_levels(draft: Draft) -> bool:
    """Whether old lines are indented, and all lines by whole levels of four spaces."""
    widths = [(line.tag, len(indentation(line.text))) for line in draft.sent]
    return all(width % 4 == 0 for _, width in widths) and any(
        width for tag, width in widths if tag != ADDED
    )


def tabs_in_the_text(draft: Draft, _: random.Random) -> Draft | None:
    if not _in_levels(draft):
        return None
    return draft.change_sent(_tabbed)


def tabs_in_the_file(draft: Draft, _: random.Random) -> Draft | None:
    if not _in_levels(draft):
        return None
    return draft.change_file(_tabbed, added=True)


def tabs_in_the_file_not_indented(draft: Draft, rng: random.Random) -> Draft | None:
    tabbed = tabs_in_the_file(draft, rng)
    return tabbed and shallower(tabbed, rng)


def other_unit(draft: Draft, _: random.Random) -> Draft | None:
    """Two spaces a level in the text, four in the file."""
    if not _in_levels(draft):
        return None
    return draft.change_sent(lambda text: text[len(indentation(text)) // 2 :])


def four_for_two(draft: Draft, _: random.Random) -> Draft | None:
    """Four spaces a level in the text, two in the file."""
    if not _in_levels(draft):
        return None
    return draft.change_file(lambda text: text[len(indentation(text)) // 2 :], added=True)


# -- white space


def trailing_space_in_the_text(draft: Draft, rng: random.Random) -> Draft:
    return draft.change_sent(lambda text: text + rng.choice(["  ", " ", "\t", ""]), KEPT + GONE)


def trailing_space_in_the_file(draft: Draft, rng: random.Random) -> Draft:
    seed = rng.random()
    ends = ["  ", " ", "\t", ""]
    return draft.change_file(lambda text: text + random.Random(f"{seed} {text}").choice(ends))


def white_space_in_blank_lines(draft: Draft, _: random.Random) -> Draft | None:
    blank = [line for line in draft.sent if line.tag != ADDED and not line.text.strip()]
    if not blank:
        return None
    return draft.sending(
        [
            Line(line.tag, "        ") if line.tag != ADDED and not line.text.strip() else line
            for line in draft.sent
        ]
    )


def double_space_within(draft: Draft, rng: random.Random) -> Draft | None:
    return _in_one_line(draft, rng, lambda text: re.sub(r"(?<=\S) (?=\S)", "  ", text, count=1))


def tab_within(draft: Draft, rng: random.Random) -> Draft | None:
    return _in_one_line(draft, rng, lambda text: re.sub(r"(?<=\S) (?=\S)", "\t", text, count=1))


# -- terminators


def crlf_in_the_file(draft: Draft, _: random.Random) -> Draft:
    return replace(draft, ends=("\r\n",) * len(draft.file))


def crlf_in_the_text(draft: Draft, _: random.Random) -> Draft:
    return replace(draft, sent_end="\r\n")


def crlf_in_both(draft: Draft, _: random.Random) -> Draft:
    return replace(draft, ends=("\r\n",) * len(draft.file), sent_end="\r\n")


def cr_in_the_file(draft: Draft, _: random.Random) -> Draft:
    return replace(draft, ends=("\r",) * len(draft.file))


def mixed_terminators(draft: Draft, rng: random.Random) -> Draft:
    """Around each hunk one kind, elsewhere any."""
    ends = [rng.choice(["\n", "\r\n"]) for _ in draft.file]
    for hunk in (draft.true, *draft.others):
        kind = rng.choice(["\n", "\r\n"])
        first, last = max(0, hunk.first - 2), hunk.first + len(hunk.old) + 2
        ends[first:last] = [kind] * len(ends[first:last])
    return replace(draft, ends=tuple(ends))


def no_final_newline(draft: Draft, _: random.Random) -> Draft | None:
    """The hunk stands at the end of a file whose last line is not terminated."""
    end = draft.true.first + len(draft.true.old)
    if any(hunk.first >= end for hunk in draft.others) or not draft.true.new:
        return None
    if not draft.true.new[-1] or not draft.true.old[-1] or not draft.terminated:
        return None
    return replace(draft, file=draft.file[:end], ends=(*draft.ends[: end - 1], ""))


# -- characters


def _curly(text: str) -> str:
    space = indentation(text)
    body = text[len(space) :].replace("...", "\u2026").replace("--", "\u2014-")
    body = re.sub(r'(?<=\w)"', "\u201d", body).replace('"', "\u201c")
    return space + re.sub(r"(?<=\w)'", "\u2019", body).replace("'", "\u2018")


def typographic_text(draft: Draft, _: random.Random) -> Draft:
    return draft.change_sent(_curly, KEPT + GONE)


def typographic_file(draft: Draft, _: random.Random) -> Draft:
    return draft.change_file(_curly)


def dashes_in_the_text(draft: Draft, rng: random.Random) -> Draft:
    dash = rng.choice("\u2010\u2011\u2013\u2014\u2212")
    return draft.change_sent(lambda text: text.replace("-", dash), KEPT + GONE)


def no_break_spaces_in_the_text(draft: Draft, _: random.Random) -> Draft:
    def hardened(text: str) -> str:
        space = indentation(text)
        return space + text[len(space) :].replace(" ", "\xa0")

    return draft.change_sent(hardened, KEPT + GONE)


def _accented(draft: Draft) -> Draft:
    """The file and the text with accents in words: sources have few."""
    accents = str.maketrans("eao", "\u00e9\u00e0\u00f6")
    spelt = draft.change_file(lambda text: text.translate(accents), added=True)
    return replace(spelt, sent=spelt.true.lines)


def decomposed_text(draft: Draft, _: random.Random) -> Draft:
    return _accented(draft).change_sent(
        lambda text: unicodedata.normalize("NFD", text), KEPT + GONE
    )


def decomposed_file(draft: Draft, _: random.Random) -> Draft:
    return _accented(draft).change_file(lambda text: unicodedata.normalize("NFD", text))


def byte_order_mark(draft: Draft, _: random.Random) -> Draft:
    return replace(draft, bom=True)


def latin_bytes_elsewhere(draft: Draft, rng: random.Random) -> Draft | None:
    taken = {
        index
        for hunk in (draft.true, *draft.others)
        for index in range(hunk.first, hunk.first + len(hunk.old))
    }
    free = [i for i, text in enumerate(draft.file) if i not in taken and text.isascii()]
    chosen = frozenset(rng.sample(free, min(len(free), 3)))
    file = tuple(
        text + "  # d\u00e9j\u00e0 vu" if index in chosen else text
        for index, text in enumerate(draft.file)
    )
    return replace(draft, file=file, latin=chosen)


def latin_bytes_in_the_text(draft: Draft, _: random.Random) -> Draft | None:
    """The text holds in UTF-8 what the file holds in Latin-1."""
    if not all(draft.file[index].isascii() for index in draft.span) or draft.others:
        return None
    accented = _accented(draft)
    latin = frozenset(i for i in draft.span if not accented.file[i].isascii())
    file = tuple(
        accented.file[index] if index in latin else text for index, text in enumerate(draft.file)
    )
    return replace(accented, file=file, latin=latin, possible=False) if latin else None


# -- lines and words


def _in_one_line(draft: Draft, rng: random.Random, change: Callable[[str], str]) -> Draft | None:
    """One line that the file has, changed; None when no line changes."""
    places = [
        index
        for index, line in enumerate(draft.sent)
        if line.tag != ADDED and change(line.text) != line.text
    ]
    if not places:
        return None
    lines = list(draft.sent)
    at = rng.choice(places)
    lines[at] = Line(lines[at].tag, change(lines[at].text))
    return draft.sending(lines)


def other_word(draft: Draft, text: str, rng: random.Random) -> str:
    """The line with one word changed to another that the file has somewhere."""
    words = list(_WORD.finditer(text))
    if not words:
        return text
    found = rng.choice(words)
    known = {word for line in draft.file for word in _WORD.findall(line)} - {found.group()}
    other: str = rng.choice(sorted(known) or ["other"])
    return text[: found.start()] + other + text[found.end() :]


def wrong_word(draft: Draft, rng: random.Random) -> Draft | None:
    def change(text: str) -> str:
        return other_word(draft, text, random.Random(f"{seed} {text}"))

    seed = rng.random()
    return _in_one_line(draft, rng, change)


def other_case(draft: Draft, rng: random.Random) -> Draft | None:
    return _in_one_line(draft, rng, lambda text: _WORD.sub(lambda w: w.group().swapcase(), text, 1))


def look_alike_letters(draft: Draft, rng: random.Random) -> Draft | None:
    def change(text: str) -> str:
        found = next(
            (w for w in _WORD.finditer(text) if w.group().translate(_LOOK_ALIKES) != w.group()),
            None,
        )
        if found is None:
            return text
        return text[: found.start()] + found.group().translate(_LOOK_ALIKES) + text[found.end() :]

    return _in_one_line(draft, rng, change)


def _edge(draft: Draft, at: int, wrong: Callable[[str], str]) -> Draft | None:
    """The kept line at an edge (0 or -1) misremembered."""
    line = draft.sent[at]
    if line.tag != KEPT or not line.text.strip() or len(draft.sent) < 2:
        return None
    lines = list(draft.sent)
    lines[at] = Line(KEPT, wrong(line.text))
    return draft.sending(lines) if lines[at] != line else None


def _invented(text: str) -> str:
    return indentation(text) + "misremembered(this_line)"


def wrong_first_line(draft: Draft, _: random.Random) -> Draft | None:
    return _edge(draft, 0, _invented)


def wrong_last_line(draft: Draft, _: random.Random) -> Draft | None:
    return _edge(draft, -1, _invented)


def wrong_word_in_the_first_line(draft: Draft, rng: random.Random) -> Draft | None:
    return _edge(draft, 0, lambda text: other_word(draft, text, rng))


def wrong_word_in_the_last_line(draft: Draft, rng: random.Random) -> Draft | None:
    return _edge(draft, -1, lambda text: other_word(draft, text, rng))


def wrong_middle_line(draft: Draft, rng: random.Random) -> Draft | None:
    places = [
        index
        for index, line in enumerate(draft.sent[1:-1], 1)
        if line.tag == KEPT and line.text.strip()
    ]
    if not places:
        return None
    lines = list(draft.sent)
    at = rng.choice(places)
    lines[at] = Line(KEPT, _invented(lines[at].text))
    return draft.sending(lines)


def extra_first_line(draft: Draft, rng: random.Random) -> Draft:
    """A line that the file has not, before what it has."""
    text = rng.choice(["# ... existing code ...", "// the rest is unchanged", "```python"])
    return draft.sending([Line(KEPT, text), *draft.sent])


def blank_lines_around(draft: Draft, rng: random.Random) -> Draft | None:
    before, after = rng.choice([(1, 0), (0, 1), (1, 1), (2, 1)])
    blank = Line(KEPT, "")
    old = [line.text.strip() for line in draft.sent if line.tag != ADDED]
    file = [text.strip() for text in draft.file]
    for head in range(before + 1):
        for tail in range(after + 1):
            wanted = [*[""] * head, *old, *[""] * tail]
            places = runs(file, wanted) if head or tail else []
            if places and draft.true.first - head not in places:
                return None  # with these blank lines it is the text of another place
    return draft.sending([*[blank] * before, *draft.sent, *[blank] * after])


def runs(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where ``wanted`` stands among ``lines``."""
    size = len(wanted)
    return [
        at for at in range(len(lines) - size + 1) if list(lines[at : at + size]) == list(wanted)
    ]


def line_left_out(draft: Draft, rng: random.Random) -> Draft | None:
    """A line in the middle that the model forgot."""
    tagged = [i for i, line in enumerate(draft.sent) if line.tag != ADDED and line.text.strip()]
    if len(tagged) < 3:
        return None
    at = rng.choice(tagged[1:-1])
    return draft.sending([*draft.sent[:at], *draft.sent[at + 1 :]])


def blank_line_left_out(draft: Draft, rng: random.Random) -> Draft | None:
    blank = [
        index
        for index, line in enumerate(draft.sent[1:-1], 1)
        if line.tag == KEPT and not line.text.strip()
    ]
    if not blank:
        return None
    at = rng.choice(blank)
    return draft.sending([*draft.sent[:at], *draft.sent[at + 1 :]])


def blank_line_too_many(draft: Draft, rng: random.Random) -> Draft | None:
    """A blank line where the file has none, between two lines that stay."""
    kept = [line.tag == KEPT and bool(line.text.strip()) for line in draft.sent]
    places = [at for at in range(1, len(kept)) if kept[at - 1] and kept[at]]
    if not places:
        return None
    at = rng.choice(places)
    return draft.sending([*draft.sent[:at], Line(KEPT, ""), *draft.sent[at:]])


def lines_swapped(draft: Draft, rng: random.Random) -> Draft | None:
    pairs = [
        index
        for index in range(len(draft.sent) - 1)
        if draft.sent[index].tag == draft.sent[index + 1].tag == KEPT
        and draft.sent[index].text.strip() != draft.sent[index + 1].text.strip()
    ]
    if not pairs:
        return None
    at = rng.choice(pairs)
    lines = list(draft.sent)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return draft.sending(lines)


def ellipsis_for_lines(draft: Draft, rng: random.Random) -> Draft | None:
    """Kept lines left out, with an ellipsis in their place."""
    runs = [
        (first, last)
        for first in range(len(draft.sent))
        for last in range(first + 1, len(draft.sent) + 1)
        if all(line.tag == KEPT for line in draft.sent[first:last]) and last - first > 1
    ]
    if not runs or all(run == (0, len(draft.sent)) for run in runs):
        return None
    first, last = rng.choice(runs)
    text = indentation(draft.sent[first].text) + rng.choice(["...", "# ...", "\u2026"])
    return draft.sending([*draft.sent[:first], Line(KEPT, text), *draft.sent[last:]])


def sent_twice_over(draft: Draft, _: random.Random) -> Draft:
    """The model repeats itself within one text."""
    return draft.sending([*draft.sent, *draft.sent], possible=False)


def both(first: Mistake, second: Mistake) -> Mistake:
    """One mistake after the other."""

    def make(draft: Draft, rng: random.Random) -> Draft | None:
        once = first(draft, rng)
        return None if once is None else second(once, rng)

    return make
