"""Keeping histories small, for the person: ``gc``."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import CancelledError
from typing import TypeVar

from stet.wire.failures import Kind, refuse
from stet.wire.results import GcResult
from stetd.caller import Caller, Method, Params, Shared
from stetd.collecting import Collected, collecting
from stetd.params import OneWorkspace, convert
from stetd.refusing import io_failure
from stetd.storage.object_files import Damaged
from stetd.storage.reachable import BrokenHistory
from stetd.storage.repacking import Progress
from stetd.upkeep import Job
from stetd.workspace import Workspace

T = TypeVar("T")


async def _gc(caller: Caller, params: Params) -> GcResult:
    wanted = convert(OneWorkspace, "gc", params)
    workspace = await caught_up(caller, wanted.workspace)
    shared = caller.shared

    def start(progress: Progress) -> Generator[None, None, Collected]:
        return collecting(shared.writer, workspace, progress, drop=True)

    done = await carried_out(shared, Job("gc", workspace.root, start))
    return GcResult(done.bytes_before, done.bytes_after, done.dropped)


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
    except OSError as error:
        raise io_failure(error) from error


METHODS = {"gc": Method(_gc, control=True)}
