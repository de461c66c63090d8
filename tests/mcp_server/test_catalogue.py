"""The definitions that the client carries are the daemon's."""

from __future__ import annotations

from importlib import resources

import msgspec
import pytest

from stet.cli.usage import UsageError
from stet.mcp import catalogue, tool_calls
from stetd.editing.tools.schemas import tool_definitions

OTHERS = ["read", "undo", "log", "show", "diff", "request_mode_upgrade"]


def test_tools_json_is_what_the_daemon_says_of_the_tools() -> None:
    generated = msgspec.json.format(msgspec.json.encode(tool_definitions("mcp")), indent=2)
    kept = resources.files("stet.mcp").joinpath("tools.json").read_bytes()
    assert generated + b"\n" == kept, "run: stet tools --style mcp > client/stet/mcp/tools.json"


def test_every_tool_has_a_result() -> None:
    assert list(tool_calls.RESULTS) == [tool["name"] for tool in catalogue.definitions()]


def test_edit_tools_can_be_chosen_and_the_others_are_always_there() -> None:
    chosen = catalogue.named_dialects("apply-patch, patch")
    assert ["patch", "apply_patch", *OTHERS] == [
        tool["name"] for tool in catalogue.definitions(chosen)
    ]
    assert [*catalogue.DIALECTS, *OTHERS] == [tool["name"] for tool in catalogue.definitions()]


def test_the_first_editing_tool_and_two_others_are_offered_at_once() -> None:
    def at_once(*dialects: str) -> list[str]:
        offered = catalogue.definitions(dialects)
        return [tool["name"] for tool in offered if "anthropic/alwaysLoad" in tool["_meta"]]

    assert ["patch", "read", "undo"] == at_once(*catalogue.DIALECTS)
    assert ["apply_patch", "read", "undo"] == at_once("apply_patch")


def test_a_path_is_relative_to_a_directory_that_is_named() -> None:
    # An agent that works in a Git worktree has another directory than its client's servers.
    [patch] = catalogue.definitions(("patch",), directory='/home/me/"p"')[:1]
    described = patch["inputSchema"]["properties"]["path"]["description"]
    assert described == 'File to edit, relative to /home/me/"p"'


def test_schemas_of_results_are_only_there_where_results_are_structured() -> None:
    assert not any("outputSchema" in tool for tool in catalogue.definitions())
    assert all("outputSchema" in tool for tool in catalogue.definitions(structured=True))


@pytest.mark.parametrize("names", ["", ",", "patch,write", "read"])
def test_a_name_that_edits_nothing_is_refused(names: str) -> None:
    with pytest.raises(UsageError, match="patch, patch_file, patch_block, apply_patch"):
        catalogue.named_dialects(names)
