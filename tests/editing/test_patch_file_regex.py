"""``regex`` of ``patch_file``: what a pattern means, and that none can harm the daemon."""

from __future__ import annotations

import time

import pytest

from memory_world import MemoryWorld
from stet.wire.failures import Refused
from stetd.editing import time_limit
from stetd.editing.dialects import DIALECTS
from stetd.editing.patch_file import regex_search
from stetd.editing.patch_file.regex_search import (
    SECONDS,
    Allowance,
    BadPattern,
    ReadPattern,
)


def patched(data: bytes, search: str, replace: str, **fields: object) -> bytes:
    change = {"search": search, "replace": replace, "regex": True, **fields}
    made = DIALECTS["patch_file"]({"path": "a", "changes": [change]}, MemoryWorld({"a": data}))
    after = made.files[0].after
    assert after is not None
    return after


def refused(data: bytes, *searches: str, replace: str = "x") -> Refused:
    changes = [{"search": each, "replace": replace, "regex": True} for each in searches]
    with pytest.raises(Refused) as caught:
        DIALECTS["patch_file"]({"path": "a", "changes": changes}, MemoryWorld({"a": data}))
    return caught.value


def compute(seconds: float) -> None:
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


class TestMeaning:
    def test_a_byte_order_mark_is_not_doubled(self) -> None:
        assert patched(b"\xef\xbb\xbfa\n", "a", "\ufeffb") == b"\xef\xbb\xbfb\n"

    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
    def test_line_anchors_and_dots_mean_the_same_whatever_ends_the_lines(self, end: bytes) -> None:
        data = b"one = 1" + end + b"two = 2" + end + b"three" + end
        expected = b"one = 1" + end + b"[two = 2]" + end + b"three" + end
        assert expected == patched(data, r"^two.*$", r"[\g<0>]")

    def test_a_replacement_over_lines_keeps_each_lines_own_terminator(self) -> None:
        data = b"a\r\nb\nc\rd\n"
        assert b"a\r\nB\nc\rD\n" == patched(data, r"(?s)\A(a\n)b(\nc\n)d", r"\1B\2D")

    def test_a_pattern_written_for_crlf_matches_any_terminator(self) -> None:
        assert b"1\n" == patched(b"a\nb\n", r"a\r\nb", "1")
        assert b"1\r\n" == patched(b"a\r\nb\r\n", r"a\r?\nb", "1")

    def test_a_replacement_never_doubles_a_carriage_return(self) -> None:
        assert b"1\r\n2\r\n3\r\n" == patched(b"a\r\n", r"^a$", "1\r\n2\\n3")

    def test_groups_by_number_and_name_and_those_that_took_no_part(self) -> None:
        assert b"b=a;\n" == patched(b"a=b\n", r"(?P<k>\w)=(\w)(!)?", r"\2=\g<k>;\3")

    def test_a_dollar_in_the_replacement_is_a_dollar(self) -> None:
        assert b"$1 $& $\n" == patched(b"a\n", "(a)", "$1 $& $")

    def test_a_brace_that_counts_nothing_is_a_brace_and_no_approximation(self) -> None:
        """The package regex reads ``(?:foo){e}`` as: foo, with any number of errors."""
        assert b"x bar\n" == patched(b"foo{e} bar\n", "foo{e}", "x")
        assert "old_text_not_found" == refused(b"fo bar\n", "(?:foo){e<=1}").kind
        assert "old_text_not_found" == refused(b"print(iii)\n", r"print\({i}\)").kind

    @pytest.mark.parametrize(
        "pattern", [r"a{2}", r"a{2,}", r"a{,2}b", r"[{]a", r"\{a", r"\p{Ll}{2}"]
    )
    def test_braces_that_mean_something_are_left_alone(self, pattern: str) -> None:
        assert pattern == ReadPattern(pattern).text

    def test_a_brace_in_a_comment_or_a_set_changes_nothing(self) -> None:
        assert b"x\n" == patched(b"ab\n", "(?x) a # [ {i} ( \n b", "x")
        assert b"x\n" == patched(b"{\n", "[]{}]", "x")
        assert b"x\n" == patched(b"ab#{i}\n", "(?x: a # {i} (\n b )#{i}", "x")

    def test_matches_do_not_overlap(self) -> None:
        assert b"xa\n" == patched(b"aaa\n", "aa", "x")


class TestRefusals:
    def test_the_position_is_that_of_the_pattern_that_was_sent(self) -> None:
        message = refused(b"a\n", 'f"{i}{j}"(').message
        assert "missing ) (at position 10" in message
        assert "missing ) (at position 6" in refused(b"a\n", r"(a\r\n").message

    @pytest.mark.parametrize(
        ("replace", "reason"),
        [
            (r"\2", "no such group"),
            (r"\g<no>", "unknown group"),
            (r"\q", "bad escape"),
            ("\\", "bad escape"),
            (r"\ud83d\ude00", "surrogate"),
            (r"[\0]", r"the whole match is \g<0>"),
        ],
    )
    def test_a_template_is_checked_before_anything_is_searched(
        self, replace: str, reason: str
    ) -> None:
        found = refused(b"nothing like it\n", "(a)z", replace=replace)
        assert "invalid_params" == found.kind
        assert reason in found.message

    def test_a_nul_that_the_replacement_itself_holds_is_no_escape(self) -> None:
        assert b"b\0c\n" == patched(b"a\n", "a", "b\0c")

    def test_each_of_several_bad_patterns_is_told(self) -> None:
        found = refused(b"a\n", "(a", "[a", "a")
        assert [0, 1] == [failure.index for failure in found.failures]


class TestBounds:
    """The writer thread does the searching: no pattern may hold it, or fill the memory."""

    @pytest.mark.parametrize(
        "pattern",
        [
            "a{100000000}",
            "(?:a{1000}){1000}",
            "((((a{30}){30}){30}){30}){30}",
            "(?:" * 60 + "a" + ")" * 60,
            "(" * 5_000 + ")" * 5_000,
            "a" * 4_001,
            "(?R)?a",
            "(a)(?1)",
            "(?<x>a(?&x)?)",
            "(?P>x)(?P<x>a)",
            "(?r)a",
            "(?ir:a)",
            "(?x: a )#((a{500}){500}){50}",
            "(a(?x) b )#((a{500}){500}){50}",
            "(?x) a (?-x)#((a{500}){500}){50}",
            "(?x)((a {500})\n{500}) # many\n {50}",
            "[[:x]((a{500}){500}){50}:]",
            r"\p{L((a{500}){500}){50}",
            "(?x: a )#(?R)?",
        ],
    )
    def test_what_could_fill_time_or_memory_is_refused_unread(self, pattern: str) -> None:
        began = time.process_time()
        with pytest.raises(BadPattern):
            ReadPattern(pattern)
        assert "invalid_params" == refused(b"aaa\n", pattern).kind
        assert time.process_time() - began < 1

    def test_a_replacement_that_could_fill_the_memory_is_not_made_by_the_writer(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A planner makes it, whose memory is limited."""
        monkeypatch.setattr(regex_search, "_AT_ONCE_S", 60)
        with time_limit.limited(120), pytest.raises(time_limit.TakesLong):
            patched(b"a" * 1_000_000, "(a+)", r"\1" * 20)

    @pytest.mark.parametrize("pattern", ["(?-i:a)", "(?i-s:a)", "(?=a)a", "(?<=x)a|a", "(?#{i)a"])
    def test_what_only_looks_like_it_is_not(self, pattern: str) -> None:
        assert b"x\n" == patched(b"a\n", pattern, "x")

    @pytest.mark.parametrize("pattern", ["(?:a|a)*$", "(a|aa)+$"])
    def test_a_pattern_that_runs_away_is_stopped(self, pattern: str) -> None:
        began = time.process_time()
        found = refused(b"a" * 60 + b"!\n", pattern)
        assert found.kind in ("invalid_params", "old_text_not_found")
        assert time.process_time() - began < 3 * SECONDS

    def test_all_patterns_of_a_call_share_one_allowance(self) -> None:
        began = time.process_time()
        found = refused(b"a" * 60 + b"!\n", *["(?:a|a)*!$"] * 1 + ["(?:a|a)*$"] * 20)
        assert "invalid_params" == found.kind
        assert time.process_time() - began < 3 * SECONDS

    def test_repeated_groups_that_capture_are_not_tried_on_long_texts(self) -> None:
        data = b"ab" * 600_000
        found = refused(data, "(a|b)*")
        assert (
            "has 1,200,000 characters; this pattern is tried on 1,000,000 at most" in found.message
        )
        assert b"x" == patched(data, "(?:a|b)+", "x")

    def test_a_long_list_of_matches_is_counted_not_kept(self) -> None:
        found = refused(b"a b " * 10_000, r"\w")
        assert "1,000 times or more" in found.message
        assert 1_000 == len(found.failures[0].candidates or ())

    def test_an_allowance_counts_what_is_spent_in_searches_only(self) -> None:
        allowance = Allowance(1.0)
        with allowance:
            compute(0.05)
            time.sleep(0.05)  # waiting costs nothing
        spent = 1.0 - allowance.left
        compute(0.05)
        assert 0.05 <= spent < 0.095
        assert spent == 1.0 - allowance.left
