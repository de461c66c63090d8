"""What is too long for a model is cut, for programs too, and it is said how to get the rest."""

from __future__ import annotations

import re

import msgspec
import pytest

from e2e.running_daemon import Site
from mcp_server.raw_client import RawClient, Starting
from stet.mcp.answers import MOST_TEXT, Answer, answered
from stet.wire.results import (
    CommitInfo,
    DiffResult,
    EditResult,
    FileChange,
    LogResult,
    ReadResult,
    ShowResult,
)

LINES = "".join(f"+{number}\n" for number in range(MOST_TEXT))
ONE, TWO = "1" * 40, "2" * 40


def change(path: str) -> FileChange:
    return FileChange(path, "M", before=ONE, after=TWO, added=1, removed=1)


def info(number: int, files: int = 1) -> CommitInfo:
    changes = [change(f"{number}-{file}") for file in range(files)]
    return CommitInfo(commit=f"{number:040}", parent=None, time="", kind="edit", files=changes)


def shown(parent: str | None, *paths: str) -> ShowResult:
    files = [change(path) for path in paths]
    return ShowResult(commit=TWO, parent=parent, time="", kind="edit", files=files, diff=LINES)


def reading(text: str, lines: int) -> ReadResult:
    return ReadResult(text, ONE, "100644", lines, "lf", bom=False)


def note(answer: Answer) -> str:
    """The last line of the text, which programs are given too."""
    last = answer.text.rsplit("\n", 1)[-1]
    assert answer.structured is not None
    assert (f"[{answer.structured['cut']}]", False) == (last, answer.is_error)
    return last


@pytest.mark.parametrize(
    ("says", "result"),
    [
        ("Give paths, to compare fewer files.", DiffResult(LINES, [change("a"), change("b")])),
        ("Call read, to see the file.", DiffResult(LINES, [change("a")])),
        (
            'Call diff with from "111111111111", to "222222222222" and paths, to see single files.',
            shown(ONE, "a", "b"),
        ),
        ('Call read with at "222222222222", to see the file.', shown(ONE, "a")),
        ('Call read with at "222222222222", to see single files.', shown(None, "a", "b")),
        ("Preview fewer edits at once.", EditResult(commit=None, diff=LINES)),
    ],
    ids=["diff", "diff of a file", "show", "show of a file", "show of the first", "preview"],
)
def test_a_long_diff_is_cut_for_programs_too_and_says_what_to_send(
    says: str, result: DiffResult | ShowResult | EditResult
) -> None:
    answer = answered(result, {})
    assert answer.structured is not None
    assert MOST_TEXT - 10 < len(answer.structured["diff"]) <= MOST_TEXT
    assert LINES.startswith(answer.structured["diff"])
    assert answer.structured["diff"].endswith("\n")
    assert says in note(answer)
    assert "more characters were cut off" in note(answer)


@pytest.mark.parametrize(
    "result",
    [DiffResult("+x\n", []), EditResult(commit=None, diff="+x\n"), LogResult([info(1)], None)],
    ids=["diff", "preview", "log"],
)
def test_what_is_short_is_whole(result: DiffResult | EditResult | LogResult) -> None:
    answer = answered(result, {})
    assert msgspec.to_builtins(result) == answer.structured
    assert "cut off" not in answer.text


def test_a_long_page_of_the_log_is_a_shorter_page() -> None:
    commits = [info(number, files=200) for number in range(100)]
    answer = answered(LogResult(commits, None), {})
    assert answer.structured is not None
    given = answer.structured["commits"]
    assert 10 < len(given) < 100
    assert [each.commit for each in commits[: len(given)]] == [each["commit"] for each in given]
    assert given[-1]["commit"] == answer.structured["cursor"]
    assert len(answer.text) < MOST_TEXT + 200
    assert answer.text.endswith(f'call log again with cursor "{given[-1]["commit"]}".')


def test_a_page_of_the_log_is_measured_with_the_name_that_its_session_gets() -> None:
    mine = {"session": "s", "message": "x" * 900}
    commits = [msgspec.structs.replace(info(number), **mine) for number in range(105)]
    answer = answered(LogResult(commits, "next"), {}, "s")
    assert answer.structured is not None
    cursor = answer.structured["cursor"]
    assert answer.text.endswith(f'call log again with cursor "{cursor}".')


def test_a_long_line_of_a_file_says_where_the_next_one_is() -> None:
    long = reading("x" * MOST_TEXT * 2 + "\ny\n", lines=7)
    assert "Line 3 is longer than 100,000 characters" in note(answered(long, {"start": 3}))
    assert "start=4" in note(answered(long, {"start": 3}))
    assert "start=4, end=6" in note(answered(long, {"start": 3, "end": 6}))
    last = reading("x" * MOST_TEXT * 2, lines=3)
    assert "start=" not in note(answered(last, {"start": 3}))
    assert "start=" not in note(answered(long, {"start": 3, "end": 3}))


def test_a_long_file_is_read_to_its_end_by_what_the_answers_say(
    site: Site, starting: Starting
) -> None:
    server = starting("--workspace", str(site.root), **site.daemon.environment).initialize()
    for end in ("\n", "\r\n", "\r"):
        whole = "".join(f"{number}{end}" for number in range(40_000)).encode()
        site.write("long.txt", whole)
        pieces = read_on(server, "long.txt")
        assert whole == "".join(pieces).encode()
        assert 2 < len(pieces) < 5


def read_on(server: RawClient, path: str) -> list[str]:
    """Read a file as each answer says that it goes on."""
    pieces, start = [], 1
    while True:
        result = server.result(server.begin_call("read", path=path, start=start))
        pieces.append(result["structuredContent"]["text"])
        found = re.search(r"start=(\d+)", result["structuredContent"].get("cut", ""))
        if found is None:
            assert pieces[-1] == result["content"][0]["text"]
            return pieces
        start = int(found[1])
