"""Which work the histories need by themselves, and doing it: packing, and retention."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from stetd.collecting import Collected, collecting, is_due
from stetd.forgetting import finishing
from stetd.retaining import Policy, retaining
from stetd.storage.object_files import Damaged
from stetd.storage.repacking import Progress
from stetd.upkeep import Job
from stetd.workspace import Workspace
from stetd.writer import Writer

_log = logging.getLogger(__name__)
#: Seconds after which a history is looked at again for what retention drops.
RETENTION_EVERY_S = 6 * 3600.0


@dataclass(slots=True)
class Needs:
    """Gives the work for one history. ``on_cut``: as in :func:`stetd.retaining.retaining`."""

    writer: Writer
    policy: Policy
    on_cut: Callable[[str], None]
    _retained: dict[str, float] = field(default_factory=dict)

    def of(self, shadow: str) -> list[Job[Any]]:
        """The work that the history in a shadow repository needs now."""
        retain = bool(self.policy) and self._is_long_ago(shadow)
        if not (retain or is_due(shadow)):
            return []
        state = self.writer.state
        workspace = self.writer.from_thread(
            lambda: next((w for w in state.open.values() if w.shadow == shadow), None)
        )
        if workspace is None:
            return []
        jobs: list[Job[Any]] = []
        if retain:
            self._retained[shadow] = time.monotonic()
            jobs.append(Job("retention", workspace.root, lambda p: self.retain(workspace, p)))
        if is_due(shadow):
            jobs.append(Job("gc", workspace.root, lambda p: _collect(self.writer, workspace, p)))
        for job in jobs:
            job.future.add_done_callback(partial(_tell, job.what, shadow))
        return jobs

    def rest_of_forgetting(self, workspace: Workspace) -> Job[None]:
        """What a kill has left undone of forgetting a path."""
        job = Job(
            "forget",
            workspace.root,
            lambda p: finishing(self.writer, workspace, p, self.on_cut),
        )
        job.future.add_done_callback(partial(_tell, "forget", workspace.shadow))
        return job

    def retain(self, workspace: Workspace, progress: Progress) -> Generator[None, None, int]:
        """Drop what the policy says; gives how many commits."""
        return retaining(self.writer, workspace, self.policy, progress, self.on_cut)

    def _is_long_ago(self, shadow: str) -> bool:
        last = self._retained.get(shadow)
        return last is None or time.monotonic() - last > RETENTION_EVERY_S


def _collect(
    writer: Writer, workspace: Workspace, progress: Progress
) -> Generator[None, None, Collected]:
    try:
        return (yield from collecting(writer, workspace, progress, drop=False))
    except Damaged:
        # It may be one of those that a crash left, and that nothing needs.
        return (yield from collecting(writer, workspace, progress, drop=True))


def _tell(what: str, shadow: str, future: Future[Any]) -> None:
    error = future.exception()
    if error is None:
        _log.info("%s of %s: %s", what, shadow, future.result())
    elif not isinstance(error, CancelledError):
        _log.warning("%s of %s failed: %r", what, shadow, error)
