"""Verifying the history of a workspace, for the person."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

from stet.wire.results import VerifyResult
from stetd.caller import Caller, Method, Params
from stetd.params import Verify, convert
from stetd.slices import in_slices
from stetd.storage.journal import Position
from stetd.storage.journal_heads import JournalHead, read_heads
from stetd.verifying import Claim, Subject, read_history_reference, verify
from stetd.workspace import Workspace

T = TypeVar("T")
#: Checkpoints drop journal segments while they are read; that often in a row hardly.
_ATTEMPTS = 5


async def _verify(caller: Caller, params: Params) -> VerifyResult:
    wanted = convert(Verify, "verify", params)
    workspace = await caller.on_writer(lambda: caller.named_workspace(wanted.workspace))
    before = await _claim(caller, workspace)
    reference = await _in_thread(caller, lambda: read_history_reference(workspace.shadow))
    subject = Subject(
        shadow=workspace.shadow,
        worktree=workspace.worktree,
        max_file_bytes=caller.shared.settings.max_file_bytes,
        before=before,
        reference=reference,
        claim=await _claim(caller, workspace),
        expect=wanted.expect,
    )
    return await in_slices(verify(subject), caller.shared.readers, caller.shared.writer.quiet_s)


async def _claim(caller: Caller, workspace: Workspace) -> Claim:
    """What the daemon says of a history, in its memory and in its journal; Git has it by then."""
    directory = os.path.join(caller.state.directory, "journal")
    claim = Claim(None, 0, None)
    for _ in range(_ATTEMPTS):
        head, commits, number, position, cut = await caller.on_writer(
            lambda: (
                workspace.head.commit,
                workspace.head.commits,
                workspace.number,
                caller.shared.writer.journal.position,
                caller.state.known[workspace.name].cut,
            )
        )

        def look(number: int = number, position: Position = position) -> JournalHead:
            caller.shared.background.require(number)
            return read_heads(directory, position, workspace.name)

        try:
            return Claim(head, commits, await _in_thread(caller, look), cut=cut)
        except OSError as error:
            trouble = f"{os.path.basename(error.filename or '')}: {error.strerror}"
            claim = Claim(head, commits, None, trouble, cut)
    return claim


async def _in_thread(caller: Caller, run: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(caller.shared.readers, run)


METHODS = {"verify": Method(_verify, control=True)}
