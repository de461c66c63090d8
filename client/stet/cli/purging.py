"""Removing the history: ``stet service uninstall --purge-history``, and nothing else.

Only what a daemon keeps in its state directory goes, by name; whatever else lies there stays,
and the directory with it. The daemon's lock is held meanwhile, so none can start in the middle.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator

from stet.cli.usage import UsageError
from stet.errors import StetError
from stet.service.spawn import Endpoint, holder

#: What a daemon, and a client that starts one, make in the state directory (the lock comes last).
_DIRECTORIES = ("journal", "workspaces", "index")
_FILES = (
    "requests.sqlite3",
    "requests.sqlite3-wal",
    "requests.sqlite3-shm",
    "stetd.log",
    "stetd.log.1",
)
_LOCK = "stetd.lock"


class HistoryInUse(StetError):
    """A daemon runs with this history."""

    KIND = "history_in_use"


def agreed(state: str) -> bool:
    """Ask. Raises UsageError where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("nothing was done: there is no terminal to ask on. Add --yes")
    print(f"All that agents ever did is recorded in {state}. It can't be brought back.")
    return input("Remove it? [y/N] ").strip().lower() in ("y", "yes")


def check_unused(endpoint: Endpoint, service: int | None) -> None:
    """Raise HistoryInUse when another process than the ``service`` has the history open."""
    pid = holder(endpoint)
    if pid not in (None, service):
        raise HistoryInUse(
            f"process {pid} uses {endpoint.state} and is not the service. Nothing was done. Stop "
            f"it first: kill {pid}"
        )


def purge(state: str) -> list[str]:
    """Remove the history; the paths that went. Raises HistoryInUse when a daemon has it open."""
    if not os.path.isdir(state):
        return []
    with _locked(state):
        gone = []
        for name in (*_DIRECTORIES, *_FILES, _LOCK):
            path = os.path.join(state, name)
            if os.path.lexists(path):
                shutil.rmtree(path) if name in _DIRECTORIES else os.unlink(path)
                gone.append(path)
    try:
        os.rmdir(state)
    except OSError:
        return gone
    return [state]


@contextlib.contextmanager
def _locked(state: str) -> Iterator[None]:
    lock = os.open(os.path.join(state, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise HistoryInUse(f"a daemon uses {state}, so it stays. Stop it and try again.") from error
    finally:
        os.close(lock)
