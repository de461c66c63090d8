"""The ``patch`` dialect, sentence by sentence of DIALECTS.md 1, on whole bytes."""

from __future__ import annotations

import json

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
from stet.wire.results import ClipboardNote, EditReport
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import PlannedFile, SourceFile

APPLIED = "<patches_applied>all</patches_applied>"


class TestSeveralPatches:
    def test_all_are_matched_against_the_text_before_the_call(self) -> None:
        swap = (replace("one", "two"), replace("two", "one"))
        assert patched(b"one\ntwo\n", *swap) == b"two\none\n"

    def test_insertions_at_one_place_keep_the_order_of_the_call(self) -> None:
        appended = patched(b"a\n", append("1\n"), append("2\n"), append("3\n"))
        assert appended == b"a\n1\n2\n3\n"
        assert patched(b"a\n", prepend("1\n"), prepend("2\n")) == b"1\n2\na\n"

    @pytest.mark.parametrize("data", [None, b""])
    def test_beginning_comes_before_end_where_both_are_one_place(self, data: bytes | None) -> None:
        assert patched(data, append("end\n"), prepend("begin\n")) == b"begin\nend\n"

    def test_edits_may_share_context_lines(self) -> None:
        patches = (replace("one\ntwo\n", "ONE\ntwo\n"), replace("two\nthree\n", "two\nTHREE\n"))
        assert patched(b"one\ntwo\nthree\n", *patches) == b"ONE\ntwo\nTHREE\n"

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

    @pytest.mark.parametrize(
        "duplicated", [append("x\n"), prepend("x\n"), replace("a", "A"), replace("a\n", "a\nb\n")]
    )
    def test_a_patch_sent_twice_is_refused(self, duplicated: dict[str, object]) -> None:
        refused = refusal(b"a\n", duplicated, duplicated)
        assert kinds(refused) == [("overlapping_edits", 1)]
        assert "patch 1" in refused.message

    def test_one_insertion_written_in_two_ways_is_refused(self) -> None:
        refused = refusal(b"a\nb\n", replace("a\n", "a\nx\n"), replace("b\n", "x\nb\n"))
        assert kinds(refused) == [("overlapping_edits", 1)]
        assert "both insert the same text at the same place at line 2" in refused.message

    def test_overwrite_beside_another_patch_overlaps(self) -> None:
        refused = refusal(b"a\n", replace("a", "b"), overwrite("c\n"), append("d\n"))
        assert kinds(refused) == [("overlapping_edits", 0), ("overlapping_edits", 2)]
        assert "patch 1: overlaps patch 2" in refused.message

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
    def test_append_takes_no_newline_of_its_own(self) -> None:
        assert patched(b"a", append("b")) == b"ab"

    def test_lines_that_run_together_are_mentioned(self) -> None:
        (warning,) = plan_patch(b"a", append("b\n")).warnings
        assert "patch 1: no newline stands between the file's last line" in warning
        (warning,) = plan_patch(b"a\n", prepend("0")).warnings
        assert "patch 1: no newline stands between the file's first line" in warning
        assert plan_patch(b"a", append("\nb")).warnings == ()
        assert plan_patch(b"", append("b")).warnings == ()

    def test_append_to_crlf_takes_its_terminators(self) -> None:
        assert patched(b"a\r\nb\r\n", append("c\nd\n")) == b"a\r\nb\r\nc\r\nd\r\n"
        assert patched(b"a\r\n", append("c\r\n")) == b"a\r\nc\r\n"

    def test_prepend_goes_after_the_byte_order_mark(self) -> None:
        assert patched(b"\xef\xbb\xbfa\n", prepend("0\n")) == b"\xef\xbb\xbf0\na\n"

    def test_old_text_with_the_byte_order_mark_matches_without_it(self) -> None:
        marked = replace("\ufeffa", "\ufeffb")
        assert patched(b"\xef\xbb\xbfa\n", marked) == b"\xef\xbb\xbfb\n"

    def test_overwrite_is_literal(self) -> None:
        assert patched(b"\xef\xbb\xbfa\r\nb\r\n", overwrite("x\ny\r\n")) == b"x\ny\r\n"

    def test_overwrite_with_nothing_empties_the_file(self) -> None:
        assert patched(b"a\n", overwrite("")) == b""

    def test_a_new_file_is_literal(self) -> None:
        assert patched(None, append("x\ny\r\nz")) == b"x\ny\r\nz"

    def test_text_is_literal(self) -> None:
        assert patched(b"a.b\n", replace(".", r"$& \1 \n")) == b"a$& \\1 \\nb\n"

    def test_bytes_that_are_not_utf8_elsewhere_are_carried_through(self) -> None:
        data = b"\xff\xfe caf\xe9\nx = 1\n\xc3(\n"
        assert patched(data, replace("x = 1", "x = 2")) == b"\xff\xfe caf\xe9\nx = 2\n\xc3(\n"
        assert patched(data, append("end\n")) == data + b"end\n"

    @pytest.mark.parametrize("read_as", ["caf\ufffd", "caf\u00e9"])
    def test_old_text_over_such_bytes_is_not_text(self, read_as: str) -> None:
        refused = refusal(b"one\ncaf\xe9\n", replace(read_as, "tea"))
        assert kinds(refused) == [("not_text", 0)]
        assert refused.failures[0].line == 2
        assert "byte 0xe9 at line 2" in refused.message
        assert "overwrite still works" in refused.message

    @pytest.mark.parametrize("patch", [replace("a", "b"), append("x"), prepend("x")])
    def test_a_binary_file_is_not_text(self, patch: dict[str, object]) -> None:
        refused = refusal(b"a\nb\0c", patch)
        assert kinds(refused) == [("not_text", 0)]
        assert "NUL (byte 0x00) at offset 3, line 2" in refused.message
        assert "overwrite still works" in refused.message

    def test_overwriting_a_binary_file_works(self) -> None:
        assert patched(b"\0\1\2", overwrite("text\n")) == b"text\n"


class TestMissingFile:
    @pytest.mark.parametrize("make", [append, prepend, overwrite])
    def test_other_operations_create_it(self, make: object) -> None:
        plan = plan_patch(None, make("hello\n"), path="new/dir/f.txt")  # type: ignore[operator]
        assert plan.files == (PlannedFile("new/dir/f.txt", None, b"hello\n"),)

    def test_replace_needs_a_file_and_says_what_would_create_it(self) -> None:
        refused = refusal(None, append("x"), replace("a", "b"))
        assert kinds(refused) == [("file_not_found", 1)]
        assert "append_eof, prepend_bof or overwrite" in refused.message

    def test_an_empty_file_can_be_created(self) -> None:
        assert patched(None, overwrite("")) == b""


class TestClipboards:
    def test_cut_stores_and_removes(self) -> None:
        plan = plan_patch(b"a\nb\nc\n", replace("b\n", "", toClipboard="c"))
        assert plan.files[0].after == b"a\nc\n"
        assert plan.clipboards == {"c": "b\n"}
        assert plan.clipboard_notes == (ClipboardNote("c", modified_by_match=False),)
        assert plan.message == APPLIED

    def test_cut_and_paste_fit_in_one_call(self) -> None:
        plan = plan_patch(
            b"one\ntwo\nthree\n",
            replace("one\n", "", toClipboard="c"),
            append("", fromClipboard="c"),
        )
        assert plan.files[0].after == b"two\nthree\none\n"

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

    def test_copying_changes_only_the_clipboard(self) -> None:
        copy = replace("b", toClipboard="c", fromClipboard="c")
        plan = plan_patch(b"a\nb\n", copy, clipboards={"c": "old"})
        assert plan.files == ()
        assert plan.clipboards == {"c": "b"}
        assert plan.message == APPLIED

    def test_copying_leaves_the_text_beside_an_edit_of_it(self) -> None:
        plan = plan_patch(
            b"def f():\n    pass\n",
            replace("def f():\n    pass\n", toClipboard="c", fromClipboard="c"),
            replace("pass", "return 1"),
        )
        assert plan.files[0].after == b"def f():\n    return 1\n"
        assert plan.clipboards == {"c": "def f():\n    pass\n"}

    def test_copying_with_reindent_shifts_the_text_in_place(self) -> None:
        plan = plan_patch(
            b"if x:\n  a\n\n  b\n",
            replace(
                "  a\n\n  b\n",
                toClipboard="c",
                fromClipboard="c",
                reindent={"strip": "  ", "add": "\t"},
            ),
        )
        assert plan.files[0].after == b"if x:\n\ta\n\n\tb\n"
        assert plan.clipboards == {"c": "  a\n\n  b\n"}

    def test_from_clipboard_wins_over_new_text(self) -> None:
        paste = replace("a", "ignored", fromClipboard="c")
        assert patched(b"a\n", paste, clipboards={"c": "pasted"}) == b"pasted\n"

    def test_an_empty_name_means_none(self) -> None:
        plan = plan_patch(b"a\n", replace("a", "b", toClipboard="", fromClipboard=""))
        assert plan.files[0].after == b"b\n"
        assert plan.clipboards == {}

    def test_a_missing_one_is_refused_with_those_that_exist(self) -> None:
        refused = refusal(
            b"a\n",
            replace("a", "b", toClipboard="mine"),
            append("", fromClipboard="c"),
            clipboards={"zeta": "", "beta": ""},
        )
        assert kinds(refused) == [("missing_clipboard", 1)]
        assert 'no clipboard "c". Clipboards that exist: "beta", "mine", "zeta"' in refused.message

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

    def test_storing_the_really_matched_text_is_said_and_shown(self) -> None:
        plan = plan_patch(b"a  \nb\t\nc\n", replace("a\nb\n", "", toClipboard="c"))
        assert plan.files[0].after == b"c\n"
        assert plan.clipboards == {"c": "a  \nb\t\n"}
        assert plan.clipboard_notes == (ClipboardNote("c", modified_by_match=True),)
        assert 'clipboard "c" holds the text as it stands in the file' in plan.message
        assert "a  \nb\t\n" in plan.message

    def test_a_crlf_block_takes_the_terminators_of_an_lf_file(self) -> None:
        cut = plan_patch(b"a\r\nb\r\nc\r\n", replace("a\nb\n", "", toClipboard="c"))
        assert cut.clipboards == {"c": "a\r\nb\r\n"}
        paste = append("", fromClipboard="c")
        assert patched(b"x\ny\n", paste, clipboards=cut.clipboards) == b"x\ny\na\nb\n"

    def test_pasting_into_a_new_file_is_literal(self) -> None:
        paste = overwrite("", fromClipboard="c")
        assert patched(None, paste, clipboards={"c": "a\r\nb\n"}) == b"a\r\nb\n"

    def test_overwriting_with_a_clipboard_is_literal(self) -> None:
        paste = overwrite("", fromClipboard="c")
        assert patched(b"x\ny\n", paste, clipboards={"c": "a\r\nb\r\n"}) == b"a\r\nb\r\n"

    def test_storing_needs_a_replace(self) -> None:
        refused = refusal(b"a\n", overwrite("b", toClipboard="c"))
        assert kinds(refused) == [("clipboard_requires_replace", 0)]


class TestReindent:
    def test_applies_to_what_is_inserted(self) -> None:
        shift = {"strip": "    ", "add": "\t"}
        text = "    a\n      b\n   \n\n    c"
        assert patched(b"", append(text, reindent=shift)) == b"\ta\n\t  b\n   \n\n\tc"

    def test_applies_to_clipboards_and_to_their_crlf(self) -> None:
        paste = append("", fromClipboard="c", reindent={"add": "  "})
        data = patched(b"x\r\n", paste, clipboards={"c": "a\r\n\r\nb\r\n"})
        assert data == b"x\r\n  a\r\n\r\n  b\r\n"

    def test_a_line_without_the_prefix_is_refused(self) -> None:
        refused = refusal(b"a\n", append("    a\n  b\n", reindent={"strip": "    "}))
        assert kinds(refused) == [("strip_precondition_failed", 0)]
        assert refused.failures[0].line == 2
        assert 'reindent.strip is "    ", but line 2' in refused.message
        assert '"  b"' in refused.message


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

    def test_an_idle_patch_beside_others_is_mentioned(self) -> None:
        plan = plan_patch(b"a\nb\n", replace("a", "a"), replace("b", "B"))
        assert plan.files[0].after == b"a\nB\n"
        assert plan.warnings == (
            "patch 1: changes nothing; its new text is what stands there already.",
        )

    def test_inserting_without_any_text_is_invalid(self) -> None:
        for operation in ("append_eof", "prepend_bof", "overwrite"):
            refused = refusal(b"a\n", {"operation": operation})
            assert kinds(refused) == [("invalid_params", 0)]
            assert "newText" in refused.message

    def test_replacing_without_new_text_deletes(self) -> None:
        assert patched(b"ab\n", replace("b")) == b"a\n"


class TestMessage:
    def test_an_exact_edit_needs_no_notes(self) -> None:
        assert plan_patch(b"a\n", replace("a", "b")).message == APPLIED

    def test_a_tolerant_match_is_reported_with_line_and_rung(self) -> None:
        plan = plan_patch(b"x\na  \nb\n", replace("a\nb\n", "c\nd\n"))
        assert plan.edits[0].rung == "trailing_space"
        assert plan.message.startswith(APPLIED + "\n")
        assert "patch 1: oldText was matched with tolerance (trailing_space) at line 2" in (
            plan.message
        )

    def test_generated_files_are_edited_with_a_warning(self) -> None:
        data = b"// Code generated by protoc. DO NOT EDIT.\npackage x\n"
        plan = plan_patch(data, replace("package x", "package y"), path="x.go")
        assert plan.files[0].after == b"// Code generated by protoc. DO NOT EDIT.\npackage y\n"
        (warning,) = plan.warnings
        assert "x.go looks generated" in warning
        assert f"warning: {warning}" in plan.message

    def test_lock_files_are_edited_with_a_warning(self) -> None:
        plan = plan_patch(b"{}\n", overwrite("[]\n"), path="web/package-lock.json")
        assert "lock file" in plan.warnings[0]

    def test_old_text_that_plays_no_part_is_mentioned(self) -> None:
        plan = plan_patch(b"a\n", append("b\n", oldText="a"))
        assert plan.files[0].after == b"a\nb\n"
        assert plan.warnings == ("patch 1: oldText was ignored; append_eof looks for no text.",)


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
