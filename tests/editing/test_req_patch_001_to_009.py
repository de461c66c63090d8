"""The seed's requirements REQ-PATCH-001 to 008, clause by clause.

REQ-PATCH-009 (Restricted mode) is the daemon's doing, not the dialect's, and is tested
through the socket.
"""

from __future__ import annotations

import pytest

from memory_world import (
    append,
    kinds,
    overwrite,
    patched,
    plan_patch,
    prepend,
    refusal,
    replace,
)
from stetd.editing.edits import PlannedFile
from stetd.editing.tools.schemas import tool_definitions

APPLIED = "<patches_applied>all</patches_applied>"


class TestReqPatch001FileOperations:
    def test_req_patch_001_replace_substitutes_unique_text(self) -> None:
        assert patched(b"a\nb\nc\n", replace("b\n", "B\n")) == b"a\nB\nc\n"

    def test_req_patch_001_append_eof_adds_at_the_end(self) -> None:
        assert patched(b"a\n", append("b\n")) == b"a\nb\n"

    def test_req_patch_001_prepend_bof_adds_at_the_beginning(self) -> None:
        assert patched(b"a\n", prepend("0\n")) == b"0\na\n"

    def test_req_patch_001_overwrite_replaces_everything(self) -> None:
        assert patched(b"a\nb\n", overwrite("c\n")) == b"c\n"

    def test_req_patch_001_overwrite_creates_a_missing_file(self) -> None:
        assert patched(None, overwrite("c\n")) == b"c\n"

    def test_req_patch_001_replace_needs_old_text_exactly_once(self) -> None:
        refused = refusal(b"a\nb\na\n", replace("a", "A"))
        assert kinds(refused) == [("old_text_not_unique", 0)]
        assert refused.failures[0].candidates == [1, 3]
        assert "stands 2 times in a.txt, at lines 1 and 3" in refused.message

    def test_req_patch_001_occurrences_that_overlap_count(self) -> None:
        assert kinds(refusal(b"aaa\n", replace("aa", "b"))) == [("old_text_not_unique", 0)]

    def test_req_patch_001_a_missing_file_allows_no_replace(self) -> None:
        assert kinds(refusal(None, replace("a", "b"))) == [("file_not_found", 0)]

    @pytest.mark.parametrize("patch", [append("x"), prepend("x"), overwrite("x")])
    def test_req_patch_001_a_missing_file_is_created_by_the_others(
        self, patch: dict[str, object]
    ) -> None:
        plan = plan_patch(None, patch, path="not/yet/there.txt")
        assert plan.files == (PlannedFile("not/yet/there.txt", None, b"x"),)


class TestReqPatch002MultiplePatches:
    def test_req_patch_002_all_are_applied_in_one_plan(self) -> None:
        patches = (replace("a", "A"), replace("c", "C"), append("d\n"), prepend("0\n"))
        plan = plan_patch(b"a\nb\nc\n", *patches)
        assert plan.files == (PlannedFile("a.txt", b"a\nb\nc\n", b"0\nA\nb\nC\nd\n"),)

    def test_req_patch_002_all_see_the_original_content(self) -> None:
        assert patched(b"a b", replace("a", "b"), replace("b", "a")) == b"b a"

    def test_req_patch_002_new_text_of_one_is_not_found_by_another(self) -> None:
        refused = refusal(b"a\n", replace("a", "zebra"), replace("zebra", "lion"))
        assert kinds(refused) == [("old_text_not_found", 1)]

    def test_req_patch_002_one_failure_rejects_the_call(self) -> None:
        refused = refusal(b"a\n", replace("a", "A", toClipboard="c"), replace("zebra", "x"))
        assert kinds(refused) == [("old_text_not_found", 1)]


class TestReqPatch003Clipboards:
    def test_req_patch_003_to_clipboard_stores_the_text_and_replaces(self) -> None:
        plan = plan_patch(b"a\nb\n", replace("a\n", "A\n", toClipboard="c"))
        assert plan.files[0].after == b"A\nb\n"
        assert plan.clipboards == {"c": "a\n"}

    def test_req_patch_003_from_clipboard_is_the_new_text(self) -> None:
        paste = replace("a", "ignored", fromClipboard="c")
        assert patched(b"a\n", paste, clipboards={"c": "from clip"}) == b"from clip\n"

    def test_req_patch_003_a_missing_clipboard_is_an_error(self) -> None:
        refused = refusal(b"a\n", replace("a", fromClipboard="nope"))
        assert kinds(refused) == [("missing_clipboard", 0)]
        assert 'no clipboard "nope"' in refused.message

    def test_req_patch_003_the_same_name_copies(self) -> None:
        plan = plan_patch(b"a\n", replace("a", toClipboard="c", fromClipboard="c"))
        assert plan.files == ()
        assert plan.clipboards == {"c": "a"}


class TestReqPatch004Indentation:
    def test_req_patch_004_strip_removes_the_prefix(self) -> None:
        text = append("    a\n\n    b\n", reindent={"strip": "    "})
        assert patched(b"", text) == b"a\n\nb\n"

    def test_req_patch_004_add_puts_the_prefix(self) -> None:
        assert patched(b"", append("a\n\nb\n", reindent={"add": "\t"})) == b"\ta\n\n\tb\n"

    def test_req_patch_004_both_exchange_it(self) -> None:
        shift = {"strip": "    ", "add": "        "}
        paste = replace("// INSERT HERE\n", fromClipboard="fn", reindent=shift)
        clipboards = {"fn": "    fn helper() {\n        x();\n    }\n"}
        assert patched(b"mod m {\n// INSERT HERE\n}\n", paste, clipboards=clipboards) == (
            b"mod m {\n        fn helper() {\n            x();\n        }\n}\n"
        )

    def test_req_patch_004_a_line_without_the_prefix_is_an_error(self) -> None:
        refused = refusal(b"", append("  a\nb\n", reindent={"strip": "  "}))
        assert kinds(refused) == [("strip_precondition_failed", 0)]


class TestReqPatch005FuzzyMatching:
    def test_req_patch_005_leading_white_space_is_adjusted(self) -> None:
        plan = plan_patch(
            b"class A:\n    def f(self):\n        pass\n",
            replace("def f(self):\n    pass\n", "def f(self):\n    return 1\n"),
        )
        assert plan.files[0].after == b"class A:\n    def f(self):\n        return 1\n"
        assert plan.edits[0].rung == "indent"

    def test_req_patch_005_first_and_last_lines_are_trimmed_if_safe(self) -> None:
        plan = plan_patch(b"x = 1\ny = 2\nz = 3\n", replace("\ny = 2\n\n", "\ny = 4\n\n"))
        assert plan.files[0].after == b"x = 1\ny = 4\nz = 3\n"
        assert plan.edits[0].rung == "trim_edges"

    def test_req_patch_005_a_first_line_that_has_a_word_of_the_file_is_not_trimmed(self) -> None:
        before = b"import os\n\nwith lock:\n    a()\n    b()\n"
        refused = refusal(
            before,
            replace("if os.name:\n    a()\n    b()\n", "if os.name:\n    a()\n    c()\n"),
        )
        assert refused.message == (
            "patch 1: old text not found in a.txt. The nearest passage is at lines 3-5; line 3 is "
            'the first that differs: the file has "with lock:", oldText has "if os.name:".\n'
            "3| with lock:\n4|     a()\n5|     b()\n"
            "Send the text exactly as it stands in the file."
        )
        as_it_stands = replace("with lock:\n    a()\n    b()\n", "with lock:\n    a()\n    c()\n")
        without_it = replace("    a()\n    b()\n", "    a()\n    c()\n")
        after = b"import os\n\nwith lock:\n    a()\n    c()\n"
        assert after == patched(before, as_it_stands) == patched(before, without_it)

    def test_req_patch_005_the_clipboard_gets_what_was_matched(self) -> None:
        plan = plan_patch(
            b"if x:\n    a()\n    b()\n", replace("a()\nb()\n", "c()\n", toClipboard="c")
        )
        assert plan.files[0].after == b"if x:\n    c()\n"
        assert plan.clipboards == {"c": "    a()\n    b()\n"}

    def test_req_patch_005_a_miss_says_old_text_not_found(self) -> None:
        refused = refusal(b"a\nb\n", replace("zebra", "x"))
        assert kinds(refused) == [("old_text_not_found", 0)]
        assert "old text not found" in refused.message


class TestReqPatch006Schema:
    SCHEMA = tool_definitions("anthropic")[0]["input_schema"]

    def test_req_patch_006_path_and_patches_are_required(self) -> None:
        assert self.SCHEMA["required"] == ["path", "patches"]  # type: ignore[index]
        properties = self.SCHEMA["properties"]  # type: ignore[index]
        assert properties["path"]["type"] == "string"
        assert properties["patches"]["type"] == "array"

    def test_req_patch_006_a_patch_has_the_fields_of_the_seed(self) -> None:
        patch = self.SCHEMA["properties"]["patches"]["items"]  # type: ignore[index]
        assert patch["required"] == ["operation"]
        types = {name: each["type"] for name, each in patch["properties"].items()}
        assert types == {
            "operation": "string",
            "oldText": "string",
            "newText": "string",
            "toClipboard": "string",
            "fromClipboard": "string",
            "reindent": "object",
        }


class TestReqPatch007Output:
    def test_req_patch_007_success_is_confirmed(self) -> None:
        assert plan_patch(b"a\n", replace("a", "b")).message == APPLIED

    def test_req_patch_007_autogenerated_files_are_patched_with_a_warning(self) -> None:
        data = b"// Code generated by x. DO NOT EDIT.\nvar a = 1\n"
        plan = plan_patch(data, replace("a = 1", "a = 2"), path="a.go")
        assert plan.files[0].after == b"// Code generated by x. DO NOT EDIT.\nvar a = 2\n"
        assert len(plan.warnings) == 1
        assert plan.warnings[0] in plan.message

    def test_req_patch_007_a_clipboard_modified_by_matching_is_notified(self) -> None:
        plan = plan_patch(b"  a()\n  b()\n", replace("a()\nb()\n", "c()\n", toClipboard="c"))
        assert plan.clipboard_notes[0].modified_by_match
        assert 'clipboard "c"' in plan.message
        assert "  a()\n  b()\n" in plan.message


class TestReqPatch008SizeLimit:
    def test_req_patch_008_over_60k_tokens_is_rejected(self) -> None:
        refused = refusal(b"a\n", append(" a b" * 30_001))
        assert kinds(refused) == [("input_too_large", None)]
        assert "60,002 tokens" in refused.message
        assert "limit is 60,000" in refused.message
        assert "smaller patches" in refused.message

    def test_req_patch_008_the_texts_of_all_patches_count(self) -> None:
        refused = refusal(b"a\n", append(" a b" * 20_000), replace(" c d" * 20_000, ""))
        assert kinds(refused) == [("input_too_large", None)]

    def test_req_patch_008_exactly_60k_tokens_are_accepted(self) -> None:
        text = " a b" * 30_000
        assert patched(b"", append(text)) == text.encode()

    def test_req_patch_008_a_clipboard_does_not_count(self) -> None:
        paste = append("", fromClipboard="c")
        assert len(patched(b"", paste, clipboards={"c": " a b" * 40_000})) == 160_000
