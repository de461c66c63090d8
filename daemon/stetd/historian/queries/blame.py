"""Reading who wrote each line of a file. Runs beside the writer.

The rule is pure (:mod:`stetd.history.blaming`); here its versions come from the query index, and
their hunks with them: nothing is compared but what the index has not compared yet, and what
brought lines back. Without an index a small one is made for the one question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stet.wire.failures import Kind, refuse
from stet.wire.results import BlameLines, BlameResult
from stetd.editing.text import looks_binary
from stetd.historian.index.writer import GrowingIndex
from stetd.historian.queries.commit_changes import PathChange, changes_of, commit_row, uncompared
from stetd.historian.queries.commit_lookup import Past, unknown_commit
from stetd.historian.queries.files import looking_back, no_such_file_at
from stetd.historian.queries.indexed_lookup import IndexedPast
from stetd.historian.queries.numbered_history import NumberedHistory
from stetd.history.blaming import Piece, Place, Run, Step, blame, joined, split
from stetd.history.commit_rows import CommitRow, FileRow, Hunk, Part
from stetd.history.commits import StoredCommit, rfc3339
from stetd.history.line_diffs import compare_lines
from stetd.history.undoing import TAKES_BACK
from stetd.planning.file_reading import canonical, content_now
from stetd.repository.stored_objects import StoredObjects
from stetd.state.reading_place import Place as Workspace
from stetd.transaction.parameters import Blame

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_BOM = "\ufeff"
_ID = 20


def blame_file(workspace: Workspace, params: Blame) -> BlameResult:
    """Who wrote each line of a file, as it stands now or was right after a commit."""
    now = content_now(workspace, params.path) if params.at is None else None
    path = now[0] if now is not None else canonical(workspace, params.path)
    data = now[1] if now is not None else None
    return looking_back(workspace, lambda past: _blame(past, params, path, data))


def _blame(past: Past, params: Blame, path: str, data: bytes | None) -> BlameResult:
    if isinstance(past, IndexedPast):
        return _blamed(past, params, path, data)
    index = _index_of_one_file(past.repository, past.head, path)
    try:
        return _blamed(IndexedPast(past.repository, past.head, index), params, path, data)
    finally:
        index.close()


def _blamed(past: IndexedPast, params: Blame, path: str, now: bytes | None) -> BlameResult:
    numbered = past.numbered
    upto = numbered.count
    if params.at is not None:
        at = past.resolve(params.at)
        found = numbered.number(at)
        if found is None:
            raise unknown_commit(params.at)  # it is another history's
        upto = found
    known = past.file_at(numbered.oid(upto), path) if upto else None
    data = now if params.at is None else known.data if known else None
    if data is None:
        raise no_such_file_at(params.path, numbered.oid(upto))
    if looks_binary(data):
        raise refuse(
            Kind.NOT_TEXT,
            f"{params.path}: this file is binary (a NUL byte at offset {data.index(0)}); it has "
            "no lines to be told apart. `log` with its path lists the commits that changed it.",
            path=params.path,
        )
    lines = _LINE.findall(data)
    whole = [Piece(0, 0, len(lines))] if lines else []
    hunks = () if known is None else compare_lines(known.data, data).hunks
    kept, saved = split(whole, hunks) if known else ([], whole)
    runs = blame(kept, Place(upto, path), _Versions(numbered, past.repository))
    runs = joined([*runs, *(Run(piece.line, piece.length, None) for piece in saved)])
    return BlameResult(path=path, lines=_told(numbered, runs, lines))


def _told(
    numbered: NumberedHistory, runs: Sequence[Run], lines: Sequence[bytes]
) -> list[BlameLines]:
    commits: dict[int, StoredCommit] = {}
    told = []
    for run in runs:
        text = b"".join(lines[run.line : run.line + run.length]).decode("utf-8", "replace")
        text = text.removeprefix(_BOM) if run.line == 0 else text
        line = run.line + 1
        if run.n is None:
            told.append(BlameLines(line=line, count=run.length, text=text))
            continue
        if run.n not in commits:
            commits[run.n] = numbered.commit(run.n)
        meta = commits[run.n].meta
        told.append(
            BlameLines(
                line=line,
                count=run.length,
                text=text,
                commit=commits[run.n].oid,
                kind=meta.kind,
                agent=meta.agent,
                session=meta.session,
                time=rfc3339(meta.time),
            )
        )
    return told


class _Versions:
    """The versions of files, for the pure rule."""

    def __init__(self, numbered: NumberedHistory, repository: StoredObjects) -> None:
        self._numbered = numbered
        self._repository = repository
        self._blobs: dict[Place, str | None] = {}
        self._found: dict[Place, tuple[int, FileRow]] = {}

    def step(self, place: Place) -> Step | None:
        found = self._found.pop(place, None) or self._numbered.last_change(place.path, place.n)
        if found is None or found[1].after is None:
            return None
        n, row = found
        if n < place.n:  # asked for again as the version that it is
            self._found[Place(n, place.path)] = found
            return Step(n, (), None)
        hunks = row.hunks if row.hunks is not None else self._compare(row.before, row.after)
        before = None if row.before is None else Place(n - 1, row.old_path or row.path)
        adds = any(hunk.new_lines for hunk in hunks)
        return Step(n, hunks, before, self._sources(n, row) if adds else ())

    def compare(self, old: Place, new: Place) -> Sequence[Hunk]:
        return self._compare(self._blob(old), self._blob(new))

    def _sources(self, n: int, row: FileRow) -> list[Place]:
        """Where the lines may have stood that this commit, if it writes none, brought back."""
        kind = self._numbered.kind(n)
        if kind == "restore" and row.after is not None:
            then = self._numbered.last_with(row.path, row.after, n - 1)
            return [Place(then, row.path)] if then is not None else []
        if kind not in TAKES_BACK:
            return []
        taken = (self._numbered.number(oid) for oid in self._numbered.commit(n).meta.reverts)
        sources: list[Place] = []
        for number in sorted((each for each in taken if each is not None), reverse=True):
            names = self._names(row.path, n, number)
            sources += [
                Place(number - 1, other.old_path or other.path)
                for other in self._numbered.rows(number)
                if other.before is not None and not names.isdisjoint((other.path, other.old_path))
            ]
        return sources

    def _names(self, path: str, upto: int, after: int) -> set[str | None]:
        """The paths that the file had that is at a path now, back to some commit."""
        names: set[str | None] = {path}
        while move := self._numbered.last_move(path, after, upto):
            upto, path = move[0] - 1, move[1]
            names.add(path)
        return names

    def _blob(self, place: Place) -> str | None:
        if place not in self._blobs:
            found = self._numbered.last_change(place.path, place.n)
            self._blobs[place] = found[1].after if found else None
        return self._blobs[place]

    def _compare(self, old: str | None, new: str | None) -> Sequence[Hunk]:
        if old == new:
            return ()
        before, after = (self._repository.blob(oid) if oid else None for oid in (old, new))
        return compare_lines(before, after).hunks


def _index_of_one_file(repository: StoredObjects, head: str | None, path: str) -> GrowingIndex:
    """An index that knows every commit, and of their files those of the one that is asked for."""
    names = {path}
    ids = bytearray()
    touching: set[str] = set()
    past = Past(repository, head)
    for commit in repository.walk(head):
        ids += bytes.fromhex(commit.oid)
        for move in commit.meta.moves:
            if not names.isdisjoint(move):
                names.update(move)
        if any(past.entry(commit.oid, n) != past.entry(commit.parent, n) for n in names):
            touching.add(commit.oid)
    index = GrowingIndex.temporary()
    with index.adding():
        for at in range(len(ids) - _ID, -1, -_ID):
            oid = bytes(ids[at : at + _ID]).hex()
            row, parts = CommitRow(oid=oid, time=0, kind="", subject=""), [Part(())]
            if oid in touching:
                commit = repository.commit(oid)
                row = commit_row(commit)
                changes = [c for c in changes_of(repository, commit) if _concerns(c, names)]
                parts = [Part(tuple(map(uncompared, changes)))]
            for _ in index.add(row, parts):
                pass
    return index


def _concerns(change: PathChange, names: set[str]) -> bool:
    return change.path in names or change.old_path in names
