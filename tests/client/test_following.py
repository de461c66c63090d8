"""Following a history: what is missing is noticed and asked for, what came twice is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stet.calls import Call
from stet.session.following import CaughtUp, Follower, Gap, catch_up
from stet.wire.events import AnyEvent, CommitEvent, LostEvent, ModeEvent
from stet.wire.results import CommitInfo, LogResult

MODE = ModeEvent("/w", None, "restricted", None, "restricted")


def commit(number: int) -> CommitInfo:
    parent = f"{number - 1:040}" if number else None
    return CommitInfo(commit=f"{number:040}", parent=parent, time="", kind="edit")


def event(number: int, root: str = "/w") -> CommitEvent:
    return CommitEvent(root, commit(number))


def head(number: int) -> dict[str, str | None]:
    return {"/w": f"{number:040}"}


def following(number: int, *names: str) -> Follower:
    follower = Follower(names or ("commit", "mode"))
    assert follower.began(head(number)) is None
    return follower


def caught_up(newest: int, oldest: int) -> CaughtUp:
    return CaughtUp([commit(n) for n in range(newest, oldest - 1, -1)], complete=True)


def page(newest: int, oldest: int, cursor: str | None) -> LogResult:
    return LogResult([commit(n) for n in range(newest, oldest - 1, -1)], cursor)


def test_what_follows_is_given() -> None:
    follower = following(3)
    assert follower.take(event(4)) == event(4)
    assert follower.take(MODE) == MODE
    assert follower.take(event(5)) == event(5)
    assert follower.last("/w") == f"{5:040}"


def test_the_first_commit_of_a_history_follows_no_head() -> None:
    follower = Follower(("commit",))
    follower.began({"/w": None})
    assert follower.take(event(0)) == event(0)


def test_a_missing_commit_is_asked_for_and_what_the_log_told_is_not_told_again() -> None:
    follower = following(3)
    assert follower.take(event(6)) == Gap(("/w",))
    assert follower.filled("/w", caught_up(8, 4)) == [event(n) for n in range(4, 9)]
    assert [follower.take(event(n)) for n in (7, 8, 9, 10)] == [None, None, event(9), event(10)]


def test_after_a_reconnect_what_happened_meanwhile_is_asked_for() -> None:
    follower = following(3)
    assert follower.began(head(3)) is None
    assert follower.began(head(5)) == Gap(("/w",))
    assert follower.last("/w") == f"{3:040}"
    assert follower.filled("/w", caught_up(5, 4)) == [event(4), event(5)]
    assert follower.take(event(6)) == event(6)


def test_lost_events_that_were_no_commits_leave_nothing_to_fill() -> None:
    follower = following(3)
    assert follower.take(LostEvent(2)) == Gap(("/w",), LostEvent(2))
    assert follower.filled("/w", CaughtUp([], complete=True)) == []
    assert follower.take(event(4)) == event(4)


def test_a_filling_that_was_interrupted_is_done_again() -> None:
    follower = following(3)
    assert follower.began(head(5)) == Gap(("/w",))
    assert follower.began(head(6)) == Gap(("/w",))
    assert follower.filled("/w", caught_up(6, 4)) == [event(4), event(5), event(6)]


def test_lost_events_are_made_up_for_if_they_can_only_be_commits() -> None:
    lost = LostEvent(4)
    assert following(3, "commit").take(lost) == Gap(("/w",))
    assert following(3, "commit", "mode").take(lost) == Gap(("/w",), lost)
    assert following(3, "mode").take(lost) == lost


def test_who_wants_no_commits_is_given_none() -> None:
    follower = following(3, "mode")
    assert follower.began(head(5)) is None


def test_what_is_too_far_back_is_lost_and_it_goes_on_from_there() -> None:
    follower = following(3)
    found: Sequence[AnyEvent] = follower.filled(
        "/w", CaughtUp([commit(n) for n in range(90, 80, -1)], complete=False)
    )
    assert found == [LostEvent(None)]
    assert follower.take(event(91)) == event(91)


def test_workspaces_are_followed_apart() -> None:
    follower = Follower(("commit",))
    follower.began({"/w": f"{3:040}", "/v": f"{7:040}"})
    assert follower.take(event(8, "/v")) == event(8, "/v")
    assert follower.take(event(4)) == event(4)
    assert follower.take(event(0, "/new")) == event(0, "/new")


@pytest.mark.parametrize(
    ("expected", "until", "pages"),
    [
        (caught_up(9, 5), f"{4:040}", [(9, 7), (6, 4)]),
        (caught_up(9, 0), None, [(9, 5), (4, 0)]),
        (CaughtUp([commit(n) for n in range(9, -1, -1)], False), "rewritten", [(9, 5), (4, 0)]),
    ],
)
def test_catching_up_reads_pages_until_it_meets_what_is_known(
    expected: CaughtUp, until: str | None, pages: list[tuple[int, int]]
) -> None:
    told = [page(newest, oldest, f"{oldest:040}") for newest, oldest in pages[:-1]]
    told.append(page(*pages[-1], None))
    asked: list[object] = []

    def ask(call: Call[LogResult]) -> LogResult:
        asked.append(call.params.get("cursor"))
        return told[len(asked) - 1]

    assert catch_up(ask, until) == expected
    assert asked == [None, *(each.cursor for each in told[:-1])]


@pytest.mark.parametrize("until", [f"{0:040}", None])
def test_catching_up_ends_somewhere(until: str | None) -> None:
    numbers = iter(range(100, 90, -1))

    def ask(call: Call[LogResult]) -> LogResult:
        number = next(numbers)
        return page(number, number, f"{number:040}")

    assert not catch_up(ask, until).complete
