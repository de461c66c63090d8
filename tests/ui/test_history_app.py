"""``stet ui`` with a pilot: what is shown, what keys do, and that it lives through a restart."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from rich.color import Color
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

import stet
from e2e.running_daemon import DaemonProcess, running
from stet.service.spawn import Endpoint
from stet.terminal.log_lines import Burst
from stet.terminal.spans import _NAME_STYLES, Span
from stet.ui.app import PAGE, HistoryApp, filters_of
from stet.ui.details import diff_lines
from stet.ui.dialogs import Choose, Confirm
from stet.ui.timeline import Timeline, text_of
from stet.wire.results import CommitInfo, LogResult

SIZES = [(80, 24), (160, 50)]
PATIENCE_S = 60.0


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with running() as daemon:
        (daemon.base / "w").mkdir()
        daemon.control().call("workspace_allow", root=str(daemon.base / "w"))
        yield daemon


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


@asynccontextmanager
async def opened(
    daemon: DaemonProcess, size: tuple[int, int] = (80, 24), inside: str = ""
) -> AsyncIterator[tuple[HistoryApp, Pilot[None]]]:
    app = HistoryApp(str(daemon.base / "w" / inside), endpoint(daemon, control=True))
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.timeline.rows, "no edits are shown")
        yield app, pilot


async def until(pilot: Pilot[None], holds: Callable[[], object], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        await pilot.pause(0.02)


def shown(app: HistoryApp) -> str:
    return str(app.details.query_one("#text", Static).visual)


def edits_of(timeline: Timeline) -> list[CommitInfo]:
    return [row for row in timeline.rows if isinstance(row, CommitInfo)]


def subjects(app: HistoryApp) -> list[str]:
    return [each.message for each in edits_of(app.timeline)]


def on_screen(app: HistoryApp) -> list[str]:
    """The lines of the terminal."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def says(app: HistoryApp, text: str) -> bool:
    return any(text in line for line in on_screen(app))


async def select(app: HistoryApp, pilot: Pilot[None], subject: str) -> None:
    await pilot.press("home")
    while app.timeline.selected is None or subject not in app.timeline.selected.message:
        await pilot.press("down")


@pytest.mark.parametrize("size", SIZES)
async def test_edits_are_shown_by_burst_with_their_diff(
    daemon: DaemonProcess, size: tuple[int, int]
) -> None:
    three_bursts(daemon)

    async with opened(daemon, size) as (app, pilot):
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


async def test_the_middle_one_of_three_bursts_is_undone_as_one(daemon: DaemonProcess) -> None:
    three_bursts(daemon)
    workspace = daemon.base / "w"

    async with opened(daemon) as (app, pilot):
        await select(app, pilot, "two.py")
        await pilot.press("space", "up", "space")  # marked, and not any more
        assert not app.timeline.marked
        await select(app, pilot, "two.py")
        await pilot.press("space", "space", "u")
        await until(pilot, lambda: bool(app.screen.query("#lines")), "nothing is asked")
        assert (workspace / "two.py").exists()
        assert "more = 'two'" in str(app.screen.query_one("#lines", Static).visual)
        await pilot.press("enter")
        await until(pilot, lambda: not (workspace / "two.py").exists(), "nothing was undone")
        await until(pilot, lambda: "undo" in subjects(app)[0], "the undo is not shown")
        await until(pilot, lambda: not app.timeline.marked, "what was undone stays marked")
    assert {path.name for path in workspace.iterdir()} == {"one.py", "three.py"}


async def test_an_undo_far_down_in_the_list_stays_there(daemon: DaemonProcess) -> None:
    with agent(daemon, "one") as s:
        for number in range(PAGE + 20):
            s.patch(f"{number}.py", [stet.overwrite("x\n")])

    async with opened(daemon) as (app, pilot):
        await pilot.press("end")
        await until(pilot, lambda: len(edits_of(app.timeline)) == PAGE + 20, "no second page")
        await pilot.press("end", "u")
        await until(pilot, lambda: isinstance(app.screen, Confirm), "nothing is asked")
        await pilot.press("enter")
        await until(pilot, lambda: "undo" in subjects(app)[0], "the undo is not shown")
        selected = app.timeline.selected
        assert selected is not None
        assert selected.files[0].path == "0.py"
        assert selected.reverted_by is not None


@pytest.mark.parametrize("key", ["R", "o"])
async def test_what_changed_while_it_was_asked_is_shown_before_it_is_done(
    daemon: DaemonProcess, key: str
) -> None:
    three_bursts(daemon)
    path = daemon.base / "w" / "three.py"

    async with opened(daemon, (80, 40)) as (app, pilot):

        def asked(text: str) -> Callable[[], bool]:
            return lambda: bool(app.screen.query("#lines")) and says(app, text)

        await pilot.press("down", key)  # on the older edit of three.py
        await until(pilot, asked("-more = 'three'"), "nothing is asked")
        with agent(daemon, "four") as s:
            s.patch("three.py", [stet.append_eof("last = 'four'\n")])
        await pilot.press("enter")
        await until(pilot, asked("-last = 'four'"), "it is done unseen")
        assert says(app, "Changed meanwhile")
        assert "four" in path.read_text()
        await pilot.press("enter")
        await until(pilot, lambda: not path.exists() or "four" not in path.read_text(), "not done")


async def test_what_conflicts_is_shown_and_changes_nothing(daemon: DaemonProcess) -> None:
    with agent(daemon, "one") as s:
        s.patch("a.py", [stet.overwrite("x = 1\n")])
        s.patch("a.py", [stet.replace("x = 1", "x = 2")])
        s.patch("a.py", [stet.replace("x = 2", "x = 3")])

    async with opened(daemon) as (app, pilot):
        await pilot.press("down", "u")
        await until(pilot, lambda: bool(app.screen.query("#lines")), "nothing is shown")
        assert "a.py" in str(app.screen.query_one("#lines", Static).visual)
        await pilot.press("enter")
        await pilot.press("escape")
    assert (daemon.base / "w" / "a.py").read_text() == "x = 3\n"


async def test_new_edits_come_by_themselves_through_a_restart(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        with agent(daemon, "four") as s:
            s.patch("four.py", [stet.overwrite("4\n")])
        await until(pilot, lambda: "four.py" in subjects(app)[0], "an edit is not shown")
        await asyncio.to_thread(daemon.restart)
        with agent(daemon, "five") as s:
            s.patch("five.py", [stet.overwrite("5\n")])
        await until(pilot, lambda: "five.py" in subjects(app)[0], "none after the restart")


async def test_a_request_pops_up_and_is_decided(daemon: DaemonProcess) -> None:
    three_bursts(daemon)
    with agent(daemon, "asks") as s:
        s.mode_set("restricted")

        async with opened(daemon) as (app, pilot):
            await asyncio.to_thread(s.request_mode_upgrade, "the tests need it")
            await until(pilot, lambda: isinstance(app.screen, Choose), "nobody is asked")
            await pilot.press("down", "down", "enter")  # below "decide later": for 30 minutes
            await until(pilot, lambda: not isinstance(app.screen, Choose), "it stays")
            await until(pilot, lambda: s.mode_get().mode == "unrestricted", "it is not lifted")
        assert s.mode_get().session_until is not None


async def test_a_search_shows_what_it_finds_and_escape_ends_it(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        await pilot.press("slash", *"session:two value")
        await until(pilot, lambda: len(edits_of(app.timeline)) == 1, "it is not searched")
        assert edits_of(app.timeline)[0].session == "two"
        await pilot.press("slash")
        assert app.query_one("#search", Input).value.endswith("value/")
        await pilot.press("escape")
        await until(pilot, lambda: len(edits_of(app.timeline)) == 6, "the search stays")
        assert not app.query_one("#search", Input).has_class("shown")


async def test_what_is_typed_right_after_a_slash_goes_into_a_search(
    daemon: DaemonProcess,
) -> None:
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        for key, character in (("slash", "/"), ("t", "t"), ("w", "w"), ("o", "o")):
            app.post_message(events.Key(key, character))
        search = app.query_one("#search", Input)
        await until(pilot, lambda: search.value == "two", "some of it was taken for keys")


@pytest.mark.parametrize("inside", ["", "sub"])
async def test_a_file_is_restored_and_blamed_and_a_commit_pinned(
    daemon: DaemonProcess, inside: str
) -> None:
    (daemon.base / "w" / "sub").mkdir()
    three_bursts(daemon)

    async with opened(daemon, (160, 50), inside) as (app, pilot):
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


async def test_the_mode_is_set(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, Choose), "nothing is asked")
        app.screen.query_one(OptionList).highlighted = 0
        await pilot.press("enter")
        where = app.query_one("#where", Static)
        await until(pilot, lambda: "   restricted" in str(where.visual), "the mode is not shown")
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, Choose), "nothing is asked")
        app.screen.query_one(OptionList).highlighted = 2
        await pilot.press("enter")
        await until(pilot, lambda: "   unrestricted" in str(where.visual), "the mode is not shown")
    with agent(daemon, "one") as s:
        assert s.mode_get().workspace_until is not None, "thirty minutes never end"


def test_a_search_is_read_as_path_filters_and_words() -> None:
    found = filters_of("path:a.py agent:bot two words")
    assert found == {"agent": "bot", "text": "two words", "path": "a.py"}
    assert filters_of('session:"a b" since:2h') == {"session": "a b", "since": "2h"}
    assert filters_of("session:") == {}


@pytest.mark.parametrize("text", ['print("x")', r"c:\new", '"an open', "f(path: str, agent: x)"])
def test_what_looks_like_code_is_searched_as_it_is(text: str) -> None:
    assert filters_of(text) == {"text": text}


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

    assert len(edits_of(timeline)) == 100_000
    assert sum(isinstance(row, Burst) for row in timeline.rows) == 100_000 // 7 + 1


def test_no_agent_has_the_colour_of_what_was_removed(daemon: DaemonProcess) -> None:
    theme = HistoryApp(str(daemon.base / "w"), endpoint(daemon, control=True)).ansi_theme
    red, *names = (Color.parse(name).get_truecolor(theme) for name in ("red", *_NAME_STYLES))

    assert red not in names
    assert len({*names}) == len(names)


@pytest.mark.parametrize("light", [False, True])
def test_it_is_as_light_as_the_terminal(daemon: DaemonProcess, light: bool) -> None:
    app = HistoryApp(str(daemon.base / "w"), endpoint(daemon, control=True), light=light)

    assert app.current_theme.dark is not light
    assert str(text_of((Span("x", "yellow"),), dark=not light).spans[0].style) == (
        "#7a4d00" if light else "yellow"
    )


# -- what is typed, shown and kept


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ('say("two")', ["sub/two.py"]),
        ("since:2h path:sub", ["sub/two.py"]),
        ("until:1h", []),
        ("kind:edit session:one", ["one.py"]),
    ],
)
async def test_searches_go_by_what_the_list_shows(
    daemon: DaemonProcess, typed: str, found: list[str]
) -> None:
    with agent(daemon, "one") as s:
        s.patch("one.py", [stet.overwrite("say('one')\n")])
    with agent(daemon, "two") as s:
        s.patch("sub/two.py", [stet.overwrite('say("two")\n')])

    async with opened(daemon, inside="sub") as (app, pilot):
        app.action_search()
        app.query_one("#search", Input).value = typed
        await until(
            pilot,
            lambda: [c.files[0].path for c in edits_of(app.timeline)] == found,
            f"{typed} finds {subjects(app)}",
        )


async def test_a_time_that_is_not_typed_to_its_end_ends_nothing(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        app.action_search()
        search = app.query_one("#search", Input)
        search.value = "since:2026-"
        await until(pilot, lambda: "is no time" in notes(app), "it is not said")
        assert len(edits_of(app.timeline)) == 6
        search.value = "since:2026-01-01 session:two"
        await until(pilot, lambda: len(edits_of(app.timeline)) == 2, "it is not searched")
        assert not notes(app)


def notes(app: HistoryApp) -> str:
    """What is said at the edge of the screen."""
    return " ".join(each.message for each in app._notifications)


async def test_a_search_goes_on_over_pages_without_a_commit(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_bursts(daemon)
    page = HistoryApp._page

    async def searching(app: HistoryApp, cursor: str | None) -> LogResult | None:
        found = await page(app, None)
        assert found is not None
        if not app._search:
            return found
        number = int(cursor or 0)
        return LogResult([], str(number + 1)) if number < 3 else LogResult(found.commits, None)

    monkeypatch.setattr(HistoryApp, "_page", searching)

    async with opened(daemon) as (app, pilot):
        app.action_search()
        app.query_one("#search", Input).value = "value"
        await until(pilot, lambda: len(edits_of(app.timeline)) == 3, "it gives up")
        assert app.timeline.selected is not None
        await until(pilot, lambda: "value = 'three'" in shown(app), "none is selected")


async def test_a_slow_answer_to_an_earlier_search_is_not_shown(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_bursts(daemon)
    page, answers = HistoryApp._page, asyncio.Event()

    async def slow(app: HistoryApp, cursor: str | None) -> LogResult | None:
        found = await page(app, cursor)
        if app._search.get("text") == "two":
            await answers.wait()
        return found

    async with opened(daemon) as (app, pilot):
        monkeypatch.setattr(HistoryApp, "_page", slow)
        app._search = filters_of("two")
        loading = asyncio.create_task(app._load())
        await pilot.pause(0.2)
        app._search = filters_of("session:one")
        await app._load()
        answers.set()
        await loading
        assert {each.session for each in edits_of(app.timeline)} == {"one"}


async def test_a_daemon_that_hangs_is_told_and_keys_still_work(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_bursts(daemon)
    monkeypatch.setattr("stet.ui.app._SILENT_S", 0.3)

    async with opened(daemon, (160, 50)) as (app, pilot):
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            await pilot.press("a", "u")
            await until(pilot, lambda: says(app, "No answer from the daemon"), "nothing is told")
            await pilot.press("question_mark")
            await until(pilot, lambda: says(app, "the other side"), "a key is not obeyed")
        finally:
            daemon.process.send_signal(signal.SIGCONT)


async def test_home_shows_what_came_while_somebody_read_further_down(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stet.ui.app._FOLLOWED", 3)
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        await pilot.press("end")
        with agent(daemon, "four") as s:
            s.patch("four.py", [stet.overwrite("4\n")])
        await until(pilot, lambda: says(app, "Home shows them"), "nothing is said")
        assert "three.py" in subjects(app)[0]
        await pilot.press("home")
        await until(pilot, lambda: "four.py" in subjects(app)[0], "Home does not show it")


async def test_marks_and_the_place_in_a_diff_stay_when_edits_come(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stet.ui.app.PAGE", 2)
    three_bursts(daemon)
    with agent(daemon, "long") as s:
        s.patch("long.py", [stet.overwrite("".join(f"line_{n} = {n}\n" for n in range(100)))])

    async with opened(daemon) as (app, pilot):
        await until(pilot, lambda: len(edits_of(app.timeline)) == 7, "not all are loaded")
        await pilot.press("end", "space", "home")
        await until(pilot, lambda: "line_99" in shown(app), "no diff")
        app.details.scroll_to(y=30, animate=False)
        with agent(daemon, "four") as s:
            s.patch("four.py", [stet.overwrite("4\n")])
        await until(pilot, lambda: "four.py" in subjects(app)[0], "an edit is not shown")
        await pilot.pause(0.3)
        assert app.details.scroll_offset.y == 30
        assert len(app.timeline.marked) == 1
        assert says(app, "1 marked")
        await pilot.press("escape")
        await until(pilot, lambda: not says(app, "1 marked"), "the marks stay")
        assert not any(line.startswith("*") for line in on_screen(app))


async def test_a_diff_takes_the_room_that_there_is(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        await until(pilot, lambda: says(app, "+more = 'three'"), "no diff")
        await pilot.resize_terminal(170, 40)
        side_by_side = " │ +more = 'three'"
        await until(pilot, lambda: says(app, side_by_side), "it stays narrow")
        await pilot.resize_terminal(40, 24)
        await until(
            pilot,
            lambda: any(line.startswith("+more = 'three'") for line in on_screen(app)),
            "on a narrow terminal the sides are not one above the other",
        )
        assert says(app, "three.py  + ")
        assert "unrestricted" in on_screen(app)[0]


@pytest.mark.parametrize("size", [(40, 12), (80, 24)])
async def test_all_of_what_comes_of_an_undo_can_be_seen(
    daemon: DaemonProcess, size: tuple[int, int]
) -> None:
    with agent(daemon, "one") as s:
        s.patch("a.py", [stet.overwrite("".join(f"line_{n} = {n}\n" for n in range(60)))])

    async with opened(daemon, size) as (app, pilot):
        await pilot.press("u")
        await until(pilot, lambda: isinstance(app.screen, Confirm), "nothing is asked")
        await until(pilot, lambda: says(app, "Enter: do it"), "the keys are out of sight")
        await pilot.press(*["down"] * 70)
        await until(pilot, lambda: says(app, "-line_59 = 59"), "the end is out of reach")
        assert says(app, "Enter: do it")


def test_what_is_long_is_cut_before_it_is_coloured() -> None:
    lines = "".join(f"+line {number}\n" for number in range(50_000))
    text = f"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,50001 @@\n{lines}"
    began = time.process_time()
    for width in (60, 120):
        found = list(diff_lines(f"{text}+{'x' * 1_000_000}\n", width, dark=True))
        assert len(found) < 1_200
        assert "more lines" in "".join(span.text for span in found[-1])
    assert time.process_time() - began < 2


def test_removed_lines_are_beside_those_that_were_added_for_them() -> None:
    header = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,5 +1,3 @@\n"
    text = f"{header} same\n-one\n-two\n+1\n last\n-gone\n"
    rows = ["".join(span.text for span in line) for line in diff_lines(text, 120, dark=True)]
    sides = [[side.strip() for side in row.split("│")] for row in rows if "│" in row]
    assert sides == [["same"] * 2, ["-one", "+1"], ["-two", ""], ["last"] * 2, ["-gone", ""]]


async def test_it_is_said_how_much_of_a_diff_is_left_out(daemon: DaemonProcess) -> None:
    with agent(daemon, "one") as s:
        s.patch("long.txt", [stet.overwrite("line\n" * 2_000)])

    async with opened(daemon) as (app, pilot):
        await until(pilot, lambda: "long.txt" in shown(app), "it is not shown")
        assert "1,0" in shown(app).splitlines()[-1]
        assert shown(app).endswith(" more lines")


async def test_tabs_and_names_of_files_are_shown_as_they_are(daemon: DaemonProcess) -> None:
    with agent(daemon, "one") as s:
        s.patch("说明.py", [stet.overwrite("\ta\tb\n")])

    async with opened(daemon, (160, 24)) as (app, pilot):
        await until(pilot, lambda: says(app, "── 说明.py ─"), "the name is git's")
        await until(pilot, lambda: says(app, "说明.py  + a b  +1"), "no first line")
        assert not any("\t" in line for line in on_screen(app))


async def test_a_long_name_hides_neither_the_number_of_edits_nor_their_time(
    daemon: DaemonProcess,
) -> None:
    with agent(daemon, "b" * 60, "a" * 60) as s:
        s.patch("a.py", [stet.overwrite("x\n")])

    async with opened(daemon) as (app, pilot):
        await until(pilot, lambda: says(app, "a…  1 edit  "), "the heading is cut off")


async def test_after_a_forget_the_list_is_that_of_the_log(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        await until(pilot, lambda: says(app, "unrestricted"), "it does not follow yet")
        with stet.connect(
            daemon.base / "w", control=True, endpoint=endpoint(daemon, control=True)
        ) as person:
            await asyncio.to_thread(person.forget, "one.py")
            await until(pilot, lambda: "forget" in subjects(app)[0], "it is not shown")
            assert edits_of(app.timeline) == person.log().commits


async def test_what_was_not_undone_is_not_redone(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        await pilot.press("u")
        await until(pilot, lambda: isinstance(app.screen, Confirm), "nothing is asked")
        await pilot.press("enter")
        await until(pilot, lambda: "undo" in subjects(app)[0], "nothing was undone")
        await select(app, pilot, "two.py")
        await pilot.press("r")
        await until(pilot, lambda: says(app, "was not undone"), "another undo is redone")
        assert not isinstance(app.screen, Confirm)


# -- requests, modes and a daemon that comes and goes


@pytest.mark.parametrize("key", ["down", "up", "end", "pagedown"])
async def test_no_key_that_moves_in_the_list_decides_a_request_that_appears(
    daemon: DaemonProcess, key: str
) -> None:
    three_bursts(daemon)
    with agent(daemon, "asks") as s:
        s.mode_set("restricted")

        async with opened(daemon) as (app, pilot):
            await asyncio.to_thread(s.request_mode_upgrade, "now")
            await until(pilot, lambda: isinstance(app.screen, Choose), "nobody is asked")
            await pilot.press(key, "enter", "escape")
            await until(pilot, lambda: not isinstance(app.screen, Choose), "it stays")
            await pilot.press("m")
            await until(pilot, lambda: says(app, "asks for write access"), "it was decided")


async def test_enter_alone_decides_no_request_and_a_long_reason_hides_no_choice(
    daemon: DaemonProcess,
) -> None:
    three_bursts(daemon)
    with agent(daemon, "asks") as s:
        s.mode_set("restricted")

        async with opened(daemon) as (app, pilot):
            reason = "one\ntwo " + "more " * 380
            asked = await asyncio.to_thread(s.request_mode_upgrade, reason)
            await until(pilot, lambda: isinstance(app.screen, Choose), "nobody is asked")
            await pilot.press("enter")
            await pilot.pause(0.3)
            assert s.mode_get().mode == "restricted"
            assert says(app, "decide later")
            assert says(app, "two more more")

            await pilot.press("escape")
            await until(pilot, lambda: not isinstance(app.screen, Choose), "it stays")
            await pilot.press("m")
            await until(pilot, lambda: says(app, "asks for write access"), "not asked again")
            daemon.control().call(
                "upgrade_decide",
                request=asked.request,
                approve=False,
                workspace=str(daemon.base / "w"),
            )
            await until(
                pilot, lambda: not says(app, "asks for write access"), "what is decided is asked"
            )


async def test_what_was_asked_and_set_while_it_was_away_is_seen(daemon: DaemonProcess) -> None:
    three_bursts(daemon)
    with agent(daemon, "asks") as s:
        s.mode_set("restricted")
        root = str(daemon.base / "w")

        def restart() -> None:
            daemon.restart()
            control = daemon.control()
            control.call("mode_set", mode="restricted", scope="workspace", workspace=root)
            s.request_mode_upgrade("now")

        async with opened(daemon) as (app, pilot):
            await pilot.pause(0.5)
            await asyncio.to_thread(restart)
            await until(pilot, lambda: isinstance(app.screen, Choose), "nobody is asked")
            await until(pilot, lambda: says(app, "   restricted"), "the mode is not seen")


async def test_it_outlives_a_workspace_that_is_moved_and_comes_back(daemon: DaemonProcess) -> None:
    three_bursts(daemon)
    workspace, elsewhere = daemon.base / "w", daemon.base / "elsewhere"

    async with opened(daemon) as (app, pilot):
        await pilot.pause(0.5)
        workspace.rename(elsewhere)
        await asyncio.to_thread(daemon.restart)
        await pilot.pause(2)
        assert app.is_running
        await pilot.press("down")
        await until(pilot, lambda: "directory" in shown(app), "nothing is said")
        elsewhere.rename(workspace)
        with agent(daemon, "four") as s:
            s.patch("four.py", [stet.overwrite("4\n")])
        await until(pilot, lambda: "four.py" in subjects(app)[0], "it does not go on")


# -- boxes, and what goes on below them


async def test_a_file_chosen_while_the_list_goes_on_is_blamed(
    daemon: DaemonProcess,
) -> None:
    three_bursts(daemon)
    with agent(daemon, "both") as s:
        s.apply_patch(
            "*** Begin Patch\n*** Add File: a.py\n+a\n*** Add File: b.py\n+b\n*** End Patch\n"
        )

    async with opened(daemon, (160, 50)) as (app, pilot):
        await until(pilot, lambda: "b.py" in shown(app), "no diff")
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, Choose), "no file is to be chosen")
        app.timeline.post_message(Timeline.Selected(app.timeline.selected))
        await pilot.pause(0.3)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "@@" not in shown(app), "the diff stays")
        assert "b" in shown(app)


async def test_a_request_below_another_that_is_decided_meanwhile_is_closed(
    daemon: DaemonProcess,
) -> None:
    three_bursts(daemon)
    with agent(daemon, "first") as one, agent(daemon, "second") as two:
        one.mode_set("restricted")
        two.mode_set("restricted")

        async with opened(daemon) as (app, pilot):
            asked = await asyncio.to_thread(one.request_mode_upgrade, "a")
            await until(pilot, lambda: isinstance(app.screen, Choose), "nobody is asked")
            await asyncio.to_thread(two.request_mode_upgrade, "b")
            await until(pilot, lambda: len(app.screen_stack) == 3, "the second one is not shown")
            root = str(daemon.base / "w")
            daemon.control().call(
                "upgrade_decide", request=asked.request, approve=False, workspace=root
            )
            await pilot.pause(0.3)
            assert says(app, "second asks for write access")
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 1, "what is decided is asked")


async def test_a_choice_without_room_takes_every_key(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: bool(app.screen.query(OptionList)), "nothing is asked")
        for size in ((40, 3), (25, 2), (10, 3), (8, 5), (1, 1), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.press("down", "down", "pagedown", "pageup", "end", "home")


async def test_enter_twice_closes_one_dialog(daemon: DaemonProcess) -> None:
    three_bursts(daemon)

    async with opened(daemon) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: bool(app.screen.query(OptionList)), "nothing is asked")
        choices = app.screen.query_one(OptionList)
        choices.action_select()
        choices.action_select()
        await until(pilot, lambda: app._mode == "restricted", "the mode is not set")
        assert len(app.screen_stack) == 1
