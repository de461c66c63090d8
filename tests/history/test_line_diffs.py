"""Our own line diffs, beside those of libgit2; git applies them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pygit2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygit2.enums import DiffOption

from file_states import diff_of
from stetd.history import line_diffs
from stetd.history.line_diffs import count_lines, unified_hunks
from stetd.history.objects import EXECUTABLE, LINK

ENVIRON = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
LINES = st.sampled_from(
    [b"a", b"b", b"c", b"", b"}", b"  x", b"def f():", b"\tlet y", "é z".encode(), b"_\xff"]
)
TEXTS = st.builds(
    lambda lines, end: b"\n".join(lines) + end,
    st.lists(LINES, max_size=60),
    st.sampled_from([b"\n", b"", b"\r\n"]),
)


@st.composite
def edited(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A text, and the same after edits."""
    before = draw(TEXTS)
    lines = before.split(b"\n")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines)))
        lines[at : at + draw(st.integers(0, 4))] = draw(st.lists(LINES, max_size=4))
    return before, b"\n".join(lines)


PAIRS = st.one_of(edited(), st.tuples(TEXTS, TEXTS))


def of_libgit2(before: bytes, after: bytes) -> tuple[bytes, int, int]:
    """The hunks and counts that libgit2 gives."""
    patch = pygit2.Patch.create_from(before, after, "a", "a", flag=DiffOption.FORCE_TEXT)
    _, found, hunks = (patch.data or b"").partition(b"\n@@ ")
    _, added, removed = patch.line_stats
    return b"@@ " + hunks if found else b"", added, removed


def applied(before: bytes, diff: bytes) -> bytes:
    """A text with a diff carried out."""
    old, new = before.split(b"\n"), []
    at = 0
    for line in diff.split(b"\n")[:-1]:
        if line.startswith(b"@@ "):
            first, _, count = line.split()[1][1:].partition(b",")
            start = int(first) - (count != b"0")
            new += old[at:start]
            at = start
        elif line[:1] in (b" ", b"-"):
            assert line[1:] == old[at]
            new += [old[at]] * (line[:1] == b" ")
            at += 1
        elif line[:1] == b"+":
            new.append(line[1:])
    return b"\n".join(new + old[at:])


@st.composite
def put_in(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A text, and the same with lines put in at one place."""
    lines = draw(TEXTS).split(b"\n")
    at = draw(st.integers(0, len(lines)))
    more = draw(st.lists(LINES, min_size=1, max_size=6))
    return b"\n".join(lines), b"\n".join([*lines[:at], *more, *lines[at:]])


@given(put_in())
@settings(max_examples=300, deadline=None)
def test_diff_of_lines_put_in_or_taken_out_is_that_of_libgit2(
    pair: tuple[bytes, bytes],
) -> None:
    for before, after in (pair, pair[::-1]):
        hunks, added, removed = of_libgit2(before, after)
        assert unified_hunks(before, after)[0] == hunks
        assert unified_hunks(before, after)[1] == (added, removed)


@given(PAIRS)
@settings(max_examples=500, deadline=None)
def test_no_diff_is_longer_than_that_of_libgit2(pair: tuple[bytes, bytes]) -> None:
    before, after = pair
    own = unified_hunks(before, after)[1]
    _, added, removed = of_libgit2(before, after)
    assert own[0] - own[1] == added - removed
    assert own[0] <= added
    assert count_lines(before, after) == own
    hunks = unified_hunks(before, after)[0].replace(b"\n\\ No newline at end of file", b"")
    assert applied(before, hunks).rstrip(b"\n") == after.rstrip(b"\n")


@pytest.mark.parametrize("blank", [1, 7])
def test_of_several_changes_those_that_can_move_down_do(blank: int) -> None:
    block = b"def f():\n    pass\n" + b"\n" * blank
    before = b"a\nb\n" + block * 2 + b"c\nd\ne\nf\n"
    after = before.replace(b"a\n", b"x\n").replace(block, block * 2, 1)
    for one, two in ((before, after), (after, before)):
        for tail in (b"", b"g\n" * 9):
            texts = one + tail, two + tail
            assert unified_hunks(*texts)[0] == of_libgit2(*texts)[0]


def test_a_change_that_could_move_very_far_keeps_context_below_it() -> None:
    before = b"a\nb\n" + b"\n" * 600 + b"z\n" * 9
    after = b"x\nb\n" + b"\n" * 601 + b"z\n" * 9
    assert unified_hunks(before, after)[0].endswith(b"+\n \n \n \n")


def test_git_applies_every_diff(tmp_path: Path) -> None:
    @given(PAIRS)
    @settings(max_examples=60, deadline=None)
    def check(pair: tuple[bytes, bytes]) -> None:
        hunks = unified_hunks(*pair)[0]
        (tmp_path / "a").write_bytes(pair[0])
        patch = b"--- a/a\n+++ b/a\n" + hunks
        command = ["git", "apply", "--whitespace=nowarn", "-"]
        if hunks:
            subprocess.run(command, cwd=tmp_path, input=patch, check=True, env=ENVIRON)
        assert (tmp_path / "a").read_bytes() == pair[1]

    check()


@pytest.mark.parametrize("lines", [100, 3000, 20_000])
@pytest.mark.parametrize("change", ["one line", "insertion", "deletion", "both ends", "many"])
def test_large_files(lines: int, change: str) -> None:
    text = [b"    line %d" % n if n % 15 else b"def f_%d():" % n for n in range(lines)]
    text = [b"" if n % 7 == 3 else line for n, line in enumerate(text)]
    new, middle = list(text), lines // 2
    if change == "one line":
        new[middle] += b"!"
    elif change == "insertion":
        new[middle:middle] = [b"", b"    one", b""]
    elif change == "deletion":
        del new[middle : middle + 40]
    elif change == "both ends":
        new[0], new[-1] = b"first", b"last"
    else:
        # So many that the search is not given up.
        new = [line + b"!" if n % (lines // 30) == 0 else line for n, line in enumerate(text)]
    before, after = b"\n".join(text) + b"\n", b"\n".join(new) + b"\n"
    assert unified_hunks(before, after)[0] == of_libgit2(before, after)[0]


@pytest.mark.parametrize("blank", [3, 60, 500])
def test_a_group_slides_far(blank: int) -> None:
    before = b"a\n" * 40 + b"\n" * blank + b"z\n" * 40
    for after in (b"a\n" * 40 + b"\n" * (blank + 1) + b"z\n" * 40, before[: -2 * 30]):
        assert unified_hunks(before, after)[0] == of_libgit2(before, after)[0]
        assert unified_hunks(after, before)[0] == of_libgit2(after, before)[0]


@given(PAIRS)
def test_a_search_that_is_given_up_gives_a_diff_as_well(pair: tuple[bytes, bytes]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(line_diffs, "_MOST_PAIRS", 3)
        hunks = unified_hunks(*pair)[0].replace(b"\n\\ No newline at end of file", b"")
    assert applied(pair[0], hunks).rstrip(b"\n") == pair[1].rstrip(b"\n")


def test_texts_that_differ_in_everything_take_no_longer() -> None:
    before = b"".join(b"%d\n" % (n * 7919 % 1000) for n in range(4000))
    after = b"".join(b"%d\n" % (n * 104729 % 997) for n in range(4000))
    assert applied(before, unified_hunks(before, after)[0]) == after


@pytest.mark.parametrize(
    ("before", "after", "more", "expected"),
    [
        (None, b"", {}, "diff --git a/n b/n\nnew file mode 100644\nindex 0000000..e69de29\n"
         "--- /dev/null\n+++ b/n\n"),
        (b"", None, {}, "diff --git a/n b/n\ndeleted file mode 100644\nindex e69de29..0000000\n"
         "--- a/n\n+++ /dev/null\n"),
        (None, b"a", {"modes": (None, LINK)}, "diff --git a/n b/n\nnew file mode 120000\n"
         "index 0000000..2e65efe\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n"
         "\\ No newline at end of file\n"),
        (b"a\n", b"b\n", {"old_path": "o"}, "diff --git a/o b/n\nsimilarity index 0%\n"
         "rename from o\nrename to n\nindex 7898192..6178079 100644\n"
         "--- a/o\n+++ b/n\n@@ -1 +1 @@\n-a\n+b\n"),
        (b"a\n", b"b\n", {"modes": (EXECUTABLE, EXECUTABLE)}, "diff --git a/n b/n\n"
         "index 7898192..6178079 100755\n--- a/n\n+++ b/n\n@@ -1 +1 @@\n-a\n+b\n"),
        (b"a\n", b"b\n", {"modes": (None, EXECUTABLE)}, "diff --git a/n b/n\nold mode 100644\n"
         "new mode 100755\nindex 7898192..6178079\n--- a/n\n+++ b/n\n@@ -1 +1 @@\n-a\n+b\n"),
        (b"a\n", b"a\n", {"modes": (None, EXECUTABLE), "old_path": "o"},
         "diff --git a/o b/n\nold mode 100644\nnew mode 100755\n"
         "similarity index 100%\nrename from o\nrename to n\n"),
        (b"a\n", b"a\n", {"old_path": "o"}, "diff --git a/o b/n\nsimilarity index 100%\n"
         "rename from o\nrename to n\n"),
        (None, None, {"old_path": "o"}, ""),
        (b"x", b"x", {}, ""),
        (b"a\0", b"a\n", {}, "diff --git a/n b/n\nindex 90802fe..7898192 100644\n"
         "Binary files a/n and b/n differ\n"),
        (None, b"a\0", {}, "diff --git a/n b/n\nnew file mode 100644\nindex 0000000..90802fe\n"
         "Binary files /dev/null and b/n differ\n"),
        (b"a", b"a\n", {}, "diff --git a/n b/n\nindex 2e65efe..7898192 100644\n--- a/n\n+++ b/n\n"
         "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"),
        (b"\xff\n", b"\xfe", {}, "diff --git a/n b/n\nindex 29e181e..050ac90 100644\n--- a/n\n"
         "+++ b/n\n@@ -1 +1 @@\n-\ufffd\n+\ufffd\n\\ No newline at end of file\n"),
    ],
)  # fmt: skip
def test_header(
    before: bytes | None, after: bytes | None, more: dict[str, object], expected: str
) -> None:
    assert diff_of("n", before, after, **more).text == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["a b", "ä", 'q"x', 'q" x', "t\tx", "back\\s", "\x7f", "new\nline"]
)
def test_names(name: str, tmp_path: Path) -> None:
    repository = pygit2.init_repository(tmp_path)
    (tmp_path / name).write_bytes(b"a\n")
    repository.index.add(name)
    repository.index.write()
    (tmp_path / name).write_bytes(b"b\n")
    told = subprocess.run(
        ["git", "diff"], cwd=tmp_path, capture_output=True, check=True, text=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
    )  # fmt: skip
    assert diff_of(name, b"a\n", b"b\n").text == told.stdout


@pytest.mark.parametrize(
    "heading",
    ["x" * 200, "d" + "é" * 100, "_x   ", "$y\r", "éa", "  indented", "9 lives", "f\x0b", "a\xa0"],
)
def test_heading(heading: str) -> None:
    before = f"first\n{heading}\n".encode() + b"   a\n" * 3000 + b"   b\n"
    after = before[:-2] + b"c\n"
    assert unified_hunks(before, after)[0] == of_libgit2(before, after)[0]


def test_a_text_with_a_nul_far_behind_is_one() -> None:
    before = b"a" * 7999 + b"\n\0"
    assert diff_of("n", before, before + b"b").text.count("\n@@ ") == 1
    assert "Binary" in diff_of("n", b"a" * 7999 + b"\0", b"b").text


def test_known_ids_are_taken() -> None:
    assert "\nindex 1111111..2222222 " in diff_of("n", b"a", b"b", ids=("1" * 40, "2" * 40)).text
