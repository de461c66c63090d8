"""Turns queued calls into sealed transactions or answers. Changes nothing yet.

A retry gets the recorded answer. Any other call is checked, planned on the head that the call
before it will leave, and sealed. A call that takes too long for the event loop, or needs the
history, is marked (``needs_asking``): the writer asks a planner or the historian, and prepares
the call again with the response.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from asyncio import Future
from collections.abc import Mapping, Sequence

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.first_use import known_to_msgspec
from stet.wire.results import EditResult
from stetd.editing.time_limit import TakesLong, limited
from stetd.engine.fair_queue import Lane, Waiting
from stetd.engine.long_planning import WRITER_PLANNING_BYTES, WRITER_PLANNING_S
from stetd.observing.before_note import BeforeNote
from stetd.observing.recording import NOTE_SECONDS, note_id, observe, read_note
from stetd.parameters import check_label, invalid
from stetd.planning.calls import TRANSACTION, PlanDialect, check_if_match, plan_call, plan_directly
from stetd.planning.planner import RecordedPlan, Replay
from stetd.planning.proposals import Proposal
from stetd.planning.world import OBSERVE, CallLimits, EditCall, NotYetPublished
from stetd.processes.historian_client import Historian
from stetd.processes.remembered import Key
from stetd.refusals import (
    contended,
    damaged_history,
    history_unwritable,
    io_failure,
    other_call,
    read_only,
)
from stetd.repository.stored_objects import MissingObject
from stetd.session.modes import RESTRICTED, mode_at
from stetd.session.sessions import Session, check_clipboards
from stetd.state.session_records import Sessions
from stetd.state.state import State
from stetd.state.workspace import Base, PlanOutdated, Workspace
from stetd.storage.journal import Journal
from stetd.storage.request_record import RequestRecord
from stetd.transaction.drafts import Draft
from stetd.transaction.sealing import seal
from stetd.transaction.transaction import Prepared

_log = logging.getLogger(__name__)

#: How often the response for a call may be outdated when it comes; then the call is refused.
_MAX_OUTDATED = 5
#: Bytes of the journal at which edits are refused: if the history can't be written, and if writing
#: it only takes long. Never less than ``checkpoint_bytes``.
MAX_UNWRITTEN, _MAX_BEHIND = 64 << 20, 512 << 20


class EditJob(Waiting, eq=False, kw_only=True):
    """A client's call from its submission to its answer."""

    call: EditCall
    future: Future[EditResult]
    #: Of the same call, sent again meanwhile: it gets the same answer.
    followers: list[Future[EditResult]] = msgspec.field(default_factory=list)
    attempts: int = 0
    #: Seconds spent on planning and publishing it; 0: it was not begun.
    seconds: float = 0.0
    answered: bool = False
    #: The session in which it was planned last.
    session: Session | None = None
    #: The writer must ask a planner or the historian before it can go on.
    needs_asking: bool = False
    #: The task that asks.
    asking: asyncio.Task[None] | None = None
    #: The answer. None: there is none yet, or no planner could be started.
    response: list[RecordedPlan] | Proposal | Exception | None = None
    #: Number of the last record that the historian knew of when it was asked.
    asked_at: int = 0
    #: No planner is to be asked any more: one was, or there are none.
    planned: bool = False
    #: A request that may have been answered long ago: the historian is to be asked about it.
    old_request: Key | None = None
    #: The historian's answers about such requests.
    recalled: dict[Key, RequestRecord | None] = msgspec.field(default_factory=dict)
    #: How often the response did not hold any more when it was used.
    times_outdated: int = 0


#: The result of preparing a job: a transaction to publish, or an answer to send.
Outcome = Prepared | EditResult | Exception


class Preparer(msgspec.Struct):
    """Plans, checks and seals calls."""

    _state: State
    _sessions: Sessions
    _journal: Journal
    _historian: Historian

    @property
    def limits(self) -> CallLimits:
        """The limits of a call."""
        return CallLimits.of(self._state.settings)

    def prepare(
        self, workspace: Workspace, jobs: list[EditJob], turn_s: float
    ) -> list[tuple[EditJob, Outcome]]:
        """Prepare jobs one after the other; no new one is begun after ``turn_s`` seconds.

        A job without an outcome needs asking (``needs_asking``), or goes back into the queue.
        """
        base = Base(workspace.head)
        # The sessions as the calls before leave them.
        sessions: dict[str | None, Session | None] = {}
        outcomes: list[tuple[EditJob, Outcome]] = []
        held: set[Lane] = set()
        number = self._state.number
        now = int(time.time())
        deadline = time.perf_counter() + turn_s
        for job in jobs:
            if (outcomes or held) and not job.seconds and time.perf_counter() > deadline:
                break  # no time left for this job and the ones behind it
            if job.lane in held:
                continue  # a job before it in its lane has no outcome yet
            began = time.perf_counter()
            session = sessions.get(job.call.session)
            outcome = self._plan_one(workspace, base, job, session, number + 1, now)
            job.seconds += time.perf_counter() - began
            if outcome is None:
                held.add(job.lane)
                continue
            outcomes.append((job, outcome))
            if isinstance(outcome, Prepared):
                number += 1
                base = base.after(outcome)
                sessions[job.call.session] = outcome.session
        return outcomes

    def _plan_one(
        self,
        workspace: Workspace,
        base: Base,
        job: EditJob,
        session: Session | None,
        number: int,
        now: int,
    ) -> Outcome | None:
        """Prepare a job; None if it needs asking, or earlier calls must be published first."""
        call = job.call
        try:
            # First: a retry gets its answer, whatever the mode is now.
            replayed = self._replay(job)
            if replayed is not None:
                return replayed
            if call.entrant is not None:
                session = self._sessions.find(call.entrant, session)
            self.check_mode(workspace, call, session)
            self._check_writable(call)
            job.session = session
            return self._prepare(workspace, base, job, number, now)
        except NotYetPublished:
            return None
        except TakesLong:
            job.needs_asking = True
            return None
        except PlanOutdated as change:
            job.times_outdated += 1
            if job.times_outdated == _MAX_OUTDATED:
                return contended(change.path, _MAX_OUTDATED)
            job.needs_asking = True
            return None
        except Refused as refusal:
            return refusal.copy()
        except OSError as error:
            return io_failure(error)
        except MissingObject as error:
            return damaged_history(str(error))
        except Exception as error:  # noqa: BLE001 - a defect of ours must not end the writer
            _log.exception("planning %s failed", call.method)
            return refuse(Kind.INTERNAL, f"internal error: {error!r}")

    def _prepare(
        self, workspace: Workspace, base: Base, job: EditJob, number: int, now: int
    ) -> Outcome:
        """Plan a call and seal it; only its result if there is nothing to record.

        A new session is recorded before its first transaction. Raises Refused, TakesLong,
        PlanOutdated.
        """
        prepared = self._seal(workspace, base, job, number, now)
        record = prepared.record
        changes = record.commits or record.clipboards or prepared.journal_if_unchanged
        if not changes or prepared.preview:
            prepared.close()
            if not changes and job.call.method == TRANSACTION:
                return refuse(
                    Kind.NO_CHANGE,
                    "the transaction as a whole changes nothing: after its calls all files are as "
                    "they were. Nothing was written; if that is not what you expected, read them "
                    "again.",
                )
            return prepared.result
        try:
            if job.session is not None:
                self._sessions.keep(job.session)
        except BaseException:
            prepared.close()
            raise
        return prepared

    def _seal(
        self, workspace: Workspace, base: Base, job: EditJob, number: int, now: int
    ) -> Prepared:
        call, session = job.call, job.session
        if call.method == OBSERVE:
            return observe(
                workspace,
                base,
                call,
                session,
                limits=self.limits,
                protection=self._state.protection,
                note=self._before_note(workspace, job, now),
                number=number,
                now=now,
            )
        draft = self._draft(workspace, base, job)
        try:
            self._check_nested(workspace, call, [item.target.path for item in draft.files])
            self._check_clipboards(session, draft.clipboards)
            return seal(
                draft,
                call,
                history=workspace.history(now, base.head),
                number=number,
                digest=call.digest,
                workspace=workspace.name,
                worktree=workspace.worktree,
                session=session,
            )
        except BaseException:
            draft.close()
            raise

    def _before_note(self, workspace: Workspace, job: EditJob, now: int) -> BeforeNote | None:
        """The note that was taken before the observed tool ran. Raises TakesLong."""
        call = job.call
        use = call.params.get("use")
        if use is None or call.params["phase"] != "after":
            return None
        key = (workspace.name, call.session or "", note_id(use))
        noted = self._find_answered(key, job)
        if noted is None or now - noted.time > NOTE_SECONDS:
            return None
        return read_note(noted.reply)

    def _draft(self, workspace: Workspace, base: Base, job: EditJob) -> Draft:
        """Plan a call, or use the response. Raises Refused, TakesLong, PlanOutdated."""
        call, session, response = job.call, job.session, job.response
        limits, protection = self.limits, self._state.protection

        def plan(how: PlanDialect | Proposal = plan_directly) -> Draft:
            return plan_call(workspace, base, call, session, limits, protection, how)

        if isinstance(response, Refused) and call.needs_history and not job.times_outdated:
            # What was committed meanwhile would be taken for a change outside. Once: in a file that
            # others edit without a pause it is a conflict all the same.
            paths = [each.path for each in response.failures if each.path is not None]
            workspace.check_unchanged(job.asked_at, paths, ())
        if isinstance(response, Exception):
            raise response
        if call.needs_history:
            if not isinstance(response, Proposal):
                check_if_match(workspace, base, call, limits)  # refused without asking
                raise TakesLong
            paths = [file.path for file in response.files]
            workspace.check_unchanged(job.asked_at, paths, response.judged)
            if response.excludes != workspace.excludes.digest:  # it may keep what is excluded now
                raise PlanOutdated(paths[0] if paths else "")
            return plan(response)
        if isinstance(response, list):
            return plan(Replay(response))
        if job.planned:
            return plan()
        if call.size > WRITER_PLANNING_BYTES:
            raise TakesLong
        with limited(WRITER_PLANNING_S):
            return plan()

    def check_mode(self, workspace: Workspace, call: EditCall, session: Session | None) -> None:
        """Raises Refused if the mode forbids a call."""
        if call.is_persons_undo or call.method == OBSERVE:
            return  # observing writes no file
        if self._state.effective_mode(session, workspace) == RESTRICTED:
            raise refuse(
                Kind.TOOL_DISABLED,
                "Patch tool is disabled in Restricted mode. Use request_mode_upgrade to request "
                "write access.",
            )

    def _check_nested(self, workspace: Workspace, call: EditCall, paths: Sequence[str]) -> None:
        """Refuse paths in a restricted workspace that lies inside this one."""
        if call.is_persons_undo:
            return
        for inner, known in self._state.inside(workspace):
            path = next((each for each in paths if each.startswith(inner)), None)
            if path is not None and mode_at(self._state.now(), known.standing) == RESTRICTED:
                raise refuse(
                    Kind.PATH_PROTECTED,
                    f"{path}: it lies in the workspace {known.root}, which is restricted. Leave it "
                    "out, or ask the person to lift that: "
                    f"stet mode unrestricted -C {shlex.quote(known.root)}",
                    path=path,
                )

    def _check_writable(self, call: EditCall) -> None:
        if call.preview:
            return
        if self._state.read_only is not None:
            raise read_only(self._state.read_only)
        trouble = self._historian.trouble
        most = MAX_UNWRITTEN if trouble is not None else _MAX_BEHIND
        if self._journal.bytes > max(most, self._state.settings.checkpoint_bytes):
            raise history_unwritable(trouble)

    def _check_clipboards(self, session: Session | None, changes: Mapping[str, str]) -> None:
        if not changes:
            return
        if session is None:
            raise invalid(
                "clipboards belong to a session: name one in hello, e.g. session: 'conv-1'",
            )
        for name in changes:
            check_label("the clipboard name", name)
        check_clipboards(session, changes, self._state.settings.max_clipboard_bytes)

    def _find_answered(self, key: Key, job: EditJob) -> RequestRecord | None:
        """The record of an answered request. Raises TakesLong if the historian must be asked."""
        found = self._state.requests.get(key) or self._historian.remembered.find(key)
        if found is None and self._historian.remembered.may_be_old(key):
            if key not in job.recalled:
                if isinstance(job.response, Refused):
                    raise job.response  # nobody can say whether it was carried out: not twice
                job.old_request = key
                raise TakesLong
            found = job.recalled[key]
        return found

    def _replay(self, job: EditJob) -> EditResult | None:
        call = job.call
        if not call.once:
            return None
        record = self._find_answered(call.key, job)
        if record is None:
            return None
        if record.digest != call.digest:
            raise other_call(call.request)
        result = msgspec.msgpack.decode(record.reply, type=known_to_msgspec(EditResult))
        return msgspec.structs.replace(result, replayed=True, diff="")

    async def recall(self, job: EditJob) -> None:
        """Ask the historian for the record of the job's old request. Raises Refused."""
        key, job.old_request = job.old_request, None
        assert key is not None, "BUG: no old request"
        found = await self._historian.ask("answered call", key, list[RequestRecord])
        job.recalled[key] = found[0] if found else None
