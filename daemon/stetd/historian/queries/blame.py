"""Blame: who wrote each line of a file.

The rule is pure (:mod:`stetd.history.blaming`). This module gives it the versions and their hunks
from the query index. It compares contents itself only if they were too large for the index, or if a
commit brought lines back.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stet.wire.failures import Kind, refuse
from stet.wire.results import BlameLines, BlameResult
from stetd.editing.text import looks_binary
from stetd.historian.index.history_index import FileRow
from stetd.historian.queries.commit_lookup import CommitLookup, unknown_commit, with_lookup
from stetd.historian.queries.files import known_at
from stetd.history.blaming import FileVersion, Piece, Run, Step, blame, joined_runs, split_by_hunks
from stetd.history.commits import StoredCommit, rfc3339
from stetd.history.line_diffs import Hunk, compare_lines
from stetd.history.undone import TAKES_BACK
from stetd.parameters import Blame
from stetd.planning.file_reading import read_file
from stetd.state.read_view import ReadView
from stetd.storage.priority import yield_processor

_BOM = "\ufeff"
#: An outside change is compared with the contents of so many commits before it. Without a limit,
#: each commit of a file that only grows would be compared with all that came before.
_LONGEST_AWAY = 2_000


def blame_file(view: ReadView, params: Blame) -> BlameResult:
    """Blame a file as it is now, or right after a commit."""
    now = read_file(view, params.path) if params.at is None else None
    return with_lookup(view, lambda lookup: _blamed(lookup, view, params, now))


def _blamed(
    lookup: CommitLookup, view: ReadView, params: Blame, now: tuple[str, bytes, str] | None
) -> BlameResult:
    upto = lookup.count if params.at is None else lookup.number(lookup.resolve(params.at))
    if upto is None:
        raise unknown_commit(str(params.at))  # not part of this history
    if now is not None:
        path, data, _ = now
        known = lookup.file_at(lookup.oid(upto), path) if upto else None
    else:
        path, known = known_at(lookup, view, lookup.oid(upto), params.path)
        data = known.data
    if looks_binary(data):
        raise refuse(
            Kind.NOT_TEXT,
            f"{params.path}: this file is binary (a NUL byte at offset {data.index(0)}); it has "
            "no lines to tell apart. `log` with its path lists the commits that changed it.",
            path=params.path,
        )
    lines = data.splitlines(keepends=True)
    whole = [Piece(0, 0, len(lines))] if lines else []
    hunks = () if known is None else compare_lines(known.data, data).hunks
    kept, saved = split_by_hunks(whole, hunks) if known else ([], whole)
    runs = blame(kept, FileVersion(upto, path), _Versions(lookup))
    runs = joined_runs([*runs, *(Run(piece.line, piece.length, None) for piece in saved)])
    return BlameResult(path=path, lines=_lines_of(lookup, runs, lines))


def _lines_of(
    lookup: CommitLookup, runs: Sequence[Run], lines: Sequence[bytes]
) -> list[BlameLines]:
    commits: dict[int, StoredCommit] = {}
    shown = []
    oldest = next(iter(lookup.cut_off), None)
    for run in runs:
        text = b"".join(lines[run.line : run.line + run.length]).decode("utf-8", "replace")
        text = text.removeprefix(_BOM) if run.line == 0 else text
        written = BlameLines(line=run.line + 1, count=run.length, text=text)
        if run.n is not None:
            commit = commits[run.n] = commits.get(run.n) or lookup.commit(run.n)
            meta = commit.meta
            came_back = meta.kind == "restore" or not all(map(lookup.number, meta.reverts))
            if oldest is not None and (commit.oid == oldest or came_back):
                # The line may be from an earlier, dropped commit.
                written = replace(written, commit=oldest, kind="retention")
            else:
                written = replace(
                    written, commit=commit.oid, kind=meta.kind, agent=meta.agent,
                    session=meta.session, time=rfc3339(meta.time),
                )  # fmt: skip
        shown.append(written)
    return shown


class _Versions:
    """Gives the pure rule the versions of files."""

    def __init__(self, lookup: CommitLookup) -> None:
        self._lookup = lookup
        self._index = lookup.index
        self._rows: dict[FileVersion, FileRow] = {}

    def made(self, version: FileVersion) -> FileVersion | None:
        found = self._index.last_change(version.path, version.n)
        if found is None or found[1].after is None:
            return None
        made = FileVersion(found[0], version.path)
        self._rows[made] = found[1]
        return made

    def step(self, version: FileVersion) -> Step:
        yield_processor()
        n, row = version.n, self._rows.pop(version)
        hunks = row.hunks if row.hunks is not None else self._compare(row.before, row.after)
        before = None if row.before is None else FileVersion(n - 1, row.old_path or row.path)
        adds = any(hunk.new_lines for hunk in hunks)
        return Step(hunks, before, self._sources(n, row) if adds else ())

    def compare(self, old: FileVersion, new: FileVersion) -> Sequence[Hunk]:
        found = (self._index.last_change(each.path, each.n) for each in (old, new))
        before, after = (change[1].after if change else None for change in found)
        return self._compare(before, after)

    def _sources(self, n: int, row: FileRow) -> list[FileVersion]:
        """The earlier versions whose lines a commit may have brought back."""
        kind = self._index.kind(n)
        if kind in ("restore", "outside", "observed"):
            # Outside: `git stash pop` or `git checkout`, say, or what stands after a late write.
            after = 0 if kind == "restore" else n - _LONGEST_AWAY
            then = self._index.last_change(row.path, n - 1, after=after, blob=row.after)
            return [FileVersion(then[0], row.path)] if then is not None else []
        if kind not in TAKES_BACK:
            return []
        taken = (self._lookup.number(oid) for oid in self._lookup.commit(n).meta.reverts)
        sources: list[FileVersion] = []
        moved: set[str | None] = set()  # later names, by moves that were taken back
        for number in sorted(each for each in taken if each is not None):
            names = self._names(row.path, n, number) | moved
            files = self._index.files(number)
            rows = [r for r in files if not names.isdisjoint((r.path, r.old_path))]
            moved.update(r.path for r in rows if r.old_path in names)
            sources[:0] = [FileVersion(number - 1, r.old_path or r.path) for r in rows if r.before]
        return sources

    def _names(self, path: str, upto: int, after: int) -> set[str | None]:
        """All paths that a file had between two commits; ``path``: the one at ``upto``."""
        names: set[str | None] = {path}
        while move := self._index.last_change(path, upto, after=after, moved=True):
            upto, path = move[0] - 1, move[1].old_path or path
            names.add(path)
        return names

    def _compare(self, old: str | None, new: str | None) -> Sequence[Hunk]:
        if old == new:
            return ()
        before, after = (self._lookup.repository.blob(oid) if oid else None for oid in (old, new))
        return compare_lines(before, after).hunks
