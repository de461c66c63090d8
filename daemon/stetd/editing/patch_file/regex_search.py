"""Searching with regular expressions, within bounds of time and memory.

A pattern sees the text with every line terminator as ``\\n``, whatever the file has: ``$``
stands before it, ``^`` after it, ``.`` does not match it (unless ``(?s)`` is given), and what
is replaced gets the file's own terminators back. So a pattern means the same in every file,
and can't tear a ``\\r\\n`` apart.

Matches are found from left to right and do not overlap, as every regular expression tool has
it. An empty match is none.

All searches of a call share one :class:`~stetd.editing.patch_file.search_time.Allowance` of time.
Where others wait (:mod:`stetd.editing.patience`), a search that is not done at once is not
stopped: it is done elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import regex

from stetd.editing import patience
from stetd.editing.patch_file.pattern_reading import BadPattern, ReadPattern, read_pattern
from stetd.editing.patch_file.search_time import Allowance
from stetd.editing.text import Document

#: Patterns are not tried on longer texts: a repeated alternation keeps what it has matched.
MOST_TEXT = 8_000_000
#: The same for patterns with repeated groups that capture, which keep 180 bytes a character.
MOST_TEXT_KEPT = 1_000_000
#: Seconds of a search after which it is done where nobody waits: nearly all are done by then.
_AT_ONCE_S = 0.002
#: No more matches than this are listed.
MOST_MATCHES = 1_000


class Pattern(msgspec.Struct, frozen=True):
    """A compiled pattern."""

    compiled: Any
    keeps_repetitions: bool

    @property
    def most_text(self) -> int:
        """The characters of the longest text that it may be tried on."""
        return MOST_TEXT_KEPT if self.keeps_repetitions else MOST_TEXT


class Found(msgspec.Struct, frozen=True):
    """One match: ``document.text[start:end]``, which reads ``matched`` with ``\\n``.

    ``match`` is what :func:`expanded` needs.
    """

    start: int
    end: int
    matched: str
    match: Any


class Stopped(msgspec.Struct, frozen=True):
    """A search that was given up: it ran out of time or memory."""


class Matches(msgspec.Struct, frozen=True):
    """``found``: the first matches, ``MOST_MATCHES`` at most; ``count``: how many there are.

    ``empty``: the pattern has also matched nothing at all somewhere. ``nth``: the match with
    the number that was asked for; the search ends there.
    """

    found: tuple[Found, ...]
    count: int
    empty: bool
    nth: Found | None = None


def compile_pattern(text: str) -> Pattern | BadPattern:
    """``text`` as a pattern, or why it can't be one."""
    read = read_pattern(text)
    if isinstance(read, BadPattern):
        return read
    try:
        compiled = regex.compile(read.text, regex.MULTILINE, cache_pattern=False)
    except regex.error as error:
        return _not_compiled(read, error)
    except (ValueError, OverflowError, RecursionError, IndexError, KeyError) as error:
        return BadPattern(str(error) or "it can not be compiled")
    return Pattern(compiled, read.keeps_repetitions)


def _not_compiled(read: ReadPattern, error: Any) -> BadPattern:
    position = error.pos
    if position is not None:
        origin = [*read.origin, (read.origin[-1] + 1 if read.origin else 0)]
        position = origin[min(position, len(origin) - 1)]
    return BadPattern(str(error.msg), position)


def check_template(pattern: Pattern, template: str) -> str | None:
    """What is wrong with a replacement template for ``pattern``, None if nothing is."""
    names = {number: name for name, number in pattern.compiled.groupindex.items()}
    groups = (
        f"(?P<{names[n]}>)" if n in names else "()" for n in range(1, pattern.compiled.groups + 1)
    )
    empty = regex.compile("".join(groups), cache_pattern=False).match("")
    try:
        empty.expand(template)
    except (regex.error, IndexError, ValueError, KeyError, OverflowError) as error:
        return str(getattr(error, "msg", "") or error)
    return None


def expanded(found: Found, template: str) -> str:
    """The template with the groups of a match in it, terminators as ``\\n``; see check_template."""
    written: str = found.match.expand(template)
    return written


def find_matches(
    pattern: Pattern, document: Document, allowance: Allowance, number: int | None = None
) -> Matches | Stopped:
    """All matches of ``pattern``, or, with ``number`` (from 1), up to that one."""
    found: list[Found] = []
    count, empty = 0, False
    with allowance:
        try:
            for match in _scan(pattern, document, allowance.left):
                patience.go_on()
                if allowance.left <= 0:
                    return Stopped()
                start, end = match.span()
                if start == end:
                    empty = True
                    continue
                count += 1
                if count == number:
                    nth = _placed(document, match)
                    return Matches(tuple(found), count, empty, nth)
                if len(found) < MOST_MATCHES:
                    found.append(_placed(document, match))
        except (TimeoutError, MemoryError):
            return Stopped()
    return Matches(tuple(found), count, empty)


def _scan(pattern: Pattern, document: Document, seconds: float) -> Iterator[Any]:
    if seconds <= 0:
        raise TimeoutError
    here = min(seconds, _AT_ONCE_S if patience.is_limited() else seconds)
    try:
        yield from pattern.compiled.finditer(document.lf_text, timeout=here, concurrent=True)
    except TimeoutError as error:
        if here < seconds:
            raise patience.TakesLong from error
        raise


def _placed(document: Document, match: Any) -> Found:
    start, end = match.span()
    return Found(document.offset_from_lf(start), document.offset_from_lf(end), match.group(), match)
