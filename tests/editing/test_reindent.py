"""Moving text to another indentation."""

from __future__ import annotations

import pytest

from memory_world import overwrite, patched, refusal
from stetd.editing.refusals import visible


@pytest.mark.parametrize(
    ("text", "strip", "add", "expected"),
    [
        ("  a\n    b\n", "  ", "", "a\n  b\n"),
        ("a\nb", "", "\t", "\ta\n\tb"),
        ("  a\n\n \t\n  b\n", "  ", "    ", "    a\n\n \t\n    b\n"),
        ("  a\r\n  b\r  c", "  ", "-", "-a\r\n-b\r-c"),
        ("", "  ", "  ", ""),
        ("\n", "  ", "  ", "\n"),
        ("a", "", "", "a"),
        ("  a\x0b  b\u2028  c", "  ", "", "a\x0b  b\u2028  c"),
        ("\u00a0\u3000\n", "x", "y", "\u00a0\u3000\n"),
        ("# a\n# b\n", "# ", "// ", "// a\n// b\n"),
    ],
)
def test_prefixes_are_exchanged_on_lines_that_are_not_blank(
    text: str, strip: str, add: str, expected: str
) -> None:
    patch = overwrite(text, reindent={"strip": strip, "add": add})
    assert patched(b"before", patch) == expected.encode()


@pytest.mark.parametrize(
    ("text", "strip", "number", "line"),
    [
        ("  a\n b\n", "  ", 2, " b"),
        ("\ta", "    ", 1, "\ta"),
        ("  a\r\nb\r\n", "  ", 2, "b"),
        ("\x1c\n", " ", 1, "\x1c"),
    ],
)
def test_a_line_without_the_prefix_fails(text: str, strip: str, number: int, line: str) -> None:
    [failure] = refusal(b"before", overwrite(text, reindent={"strip": strip, "add": "x"})).failures
    assert (failure.kind, failure.line) == ("strip_precondition_failed", number)
    assert f"line {number} of the inserted text" in failure.message
    assert f"does not begin with it: {visible(line)}." in failure.message
