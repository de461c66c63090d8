"""Whose call it is: the client's conversation, whatever the client says of it and where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import Site
from mcp_server.raw_client import HELLO, INITIALIZED, RawClient, Starting
from stet.agents import joining

PATCH = {"path": "a.txt", "patches": [{"operation": "append_eof", "newText": "x\n"}]}


def started(
    starting: Starting, site: Site, *more: str, client: str = "raw", **env: str
) -> RawClient:
    server = starting("--workspace", str(site.root), *more, **site.daemon.environment, **env)
    info = {"name": client, "version": "1"}
    server.result(server.request("initialize", {**HELLO, "clientInfo": info}))
    server.send(INITIALIZED)
    return server


def newest(site: Site) -> tuple[str, str]:
    """The session and agent of the newest edit."""
    commit = site.log()[0]
    return commit["session"], commit["agent"]


@pytest.fixture
def hook_tells(site: Site) -> Iterator[Callable[[str, str], None]]:
    """Leaves what a hook of this process, the servers' client, would leave."""
    directory = site.daemon.runtime / "clients"
    directory.mkdir(mode=0o700, exist_ok=True)
    stat = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()
    path = directory / f"{os.getpid()}-{stat[19]}"

    def tell(session: str, agent: str) -> None:
        path.write_text(json.dumps({"session": session, "agent": agent}))

    yield tell
    path.unlink()


def test_codex_names_the_conversation_with_each_call(site: Site, starting: Starting) -> None:
    server = started(starting, site, client="codex-mcp-client")
    server.call("patch", {"sessionId": "thread-1", "threadId": "thread-1"}, **PATCH)
    assert ("thread-1", "codex") == newest(site)
    server.call("patch", {"sessionId": "thread-2"}, **PATCH)
    assert ("thread-2", "codex") == newest(site)


def test_claude_code_names_it_in_the_servers_environment(site: Site, starting: Starting) -> None:
    server = started(starting, site, client="claude-code", CLAUDE_CODE_SESSION_ID="conv-1")
    server.call("patch", {"claudecode/toolUseId": "t-1"}, **PATCH)
    assert ("conv-1", "claude-code") == newest(site)


def test_what_a_hook_has_told_counts_from_the_next_call_on(
    site: Site, starting: Starting, hook_tells: Callable[[str, str], None]
) -> None:
    server = started(starting, site, client="claude-code", CLAUDE_CODE_SESSION_ID="old")
    hook_tells("conv-1", "claude-code")
    server.call("patch", **PATCH)
    assert ("conv-1", "claude-code") == newest(site)
    hook_tells("conv-2", "claude-code")  # /clear
    server.call("patch", **PATCH)
    assert ("conv-2", "claude-code") == newest(site)


@pytest.mark.parametrize(
    ("introduced", "agent"),
    [
        ("codex-mcp-client", "codex"),
        ("gemini-cli-mcp-client", "gemini"),
        ("opencode", "opencode"),
        ("my-client", "my-client"),
    ],
)
def test_the_agent_is_the_product(
    site: Site, starting: Starting, introduced: str, agent: str
) -> None:
    started(starting, site, client=introduced).call("patch", **PATCH)
    session, told = newest(site)
    assert agent == told
    assert session.startswith("mcp-")


@pytest.mark.parametrize("introduced", [" my client\n", "my client" + " " * 200 + "2"])
def test_white_space_at_the_ends_of_a_clients_name_is_left_out(
    site: Site, starting: Starting, introduced: str
) -> None:
    server = started(starting, site, client=introduced)
    server.call("patch", {"sessionId": " thread-1 "}, **PATCH)
    assert ("thread-1", "my client") == newest(site)
    refusal = server.refusal("patch", {"stet/session": " thread-1"}, **PATCH)
    assert "white space" in refusal.text


def test_what_the_person_has_said_is_stronger(site: Site, starting: Starting) -> None:
    server = started(
        starting, site, "--session", "mine", "--agent", "me", client="codex-mcp-client"
    )
    server.call("patch", {"sessionId": "thread-1"}, **PATCH)
    assert ("mine", "me") == newest(site)
    server.call("patch", {"stet/session": "named", "sessionId": "thread-1"}, **PATCH)
    assert ("named", "me") == newest(site)


def test_with_a_secret_no_conversation_is_joined(site: Site, starting: Starting) -> None:
    server = started(starting, site, STET_SECRET="s", CLAUDE_CODE_SESSION_ID="conv-1")
    server.call("patch", {"sessionId": "thread-1"}, **PATCH)
    assert newest(site)[0].startswith("mcp-")


def test_codexs_read_only_sandbox_binds_what_writes_and_nothing_else(
    site: Site, starting: Starting
) -> None:
    server = started(starting, site, client="codex-mcp-client")
    site.write("a.txt", "one\n")

    def turn(mode: str) -> dict[str, Any]:
        return {"x-codex-turn-metadata": {"sandbox_mode": mode}}

    for tool, arguments in (("patch", PATCH), ("undo", {})):
        refusal = server.refusal(tool, turn("read-only"), **arguments)
        assert "not_permitted" == refusal.kind
        assert "read-only" in refusal.text
    assert "one\n" == server.call("read", turn("read-only"), path="a.txt")["text"]
    assert "one\n" == (site.root / "a.txt").read_text()
    server.call("patch", turn("workspace-write"), **PATCH)
    server.call("patch", turn("danger-full-access"), **PATCH)
    assert "one\nx\nx\n" == (site.root / "a.txt").read_text()


def test_the_log_tells_a_model_which_edits_are_its_own(site: Site, starting: Starting) -> None:
    first, second = (started(starting, site, "--session", name) for name in ("one", "two"))
    first.call("patch", **PATCH)
    second.call("patch", **PATCH)
    [content] = second.result(second.begin_call("log"))["content"]
    newest, *rest = [line for line in content["text"].splitlines() if "patch a.txt" in line]
    assert "raw/this conversation" in newest
    assert "raw/one" in rest[0]
    own = second.call("log", session="this conversation")["commits"]
    assert ["two"] == [commit["session"] for commit in own]


def test_a_model_is_told_of_a_warning_and_of_a_clipboard_once(
    site: Site, starting: Starting
) -> None:
    site.write("a.txt", "say “one”")
    server = started(starting, site)
    cut = {"operation": "replace", "oldText": 'say "one"', "newText": "", "toClipboard": "c"}
    patches = [cut, {"operation": "append_eof", "newText": "x"}]
    [content] = server.result(server.begin_call("patch", path="a.txt", patches=patches))["content"]
    assert content["text"].count("no newline stands between") == 1
    assert content["text"].count("as it stands in the file") == 1
    assert "as it stood in the file" not in content["text"]


def test_without_structured_results_there_is_the_text_alone(site: Site, starting: Starting) -> None:
    site.write("a.txt", 'print("one")\n')
    server = starting("--no-structured", "--workspace", str(site.root), **site.daemon.environment)
    server.initialize()
    read = server.result(server.begin_call("read", path="a.txt"))
    assert [{"type": "text", "text": 'print("one")\n'}] == read["content"]
    refused = server.result(server.begin_call("read", path="b.txt"))
    assert refused["isError"] is True
    assert "structuredContent" not in {**read, **refused}
    listed = server.result(server.request("tools/list"))["tools"]
    assert not any("outputSchema" in tool for tool in listed)


def test_join_and_joined_agree_on_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "r"
    monkeypatch.setenv("STET_RUNTIME_DIR", str(runtime))
    assert joining.joined() is None
    joining.join("conv-1", "gemini")
    assert ("conv-1", "gemini") == joining.joined()
    assert 0o700 == (runtime / "clients").stat().st_mode & 0o777
    left = runtime / "clients" / "4194304-1"  # no process has this number
    left.write_text("{}")
    joining.join("conv-2", "gemini")
    assert ("conv-2", "gemini") == joining.joined()
    assert not left.exists()


def test_a_shell_in_between_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STET_RUNTIME_DIR", str(tmp_path / "r"))
    tell = "from stet.agents.joining import join; join('conv-1', 'x')"
    # ``; true`` keeps the shell from becoming the command itself.
    subprocess.run(["/bin/sh", "-c", f'"{sys.executable}" -c "{tell}"; true'], check=True)
    ask = "from stet.agents.joining import joined; print(joined())"
    asked = subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True)
    assert "('conv-1', 'x')\n" == asked.stdout


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"session": 1, "agent": "x"}'])
def test_what_is_no_telling_is_none(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "r"
    monkeypatch.setenv("STET_RUNTIME_DIR", str(runtime))
    joining.join("conv-1", "x")
    [path] = (runtime / "clients").iterdir()
    path.write_bytes(content)
    assert joining.joined() is None
