r"""Lines for people as values: text with styles, safe to print, of a known width.

A line is a tuple of spans, a span is text with a style. Styles are rich's ("bold red"); the code
that prints decides whether to use them, so nothing here needs rich or a terminal.

Text from files and agents may contain terminal escapes: :func:`visible` spells them out. Wide
characters (CJK, emoji) take two columns of a terminal, combining ones none; :func:`columns`,
:func:`shortened` and :func:`padded` count in this way.
"""

from __future__ import annotations

import datetime
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

from stet.wire.results import CommitInfo


class Span(NamedTuple):
    """A piece of a line, without line ends."""

    text: str
    style: str = ""


Line = tuple[Span, ...]

#: Seconds without an edit after which a burst ends.
_PAUSE_S = 300
#: Digits of an object id that are shown.
SHORT = 8

# C0 and C1 controls and DEL; bidirectional overrides, which reorder a line when it is shown; line
# separators; spaces without width, with which one name looks like another; lone surrogates. A tab
# is left out. None of them is printable. Compiled for the first text that is not printable, because
# this takes a millisecond.
_UNSAFE = (
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069"
    "\ufeff\ud800-\udfff]"
)
#: Colours of agents, chosen by name; red, green and yellow have other meanings, and bright cyan
#: can't be read on white.
_NAME_STYLES = ("cyan", "magenta", "blue", "bright_magenta", "bright_blue")


def visible(text: str) -> str:
    """The text with control characters spelled out (``\\x1b``), tabs left as they are."""
    return text if text.isprintable() else re.sub(_UNSAFE, _spelled, text)


def _spelled(found: re.Match[str]) -> str:
    if found[0] == "\r":
        return "\\r"
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def typed(word: str) -> str:
    """A word of a shell command that is printed."""
    import shlex  # most results do without

    return visible(shlex.quote(word))


def visible_lines(text: str) -> str:
    """A text of several lines with control characters spelled out."""
    return "\n".join(map(visible, text.split("\n")))


def columns(text: str) -> int:
    """The number of a terminal's columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_column_count, text))


def _column_count(character: str) -> int:
    import unicodedata  # ASCII does without

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def shortened(text: str, most: int) -> str:
    """The text cut to so many columns; a tab counts as a space."""
    text = text.replace("\t", " ")
    if columns(text) <= most:
        return text
    ends = accumulate(map(columns, text))  # where each character ends, in columns
    kept = sum(1 for _ in takewhile(lambda end: end < most, ends))
    return text[:kept].rstrip() + "…" if most > 0 else ""


def padded(text: str, width: int) -> str:
    """The text with spaces up to a width in columns."""
    return text + " " * (width - columns(text))


def line_columns(line: Line) -> int:
    """The number of columns that a line takes."""
    return sum(columns(span.text) for span in line)


def aligned(rows: Sequence[Line], most: int = sys.maxsize) -> Iterator[Line]:
    """Align the rows of a table: pad each span, except a row's last, to its column's width, but not
    beyond ``most`` columns.
    """
    widths: dict[int, int] = {}
    for row in rows:
        for at, span in enumerate(row[:-1]):
            widths[at] = min(max(widths.get(at, 0), columns(span.text)), most)
    for *cells, last in rows:
        pairs = enumerate(cells)
        yield (*(Span(padded(text, widths[at]), style) for at, (text, style) in pairs), last)


def short(commit: str) -> str:
    """The short form of an object id."""
    return commit[:SHORT]


def ago(time: str, now: datetime.datetime) -> str:
    """An RFC 3339 time relative to ``now``: ``3 min ago``."""
    seconds = (now - datetime.datetime.fromisoformat(time)).total_seconds()
    for unit, length in (
        ("year", 31557600), ("month", 2629800), ("week", 604800), ("day", 86400),
    ):  # fmt: skip
        if seconds >= length:
            return plural(int(seconds // length), unit) + " ago"
    for unit, length in (("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "just now"


def pause_between(later: CommitInfo, earlier: CommitInfo) -> bool:
    """Whether a burst ends between two commits; also where the clock was set back between them."""
    times = [datetime.datetime.fromisoformat(each.time) for each in (later, earlier)]
    return abs((times[0] - times[1]).total_seconds()) > _PAUSE_S


def when(time: str, now: datetime.datetime | None) -> str:
    """A time relative to ``now``, or as it was sent if that is None."""
    return visible(time) if now is None else ago(time, now)


def plural(count: int, unit: str) -> str:
    """``1 line``, ``2 lines``, ``1,000 lines``."""
    return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"


def named(agent: str | None, session: str | None) -> str:
    """``agent/session``, or one of them if the other is missing."""
    return "/".join(visible(name) for name in (agent, session) if name)


def who(commit: CommitInfo) -> str:
    """``agent/session`` of a commit, or its kind if it is no agent's."""
    return named(commit.agent, commit.session) or commit.kind


def name_style(agent: str | None, session: str | None) -> str:
    """The colour of an agent, the same for all its sessions and everywhere; none without a name."""
    name = agent or session
    if not name:
        return "dim"
    if name == "person":
        return "bold"
    return _NAME_STYLES[zlib.crc32(name.encode("utf-8", "replace")) % len(_NAME_STYLES)]


def until(time: str | None, now: datetime.datetime | None) -> str:
    """An end time as a suffix: `` until 14:30 (in 28 min)`` in local time, or as it was sent if
    ``now`` is None; empty if there is none.
    """
    if not time or now is None:
        return f" until {visible(time)}" if time else ""
    local, today = datetime.datetime.fromisoformat(time).astimezone(), now.astimezone()
    shown = local.strftime("%H:%M" if local.date() == today.date() else "%Y-%m-%d %H:%M")
    return f" until {shown} (in {length((local - today).total_seconds())})"


def length(seconds: float) -> str:
    """A length of time in the largest unit of which it has at least two."""
    for unit, one in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * one:
            return f"{round(seconds / one)} {unit}"
    return f"{max(0, round(seconds))} s"


def size(number: int) -> str:
    """A number of bytes in a readable unit."""
    amount = float(number)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
