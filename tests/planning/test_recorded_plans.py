"""A call that was planned elsewhere: what is still true of it here, and what is not any more."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stet.wire.failures import Kind, Refused, refuse
from stetd.editing.edits import Plan, SourceFile
from stetd.planning.planner import RecordedPlan, RecordingWorld, Replay
from stetd.processes.children import Declined
from stetd.state.workspace import PlanOutdated


class OneFile:
    """A world with one file, or one that refuses to read it."""

    root = "/w"
    clipboards: Mapping[str, str] = {}

    def __init__(self, refusal: str | None) -> None:
        self._refusal = refusal

    def read(self, path: str) -> SourceFile:
        if self._refusal is not None:
            raise refuse(Kind.FILE_TOO_LARGE, self._refusal, path=path)
        return SourceFile(path, b"text\n", 0o100644)

    look = read


@pytest.mark.parametrize("now", [None, "it has 3 bytes too many"])
def test_a_refusal_that_would_be_another_one_by_now_is_outdated(now: str | None) -> None:
    recording = RecordingWorld(OneFile("it has 2 bytes too many"))
    with pytest.raises(Refused) as caught:
        recording.read("a.txt")
    planned = RecordedPlan("patch", recording.asked, Declined.of(caught.value))
    with pytest.raises(PlanOutdated):
        Replay([planned])("patch", {}, OneFile(now))
    with pytest.raises(Refused, match="2 bytes too many"):
        Replay([planned])("patch", {}, OneFile("it has 2 bytes too many"))


def test_a_file_that_can_not_be_read_any_more_outdates_the_plan() -> None:
    recording = RecordingWorld(OneFile(None))
    recording.read("a.txt")
    with pytest.raises(PlanOutdated):
        Replay([RecordedPlan("patch", recording.asked, Plan((), ()))])(
            "patch", {}, OneFile("it is too large")
        )
