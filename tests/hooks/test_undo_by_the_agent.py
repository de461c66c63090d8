"""A client's hooks and its MCP server are one session: what an agent may take back."""

from __future__ import annotations

import pytest

from e2e.running_daemon import Site
from hooks.hooking import claude, run_hook
from mcp_server.raw_client import RawClient
from stet.mcp import catalogue


def observed(site: Site) -> str:
    """The commit of an edit by a tool of the agent's client, in the session s-1."""
    given = {"file_path": str(site.root / "a.txt")}
    payload = claude("PreToolUse", "Edit", given, "t1", site.root)
    assert run_hook(site.daemon, payload) == ""
    site.write("a.txt", "by the tool\n")
    assert run_hook(site.daemon, {**payload, "hook_event_name": "PostToolUse"}) == ""
    [commit] = site.log()
    assert (commit["kind"], commit["session"]) == ("observed", "s-1")
    oid: str = commit["commit"]
    return oid


def test_the_instructions_say_whose_edits_undo_takes_back() -> None:
    assert "undo takes back your edits of this conversation" in catalogue.INSTRUCTIONS


@pytest.mark.parametrize(
    ("options", "own"),
    [([], True), (["--session", "another"], False)],
    ids=["the conversation that the hooks tell", "a session of its own"],
)
def test_an_agent_takes_back_what_the_hooks_of_its_conversation_recorded(
    site: Site, options: list[str], own: bool
) -> None:
    commit = observed(site)
    # Started by the same process as the hooks, as a client does.
    server = RawClient(["--workspace", str(site.root), *options], site.daemon.environment)
    try:
        server.initialize()
        if own:
            server.call("undo", commits=[commit])
        else:
            assert server.refusal("undo", commits=[commit]).kind == "not_permitted"
    finally:
        server.kill()
    assert (site.root / "a.txt").exists() is not own


def test_the_start_of_a_conversation_tells_which_it_is(site: Site) -> None:
    payload = {"hook_event_name": "sessionStart", "session_id": "s-2", "cwd": str(site.root)}
    assert run_hook(site.daemon, payload, "cursor") == ""
    server = RawClient(["--workspace", str(site.root)], site.daemon.environment)
    try:
        server.initialize()
        patches = [{"operation": "overwrite", "newText": "one\n"}]
        server.call("patch", path="b.txt", patches=patches)
        run_hook(site.daemon, {**payload, "session_id": "s-3"}, "cursor")
        server.call("patch", path="c.txt", patches=patches)
    finally:
        server.kill()
    assert [(each["agent"], each["session"]) for each in site.log()] == [
        ("cursor", "s-3"),
        ("cursor", "s-2"),
    ]
