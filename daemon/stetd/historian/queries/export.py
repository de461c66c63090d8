"""Exporting edits: as an mbox for ``git am``, as one combined diff, as JSON lines.

Selected are the commits of a range that pass the filters; recorded outside edits and snapshots
only if a filter asks for them. A patch is made on what stood there before, so what others did to
the same files *between* two selected commits has to be part of a series that applies. It is put
in as commits of its own, with their own authors and marked (``Stet-Context``), restricted to the
files that are concerned; or with ``outside: false`` becomes part of the next selected commit.
What stood there before the first selected commit of a file is what the series is made on: the
user's own files.

Everything yields between small steps. Nothing is kept between two pages: each begins with a look
at the whole range, which says for each path in which commits it is touched first and last.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import ExportResult, ShowResult
from stetd import __version__
from stetd.historian.queries.commit_changes import trees_around
from stetd.historian.queries.commit_lookup import Found, Known, Past
from stetd.historian.queries.files import looking_back
from stetd.historian.queries.log import seconds, show_found
from stetd.history.commit_rows import Wanted, meets
from stetd.history.commits import StoredCommit
from stetd.history.git_patch import FileState, file_patch
from stetd.history.line_diffs import unified_hunks
from stetd.history.mailbox import message
from stetd.history.undoing import FOUND
from stetd.planning.file_reading import canonical
from stetd.repository.stored_objects import StoredObjects
from stetd.state.reading_place import Place
from stetd.transaction.parameters import Export

#: A page ends with the commit that makes it so large. Characters.
_PAGE = 4 << 20
#: The most that one diff may have: an answer is made, sent and read in memory.
_LARGEST = 64 << 20
_DEFAULT_LIMIT = 500
_CURSOR = re.compile(r"([0-9a-f]{40})\.([0-9a-f]{40})")


class Order(msgspec.Struct, frozen=True):
    """What is to be exported; commits and paths are resolved already."""

    format: str
    after: str | None
    to: str
    wanted: Wanted
    paths: tuple[str, ...] = ()
    context: bool = True
    limit: int = _DEFAULT_LIMIT
    #: The last commit of the page before.
    cursor: str | None = None

    def concerns(self, path: str) -> bool:
        """Whether this path is asked for."""
        return not self.paths or any(
            not asked or path == asked or path.startswith(asked + "/") for asked in self.paths
        )

    def selects(self, commit: StoredCommit) -> bool:
        """Whether a commit passes the filters, but for the paths."""
        found = commit.meta.kind in FOUND and self.wanted.kind is None
        return not found and meets(commit.meta, self.wanted)


def exported(place: Place, wanted: Export) -> ExportResult:
    """A page of an export. Raises Refused, MissingObject."""
    order = _ordered(place, wanted)
    if order is None:
        return ExportResult(format=wanted.format, content="", commits=0)
    return export(place.shadow, place.head, order)


def _ordered(place: Place, wanted: Export) -> Order | None:
    """What is asked for, with full ids and paths; None where there is no history at all."""
    if place.head is None and wanted.from_ is None and wanted.to is None:
        return None
    to, cursor = parse_cursor(wanted.cursor) if wanted.cursor is not None else (wanted.to, None)
    filters = Wanted(
        session=wanted.session,
        agent=wanted.agent,
        method=wanted.method,
        kind=wanted.kind,
        since=seconds(wanted.since, "since"),
        until=seconds(wanted.until, "until"),
    )
    paths = tuple(canonical(place, path) for path in wanted.paths or ())

    def resolve(past: Past) -> Order:
        more = {} if wanted.limit is None else {"limit": wanted.limit}
        return Order(
            format=wanted.format,
            after=None if wanted.from_ is None else past.resolve(wanted.from_),
            to=past.resolve(to or "HEAD"),
            wanted=filters,
            paths=paths,
            context=wanted.outside,
            cursor=cursor,
            **more,
        )

    return looking_back(place, resolve)


def parse_cursor(cursor: str) -> tuple[str, str]:
    """The end of the range and the last commit of the page. Raises Refused."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise _bad_cursor(cursor)
    return found[1], found[2]


def _bad_cursor(cursor: str) -> Refused:
    return refuse(
        Kind.INVALID_PARAMS,
        f"cursor {cursor!r} is not from an export of this workspace; start again without a cursor",
    )


def export(shadow: str, head: str | None, order: Order) -> ExportResult:
    """A page of an export. Raises Refused, MissingObject."""
    repository = StoredObjects(shadow)
    try:
        return _export(Past(repository, head), order)
    finally:
        repository.close()


def _export(past: Past, order: Order) -> ExportResult:
    plan = _Plan(order)
    plan.make(past)
    if order.format == "diff":
        return _combined(past.repository, plan)
    if order.format == "jsonl":
        return _json_lines(past, plan)
    return _mbox(past.repository, plan)


class _Touch(NamedTuple):
    """The selected commits of a path, by their distance from the newest; and its ends."""

    last: int
    first: int
    before: Known
    after: Known


@dataclass
class _Plan:
    """The range: its commits, newest first, and what the selected ones touch."""

    order: Order
    oids: list[bytes] = field(default_factory=list)
    selected: array[int] = field(default_factory=lambda: array("B"))
    undone_by: dict[int, str] = field(default_factory=dict)
    touches: dict[str, _Touch] = field(default_factory=dict)
    #: The distance of the first commit of this page, and of those before it.
    start: int = 0

    def make(self, past: Past) -> None:
        order, started = self.order, False
        ended = order.after is None
        resume: int | None = None
        for found in past.standing():
            commit = found.commit
            started = started or commit.oid == order.to
            if commit.oid == order.after:
                ended = True
                break
            if not started:
                continue
            if commit.oid == order.cursor:
                resume = len(self.oids)
            self._add(past.repository, found)
        if not started or not ended:
            raise refuse(
                Kind.INVALID_PARAMS,
                f"export: {order.after or order.to} is not before {order.to} in the history; "
                "from is the older one",
            )
        if order.cursor is not None and resume is None:
            raise _bad_cursor(f"{order.to}.{order.cursor}")
        self.start = len(self.oids) if resume is None else resume

    def _add(self, repository: StoredObjects, found: Found) -> None:
        at, commit = len(self.oids), found.commit
        selected = self.order.selects(commit)
        self.oids.append(bytes.fromhex(commit.oid))
        touched = False
        for path, before, after in self.changes(repository, commit) if selected else ():
            touched = True
            newer = self.touches.get(path)
            last, end = (at, after) if newer is None else (newer.last, newer.after)
            self.touches[path] = _Touch(last, at, before, end)
        # One that changes no file passes unless files are asked for; it is left out later.
        selected = selected and (touched or not self.order.paths)
        self.selected.append(selected)
        if selected and found.undone_by is not None:
            self.undone_by[at] = found.undone_by

    def changes(
        self, repository: StoredObjects, commit: StoredCommit
    ) -> Iterator[tuple[str, Known, Known]]:
        """What a commit did to the paths that are asked for."""
        trees = trees_around(repository, commit)
        for path, before, after in repository.trees.changed(*trees):
            if self.order.concerns(path):
                yield path, before, after

    def series(
        self, repository: StoredObjects
    ) -> Iterator[tuple[int, StoredCommit, list[tuple[str, Known, Known]]]]:
        """All commits, oldest first, each with what it does to files of the series."""
        now: dict[str, Known] = {}
        for at in range(len(self.oids) - 1, -1, -1):
            selected = self.selected[at]
            commit = repository.commit(self.oids[at].hex())
            steps = []
            wanted = selected or self.order.context
            for path, before, after in self.changes(repository, commit) if wanted else ():
                touch = self.touches.get(path)
                if not selected and (touch is None or not touch.last < at < touch.first):
                    continue
                before = now.get(path, before)
                now[path] = after
                if before != after:
                    steps.append((path, before, after))
            yield at, commit, steps

    def cursor(self, at: int) -> str:
        """The cursor after the page that ends with this commit."""
        return f"{self.order.to}.{self.oids[at].hex()}"


def _mbox(repository: StoredObjects, plan: _Plan) -> ExportResult:
    messages: list[str] = []
    size = context = skipped = 0
    last: int | None = None
    for at, commit, steps in plan.series(repository):
        if at >= plan.start or not (steps or plan.selected[at]):
            continue
        if last is not None and (size >= _PAGE or len(messages) >= plan.order.limit):
            return ExportResult(
                format="mbox", content="".join(messages), commits=len(messages), context=context,
                skipped=skipped, cursor=plan.cursor(last),
            )  # fmt: skip
        last = at
        patch = b"".join(_patches(repository, steps, commit.meta.moves, utf8=False))
        if not patch:
            skipped += 1
            continue
        selected = bool(plan.selected[at])
        _check_size(len(patch), f"commit {commit.oid}")
        text = message(
            commit.oid, commit.meta, patch, context=not selected, version=__version__
        )  # fmt: skip
        messages.append(text)
        size += len(text)
        context += not selected
    return ExportResult(
        format="mbox", content="".join(messages), commits=len(messages), context=context,
        skipped=skipped,
    )  # fmt: skip


def _combined(repository: StoredObjects, plan: _Plan) -> ExportResult:
    steps = [
        (path, touch.before, touch.after)
        for path, touch in sorted(plan.touches.items())
        if touch.before != touch.after
    ]
    pieces: list[bytes] = []
    size = 0
    for piece in _patches(repository, steps, (), utf8=True):
        pieces.append(piece)
        size += len(piece)
        _check_size(size, "the diff")
    content = b"".join(pieces).decode()
    return ExportResult(format="diff", content=content, commits=sum(plan.selected))


def _check_size(size: int, what: str) -> None:
    if size > _LARGEST:
        raise refuse(
            Kind.FILE_TOO_LARGE,
            f"export: {what} has more than {_LARGEST >> 20} MiB, which is too much for one answer. "
            "Narrow it with paths, a session, or from and to; or use plain git on the shadow "
            "repository.",
        )


def _json_lines(past: Past, plan: _Plan) -> ExportResult:
    lines: list[str] = []
    size = 0
    for at in range(plan.start - 1, -1, -1):
        if not plan.selected[at]:
            continue
        commit = past.repository.commit(plan.oids[at].hex())
        shown: ShowResult = show_found(past, Found(commit, plan.undone_by.get(at)))
        line = msgspec.json.encode(shown).decode() + "\n"
        _check_size(len(line), f"commit {commit.oid}")
        lines.append(line)
        size += len(line)
        if (size >= _PAGE or len(lines) >= plan.order.limit) and any(plan.selected[:at]):
            cursor = plan.cursor(at)
            return ExportResult(
                format="jsonl", content="".join(lines), commits=len(lines), cursor=cursor
            )
    return ExportResult(format="jsonl", content="".join(lines), commits=len(lines))


# -- patches of several files


def _patches(
    repository: StoredObjects,
    steps: list[tuple[str, Known, Known]],
    moves: tuple[tuple[str, str], ...],
    *,
    utf8: bool,
) -> Iterator[bytes]:
    """The patch of each file; a file that was moved is told as renamed."""
    origins = _renames(steps, moves)
    gone = set(origins.values())
    before_of = {path: before for path, before, _ in steps}

    def state(known: Known) -> FileState | None:
        return FileState(*known, repository.blob(known[1])) if known else None

    for path, before, after in steps:
        if path in gone:
            continue
        old_path = origins.get(path)
        if old_path is not None:
            before = before_of[old_path]
        yield file_patch(
            path, state(before), state(after), unified_hunks, old_path=old_path, utf8=utf8
        )


def _renames(
    steps: list[tuple[str, Known, Known]], moves: tuple[tuple[str, str], ...]
) -> dict[str, str]:
    """New path to old, of files that the commit says it moved, or that are the same elsewhere."""
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
