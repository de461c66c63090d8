"""Counting tokens for the size limit of a call."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from stet.wire.failures import Refused
from stetd.editing import tokens
from stetd.editing.refusals import check_size
from stetd.editing.tokens import count_tokens


def test_counts_are_those_of_the_encoding() -> None:
    assert count_tokens(["hello world", "", "\n\n"]) == (3, True)
    assert count_tokens(["def f(x):\n    return x\n"]) == (8, True)


def test_cutting_into_stretches_does_not_change_the_count() -> None:
    words = "The quick (brown) fox's 1234567 paws -- jump!\n\n    over = {x: 'y'};\r\n"
    text = words * 6_000
    whole = len(tokens.load_encoding().encode_ordinary(text))
    assert count_tokens([text]) == (whole, True)


@pytest.mark.parametrize(
    "lines", ["0.73\n", "f(x);\n", "\tx\r\n \n\n", "y;\n// z\n", "a\x1c\n//\n"]
)
def test_text_without_single_spaces_is_cut_behind_lines(lines: str) -> None:
    text = lines * 30_000
    assert all(len(stretch) < 70_000 for stretch in tokens._stretches(text))
    whole = len(tokens.load_encoding().encode_ordinary(text))
    assert (
        sum(len(tokens.load_encoding().encode_ordinary(s)) for s in tokens._stretches(text))
        == whole
    )


def test_a_call_of_60_000_bytes_is_never_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise AssertionError("the vocabulary was loaded")

    monkeypatch.setattr(tokens, "load_encoding", load)
    check_size(None, ["x" * 59_998, "\u00e9"])


def test_a_call_over_the_limit_is_told_its_count() -> None:
    check_size(None, [" a b" * 30_000])
    with pytest.raises(Refused, match="of this call are 60,001 tokens long"):
        check_size(None, [" a b" * 15_000, " c" * 30_001])


def test_many_bytes_can_be_few_tokens() -> None:
    check_size(None, [" " * 200_000])


@pytest.mark.parametrize("run", ["a", " ", "=", "\n", "\u00e9", "ab1(", "\u65e5\u672c\u8a9e"])
def test_a_long_run_is_counted(run: str) -> None:
    """In quadratic time, as the merging of one piece is, it would never end."""
    assert count_tokens([run * (4_000_000 // len(run))])[0] > 0


def test_far_over_the_limit_counting_stops() -> None:
    count, exact = count_tokens(["word " * 1_000_000])
    assert not exact
    assert 60_000 < count < 100_000


def test_special_tokens_in_a_text_are_plain_text() -> None:
    assert count_tokens(["<|endoftext|>"])[0] > 1


def test_a_damaged_vocabulary_is_refused() -> None:
    with pytest.raises(RuntimeError, match="can not be unpacked"):
        tokens._unpacked(b"not xz")


def test_another_vocabulary_is_refused() -> None:
    import lzma

    with pytest.raises(RuntimeError, match=hashlib.sha256(b"IQ== 0\n").hexdigest()):
        tokens._unpacked(lzma.compress(b"IQ== 0\n"))


def test_importing_loads_neither_tiktoken_nor_the_vocabulary() -> None:
    code = "import sys, stetd.editing.tokens; print('tiktoken' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
