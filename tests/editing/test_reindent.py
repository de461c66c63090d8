"""Moving text to another indentation."""

from __future__ import annotations

import pytest

from stetd.editing.patch.dialect import StripFailed, reindent


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
    assert reindent(text, strip, add) == expected


@pytest.mark.parametrize(
    ("text", "strip", "failed"),
    [
        ("  a\n b\n", "  ", StripFailed(2, " b")),
        ("\ta", "    ", StripFailed(1, "\ta")),
        ("  a\r\nb\r\n", "  ", StripFailed(2, "b")),
        ("\x1c\n", " ", StripFailed(1, "\x1c")),
    ],
)
def test_a_line_without_the_prefix_fails(text: str, strip: str, failed: StripFailed) -> None:
    assert reindent(text, strip, "x") == failed
