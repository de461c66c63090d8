"""``--word``: a diff by words."""

from __future__ import annotations

import pytest

from stet.terminal.diff_lines import diff

HEAD = "--- a/x\n+++ b/x\n"
NO_END = "\\ No newline at end of file"


@pytest.mark.parametrize(
    ("hunk", "expected"),
    [
        ("@@ -1 +1 @@\n-a b\n+a c\n", ["a [-b-]{+c+}"]),
        ("@@ -1,2 +1 @@\n keep\n-gone\n", ["keep", "[-gone-]"]),
        ("@@ -1 +1,3 @@\n keep\n+one\n+two\n", ["keep", "{+one+}", "{+two+}"]),
        ("@@ -1,2 +1 @@\n-one\n-two\n+one two\n", ["one", "{+ +}two"]),
        (f"@@ -1 +1 @@\n-a\n{NO_END}\n+a b\n", ["a{+ b+}", f"[-{NO_END}-]"]),
        (f"@@ -1 +1 @@\n-a\n+a\n{NO_END}\n", ["a", f"{{+{NO_END}+}}"]),
        (f"@@ -1 +1 @@\n-a\n{NO_END}\n+b\n{NO_END}\n", ["[-a-]{+b+}", NO_END]),
        (f"@@ -1,2 +1,2 @@\n-a\n+b\n c\n{NO_END}\n", ["[-a-]{+b+}", "c"]),
        ("@@ -1,2 +1,2 @@\n-a\n \n+b\n", ["[-a-]", "", "{+b+}"]),
    ],
)
def test_words(hunk: str, expected: list[str]) -> None:
    told = [
        "".join(span.text for span in line) for line in diff(HEAD + hunk, words=True, marks=True)
    ]
    assert told[:2] == HEAD.splitlines()
    assert told[3:] == expected


def test_colours_say_it_without_marks() -> None:
    *_, last = diff(HEAD + "@@ -1 +1 @@\n-a b\n+a c\n", words=True, marks=False)
    assert [(span.text, span.style) for span in last] == [("a ", ""), ("b", "red"), ("c", "green")]


def test_many_equal_words_are_replaced_whole() -> None:
    """difflib would take half a minute."""
    hunk = f"@@ -1 +1 @@\n-{'a ' * 1000}\n+{'b ' * 1000}\n"
    *_, last = diff(HEAD + hunk, words=True, marks=True)
    assert "".join(span.text for span in last) == f"[-{'a ' * 1000}-]{{+{'b ' * 1000}+}}"
