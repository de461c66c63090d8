"""Reading the history: log and show. Runs beside the writer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import CommitInfo, Dropped, LogResult, ShowResult
from stetd.historian.queries.commit_changes import changes_of, described
from stetd.historian.queries.commit_lookup import CommitLookup, Found, UnknownCursor
from stetd.historian.queries.files import looking_back
from stetd.history.commit_rows import Wanted, meets
from stetd.history.commits import commit_info, rfc3339
from stetd.planning.file_reading import canonical
from stetd.state.reading_place import Place
from stetd.transaction.parameters import Log

_DEFAULT_LIMIT = 50
#: Commits that are searched for a text before a page is given as it is.
_MOST_SEARCHED = 2000
#: Files that a page names before it ends. A commit is told whole, a snapshot of any size too.
_MOST_FILES = 20_000


def show(place: Place, name: str) -> ShowResult:
    """One commit with its diff."""
    return looking_back(place, lambda lookup: _show(lookup, name))


def _show(lookup: CommitLookup, name: str) -> ShowResult:
    [found] = lookup.find([lookup.resolve(name)])
    return show_found(lookup, found)


def show_found(lookup: CommitLookup, found: Found) -> ShowResult:
    """One commit with its diff."""
    changes = changes_of(lookup.repository, found.commit)
    diff = "".join(described(lookup.repository, change)[1] for change in changes)
    info = _commit_info(lookup, found)
    fields = {name: getattr(info, name) for name in CommitInfo.__struct_fields__}
    return ShowResult(**fields, diff=diff)


def _commit_info(lookup: CommitLookup, found: Found) -> CommitInfo:
    return commit_info(found.commit, lookup.changes(found.commit), found.undone_by)


def log(place: Place, params: Log) -> LogResult:
    """A page of the history, newest first.

    The cursor is the id of the last commit that was looked at: it stays valid while history
    grows, because nothing before it ever changes. A search for a text that is found rarely,
    and not through the index, gives short or empty pages with a cursor: it has to look into
    the commits themselves, and nobody should wait long for an answer. So does one whose commits
    changed very many files.
    """
    wanted = Wanted(
        path=canonical(place, params.path) or None if params.path is not None else None,
        session=params.session,
        agent=params.agent,
        method=params.method,
        kind=params.kind,
        since=seconds(params.since, "since"),
        until=seconds(params.until, "until"),
        text=params.text or None,
    )
    limit = params.limit or _DEFAULT_LIMIT
    try:
        page = looking_back(place, lambda lookup: _page(lookup, wanted, limit, params.cursor))
    except UnknownCursor as error:
        raise _unknown_cursor(params.cursor) from error
    cut = place.cut
    if cut is None or page.cursor is not None:
        return page
    return LogResult(
        page.commits, None, Dropped(cut.dropped, cut.oldest, rfc3339(cut.time), cut.why)
    )


def _page(lookup: CommitLookup, wanted: Wanted, limit: int, cursor: str | None) -> LogResult:
    page: list[CommitInfo] = []
    searched = files = 0
    last = cursor
    for found in _without_other_paths(lookup, wanted, cursor):
        if searched == _MOST_SEARCHED:
            return LogResult(page, last)
        if wanted.text is not None:
            searched += 1
            if not lookup.has_text(found.commit, wanted.text):
                last = found.commit.oid
                continue
        if len(page) == limit or files >= _MOST_FILES:
            return LogResult(page, page[-1].commit)
        last = found.commit.oid
        page.append(_commit_info(lookup, found))
        files += len(page[-1].files)
    return LogResult(page, None)


def _without_other_paths(
    lookup: CommitLookup, wanted: Wanted, cursor: str | None
) -> Iterator[Found]:
    """What is wanted but for its text."""
    for found in lookup.candidates(wanted, cursor):
        if meets(found.commit.meta, wanted) and (
            wanted.path is None or lookup.is_touching(found.commit, [wanted.path])
        ):
            yield found


def _unknown_cursor(cursor: str | None) -> Refused:
    return refuse(
        Kind.INVALID_PARAMS,
        f"cursor {cursor!r} is not from this workspace's log; start again without a cursor",
    )


def seconds(value: str | float | None, name: str) -> float | None:
    """A time in seconds since 1970. One that is written without an offset is in UTC."""
    if value is None or isinstance(value, int | float):
        return value
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"{name}: {value!r} is no time; send RFC 3339 (2026-11-21T12:00:00Z; without an "
            "offset it is in UTC) or seconds since 1970",
        ) from error
