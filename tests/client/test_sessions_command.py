"""``stet sessions``: listing and ending."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import stet
from client.live import installation
from stet.terminal.access_lines import ended, sessions
from stet.terminal.spans import Line, line_columns
from stet.wire.results import EndedSession, SessionInfo

NOW = datetime.datetime(2026, 11, 22, 12, 0, tzinfo=datetime.UTC)


def info(session: str, workspace: str = "/w", **more: Any) -> SessionInfo:
    known = {
        "agent": "bot",
        "mode": "unrestricted",
        "commits": 2,
        "created": "2026-11-22T10:00:00Z",
    }
    return SessionInfo(
        session=session,
        workspace=workspace,
        **{"last_seen": "2026-11-22T11:57:00Z", **known, **more},
    )


def text(line: Line) -> str:
    return "".join(span.text for span in line)


def test_a_line_a_session_the_newest_first() -> None:
    found = [
        info("old", last_seen="2026-11-22T10:00:00Z", agent=None, mode="restricted"),
        info("conv\x1b-1", commits=1),
    ]
    assert [
        "conv\\x1b-1  bot  3 min ago  1 commit ",
        "old              2 h ago    2 commits  restricted",
    ] == [text(line) for line in sessions(found, NOW, where=False)]


def test_a_uuid_and_a_long_name_fit_80_columns() -> None:
    name = "a1b2c3d4-e5f6-4711-8899-aabbccddeeff"
    long = info(name, agent="claude-code", last_seen="2026-11-22T11:11:00Z", commits=126)
    (line,) = sessions([long], NOW, where=False)
    assert line_columns(line) <= 80


def test_those_of_all_workspaces_stand_below_their_roots() -> None:
    found = [info("b", "/w2"), info("a", "/w1")]
    assert ["/w1", "  a", "/w2", "  b"] == [
        text(line).split("  bot")[0] for line in sessions(found, None, where=True)
    ]


@pytest.mark.parametrize(
    ("expected", "clipboards", "request_"),
    [
        ("s is ended; what it did stays.", 0, None),
        ("s is ended; 1 clipboard went with it; what it did stays.", 1, None),
        ("s is ended; 2 clipboards and request ab went with it; what it did stays.", 2, "ab"),
    ],
)
def test_it_is_said_what_went(expected: str, clipboards: int, request_: str | None) -> None:
    result = EndedSession(
        session="s", workspace="/w", clipboards=clipboards, request=request_, next_mode="restricted"
    )
    assert [expected, "A new session of this name is restricted."] == [
        text(line) for line in ended(result)
    ]


def test_sessions_are_listed_and_ended_by_the_command() -> None:
    with installation() as ws:
        assert ws.stet("init").returncode == 0
        assert ws.stet("sessions").stdout == "No session.\n"
        for name in ("one", "two"):
            with stet.connect(ws.workspace, session=name, agent="bot", endpoint=ws.endpoint()) as s:
                s.clipboard_set("c", "text")
        assert {"one", "two"} == {
            line.split()[0] for line in ws.stet("sessions").stdout.splitlines()
        }
        assert ws.stet("sessions", "--end", "one").stdout == (
            "one is ended; 1 clipboard went with it; what it did stays.\n"
            "A new session of this name is unrestricted.\n"
        )
        again = ws.stet("sessions", "--end", "one")
        assert (again.returncode, "there is no session 'one'" in again.stderr) == (1, True)
        assert ws.stet("sessions", "--all", "--end", "one").returncode == 2
        assert [each["session"] for each in ws.json("sessions", "--all")["sessions"]] == ["two"]
