"""The explanation for a text that is not found: the nearest passage, and how it differs.

Nothing here decides about an edit. Lines of the text that the file has (apart from white space and
typography) vote for the place where the text would begin; if there are too few, its words vote; if
there are none, its shortest lines. Only the best few passages are compared by similarity.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product

from rapidfuzz import fuzz

from stet.wire.failures import Nearest
from stetd.editing import time_limit
from stetd.editing.matching.ladder import locate
from stetd.editing.matching.rungs import Rung
from stetd.editing.planning import LocatedEdit
from stetd.editing.refusals import counted
from stetd.editing.text import (
    WHITE_SPACE,
    Document,
    bare,
    is_blank,
    occurrences,
    presentable,
    split_lines,
)
from stetd.editing.typography import TABLE, folded_text

#: Occurrences above which a line or word does not vote.
_RARE = 40
#: Lines of the old text, and words of its first lines, that are searched.
_LINES = 24
_WORDS = 24
_WORDY_LINES = 200
#: Passages that are compared.
_PASSAGES = 12
#: Similarity (0 to 100) below which a passage is not shown.
_WORTH_SHOWING = 45
#: Lines and characters of a passage that are compared and shown.
_SHOWN_LINES = 60
_SHOWN_CHARS = 4_000
_SHOWN_LINE = 200
#: Characters that are searched within a passage, which takes quadratic time.
_COMPARED_PART = 300
#: Characters without white space below which a new text occurs by chance.
_TELLING = 3
_WORD = re.compile(r"[^\W_]\w*")
#: The line (from 0) at which the text would begin, and the weight, for what it and the file share.
_Votes = Iterator[tuple[int, int]]
#: How models mark lines that they leave out, in a comment or alone.
_ELLIPSIS = re.compile(r"\s*(?:(?:#|//|--|/\*|<!--)\s*)?(?:\.\.\.|\u2026)(?:\s.*|[^\w(\[{]*)")
#: What a display of a file puts before a line.
_LINE_NUMBER = re.compile(r"\s*L?\d+[\s:|\u2192]+")


def explain_miss(document: Document, old: str, new: str, called: str) -> tuple[str, Nearest | None]:
    """Sentences about ``old`` (which the dialect calls ``called``), and the nearest passage."""
    nearest = _nearest(document, old, called)
    telling = len("".join(new.split())) >= _TELLING and new not in old
    applied = locate(document, new, new) if telling else None
    if not isinstance(applied, LocatedEdit) or applied.rung is Rung.TRIM_EDGES:
        applied = None
    if applied is None and (escaped := _unescaped_place(document, old, called, nearest)):
        return escaped, None
    sentences: list[str] = []
    if applied is not None:
        sentences.append(
            f"The new text already stands at line {document.line_at(applied.start)}: the edit "
            "seems to be already applied. Read the file before you send it again."
        )
    if nearest is not None:
        first, last = nearest.line, nearest.end_line
        where = f"line {first}" if first == last else f"lines {first}-{last}"
        sentences.append(
            f"The nearest passage is at {where}; {nearest.first_difference}\n{_numbered(nearest)}"
        )
    if not sentences:
        sentences.append("Nothing in the file resembles it; read the file again.")
    elif applied is None:
        sentences.append("Send the text exactly as it stands in the file.")
    return "\n".join(sentences), nearest


def _unescaped_place(document: Document, old: str, called: str, nearest: Nearest | None) -> str:
    """The sentence about a text that was escaped once too often, or ""."""
    meant = _unescaped(old)
    at = locate(document, meant, "") if meant != old else None
    if not isinstance(at, LocatedEdit) or (nearest and "in escaping" in nearest.first_difference):
        return ""
    return (
        f"It stands at line {document.line_at(at.start)} if the backslashes in {called} are "
        "read as escapes (\\n as the end of a line): send it escaped once less."
    )


def _numbered(nearest: Nearest) -> str:
    lines = split_lines(nearest.text)[0]
    width = len(str(nearest.end_line))
    shown = [
        f"{number:>{width}}| {line[:_SHOWN_LINE]}{'...' if len(line) > _SHOWN_LINE else ''}"
        for number, line in enumerate(lines, nearest.line)
    ]
    if nearest.end_line >= nearest.line + len(lines):
        shown.append(f"{'':>{width}}| ... to line {nearest.end_line}")
    return "\n".join(shown)


def _nearest(document: Document, old: str, called: str) -> Nearest | None:
    wanted = split_lines(old)[0]
    if all(map(is_blank, wanted)):
        return None
    keys = [bare(folded_text(line)) for line in wanted]
    scores = {first: _similarity(document, keys, first) for first in _starts(document, keys)}
    best = max(scores, key=scores.__getitem__, default=0)  # the first of equal ones
    if scores.get(best, 0) < _WORTH_SHOWING:
        return None
    first = min(max(0, best), document.line_count - 1)
    last = min(first + len(wanted), document.line_count) - 1
    shown_last = min(last, first + _SHOWN_LINES - 1)
    text = document.text[document.line_starts[first] : document.line_end(shown_last)]
    difference = _first_difference(document, *split_lines(old), called, first)
    return Nearest(first + 1, last + 1, presentable(text[:_SHOWN_CHARS]), difference)


def _starts(document: Document, keys: Sequence[str]) -> list[int]:
    """The lines (from 0, may be negative) at which the text may begin, most votes first."""
    votes: Counter[int] = Counter()

    def vote(shared: _Votes) -> None:
        for first, weight in shared:
            votes[first] += weight

    vote(_shared_lines(document, keys))
    if len(votes) < 2:
        text = document.folded
        vote(_shared_words(document, text, keys))
        lower = text.lower() if not votes else ""
        if len(lower) == len(text):  # else the offsets differ
            vote(_shared_words(document, lower, [key.lower() for key in keys]))
        if not votes:  # short lines and words are weak evidence, but the only one
            vote(_shared_lines(document, keys, shortest=1))
            vote(_shared_words(document, text, keys, shortest=1))
    return [first for first, _ in votes.most_common(_PASSAGES)]


def _shared_lines(document: Document, keys: Sequence[str], shortest: int = _TELLING) -> _Votes:
    longest = sorted(range(len(keys)), key=lambda index: len(keys[index]), reverse=True)
    for index in longest[:_LINES]:
        time_limit.check_time()
        key = keys[index]
        if len(key) < shortest:
            break
        lines = list(islice(document.find_bare([key]), _RARE + 1))
        if len(lines) <= _RARE:
            for line in lines:
                yield line - index, len(key) * _RARE // len(lines)


def _shared_words(
    document: Document, text: str, keys: Sequence[str], shortest: int = _TELLING
) -> _Votes:
    """Votes by words, longest first; ``text``: the folded text, perhaps in lower case."""
    words: dict[str, list[int]] = {}
    for index, key in enumerate(keys[:_WORDY_LINES]):
        for word in _WORD.findall(key[:_SHOWN_CHARS]):
            if len(word) >= shortest:
                words.setdefault(word, []).append(index)
    for word in sorted(words, key=len, reverse=True)[:_WORDS]:
        time_limit.check_time()
        places = list(islice(occurrences(text, word, step=len(word)), _RARE + 1))
        if not 0 < len(places) <= _RARE:
            continue
        starts = document.folded_starts
        for at in places:
            line = bisect_right(starts, at) - 1
            for index in words[word][:_RARE]:
                yield line - index, len(word) * _RARE // len(places)


def _similarity(document: Document, keys: Sequence[str], first: int) -> float:
    """The similarity (0 to 100) of the text and the lines from ``first`` on."""
    time_limit.check_time()
    lines = document.folded_lines[max(0, first) : first + len(keys)]
    passage = "\n".join(bare(line) for line in lines[:_SHOWN_LINES])[:_SHOWN_CHARS]
    wanted = "\n".join(keys[:_SHOWN_LINES])[:_SHOWN_CHARS]
    whole = fuzz.ratio(wanted, passage)
    if len(wanted) > len(passage):
        return whole
    # A text within a line, or that begins and ends within lines, is compared with that part.
    return max(whole, fuzz.partial_ratio(wanted[:_COMPARED_PART], passage) * 0.9)


def _first_difference(
    document: Document, wanted: Sequence[str], ends: Sequence[str], called: str, first: int
) -> str:
    # A text may begin and end within lines, unless that is all that differs.
    for strict, (index, line) in product((False, True), enumerate(wanted)):
        number = first + index
        if number >= document.line_count:
            return f"the file ends after line {document.line_count}, before {quoted(line)}."
        here = document.lines[number]
        is_part = (not index and here.endswith(line)) or (
            index == len(wanted) - 1 and bool(line) and here.startswith(line)
        )
        if line == here or (is_part and not strict):
            continue
        end = document.text[document.content_end(number) : document.line_end(number)]
        shown = (end, ends[index]) if "\r" in end + ends[index] else ("", "")
        return (
            f"line {number + 1} is the first that differs{_manner(line, here, called)}: "
            f"the file has {quoted(here, shown[0])}, {called} has {quoted(line, shown[1])}."
        )
    return "its lines are alike one by one, but it does not stand there in one piece."


def _manner(line: str, here: str, called: str) -> str:
    """The kind of difference of two lines, if there is only one kind."""
    if _ELLIPSIS.fullmatch(line) and not _ELLIPSIS.fullmatch(here):
        return " (an ellipsis does not stand for lines that are left out)"
    if is_blank(line) or is_blank(here):
        return " (one of the two is blank)" if is_blank(line) != is_blank(here) else ""
    if line.rstrip(WHITE_SPACE) == here.rstrip(WHITE_SPACE):
        return " (only in white space at its end)"
    if line.lstrip(WHITE_SPACE) == here.lstrip(WHITE_SPACE):
        return f" (only in indentation: {_counted(here)} in the file, {_counted(line)} in {called})"
    if folded_text(line) == folded_text(here):
        return f" (only in typography: {_typographic(line, here, called)})"
    if "".join(line.split()) == "".join(here.split()):
        return " (only in white space)"
    if line.casefold() == here.casefold():
        return " (only in upper and lower case)"
    if _unescaped(line).partition("\n")[0] == _unescaped(here).partition("\n")[0]:
        owner = called if line.count("\\") > here.count("\\") else "the file"
        return f" (only in escaping: {owner} has a backslash, the other the character itself)"
    short = max(len(line), len(here)) <= _SHOWN_CHARS  # unescape() fails at too many digits
    if short and html.unescape(line) == html.unescape(here):
        return " (only in HTML entities)"
    before = line.rstrip().removesuffix(here.strip())
    if _LINE_NUMBER.fullmatch(before):
        return " (only in a number before it: send no line numbers)"
    aligned = zip(line, here, strict=True) if len(line) == len(here) else ()
    pairs = [one + other for one, other in aligned if one != other]
    if len(pairs) <= len(line) // 2 and not "".join(pairs).isascii():
        return f" (in characters that may look alike: {_typographic(line, here, called)})"
    return ""


def _unescaped(line: str) -> str:
    """A text as if it were in a string of JSON."""
    meant = {"n": "\n", "t": "\t"}
    return re.sub(r"\\(.)", lambda each: meant.get(each[1], each[1]), line)


def _counted(line: str) -> str:
    indentation = line[: len(line) - len(line.lstrip(WHITE_SPACE))]
    tabs, spaces = indentation.count("\t"), indentation.count(" ")
    parts = [counted(count, name) for name, count in (("tab", tabs), ("space", spaces)) if count]
    others = len(indentation) - tabs - spaces
    if others:
        parts.append(f"{others} other white space")
    return " and ".join(parts) or "no indentation"


def _typographic(line: str, here: str, called: str) -> str:
    """The names of the first two characters that differ: none of the two begins the other."""
    mine, theirs = next(pair for pair in zip(line, here, strict=False) if len(set(pair)) > 1)
    return f"the file has {_named(theirs)} where {called} has {_named(mine)}"


def _named(char: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, 'unnamed')}"


def quoted(line: str, end: str = "") -> str:
    """A line in quotes, with invisible and confusable characters spelled out."""
    cut = line[:_SHOWN_LINE]
    kept = cut.rstrip(" ")
    spelled = "".join(map(_spelled, kept)) + "\\x20" * (len(cut) - len(kept))
    dots = "..." if len(line) > _SHOWN_LINE else ""
    return f'"{spelled}{dots}{"".join(map(_spelled, end))}"'


_ESCAPES = {"\t": "\\t", "\r": "\\r", "\n": "\\n"}


def _spelled(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    if char.isprintable() and char not in TABLE and not unicodedata.combining(char):
        return char
    return f"\\u{{{ord(char):04X}}}"
