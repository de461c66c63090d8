"""Unified diffs of two texts, as Git writes them: what a reply tells of an edit. Pure.

Lines end at ``\\n``. What both texts begin and end with is found by comparing bytes, so a small
edit of a large file costs little; only what is around the rest is cut into lines. There the
shortest edit script is looked for (Myers, An O(ND) Difference Algorithm, from both ends), and
groups of changed lines are slid as Git slides them: down as far as they go, or to where lines of
the other text changed. Which of several shortest scripts is taken, which lines are left out of the
search because the other text has none or too many of them, and the heading of a hunk follow Git's
rules. So the diff is byte for byte that of libgit2, and that of git with --no-indent-heuristic,
but for one thing: the search is bounded. Where the texts differ in too much, a stretch is
replaced whole; that is a diff as well, only not the shortest. (A name with spaces is followed by a
tab, as in Git, for patch(1); libgit2 writes none.)
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import NamedTuple

from stetd.history.commit_rows import Hunk
from stetd.history.git_patch import NO_ID, ended, patch_header, quoted
from stetd.history.objects import FILE, LINK, object_id

#: Steps of the search, some 0.3 us each.
_STEPS = 10_000
#: From this cost on Git guesses; its guesses are not followed here.
_MOST_COST = 255
#: Git's: lines that stand so often are no good to tell a place by (a lower bound follows from
#: the length of the text), and how far it looks around one of them.
_OFTEN, _AROUND = 1024, 100
#: A text with a NUL in its first bytes is none.
_LOOKED_AT = 8000
#: Bytes in which a difference is looked for at once.
_PIECE = 256
#: Lines around what differs that are compared first, besides the context.
_MARGIN = 6
#: So many different lines are looked for in a text before it is cut into lines for that.
_SOUGHT = 12
_LONGEST_HEADING = 80
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_NO_NEWLINE = b"\n\\ No newline at end of file\n"
_IS_ZERO = b"\1".ljust(256, b"\0")
#: Tells apart how a line may begin that is a heading, and the ends of lines.
_BEGINNINGS = bytes(
    ord("a" if chr(byte).isalpha() or chr(byte) in "_$" else "\n" if byte == 10 else ".")
    for byte in range(128)
).ljust(256, b".")


class LineDiff(NamedTuple):
    """A unified diff of one file and its counts of lines."""

    text: str
    added: int
    removed: int


class _Hunks(NamedTuple):
    text: bytes
    added: int
    removed: int


def line_diff(
    path: str,
    before: bytes | None,
    after: bytes | None,
    *,
    old_path: str | None = None,
    modes: tuple[int | None, int | None] = (None, None),
    ids: tuple[str | None, str | None] = (None, None),
    context: int = 3,
) -> LineDiff:
    """The unified diff between two contents of a file (None: there is none).

    ``modes``: the Git modes before and after; None is that of a plain file. ``ids``: of the
    contents, where they are known.
    """
    old_mode, new_mode = (FILE if mode is None else mode for mode in modes)
    if before is None or after is None:
        path = path if before is None or old_path is None else old_path
        old_path = None
    if before == after and old_path is None and (before is None or old_mode == new_mode):
        return LineDiff("", 0, 0)
    if before is not None and after is not None and (old_mode == LINK) != (new_mode == LINK):
        # Git knows no change of a file into a link.
        gone = line_diff(old_path or path, before, None, modes=(old_mode, None), ids=(ids[0], None))
        made = line_diff(path, None, after, modes=(None, new_mode), ids=(None, ids[1]))
        return LineDiff(gone.text + made.text, *count_lines(before, after))
    one, two = (
        NO_ID if data is None or before == after else oid or object_id("blob", data)
        for data, oid in zip((before, after), ids, strict=True)
    )
    stood = None if before is None else old_mode, None if after is None else new_mode
    lines = patch_header(path, (before, after), stood, (one[:7], two[:7]), old_path)
    if before == after:
        return LineDiff("\n".join([*lines, ""]), 0, 0)
    old_name = "/dev/null" if before is None else quoted(f"a/{old_path or path}")
    new_name = "/dev/null" if after is None else quoted(f"b/{path}")
    before, after = before or b"", after or b""
    if _is_binary(before) or _is_binary(after):
        lines += (f"Binary files {old_name} and {new_name} differ", "")
        return LineDiff("\n".join(lines), 0, 0)
    hunks = _hunks(before, after, context)
    lines += (f"--- {ended(old_name)}", f"+++ {ended(new_name)}")
    lines.append(hunks.text.decode("utf-8", "replace"))
    return LineDiff("\n".join(lines), hunks.added, hunks.removed)


def unified_hunks(before: bytes, after: bytes, context: int = 3) -> bytes:
    """The hunks of the unified diff of two texts, from the first ``@@`` on, byte for byte."""
    return _hunks(before, after, context).text


# -- what differs


class _Side:
    """A text: a stretch of whole lines of it, and which of them changed."""

    __slots__ = ("changed", "data", "differs", "end", "first", "lines", "start")

    def __init__(
        self, data: bytes, start: int, end: int, first: int, differs: tuple[int, int]
    ) -> None:
        self.data = data
        self.start = start
        self.end = end
        self.lines = _lines_of(data[start:end])
        #: How many lines stand before the stretch.
        self.first = first
        #: The lines that are neither in the beginning nor in the end that both texts have.
        self.differs = differs
        #: With one more at the end, which never did.
        self.changed = bytearray(len(self.lines) + 1)

    @property
    def total(self) -> int:
        """How many lines the whole text has."""
        return _count_lines(self.data)


class _TooNarrow(Exception):
    """What changed reaches an end of the compared stretch that is not an end of the text."""


def _lines_of(data: bytes) -> list[bytes]:
    return io.BytesIO(data).readlines()


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def count_lines(before: bytes | None, after: bytes | None) -> tuple[int, int]:
    """How many lines were added and removed between two contents (None: there is none)."""
    before, after = before or b"", after or b""
    if before == after or _is_binary(before) or _is_binary(after):
        return 0, 0
    _, _, changes = _compared(before, after, 0)
    return sum(each.added for each in changes), sum(each.removed for each in changes)


class LineComparison(NamedTuple):
    """Which lines of a file changed; ``text`` has them, removed and added, without signs."""

    hunks: tuple[Hunk, ...]
    added: int
    removed: int
    text: str


def compare_lines(before: bytes | None, after: bytes | None) -> LineComparison:
    """Which lines differ between two contents of a file (None: there is none).

    In the hunks a lone ``\\r`` ends a line as well, as it does everywhere else in the daemon.
    Of a binary file all is one hunk.
    """
    before, after = before or b"", after or b""
    if _is_binary(before) or _is_binary(after):
        lines = [data.count(b"\n") + len(_LONE_RETURN.findall(data)) for data in (before, after)]
        for number, data in enumerate((before, after)):
            lines[number] += not data.endswith((b"\n", b"\r")) and bool(data)
        return LineComparison((Hunk(0, lines[0], 0, lines[1]),), 0, 0, "")
    if before == after:
        return LineComparison((), 0, 0, "")
    old, new, changes = _compared(before, after, 0)
    added, removed = sum(each.added for each in changes), sum(each.removed for each in changes)
    changed: list[bytes] = []
    for each in changes:
        changed += old.lines[each.old : each.old + each.removed]
        changed += new.lines[each.new : each.new + each.added]
    text = "\n".join(line.removesuffix(b"\n").decode("utf-8", "replace") for line in changed)
    one, two = (_LONE_RETURN.sub(b"\r\x01\n", data) for data in (before, after))
    if (one, two) != (before, after):
        old, new, changes = _compared(one, two, 0)
    hunks = (Hunk(old.first + e.old, e.removed, new.first + e.new, e.added) for e in changes)
    return LineComparison(tuple(hunks), added, removed, text)


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_LOOKED_AT]


def _hunks(before: bytes, after: bytes, context: int) -> _Hunks:
    if before == after:
        return _Hunks(b"", 0, 0)
    return _written(*_compared(before, after, context), context)


def _compared(before: bytes, after: bytes, context: int) -> tuple[_Side, _Side, list[_Change]]:
    """What differs between two texts that do, and what is around it."""
    head, old_end, new_end = _differing(before, after)
    one, two = _count_lines(before[head:old_end]), _count_lines(after[head:new_end])
    margin = context if one and two else context + _MARGIN
    while True:
        start = _back(before, head, margin)
        length = _forward(before, old_end, margin) - old_end
        middle = before.count(b"\n", start, head)
        first = before.count(b"\n", 0, start)
        old = _Side(before, start, old_end + length, first, (middle, middle + one))
        new = _Side(after, start, new_end + length, first, (middle, middle + two))
        try:
            return old, new, _changes(old, new, context)
        except _TooNarrow:
            margin = 8 * (margin + 1)


def _differing(before: bytes, after: bytes) -> tuple[int, int, int]:
    """Where two texts begin to differ, and where they cease to, in bytes, by whole lines."""
    shorter = min(len(before), len(after))
    head = common_start(before, after, shorter)
    head = before.rfind(b"\n", 0, head) + 1
    same = common_end(before, after, shorter - head)
    old_end, new_end = len(before) - same, len(after) - same
    if not (_begins_line(before, old_end) and _begins_line(after, new_end)):
        newline = before.find(b"\n", old_end)
        same = 0 if newline < 0 else len(before) - newline - 1
    return head, len(before) - same, len(after) - same


def _begins_line(data: bytes, at: int) -> bool:
    return at == 0 or data[at - 1] == 10


def common_start(before: bytes, after: bytes, most: int, old: int = 0, new: int = 0) -> int:
    """How many bytes two texts have alike, of ``most``, from ``old`` and ``new`` on."""
    known, size = 0, _PIECE
    while known < most:
        size = min(size, most - known)
        one = before[old + known : old + known + size]
        two = after[new + known : new + known + size]
        if one == two:
            known, size = known + size, size * 4
        elif size <= _PIECE:
            differing = int.from_bytes(one, "little") ^ int.from_bytes(two, "little")
            known += ((differing & -differing).bit_length() - 1) // 8
            break
        else:
            size = _PIECE
    return known


def common_end(before: bytes, after: bytes, most: int) -> int:
    """How many bytes two texts end with alike, of ``most``."""
    known, size = 0, _PIECE
    old_end, new_end = len(before), len(after)
    while known < most:
        size = min(size, most - known)
        one = before[old_end - known - size : old_end - known]
        two = after[new_end - known - size : new_end - known]
        if one == two:
            known, size = known + size, size * 4
        elif size <= _PIECE:
            differing = int.from_bytes(one) ^ int.from_bytes(two)
            known += ((differing & -differing).bit_length() - 1) // 8
            break
        else:
            size = _PIECE
    return known


def _back(data: bytes, at: int, lines: int) -> int:
    """Where the line begins that is so many lines before, or the text."""
    for _ in range(lines):
        if at == 0:
            break
        at = data.rfind(b"\n", 0, at - 1) + 1
    return at


def _forward(data: bytes, at: int, lines: int) -> int:
    for _ in range(lines):
        newline = data.find(b"\n", at)
        if newline < 0:
            return len(data)
        at = newline + 1
    return at


class _Change(NamedTuple):
    """Lines that went and lines that came, each from a line on, counted from the stretch."""

    old: int
    removed: int
    new: int
    added: int


def _changes(old: _Side, new: _Side, context: int) -> list[_Change]:
    """What changed, in order. Raises _TooNarrow."""
    old_start, old_end = old.differs
    new_start, new_end = new.differs
    one, two = old_end - old_start, new_end - new_start
    if one == two == 1:
        changes = [_Change(old_start, 1, new_start, 1)]
    else:
        if one and two:
            _Search(old, new).mark()
        else:
            old.changed[old_start:old_end] = b"\1" * one
            new.changed[new_start:new_end] = b"\1" * two
        changes = _found(old, new)
    if len(changes) > 1 or not (changes[0].removed and changes[0].added):
        # A single group with one in the other text beside it can line up nowhere else.
        _slide(old, new)
        _slide(new, old)
        changes = _found(old, new)
    last = changes[-1]
    if (old.start > 0 and changes[0].old < context) or (
        old.end < len(old.data) and len(old.lines) - (last.old + last.removed) < context
    ):
        raise _TooNarrow
    return changes


def _found(old: _Side, new: _Side) -> list[_Change]:
    changes: list[_Change] = []
    i = j = 0
    while True:
        at = old.changed.find(1, i)
        other = new.changed.find(1, j)
        if at < 0 and other < 0:
            return changes
        same = min(step for step in (at - i, other - j) if step >= 0)
        i, j = i + same, j + same
        removed = old.changed.find(0, i) - i
        added = new.changed.find(0, j) - j
        changes.append(_Change(i, removed, j, added))
        i, j = i + removed, j + added


def _slide(side: _Side, other: _Side) -> None:
    """Move each group of changed lines down as far as it goes, joining those that it meets.

    If on its way it was where lines of the other text changed, it goes back to the last such place.
    """
    lines, changed, theirs = side.lines, side.changed, other.changed
    count = len(lines)
    start, end = 0, changed.find(0)
    other_start, other_end = 0, theirs.find(0)
    while True:
        size = -1 if end > start else 0
        earliest, beside = end, -1
        while size != end - start:
            size, beside = end - start, -1
            while start > 0 and lines[start - 1] == lines[end - 1]:
                start, end = _slid_up(changed, start, end)
                other_start, other_end = _before(theirs, other_start)
            if start == 0 and side.start > 0:
                raise _TooNarrow
            earliest = end
            if other_end > other_start:
                beside = end
            while end < count and lines[start] == lines[end]:
                changed[start], changed[end] = 0, 1
                start, end = start + 1, changed.find(0, end + 1)
                other_start, other_end = other_end + 1, theirs.find(0, other_end + 1)
                if other_end > other_start:
                    beside = end
            if end == count and side.end < len(side.data):
                raise _TooNarrow
        if end != earliest and beside >= 0:
            while other_end == other_start:
                start, end = _slid_up(changed, start, end)
                other_start, other_end = _before(theirs, other_start)
        start = changed.find(1, end)
        if start < 0:
            return
        other_start = _further(theirs, other_end, start - end)
        end, other_end = changed.find(0, start), theirs.find(0, other_start)


def _further(changed: bytearray, at: int, lines: int) -> int:
    """Where so many unchanged lines end that begin, with changed ones among them, here."""
    while True:
        next_change = changed.find(1, at)
        if next_change < 0 or next_change - at >= lines:
            return at + lines
        lines -= next_change - at
        at = changed.find(0, next_change)


def _slid_up(changed: bytearray, start: int, end: int) -> tuple[int, int]:
    changed[start - 1], changed[end - 1] = 1, 0
    return changed.rfind(0, 0, start) + 1, end - 1


def _before(changed: bytearray, start: int) -> tuple[int, int]:
    """The group, perhaps empty, before the one that begins here."""
    return changed.rfind(0, 0, start - 1) + 1, start - 1


# -- the shortest script


class _Search:
    """Marks the lines that changed, among those that differ."""

    def __init__(self, old: _Side, new: _Side) -> None:
        self._old, self._new = old, new
        self._left = _STEPS
        numbers: dict[bytes, int] = {}
        self._one = self._kept(old, new, numbers)
        self._two = self._kept(new, old, numbers)
        size = len(self._one[0]) + len(self._two[0]) + 3
        self._forward, self._backward = [0] * size, [0] * size
        self._offset = len(self._two[0]) + 1

    def mark(self) -> None:
        """Mark them."""
        boxes = [(0, len(self._one[0]), 0, len(self._two[0]))]
        while boxes:
            boxes += self._divided(*boxes.pop())

    @staticmethod
    def _kept(side: _Side, other: _Side, numbers: dict[bytes, int]) -> tuple[list[int], list[int]]:
        """The lines that are compared, as numbers, and where they stand; the others changed."""
        start, end = side.differs
        lines = side.lines[start:end]
        often = min(_rough_root(side.total), _OFTEN)
        grades = bytearray(map(_occurring(set(lines), other, often).__getitem__, lines))
        strangers = [
            at for at, grade in enumerate(grades) if grade == 2 and _is_among_strangers(grades, at)
        ]
        for at in strangers:
            grades[at] = 0
        side.changed[start:end] = grades.translate(_IS_ZERO)
        kept = [numbers.setdefault(line, len(numbers)) for line in compress(lines, grades)]
        return kept, list(compress(range(start, end), grades))

    def _divided(self, a: int, a_end: int, b: int, b_end: int) -> list[tuple[int, int, int, int]]:
        """Compare two stretches, or give the two pairs of stretches that they fall into."""
        one, two = self._one[0], self._two[0]
        while a < a_end and b < b_end and one[a] == two[b]:
            a, b = a + 1, b + 1
        while a < a_end and b < b_end and one[a_end - 1] == two[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
        if a < a_end and b < b_end:
            split = self._split(a, a_end, b, b_end)
            if split is not None:
                x, y = split
                return [(x, a_end, y, b_end), (a, x, b, y)]
        for place in self._one[1][a:a_end]:
            self._old.changed[place] = 1
        for place in self._two[1][b:b_end]:
            self._new.changed[place] = 1
        return []

    def _split(self, a: int, a_end: int, b: int, b_end: int) -> tuple[int, int] | None:
        """A place on a shortest way, about half way; None if finding one takes too long.

        From both corners the furthest places are looked for that so many changes lead to, by
        diagonal (a place's lines of the old text less those of the new), until two ways meet.
        """
        one, two, offset = self._one[0], self._two[0], self._offset
        ahead, behind = self._forward, self._backward
        lowest, highest = a - b_end, a_end - b
        low = high = a - b
        back_low = back_high = a_end - b_end
        odd = (low - back_low) & 1
        ahead[low + offset], behind[back_low + offset] = a, a_end
        beyond = len(one) + len(two) + 1
        for _ in range(_MOST_COST):
            self._left -= high - low + 2
            if self._left < 0:
                return None
            low = _widened(ahead, offset, low, lowest, -1, -1)
            high = _widened(ahead, offset, high, highest, 1, -1)
            for k in range(high, low - 1, -2):
                at = k + offset
                x = max(ahead[at - 1] + 1, ahead[at + 1])
                y = begun = x - k
                while x < a_end and y < b_end and one[x] == two[y]:
                    x, y = x + 1, y + 1
                self._left -= y - begun
                ahead[at] = x
                if odd and back_low <= k <= back_high and behind[at] <= x:
                    return x, y
            back_low = _widened(behind, offset, back_low, lowest, -1, beyond)
            back_high = _widened(behind, offset, back_high, highest, 1, beyond)
            for k in range(back_high, back_low - 1, -2):
                at = k + offset
                x = min(behind[at - 1], behind[at + 1] - 1)
                y = begun = x - k
                while x > a and y > b and one[x - 1] == two[y - 1]:
                    x, y = x - 1, y - 1
                self._left -= begun - y
                behind[at] = x
                if not odd and low <= k <= high and x <= ahead[at]:
                    return x, y
        return None


def _widened(
    furthest: list[int], offset: int, edge: int, limit: int, step: int, nowhere: int
) -> int:
    """The outermost diagonal of the next round: one further out, or, at the limit, one back."""
    if edge == limit:
        return edge - step
    furthest[edge + 2 * step + offset] = nowhere
    return edge + step


def _rough_root(number: int) -> int:
    """About the square root, as Git takes it."""
    root = 1
    while number > 0:
        root, number = root << 1, number >> 2
    return root


def _occurring(lines: set[bytes], other: _Side, often: int) -> dict[bytes, int]:
    """How often the other text has each line: 0 never, 1 seldom, 2 ``often``."""
    data = other.data
    if len(lines) <= _SOUGHT:
        grades = {}
        for line in lines:
            if not _stands_in(line, data):
                grades[line] = 0
            elif data.count(line) < often:
                grades[line] = 1
            else:
                break  # perhaps only as a part of longer lines
        else:
            return grades
    counts = Counter(_lines_of(data))
    return {line: 0 if not counts[line] else 2 if counts[line] >= often else 1 for line in lines}


def _stands_in(line: bytes, data: bytes) -> bool:
    if not line.endswith(b"\n"):
        return data == line or data.endswith(b"\n" + line)
    return data.startswith(line) or b"\n" + line in data


def _is_among_strangers(grades: bytearray, at: int) -> bool:
    """Whether a line that stands often in the other text is among many that do not at all."""
    strangers, often = 0, 2
    for around in (
        range(at - 1, max(0, at - _AROUND) - 1, -1),
        range(at + 1, min(len(grades), at + _AROUND + 1)),
    ):
        here = 0
        for each in around:
            if grades[each] == 1:
                break
            if grades[each] == 2:
                often += 1
            else:
                here += 1
        if not here:
            return False
        strangers += here
    return often * 4 < often + strangers


# -- writing it


def _written(old: _Side, new: _Side, changes: Sequence[_Change], context: int) -> _Hunks:
    pieces: list[bytes] = []
    heading, sought = b"", 0
    here, reached = old.start, 0
    for group in _grouped(changes, context):
        first, last = group[0], group[-1]
        before = min(context, first.old, first.new)
        start, new_start = first.old - before, first.new - before
        after = min(context, len(old.lines) - last.old - last.removed)
        removed = last.old + last.removed + after - start
        added = last.new + last.added + after - new_start
        here += sum(map(len, old.lines[reached:start]))
        reached = start
        heading = _heading(old.data, sought, here) or heading
        sought = here
        pieces.append(
            _header(
                _range(old.first + start, removed) + b" +" + _range(new.first + new_start, added),
                heading,
            )
        )
        at = start
        for change in group:
            _write(pieces, b" ", old.lines[at : change.old])
            at = change.old + change.removed
            _write(pieces, b"-", old.lines[change.old : at])
            _write(pieces, b"+", new.lines[change.new : change.new + change.added])
        _write(pieces, b" ", old.lines[at : at + after])
    return _Hunks(
        b"".join(pieces), sum(each.added for each in changes), sum(each.removed for each in changes)
    )


def _write(pieces: list[bytes], sign: bytes, lines: Sequence[bytes]) -> None:
    pieces += [sign + line for line in lines]
    if lines and not lines[-1].endswith(b"\n"):
        pieces.append(_NO_NEWLINE)


def _grouped(changes: Sequence[_Change], context: int) -> Iterator[list[_Change]]:
    """Changes whose context meets are one hunk."""
    group = [changes[0]]
    for change in changes[1:]:
        if change.old - (group[-1].old + group[-1].removed) > 2 * context:
            yield group
            group = []
        group.append(change)
    yield group


def _range(first: int, count: int) -> bytes:
    if count == 1:
        return b"%d" % (first + 1)
    return b"%d,%d" % (first + 1 if count else first, count)


def _header(ranges: bytes, heading: bytes) -> bytes:
    header = b"@@ -" + ranges + b" @@" + (b" " + heading if heading else b"")
    try:
        header.decode()
    except UnicodeDecodeError as error:
        header = header[: error.start]
    return header + b"\n"


def _heading(data: bytes, begin: int, end: int) -> bytes:
    """The last line in a stretch of whole lines that begins as a definition does."""
    size = 1 << 10
    while end > begin:
        start = max(begin, end - size)
        piece = (data[start - 1 : end] if start else b"\n" + data[:end]).translate(_BEGINNINGS)
        at = piece.rfind(b"\na")
        if at >= 0:
            line = data[start + at : data.find(b"\n", start + at)]
            return line.rstrip()[:_LONGEST_HEADING]
        end, size = start, size * 4
    return b""
