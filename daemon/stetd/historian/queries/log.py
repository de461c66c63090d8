"""Log, show and pins."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from msgspec.structs import asdict, replace

from stet.wire.results import CommitInfo, Dropped, LogResult, PinInfo, PinList, ShowResult
from stetd.historian.index.history_index import CommitFilter
from stetd.historian.queries.commit_changes import changes_of, described_all
from stetd.historian.queries.commit_lookup import CommitLookup, Found, with_lookup
from stetd.history.checking import KINDS, METHODS
from stetd.history.commits import commit_info, rfc3339
from stetd.parameters import Export, Log, Show, invalid
from stetd.repository.references import pin_names, pinned_id
from stetd.repository.stored_objects import MissingObject, StoredObjects
from stetd.state.read_view import ReadView
from stetd.storage.priority import yield_processor

_DEFAULT_LIMIT = 50
#: Commits that are searched for a text before a page is returned as it is.
_MAX_SEARCHED = 2000
#: Files after which a page ends. Each commit is reported whole, however many files it has.
_MAX_FILES = 20_000


def show(view: ReadView, asked: Show) -> ShowResult:
    """One commit with its diff."""
    return with_lookup(
        view, lambda lookup: show_found(lookup, *lookup.find([lookup.resolve(asked.commit)]))
    )


def show_found(lookup: CommitLookup, found: Found) -> ShowResult:
    """One commit with its diff. Raises Refused (file_too_large)."""
    changes = changes_of(lookup.repository, found.commit)
    what = f"the diff of commit {found.commit.oid}"
    _, diff = described_all(lookup.repository.blob, changes, what)
    return ShowResult(**asdict(_commit_info(lookup, found)), diff=diff)


def _commit_info(lookup: CommitLookup, found: Found) -> CommitInfo:
    return commit_info(found.commit, lookup.changes(found.commit), found.undone_by)


def log(view: ReadView, params: Log) -> LogResult:
    """A page of the history, newest first.

    The cursor is the id of the last commit that was read: it stays valid while the history grows. A
    search for a rare text that the index does not help with gives short or empty pages with a
    cursor, and so do commits with very many files: no caller should wait long.
    """
    paths = view.possible_paths([params.path] if params.path is not None else [])
    wanted = replace(filters(params), text=params.text or None)
    limit = params.limit or _DEFAULT_LIMIT
    page = with_lookup(view, lambda lookup: _page(lookup, wanted, paths, limit, params.cursor))
    cut = view.cut
    if cut is None or page.cursor is not None:
        return page
    return LogResult(
        page.commits, None, Dropped(cut.dropped, cut.oldest, rfc3339(cut.time), cut.why)
    )


def _page(
    lookup: CommitLookup, wanted: CommitFilter, paths: list[str], limit: int, cursor: str | None
) -> LogResult:
    page: list[CommitInfo] = []
    searched = files = 0
    last = cursor
    if cursor is not None and lookup.number(cursor) is None:
        raise invalid(
            f"cursor {cursor!r} is not from this workspace's log; start again without a cursor"
        )
    for found in lookup.candidates(wanted, cursor, paths):
        if not wanted.matches(found.commit.meta):
            continue
        if paths and not lookup.is_touching(found.commit, paths):
            continue
        if searched == _MAX_SEARCHED:
            return LogResult(page, last)
        if wanted.text is not None:
            searched += 1
            yield_processor()
            if not lookup.has_text(found.commit, wanted.text):
                last = found.commit.oid
                continue
        if len(page) == limit or files >= _MAX_FILES:
            return LogResult(page, page[-1].commit)
        last = found.commit.oid
        page.append(_commit_info(lookup, found))
        files += len(page[-1].files)
    return LogResult(page, None)


def filters(asked: Log | Export) -> CommitFilter:
    """The filters of a log or an export. Raises Refused."""
    for name, value, known in (("kind", asked.kind, KINDS), ("method", asked.method, METHODS)):
        if value is not None and value not in known:
            raise invalid(f"{name}: {value!r} is none of {', '.join(sorted(known))}")
    return CommitFilter(
        session=asked.session,
        agent=asked.agent,
        method=asked.method,
        kind=asked.kind,
        since=_seconds(asked.since, "since"),
        until=_seconds(asked.until, "until"),
    )


def _seconds(value: str | float | None, name: str) -> float | None:
    """Whole seconds since 1970, as SQLite can hold them. A text without an offset is in UTC."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return None if value is None else max(-(2**62), min(math.floor(value), 2**62))
    except (ValueError, OverflowError) as error:
        raise invalid(
            f"{name}: {value!r} is no time; send RFC 3339 (2026-11-21T12:00:00Z; without an "
            "offset it is in UTC) or seconds since 1970 as a number",
        ) from error


# -- pins


def described_pin(view: ReadView, asked: list[str]) -> PinInfo:
    """The pin that would name a commit so. Raises Refused (unknown_commit)."""
    name, commit = asked

    def look(lookup: CommitLookup) -> PinInfo:
        oid = lookup.resolve(commit)
        lookup.find([oid])  # commits in Git that are not part of the history are refused
        return _described(lookup.repository, name, oid)

    return with_lookup(view, look)


def pinned_commits(view: ReadView, _: None) -> PinList:
    """All pins of a history."""
    pins = [(name, pinned_id(view.shadow, name) or None) for name in pin_names(view.shadow)]
    with view.handles.opened(view.shadow) as repository:
        return PinList([_described(repository, *pin) for pin in pins])


def _described(repository: StoredObjects, name: str, oid: str | None) -> PinInfo:
    if oid is None:
        return PinInfo(name, None)
    try:
        meta = repository.commit(oid).meta
    except (MissingObject, KeyError, ValueError):  # pinned with plain git, or damaged
        return PinInfo(name, oid)
    return PinInfo(name, oid, rfc3339(meta.time), meta.message)
