"""Who wrote each line of a file. Pure; where versions and hunks come from is the caller's.

The lines of a version are followed back, commit by commit: what a commit did not change goes on
to the version before it, under the name that the file had then; what it added is its own. With
one exception: a commit that takes others back, restores a file, or finds one as it was before,
writes nothing itself. Its lines were in an older version (a *source*) and are followed from there,
so that a line which was deleted and brought back belongs to whoever wrote it first.

A version of a file is the file at ``path`` as the first ``n`` commits left it. All routes go to
smaller numbers, and the largest number is always dealt with next, so routes that meet are followed
as one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from stetd.history.line_diffs import Hunk


class FileVersion(NamedTuple):
    """The file at ``path`` as the first ``n`` commits left it."""

    n: int
    path: str


class Step(msgspec.Struct, frozen=True):
    """What the commit that made a version did to the file.

    ``before``: the version that ``hunks`` are against; None if the commit created the file.
    ``sources``: older versions where the lines that it brought back may have been, best first.
    """

    hunks: Sequence[Hunk]
    before: FileVersion | None
    sources: Sequence[FileVersion] = ()


class Versions(Protocol):
    """The versions of files."""

    def made(self, version: FileVersion) -> FileVersion | None:
        """The same version, named by the commit that made it; None where the history has none."""

    def step(self, version: FileVersion) -> Step:
        """What the commit that made a version did."""

    def compare(self, old: FileVersion, new: FileVersion) -> Sequence[Hunk]:
        """What differs between two versions; all lines, if there is no old one."""


class Run(NamedTuple):
    """Lines ``line`` to ``line + length - 1`` (counted from 0) were written by commit ``n``."""

    line: int
    length: int
    n: int | None


class Piece(NamedTuple):
    """Lines of the blamed file, from ``line`` on: those of some version from ``its_line`` on."""

    line: int
    its_line: int
    length: int


def blame(pieces: Sequence[Piece], start: FileVersion, versions: Versions) -> list[Run]:
    """Who wrote these lines of a version, in order; None: they are older than all."""
    found: list[Run] = []
    waiting: dict[FileVersion, list[Piece]] = {}
    order: list[tuple[int, FileVersion]] = []

    def follow(version: FileVersion, more: Sequence[Piece]) -> None:
        made = versions.made(version) if more else None
        if made is None:
            found.extend(Run(piece.line, piece.length, None) for piece in more)
        elif made in waiting:
            waiting[made].extend(more)
        else:
            waiting[made] = list(more)
            heapq.heappush(order, (-made.n, made))

    follow(start, pieces)
    while order:
        _, version = heapq.heappop(order)
        step = versions.step(version)
        kept, added = split_by_hunks(waiting.pop(version), step.hunks)
        if step.before is None:
            added += kept
        else:
            follow(step.before, kept)
        for source in step.sources:
            if added:
                brought_back, added = split_by_hunks(added, versions.compare(source, version))
                follow(source, brought_back)
        found += [Run(piece.line, piece.length, version.n) for piece in added]
    return joined_runs(found)


def split_by_hunks(
    pieces: Sequence[Piece], hunks: Sequence[Hunk]
) -> tuple[list[Piece], list[Piece]]:
    """Split pieces of a newer version: the lines that the older one has, as pieces of that one; and
    those that the newer one added. Hunks must be in order.
    """
    kept: list[Piece] = []
    added: list[Piece] = []
    at = shift = reached = 0
    for line, its_line, left in pieces:
        if its_line < reached:  # routes that met: their pieces may even be of the same lines
            at = shift = 0
        reached = its_line + left
        while left:
            while at < len(hunks) and hunks[at].new_start + hunks[at].new_lines <= its_line:
                hunk = hunks[at]
                shift = hunk.old_start + hunk.old_lines - hunk.new_start - hunk.new_lines
                at += 1
            inside, length = False, left
            if at < len(hunks):
                hunk = hunks[at]
                inside = hunk.new_start <= its_line
                end = hunk.new_start + (hunk.new_lines if inside else 0)
                length = min(left, end - its_line)
            if inside:
                added.append(Piece(line, its_line, length))
            else:
                kept.append(Piece(line, its_line + shift, length))
            line, its_line, left = line + length, its_line + length, left - length
    return kept, added


def joined_runs(runs: Sequence[Run]) -> list[Run]:
    """Runs in the order of their lines, neighbours of one commit as one."""
    result: list[Run] = []
    for run in sorted(runs):
        last = result[-1] if result else None
        if last is not None and last.n == run.n and last.line + last.length == run.line:
            result[-1] = Run(last.line, last.length + run.length, run.n)
        else:
            result.append(run)
    return result
