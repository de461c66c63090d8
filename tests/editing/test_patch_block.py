"""The ``patch_block`` dialect: what tests/scenarios/patch_block does not show."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from stet.wire.failures import Refused
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


def test_what_would_be_an_error_in_json_needs_no_encoding_here() -> None:
    text = 'a "quoted" \\n $1 \\1 ${x} \t\x01 \\u0041\n'
    files = {"tmp/foo.js": text.encode()}
    block = BLOCK.replace("console.log('Hello');\n", text).replace("Hi there!", "\\g<0>$&")
    assert {"tmp/foo.js": b"console.log('\\g<0>$&');\n"} == after(planned(block, files))


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


@pytest.mark.parametrize(
    ("find", "put"), [("b\n", "x"), ("\nb", "x"), ("\nb\n", "x"), ("\nb\n", "")]
)
def test_an_empty_line_that_the_file_lacks_does_not_join_its_lines(find: str, put: str) -> None:
    pair = f"===FIND===\n{find}\n===REPLACE===\n{put}\n"
    text = f"===SKIPPY_PATCH_START:a===\n{pair}===SKIPPY_PATCH_END==="
    refusal = refused(text, {"a": b"a\nb\nc\n"})
    assert refusal.kind == "old_text_not_found"
    assert "leave out the empty line" in refusal.message
    apart = "a\n\nb\n\nc\n"
    expected = {"a": apart.replace(find, put).encode()}
    assert after(planned(text, {"a": apart.encode()})) == expected


@pytest.mark.parametrize("name", [" tmp/foo.js", "tmp/foo.js "])
@pytest.mark.parametrize("in_json", [False, True])
def test_blanks_around_a_path_are_left_out_wherever_it_stands(name: str, in_json: bool) -> None:
    block = BLOCK.replace("tmp/foo.js", name)
    sent = json.dumps({"filepath": name}) + "\n" + block if in_json else block
    filepath = {} if in_json else {"filepath": name}
    assert after(planned(sent, FOO, **filepath)) == {"tmp/foo.js": b"console.log('Hi there!');\n"}

    refusal = refused(sent, FOO | {name: b"another"}, **filepath)
    assert refusal.kind == "invalid_params"
    assert f'there is a file "{name}"' in refusal.message
