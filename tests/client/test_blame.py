"""``stet blame`` as people see it, and against a real daemon."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator

import pytest

from client.live import Installation, installation
from stet.terminal import blame_lines
from stet.wire.results import BlameLines, BlameResult

NOW = datetime.datetime(2026, 11, 21, 12, 0, 0, tzinfo=datetime.UTC)


def text(result: BlameResult, now: datetime.datetime | None = NOW) -> str:
    return "".join(
        "".join(span.text for span in line) + "\n" for line in blame_lines.blame(result, now)
    )


def run(line: int, text: str, count: int = 1, **fields: str) -> BlameLines:
    return BlameLines(line=line, count=count, text=text, **fields)


def test_the_first_line_of_a_run_says_who() -> None:
    edited = {"commit": "a" * 40, "kind": "edit", "agent": "bot", "session": "conv-1"}
    result = BlameResult(
        "a.py",
        [
            run(1, "def f():\r\n    pass\r", 2, time="2026-11-21T11:57:00Z", **edited),
            run(3, "\n" * 7, 7, commit="b" * 40, kind="outside", time="2026-11-21T10:00:00Z"),
            run(10, "# \x1b[31mby hand"),
        ],
    )
    blank = " " * 39
    assert text(result) == (
        "aaaaaaaa  bot/conv-1        3 min ago   1  def f():\n"
        f"{blank} 2      pass\n"
        "bbbbbbbb  outside           2 h ago     3  \n"
        + "".join(f"{blank} {number}  \n" for number in range(4, 10))
        + "          not recorded yet             10  # \x1b[31mby hand\n"
    )
    assert "2026-11-21T11:57:00Z" in text(result, None)


def test_agents_have_colours_of_their_own_and_sessions_of_one_agent_the_same() -> None:
    lines = [
        run(n, "x\n", commit=str(n) * 40, kind="edit", agent=agent, session=f"s{n}")
        for n, agent in enumerate(["ann", "ben", "ann"], 1)
    ]
    styles = [line[1].style for line in blame_lines.blame(BlameResult("f", lines), NOW)]
    assert styles[0] == styles[2]
    assert styles[0] != styles[1]


@pytest.fixture(scope="module")
def shared() -> Iterator[Installation]:
    with installation() as found:
        assert found.stet("init").returncode == 0
        found.write("a.py", "one\ntwo\n")
        patches = '[{"operation": "replace", "oldText": "two", "newText": "zwei"}]'
        assert found.stet("patch", "--path", "a.py", stdin=patches).returncode == 0
        yield found


def test_the_command_prints_each_line_with_its_author(shared: Installation) -> None:
    printed = shared.stet("blame", "a.py").stdout.splitlines()
    assert ["outside", "cli/cli"] == [line.split()[1] for line in printed]
    assert ["1  one", "2  zwei"] == [line[-len("1  zwei") :].strip() for line in printed]
    told = json.loads(shared.stet("blame", "--json", "--at", "HEAD", "a.py").stdout)
    assert ["one\n", "zwei\n"] == [each["text"] for each in told["lines"]]


def test_what_is_not_there_is_refused(shared: Installation) -> None:
    refused = shared.stet("blame", "nowhere.py")
    assert (1, "") == (refused.returncode, refused.stdout)
    assert "nowhere.py: there is no such file" in refused.stderr
    assert 2 == shared.stet("blame").returncode


def test_log_filters_by_kind(shared: Installation) -> None:
    assert "first seen" in shared.stet("log", "--kind", "outside").stdout
    assert "" == shared.stet("log", "--kind", "undo").stdout
