"""A page of the log for a terminal: bursts under a heading, in 80, 120 and 160 columns."""

from __future__ import annotations

import datetime
from itertools import repeat

import pytest

from stet.terminal.log_lines import burst_page as page
from stet.terminal.log_lines import bursts, edit_line, first_changed, graph_page, is_first_seen
from stet.terminal.spans import line_columns
from stet.wire.results import CommitInfo, FileChange

NOW = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)
DIFF = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1,2 +1,2 @@\n import os\n-{1}\n+{2}\n"


def commit(number: int, minute: int, **fields: object) -> CommitInfo:
    given = {
        "commit": f"{number:08x}" + "0" * 32,
        "parent": None,
        "time": f"2026-11-23T11:{minute:02}:00Z",
        "kind": "edit",
        "method": "patch",
        "agent": "codex",
        "session": "conv-1",
        "message": "patch src/a.py: 1 edit",
        "files": [FileChange("src/a.py", "M", "1", "2", 1, 1)],
    }
    return CommitInfo(**{**given, **fields})  # type: ignore[arg-type]


COMMITS = [
    commit(5, 59, message="patch src/a.py: 1 edit\n\nread better"),
    commit(4, 58, reverted_by="9" * 40),
    commit(3, 40, files=[FileChange("src/" + "long_name_" * 12 + ".py", "A", None, "2", 40, 0)]),
    commit(2, 39, agent=None, session=None, kind="outside", message="changed outside: src/a.py"),
    commit(1, 38, agent=None, session=None, kind="outside", message="first seen: src/a.py"),
]
DIFFS = [
    DIFF.format(each.files[0].path, "print('hello')", "    print('hello, world')")
    for each in COMMITS
    if each.kind == "edit"
]

AT_80 = """\
codex/conv-1  2 edits  1 min ago
  00000005  src/a.py  + print('hello, world')  +1 -1
            read better
  00000004  undone by 99999999  src/a.py  + print('hello, world')  +1 -1

codex/conv-1  1 edit  20 min ago
  00000003  src/long_name_long_name_long_n…  + print('hello, world')  +40

outside  2 changes  21 min ago
  00000002  changed outside: src/a.py  +1 -1
  00000001  first seen: src/a.py  +1 -1"""


def test_a_file_that_its_line_does_not_say_all_about_has_one_below() -> None:
    moved = FileChange("src/b.py", "R", "1", "2", 1, 1, old_path="src/a.py")
    shown = [
        commit(9, 59, files=[moved], message="apply_patch src/b.py: 1 edit"),
        commit(8, 59, files=[FileChange("src/a.py", "D", "1", None, 0, 2)]),
        commit(7, 59, kind="snapshot", message="snapshot: 9 files, 1 changed"),
        commit(6, 59, kind="undo", message="undo 4f3c2a1b patch src/a.py: 1 edit"),
    ]
    diffs = repeat(DIFF.format("src/b.py", "x", "y"))
    lines = ["".join(span.text for span in line) for line in page(shown, diffs, NOW, 80)]

    below = [line.strip() for line in lines if line.startswith(" " * 12)]
    assert below == ["R src/a.py -> src/b.py  +1 -1", "D src/a.py  -2", "M src/a.py  +1 -1"]


def test_a_commit_lists_what_it_takes_back_though_it_names_its_file() -> None:
    taken_back = ["4f3c2a1b" + "0" * 32, "9c2d11e0" + "0" * 32]
    undo = commit(6, 59, kind="undo", message="undo 2 edits: src/a.py", reverts=taken_back)
    lines = ["".join(span.text for span in line) for line in page([undo], repeat(""), NOW, 80)]
    assert "            undoes 4f3c2a1b, 9c2d11e0" == lines[-1]


def test_a_graph_in_few_columns_has_room_for_what_was_done() -> None:
    long = commit(1, 59, session="a-session-of-a-long-name")
    (line,) = graph_page([long], 40)
    assert line_columns(line) <= 40
    assert "patch src" in "".join(span.text for span in line)


def test_a_long_name_is_cut_off_in_a_heading() -> None:
    heading = next(iter(page([commit(1, 59, agent="\u957f" * 60)], iter([""]), NOW, 80)))
    assert line_columns(heading) <= 80
    assert heading[-1].text == "  1 edit  1 min ago"


@pytest.mark.parametrize(
    ("kind", "count"),
    [("edit", "1 edit"), ("observed", "1 edit"), ("undo", "1 change"), ("restore", "1 change")],
)
def test_only_edits_are_counted_as_edits(kind: str, count: str) -> None:
    heading = next(iter(page([commit(1, 59, kind=kind)], repeat(""), NOW, 80)))
    assert heading[-1].text == f"  {count}  1 min ago"


def test_a_tab_takes_the_room_that_was_counted_for_it() -> None:
    made = commit(1, 59, message="patch src/a.py: 1 edit\n\nwhy\tso")
    diff = DIFF.format("src/a.py", "x", "a\tb\tc" * 30)
    lines = ["".join(span.text for span in line) for line in page([made], iter([diff]), NOW, 80)]
    assert not any("\t" in line for line in lines)


def test_a_narrow_line_strikes_out_what_was_undone_and_names_nothing_else() -> None:
    undone = commit(4, 58, reverted_by="9" * 40)
    wide, narrow = (edit_line(undone, "+ print(1)", width) for width in (80, 34))
    assert "undone by" in "".join(span.text for span in wide)
    assert "undone by" not in "".join(span.text for span in narrow)
    assert any("strike" in span.style and "src/a.py" in span.text for span in narrow)


def texts(width: int) -> list[str]:
    lines = page(COMMITS, iter(DIFFS), NOW, width)
    return ["".join(span.text for span in line) for line in lines]


def test_the_page_in_80_columns() -> None:
    assert "\n".join(texts(80)) == AT_80


@pytest.mark.parametrize("width", [64, 80, 120, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert all(line_columns(line) <= width for line in page(COMMITS, iter(DIFFS), NOW, width))


@pytest.mark.parametrize("width", [120, 160])
def test_more_is_shown_where_there_is_room(width: int) -> None:
    (cut,) = [line for line in texts(width) if "00000003" in line]
    assert len(cut) > len(texts(80)[6])


def test_a_pause_or_another_session_ends_a_burst() -> None:
    assert [len(burst.commits) for burst in bursts(COMMITS)] == [2, 1, 2]
    assert [is_first_seen(each) for each in COMMITS] == [False] * 4 + [True]


def test_what_a_diff_removed_is_its_line_if_it_added_none() -> None:
    assert first_changed("diff --git a/a b/a\n@@ -1 +0,0 @@\n-gone\x1b\n") == "- gone\\x1b"
    assert first_changed("@@ -1 +1,2 @@\n-gone\n+ \n+come\n") == "+ come"
    assert first_changed("") == ""
