"""Forgetting a path: rewrites the history without it, for a secret that got in.

    scan      find the commits that had the path, and check that nothing prevents the rewrite
    rewrite   write these commits and all later ones again, without the path, into packs
              (:mod:`stetd.historian.maintenance.forget_scan`)
    switch    rewrite the commits that were made meanwhile, the last of them while calls wait; add
              a commit of kind ``forget`` that names the path, not its content; note the old and new
              ids (:mod:`stetd.repository.rewritten`). When all is durable, one journal record makes
              the rewritten history the valid one
    finish    take a checkpoint in a new segment, so that the journal has nothing older; update
              references, stored replies, query index and stat data; then gc

A kill before the record leaves the old history. After the record the history is the new one, and
the next start finishes. Files of the workspace are never touched.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from contextlib import nullcontext, suppress

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import ClipboardRef, ForgetResult
from stetd.editing.refusals import counted
from stetd.engine.writer import Writer
from stetd.failpoints import failpoint, reached
from stetd.history.commits import commit_object
from stetd.history.objects import NewObject
from stetd.parameters import Forget
from stetd.processes.long_work import RewrittenHistory
from stetd.refusals import io_failure
from stetd.repository.packing import PackStream
from stetd.repository.references import write_shallow
from stetd.state.workspace import Workspace, head_at
from stetd.storage.journal_format import ClipboardSet, Cut, Rewritten
from stetd.storage.progress import Progress
from stetd.transaction.drafts import Requester
from stetd.transaction.heads import few_names
from stetd.upkeep.retention import finish_cut
from stetd.upkeep.schedule import CHECKPOINT_TIMEOUT_S, check_open, collect, record

#: Attempts to rewrite also what calls add meanwhile. In every other one calls wait, for at most so
#: many seconds.
_ROUNDS, _PAUSE_S = 20, 1.0


class Forgetting(msgspec.Struct):
    """Forgets a path, relative to the workspace's root."""

    writer: Writer
    workspace: Workspace
    asked: Forget
    who: Requester
    progress: Progress
    #: The clipboards that the last scan searched.
    clipboards: dict[ClipboardRef, str] = {}

    async def run(self) -> ForgetResult:
        """Do it. Raises Refused, OSError."""
        asked = self.asked
        self._check_open()
        self.writer.record_late_writes(all_of_them=True)
        if not asked.preview:  # finish an earlier one that failed after its switch
            await finish(self.writer, self.workspace, self.progress)
            await finish_cut(self.writer, self.workspace)
        found = await self._left_out()
        commit = None
        if not asked.preview:
            commit, found = await self._switch()
            await reached("forget.recorded")
            await finish(self.writer, self.workspace, self.progress)
        result, root = found.result, self.workspace.root
        return msgspec.structs.replace(
            result,
            commit=commit,
            in_workspace=[p for p in result.paths if os.path.lexists(os.path.join(root, p))],
            clipboards_removed=asked.clipboards and not asked.preview,
        )

    def _check_open(self) -> None:
        check_open(self.writer, self.workspace)
        if any(known.unsettled for known in self.writer.state.known.values()):
            raise refuse(
                Kind.IO_ERROR,
                "forget: the journal keeps calls for a deferred workspace, and perhaps with them "
                "what is to be forgotten. Bring that workspace back, or forget it: stet "
                "status names it and says how. Nothing was changed.",
            )

    async def _left_out(self, *, again: bool = False) -> RewrittenHistory:
        """Scan, or rewrite, the history (``again``: what came since) without the path."""
        self.clipboards = self._clipboards()
        asked = self.asked, list(self.clipboards.items()), again
        return await self.writer.historian.ask(
            "leave out", asked, RewrittenHistory, self.writer.view(self.workspace), self.progress
        )

    def _clipboards(self) -> dict[ClipboardRef, str]:
        sessions = sorted(self.writer.state.sessions.values(), key=lambda each: each.name)
        return {
            ClipboardRef(session.name, name): text
            for session in sessions
            if session.workspace == self.workspace.name
            for name, text in sorted(session.clipboards.items())
        }

    # -- the switch

    async def _switch(self) -> tuple[str, RewrittenHistory]:
        """Make the rewritten history the valid one; returns the ``forget`` commit."""
        await reached("forget.rewritten")
        # Recovery must not have to settle a call on commits that are gone.
        await _take_checkpoint(self.writer)
        for number in range(_ROUNDS):
            waits = number % 2  # before that, most is done while calls go on
            with suppress(TimeoutError), self.writer.pause() if waits else nullcontext():
                # Writes to displaced files from now on are not recorded.
                self.writer.record_late_writes(all_of_them=True)
                async with asyncio.timeout(_PAUSE_S if waits else None):
                    found = await self._left_out(again=True)
                seen = self._clipboards().items() <= self.clipboards.items()
                if seen and found.last == self.workspace.head.commit:
                    return self._record(found), found
        raise refuse(
            Kind.CONTENDED,
            "forget: edits come faster than they can be followed; nothing was forgotten. Send the "
            "call again when less is edited, or keep agents from editing meanwhile: stet mode "
            f"restricted -C {shlex.quote(self.workspace.root)}",
        )

    def _record(self, found: RewrittenHistory) -> str:
        workspace = self.workspace
        self._check_open()
        commit = self._forget_commit(found)
        count = workspace.head.commits + 1
        rewritten = Rewritten(commit.oid, count, found.result.paths, found.blobs)
        cut = self._moved_cut(found)
        workspace.repository.reopen()  # it has new packs
        head = head_at(workspace.repository, commit.oid, rewritten.commits)
        history = workspace.history(int(time.time()), head)
        history.objects.append(commit)  # for the subscribers; it is in the repository already
        # Last: what fails before says that nothing was changed.
        removed = found.result.clipboards if self.asked.clipboards else ()
        for each in self._clipboards().keys() & removed:
            clear = ClipboardSet(workspace.name, each.session, each.clipboard, None)
            self.writer.change(clear)
        failpoint("forget.before_record")
        record(self.writer, workspace, history, cut=cut, rewritten=rewritten)
        return commit.oid

    def _forget_commit(self, found: RewrittenHistory) -> NewObject:
        """Write the commit durably."""
        meta = self.who.commit_meta(
            "forget",
            int(time.time()),
            f"forget {self.asked.path}: {counted(found.result.commits, 'commit')} changed it, "
            f"{counted(found.result.rewritten, 'commit')} rewritten",
        )
        commit = commit_object(meta, found.tree, found.head)
        packs = PackStream(self.workspace.shadow, self.writer.state.disk, "forget")
        packs.add("commit", commit.oid, commit.content)
        packs.flush()
        return commit

    def _moved_cut(self, found: RewrittenHistory) -> Cut | None:
        """The new first commit of a history that retention has cut, if the rewrite changed it.

        Until the switch, ``shallow`` has the old one and the new one.
        """
        cut = self.writer.state.known[self.workspace.name].cut
        if cut is None or found.oldest is None or found.oldest == cut.oldest:
            return None
        write_shallow(self.workspace.shadow, found.oldest, self.writer.state.disk, cut.oldest)
        return msgspec.structs.replace(cut, oldest=found.oldest)


async def finish(writer: Writer, workspace: Workspace, progress: Progress) -> None:
    """Do the steps after the switch. May be done again, as after a kill."""
    state, historian = writer.state, writer.historian
    rewritten = state.known[workspace.name].forgetting
    if rewritten is None:
        return
    progress.begin("forgetting elsewhere")
    # First: with "relaxed" durability a power cut could lose the record, and the steps after this
    # one can't be undone.
    await _take_checkpoint(writer)
    await reached("forget.checkpointed")
    paths, view = rewritten.paths, writer.view(workspace)
    try:
        await historian.ask("finish forgetting", paths, type(None), view, progress)
        historian.remembered.forget(workspace.name)
        await reached("forget.replies_changed")
        await collect(writer, workspace, progress, drop=True)
        record(writer, workspace, rewritten=Rewritten("", 0, []))
    except (Refused, OSError) as error:
        refusal = io_failure(error) if isinstance(error, OSError) else error
        names = few_names(paths)
        so_far = f"forget: the history is rewritten without {names}, but this is not finished: "
        cause = refusal.message.replace(" Nothing was changed.", "")
        next_time = " The next forget, or the next start of the daemon, finishes it."
        raise refuse(Kind(refusal.kind), so_far + cause + next_time) from error


async def _take_checkpoint(writer: Writer) -> None:
    """Wait for a checkpoint in a new segment, so that the journal has nothing older."""
    before = writer.journal.position.segment
    recorded = await writer.checkpoints.take(CHECKPOINT_TIMEOUT_S, fresh=True)
    if recorded is None or recorded.segment <= before:
        raise refuse(
            Kind.IO_ERROR,
            "forget: no checkpoint could be taken, so the journal still holds what is to be "
            "forgotten. Send the call again.",
        )
