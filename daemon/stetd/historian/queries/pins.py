"""Pins as they are told: what each names, and when that was made."""

from __future__ import annotations

from stet.wire.results import PinInfo, PinList
from stetd.historian.queries.commit_lookup import CommitLookup
from stetd.historian.queries.files import looking_back
from stetd.history.commits import rfc3339
from stetd.repository.references import named, pin_names
from stetd.repository.stored_objects import MissingObject
from stetd.state.reading_place import Place


def described_pin(place: Place, name: str, commit: str) -> PinInfo:
    """A pin of this name on a commit, as it would be. Raises Refused (unknown_commit)."""

    def look(lookup: CommitLookup) -> PinInfo:
        oid = lookup.resolve(commit)
        lookup.find([oid])  # what git holds besides the history is none of it
        return _described(lookup, name, oid)

    return looking_back(place, look)


def pinned_commits(place: Place) -> PinList:
    """All pins of a history."""

    def look(lookup: CommitLookup) -> PinList:
        names = pin_names(place.shadow)
        return PinList(
            [_described(lookup, name, named(place.shadow, name) or None) for name in names]
        )

    return looking_back(place, look)


def _described(lookup: CommitLookup, name: str, oid: str | None) -> PinInfo:
    if oid is None:
        return PinInfo(name, None)
    try:
        meta = lookup.repository.commit(oid).meta
    except (MissingObject, KeyError, ValueError):  # pinned with plain git, or damaged
        return PinInfo(name, oid)
    return PinInfo(name, oid, rfc3339(meta.time), meta.message)
