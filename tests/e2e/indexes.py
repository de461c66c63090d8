"""Waiting for a daemon's query index. No tests here."""

from __future__ import annotations

import sqlite3

from e2e.running_daemon import Site, eventually
from stetd.historian.index.history_index import HistoryIndex


def indexed(site: Site) -> None:
    """Wait until the index has every commit of a workspace."""
    head = site.person.call("log", limit=1)["commits"][0]["commit"]
    assert eventually(lambda: last_indexed(site) == head), last_indexed(site)


def last_indexed(site: Site) -> str | None:
    """The newest commit in the index of a workspace."""
    try:
        index = HistoryIndex.for_reading(HistoryIndex.path_for(site.shadow))
    except sqlite3.DatabaseError:
        return None
    if index is None:
        return None
    try:
        last = index.last()
        return last[1] if last else None
    finally:
        index.close()
