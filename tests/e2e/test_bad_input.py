"""Bad input through the socket: every error kind, and that a refusal changes nothing.

The cases are in ``bad_input/``. Each is sent in both encodings to one workspace that all of
them share; before and after every one a picture is taken of all files (with modes and times),
clipboards, mode, history, workspaces and sessions, and the two must be equal. Kinds that need
a machine in trouble (a full disk, a failed sync, a stop) are in test_trouble.py, frames that
can not be read in test_bad_frames.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.bad_input import greetings, histories, patches, paths, permissions, shapes
from e2e.bad_input.case import Case
from e2e.bad_input.world import SETTINGS, World
from e2e.rights_table import TOOL_DISABLED
from e2e.running_daemon import BOTH, DaemonProcess, Refusal, faultless
from stet.wire.failures import Kind, code_of

ALL_CASES = [
    *patches.PATCH_CASES,
    *paths.PATH_CASES,
    *paths.STALE_CASES,
    *permissions.PERMISSION_CASES,
    *greetings.HELLO_CASES,
    *histories.HISTORY_CASES,
    *shapes.COMMON_CASES,
    *shapes.shape_cases(),
]


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with faultless(SETTINGS) as process:
        yield process


@pytest.fixture(scope="module", params=BOTH, ids=str)
def world(request: pytest.FixtureRequest, daemon: DaemonProcess) -> World:
    return World(daemon, request.param)


def refused(world: World, case: Case) -> Refusal:
    """Send a case; what must hold for all of them is checked here."""
    client = world.speakers[case.speaker]()
    params = case.params(world) if callable(case.params) else case.params
    before = world.site.picture()
    refusal = client.refusal(case.method, **params)
    assert world.site.picture() == before
    assert case.kind == refusal.kind, refusal.message
    assert code_of(case.kind) == refusal.code
    for part in case.says(world) if callable(case.says) else case.says:
        assert part in refusal.message
    assert "\n".join(each["message"] for each in refusal.failures) == refusal.message
    return refusal


@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_refusal_says_what_and_why_and_changes_nothing(world: World, case: Case) -> None:
    refusal = refused(world, case)
    if case.kind is Kind.TOOL_DISABLED:
        assert refusal.message == TOOL_DISABLED
    expected = case.failures
    if expected is None:
        assert all(each["kind"] == case.kind for each in refusal.failures)
        return
    assert len(refusal.failures) == len(expected)
    for failure, wanted in zip(refusal.failures, expected, strict=True):
        assert wanted == {key: failure.get(key) for key in wanted}


#: Kinds that no method of this daemon gives yet; the rest of the dialects will.
LATER = {
    Kind.CONTEXT_NOT_FOUND,
    Kind.OCCURRENCE_OUT_OF_RANGE,
    Kind.ALREADY_EXISTS,
}
#: Covered in test_bad_frames.py.
FRAMES = {Kind.PARSE_ERROR, Kind.FRAME_TOO_LARGE}
#: Covered in test_trouble.py; connections that are too many in server/test_server.py.
TROUBLE = {
    Kind.CONTENDED,
    Kind.STORAGE_FULL,
    Kind.IO_ERROR,
    Kind.READ_ONLY,
    Kind.OUTCOME_UNKNOWN,
    Kind.OVERLOADED,
    Kind.SHUTTING_DOWN,
}
#: A defect of ours; there is no input known that gives it.
DEFECT = {Kind.INTERNAL}


def test_every_kind_of_the_contract_is_covered() -> None:
    here = {case.kind for case in ALL_CASES}
    assert set(Kind) == here | LATER | FRAMES | TROUBLE | DEFECT
    assert not here & (LATER | FRAMES | TROUBLE | DEFECT)
