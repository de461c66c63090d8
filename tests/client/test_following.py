"""Following a history: what is missing is noticed and asked for, what came twice is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stet.calls import Call
from stet.session.event_stream import Follower
from stet.wire.events import AnyEvent, CommitEvent, LostEvent, ModeEvent
from stet.wire.results import CommitInfo, LogResult

MODE = ModeEvent("/w", None, "restricted", None, "restricted")


def commit(number: int) -> CommitInfo:
    parent = f"{number - 1:040}" if number else None
    return CommitInfo(commit=f"{number:040}", parent=parent, time="", kind="edit")


def event(number: int, root: str = "/w") -> CommitEvent:
    return CommitEvent(root, commit(number))


def events(oldest: int, newest: int) -> list[CommitEvent]:
    return [event(number) for number in range(oldest, newest + 1)]


def head(number: int) -> dict[str, str | None]:
    return {"/w": f"{number:040}"}


def following(number: int, *names: str) -> Follower:
    follower = Follower(names or ("commit", "mode"))
    follower.began(head(number))
    assert follower.behind == []
    return follower


class Log:
    """A log that tells these pages, and remembers what it was asked."""

    def __init__(self, *pages: tuple[int, int], more: bool = False) -> None:
        cursors = [f"{oldest:040}" for _, oldest in pages]
        self.cursors: list[str | None] = [*cursors[:-1], cursors[-1] if more else None]
        self.pages = pages
        self.asked: list[object] = []

    def __call__(self, call: Call[LogResult]) -> LogResult:
        number = len(self.asked)
        self.asked.append(call.params.get("cursor"))
        newest, oldest = self.pages[number]
        commits = [commit(n) for n in range(newest, oldest - 1, -1)]
        return LogResult(commits, self.cursors[number])


def given(follower: Follower) -> list[AnyEvent]:
    """The events that are ready, when nothing is missing."""
    assert follower.behind == []
    ready = list(follower.ready)
    follower.ready.clear()
    return ready


def taken(follower: Follower, *events: AnyEvent) -> list[AnyEvent]:
    for each in events:
        follower.take(each)
    return given(follower)


def caught_up(follower: Follower, newest: int, oldest: int = 0) -> list[AnyEvent]:
    """What is given once the log has told the commits of this workspace."""
    assert follower.behind == ["/w"]
    follower.catch_up("/w", Log((newest, oldest)))
    follower.caught_up()
    return given(follower)


def test_what_follows_is_given() -> None:
    assert taken(following(3), event(4), MODE, event(5)) == [event(4), MODE, event(5)]


def test_the_first_commit_of_a_history_follows_no_head() -> None:
    follower = Follower(("commit",))
    follower.began({"/w": None})
    assert taken(follower, event(0)) == [event(0)]


def test_a_missing_commit_is_asked_for_and_what_the_log_told_is_not_told_again() -> None:
    follower = following(3)
    follower.take(event(6))
    assert caught_up(follower, 8) == events(4, 8)
    assert taken(follower, *events(7, 10)) == events(9, 10)


def test_after_a_reconnect_what_happened_meanwhile_is_asked_for() -> None:
    follower = following(3)
    follower.began(head(3))
    assert given(follower) == []
    follower.began(head(5))
    assert caught_up(follower, 5) == events(4, 5)
    assert taken(follower, event(6)) == [event(6)]


@pytest.mark.parametrize("before", [head(2), {}])
def test_of_a_workspace_that_is_new_after_a_reconnect_commits_may_be_missing(
    before: dict[str, str | None],
) -> None:
    """Or none is: it may have been allowed again, and its commits are old."""
    follower = Follower(("commit",))
    follower.began(before)
    follower.began({**before, "/new": f"{1:040}", "/empty": None})
    assert follower.behind == []
    assert given(follower) == [LostEvent(None)]
    follower.began({**before, "/new": f"{1:040}", "/empty": None})
    assert given(follower) == []
    assert taken(follower, event(2, "/new")) == [event(2, "/new")]


def test_of_a_workspace_without_commits_none_are_missing_nor_to_who_wants_none() -> None:
    follower, uninterested = Follower(("commit",)), Follower(("mode",))
    for each in (follower, uninterested):
        each.began({})
    follower.began({"/empty": None})
    uninterested.began(head(2))
    assert given(follower) == given(uninterested) == []


def test_lost_events_that_were_no_commits_leave_nothing_to_fill() -> None:
    follower = following(3)
    follower.take(LostEvent(2))
    assert caught_up(follower, 3) == [LostEvent(2)]
    assert taken(follower, event(4)) == [event(4)]


def test_a_filling_that_was_interrupted_is_done_again() -> None:
    follower = following(3)
    follower.began(head(5))
    follower.began(head(6))
    assert caught_up(follower, 6) == events(4, 6)


def test_lost_events_are_told_after_a_filling_that_was_interrupted() -> None:
    follower = following(3)
    follower.take(LostEvent(2))
    follower.began(head(5))
    assert caught_up(follower, 5) == [*events(4, 5), LostEvent(2)]
    follower.caught_up()
    assert given(follower) == []


@pytest.mark.parametrize(
    ("expected", "names"),
    [([event(4)], ("commit",)), ([event(4), LostEvent(4)], ("commit", "mode"))],
)
def test_lost_events_are_made_up_for_if_they_can_only_be_commits(
    expected: list[AnyEvent], names: Sequence[str]
) -> None:
    follower = following(3, *names)
    follower.take(LostEvent(4))
    assert caught_up(follower, 4) == expected


def test_who_wants_no_commits_is_given_none() -> None:
    follower = following(3, "mode")
    follower.began(head(5))
    assert taken(follower, LostEvent(4)) == [LostEvent(4)]


@pytest.mark.parametrize("known", [3, None])
def test_what_is_too_far_back_is_lost_and_it_goes_on_from_there(known: int | None) -> None:
    follower = Follower(("commit",))
    follower.began({"/w": None} if known is None else head(known))
    follower.take(event(90))
    log = Log(*((n, n) for n in range(90, 80, -1)), more=True)
    follower.catch_up("/w", log)
    follower.caught_up()
    assert len(log.asked) == 10
    assert given(follower) == [LostEvent(None)]
    assert taken(follower, event(91)) == [event(91)]


def test_workspaces_are_followed_apart() -> None:
    follower = Follower(("commit",))
    follower.began({"/w": f"{3:040}", "/v": f"{7:040}"})
    told = [event(8, "/v"), event(4), event(0, "/new")]
    assert taken(follower, *told) == told


@pytest.mark.parametrize(
    ("expected", "known", "pages"),
    [
        (events(5, 9), f"{4:040}", [(9, 7), (6, 4)]),
        (events(0, 9), None, [(9, 5), (4, 0)]),
        ([LostEvent(None)], "rewritten", [(9, 5), (4, 0)]),
    ],
)
def test_catching_up_reads_pages_until_it_meets_what_is_known(
    expected: list[AnyEvent], known: str | None, pages: list[tuple[int, int]]
) -> None:
    follower = Follower(("commit",))
    follower.began({"/w": known})
    log = Log(*pages)
    follower.catch_up("/w", log)
    assert given(follower) == expected
    assert log.asked == [None, *log.cursors[:-1]]
