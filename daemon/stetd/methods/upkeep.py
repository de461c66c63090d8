"""Long work on histories, for the person: ``gc``, ``snapshot``, ``forget``."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from stet.wire.results import ForgetResult, GcResult, SnapshotResult
from stetd.methods.caller import Caller, Shared, message_of
from stetd.parameters import Forget, OneWorkspace, TakeSnapshot, invalid
from stetd.refusals import io_failure
from stetd.storage.progress import Progress
from stetd.upkeep import snapshot as taking
from stetd.upkeep.forget import Forgetting
from stetd.upkeep.schedule import Job, collect

T = TypeVar("T")


async def gc(caller: Caller, wanted: OneWorkspace) -> GcResult:
    """Apply retention, then pack what is left."""
    workspace = await caller.on_writer(lambda: caller.workspace_at(wanted.workspace))
    shared = caller.shared

    async def run(progress: Progress) -> GcResult:
        await shared.writer.historian.ask("reached", workspace.shadow, type(None))
        before = await shared.writer.historian.ask("sizes", [workspace.shadow], int)
        retain = shared.upkeep.retain
        commits = await retain(workspace, progress) if retain is not None else 0
        done = await collect(shared.writer, workspace, progress, drop=True)
        return GcResult(before, done.bytes_after, done.dropped, commits)

    return await _carried_out(shared, Job("gc", workspace.root, run))


async def _carried_out(shared: Shared, job: Job[T]) -> T:
    try:
        return await shared.upkeep.submit(job)
    except OSError as error:
        raise io_failure(error) from error


async def snapshot(caller: Caller, wanted: TakeSnapshot) -> SnapshotResult:
    """Commit all files of a workspace."""
    message = message_of("snapshot", wanted.message)
    workspace = await caller.on_writer(lambda: caller.workspace_at(wanted.workspace))
    writer, who = caller.shared.writer, caller.requester("snapshot", message, uuid.uuid4().hex)
    run = partial(taking.snapshot, writer, workspace, who, wanted.skip_large)
    return await _carried_out(caller.shared, Job("snapshot", workspace.root, run))


async def forget(caller: Caller, wanted: Forget) -> ForgetResult:
    """Rewrite the history without the contents of a path."""
    message = message_of("forget", wanted.message)
    workspace = await caller.on_writer(lambda: caller.workspace_at(wanted.workspace))
    shared, resolver = caller.shared, workspace.worktree.resolver
    directory = caller.directory if workspace.name == caller.workspace else ""
    path = await caller.on_writer(
        lambda: resolver.canonical(wanted.path, directory, follow_last=False)
    )
    if not path:
        raise invalid("forget: name a file or a directory in the workspace.")
    asked, requester = replace(wanted, path=path), caller.requester("forget", message)
    work = partial(Forgetting, shared.writer, workspace, asked, requester)
    job = Job("forget", workspace.root, lambda progress: work(progress).run())
    return await _carried_out(shared, job)
