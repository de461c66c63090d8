"""The grants that the daemon has to end: in step with the sessions that have them."""

from __future__ import annotations

from stetd.session.modes import RESTRICTED, UNRESTRICTED, Grant
from stetd.session.sessions import Session
from stetd.state.events import Events
from stetd.state.mode_records import Modes
from stetd.state.state import SessionRecord, State
from stetd.storage.disk import Disk
from stetd.storage.journal_format import ModeSet, SessionEnded, SessionOpened, WorkspaceState

SESSION = Session(workspace="w", name="s", mode=RESTRICTED, created=0, last_seen=0)
OVER = Grant(1.0, 0.0, "", 1.0)


def test_the_end_of_an_ended_sessions_grant_does_not_concern_the_next_of_its_name() -> None:
    """It would restrict a session that the person has made unrestricted since."""
    state, changes = State("", Disk()), list[object]()
    modes = Modes(state, Events(), changes.append)
    for record in (
        SessionOpened(SESSION),
        ModeSet("w", "s", RESTRICTED, OVER),
        SessionEnded("w", "s", None),
        SessionOpened(SESSION),
    ):
        state.apply(record)
    assert modes.due_in() is None
    modes.end_grants()
    assert [] == changes


def test_a_grant_that_is_over_is_ended_once() -> None:
    state, changes = State("", Disk()), list[object]()

    def change(record: SessionRecord) -> None:
        changes.append(record)
        state.apply(record)

    modes = Modes(state, Events(), change)
    state.apply(SessionOpened(SESSION))
    state.apply(ModeSet("w", "s", UNRESTRICTED, OVER))
    assert modes.due_in() == 0
    modes.end_grants()
    modes.end_grants()
    assert [ModeSet("w", "s", UNRESTRICTED)] == changes
    assert modes.due_in() is None


def test_a_start_from_a_checkpoint_knows_the_grants_of_sessions_and_workspaces() -> None:
    before = State("", Disk())
    before.known["w"] = WorkspaceState("w", "/w", RESTRICTED, None, 0)
    before.apply(SessionOpened(SESSION))
    before.apply(ModeSet("w", "s", RESTRICTED, OVER))
    before.apply(ModeSet("w", None, UNRESTRICTED, OVER))

    state = State("", Disk())
    state.load_checkpoint(before.checkpoint(1, 0))
    granted = {("w", "s"): (RESTRICTED, OVER), ("w", None): (UNRESTRICTED, OVER)}
    assert granted == before.granted == state.granted
