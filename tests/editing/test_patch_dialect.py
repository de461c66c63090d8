"""The ``patch`` dialect on whole bytes: what tests/scenarios/patch does not show."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from memory_world import (
    MemoryWorld,
    append,
    kinds,
    overwrite,
    patched,
    plan_patch,
    prepend,
    refusal,
    replace,
)
from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import EditReport
from stetd.editing import time_limit
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import PlannedFile, SourceFile

APPLIED = "<patches_applied>all</patches_applied>"


class TestSeveralPatches:
    @pytest.mark.parametrize("data", [None, b""])
    def test_beginning_comes_before_end_where_both_are_one_place(self, data: bytes | None) -> None:
        assert patched(data, append("end\n"), prepend("begin\n")) == b"begin\nend\n"

    def test_a_context_line_of_one_may_be_changed_by_another(self) -> None:
        patches = (replace("a\nb\nc\n", "A\nb\nC\n"), replace("b\n", "B\n"))
        assert patched(b"a\nb\nc\n", *patches) == b"A\nB\nC\n"

    def test_different_lines_after_one_anchor_keep_the_order_of_the_call(self) -> None:
        patches = (replace("b", "b\nsecond"), replace("b", "b\nthird"))
        assert patched(b"a\nb\nc\n", *patches) == b"a\nb\nsecond\nthird\nc\n"

    def test_what_is_put_after_a_text_comes_before_what_is_put_before_the_next(self) -> None:
        patches = (replace("b\n", "before b\nb\n"), replace("a\n", "a\nafter a\n"))
        for order in (patches, patches[::-1]):
            assert patched(b"a\nb\n", *order) == b"a\nafter a\nbefore b\nb\n"

    def test_text_that_both_keep_at_their_edges_may_be_shared(self) -> None:
        patches = (replace("aXb", "aYb"), replace("bZc", "bWc"))
        assert patched(b"aXbZc", *patches) == b"aYbWc"

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (("abc", "x"), ("cde", "y")),
            (("b", "B"), ("b", "BB")),
            (("b", "bar"), ("b", "baz")),
            (("abcde", "hello"), ("c", "C")),
            (("b", "bar"), ("abc", "xbz")),
        ],
    )
    def test_edits_of_the_same_bytes_are_refused_naming_both(
        self, first: tuple[str, str], second: tuple[str, str]
    ) -> None:
        refused = refusal(b"abcde\n", replace(*first), replace(*second))
        assert kinds(refused) == [("overlapping_edits", 1)]
        assert refused.message.startswith("patch 2: overlaps patch 1: both change the same text")

    def test_one_insertion_written_in_two_ways_is_refused(self) -> None:
        refused = refusal(b"a\nb\n", replace("a\n", "a\nx\n"), replace("b\n", "x\nb\n"))
        assert kinds(refused) == [("overlapping_edits", 1)]
        assert "both insert the same text at the same place at line 2" in refused.message

    def test_every_failure_is_reported_with_its_index(self) -> None:
        refused = refusal(
            b"a\nb\nb\n",
            replace("a", "A"),
            replace("zebra", "z"),
            replace("b", "B"),
            replace("a", fromClipboard="none"),
            append("x", toClipboard="c"),
            {"operation": "replace", "newText": "n"},
        )
        assert kinds(refused) == [
            ("old_text_not_found", 1),
            ("old_text_not_unique", 2),
            ("missing_clipboard", 3),
            ("clipboard_requires_replace", 4),
            ("missing_old_text", 5),
        ]
        assert refused.failures[1].candidates == [2, 3]
        assert refused.message.count("patch 3: ") == 1

    def test_only_so_many_misses_are_explained_but_all_are_reported(self) -> None:
        refused = refusal(b"alpha = 1\n", *[replace(f"alpha = {n}", "x") for n in range(2, 50)])
        assert kinds(refused) == [("old_text_not_found", n) for n in range(48)]
        assert [bool(each.nearest) for each in refused.failures] == [True] * 20 + [False] * 28

    def test_after_200_failures_the_others_are_not_looked_at(self) -> None:
        refused = refusal(b"alpha = 1\n", *[replace("zebra", "x")] * 1_000)
        assert kinds(refused) == [("old_text_not_found", n) for n in range(201)]
        assert "patch 201: this patch and those after it were not looked at" in refused.message

    def test_reports_give_the_lines_of_the_new_file_in_the_order_of_the_call(self) -> None:
        plan = plan_patch(
            b"a\nb\nc\n", replace("c\n", "C\nD\n"), prepend("0\n"), replace("b\n", "")
        )
        assert plan.files[0].after == b"0\na\nC\nD\n"
        assert plan.edits == (
            EditReport(0, "a.txt", 3, 4, "exact"),
            EditReport(1, "a.txt", 1, 1, "exact"),
            EditReport(2, "a.txt", 3, 3, "exact"),
        )

    def test_reports_of_edits_that_share_context_count_it(self) -> None:
        plan = plan_patch(
            b"a\nb\nc\nd\n",
            replace("a\n", "a\na2\na3\n"),
            replace("a\nb\nc\n", "a\nb\nC\nC2\n"),
            replace("c\nd", "c\nD"),
        )
        assert plan.files[0].after == b"a\na2\na3\nb\nC\nC2\nD\n"
        assert plan.edits == (
            EditReport(0, "a.txt", 1, 3, "exact"),
            EditReport(1, "a.txt", 1, 6, "exact"),
            EditReport(2, "a.txt", 5, 7, "exact"),
        )

    def test_the_subject_names_file_and_number_of_edits(self) -> None:
        one = plan_patch(b"a\n", append("b"), path="src/a.py")
        two = plan_patch(b"a\n", append("b"), prepend("c"), path="src/a.py")
        assert one.subject == "patch src/a.py: 1 edit"
        assert two.subject == "patch src/a.py: 2 edits"


class TestTextAndPlace:
    def test_lines_that_run_together_are_mentioned(self) -> None:
        (warning,) = plan_patch(b"a", append("b\n")).warnings
        assert "patch 1: no newline stands between the file's last line" in warning
        (warning,) = plan_patch(b"a\n", prepend("0")).warnings
        assert "patch 1: no newline stands between the file's first line" in warning
        assert plan_patch(b"a", append("\nb")).warnings == ()
        assert plan_patch(b"", append("b")).warnings == ()
        (warning,) = plan_patch(b"  a\n  b\n", replace("  a\n", "  c")).warnings
        assert "patch 1: what it replaces begins or ends with a newline that newText" in warning
        assert plan_patch(b"  a\n  b\n", replace("  a\n", "")).warnings == ()

    def test_a_new_file_is_literal(self) -> None:
        assert patched(None, append("x\ny\r\nz")) == b"x\ny\r\nz"

    def test_old_text_over_bytes_that_are_none_is_told_so_whatever_another_patch_writes(
        self,
    ) -> None:
        refused = refusal(b"one\ncaf\xe9\n", replace("one", "caf\ufffd"), replace("caf\ufffd", "x"))
        assert kinds(refused) == [("not_text", 1)]
        assert "new text of" not in refused.message


@pytest.mark.parametrize(("data", "change"), [(b"b\n", prepend), (b"", append)])
def test_text_at_the_beginning_does_not_double_a_byte_order_mark(
    data: bytes, change: Callable[[str], dict[str, object]]
) -> None:
    bom = b"\xef\xbb\xbf"
    assert patched(bom + data, change("\ufeffa\n")) == bom + b"a\n" + data


def test_a_byte_order_mark_is_kept_where_the_file_has_none_or_elsewhere() -> None:
    bom = b"\xef\xbb\xbf"
    assert patched(b"b\n", prepend("\ufeffa\n")) == bom + b"a\nb\n"
    assert patched(bom + b"b\n", append("\ufeffa\n")) == bom + b"b\n" + bom + b"a\n"


class TestMissingFile:
    def test_an_empty_file_can_be_created(self) -> None:
        assert patched(None, overwrite("")) == b""

    @pytest.mark.parametrize("data", [None, b"\xef\xbb\xbfa\n"])
    def test_a_file_that_is_made_empty_or_loses_its_bom_is_not_said_to_be_unchanged(
        self, data: bytes | None
    ) -> None:
        plan = plan_patch(data, overwrite("a\n" if data else ""))
        assert (APPLIED, ()) == (plan.message, plan.warnings)


class TestClipboards:
    def test_later_patches_see_the_later_of_two_stores(self) -> None:
        plan = plan_patch(
            b"one\ntwo\n",
            replace("one", "1", toClipboard="c"),
            replace("two", "2", toClipboard="c"),
            append("", fromClipboard="c"),
            clipboards={"c": "old", "d": "kept"},
        )
        assert plan.files[0].after == b"1\n2\ntwo"
        assert plan.clipboards == {"c": "two"}

    def test_an_earlier_patch_does_not_see_a_later_store(self) -> None:
        refused = refusal(b"a\n", append("", fromClipboard="c"), replace("a", "b", toClipboard="c"))
        assert kinds(refused) == [("missing_clipboard", 0)]

    def test_copying_leaves_the_text_beside_an_edit_of_it(self) -> None:
        plan = plan_patch(
            b"def f():\n    pass\n",
            replace("def f():\n    pass\n", toClipboard="c", fromClipboard="c"),
            replace("pass", "return 1"),
        )
        assert plan.files[0].after == b"def f():\n    return 1\n"
        assert plan.clipboards == {"c": "def f():\n    pass\n"}

    def test_what_hangs_on_a_failed_store_is_not_reported_as_missing(self) -> None:
        refused = refusal(
            b"a\n", replace("zebra", "", toClipboard="c"), append("", fromClipboard="c")
        )
        assert kinds(refused) == [("old_text_not_found", 0)]

    def test_a_name_stored_again_after_a_failure_is_used(self) -> None:
        refused = refusal(
            b"a\n",
            replace("zebra", "", toClipboard="c"),
            replace("a", "b", toClipboard="c"),
            append("", fromClipboard="c", reindent={"strip": "\t"}),
        )
        assert kinds(refused) == [("old_text_not_found", 0), ("strip_precondition_failed", 2)]

    def test_copying_needs_the_whole_of_the_old_text(self) -> None:
        copy = replace("zebra\nb = 1\n", toClipboard="c", fromClipboard="c")
        assert kinds(refusal(b"a\nb = 1\n", copy)) == [("old_text_not_found", 0)]

    def test_pasting_into_a_new_file_is_literal(self) -> None:
        paste = overwrite("", fromClipboard="c")
        assert patched(None, paste, clipboards={"c": "a\r\nb\n"}) == b"a\r\nb\n"

    def test_overwriting_with_a_clipboard_is_literal(self) -> None:
        paste = overwrite("", fromClipboard="c")
        assert patched(b"x\ny\n", paste, clipboards={"c": "a\r\nb\r\n"}) == b"a\r\nb\r\n"


class TestNoChange:
    @pytest.mark.parametrize(
        ("data", "patch"),
        [
            (b"a\n", replace("a", "a")),
            (b"a\n", overwrite("a\n")),
            (b"a\n", append("")),
            (b"a  \n", replace("a\n", "a\n")),
        ],
    )
    def test_a_call_that_changes_nothing_is_refused(
        self, data: bytes, patch: dict[str, object]
    ) -> None:
        assert kinds(refusal(data, patch)) == [("no_change", 0)]

    def test_a_copy_does_not_excuse_another_idle_patch(self) -> None:
        copy = replace("a", toClipboard="c", fromClipboard="c")
        assert kinds(refusal(b"a\nb\n", copy, replace("b", "b"))) == [("no_change", 1)]

    def test_replacing_without_new_text_deletes(self) -> None:
        assert patched(b"ab\n", replace("b")) == b"a\n"


class TestSizeLimit:
    """60,000 tokens a call."""

    def test_a_call_of_more_is_refused(self) -> None:
        refused = refusal(b"a\n", append(" a b" * 30_001))
        assert kinds(refused) == [("input_too_large", None)]
        assert "60,002 tokens" in refused.message
        assert "limit is 60,000" in refused.message
        assert "smaller patches" in refused.message

    def test_the_texts_of_all_patches_count(self) -> None:
        refused = refusal(b"a\n", append(" a b" * 20_000), replace(" c d" * 20_000, ""))
        assert kinds(refused) == [("input_too_large", None)]

    def test_as_many_are_accepted(self) -> None:
        text = " a b" * 30_000
        assert patched(b"", append(text)) == text.encode()

    def test_a_clipboard_does_not_count(self) -> None:
        paste = append("", fromClipboard="c")
        assert len(patched(b"", paste, clipboards={"c": " a b" * 40_000})) == 160_000


class TestClipboardsThatAreLong:
    """A planner puts them in, whose memory is limited; the writer begins every call itself."""

    WORLD = MemoryWorld({"a.txt": b"0\n1\n2\n3\n4\n5\n6\n7\n"}, {"c": "line of text\n" * 100_000})

    def test_over_and_over_in_a_call(self) -> None:
        patches = [replace(f"{number}\n", fromClipboard="c") for number in range(8)]
        with time_limit.limited(600), pytest.raises(time_limit.TakesLong):
            DIALECTS["patch"]({"path": "a.txt", "patches": patches}, self.WORLD)

    def test_with_other_indentation(self) -> None:
        patches = [append("", fromClipboard="c", reindent={"add": " "})]
        began = time.thread_time()
        with time_limit.limited(0.01), pytest.raises(time_limit.TakesLong):
            DIALECTS["patch"]({"path": "a.txt", "patches": patches}, self.WORLD)
        assert time.thread_time() - began < 1


class TestNearMissesOfModels:
    WORLD = MemoryWorld({"a.txt": b"a\n"})

    @pytest.mark.parametrize(
        "patches",
        [
            {"operation": "replace", "oldText": "a", "newText": "b"},
            json.dumps([{"operation": "replace", "oldText": "a", "newText": "b"}]),
            json.dumps({"operation": "replace", "oldText": "a", "newText": "b"}),
            [{"operation": "replace", "old_text": "a", "new_text": "b"}],
            [{"operation": "replace", "oldText": "a", "newText": "b", "toClipboard": None}],
            [json.dumps({"operation": "replace", "oldText": "a", "newText": "b"})],
        ],
    )
    def test_what_can_mean_only_one_thing_is_accepted(self, patches: object) -> None:
        plan = DIALECTS["patch"]({"path": "a.txt", "patches": patches}, self.WORLD)
        assert plan.files == (PlannedFile("a.txt", b"a\n", b"b\n"),)

    def test_clipboard_names_in_snake_case_are_accepted(self) -> None:
        patches = [{"operation": "replace", "old_text": "a", "to_clipboard": "c"}]
        plan = DIALECTS["patch"]({"path": "a.txt", "patches": patches}, self.WORLD)
        assert plan.clipboards == {"c": "a"}

    def test_a_path_that_is_refused_refuses_the_call(self) -> None:
        class Closed(MemoryWorld):
            def read(self, path: str) -> SourceFile:
                raise refuse(Kind.PATH_PROTECTED, "closed", path=path)

        with pytest.raises(Refused, match="closed"):
            DIALECTS["patch"]({"path": "a.txt", "patches": [append("x")]}, Closed())
