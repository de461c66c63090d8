"""Searching with regular expressions (docs/dialects.md), within bounds of time and memory.

Patterns are compiled on the thread that everybody waits for, so they are read first: a brace that
is no counted repetition is escaped (``regex`` would read approximate matching), counted repetitions
are limited (they are unfolded), recursion and backward search are refused. A pattern sees every
terminator as ``\\n``. Matches do not overlap; an empty one is none.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, Self

import msgspec

from stetd.editing import time_limit
from stetd.editing.matching.line_replacement import Place
from stetd.editing.matching.rungs import MOST_PLACES
from stetd.editing.text import Document

#: Seconds for all pattern searches of a call together.
SECONDS = 2.0


class Allowance:
    """The time of a call for searches; each runs ``with allowance:``."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.total = seconds
        #: The remaining seconds, without those of the running search; may be negative.
        self.left = seconds
        self._ends = 0.0

    def check_time(self) -> None:
        """Raise TimeoutError if no time is left, or TakesLong as ``time_limit`` does."""
        time_limit.check_time()
        if time.thread_time() >= self._ends:
            raise TimeoutError

    def __enter__(self) -> Self:
        self._ends = time.thread_time() + self.left
        return self

    def __exit__(self, *_: object) -> None:
        self.left = self._ends - time.thread_time()


#: Limits of a pattern: characters, nested groups, and size with counted repetitions unfolded.
MOST_CHARACTERS = 4_000
MOST_NESTED = 50
MOST_UNFOLDED = 20_000
#: Tokens of patterns: escapes, sets, openings (a ``group`` captures, ``open`` does not), the rest.
#: ``(?<name>`` and ``(?P<name>`` capture, ``(?<=`` and ``(?<!`` look behind.
_TOKEN = re.compile(
    r"\\(?:[pPN]\{[^(){}[\]]*\}|[gkL]<\w*>|r\\n|[\s\S]?)"
    r"|\[\^?\]?(?:\[:\^?\w+:\]|\\[\s\S]?|[^\]\\])*\]?"
    r"|(?P<call>\(\?(?:R|[+-]?\d+|&\w*|P>\w*)\))"
    r"|(?P<remark>\(\?#[^)]*\)|\(\*[A-Z]+\))"
    r"|\(\?(?P<flags>[A-Za-z0-9]*(?:-[A-Za-z]*)?)[:)]"
    r"|(?P<group>\((?!\?)|\(\?P?<(?![=!]))"
    r"|(?P<open>\(\?(?:\([\w<>']*\))?)"
    r"|(?P<close>\))"
    r"|(?P<repeat>[*+?]|\{(?:\d{1,9}(?:,\d{0,9})?|,\d{1,9})\})"
    r"|\r\n|[\s\S]"
)
#: What ``(?x)`` skips.
_SKIPPED = re.compile(r"(?P<remark>#[^\n]*|\s+)")
#: Tokens that are replaced before compiling.
_WRITTEN = {r"\r\n": r"\n", "\r\n": "\n", "{": r"\{"}


class BadPattern(Exception):
    """Why a pattern is refused; ``position``: the character (from 0) that is the cause."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.position = reason, position


class _Group(msgspec.Struct):
    """An open group: its unfolded size, and the size of its last item."""

    #: Whether ``(?x)`` counts here; it does up to the end of the group.
    verbose: bool = False
    captures: bool = False
    size: int = 0
    last: int = 0
    last_captures: bool = False

    def add(self, size: int, *, captures: bool = False) -> None:
        self.size += size
        self.last, self.last_captures = size, captures
        self.captures |= captures


class ReadPattern:
    """A pattern as it is to be compiled. Raises BadPattern."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MOST_CHARACTERS:
            raise BadPattern(f"it has {len(pattern):,} characters; {MOST_CHARACTERS:,} is the most")
        self._groups = [_Group()]
        #: Whether a capturing group is repeated, which keeps all its matches in memory.
        self.keeps_repetitions = False
        self.text = ""
        #: For each character of the text, and for its end, the place in what was sent.
        self.origin: list[int] = []
        at = 0
        while at < len(pattern):
            skipped = _SKIPPED.match(pattern, at) if self._groups[-1].verbose else None
            token = skipped or _TOKEN.match(pattern, at)
            assert token, "BUG: a character is no token"
            self._take(token)
            text = _WRITTEN.get(token.group())
            self.text += token.group() if text is None else text
            self.origin += range(at, token.end()) if text is None else [at] * len(text)
            at = token.end()
        self.origin.append(at)

    def _take(self, token: re.Match[str]) -> None:
        sent, group = token.group(), self._groups[-1]
        match token.lastgroup:
            case "remark":
                pass
            case "call":
                raise BadPattern("it calls itself, which is not supported", token.start())
            case "flags":
                on, _, off = token["flags"].partition("-")
                if "r" in on:
                    raise BadPattern("it searches backwards, which is not supported", token.start())
                if sent.endswith(":"):
                    self._open(token)
                here = self._groups[-1]
                here.verbose = "x" in on or (here.verbose and "x" not in off)
            case "group" | "open":
                self._open(token)
            case "close":
                if len(self._groups) > 1:
                    self._groups.pop()
                    self._groups[-1].add(max(1, group.size), captures=group.captures)
            case "repeat":
                times = max([1, *map(int, re.findall(r"\d+", sent))])
                group.size += group.last * (times - 1)
                group.last *= times
                endless = sent in ("*", "+") or sent.endswith(",}")
                self.keeps_repetitions |= group.last_captures and (endless or times > 1)
            case _:
                group.add(1)
        if self._groups[-1].size > MOST_UNFOLDED:
            raise BadPattern(
                "it is too large: with its counted repetitions written out it has more than "
                f"{MOST_UNFOLDED:,} parts",
                token.start(),
            )

    def _open(self, token: re.Match[str]) -> None:
        if len(self._groups) > MOST_NESTED:
            raise BadPattern(f"more than {MOST_NESTED} groups are nested in it", token.start())
        self._groups.append(_Group(self._groups[-1].verbose, captures=token.lastgroup == "group"))


#: Characters of the longest text for patterns: a repeated alternation keeps its matches in memory.
MOST_TEXT = 8_000_000
#: The same for patterns with repeated capturing groups, which keep 180 bytes per character.
MOST_TEXT_KEPT = 1_000_000
#: Seconds after which a search is moved to another process; nearly all are finished by then.
_AT_ONCE_S = 0.002


class Pattern(msgspec.Struct, frozen=True):
    """A compiled pattern; ``most_text``: characters of the longest text to search."""

    compiled: Any
    most_text: int


class MatchedPlace(Place, frozen=True, kw_only=True):
    """The place of one match, which has terminators as ``\\n``."""

    match: Any


class Matches(msgspec.Struct, frozen=True):
    """``found``: the one asked for, or the first ``MOST_PLACES``; ``count``: of all up to it."""

    found: tuple[MatchedPlace, ...]
    count: int
    #: The pattern has also matched an empty text somewhere.
    empty: bool


def compile_pattern(text: str) -> Pattern:
    """``text`` as a pattern. Raises BadPattern."""
    import regex  # it takes long to load

    read = ReadPattern(text)
    try:
        compiled = regex.compile(read.text, regex.MULTILINE, cache_pattern=False)
    except regex.error as error:
        position = None if error.pos is None else read.origin[min(error.pos, len(read.text))]
        raise BadPattern(str(error.msg), position) from error
    except (ValueError, OverflowError, RecursionError, IndexError, KeyError) as error:
        raise BadPattern(str(error) or "it can not be compiled") from error
    return Pattern(compiled, MOST_TEXT_KEPT if read.keeps_repetitions else MOST_TEXT)


def check_template(pattern: Pattern, template: str) -> str | None:
    """The fault of a replacement template for ``pattern``; None if it is valid."""
    import regex

    names = {number: name for name, number in pattern.compiled.groupindex.items()}
    groups = (
        f"(?P<{names[n]}>)" if n in names else "()" for n in range(1, pattern.compiled.groups + 1)
    )
    empty = regex.compile("".join(groups), cache_pattern=False).match("")
    try:
        expanded = empty.expand(template)
    except (regex.error, IndexError, ValueError, KeyError, OverflowError) as error:
        return str(getattr(error, "msg", "") or error)
    if any("\ud800" <= each <= "\udfff" for each in expanded):
        return r"\u with half of a surrogate pair is no character; send the character itself"
    if "\0" in expanded and "\0" not in template:
        return r"\0 is the character NUL, which makes a file binary; the whole match is \g<0>"
    return None


def find_matches(
    pattern: Pattern, document: Document, allowance: Allowance, number: int | None = None
) -> Matches:
    """All matches, or the one with this ``number``. Raises TimeoutError and MemoryError."""
    found: list[MatchedPlace] = []
    count, empty = 0, False
    with allowance:
        for match in _scan(pattern, document, allowance.left):
            allowance.check_time()
            start, end = match.span()
            if start == end:
                empty = True
                continue
            count += 1
            if count == number:
                return Matches((_placed(document, match),), count, empty)
            if len(found) < MOST_PLACES:
                found.append(_placed(document, match))
    return Matches(tuple(found), count, empty)


def _scan(pattern: Pattern, document: Document, seconds: float) -> Iterator[Any]:
    if seconds <= 0:
        raise TimeoutError
    here = min(seconds, _AT_ONCE_S if time_limit.is_limited() else seconds)
    try:
        yield from pattern.compiled.finditer(document.lf_text, timeout=here, concurrent=True)
    except TimeoutError as error:
        if here < seconds:
            raise time_limit.TakesLong from error
        raise


def _placed(document: Document, match: Any) -> MatchedPlace:
    start, end = match.span()
    return MatchedPlace(document.offset_from_lf(start), document.offset_from_lf(end), match=match)
