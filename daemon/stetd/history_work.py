"""What long work on a history does beside the calls: asking whether it may, recording, waiting.

The work itself is in :mod:`stetd.snapshotting`, :mod:`stetd.retaining`, :mod:`stetd.forgetting`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from stet.wire.failures import Kind, refuse
from stetd.refusing import read_only
from stetd.storage.journal_format import (
    Change,
    Checkpoint,
    CommitRecord,
    Cut,
    PathChange,
    Rewritten,
)
from stetd.workspace import Workspace
from stetd.writer import Writer

_CHECKPOINT_S = 60.0


def check_open(writer: Writer, workspace: Workspace) -> None:
    """See to it that a history may be added to; on the writer thread. Raises Refused."""
    if writer.read_only is not None:
        raise read_only(writer.read_only)
    if writer.state.open.get(workspace.name) is not workspace:
        raise refuse(Kind.WORKSPACE_NOT_ALLOWED, "this workspace is no longer allowed")


def record(
    writer: Writer,
    workspace: str,
    *,
    commits: Sequence[CommitRecord] = (),
    paths: Sequence[PathChange] = (),
    cut: Cut | None = None,
    rewritten: Rewritten | None = None,
) -> int:
    """Make durable what was done to a history, where no file has to be written; its number.

    On the writer thread. Raises Refused.
    """
    number = writer.state.number + 1
    writer.record(
        Change(
            number=number,
            workspace=workspace,
            paths=list(paths),
            commits=list(commits),
            blobs={},
            time=int(time.time()),
            performed=True,
            cut=cut,
            rewritten=rewritten,
        )
    )
    writer.state.number = number
    return number


def wait_for_checkpoint(writer: Writer, *, fresh: bool = False) -> Checkpoint | None:
    """Have a checkpoint begun, and wait for it; the newest one that is durable then, if any.

    It may be an older one, if no other could be taken: the caller has to look. ``fresh``: as in
    :meth:`stetd.checkpointing.Checkpoints.begin`. Not on the writer thread.
    """
    done = threading.Event()
    checkpoints = writer.checkpoints
    writer.from_thread(lambda: checkpoints.begin(done.set, fresh=fresh))
    if not done.wait(_CHECKPOINT_S):
        return None
    return writer.from_thread(lambda: checkpoints.recorded)
