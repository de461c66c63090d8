"""Verifying the history of a workspace, for the person; also of one that is put off."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from stet.wire.results import VerifyResult
from stetd.caller import Caller, Method, Params
from stetd.params import Verify, convert
from stetd.slices import in_slices
from stetd.state import shadow_path
from stetd.storage.journal import Position
from stetd.storage.journal_format import Cut, Reached, WorkspaceState
from stetd.storage.journal_heads import JournalHead, read_heads
from stetd.storage.worktree import Worktree
from stetd.verifying import Claim, Subject, read_history_reference, verify
from stetd.workspaces import check_root

T = TypeVar("T")
#: Checkpoints drop journal segments while they are read; that often in a row hardly.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class _Moment:
    """What the daemon knows of a history at one moment. ``number``: what Git must have first."""

    head: str | None
    commits: int
    number: int
    position: Position
    cut: Cut | None
    recorded: Reached | None = None


async def _verify(caller: Caller, params: Params) -> VerifyResult:
    wanted = convert(Verify, "verify", params)
    put_off = await caller.on_writer(lambda: _find_put_off(caller, wanted.workspace))
    if put_off is not None:
        return await _verify_put_off(caller, put_off, wanted.expect)
    workspace = await caller.on_writer(lambda: caller.named_workspace(wanted.workspace))
    await _forgotten(caller, workspace.root)

    def moment() -> _Moment:
        head, number = workspace.head, workspace.number
        cut = caller.state.known[workspace.name].cut
        position = caller.shared.writer.journal.position
        return _Moment(head.commit, head.commits, number, position, cut)

    before = await _claim(caller, workspace.name, moment)
    reference = await _in_thread(caller, lambda: read_history_reference(workspace.shadow))
    subject = Subject(
        shadow=workspace.shadow,
        worktree=workspace.worktree,
        max_file_bytes=caller.shared.settings.max_file_bytes,
        before=before,
        reference=reference,
        claim=await _claim(caller, workspace.name, moment),
        expect=wanted.expect,
    )
    return await in_slices(verify(subject), caller.shared.readers, caller.shared.writer.quiet_s)


async def _forgotten(caller: Caller, root: str) -> None:
    """Wait until what is being forgotten is, also what a kill has left undone of it.

    In between pins still name the old history, and the journal's checkpoint may know of none.
    """
    for job in caller.shared.upkeep.work:
        if (job.what, job.root) == ("forget", root):
            await asyncio.gather(asyncio.wrap_future(job.future), return_exceptions=True)


def _find_put_off(caller: Caller, root: str | None) -> WorkspaceState | None:
    """The workspace with exactly this root, if it is put off; on the writer thread."""
    if root is None:
        return None
    check_root(root)
    path = os.path.realpath(root)
    return next((known for known in caller.state.unopened() if known.root == path), None)


async def _verify_put_off(
    caller: Caller, known: WorkspaceState, expect: str | None
) -> VerifyResult:
    """Verify what Git has of a history that is not gone on with: nothing moves meanwhile."""
    shadow = shadow_path(caller.state.directory, known.name)
    reference = await _in_thread(caller, lambda: read_history_reference(shadow))
    claim = await _claim(caller, known.name, lambda: _put_off_moment(caller, known, reference))
    worktree = None
    with suppress(OSError):
        worktree = Worktree(known.root, caller.state.disk)
    subject = Subject(
        shadow=shadow,
        worktree=worktree,
        max_file_bytes=caller.shared.settings.max_file_bytes,
        before=claim,
        reference=reference,
        claim=claim,
        expect=expect,
        trouble=caller.state.troubles.get(known.name),
    )
    try:
        return await in_slices(verify(subject), caller.shared.readers, caller.shared.writer.quiet_s)
    finally:
        if worktree is not None:
            worktree.close()


def _put_off_moment(caller: Caller, known: WorkspaceState, reference: str | None) -> _Moment:
    """Git may be behind the journal: it has the history as far as the reference says.

    What it must have in any case is what it had at the start.
    """
    shared = caller.shared
    recorded = Reached(known.head, known.commits)
    start, *later = shared.workspaces.taking_up.recovery.reached(known.name)
    possible = [*later, recorded]
    at = next((each for each in possible if each.head == reference), start)
    position = shared.writer.journal.position
    return _Moment(at.head, at.commits, 0, position, known.cut, recorded)


async def _claim(caller: Caller, name: str, moment: Callable[[], _Moment]) -> Claim:
    """What the daemon says of a history, in its memory and in its journal; Git has it by then.

    ``moment`` is asked on the writer thread.
    """
    directory = os.path.join(caller.state.directory, "journal")
    claim = Claim(None, 0, None)
    for _ in range(_ATTEMPTS):
        now = await caller.on_writer(moment)

        def look(now: _Moment = now) -> JournalHead:
            caller.shared.background.require(now.number)
            return read_heads(directory, now.position, name)

        try:
            journal = await _in_thread(caller, look)
            return Claim(now.head, now.commits, journal, None, now.cut, now.recorded)
        except OSError as error:
            trouble = f"{os.path.basename(error.filename or '')}: {error.strerror}"
            claim = Claim(now.head, now.commits, None, trouble, now.cut, now.recorded)
    return claim


async def _in_thread(caller: Caller, run: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(caller.shared.readers, run)


METHODS = {"verify": Method(_verify, control=True)}
