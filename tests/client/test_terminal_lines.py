"""How history looks on a terminal: what fits is whole, what does not is cut, nothing overflows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import pytest

from client.test_render import NOW
from client.test_render import commit as like
from stet.terminal import blame_lines, diff_colours, diff_lines, log_lines
from stet.terminal.spans import (
    Line,
    Span,
    columns,
    line_columns,
    name_style,
    padded,
    shortened,
    visible,
)
from stet.ui.details import diff_lines as side_by_side
from stet.wire.results import BlameLines, BlameResult, CommitInfo, FileChange


def text(lines: Iterable[Line]) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in lines]


def change(path: str, added: int = 1, removed: int = 1, status: str = "M") -> FileChange:
    return FileChange(path, status, "1" * 40, "2" * 40, added, removed)


commit = partial(like, message="patch a.py: 1 edit", files=[change("a.py", 3, 0)])


PAGE: Sequence[CommitInfo] = [
    commit(
        "a",
        agent="person",
        session=None,
        kind="undo",
        message="undo 2 commits",
        files=[change("b"), change("c/" + "d" * 80, 0, 12, "D")],
        reverts=["b" * 40, "e" * 40],
    ),
    commit("b", reverted_by="a" * 40, message="patch a.py: 1 edit\n\nwhy " + "not " * 40),
    commit("c", agent="设计助手", session="文档", message="patch docs/介绍.md: 1 edit"),
    commit("d", agent="a" * 60, message="x" * 300, time="2024-11-21T11:57:00Z"),
    commit("e", files=[change(f"f{n}") for n in range(20)], message="transaction: 20 files"),
]


@pytest.mark.parametrize(
    ("expected", "raw"),
    [(3, "abc"), (4, "漢字"), (1, "e\u0301"), (2, "🙂"), (0, "\u200d"), (0, "")],
)
def test_columns_are_what_a_terminal_gives(expected: int, raw: str) -> None:
    assert expected == columns(raw)


@pytest.mark.parametrize(
    ("expected", "most"),
    [("介绍ab", 6), ("介绍…", 5), ("介…", 4), ("介…", 3), ("…", 2), ("…", 1), ("", 0)],
)
def test_shortening_goes_by_columns(expected: str, most: int) -> None:
    assert expected == shortened("介绍ab", most)


def test_padding_goes_by_columns() -> None:
    assert padded("介", 4) == "介  "
    assert padded("long", 2) == "long"


def test_names_have_the_same_colour_everywhere() -> None:
    assert name_style("bot", "a") == name_style("bot", "b") == name_style(None, "bot")
    assert len({name_style(f"agent-{n}", None) for n in range(50)}) > 3
    assert name_style(None, None) == "dim"


def test_a_commit_of_one_file_that_its_subject_names_takes_one_line() -> None:
    assert text(log_lines.log([commit("a")], NOW, 80)) == [
        "aaaaaaaa  3 min ago  bot/conv-1  patch a.py: 1 edit  +3"
    ]


def test_what_was_taken_back_and_by_what() -> None:
    assert text(log_lines.log(PAGE[:2], NOW, 100)) == [
        "aaaaaaaa  3 min ago  person      undo 2 commits",
        "          undoes bbbbbbbb, eeeeeeee",
        "          M b  +1 -1",
        f"          D c/{'d' * 80}  -12",
        "bbbbbbbb  3 min ago  bot/conv-1  patch a.py: 1 edit  +3  undone by aaaaaaaa",
        f"          {('why ' + 'not ' * 40)[:89]}…",
    ]
    assert text(log_lines.log(PAGE[:1], None))[1] == "          undoes bbbbbbbb, eeeeeeee"
    undone = next(log_lines.log([PAGE[1]], NOW, 100))
    assert [span.style for span in undone if span.text.startswith("patch")] == ["dim strike"]


def test_a_narrow_terminal_gets_who_and_when_on_a_line_of_their_own() -> None:
    assert text(log_lines.log([commit("a", reverted_by="b" * 40)], NOW, 40)) == [
        "aaaaaaaa  bot/conv-1  3 min ago",
        "  patch a.py: 1 edit  +3",
        "  undone by bbbbbbbb",
    ]


def test_many_files_are_counted() -> None:
    lines = text(log_lines.log([PAGE[4]], NOW, 80))
    assert len(lines) == 8
    assert lines[-1] == "          and 14 files more  +14 -14"


@pytest.mark.parametrize("width", [30, 40, 63, 64, 80, 120, 160])
def test_no_line_of_a_log_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(line_columns, log_lines.log(PAGE, NOW, width))) <= width


def test_wide_characters_leave_the_columns_aligned() -> None:
    subjects = [
        sum(columns(span.text) for span in line[:4])
        for line in log_lines.log(PAGE[1:3], NOW, 120)
        if line[0].text.strip()
    ]
    assert len(set(subjects)) == 1


def test_the_longest_time_leaves_the_columns_aligned() -> None:
    page = [commit("a", time="2025-12-26T12:00:00Z"), commit("b", time="2026-11-21T11:59:00Z")]
    lines = [line for line in log_lines.log(page, NOW, log_lines.NARROW) if line[0].text.strip()]
    assert any("10 months ago" in line for line in text(lines))
    assert len({sum(columns(span.text) for span in line[:4]) for line in lines}) == 1


# -- blame

BLAME = BlameResult(
    "a.py",
    [
        BlameLines(
            line=1, count=2, text="def f():\n\treturn '" + "x" * 200 + "'\n", commit="a" * 40,
            kind="edit", agent="bot", session="conv-1", time="2026-11-21T11:57:00Z",
        ),
        BlameLines(line=3, count=1, text="# 介绍", commit=None),
    ],
)  # fmt: skip


def test_blame_leaves_out_what_a_terminal_has_no_room_for() -> None:
    assert text(blame_lines.blame(BLAME, NOW, 120))[0] == (
        "aaaaaaaa  bot/conv-1        3 min ago  1  def f():"
    )
    assert (
        text(blame_lines.blame(BLAME, NOW, 80))[0] == "aaaaaaaa  bot           3 min  1  def f():"
    )
    assert text(blame_lines.blame(BLAME, NOW, 40))[0] == "bot           1  def f():"


@pytest.mark.parametrize("width", [40, 80, 160])
def test_long_lines_go_on_below_themselves(width: int) -> None:
    lines = list(blame_lines.blame(BLAME, NOW, width))
    assert max(map(line_columns, lines)) <= width
    joined = "".join(line.lstrip() for line in text(lines))
    assert joined.count("x") == 200


def test_blame_is_coloured_token_by_token() -> None:
    lines = list(blame_lines.blame(BLAME, NOW, 160, diff_colours.lexed_lines))
    assert Span("def", "magenta") in lines[0]
    assert text(lines) == text(blame_lines.blame(BLAME, NOW, 160))


# -- diffs

DIFF = """\
diff --git a/src/a.py b/src/a.py
index 489406a..8606ae8 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,4 @@ class A:
 def greet(name):
-    print("hello " + name)
+    print("hello, " + name)
+\tprint(1)
\x20
@@ -10,2 +11,2 @@
--- a
+++ b
 c
\\ No newline at end of file
diff --git a/old name b/new
old mode 100644
new mode 100755
similarity index 90%
rename from old name
rename to new
diff --git a/gone b/gone
deleted file mode 100644
index 489406a..0000000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-\x1b[31mred\r
"""


def test_a_diff_is_cut_into_files_and_hunks_and_keeps_its_text() -> None:
    files = diff_lines.files_of(DIFF)
    assert [len(file.hunks) for file in files] == [2, 0, 1]
    assert files[0].hunks[1].lines == ["--- a", "+++ b", " c", "\\ No newline at end of file"]
    assert files[0].hunks[1].header == "@@ -10,2 +11,2 @@"
    plain = ["".join(span.text for span in line) for line in diff_lines.diff(DIFF)]
    assert "\n".join(plain) + "\n" == DIFF


def test_the_coloured_diff_says_all_of_it() -> None:
    assert text(diff_colours.coloured(DIFF, 40)) == [
        "── src/a.py " + "─" * 28,
        "@@ -1,3 +1,4 @@ class A:",
        " def greet(name):",
        '-    print("hello " + name)',
        '+    print("hello, " + name)',
        "+    print(1)",
        "",
        "@@ -10,2 +11,2 @@",
        "--- a",
        "+++ b",
        " c",
        "\\ No newline at end of file",
        "",
        "── new " + "─" * 33,
        "   old mode 100644",
        "   new mode 100755",
        "   similarity index 90%",
        "   rename from old name",
        "   rename to new",
        "",
        "── gone " + "─" * 32,
        "   deleted file mode 100644",
        "@@ -1 +0,0 @@",
        "-\\x1b[31mred\\r",
    ]


def test_changed_lines_have_a_ground_to_the_edge_and_what_differs_a_brighter_one() -> None:
    grounds = diff_colours.DARK
    lines = list(diff_colours.coloured(DIFF, 40))
    removed, added = lines[3], lines[4]
    assert line_columns(removed) == line_columns(added) == 40
    assert all(" on " in span.style for span in (*removed, *added))
    assert [span.text for span in added if span.style == grounds.parts["+"]] == [","]
    assert not [span for span in removed if span.style == grounds.parts["-"]]
    # Tokens keep their colours on the ground.
    assert any(span.style.startswith(grounds.colours["cyan"]) for span in added)


def test_what_is_large_is_shown_without_syntax() -> None:
    long = "x = 1;" * 300
    many = f"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,2 @@\n+def f\n+{long}\n"
    lines = list(diff_colours.coloured(many, 80))
    assert lines[2][1].text == "def f"
    assert text(lines)[3] == "+" + long


def test_lines_that_a_lexer_would_change_are_shown_as_they_are() -> None:
    odd = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,2 @@\n+\ufeffa\r\n+\r\r\n"
    assert text(diff_colours.coloured(odd, 80))[2:] == ["+\\ufeffa\\r", "+\\r\\r"]


@pytest.mark.parametrize("broken", ["", "\n", "nonsense\n", "@@ -1 +1 @@\n-a\n", "+x\n@@ @@\n"])
def test_anything_can_be_shown(broken: str) -> None:
    shown = text(diff_colours.coloured(broken, 30))
    assert all(visible(line) == line for line in shown)
    plain = ["".join(span.text for span in line) for line in diff_lines.diff(broken)]
    assert "\n".join(plain) == broken.removesuffix("\n")


def test_a_deleted_file_in_a_directory_b_keeps_its_path() -> None:
    header = "diff --git a/b/gone.py b/b/gone.py\n--- a/b/gone.py\n+++ /dev/null\n"
    (file,) = diff_lines.files_of(header + "@@ -1 +0,0 @@\n-x\n")
    assert diff_colours.names(file) == ("b/gone.py", [])


@pytest.mark.parametrize("path", ["x", "plan b/x.bin", " b/ b/", "é b/x"])
def test_a_title_without_hunks_has_the_whole_path(path: str) -> None:
    modes = "old mode 100644\nnew mode 100755\n"
    [file] = diff_lines.files_of(f"diff --git a/{path} b/{path}\n{modes}")
    assert diff_colours.names(file)[0] == path

    names = f"rename from old\nrename to {path}\n"
    [file] = diff_lines.files_of(f"diff --git a/old b/{path}\nsimilarity index 100%\n{names}")
    assert diff_colours.names(file)[0] == path


def test_a_diff_is_side_by_side_only_where_there_is_room() -> None:
    narrow, wide = (
        [span.text for line in side_by_side(DIFF, width, dark=True) for span in line]
        for width in (89, 90)
    )
    assert (" │ " in narrow, " │ " in wide) == (False, True)


@pytest.mark.parametrize("width", [60, 120])
def test_a_rename_is_told_above_what_changed_also_side_by_side(width: int) -> None:
    header = "diff --git a/old.py b/new.py\nsimilarity index 100%\n"
    diff = header + "rename from old.py\nrename to new.py\n"
    for lines in (diff_colours.coloured(diff, width), side_by_side(diff, width, dark=True)):
        texts = ["".join(span.text for span in line) for line in lines]
        assert texts[0].startswith("── new.py ──")
        assert texts[1:] == [
            "   similarity index 100%", "   rename from old.py", "   rename to new.py",
        ]  # fmt: skip
