"""Long work on histories, for the person: ``gc``, ``snapshot``."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import CancelledError
from typing import TypeVar

from stet.wire.failures import Kind, refuse
from stet.wire.results import ForgetResult, GcResult, SnapshotResult
from stetd import forgetting
from stetd.caller import Caller, Method, Params, Shared
from stetd.collecting import collecting, directory_bytes
from stetd.params import Forget, OneWorkspace, TakeSnapshot, convert
from stetd.refusing import damaged_history, io_failure
from stetd.snapshotting import Asked, SnapshotLimits, snapshot
from stetd.storage.object_files import Damaged
from stetd.storage.reachable import BrokenHistory
from stetd.storage.repacking import Progress
from stetd.storage.shadow_repo import MissingObject
from stetd.upkeep import Job
from stetd.workspace import Workspace

T = TypeVar("T")


async def _gc(caller: Caller, params: Params) -> GcResult:
    wanted = convert(OneWorkspace, "gc", params)
    workspace = await caught_up(caller, wanted.workspace)
    shared = caller.shared

    def start(progress: Progress) -> Generator[None, None, GcResult]:
        before, commits = directory_bytes(workspace.shadow), 0
        if shared.needs.policy:
            commits = yield from shared.needs.retain(workspace, progress)
        done = yield from collecting(shared.writer, workspace, progress, drop=True)
        return GcResult(before, done.bytes_after, done.dropped, commits)

    return await carried_out(shared, Job("gc", workspace.root, start))


async def caught_up(caller: Caller, root: str | None) -> Workspace:
    """The workspace with this root, or the connection's own, once Git has all of its history."""
    workspace, number = await caller.on_writer(
        lambda: (found := caller.named_workspace(root), found.number)
    )
    loop = asyncio.get_running_loop()
    background = caller.shared.background
    await loop.run_in_executor(caller.shared.readers, lambda: background.require(number))
    return workspace


async def carried_out(shared: Shared, job: Job[T]) -> T:
    """What a piece of work has come to. Raises Refused."""
    try:
        return await asyncio.wrap_future(shared.upkeep.submit(job))
    except (BrokenHistory, Damaged) as error:
        raise refuse(
            Kind.IO_ERROR,
            f"{job.what}: the history in {job.root} is damaged: {error}. Nothing was removed. "
            "stet verify names all that is damaged and says what to do.",
        ) from error
    except CancelledError as error:
        raise refuse(
            Kind.SHUTTING_DOWN, f"{job.what}: the daemon is stopping; ask again when it is back."
        ) from error
    except MissingObject as error:
        raise damaged_history(str(error)) from error
    except OSError as error:
        raise io_failure(error) from error


async def _snapshot(caller: Caller, params: Params) -> SnapshotResult:
    wanted = convert(TakeSnapshot, "snapshot", params)
    message = wanted.message or ""
    if "\0" in message:
        raise refuse(Kind.INVALID_PARAMS, "snapshot: message can't contain NUL characters.")
    workspace = await caught_up(caller, wanted.workspace)
    shared, settings = caller.shared, caller.shared.settings
    asked = Asked(caller.agent, caller.session, caller.peer, message, wanted.skip_large)
    limits = SnapshotLimits(
        files=settings.snapshot_max_files,
        bytes=settings.snapshot_max_bytes,
        file_bytes=settings.max_file_bytes,
    )

    def start(progress: Progress) -> Generator[None, None, SnapshotResult]:
        return snapshot(shared.writer, workspace, asked, limits, progress)

    return await carried_out(shared, Job("snapshot", workspace.root, start))


async def _forget(caller: Caller, params: Params) -> ForgetResult:
    wanted = convert(Forget, "forget", params)
    message = wanted.message or ""
    if "\0" in message:
        raise refuse(Kind.INVALID_PARAMS, "forget: message can't contain NUL characters.")
    workspace = await caught_up(caller, wanted.workspace)
    shared = caller.shared
    own = workspace.name == caller.workspace
    path = await caller.on_writer(
        lambda: workspace.worktree.resolver.canonical(
            wanted.path, caller.directory if own else "", follow_last=False
        )
    )
    if not path:
        raise refuse(Kind.INVALID_PARAMS, "forget: name a file or a directory in the workspace.")
    asked = forgetting.Asked(
        path=path,
        contents=wanted.contents,
        clipboards=wanted.clipboards,
        preview=wanted.preview,
        message=message,
        agent=caller.agent,
        session=caller.session,
        peer=caller.peer,
    )

    def start(progress: Progress) -> Generator[None, None, ForgetResult]:
        return forgetting.forgetting(
            shared.writer, workspace, asked, progress, shared.indexer.rebuild
        )

    return await carried_out(shared, Job("forget", workspace.root, start))


METHODS = {
    "forget": Method(_forget, control=True),
    "gc": Method(_gc, control=True),
    "snapshot": Method(_snapshot, control=True),
}
