"""The ladder: what each rung reports, and the parts it is made of."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterable

import pytest

from stetd.editing import time_limit
from stetd.editing.matching.ladder import Several, locate
from stetd.editing.matching.line_replacement import IndentChange, shared_lines, spaces_unit
from stetd.editing.matching.rungs import Rung
from stetd.editing.planning import LocatedEdit
from stetd.editing.text import Document
from stetd.editing.typography import JOINING_STARTERS, SINGLETONS, TABLE, folded_text


def document(text: str) -> Document:
    return Document(False, text)


def test_a_match_tells_what_was_really_matched() -> None:
    found = locate(document("a\nb \nc\nd\n"), "b\nc", "b\nx")
    assert LocatedEdit(0, 2, 6, "b \nx", Rung.TRAILING_SPACE) == found


def test_a_whole_line_match_takes_the_terminator_exactly_when_the_text_ends_with_one() -> None:
    text = "a \nb\nc\n"
    assert LocatedEdit(0, 0, 5, "x\n", Rung.TRAILING_SPACE) == locate(
        document(text), "a\nb\n", "x\n"
    )
    assert LocatedEdit(0, 0, 4, "x", Rung.TRAILING_SPACE) == locate(document(text), "a\nb", "x")


def test_trimming_covers_only_what_is_replaced() -> None:
    found = locate(document("a\nb\nc\n"), "\nb\n\n", "\nx\n\n")
    assert LocatedEdit(0, 2, 4, "x\n", Rung.TRIM_EDGES) == found


def test_every_place_is_listed_by_its_line() -> None:
    assert Several(Rung.EXACT, (1, 1, 3)) == locate(document("aaa\n\naa"), "aa", "b")
    assert Several(Rung.INDENT, (1, 4)) == locate(
        document("  a\n  b\n\n\ta\n\tb\n"), "a\nb\n", "x\n"
    )


def test_every_place_of_what_trimming_leaves_is_listed() -> None:
    assert Several(Rung.TRIM_EDGES, (1, 3)) == locate(
        document("a\nb\na\nc\n"), "\na\n\n", "\nx\n\n"
    )


def test_at_most_a_thousand_places_are_listed() -> None:
    found = locate(document("x\n" * 5000), "x", "y")
    assert isinstance(found, Several)
    assert tuple(range(1, 1001)) == found.lines


def test_a_tolerant_place_in_bytes_that_are_not_utf8_can_be_told() -> None:
    broken = Document.from_bytes(b"a \xff\nb \nc\n")
    found = locate(broken, "b\nc\n", "x\n")
    assert isinstance(found, LocatedEdit)
    assert broken.undecodable(found.start, found.end) is None


def test_two_boms_are_not_written() -> None:
    found = locate(Document.from_bytes(b"\xef\xbb\xbfa\n"), "a", "\ufeffb")
    assert LocatedEdit(0, 0, 1, "b", Rung.EXACT) == found


class TestTypography:
    def test_the_table_is_the_one_of_the_design(self) -> None:
        spans: dict[str, list[Iterable[int]]] = {
            "-": [range(0x2010, 0x2016), [0x2212]],
            "'": [range(0x2018, 0x201C), [0x2032]],
            '"': [range(0x201C, 0x2020), [0x2033]],
            " ": [[0xA0, 0x1680], range(0x2000, 0x200B), [0x202F, 0x205F, 0x3000]],
            "...": [[0x2026]],
        }
        expected = {
            chr(code): plain
            for plain, groups in spans.items()
            for group in groups
            for code in group
        }
        assert expected == TABLE

    def test_everything_that_composes_with_what_stands_before_is_known(self) -> None:
        joining = set()
        for code in range(0x110000):
            parts = unicodedata.decomposition(chr(code)).split()
            if len(parts) == 2 and not parts[0].startswith("<"):
                second = chr(int(parts[1], 16))
                if not unicodedata.combining(second):
                    joining.add(second)
        assert joining <= set(JOINING_STARTERS)

    def test_every_code_point_with_one_equivalent_is_known(self) -> None:
        singletons = set()
        for code in range(0x110000):
            decomposition = unicodedata.decomposition(chr(code))
            if decomposition and " " not in decomposition:
                singletons.add(chr(code))
        assert singletons <= SINGLETONS

    def test_singletons_are_left_alone_beside_what_composes(self) -> None:
        assert folded_text("\u212a e\u0301 \u2126 -\u2014") == "\u212a \u00e9 \u2126 --"

    def test_latin_folds_nothing_and_joins_nothing(self) -> None:
        latin = "".join(map(chr, range(0x300)))
        assert folded_text(latin) == latin.replace("\xa0", " ")

    @pytest.mark.parametrize(
        "text",
        [
            "e\u0301",
            "\u1100\u1161\u11a8",
            "a\u0323\u0302",
            "\u0915\u093c",
            "\u0b47\u0b3e",
            "x\u0302",
        ],
    )
    def test_composed_and_decomposed_fold_alike(self, text: str) -> None:
        composed = unicodedata.normalize("NFC", text)
        assert composed == folded_text(text)
        assert composed == folded_text(unicodedata.normalize("NFD", text))

    def test_offsets_lead_back_to_whole_characters(self) -> None:
        told = document("a\u2026b e\u0301.")
        assert told.folded == "a...b \u00e9."
        assert [told.offset_from_folded(offset) for offset in range(len(told.folded) + 1)] == [
            0,
            1,
            None,
            None,
            2,
            3,
            4,
            6,
            7,
        ]

    def test_a_mark_at_the_beginning_of_a_line_leaves_the_newline_alone(self) -> None:
        assert folded_text("a\n\u0301b") == "a\n\u0301b"

    def test_a_long_line_does_not_take_longer_than_the_limit(self) -> None:
        with time_limit.limited(0), pytest.raises(time_limit.TakesLong):
            document("\u2026" * 10).offset_from_folded(0)


class TestIndentation:
    @pytest.mark.parametrize(
        ("text", "place", "new", "around", "expected"),
        [
            # the same characters are put or taken
            (["", "  "], ["  ", "    "], ["", " "], [], ["  ", "   "]),
            (["    "], ["  "], ["    ", "  "], [], ["  ", ""]),
            (["    "], ["  "], [" "], [], None),
            (["\t"], ["\t\t"], ["\t", "\t  "], [], ["\t\t", "\t\t  "]),
            # tabs for spaces
            (["    "], ["\t"], ["        "], [], ["\t\t"]),
            (["  ", "    "], ["\t", "\t\t"], ["      "], [], ["\t\t\t"]),
            (["  ", "    "], ["\t", "\t\t"], ["     "], [], None),
            (["    "], ["\t\t"], ["    ", "        "], [], ["\t\t", "\t\t\t"]),
            (["    "], ["\t"], ["      "], [], None),
            (["        "], ["\t\t"], ["    "], [], ["\t"]),
            (["    "], ["\t"], ["  \t"], [], None),
            # spaces for tabs
            (["\t"], ["    "], ["\t\t"], ["", "    "], ["        "]),
            (["\t", "\t\t"], ["  ", "    "], [""], ["", "  "], [""]),
            (["\t"], ["      "], ["\t\t"], ["", "    "], None),
            (["\t"], ["        "], ["\t\t"], ["", "    "], ["            "]),
            (["\t\t"], ["    "], ["\t\t\t"], ["", "    "], ["        "]),
            (["\t\t"], ["        "], ["\t\t\t"], ["", "  ", "    "], None),
            (["\t"], ["    "], ["\t\t"], [], None),
            (["\t"], ["    "], ["\t"], [], ["    "]),
            # text without indentation of its own
            (["", ""], ["\t", "\t"], ["    "], [], ["\t\t"]),
            (["", ""], ["    ", "    "], ["\t"], ["", "    "], ["        "]),
            (["    "], [""], ["    ", "        "], ["", "\t"], ["", "\t"]),
            (["    "], [""], ["    ", "        "], ["", "    "], ["", "    "]),
            # none at all
            (["", "  "], ["", "  "], ["\t"], ["\t"], ["\t"]),
        ],
    )
    def test_new_lines_get_the_same_change(
        self,
        text: list[str],
        place: list[str],
        new: list[str],
        around: list[str],
        expected: list[str] | None,
    ) -> None:
        change = IndentChange(tuple(text), tuple(place))
        assert change.uniform
        assert expected == change.apply(new, around)

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            (["", "  "], ["", "    "]),
            (["", "    "], ["  ", "    "]),
            (["  ", "    "], ["\t", "\t"]),
            (["\t", "\t\t"], ["      ", "    "]),
            (["  ", "   "], ["\t", "\t\t\t"]),
            ([" \t", " "], ["\t", "\t"]),
        ],
    )
    def test_an_uneven_change_is_none(self, text: list[str], place: list[str]) -> None:
        assert not IndentChange(tuple(text), tuple(place)).uniform

    def test_the_unit_is_the_smallest_step_that_is_no_rarity(self) -> None:
        assert spaces_unit(["", "    ", "        ", "    ", "            "]) == 4
        assert spaces_unit(["", "  ", "    "]) == 2
        assert spaces_unit(["", "\t", "\t", "  "]) is None
        assert spaces_unit(["", "    "] * 9 + ["", "   "]) == 4
        assert spaces_unit(["", "    ", "", "    ", "", "  "]) is None
        assert spaces_unit(["    ", "       "] * 3) is None
        assert spaces_unit(["    ", "    "]) == 4
        assert spaces_unit(["            "]) is None
        assert spaces_unit(["  \t", "  \t"]) is None
        assert spaces_unit([" " * width for width in (0, 2, 5, 9, 14, 20)]) is None
        assert spaces_unit([]) is None


def test_shared_lines_are_what_the_sender_left_alone() -> None:
    assert shared_lines(["a", "b", "c"], ["a", "x", "b", "c"]) == [0, None, 1, 2]
    assert shared_lines(["a", "b", "c", "d", "e"], ["a", "c", "x", "e"]) == [0, 2, None, 4]
    assert shared_lines(["a"], []) == []
    assert shared_lines(["a", "a"], ["a"]) == [0]
    assert shared_lines(["x", "", "y"], ["z", "\0", "z"]) == [None, None, None]


def _seconds(text: str, old: str) -> float:
    start = time.process_time()
    locate(document(text), old, "x")
    return time.process_time() - start


class TestCost:
    """Processor time: far above what is measured, far below what anything quadratic takes."""

    LINES = 100_000

    def test_a_miss_in_a_large_file(self) -> None:
        text = "".join(f"    value_{i} = compute({i})  \n" for i in range(self.LINES))
        assert _seconds(text, "\nvalue_5 = compute(6)\nx\n\n") < 2

    def test_a_pattern_of_equal_lines_in_a_file_of_equal_lines(self) -> None:
        text = "    x = 1 \n" * self.LINES
        assert _seconds(text, "x = 1\n" * 49 + "y = 1\n") < 2
        assert _seconds(text, "x = 1\n" * 50) < 2
        assert _seconds(text, "x = 1\n" * 25 + "  x = 1\n" + "x = 1\n" * 24) < 2

    def test_a_file_full_of_typography(self) -> None:
        text = "\u201cquoted\u201d \u2014 caf\u0065\u0301\u2026\r\n" * (self.LINES // 4)
        assert _seconds(text, '"quoted" - cafe') < 2

    def test_a_long_text_against_a_long_file(self) -> None:
        text = "    x\n" * self.LINES
        assert _seconds(text, "x\n" * 10_000 + "  x\n") < 4

    def test_what_was_not_looked_at_may_stand_again(self) -> None:
        text = "  a\n\tb\n" + "a\nb\n" * 2000 + "x\n"
        found = locate(document(text + "    a\n    b\n"), "a \nb", "c")
        assert isinstance(found, Several)
        far = locate(document("        a\n        b\n" + "a\n  b\n" * 3000), "  a\n  b", "c")
        assert isinstance(far, Several)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("  gamma\ngamma\ntail", "  gamma\n    gamma\n", "  gamma\n  newer word here\n"),
        ('head\n    "q"\n\n\t"q"\ntail', '\t"q"\n\n\t"q"\n', '\t"q"\n  new word here\n\t"q"\n'),
    ],
)
def test_one_passage_that_either_edge_leads_to_does_not_stand_twice(
    text: str, old: str, new: str
) -> None:
    assert locate(document(text), old, new) is None
