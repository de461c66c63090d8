"""Validation of tool inputs, and the definitions that models are given."""

from __future__ import annotations

from typing import Any

import pytest

from stet.wire.failures import Refused
from stetd.editing.tools.inputs import ApplyPatchInput, PatchFileInput, PatchInput
from stetd.editing.tools.schemas import tool_definitions
from stetd.editing.tools.validation import validated


def problem(params: dict[str, object]) -> Refused:
    with pytest.raises(Refused) as caught:
        validated(PatchInput, params, noun="patch")
    assert {failure.kind for failure in caught.value.failures} == {"invalid_params"}
    return caught.value


def patch_problem(**patch: object) -> str:
    refused = problem({"path": "a", "patches": [patch]})
    assert [failure.index for failure in refused.failures] == [0]
    return refused.message


class TestRefusals:
    def test_missing_fields_are_named_with_what_was_received(self) -> None:
        message = problem({"file": "a"}).message
        assert '"path" is missing. Expected fields: path (required), patches (required).' in message
        assert '"patches" is missing' in message
        assert 'unknown field "file" (did you mean "path"?). Expected' in message

    def test_a_misspelt_field_is_told_the_nearest_one(self) -> None:
        message = patch_problem(operation="replace", oldtxt="a")
        assert message.startswith('patch 1: unknown field "oldtxt" (did you mean "oldText"?).')
        assert "Expected fields: operation (required), oldText, newText" in message

    @pytest.mark.parametrize(
        ("wrong", "right"),
        [
            *(("old_string", "oldText"), ("new_str", "newText")),
            *(("oldString", "oldText"), ("newString", "newText")),
        ],
    )
    def test_names_from_other_tools_are_told_the_nearest_one(self, wrong: str, right: str) -> None:
        assert f'(did you mean "{right}"?)' in patch_problem(operation="replace", **{wrong: "a"})

    def test_a_field_that_was_sent_too_is_not_what_a_misspelt_one_means(self) -> None:
        change = {"search": "a", "replace": "b", "replace_all": True}
        with pytest.raises(Refused) as caught:
            validated(PatchFileInput, {"path": "a", "changes": [change]}, noun="change")
        assert 'unknown field "replace_all". Expected' in str(caught.value)
        both = problem({"path": "a", "patches": [{"op": "replace"}]}).message
        assert 'unknown field "op" (did you mean "operation"?)' in both

    def test_a_missing_operation_is_told_which_there_are(self) -> None:
        message = problem({"path": "a", "patches": [{"oldText": "x"}]}).message
        assert "\"operation\" is missing. It must be 'replace', 'append_eof'," in message

    @pytest.mark.parametrize(
        ("wrong", "right"),
        [
            ("append", "append_eof"),
            ("prepend", "prepend_bof"),
            ("create", "overwrite"),
            ("write", "overwrite"),
            ("str_replace", "replace"),
            ("remove", "replace"),
            ("delete", "replace"),
        ],
    )
    def test_an_unknown_operation_is_told_the_nearest_one(self, wrong: str, right: str) -> None:
        message = patch_problem(operation=wrong)
        assert "'replace', 'append_eof', 'prepend_bof' or 'overwrite'" in message
        assert f'(did you mean "{right}"?)' in message

    @pytest.mark.parametrize("wrong", ["insert", "True", True, 3])
    def test_an_operation_like_none_is_told_no_other_one(self, wrong: object) -> None:
        assert "did you mean" not in patch_problem(operation=wrong)

    @pytest.mark.parametrize(
        ("wrong", "right"),
        [("old_string", "oldText"), ("content", "newText"), ("command", "operation")],
    )
    def test_other_tools_names_on_the_wrong_level_are_told_where_ours_belong(
        self, wrong: str, right: str
    ) -> None:
        message = problem({"path": "a", wrong: "x"}).message
        where = f'(did you mean "{right}" in the objects of the list "patches"?)'
        assert f'unknown field "{wrong}" {where}' in message
        assert "did you mean" not in problem({"path": "a", "delete": "x"}).message
        with pytest.raises(Refused, match=r'"content" \(did you mean "replace" in the objects'):
            validated(PatchFileInput, {"path": "a", "content": "x"})

    @pytest.mark.parametrize("text", [1, 1.5, True, ["a"], {"a": "b"}])
    def test_text_of_another_type_is_refused(self, text: object) -> None:
        message = patch_problem(operation="replace", oldText=text)
        assert 'patch 1: "oldText" must be a string; received' in message

    def test_half_a_surrogate_pair_is_refused(self) -> None:
        # No wire carries one; the JSON text of a list may spell one out.
        patches = r'[{"operation": "replace", "oldText": "ab\ud800", "newText": "x"}]'
        message = problem({"path": "a", "patches": patches}).message
        assert "character 3 is half of a surrogate pair" in message
        message.encode()

    def test_both_spellings_with_different_values_are_refused(self) -> None:
        message = patch_problem(operation="replace", oldText="a", old_text="b")
        assert 'unknown field "old_text"' in message

    def test_both_spellings_with_one_value_are_accepted(self) -> None:
        patch = {"operation": "replace", "oldText": "a", "old_text": "a"}
        call = validated(PatchInput, {"path": "a", "patches": [patch]})
        assert call.patches[0].old_text == "a"

    @pytest.mark.parametrize("patches", [[], "[]"])
    def test_an_empty_list_is_refused(self, patches: object) -> None:
        assert '"patches" is empty' in problem({"path": "a", "patches": patches}).message

    @pytest.mark.parametrize("patches", ["", "replace a", 3, "[1, 2", "[" * 100_000, '{"a": 1} x'])
    def test_what_is_no_list_is_refused(self, patches: object) -> None:
        assert '"patches" must be a list of objects' in (
            problem({"path": "a", "patches": patches}).message
        )

    def test_broken_json_is_told_where_it_breaks(self) -> None:
        message = problem(
            {"path": "a", "patches": '[{"operation": "replace",\n "oldText": a}]'}
        ).message
        assert "received a string that is not valid JSON: Expecting value at line 2, column 13" in (
            message
        )

    def test_line_ends_that_are_not_escaped_in_json_mean_themselves(self) -> None:
        patches = '[{"operation": "overwrite", "newText": "a\n\tb"}]'
        call = validated(PatchInput, {"path": "a", "patches": patches})
        assert call.patches[0].new_text == "a\n\tb"

    def test_what_is_no_object_in_the_list_is_refused_by_index(self) -> None:
        good = {"operation": "overwrite", "newText": "x"}
        refused = problem({"path": "a", "patches": [good, "x", 3]})
        assert [failure.index for failure in refused.failures] == [1, 2]
        assert "patch 2: must be an object; received" in refused.message

    def test_a_field_on_the_wrong_level_is_told_where_it_belongs(self) -> None:
        message = problem({"path": "a", "operation": "overwrite", "newText": "x"}).message
        assert 'unknown field "operation" (it belongs into the objects of the list "patches")' in (
            message
        )
        message = patch_problem(operation="overwrite", newText="x", path="a")
        assert 'unknown field "path" (it belongs beside "patches", not into it)' in message

    @pytest.mark.parametrize(
        "patch",
        [
            {"operation": "replace", 7: "x"},
            r'{"operation": "replace", "\ud800": "x"}',
            {"operation": "replace", "x" * 1_000_000: "x"},
        ],
    )
    def test_a_field_with_a_strange_name_is_refused_in_few_words(self, patch: object) -> None:
        refused = problem({"path": "a", "patches": [patch]})
        assert [failure.index for failure in refused.failures] == [0]
        assert "unknown field" in refused.message
        assert len(refused.message.encode()) < 400

    def test_a_list_that_is_far_too_long_is_refused_at_once(self) -> None:
        refused = problem({"path": "a", "patches": [1] * 1_000_000})
        assert len(refused.failures) == 1
        assert '"patches" has more than 10,000 elements' in refused.message

    def test_fields_of_reindent_are_checked(self) -> None:
        patch = {"operation": "append_eof", "newText": "x", "reindent": {"Strip": "a", "add": 1}}
        message = problem({"path": "a", "patches": [patch]}).message
        assert 'unknown field "reindent.Strip" (did you mean "strip"?)' in message
        assert '"reindent.add" must be a string; received 1' in message

    def test_a_patch_as_a_command_of_the_shell_is_told_its_field(self) -> None:
        with pytest.raises(Refused) as caught:
            validated(ApplyPatchInput, {"command": ["apply_patch", "*** Begin Patch"]})
        assert 'unknown field "command" (did you mean "input"?)' in str(caught.value)

    def test_an_empty_path_is_refused(self) -> None:
        patch = {"operation": "overwrite", "newText": "x"}
        assert '"path" is empty' in problem({"path": "", "patches": [patch]}).message

    def test_every_mistake_is_reported(self) -> None:
        refused = problem({"path": 1, "patches": [{"operation": "replace", "newText": 2}, {}]})
        assert [failure.index for failure in refused.failures] == [None, 0, 1]

    def test_null_in_place_of_what_is_required_is_missing(self) -> None:
        assert '"path" is missing' in problem({"path": None, "patches": [{}]}).message


class TestDefinitions:
    @pytest.mark.parametrize(
        ("style", "schema_of"),
        [
            ("mcp", lambda tool: tool["inputSchema"]),
            ("anthropic", lambda tool: tool["input_schema"]),
        ],
    )
    def test_both_styles_hold_the_same_schema_of_patch(self, style: str, schema_of: Any) -> None:
        schema = schema_of(tool_definitions(style)[0])
        assert schema["type"] == "object"
        assert schema["required"] == ["path", "patches"]
        assert list(schema["properties"]) == ["path", "patches", "message", "preview"]
        patch = schema["properties"]["patches"]["items"]
        assert patch["required"] == ["operation"]
        assert list(patch["properties"]) == [
            "operation",
            "oldText",
            "newText",
            "toClipboard",
            "fromClipboard",
            "reindent",
        ]
        assert patch["properties"]["operation"]["enum"] == [
            "replace",
            "append_eof",
            "prepend_bof",
            "overwrite",
        ]
        assert list(patch["properties"]["reindent"]["properties"]) == ["strip", "add"]
        assert "description" not in patch  # the model's docstring is not for language models

    def test_schemas_hold_no_references_titles_defaults_or_nulls(self) -> None:
        def check(value: object) -> None:
            if isinstance(value, dict):
                assert not {"$ref", "$defs", "default"} & set(value)
                assert not isinstance(value.get("title"), str)
                assert value.get("type") != "null"
                for each in value.values():
                    check(each)
            elif isinstance(value, list):
                for each in value:
                    check(each)

        check(tool_definitions("anthropic"))

    def test_models_are_not_told_how_to_have_the_first_of_several_places(self) -> None:
        [tool] = [each for each in tool_definitions("anthropic") if each["name"] == "apply_patch"]
        schema: Any = tool["input_schema"]
        assert list(schema["properties"]) == ["input", "overwrite", "message", "preview"]

    def test_reading_tools_are_marked_as_such(self) -> None:
        hints = {tool["name"]: tool["annotations"] for tool in tool_definitions("mcp")}
        assert hints["read"] == {
            "title": "Read a file",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }
        reading = {name for name, hint in hints.items() if hint["readOnlyHint"]}  # type: ignore[index]
        assert {"read", "log", "show", "diff"} == reading
        repeatable = {name for name, hint in hints.items() if hint["idempotentHint"]}  # type: ignore[index]
        assert repeatable == reading

    def test_definitions_do_not_share_state(self) -> None:
        tool_definitions("mcp")[0]["inputSchema"]["properties"].clear()  # type: ignore[index]
        assert tool_definitions("mcp")[0]["inputSchema"]["properties"]  # type: ignore[index]
