"""What people see: columns, relative times, diffs, and nothing that a terminal would obey."""

from __future__ import annotations

import datetime

import pytest

from stet.terminal import diff_lines, log_lines, render, spans
from stet.wire.results import (
    ClipboardInfo,
    CommitInfo,
    EditResult,
    FileChange,
    LoggedError,
    ModeResult,
    Peer,
    ShowResult,
    StatusResult,
)

NOW = datetime.datetime(2026, 11, 21, 12, 0, 0, tzinfo=datetime.UTC)
CHANGE = FileChange("src/a.py", "M", "1" * 40, "2" * 40, 3, 1)


def text(lines: object) -> str:
    return "".join("".join(s.text for s in line) + "\n" for line in lines)  # type: ignore[attr-defined]


def commit(number: str, **fields: object) -> CommitInfo:
    given = {
        "commit": number * 40,
        "parent": None,
        "time": "2026-11-21T11:57:00Z",
        "kind": "edit",
        "agent": "bot",
        "session": "conv-1",
        "message": "patch src/a.py: 2 edits",
        "files": [CHANGE],
    }
    return CommitInfo(**(given | fields))  # type: ignore[arg-type]


def test_log_aligns_its_columns() -> None:
    page = [
        commit("a", message="patch src/a.py: 2 edits\n\nthe tests\nfailed"),
        commit("b", agent=None, session=None, kind="outside", time="2026-11-21T10:00:00Z"),
        commit("c", reverted_by="d" * 40),
    ]
    assert text(log_lines.log(page, NOW)) == (
        "aaaaaaaa  3 min ago  bot/conv-1  patch src/a.py: 2 edits\n"
        "          the tests\n"
        "          M src/a.py  +3 -1\n"
        "bbbbbbbb  2 h ago    outside     patch src/a.py: 2 edits\n"
        "          M src/a.py  +3 -1\n"
        "cccccccc  3 min ago  bot/conv-1  patch src/a.py: 2 edits  (undone by dddddddd)\n"
        "          M src/a.py  +3 -1\n"
    )


def test_a_subagent_stands_behind_its_session() -> None:
    page = [commit("a", subagent="general-purpose a30", files=[])]
    assert text(log_lines.log(page, NOW)) == (
        "aaaaaaaa  3 min ago  bot/conv-1 (general-purpose a30)  patch src/a.py: 2 edits\n"
    )
    for width in (50, 160):
        assert "bot/conv-1 (general" in text(log_lines.log(page, NOW, width))


def test_log_of_nothing_is_nothing() -> None:
    assert text(log_lines.log([], NOW)) == ""


def test_without_a_now_times_are_as_they_were_sent() -> None:
    assert text(log_lines.log([commit("a", files=[])], None)) == (
        "aaaaaaaa  2026-11-21T11:57:00Z  bot/conv-1  patch src/a.py: 2 edits\n"
    )


@pytest.mark.parametrize(
    ("expected", "time"),
    [
        ("just now", "2026-11-21T12:00:00Z"),
        ("just now", "2026-11-21T12:05:00Z"),
        ("1 s ago", "2026-11-21T11:59:59Z"),
        ("59 s ago", "2026-11-21T11:59:01Z"),
        ("1 min ago", "2026-11-21T11:59:00Z"),
        ("23 h ago", "2026-11-20T12:00:01Z"),
        ("1 day ago", "2026-11-20T12:00:00Z"),
        ("6 days ago", "2026-11-14T12:00:01Z"),
        ("2 weeks ago", "2026-11-07T12:00:00+00:00"),
        ("3 months ago", "2026-08-20T12:00:00Z"),
        ("2 years ago", "2024-11-01T12:00:00Z"),
    ],
)
def test_relative_times(expected: str, time: str) -> None:
    assert expected == spans.ago(time, NOW)


@pytest.mark.parametrize(
    ("expected", "raw"),
    [
        ("plain\ttab", "plain\ttab"),
        ("\\x1b[31mred", "\x1b[31mred"),
        ("\\x9b31m", "\x9b31m"),
        ("a\\x00\\x07\\x7f", "a\0\a\x7f"),
        ("crlf\\r", "crlf\r"),
        ("two\\x0alines", "two\nlines"),
        ("\\u202eevil\\u202c", "\u202eevil\u202c"),
        ("\\u2066x\\u2069\\u200f", "\u2066x\u2069\u200f"),
        ("bo\\u200bt\\u2060", "bo\u200bt\u2060"),
        ("\U0001f469\u200d\U0001f680", "\U0001f469\u200d\U0001f680"),
        ("naïve 漢字 🙂", "naïve 漢字 🙂"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(expected: str, raw: str) -> None:
    assert expected == spans.visible(raw)


def test_names_paths_and_messages_are_spelled_out_everywhere() -> None:
    evil = "\x1b]0;x\x07"
    change = FileChange(evil, "R", None, None, 0, 0, old_path=evil)
    shown = ShowResult(
        commit="a" * 40,
        parent=None,
        time="2026-11-21T11:57:00Z",
        kind="edit",
        method=evil,
        agent=evil,
        session=evil,
        subagent=evil,
        request=evil,
        peer=Peer(1, evil),
        message=f"{evil}\n\n{evil}",
        files=[change],
    )
    result = EditResult(commit=None, message=evil, warnings=[evil], files=[change])
    lines = [
        *log_lines.log([shown], NOW),
        *render.show(shown, NOW, diff_lines.diff),
        *render.edited(result, preview=False, show_diff=diff_lines.diff),
        *render.clipboards([ClipboardInfo(evil, 1, 1)]),
        *render.status(StatusResult(version=evil, protocol=1, read_only=evil)),
    ]
    assert "\x1b" not in text(lines)
    assert text(lines).count("\\x1b]0;x\\x07") == 24


def test_show_says_who_when_and_why() -> None:
    shown = ShowResult(
        commit="a" * 40,
        parent="b" * 40,
        time="2026-11-21T11:57:00Z",
        kind="undo",
        method="undo",
        agent="person",
        request="r1",
        peer=Peer(42, "stet"),
        message="undo 2 commits\n\nfirst line\nsecond line",
        files=[CHANGE],
        reverts=["c" * 40, "d" * 40],
        reverted_by="e" * 40,
        diff="@@ -1 +1 @@\n-a\n+b\n",
    )
    assert text(render.show(shown, NOW, diff_lines.diff)) == (
        f"commit {'a' * 40}\n"
        "By:        person\n"
        "Time:      2026-11-21T11:57:00Z (3 min ago)\n"
        "Kind:      undo\n"
        "Request:   r1\n"
        "Process:   stet (42)\n"
        "Undoes:    cccccccc, dddddddd\n"
        "Undone by: eeeeeeee\n"
        "\n"
        "    undo 2 commits\n"
        "\n"
        "    first line\n"
        "    second line\n"
        "\n"
        "M src/a.py  +3 -1\n"
        "\n"
        "@@ -1 +1 @@\n"
        "-a\n"
        "+b\n"
    )


def test_show_of_a_commit_of_nobody_has_no_empty_facts() -> None:
    shown = ShowResult(
        commit="a" * 40,
        parent=None,
        time="2026-11-21T11:57:00Z",
        kind="outside",
        message="first seen: a.py",
        files=[CHANGE],
    )
    assert text(render.show(shown, None, diff_lines.diff)) == (
        f"commit {'a' * 40}\n"
        "By:        outside\n"
        "Time:      2026-11-21T11:57:00Z\n"
        "Kind:      outside\n"
        "\n"
        "    first seen: a.py\n"
        "\n"
        "M src/a.py  +3 -1\n"
    )


DIFF = """\
diff --git a/f b/f
--- a/f
+++ b/f
@@ -1,3 +1,3 @@ def x
 context
--- removed
+++ added

\\ No newline at end of file
diff --git a/g b/g
new file mode 100644
"""


def test_a_diff_keeps_its_text_and_colours_by_the_counts_of_its_hunks() -> None:
    lines = list(diff_lines.diff(DIFF))
    assert text(lines) == DIFF
    styles = [span.style for (span,) in lines]
    assert styles == [
        "bold", "bold", "bold", "cyan", "", "red", "green", "", "dim", "bold", "bold",
    ]  # fmt: skip


def test_only_a_newline_ends_a_line_of_a_diff() -> None:
    whole = "@@ -1 +1 @@\n-a\x0cb\u2028c\r\n+d\n"
    assert text(diff_lines.diff(whole)) == whole
    assert len(list(diff_lines.diff(whole))) == 3
    assert not list(diff_lines.diff(""))


def test_an_edit_tells_message_commit_files_and_warnings() -> None:
    result = EditResult(
        commit="a" * 40,
        outside="b" * 40,
        files=[CHANGE, FileChange("new", "A", None, "3" * 40, 2, 0)],
        message="<patches_applied>all</patches_applied>\nnote",
        warnings=["looks generated"],
        diff="never shown",
        replayed=True,
    )
    assert text(render.edited(result, preview=False, show_diff=diff_lines.diff)) == (
        "<patches_applied>all</patches_applied>\n"
        "note\n"
        "aaaaaaaa  M src/a.py  +3 -1\n"
        "aaaaaaaa  A new  +2 -0\n"
        "bbbbbbbb  recorded first: changes made outside stet\n"
        "warning: looks generated\n"
        "answered from the record: this request was carried out before\n"
    )


def test_a_warning_that_the_message_has_is_said_once() -> None:
    result = EditResult(commit=None, message="done\nwarning: odd", warnings=["odd"])
    assert (
        text(render.edited(result, preview=False, show_diff=diff_lines.diff))
        == "done\nwarning: odd\n"
    )


def test_clipboards_of_wide_names_stand_below_each_other() -> None:
    found = [ClipboardInfo("\u65e5\u672c", 1, 1), ClipboardInfo("abcdef", 1, 1)]
    wide, narrow = text(render.clipboards(found)).splitlines()
    assert (wide, narrow) == ("\u65e5\u672c    1 line, 1 byte", "abcdef  1 line, 1 byte")


def test_a_commit_that_changes_no_file_is_told() -> None:
    result = EditResult(commit="a" * 40, files=[])
    assert (
        text(render.edited(result, preview=False, show_diff=diff_lines.diff))
        == "aaaaaaaa  changes no file\n"
    )


def test_a_preview_shows_the_diff_and_says_what_it_is() -> None:
    result = EditResult(commit=None, files=[CHANGE], diff="@@ -1 +1 @@\n-a\n+b\n")
    assert text(render.edited(result, preview=True, show_diff=diff_lines.diff)) == (
        "M src/a.py  +3 -1\n@@ -1 +1 @@\n-a\n+b\nPreview: nothing was changed.\n"
    )


def test_status_names_what_it_knows() -> None:
    status = StatusResult(
        version="1.2",
        protocol=1,
        pid=7,
        uptime_s=7261.5,
        durability="full",
        read_only="fsync failed",
        workspaces=1,
        commits=12345,
        journal_bytes=1000,
        shadow_bytes=5_500_000,
        replacement={"/w": "rename", "/usual": "exchange"},
        trouble="the disk is full",
        last_error=LoggedError("2026-11-21T11:57:00Z", "no\nspace"),
        unavailable={"/gone": "/gone is not there"},
    )
    assert text(render.status(status)) == (
        "stetd 1.2  protocol 1\n"
        "  process:     7\n"
        "  running for: 2 h\n"
        "  durability:  full\n"
        "  workspaces:  1\n"
        "  commits:     12,345\n"
        "  journal:     1000 bytes\n"
        "  history:     5.2 MiB\n"
        "  replacing in /w: rename\n"
        "  last error: 2026-11-21T11:57:00Z  no\\x0aspace\n"
        "  DEFERRED: /gone is not there\n"
        "  TROUBLE: the disk is full\n"
        "  READ-ONLY: fsync failed\n"
    )
    assert text(render.status(StatusResult(version="1", protocol=1))) == "stetd 1  protocol 1\n"


def test_mode_and_clipboards() -> None:
    assert text(render.mode(ModeResult("restricted", "unrestricted", "restricted"), NOW)) == (
        "restricted\n  session:   unrestricted\n  workspace: restricted\n"
    )
    clips = [ClipboardInfo("a", 1, 1), ClipboardInfo("longer", 20, 2)]
    assert text(render.clipboards(clips)) == ("a       1 line, 1 byte\nlonger  2 lines, 20 bytes\n")


def test_a_file_that_the_history_does_not_keep_is_named_and_marked_without_counts() -> None:
    excluded = FileChange(".env", "M", None, None, 0, 0, excluded=True)
    assert text([log_lines.file_line(excluded)]) == "M .env  excluded\n"
    assert text([log_lines.file_line(CHANGE)]) == "M src/a.py  +3 -1\n"
    assert [span.text for span in log_lines.counts([excluded])] == ["excluded"]
    assert [span.text for span in log_lines.counts([excluded, CHANGE])] == ["+3", " ", "-1"]
    assert list(log_lines.counts([])) == []
