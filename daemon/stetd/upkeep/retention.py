"""Retention: drops the oldest commits of a history that is too old or too large.

No id changes: the oldest commit that is kept keeps its parent's id, and the file ``shallow`` says
that the parent is missing, as in a shallow clone of plain git. The newest commit is never dropped,
nor any commit that a pin or another reference names, nor the commits after it.

    choose    the oldest commit to keep (:mod:`stetd.historian.maintenance.gc`)
    record    a commit of kind ``retention`` that says what is dropped, when and why; its journal
              record says the same (:class:`Cut`), and so does every later checkpoint
    wait      for a checkpoint: recovery must not start from a commit that is gone
    cut       write the file ``shallow``
    collect   gc (:mod:`stetd.historian.maintenance.gc`)

After a kill in between, the next start writes ``shallow`` if the record is there, and the next pass
collects the dropped objects. After a failure in between, the next pass or forget goes on.
"""

from __future__ import annotations

import time

from stet.wire.failures import Kind, refuse
from stetd import __version__
from stetd.engine.writer import Writer
from stetd.failpoints import reached
from stetd.history.commits import CommitMeta, rfc3339
from stetd.processes.long_work import RetentionChoice
from stetd.repository.references import named_commits, read_shallow, write_shallow
from stetd.state.workspace import Workspace
from stetd.storage.journal_format import Cut
from stetd.storage.progress import Progress
from stetd.upkeep.schedule import CHECKPOINT_TIMEOUT_S, check_open, collect, record


async def retain(writer: Writer, workspace: Workspace, progress: Progress) -> int:
    """Drop commits as configured; returns how many, without those of a cut that was recorded
    earlier and is only finished. Raises Refused, OSError.
    """
    historian = writer.historian
    await finish_cut(writer, workspace)
    while True:
        view = writer.view(workspace)
        found = await historian.ask("what goes", None, list[RetentionChoice], view, progress)
        if not found:
            workspace.repository.reopen()  # it may have removed packs
            if await historian.ask("has remains", workspace.shadow, bool):
                await collect(writer, workspace, progress, drop=True)
            return 0
        choice = found[0]
        # If none can be taken, nothing is recorded of what would then not be dropped.
        check_open(writer, workspace)
        cut = writer.state.known[workspace.name].cut
        await _take_checkpoint(writer, workspace.name, cut)
        if _record(writer, workspace, choice):
            break
    await reached("retention.recorded")
    await finish_cut(writer, workspace)
    await collect(writer, workspace, progress, drop=True)
    return choice.dropped


async def finish_cut(writer: Writer, workspace: Workspace) -> None:
    """Make a cut that is recorded: the one just now, or an earlier one that failed after its
    record. Another pass would count the same commits again, and forget would rewrite them.
    """
    known = writer.state.known[workspace.name]
    cut = known.cut
    # While forget is unfinished, references may still lead to the history before it.
    if cut is None or known.forgetting or read_shallow(workspace.shadow) == {cut.oldest}:
        return
    await _take_checkpoint(writer, workspace.name, cut)
    await reached("retention.checkpointed")
    write_shallow(workspace.shadow, cut.oldest, writer.state.disk)
    await reached("retention.cut")
    workspace.repository.reopen()
    await writer.historian.ask("rebuild", workspace.shadow, type(None))


def _record(writer: Writer, workspace: Workspace, choice: RetentionChoice) -> bool:
    """Record in the history and in the journal what will be dropped.

    Records nothing and returns False if references have changed since the choice.
    """
    check_open(writer, workspace)
    if named_commits(workspace.shadow) != choice.named:
        return False
    now = int(time.time())
    earlier = writer.state.known[workspace.name].cut
    dropped = choice.dropped + (earlier.dropped if earlier is not None else 0)
    cut = Cut(choice.oldest, choice.parent, dropped, now, choice.why)
    history = workspace.history(now)
    meta = CommitMeta(
        kind="retention",
        time=now,
        subject=f"retention: {choice.dropped:,} commits before {choice.oldest} are dropped",
        why=f"{choice.why}. The history begins with {choice.oldest} from {rfc3339(now)} on; "
        f"{dropped:,} commits have been dropped in all.",
        method="retention",
        version=__version__,
    )
    history.add(meta, {})
    record(writer, workspace, history, cut=cut)
    return True


async def _take_checkpoint(writer: Writer, name: str, cut: Cut | None) -> None:
    """Wait for a checkpoint that has the cut. Raises Refused if none can be taken."""
    recorded = await writer.checkpoints.take(CHECKPOINT_TIMEOUT_S)
    known = {each.name: each for each in recorded.workspaces} if recorded is not None else {}
    if name not in known or known[name].cut != cut:
        raise refuse(
            Kind.IO_ERROR, "no checkpoint could be taken; nothing of the history was dropped yet"
        )
