"""Waiting for a daemon's query index. No tests here."""

from __future__ import annotations

import sqlite3
import time

from e2e.running_daemon import PATIENCE_S, Site
from stetd.historian.index.history_index import HistoryIndex


def indexed(site: Site) -> None:
    """Wait until the index has every commit of a workspace."""
    head = site.person.call("log", limit=1)["commits"][0]["commit"]
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if last_indexed(site) == head:
            return
        time.sleep(0.05)
    raise AssertionError(f"the index does not reach {head}: it ends at {last_indexed(site)}")


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
