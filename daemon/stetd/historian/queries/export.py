"""Exporting edits: as an mbox for ``git am``, as one combined diff, as JSON lines.

The commits of a range that pass the filters are selected; recorded outside edits and snapshots only
if a filter asks for them. Between two selected commits others may have changed the same files, and
without these changes the patches would not apply. So they are added as commits of their own, with
their own authors, marked (``Stet-Context``), and restricted to the files of the series. With
``outside: false`` they become part of the next selected commit. The series begins with the content
before a file's first selected commit.

Nothing is kept between two pages: each page of patches begins with a walk over the whole range,
which finds the first and the last selected commit of each path.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from stet.wire.failures import Refused
from stet.wire.results import ExportResult
from stetd import __version__
from stetd.editing.paths import files_above
from stetd.historian.index.history_index import CommitFilter
from stetd.historian.queries.commit_changes import check_size, state_of
from stetd.historian.queries.commit_lookup import CommitLookup, with_lookup
from stetd.historian.queries.files import concerns
from stetd.historian.queries.log import filters, show_found
from stetd.history.commits import StoredCommit
from stetd.history.git_patch import file_patch
from stetd.history.mailbox import message
from stetd.history.objects import Change
from stetd.history.undone import FOUND
from stetd.parameters import Export, invalid
from stetd.repository.stored_objects import StoredObjects
from stetd.state.read_view import ReadView

#: A page ends with the present commit after so many characters, and after so many seconds of making
#: it: a client waits two minutes.
_PAGE, _PAGE_S = 4 << 20, 30.0
#: Many, because each page of patches walks the whole range.
_DEFAULT_LIMIT = 5_000
_CURSOR = re.compile(r"([0-9a-f]{40})\.([0-9a-f]{40})")


def exported(view: ReadView, asked: Export) -> ExportResult:
    """A page of an export. Raises Refused, MissingObject."""
    if view.head is None and asked.from_ is None and asked.to is None:
        return ExportResult(format=asked.format, content="", commits=0)
    to, cursor = "HEAD" if asked.to is None else asked.to, None
    if asked.cursor is not None:
        page = _CURSOR.fullmatch(asked.cursor)
        if page is None:
            raise _bad_cursor(asked.cursor)
        to, cursor = page.groups()
    wanted = filters(asked)
    paths = view.possible_paths(asked.paths or ())

    def run(lookup: CommitLookup) -> ExportResult:
        plan = _Plan(lookup, asked, wanted, paths, to, cursor)
        if asked.format == "jsonl":
            return _json_lines(plan)
        plan.look_ahead()
        return _combined(plan) if asked.format == "diff" else _mbox(plan)

    return with_lookup(view, run)


def _bad_cursor(cursor: str) -> Refused:
    return invalid(
        f"cursor {cursor!r} is not from an export of this workspace; start again without a cursor",
    )


class _Touch(NamedTuple):
    """The last and the first selected commit of a path, and the file before and after them."""

    last: int
    first: int
    before: Change
    after: Change


class _Plan:
    """The range: its commits by their numbers, and what the selected ones touch.

    ``to``: the newest commit; ``cursor``: the last one of the page before.
    """

    def __init__(
        self,
        lookup: CommitLookup,
        asked: Export,
        wanted: CommitFilter,
        paths: Sequence[str],
        to: str,
        cursor: str | None,
    ) -> None:
        self.lookup = lookup
        self.limit = asked.limit or _DEFAULT_LIMIT
        self._wanted, self._paths, self._with_context = wanted, paths, asked.outside
        after = None if asked.from_ is None else lookup.resolve(asked.from_)
        self.to = to = lookup.resolve(to)
        first = 0 if after is None else lookup.number(after)
        last = lookup.number(to)
        if first is None or last is None or first > last:
            raise invalid(
                f"export: {after or to} is not before {to} in the history; from is the older one",
            )
        self.first, self.last = first + 1, last
        #: The last commit of the earlier pages.
        self.done = first if cursor is None else lookup.number(cursor) or 0
        if cursor is not None and not first < self.done <= last:
            raise _bad_cursor(f"{to}.{cursor}")
        self.selected: set[int] = set()
        self.touches: dict[str, _Touch] = {}
        #: Groups of paths (a file, and files below its name), by each of their paths.
        self._joined: dict[str, list[str]] = {}

    def ends(self, began: float, size: int, commits: int) -> bool:
        """Whether a page ends that was begun then, and has so many characters and commits."""
        seconds = time.monotonic() - began
        return size >= _PAGE or commits >= self.limit or seconds > _PAGE_S

    def selects(self, commit: StoredCommit) -> bool:
        """Whether a commit passes the filters; one without changes, if no files are asked for."""
        found = commit.meta.kind in FOUND and self._wanted.kind is None
        passes = not found and self._wanted.matches(commit.meta)
        return passes and (not self._paths or any(self.changes(commit)))

    def look_ahead(self) -> None:
        """Find the selected commits of the whole range, and what they touch."""
        walk = self.lookup.repository.walk(self.to)
        for n, commit in zip(range(self.last, self.first - 1, -1), walk, strict=False):
            if self.selects(commit):
                self.selected.add(n)
                for path, before, after in self.changes(commit):
                    newer = self.touches.get(path)
                    last, end = (n, after) if newer is None else (newer.last, newer.after)
                    self.touches[path] = _Touch(last, n, before, end)
        self._join_ranges()

    def _join_ranges(self) -> None:
        """Give a file and the files below its name one range: they exclude each other."""
        tops: dict[str, str] = {}
        for path, above in files_above(self.touches):
            tops.setdefault(path, above)
        groups: dict[str, list[str]] = {top: [top] for top in tops.values()}
        for path, top in tops.items():
            groups[top].append(path)
        for paths in groups.values():
            touches = [self.touches[path] for path in paths]
            first, last = min(t.first for t in touches), max(t.last for t in touches)
            before, after = self.lookup.commit(first).parent, self.lookup.oid(last)
            entry = self.lookup.entry
            for path in paths:
                ends = entry(before, path), entry(after, path)
                self.touches[path] = _Touch(last, first, *ends)
                self._joined[path] = paths

    def changes(self, commit: StoredCommit) -> Iterator[tuple[str, Change, Change]]:
        """A commit's changes of the paths that are asked for."""
        for path, before, after in self.lookup.tree_changes(commit):
            if concerns(self._paths, path):
                yield path, before, after

    def series(self) -> Iterator[tuple[int, StoredCommit, list[tuple[str, Change, Change]]]]:
        """All commits, oldest first, each with its changes of files in the series."""
        now: dict[str, Change] = {}
        for n in range(self.first, self.last + 1):
            selected = n in self.selected
            commit = self.lookup.commit(n)
            steps = []
            changed: dict[str, Change] = {}
            if selected or self._with_context:
                changed = {path: after for path, _, after in self.changes(commit)}
            if not self._with_context:  # what others did to make room for these is part of it
                joined = {each for path in changed for each in self._joined.get(path, ())}
                changed |= {each: self.lookup.entry(commit.oid, each) for each in sorted(joined)}
            for path, after in changed.items():
                touch = self.touches.get(path)
                if touch is None or not (selected or touch.first < n < touch.last):
                    continue
                before = now.get(path, touch.before)
                now[path] = after
                if before != after:
                    steps.append((path, before, after))
            yield n, commit, steps


def _mbox(plan: _Plan) -> ExportResult:
    messages: list[str] = []
    size = context = skipped = 0
    began = 0.0
    last = cursor = None
    for n, commit, steps in plan.series():
        if n <= plan.done or not (steps or n in plan.selected):
            continue
        if last is None:
            began = time.monotonic()
        elif plan.ends(began, size, len(messages)):
            cursor = f"{plan.to}.{last}"
            break
        last = commit.oid
        patch = b"".join(_patches(plan.lookup.repository, steps, commit.meta.moves, utf8=False))
        if not patch:
            skipped += 1
            continue
        selected = n in plan.selected
        check_size(len(patch), f"commit {commit.oid}")
        text = message(commit.oid, commit.meta, patch, context=not selected, version=__version__)
        messages.append(text)
        size += len(text)
        context += not selected
    return ExportResult(
        format="mbox", content="".join(messages), commits=len(messages), context=context,
        skipped=skipped, cursor=cursor,
    )  # fmt: skip


def _combined(plan: _Plan) -> ExportResult:
    steps = [
        (path, touch.before, touch.after)
        for path, touch in sorted(plan.touches.items())
        if touch.before != touch.after
    ]
    pieces: list[bytes] = []
    size = 0
    for piece in _patches(plan.lookup.repository, steps, (), utf8=True):
        pieces.append(piece)
        size += len(piece)
        check_size(size, "the diff")
    content = b"".join(pieces).decode()
    return ExportResult(format="diff", content=content, commits=len(plan.selected))


def _json_lines(plan: _Plan) -> ExportResult:
    lines: list[str] = []
    size, began = 0, time.monotonic()
    last = cursor = None
    for n in range(plan.done + 1, plan.last + 1):
        commit = plan.lookup.commit(n)
        if not plan.selects(commit):
            continue
        if last is not None and plan.ends(began, size, len(lines)):
            cursor = f"{plan.to}.{last}"
            break
        last = commit.oid
        line = msgspec.json.encode(show_found(plan.lookup, plan.lookup.found(n))).decode() + "\n"
        check_size(len(line), f"commit {last}")
        lines.append(line)
        size += len(line)
    return ExportResult(format="jsonl", content="".join(lines), commits=len(lines), cursor=cursor)


# -- patches of several files


def _patches(
    repository: StoredObjects,
    steps: list[tuple[str, Change, Change]],
    moves: tuple[tuple[str, str], ...],
    *,
    utf8: bool,
) -> Iterator[bytes]:
    """The patch of each file; a moved file is a rename."""
    origins = _renames(steps, moves)
    gone = set(origins.values())
    before_of = {path: before for path, before, _ in steps}

    for path, _, after in steps:
        if path in gone:
            continue
        yield file_patch(
            path,
            state_of(repository.blob, before_of[origins.get(path, path)]),
            state_of(repository.blob, after),
            old_path=origins.get(path),
            utf8=utf8,
        )


def _renames(
    steps: list[tuple[str, Change, Change]], moves: tuple[tuple[str, str], ...]
) -> dict[str, str]:
    """Old paths by new ones, of files that a commit moved or that have equal content."""
    gone = {path: before for path, before, after in steps if before and after is None}
    made = {path: after for path, before, after in steps if before is None and after}
    origins: dict[str, str] = {}
    for old, new in moves:
        if old in gone and new in made and new not in origins:
            origins[new] = old
            del gone[old]
    by_id = {known: path for path, known in sorted(gone.items(), reverse=True)}
    for path, known in sorted(made.items()):
        if path not in origins and known in by_id:
            origins[path] = by_id.pop(known)
    return origins
