"""What an agent is told of ``undo`` is true of the edits that its hooks recorded."""

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


def test_the_instructions_promise_no_more_than_the_edits_of_these_tools() -> None:
    assert "undo takes back the edits you made with these tools" in catalogue.INSTRUCTIONS


@pytest.mark.parametrize(
    ("options", "kept"),
    [([], True), (["--session", "s-1"], False)],
    ids=["a session of its own", "the session of the hooks"],
)
def test_an_agent_takes_back_what_its_hooks_recorded_in_their_session_only(
    site: Site, options: list[str], kept: bool
) -> None:
    commit = observed(site)
    server = RawClient(["--workspace", str(site.root), *options], site.daemon.environment)
    try:
        server.initialize()
        if kept:
            assert server.refusal("undo", commits=[commit]).kind == "not_permitted"
        else:
            assert server.call("undo", commits=[commit])["undone"] == [commit]
    finally:
        server.kill()
    assert (site.root / "a.txt").exists() is kept
