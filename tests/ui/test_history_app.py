"""``stet ui`` with a pilot: what is shown, what keys do, and that it lives through a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

import stet
from e2e.running_daemon import DaemonProcess
from stet.service.spawn import Endpoint
from stet.terminal.log_lines import Burst
from stet.terminal.spans import Span
from stet.ui.app import HistoryApp, filters_of
from stet.ui.dialogs import Choose, Confirm
from stet.ui.timeline import Timeline, text_of
from stet.wire.results import CommitInfo

SIZES = [(80, 24), (160, 50)]
PATIENCE_S = 20.0


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    daemon = DaemonProcess()
    daemon.start()
    (daemon.base / "w").mkdir()
    daemon.control().call("workspace_allow", root=str(daemon.base / "w"))
    yield daemon
    daemon.close()


def endpoint(daemon: DaemonProcess, *, control: bool = False) -> Endpoint:
    return Endpoint(str(daemon.runtime), str(daemon.state), control)


def agent(daemon: DaemonProcess, session: str, name: str = "bot") -> stet.Session:
    return stet.connect(daemon.base / "w", session=session, agent=name, endpoint=endpoint(daemon))


def three_bursts(daemon: DaemonProcess) -> None:
    """Of three sessions, each a file of its own, the second one's between the others."""
    for session in ("one", "two", "three"):
        with agent(daemon, session) as s:
            s.patch(f"{session}.py", [stet.overwrite(f"value = '{session}'\n")])
            s.patch(f"{session}.py", [stet.append_eof(f"more = '{session}'\n")])


def run(
    daemon: DaemonProcess,
    size: tuple[int, int],
    story: Callable[..., Awaitable[None]],
    inside: str = "",
) -> None:
    async def main() -> None:
        app = HistoryApp(str(daemon.base / "w" / inside), endpoint(daemon, control=True))
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.timeline.rows, "no edits are shown")
            await story(app, pilot)

    asyncio.run(main())


async def until(pilot: Pilot[None], holds: Callable[[], object], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        await pilot.pause(0.02)


def shown(app: HistoryApp) -> str:
    return str(app.details.query_one("#text", Static).visual)


def subjects(app: HistoryApp) -> list[str]:
    return [each.message for each in app.timeline.commits]


async def select(app: HistoryApp, pilot: Pilot[None], subject: str) -> None:
    await pilot.press("home")
    while app.timeline.selected is None or subject not in app.timeline.selected.message:
        await pilot.press("down")


@pytest.mark.parametrize("size", SIZES)
def test_edits_are_shown_by_burst_with_their_diff(
    daemon: DaemonProcess, size: tuple[int, int]
) -> None:
    three_bursts(daemon)

    async def story(app: HistoryApp, pilot: Pilot[None]) -> None:
        headings = [row for row in app.timeline.rows if isinstance(row, Burst)]
        assert [each.commits[0].session for each in headings] == ["three", "two", "one"]
        await until(pilot, lambda: "more = 'three'" in shown(app), "the newest edit's diff")
        await pilot.press("down")
        await until(pilot, lambda: "value = 'three'" in shown(app), "the one below")
        await until(
            pilot,
            lambda: "three.py  + mo" in app.timeline.render_line(1).text,
            "its first changed line",
        )

    run(daemon, size, story)


def test_the_middle_one_of_three_bursts_is_undone_as_one(daemon: DaemonProcess) -> None:
    three_bursts(daemon)
    workspace = daemon.base / "w"

    async def story(app: HistoryApp, pilot: Pilot[None]) -> None:
        await select(app, pilot, "two.py")
        await pilot.press("space", "space", "u")
        await until(pilot, lambda: bool(app.screen.query("#lines")), "nothing is asked")
        assert (workspace / "two.py").exists()
        assert "more = 'two'" in str(app.screen.query_one("#lines", Static).visual)
        await pilot.press("enter")
        await until(pilot, lambda: not (workspace / "two.py").exists(), "nothing was undone")
        await until(pilot, lambda: "undo" in subjects(app)[0], "the undo is not shown")

    run(daemon, (80, 24), story)
    assert {path.name for path in workspace.iterdir()} == {"one.py", "three.py"}


def test_what_conflicts_is_shown_and_changes_nothing(daemon: DaemonProcess) -> None:
    with agent(daemon, "one") as s:
        s.patch("a.py", [stet.overwrite("x = 1\n")])
        s.patch("a.py", [stet.replace("x = 1", "x = 2")])
        s.patch("a.py", [stet.replace("x = 2", "x = 3")])

    async def story(app: HistoryApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "u")
        await until(pilot, lambda: bool(app.screen.query("#lines")), "nothing is shown")
        assert "a.py" in str(app.screen.query_one("#lines", Static).visual)
        await pilot.press("enter")
        await pilot.press("escape")

    run(daemon, (80, 24), story)
    assert (daemon.base / "w" / "a.py").read_text() == "x = 3\n"


def test_new_edits_come_by_themselves_through_a_restart(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async def story(app: HistoryApp, pilot: Pilot[None]) -> None:
        with agent(daemon, "four") as s:
            s.patch("four.py", [stet.overwrite("4\n")])
        await until(pilot, lambda: "four.py" in subjects(app)[0], "an edit is not shown")
        await asyncio.to_thread(daemon.restart)
        with agent(daemon, "five") as s:
            s.patch("five.py", [stet.overwrite("5\n")])
        await until(pilot, lambda: "five.py" in subjects(app)[0], "none after the restart")

    run(daemon, (80, 24), story)


def test_a_request_pops_up_and_is_decided(daemon: DaemonProcess) -> None:
    three_bursts(daemon)
    with agent(daemon, "asks") as s:
        s.mode_set("restricted")

        async def story(app: HistoryApp, pilot: Pilot[None]) -> None:
            await asyncio.to_thread(s.request_mode_upgrade, "the tests need it")
            await until(pilot, lambda: isinstance(app.screen, Choose), "nobody is asked")
            await pilot.press("enter")  # the first: for 30 minutes
            await until(pilot, lambda: not isinstance(app.screen, Choose), "it stays")
            await until(pilot, lambda: s.mode_get().mode == "unrestricted", "it is not lifted")

        run(daemon, (80, 24), story)
        assert s.mode_get().session_until is not None


def test_a_search_shows_what_it_finds_and_escape_ends_it(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async def story(app: HistoryApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"session:two value")
        await until(pilot, lambda: len(app.timeline.commits) == 1, "it is not searched")
        assert app.timeline.commits[0].session == "two"
        await pilot.press("slash")
        assert app.query_one("#search", Input).value.endswith("value/")
        await pilot.press("escape")
        await until(pilot, lambda: len(app.timeline.commits) == 6, "the search stays")
        assert not app.query_one("#search", Input).has_class("shown")

    run(daemon, (80, 24), story)


def test_what_is_typed_right_after_a_slash_goes_into_the_search(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async def story(app: HistoryApp, pilot: Pilot[None]) -> None:
        for key, character in (("slash", "/"), ("t", "t"), ("w", "w"), ("o", "o")):
            app.post_message(events.Key(key, character))
        search = app.query_one("#search", Input)
        await until(pilot, lambda: search.value == "two", "some of it was taken for keys")

    run(daemon, (80, 24), story)


@pytest.mark.parametrize("inside", ["", "sub"])
def test_a_file_is_restored_blamed_and_a_commit_pinned(daemon: DaemonProcess, inside: str) -> None:
    (daemon.base / "w" / "sub").mkdir()
    three_bursts(daemon)

    async def story(app: HistoryApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "o")
        await until(pilot, lambda: isinstance(app.screen, Confirm), "nothing is asked")
        await pilot.press("enter")
        path = daemon.base / "w" / "three.py"
        await until(pilot, lambda: path.read_text() == "value = 'three'\n", "not restored")
        await until(pilot, lambda: "restore" in subjects(app)[0], "the restore is not shown")
        await pilot.press("b")
        await until(pilot, lambda: "bot" in shown(app), "no blame")
        await pilot.press("p", *"good", "enter")
        with agent(daemon, "one") as s:
            await until(pilot, lambda: s.pin_list().pins, "no pin")

    run(daemon, (160, 50), story, inside)


def test_the_mode_is_set(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async def story(app: HistoryApp, pilot: Pilot[None]) -> None:
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, Choose), "nothing is asked")
        app.screen.query_one(OptionList).highlighted = 0
        await pilot.press("enter")
        where = app.query_one("#where", Static)
        await until(pilot, lambda: "   restricted" in str(where.visual), "the mode is not shown")

    run(daemon, (80, 24), story)


def test_a_search_is_read_as_path_filters_and_words() -> None:
    assert filters_of("path:a.py agent:bot two words") == (
        "a.py",
        {"agent": "bot", "text": "two words"},
    )
    assert filters_of('"an open') == (None, {"text": '"an open'})
    assert filters_of("session:") == (None, {})


def commit(number: int) -> CommitInfo:
    return CommitInfo(
        commit=f"{number:040x}",
        parent=None,
        time="2026-11-23T10:00:00Z",
        kind="edit",
        method="patch",
        agent="bot",
        session=f"s{number // 7 % 5}",
        message=f"patch file{number}.py: 1 edit",
    )


def test_rows_of_a_long_history_are_made_once_and_drawn_when_seen() -> None:
    timeline = Timeline()
    timeline.add(commit(number) for number in range(100_000))

    assert len(timeline.commits) == 100_000
    assert sum(isinstance(row, Burst) for row in timeline.rows) == 100_000 // 7 + 1


@pytest.mark.parametrize("light", [False, True])
def test_it_is_as_light_as_the_terminal(daemon: DaemonProcess, light: bool) -> None:
    app = HistoryApp(str(daemon.base / "w"), endpoint(daemon, control=True), light=light)

    assert app.current_theme.dark is not light
    assert str(text_of((Span("x", "yellow"),), dark=not light).spans[0].style) == (
        "#7a4d00" if light else "yellow"
    )
