"""Line diffs: which lines of two texts differ, and the hunks of a unified diff as in Git. Pure.

Lines end at ``\\n``. What both texts begin and end with is found by comparing bytes, so a small
edit of a large file costs little; only what is around the rest is cut into lines. There rapidfuzz
looks for a longest common subsequence, so the diff is a shortest one. Of several, Git may choose
another; lines that only went or only came stand as far down as they can, as in Git's.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import isqrt
from typing import NamedTuple

from rapidfuzz.distance import LCSseq, Postfix, Prefix

#: Pairs of lines that are compared at most: the search takes one bit for each, and some 8 ms.
_MOST_PAIRS = 50_000_000
#: Lines by which a change is moved down at most, into the common end of both texts.
_MOST_MOVED = 200
#: First bytes of a content that are searched for a NUL, which makes it binary.
_LOOKED_AT = 8000
_LONGEST_HEADING = 80
#: Unchanged lines above and below a change in a hunk.
_CONTEXT = 3
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_NO_NEWLINE = b"\n\\ No newline at end of file\n"
#: Maps bytes to "a" (may begin a heading), newline, or "." (all others).
_BEGINNINGS = bytes(
    ord("a" if chr(byte).isalpha() or chr(byte) in "_$" else "\n" if byte == 10 else ".")
    for byte in range(128)
).ljust(256, b".")


# -- differences


class Hunk(NamedTuple):
    """A run of old lines that became new ones; lines count from 0, either number may be 0."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int

    def below(self, old: int, new: int) -> Hunk:
        """The same run, so many lines further down in each text."""
        return self._replace(old_start=self.old_start + old, new_start=self.new_start + new)


class _Comparison(NamedTuple):
    """The stretch of two texts that contains all differences, and the changes in it.

    ``first``: the number of lines before the stretch; ``start``: its offset in bytes. The lines of
    the changes count from there.
    """

    first: int
    start: int
    old: list[bytes]
    new: list[bytes]
    changes: list[Hunk]

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of added and removed lines."""
        added = sum(each.new_lines for each in self.changes)
        return added, sum(each.old_lines for each in self.changes)


def _lines_of(data: bytes) -> list[bytes]:
    return io.BytesIO(data).readlines()


def count_lines(before: bytes | None, after: bytes | None) -> tuple[int, int]:
    """The numbers of added and removed lines between two contents (None: no file)."""
    before, after = before or b"", after or b""
    if before == after or is_binary(before) or is_binary(after):
        return 0, 0
    return _compared(before, after).counts


class LineComparison(NamedTuple):
    """The changed lines of a file; ``text``: the removed and added lines without signs."""

    hunks: tuple[Hunk, ...]
    added: int
    removed: int
    text: str


def compare_lines(before: bytes | None, after: bytes | None) -> LineComparison:
    """Compare two contents of a file by lines (None: no file).

    In the hunks a lone ``\\r`` ends a line, too, as everywhere else in the daemon. A binary file is
    one hunk.
    """
    before, after = before or b"", after or b""
    if is_binary(before) or is_binary(after):
        old, new = (len(_lines_of(_LONE_RETURN.sub(b"\n", data))) for data in (before, after))
        return LineComparison((Hunk(0, old, 0, new),), 0, 0, "")
    if before == after:
        return LineComparison((), 0, 0, "")
    found = _compared(before, after)
    changed: list[bytes] = []
    for each in found.changes:
        changed += found.old[each.old_start : each.old_start + each.old_lines]
        changed += found.new[each.new_start : each.new_start + each.new_lines]
    text = "\n".join(line.removesuffix(b"\n").decode("utf-8", "replace") for line in changed)
    # The \x01 keeps a line that ends in a lone \r apart from one that ends in \r\n.
    one, two = (_LONE_RETURN.sub(b"\r\x01\n", data) for data in (before, after))
    fine = found if (one, two) == (before, after) else _compared(one, two)
    hunks = tuple(each.below(fine.first, fine.first) for each in fine.changes)
    return LineComparison(hunks, *found.counts, text)


def is_binary(data: bytes) -> bool:
    """Whether Git treats a content as binary."""
    return b"\0" in data[:_LOOKED_AT]


def _compared(before: bytes, after: bytes, context: int = 0) -> _Comparison:
    """Compare two different texts; the stretch has ``context`` lines around the differences."""
    head, old_end, new_end = _differing_range(before, after)
    start = head
    for _ in range(context):
        start = before.rfind(b"\n", 0, max(start - 1, 0)) + 1
    above = _lines_of(before[start:head])
    old, new = _lines_of(before[head:old_end]), _lines_of(after[head:new_end])
    found = _changes(old, new)
    # A single pure removal or addition is in its place; of several changes the last may move down.
    several = len(found) > 1
    tail = _offset_below(before, old_end, context + (_MOST_MOVED if several else 0))
    below = _lines_of(before[old_end:tail])
    changes = [each.below(len(above), len(above)) for each in found]
    old, new = above + old + below, above + new + below
    if several:
        kept = context if tail < len(before) else 0  # context lines of the last hunk
        changes = _moved_down(changes, old[: len(old) - kept], new[: len(new) - kept])
    return _Comparison(before.count(b"\n", 0, start), start, old, new, changes)


def _differing_range(before: bytes, after: bytes) -> tuple[int, int, int]:
    """The offset where the lines that differ begin, and where they end in each text."""
    head = before.rfind(b"\n", 0, Prefix.similarity(before, after)) + 1
    same = min(Postfix.similarity(before, after), min(len(before), len(after)) - head)
    old_end, new_end = len(before) - same, len(after) - same
    if {before[old_end - 1 : old_end], after[new_end - 1 : new_end]} - {b"", b"\n"}:
        same = len(before) - _offset_below(before, old_end, 1)
    return head, len(before) - same, len(after) - same


def _offset_below(data: bytes, at: int, lines: int) -> int:
    for _ in range(lines):
        at = data.find(b"\n", at) + 1 or len(data)
    return at


def _changes(old: list[bytes], new: list[bytes]) -> list[Hunk]:
    """The shortest list of changes; of very many lines a short one."""
    if set(old).isdisjoint(new):
        return [Hunk(0, len(old), 0, len(new))]
    if len(old) * len(new) > _MOST_PAIRS:
        return _changes_of_many(old, new)
    numbers: dict[bytes, int] = {}
    one, two = ([numbers.setdefault(line, len(numbers)) for line in lines] for lines in (old, new))
    # Backwards: of several shortest lists this mostly gives the one that Git chooses.
    same = LCSseq.editops(one[::-1], two[::-1]).as_matching_blocks()
    changes: list[Hunk] = []
    i = j = 0
    for block in reversed(same):
        i_end, j_end = len(one) - block.a - block.size, len(two) - block.b - block.size
        if (i, j) != (i_end, j_end):
            changes.append(Hunk(i, i_end - i, j, j_end - j))
        i, j = i_end + block.size, j_end + block.size
    if (i, j) != (len(one), len(two)):
        changes.append(Hunk(i, len(one) - i, j, len(two) - j))
    return changes


def _changes_of_many(old: list[bytes], new: list[bytes]) -> list[Hunk]:
    """A short list: the changes between lines that both texts have once and in the same order."""
    counts, places = Counter(old + new), dict(zip(new, range(len(new)), strict=True))
    step = len(old) // isqrt(_MOST_PAIRS) * 2 + 1  # odd, because few files repeat in such steps
    once = [at for at in range(0, len(old), step) if counts[old[at]] == 2 and old[at] in places]
    order = [places[old[at]] for at in once]
    same = LCSseq.editops(order, sorted(order)).as_matching_blocks()
    anchors = [(once[k], order[k]) for block in same for k in range(block.a, block.a + block.size)]
    changes: list[Hunk] = []
    i = j = 0
    for i_end, j_end in [*anchors, (len(old), len(new))]:
        one, two = old[i:i_end], new[j:j_end]
        if one != two:
            few = len(one) * len(two) <= _MOST_PAIRS
            found = _changes(one, two) if few else [Hunk(0, len(one), 0, len(two))]
            changes += [each.below(i, j) for each in found]
        i, j = i_end + 1, j_end + 1
    return changes


def _moved_down(changes: list[Hunk], old: list[bytes], new: list[bytes]) -> list[Hunk]:
    """Move pure removals and additions down as far as possible, as Git does. A change that they
    reach is joined with them.
    """
    moved: list[Hunk] = []
    for change in reversed(changes):
        while not (change.old_lines and change.new_lines):
            lines, at = (old, change.old_start) if change.old_lines else (new, change.new_start)
            size = change.old_lines or change.new_lines
            end = (moved[-1].old_start if moved else len(old)) - change.old_start - change.old_lines
            step = 0
            while step < end and lines[at + step] == lines[at + step + size]:
                step += 1
            change = change.below(step, step)
            if step < end or not moved:
                break
            met = moved.pop()
            removed, added = change.old_lines + met.old_lines, change.new_lines + met.new_lines
            change = change._replace(old_lines=removed, new_lines=added)
        moved.append(change)
    return moved[::-1]


# -- hunks


def unified_hunks(before: bytes, after: bytes) -> tuple[bytes, tuple[int, int]]:
    """The hunks of the unified diff of two texts, from the first ``@@`` on; and the numbers of
    added and removed lines.
    """
    if before == after:
        return b"", (0, 0)
    found = _compared(before, after, _CONTEXT)
    first, offset, old, new, changes = found
    pieces: list[bytes] = []
    heading, searched, reached = b"", 0, 0
    for group in _grouped(changes):
        above = min(_CONTEXT, group[0].old_start)
        start, new_start = group[0].old_start - above, group[0].new_start - above
        last = group[-1]
        old_end, new_end = last.old_start + last.old_lines, last.new_start + last.new_lines
        below = min(_CONTEXT, len(old) - old_end)
        offset += sum(map(len, old[reached:start]))
        reached = start
        heading = _heading(before, searched, offset) or heading
        searched = offset
        ranges = (
            _range(first + start, old_end + below - start),
            _range(first + new_start, new_end + below - new_start),
        )
        pieces.append(_header(b" +".join(ranges), heading))
        at = start
        for change in group:
            _write(pieces, b" ", old[at : change.old_start])
            at = change.old_start + change.old_lines
            _write(pieces, b"-", old[change.old_start : at])
            _write(pieces, b"+", new[change.new_start : change.new_start + change.new_lines])
        _write(pieces, b" ", old[at : at + below])
    return b"".join(pieces), found.counts


def _write(pieces: list[bytes], sign: bytes, lines: Sequence[bytes]) -> None:
    pieces += [sign + line for line in lines]
    if lines and not lines[-1].endswith(b"\n"):
        pieces.append(_NO_NEWLINE)


def _grouped(changes: Sequence[Hunk]) -> Iterator[list[Hunk]]:
    """Group changes whose context lines touch into hunks."""
    group = [changes[0]]
    for change in changes[1:]:
        if change.old_start - group[-1].old_start - group[-1].old_lines > 2 * _CONTEXT:
            yield group
            group = []
        group.append(change)
    yield group


def _range(first: int, count: int) -> bytes:
    return b"%d" % (first + 1) if count == 1 else b"%d,%d" % (first + bool(count), count)


def _header(ranges: bytes, heading: bytes) -> bytes:
    header = b"@@ -" + ranges + b" @@" + (b" " + heading if heading else b"")
    try:
        header.decode()
    except UnicodeDecodeError as error:
        header = header[: error.start]
    return header + b"\n"


def _heading(data: bytes, begin: int, end: int) -> bytes:
    """The last line in a stretch that begins like a definition, for the hunk's header."""
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
