"""The SDK's own client over standard input and output, in both eras, with every tool."""

from __future__ import annotations

import sys
from typing import Any, Literal

import jsonschema
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from e2e.running_daemon import Site
from stet.mcp import catalogue

Era = Literal["legacy", "auto", "2026-07-28"]
ERAS: list[tuple[Era, str]] = [("legacy", "2025-11-25"), ("auto", "2026-07-28")]

NAMES = [
    *("patch", "patch_file", "patch_block", "apply_patch"),
    *("read", "undo", "log", "show", "diff", "request_mode_upgrade"),
]


def client_of(site: Site, era: Era, *more: str) -> Client:
    """A client of this era, on a server in the workspace."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "stet.cli", "mcp", "--structured", "--workspace", str(site.root), *more],
        env=site.daemon.environment,
    )
    info = types.Implementation(name="the-client", version="1")
    return Client(server, mode=era, client_info=info, read_timeout_seconds=60)


def text_of(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def refused(client: Client, tool: str, **arguments: Any) -> tuple[str, str]:
    """The kind and the text of a refusal, which fits the tool's output schema."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error is True
    [listed] = [each for each in (await client.list_tools()).tools if each.name == tool]
    jsonschema.validate(result.structured_content, listed.output_schema or False)
    return result.structured_content["error"]["kind"], text_of(result)


async def done(client: Client, tool: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    """The structured content and the text of a call; the client checks it by the schema."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error is False, text_of(result)
    return result.structured_content, text_of(result)


@pytest.mark.parametrize(("era", "version"), ERAS)
async def test_every_tool_lists_does_refuses_and_is_undone(
    era: Era, version: str, site: Site
) -> None:
    site.write("a.txt", "one\ntwo\n")

    async with client_of(site, era) as client:
        assert version == client.protocol_version
        assert client.instructions == catalogue.INSTRUCTIONS
        tools = (await client.list_tools()).tools
        assert NAMES == [tool.name for tool in tools]
        assert str(site.root) in tools[0].input_schema["properties"]["path"]["description"]
        for tool in NAMES[:4]:
            await edited_and_undone(site, client, tool)
        await of_the_history(client)
        await of_write_access(client)


def edit_of(tool: str, path: str, old: str, new: str) -> dict[str, Any]:
    """The arguments that make another line of a line."""
    if tool == "patch":
        patch = {"operation": "replace", "oldText": old, "newText": new}
        return {"path": path, "patches": [patch]}
    if tool == "patch_file":
        return {"path": path, "changes": [{"search": old, "replace": new}]}
    if tool == "patch_block":
        lines = [f"===SKIPPY_PATCH_START:{path}===", "===FIND===", old, "===REPLACE===", new]
        return {"text": "\n".join([*lines, "===SKIPPY_PATCH_END==="])}
    lines = ["*** Begin Patch", f"*** Update File: {path}", "@@", f"-{old}", f"+{new}"]
    return {"input": "\n".join([*lines, "*** End Patch"])}


async def edited_and_undone(site: Site, client: Client, tool: str) -> None:
    def call(old: str) -> dict[str, Any]:
        return edit_of(tool, "a.txt", old, "two!")

    kind, text = await refused(client, tool, **call("tow"))
    assert kind == "old_text_not_found", text
    asked = {"dry_run": True} if tool == "patch_file" else {"preview": True}
    preview, text = await done(client, tool, **call("two"), **asked)
    assert preview["commit"] is None
    assert "+two!" in text
    assert text.count("Nothing was changed: this only shows what would be.") == 1
    assert site.bytes_of("a.txt") == b"one\ntwo\n"
    result, text = await done(client, tool, **call("two"), message="why not")
    assert site.bytes_of("a.txt") == b"one\ntwo!\n"
    assert f"Commit {result['commit'][:12]}" in text
    assert "diff" not in result
    _, text = await done(client, "undo")
    assert text.startswith("Undone 1 commit:")
    assert site.bytes_of("a.txt") == b"one\ntwo\n"


async def of_the_history(client: Client) -> None:
    read, text = await done(client, "read", path="a.txt", start=2)
    assert (read["text"], text) == ("two\n", "two\n")
    assert (await refused(client, "read", path="b.txt"))[0] == "file_not_found"
    log, text = await done(client, "log", limit=1)
    [commit] = log["commits"]
    assert (commit["kind"], commit["agent"]) == ("undo", "the-client")
    assert "call log again with cursor" in text
    assert (await refused(client, "log", limit=0))[0] == "invalid_params"
    shown, text = await done(client, "show", commit="HEAD~1")
    assert shown["message"].endswith("why not")
    assert "+two!" in text
    assert (await refused(client, "show", commit="ffff"))[0] == "unknown_commit"
    compared, text = await done(client, "diff", **{"from": "HEAD~1", "to": "HEAD"})
    assert compared["files"][0]["path"] == "a.txt"
    assert "-two!" in text
    assert (await refused(client, "diff", **{"from": "ffff"}))[0] == "unknown_commit"
    assert (await refused(client, "undo", commits=["ffff"]))[0] == "unknown_commit"


async def of_write_access(client: Client) -> None:
    asked, text = await done(client, "request_mode_upgrade", reason="to edit")
    assert asked["status"] == "approved"
    assert "This session may write already" in text
    assert (await refused(client, "request_mode_upgrade", wait=-1))[0] == "invalid_params"


async def test_a_conversation_has_the_session_that_the_client_says(site: Site) -> None:
    def edit(name: str) -> dict[str, Any]:
        return {"path": name, "patches": [{"operation": "overwrite", "newText": "x\n"}]}

    def of(session: str) -> Any:
        return {"stet/session": session}

    async with client_of(
        site, "auto", "--session", "the-process", "--agent", "another-name"
    ) as client:
        await client.call_tool("patch", edit("1.txt"), meta=of("talk-1"))
        await client.call_tool("patch", edit("2.txt"), meta=of("talk-2"))
        result = await client.call_tool("patch", edit("3.txt"))
        assert result.meta is not None
        assert result.meta["stet/session"] == "the-process"
        undone = await client.call_tool("undo", {}, meta=of("talk-1"))
        assert "1.txt" in text_of(undone)
    assert not (site.root / "1.txt").exists()
    assert [
        ("talk-1", "undo"),
        ("the-process", "edit"),
        ("talk-2", "edit"),
        ("talk-1", "edit"),
    ] == [(commit["session"], commit["kind"]) for commit in site.log()]
    assert {commit["agent"] for commit in site.log()} == {"another-name"}


async def test_the_annotations_and_titles_get_to_the_client(site: Site) -> None:
    async with client_of(site, "auto", "--tools", "patch,apply_patch") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert ["patch", "apply_patch", *NAMES[4:]] == list(tools)
        assert all(tool.title for tool in tools.values())
        hints = [tool.annotations and tool.annotations.read_only_hint for tool in tools.values()]
        assert {True, False} == set(hints)
