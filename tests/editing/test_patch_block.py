"""The seed "PatchFileTool Registry", one test for each line of its behaviour."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from stet.wire.failures import Refused
from stet.wire.results import BlockResult
from stetd.editing.dialects import DIALECTS
from stetd.editing.edits import Plan
from stetd.editing.tokens import MAX_TOKENS
from tree_world import Tree, TreeWorld

FOO = {"tmp/foo.js": b"console.log('Hello');\n"}
ACTION = {
    "reasoning": "Updating greeting text",
    "actions": [
        {
            "type": "tool_call",
            "tool": "PatchFileTool",
            "arguments": {"filepath": "tmp/foo.js"},
            "reasoning": "Replace greeting",
        }
    ],
    "final_answer": "",
    "continue": True,
}
PAIR = "===FIND===\nconsole.log('Hello');\n===REPLACE===\nconsole.log('Hi there!');\n"
BLOCK = f"===SKIPPY_PATCH_START:tmp/foo.js===\n{PAIR}===SKIPPY_PATCH_END==="


def planned(text: str, files: Mapping[str, bytes] = FOO, **params: object) -> Plan:
    return DIALECTS["patch_block"]({"text": text, **params}, TreeWorld(Tree(files)))


def refused(text: str, files: Mapping[str, bytes] = FOO, **params: object) -> Refused:
    with pytest.raises(Refused) as caught:
        planned(text, files, **params)
    return caught.value


def after(plan: Plan) -> dict[str, bytes | None]:
    return {file.path: file.after for file in plan.files}


@pytest.mark.parametrize("text", ["", "\n", "I have patched the file.", json.dumps(ACTION)])
def test_a_call_without_a_block_is_invalid_and_never_a_success_with_0_changes(text: str) -> None:
    refusal = refused(text)
    assert refusal.kind == "parse_error"
    assert refusal.extra["result"]["result"] == "Applied 0 changes"
    assert refusal.extra["result"]["exitCode"] == 1


def test_a_missing_text_is_invalid_too() -> None:
    with pytest.raises(Refused) as caught:
        DIALECTS["patch_block"]({"filepath": "tmp/foo.js"}, TreeWorld(Tree(FOO)))
    assert caught.value.kind == "invalid_params"
    assert caught.value.extra["result"]["filepath"] == "tmp/foo.js"
    assert caught.value.extra["result"]["exitCode"] == 1


def test_a_block_needs_at_least_one_pair() -> None:
    refusal = refused("===SKIPPY_PATCH_START:tmp/foo.js===\n===SKIPPY_PATCH_END===\n")
    assert ("parse_error", 2) == (refusal.kind, refusal.failures[0].line)


def test_it_is_no_tool_for_creating_a_file() -> None:
    assert "file_not_found" == refused(BLOCK, {}).kind


@pytest.mark.parametrize("indent", [None, 2])
def test_the_block_follows_the_json_that_names_only_the_file(indent: int | None) -> None:
    plan = planned(json.dumps(ACTION, indent=indent) + "\n" + BLOCK)
    assert {"tmp/foo.js": b"console.log('Hi there!');\n"} == after(plan)


def test_the_block_may_stand_alone() -> None:
    assert {"tmp/foo.js": b"console.log('Hi there!');\n"} == after(planned(BLOCK))


def test_several_pairs_patch_the_same_file() -> None:
    text = BLOCK.replace(PAIR, PAIR + "===FIND===\nfirst\n===REPLACE===\nsecond\n")
    plan = planned(text, {"tmp/foo.js": b"first\nconsole.log('Hello');\n"})
    assert {"tmp/foo.js": b"second\nconsole.log('Hi there!');\n"} == after(plan)


def test_changes_in_the_json_are_refused_with_the_block_to_send_instead() -> None:
    arguments = {"filepath": "tmp/foo.js", "changes": [{"find": "Hello", "replace": "Hi"}]}
    refusal = refused(json.dumps({"tool": "PatchFileTool", "arguments": arguments}))
    assert refusal.kind == "parse_error"
    assert "in it and not in JSON:\n===SKIPPY_PATCH_START:path===" in refusal.message


def test_what_would_be_an_error_in_json_needs_no_encoding_here() -> None:
    text = 'a "quoted" \\n $1 \\1 ${x} \t\x01 \\u0041\n'
    files = {"tmp/foo.js": text.encode()}
    block = BLOCK.replace("console.log('Hello');\n", text).replace("Hi there!", "\\g<0>$&")
    assert {"tmp/foo.js": b"console.log('\\g<0>$&');\n"} == after(planned(block, files))


def test_find_must_be_the_files_text_including_white_space() -> None:
    wrong = BLOCK.replace("('Hello')", "( 'Hello' )")
    refusal = refused(wrong)
    assert "old_text_not_found" == refusal.kind
    assert refusal.failures[0].nearest is not None
    assert 1 == refusal.failures[0].nearest.line


def test_the_result_has_the_prescribed_structure() -> None:
    [result] = planned(BLOCK).results
    assert (
        BlockResult(filepath="tmp/foo.js", result="Applied 1 changes", error=None, exitCode=0)
        == result
    )


def test_an_error_has_the_same_structure() -> None:
    refusal = refused(BLOCK, {"tmp/foo.js": b"something else\n"})
    expected = {
        "filepath": "tmp/foo.js",
        "result": "Applied 0 changes",
        "error": refusal.message,
        "exitCode": 1,
    }
    assert expected == refusal.extra["result"]


# -- beside the seed: what no fixture shows


def test_an_answer_over_the_token_limit_is_refused_before_it_is_read() -> None:
    refusal = refused(BLOCK + "\n" + "word " * (MAX_TOKENS + 10), filepath="tmp/foo.js")
    assert "input_too_large" == refusal.kind
    assert "Break the edit into smaller patches" in refusal.message
    assert refusal.extra["result"]["filepath"] == "tmp/foo.js"
    assert after(planned(BLOCK + "\n" + "word " * (MAX_TOKENS - 1_000)))


def test_the_commits_subject_counts_edits_and_files() -> None:
    assert "patch_block tmp/foo.js: 1 edit" == planned(BLOCK).subject
    files = {**FOO, "b.js": b"console.log('Hello');\n"}
    both = BLOCK + "\n" + BLOCK.replace("tmp/foo.js", "b.js")
    assert "patch_block: 2 edits in 2 files" == planned(both, files).subject


def test_after_many_pairs_that_fail_the_others_are_not_looked_at() -> None:
    pairs = "".join(f"===FIND===\nmissing {n}\n===REPLACE===\n\n" for n in range(300))
    refusal = refused(BLOCK.replace(PAIR, pairs))
    assert 201 == len(refusal.failures)
    assert "pair 201: this pair and those after it were not looked at: too many have failed." in (
        refusal.failures[-1].message
    )


def test_a_text_that_another_pair_would_insert_is_told_so() -> None:
    pairs = PAIR + "===FIND===\nHi there!\n===REPLACE===\nHey\n"
    refusal = refused(BLOCK.replace(PAIR, pairs))
    assert "This text stands in the new text of pair 1" in refusal.message
