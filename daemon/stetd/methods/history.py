"""Methods on the history that need the engine: ``read``, ``export``, ``verify``, ``pin_*``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import ExportResult, PinInfo, ReadResult, VerifyResult
from stetd.methods.caller import Caller
from stetd.methods.workspaces import deferred_at, errors_refused
from stetd.parameters import Export, PinName, PinSetting, Read, Verify, invalid
from stetd.planning.file_reading import read_workspace_file
from stetd.processes.long_work import Claim, Moment, Verifying
from stetd.repository.references import (
    delete_pin,
    pin_names,
    pinned_id,
    read_shallow,
    set_pin,
    why_no_pin_name,
)
from stetd.repository.rewritten import read_pending, successors
from stetd.state.read_view import ReadView
from stetd.state.state import shadow_path
from stetd.storage.journal_format import Cut, Reached, WorkspaceState

#: The engine itself reads files of at most so many bytes; the historian reads larger ones.
_SMALL_BYTES = 128 * 1024
#: A checkpoint may drop a journal segment while it is read. Then the reading is tried again.
_CLAIM_ATTEMPTS = 5
#: Attempts to pin a commit, and seconds between two, while the history is cut or rewritten.
_PIN_ATTEMPTS, _PIN_PAUSE_S = 50, 0.2


async def read(caller: Caller, wanted: Read) -> object:
    """Read a file, as it is now or at a commit."""
    if wanted.at is None:
        workspace = await caller.on_writer(lambda: caller.open_workspace(present=True))
        small = min(_SMALL_BYTES, caller.state.settings.max_file_bytes)
        head, directory = workspace.head.commit, caller.directory
        try:
            return read_workspace_file(
                ReadView(workspace.worktree, workspace.shadow, head, directory, small), wanted
            )
        except Refused as refusal:
            if refusal.kind != Kind.FILE_TOO_LARGE or small < _SMALL_BYTES:
                raise
    return await caller.ask("read", wanted, ReadResult, of_history=wanted.at is not None)


async def export(caller: Caller, wanted: Export) -> ExportResult:
    """Export commits. Whoever may read the history may export it."""
    if wanted.format == "diff" and (wanted.cursor or wanted.limit):
        raise invalid("export: one diff has no pages; leave out cursor and limit.")
    return await caller.ask("export", wanted, ExportResult)


async def verify(caller: Caller, wanted: Verify) -> VerifyResult:
    """Check a history against the journal."""
    at = wanted.workspace
    known = await caller.on_writer(lambda: deferred_at(caller, at) or caller.workspace_at(at))
    name, root = known.name, known.root
    # Every forget must end first: until then pins still name the old history.
    jobs = caller.shared.upkeep.jobs
    tasks = [job.task for job in jobs if (job.what, job.root) == ("forget", root)]
    if tasks:
        await asyncio.wait(tasks)
    begins = _beginnings(shadow_path(caller.state.directory, name))
    if isinstance(known, WorkspaceState):
        before = after = await _read_deferred_claim(caller, known)
    else:

        def moment() -> Moment:
            head, position = known.head, caller.shared.writer.journal.position
            cut = caller.state.known[name].cut
            return Moment(head.commit, head.commits, position, cut)

        before = await _read_claim(caller, name, moment)
        after = await _read_claim(caller, name, moment)
    asked = Verifying(
        state=caller.state.directory,
        name=name,
        root=root,
        max_file_bytes=caller.state.settings.max_file_bytes,
        before=before,
        claim=after,
        expect=wanted.expect,
        trouble=caller.state.troubles.get(name),
    )
    found = await caller.shared.writer.historian.ask("verify", asked, VerifyResult)
    now = caller.state.open.get(name)
    if not found.ok and now is not None and after.head is not None:
        # What retention has dropped meanwhile, or forget rewritten, is not missing: look again.
        moved = now.head.commit != after.head
        if _beginnings(now.shadow) != begins or (moved and successors(now.shadow, after.head)):
            return await verify(caller, wanted)
    return found


def _beginnings(shadow: str) -> frozenset[str] | None:
    """Where a history begins, as Git sees it; None if that can't be read: verify reports it."""
    try:
        return read_shallow(shadow)
    except OSError:
        return None


async def _read_claim(caller: Caller, name: str, moment: Callable[[], Moment]) -> Claim:
    """The state of a history by memory (``moment``) and journal, once Git has reached it."""
    left = _CLAIM_ATTEMPTS
    while True:
        asked = (caller.state.directory, name, await caller.on_writer(moment))
        found = await caller.shared.writer.historian.ask("claim", asked, Claim)
        left -= 1
        if found.journal_trouble is None or not left:
            return found


async def _read_deferred_claim(caller: Caller, known: WorkspaceState) -> Claim:
    """The claim for a deferred workspace, whose history does not grow.

    Git may be behind the journal: the reference says how far it has come. It must at least have
    what it had when the daemon started.
    """
    recorded = Reached(known.head, known.commits)
    start, *later = caller.shared.workspaces.opening.recovery.heads_since_checkpoint(known.name)

    def moment_at(at: Reached) -> Moment:
        position = caller.shared.writer.journal.position  # a checkpoint may drop what is before it
        return Moment(at.head, at.commits, position, known.cut, recorded)

    first = await _read_claim(caller, known.name, lambda: moment_at(start))
    at = next((each for each in [*later, recorded] if each.head == first.reference), start)
    return await _read_claim(caller, known.name, lambda: moment_at(at))


async def pin_set(caller: Caller, setting: PinSetting) -> PinInfo:
    """Give a commit a name."""
    reason = why_no_pin_name(setting.name)
    if reason is not None:
        raise invalid(f"pin_set: {setting.name[:100]!r} can't be used: {reason}.")
    known = caller.state.known
    for _ in range(_PIN_ATTEMPTS):
        workspace = await caller.on_writer(caller.open_workspace)
        cut = known[workspace.name].cut
        # While a cut is recorded but not done, the lookup may find commits that will be dropped.
        if cut is None or read_shallow(workspace.shadow) == {cut.oldest}:
            asked = [setting.name, setting.commit]
            info = await caller.ask("pin", asked, PinInfo, goes_on=True)
            if await caller.on_writer(partial(_set_pin, caller, info, cut, move=setting.move)):
                return info
        await asyncio.sleep(_PIN_PAUSE_S)
    raise refuse(
        Kind.CONTENDED,
        "pin_set: the oldest commits of the history are being dropped, or a path is being "
        "forgotten; send the call again when that is done (stet status shows it).",
    )


def _set_pin(caller: Caller, info: PinInfo, cut: Cut | None, *, move: bool) -> bool:
    """Set a pin. False: the history has been cut or rewritten since the commit was looked up."""
    workspace = caller.open_workspace()
    state = caller.state.known[workspace.name]
    rewritten = state.forgetting is not None and info.commit in read_pending(workspace.shadow)
    if state.cut != cut or rewritten:
        return False
    known = pinned_id(workspace.shadow, info.name)
    if known == info.commit:
        return True
    if known is not None and not move:
        raise refuse(
            Kind.ALREADY_EXISTS,
            f"pin {info.name} names {known or 'no commit'} already. Send move: true to let it name "
            "another commit, or choose another name.",
        )
    assert info.commit is not None, "BUG: a pin to be set on no commit"
    with errors_refused(caller.shared.writer):
        set_pin(workspace.shadow, info.name, info.commit, caller.state.disk)
    return True


def pin_delete(caller: Caller, wanted: PinName) -> PinInfo:
    """Delete a pin."""
    workspace, name = caller.open_workspace(), wanted.name
    known = pinned_id(workspace.shadow, name)
    if known is None:
        names = ", ".join(pin_names(workspace.shadow)[:20])
        raise refuse(
            Kind.UNKNOWN_COMMIT,
            f"no pin is called {name[:100]!r}." + (f" There are: {names}." if names else ""),
        )
    with errors_refused(caller.shared.writer):
        delete_pin(workspace.shadow, name, caller.state.disk)
    return PinInfo(name, known or None)
