"""The ``patch_file`` dialect: what tests/scenarios/patch_file does not show."""

from __future__ import annotations

import json

import pytest

from memory_world import MemoryWorld
from stet.wire.failures import Kind, Refused, refuse
from stetd.editing import text, time_limit
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan, SourceFile
from stetd.editing.patch_file import dialect as patch_file

PATH = "src/a.py"


def change(search: str, replace: str, **fields: object) -> dict[str, object]:
    return {"search": search, "replace": replace, **fields}


def plan(data: bytes | None, *changes: object, **fields: object) -> Plan:
    files = {} if data is None else {PATH: data}
    return DIALECTS["patch_file"](
        {"path": PATH, "changes": list(changes), **fields}, MemoryWorld(files)
    )


def patched(data: bytes, *changes: object, **fields: object) -> bytes:
    (planned,) = plan(data, *changes, **fields).files
    assert planned.before == data
    assert planned.after is not None
    return planned.after


def refusal(data: bytes | None, *changes: object, **fields: object) -> Refused:
    with pytest.raises(Refused) as caught:
        plan(data, *changes, **fields)
    return caught.value


def lines(made: Plan) -> list[tuple[int, int]]:
    return [(report.line, report.end_line) for report in made.edits]


class TestReportedLines:
    def test_context_ends_with_the_file(self) -> None:
        made = plan(b"1\n2\n", change("1", "one"), context=3)
        assert made.message.endswith('"one"\n     > 1| one\n       2| 2')

    def test_a_later_change_before_it_shifts_an_earlier_one(self) -> None:
        made = plan(b"a\nb\nc\n", change("c", "C"), change("a\n", "1\n2\n3\n"))
        assert b"1\n2\n3\nb\nC\n" == made.files[0].after
        assert [(5, 5), (1, 3)] == lines(made)

    def test_a_later_change_inside_it_grows_an_earlier_one(self) -> None:
        made = plan(b"a\nb\n", change("a\n", "1\n2\n"), change("1\n", "1\n1\n1\n"))
        assert [(1, 4), (1, 3)] == lines(made)

    def test_a_change_that_is_replaced_is_where_its_replacement_is_and_says_so(self) -> None:
        made = plan(b"x\na\n", change("a", "b"), change("x\nb\n", "1\n2\n3\n4\n"))
        assert b"1\n2\n3\n4\n" == made.files[0].after
        assert [(1, 4), (1, 4)] == lines(made)
        assert '"a" became "b" (changed again by change 2)' in made.message

    def test_changes_that_share_only_context_did_not_change_each_other(self) -> None:
        made = plan(b"a\nb\nc\n", change("a\nb\n", "A\nb\n"), change("b\nc\n", "b\nC\n"))
        assert "changed again" not in made.message

    def test_crlf_counts_as_one_line_end(self) -> None:
        made = plan(b"a\r\nb\r\nc\r\n", change("c", "C"), change("a\nb", "1\n2\n3"))
        assert b"1\r\n2\r\n3\r\nC\r\n" == made.files[0].after
        assert [(4, 4), (1, 3)] == lines(made)

    def test_a_change_that_begins_with_kept_lines_tells_the_line_that_changed_too(self) -> None:
        made = plan(b"a\nb\nc\n", change("a\nb\nc", "a\nb\nC"))
        assert '  1. Line 1: "c" became "C" at line 3' in made.message


class TestLimits:
    def test_more_changes_than_a_call_may_hold_are_refused(self) -> None:
        many = [change("a", "b")] * (patch_file.MOST_CHANGES + 1)
        refused = refusal(b"a\n", *many)
        assert "invalid_params" == refused.kind
        assert "holds 1,001 changes; 1,000 is the most" in refused.message

    def test_texts_over_the_token_limit_are_refused(self) -> None:
        refused = refusal(b"a\n", change("a", "word " * 60_001))
        assert "input_too_large" == refused.kind

    def test_a_thousand_changes_are_all_reported_where_they_are(self) -> None:
        data = "".join(f"line {n};\n" for n in range(1_000)).encode()
        many = [change(f"line {n};", f"LINE {n};\nmore {n}") for n in reversed(range(1_000))]
        made = plan(data, *many)
        expected = "".join(f"LINE {n};\nmore {n}\n" for n in range(1_000)).encode()
        assert expected == made.files[0].after
        assert [(2 * n + 1, 2 * n + 2) for n in reversed(range(1_000))] == lines(made)

    def test_changes_that_take_too_long_are_refused_with_how_many_to_send(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(patch_file, "_MOST_SECONDS", -1.0)
        refused = refusal(b"a\nb\n", change("a", "A"), change("b", "B"))
        assert (refused.kind, refused.failures[0].path) == ("invalid_params", PATH)
        assert "only 1 of 2 changes had been found" in refused.message
        assert "Send at most 1 of them in a call" in refused.message

    def test_the_end_of_an_indented_line_is_refused_where_the_line_would_be_joined(self) -> None:
        refused = refusal(b"\t}\r\n", change("}\n", "x", occurrence=1))
        assert "old_text_not_found" == refused.kind

    def test_the_500th_of_a_million_occurrences_is_found(self) -> None:
        data = b"a" * 1_000_000
        made = patched(data, change("aa", "b", occurrence=500_000))
        assert data[:499_999] + b"b" + data[500_001:] == made
        assert (
            "stands only 999,999 times"
            in refusal(data, change("aa", "b", occurrence=10**9)).message
        )

    def test_near_line_finds_its_place_among_more_than_can_be_listed(self) -> None:
        data = b"    return None\n" * 5_000
        made = plan(data, change("    return None\n", "    return 1\n", near_line=4_321))
        assert [(4_321, 4_321)] == lines(made)

    def test_near_line_takes_the_nearest_place_whatever_its_terminators(self) -> None:
        data = b"x\n" * 3 + b"    return\n" + b"x\n" * 9 + b"    return\r\n" + b"x\n"
        made = patched(data, change("    return\n", "    return 1\n", near_line=14))
        assert data.replace(b"return\r\n", b"return 1\r\n") == made
        assert lines(plan(data, change("    return\n", "    return 1\n", near_line=4))) == [(4, 4)]

    def test_a_near_line_that_earlier_changes_may_have_moved_is_refused(self) -> None:
        data = b"".join(b"case %d:\n  go();\n" % number for number in range(6))
        above = change("case 0:\n", "// a\n// b\ncase 0:\n")
        moved = refusal(data, above, change("  go();\n", "  stop();\n", near_line=8))
        assert (moved.kind, moved.failures[0].candidates) == (Kind.OLD_TEXT_NOT_UNIQUE, [8, 10])
        assert "change 2: near_line 8 means different places with and without the" in moved.message
        first = change("  go();\n", "  stop();\n", near_line=8)
        assert [(10, 10), (1, 3)] == lines(plan(data, first, above))
        below = change("case 5:\n", "// a\n// b\ncase 5:\n")
        assert [(11, 13), (8, 8)] == lines(plan(data, below, first))
        # The line itself grew, and so did one after it.
        grown = change("case 3:\n", "case 3:\n  // a\n")
        assert [(7, 8), (9, 9)] == lines(plan(data, grown, change("go()", "on()", near_line=9)))

    def test_a_near_line_in_lines_that_an_earlier_change_rewrote_one_by_one_stays(self) -> None:
        data = b"def a():\n    x\n    log()\n\ndef b():\n    x\n    log()\n"
        block = data.decode()
        renamed = change(block[:40], block[:40].replace("x", "z"))
        near = change("    log()\n", "    trace()\n", near_line=3)
        assert b"    trace()\n\ndef b" in patched(data, renamed, near)

    def test_a_near_line_among_lines_that_an_earlier_change_replaced_is_refused(self) -> None:
        block = "".join(f"b{number}\n" for number in range(2, 11))
        data = f"top\n{block}x\n1\n2\n3\n4\n5\n6\nx\n".encode()
        near = change("x\n", "y\n", near_line=10)
        assert [(11, 11)] == lines(plan(data, near))
        assert refusal(data, change(block, ""), near).failures[0].candidates == [2, 9]
        grown = f"x\n{block}x\n".encode()
        assert refusal(grown, change(block, "c\n" * 30), near).failures[0].candidates == [1, 32]

    def test_an_edit_that_joins_two_lines_is_mentioned(self) -> None:
        (warning,) = plan(b"  a\n  b\n", change("  a\n", "  c")).warnings
        assert "what it replaces begins or ends with a newline that replace lacks" in warning
        assert plan(b"  a\n  b\n", change("a\n  b", "c")).warnings == ()

    def test_occurrences_count_whatever_their_terminators(self) -> None:
        data = b"x\na\nx\r\nb\nx\n"
        assert patched(data, change("x\n", "y\n", occurrence=2)) == b"x\na\ny\r\nb\nx\n"
        assert patched(data, change("x\n", "y\n", occurrence=3)) == b"x\na\nx\r\nb\ny\n"

    def test_only_what_can_choose_a_tolerant_place_is_offered(self) -> None:
        quoted = "say “hi”\nz\nsay “hi”\n".encode()
        tie = refusal(quoted, change('say "hi"', "Q", near_line=2))
        assert tie.message.endswith("Send the line where it begins.")
        assert [(3, 3)] == lines(plan(quoted, change('say "hi"', "Q", near_line=3)))
        twice = b"x = 1\nend\nmid\nx = 1\nend\n"
        for choice in ({}, {"near_line": 4}):
            trimmed = refusal(twice, change("\nx = 1\nend\n\n\n", "\ny\n\n\n", **choice))
            assert "compared with tolerance: trim_edges" in trimmed.message
            assert trimmed.message.endswith("and must be unique. Send more lines in search.")

    def test_near_line_keeps_nobody_waiting_where_the_text_stands_a_million_times(self) -> None:
        with time_limit.limited(0.001), pytest.raises(time_limit.TakesLong):
            plan(b"a" * 1_000_000, change("a", "b", near_line=2))


class TestBackups:
    def test_another_refusal_than_a_taken_name_is_passed_on(self) -> None:
        class Protected(MemoryWorld):
            def read(self, path: str) -> SourceFile:
                if path.endswith(".bak"):
                    raise refuse(Kind.PATH_PROTECTED, "this name is protected", path=path)
                return super().read(path)

        world = Protected({PATH: b"a\n"})
        params = {"path": PATH, "changes": [change("a", "b")], "backup": True}
        with pytest.raises(Refused) as caught:
            DIALECTS["patch_file"](params, world)
        assert "path_protected" == caught.value.kind

    def test_when_a_hundred_names_are_taken_the_call_is_refused(self) -> None:
        taken = {f"{PATH}.bak": b"", **{f"{PATH}.bak.{n}": b"" for n in range(1, 100)}}
        world = MemoryWorld({PATH: b"a\n", **taken})
        params = {"path": PATH, "changes": [change("a", "b")], "backup": True}
        with pytest.raises(Refused) as caught:
            DIALECTS["patch_file"](params, world)
        assert "already_exists" == caught.value.kind


class TestNearMissesOfModels:
    @pytest.mark.parametrize(
        "changes",
        [
            {"search": "a", "replace": "b"},
            json.dumps({"search": "a", "replace": "b"}),
            json.dumps([{"search": "a", "replace": "b"}]),
            [json.dumps({"search": "a", "replace": "b"})],
            [{"search": "a", "replace": "b", "nearLine": 3, "occurrence": None}],
        ],
    )
    def test_what_can_mean_only_one_thing_is_understood(self, changes: object) -> None:
        made = DIALECTS["patch_file"](
            {"path": PATH, "changes": changes}, MemoryWorld({PATH: b"a\n"})
        )
        assert b"b\n" == made.files[0].after

    @pytest.mark.parametrize(
        ("fields", "word"),
        [
            ({"occurrence": True}, "occurrence"),
            ({"occurrence": "2"}, "occurrence"),
            ({"occurrence": 1.0}, "occurrence"),
            ({"near_line": 0}, "near_line"),
            ({"fuzzy": True}, "fuzzy"),
            ({"fuzzy": 1.01}, "fuzzy"),
            ({"fuzzy": float("nan")}, "fuzzy"),
            ({"fuzzy": 10**400}, "fuzzy"),
            ({"regex": 1}, "regex"),
            ({"all": True}, "all"),
        ],
    )
    def test_fields_that_are_not_as_told_are_refused(
        self, fields: dict[str, object], word: str
    ) -> None:
        refused = refusal(b"a\n", change("a", "b", **fields))
        assert "invalid_params" == refused.kind
        assert f'"{word}"' in refused.message

    @pytest.mark.parametrize("fields", [{"context": -1}, {"context": 51}, {"dry_run": "yes"}])
    def test_fields_of_the_call_are_checked(self, fields: dict[str, object]) -> None:
        assert "invalid_params" == refusal(b"a\n", change("a", "b"), **fields).kind


@pytest.mark.parametrize("fields", [{}, {"near_line": 1}])
def test_the_file_is_not_split_into_lines_again_for_each_change(
    fields: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand changes of a large file would take minutes, in which all other calls wait."""
    data = "".join(f"value {number};\n" for number in range(100))
    whole: list[str] = []

    def with_newlines(given: str) -> str:
        whole.extend([given] if len(given) >= len(data) else [])
        return sound(given)

    sound = text.with_newlines
    monkeypatch.setattr(text, "with_newlines", with_newlines)
    changes = [change(f"value {number};", f"changed {number};") for number in range(100)]
    changes[-1].update(fields)
    made = plan(data.encode(), *changes)
    assert made.files[0].after == data.replace("value", "changed").encode()
    assert len(whole) <= 5
