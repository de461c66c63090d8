"""``stet requests``, ``approve``, ``deny`` and ``mode --for``, and asking from Python."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import re
import shlex
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import stet
from client.live import Installation
from client.test_watch import Watching
from stet.cli.usage import duration
from stet.terminal.access_lines import reason_lines, requests
from stet.terminal.spans import until
from stet.wire.results import UpgradeInfo

REASON = "the tests in tests/unit need the new signature, and nothing else will be touched by me"


@pytest.fixture
def ws(ws: Installation) -> Iterator[Installation]:
    """A restricted workspace, with nothing asked in it yet."""
    ws.write("a.txt", "one\n")
    yield ws
    for waiting in ws.json("requests")["requests"]:
        assert ws.stet("deny", waiting["request"]).returncode == 0


def session(ws: Installation, name: str = "conv-1", **more: Any) -> stet.Session:
    """An agent's session that is restricted."""
    opened = stet.connect(ws.workspace, session=name, agent="bot", endpoint=ws.endpoint(), **more)
    opened.mode_set("restricted")
    return opened


# -- the command line


def test_what_is_asked_is_listed_approved_and_may_be_used(ws: Installation) -> None:
    assert ws.stet("requests").stdout == "No request waits for you.\n"
    with session(ws) as agent:
        asked = agent.request_mode_upgrade(REASON)
        assert asked.request is not None
        run = ws.stet("requests")
        time = ws.json("requests")["requests"][0]["time"]
        assert run.stdout == f"{asked.request}  {time}  bot/conv-1\n  {ws.workspace}\n  {REASON}\n"
        approved = ws.stet("approve", asked.request[:6], "--note", "go on")
        assert (approved.returncode, approved.stderr) == (0, "")
        assert approved.stdout == f"bot/conv-1 may write  ({ws.workspace})\n"
        assert agent.request_mode_upgrade().note == "go on"
        agent.patch("a.txt", stet.replace("one", "two"))
    assert ws.json("requests") == {"requests": []}
    last = ws.stet("requests", "--all").stdout.splitlines()[-1]
    assert re.fullmatch(r"  approved \S+Z: go on", last)


def test_denying_says_who_stays_restricted(ws: Installation) -> None:
    with session(ws) as agent:
        asked = agent.request_mode_upgrade()
        run = ws.stet("deny", str(asked.request), "--note", "no")
        assert run.stdout == f"bot/conv-1 stays restricted  ({ws.workspace})\n"
        told = agent.request_mode_upgrade()
        assert (told.status, told.note) == ("denied", "no")
    again = ws.stet("deny", str(asked.request))
    assert again.returncode == 1
    assert f"request {asked.request} was denied already" in again.stderr


@pytest.mark.parametrize("decided", [False, True])
def test_a_refused_approval_names_a_command_for_its_own_workspace(
    ws: Installation, decided: bool
) -> None:
    """A request is decided from any directory; the command must not lift the mode of that one."""
    own = ws.another(f"asked in {decided}")
    with session(own) as agent:
        request = str(agent.request_mode_upgrade().request)
        if decided:
            assert ws.stet("deny", request).returncode == 0
        else:
            assert own.stet("mode", "restricted").returncode == 0
        assert ws.stet("mode", "restricted").returncode == 0
        said = ws.stet("approve", request).stderr.replace("restricted|unrestricted", "unrestricted")
        command = said.rpartition(": stet ")[2].partition("; the request")[0]
        assert ws.stet(*shlex.split(command)).returncode == 0
        assert ws.json("mode")["workspace_mode"] == "restricted"
        assert ws.stet("mode", "unrestricted").returncode == 0
        if not decided:
            assert ws.stet("approve", request).returncode == 0
        assert agent.mode_get().mode == "unrestricted"


def test_a_grant_and_its_end_are_shown(ws: Installation) -> None:
    with session(ws) as agent:
        asked = agent.request_mode_upgrade()
        run = ws.json("approve", str(asked.request), "--for", "2h")
        until = run["until"]
        assert ws.stet("mode", "--session", "conv-1").stdout == (
            f"unrestricted until {until}\n"
            f"  session:   unrestricted until {until}\n  workspace: unrestricted\n"
        )
    assert ws.stet("mode", "restricted").returncode == 0
    lifted = ws.json("mode", "unrestricted", "--for", "30m")
    assert lifted["until"] == lifted["workspace_until"]
    assert ws.stet("mode").stdout.startswith(f"unrestricted until {lifted['until']}\n")
    assert f"\nmode       unrestricted until {lifted['until']}\n" in ws.stet().stdout
    refused = ws.stet("mode", "unrestricted", "--session", "new", "--for", "30m")
    assert refused.returncode == 1
    assert "is unrestricted already" in refused.stderr


def test_a_session_that_is_not_there_is_told_of(ws: Installation) -> None:
    session(ws).close()
    looked = ws.stet("mode", "--session", "conv-l")
    assert (looked.returncode, looked.stdout) == (1, "")
    said = "stet: there is no session 'conv-l' here yet (near: conv-1); "
    assert looked.stderr == f"{said}stet sessions lists those that are there\n"
    assert "conv-l" not in ws.stet("sessions").stdout
    begun = ws.stet("mode", "restricted", "--session", "conv-l")
    assert begun.returncode == 0
    assert begun.stderr == f"{said}one of that name begins with this mode\n"
    assert ws.stet("mode", "restricted", "--session", "conv-l").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["approve"], "required"),
        (["approve", "abcd", "--for", "30"], "'30' is no duration; write 90s, 30m, 2h or 1d"),
        (["approve", "abcd", "--for", "-1m"], "expected one argument"),
        (["deny", "abcd", "--for", "1h"], "unrecognized arguments"),
        (["mode", "restricted", "--for", "1h"], "stet mode unrestricted --for 30m"),
        (["mode", "--for", "1h"], "stet mode unrestricted --for 30m"),
    ],
)
def test_wrong_usage_is_said(shared: Installation, arguments: list[str], says: str) -> None:
    run = shared.stet(*arguments)
    assert run.returncode == 2
    assert says in run.stderr


def test_an_unknown_id_is_refused(ws: Installation) -> None:
    run = ws.stet("approve", "abcdef")
    assert run.returncode == 1
    assert "there is no request 'abcdef'" in run.stderr


@pytest.mark.parametrize(
    ("expected", "text"),
    [(90.0, "90s"), (1800.0, "30m"), (7200.0, "2h"), (86400.0, "1d"), (1209600.0, "2w")],
)
def test_durations(expected: float, text: str) -> None:
    assert expected == duration(text)


@pytest.mark.parametrize(
    "text", ["", "30", "m", "0m", "-5m", "1.5h", "1h30m", "30 m", "1y", "\u0663m", "∞h"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no duration"):
        duration(text)


def test_on_a_terminal_of_80_columns_no_line_is_longer(ws: Installation) -> None:
    with session(ws, "a-session-with-a-name-that-goes-on-and-on-and-on-and-on-and-on-and-on") as a:
        a.request_mode_upgrade(REASON * 3 + "\n\n\x1b[31mred\u202e")
        shown = ws.on_terminal("requests", COLUMNS="80")
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) >= 6
    assert re.match(r"[0-9a-f]{12}  (just now|\d+ \w+ ago)  bot/a-session-.*…$", lines[0])
    assert lines[-1] == r"  \x1b[31mred\u202e"


def test_watch_tells_the_command_that_approves(ws: Installation) -> None:
    watching = Watching(ws)
    agent = session(ws)
    while "is now restricted" not in watching.said:  # until it has subscribed
        assert watching.process.poll() is None
        agent.mode_set("restricted")
        time.sleep(0.05)
    asked = agent.request_mode_upgrade("a\nb")
    watching.wait_for(f"stet approve {asked.request}, or stet deny {asked.request}")
    ws.stet("approve", str(asked.request), "--for", "1h", "--note", "yes")
    watching.wait_for("request of bot/conv-1 approved: yes")
    assert watching.end() == 0
    assert re.search(r"Z  bot/conv-1 asks for write access: a\\x0ab\n", watching.said)
    assert re.search(r"session conv-1 is now unrestricted until \S+Z\n", watching.said)
    agent.close()


# -- lines


NOW = datetime.datetime(2026, 11, 22, 12, 0, 0, tzinfo=datetime.UTC)


def info(**more: Any) -> UpgradeInfo:
    fields: dict[str, Any] = {
        "request": "abcdefabcdef", "workspace": "/ws", "session": "s", "agent": None,
        "reason": "", "time": "2026-11-22T11:57:00Z", "status": "pending", **more,
    }  # fmt: skip
    return UpgradeInfo(**fields)


def text_of(found: UpgradeInfo, width: int | None = 80) -> list[str]:
    return ["".join(span.text for span in line) for line in requests([found], NOW, width)]


def test_a_decided_request_says_when_until_when_and_why() -> None:
    decided = info(
        status="approved", decided="2026-11-22T11:58:00Z", note="ok", until="2026-11-22T12:28:00Z"
    )
    end = datetime.datetime(2026, 11, 22, 12, 28, tzinfo=datetime.UTC).astimezone()
    assert text_of(decided) == [
        "abcdefabcdef  3 min ago  s",
        "  /ws",
        f"  approved 2 min ago, until {end:%H:%M} (in 28 min): ok",
    ]


def test_an_agents_text_can_not_look_like_anything_else() -> None:
    found = info(agent="a\x1b[2J", reason="fine\nabcdefabcdef  now  person\n\r\x07", session="s\n")
    assert text_of(found) == [
        r"abcdefabcdef  3 min ago  a\x1b[2J/s\x0a",
        "  /ws",
        "  fine",
        "  abcdefabcdef  now  person",
        r"  \r\x07",
    ]


def test_a_long_reason_is_cut() -> None:
    lines = reason_lines("word " * 1000, 40)
    assert (len(lines), lines[-1]) == (12, "…")
    assert reason_lines("", 80) == []


@pytest.mark.parametrize(
    ("expected", "time"),
    [
        ("(in 90 s)", "2026-11-22T12:01:30Z"),
        ("(in 2 h)", "2026-11-22T14:10:00Z"),
        ("(in 3 d)", "2026-11-25T12:00:00Z"),
        ("(in 0 s)", "2026-11-22T11:59:00Z"),
    ],
)
def test_how_long_a_grant_lasts(expected: str, time: str) -> None:
    assert until(time, NOW).endswith(expected)
    assert until(time, None) == f" until {time}"


# -- Python


def test_a_wait_may_be_longer_than_the_timeout_of_a_session(ws: Installation) -> None:
    """The session gives up on a daemon that does not answer, not on a person who thinks."""
    with session(ws) as agent, session(ws, "other") as other:
        asked = agent.request_mode_upgrade("r")
        agent.timeout = 1.0
        later = threading.Timer(2.0, lambda: ws.stet("approve", str(asked.request)))
        later.start()
        answer = agent.request_mode_upgrade(wait=60)
        later.join()
        assert (answer.request, answer.status) == (asked.request, "approved")
        assert other.request_mode_upgrade(wait=0.1).status == "pending"


async def test_an_asyncio_session_goes_on_while_it_waits(ws: Installation) -> None:
    endpoint, person = ws.endpoint(), ws.endpoint(control=True)
    async with (
        stet.aio.connect(ws.workspace, "conv-1", "bot", endpoint=endpoint) as agent,
        stet.aio.connect(None, control=True, endpoint=person) as control,
    ):
        await agent.mode_set("restricted")
        agent.timeout, usual = 1.0, agent.timeout
        waiting = asyncio.create_task(agent.request_mode_upgrade("r", wait=60))
        while not (found := (await control.upgrade_list(status="pending")).requests):
            await asyncio.sleep(0.01)
        agent.timeout = usual
        assert (await agent.read("a.txt")).text == "one\n"
        await asyncio.sleep(1.5)
        decided = await control.upgrade_decide(found[0].request, False, note="no")
        assert decided.status == "denied"
        assert (await waiting).note == "no"
