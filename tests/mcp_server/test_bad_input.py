"""Whatever a client or a model sends: an answer that says what to do, and the server lives on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.running_daemon import DaemonProcess, Site, running
from mcp_server.raw_client import HELLO, RawClient, Refusal, Starting
from stet.mcp.sessions import MOST_OPEN
from stet.mcp.stdio import LONGEST_LINE

TEXT = "one\ntwo\none\n"


@pytest.fixture(scope="module")
def site(shared_daemon: DaemonProcess) -> Site:
    """One workspace for all, in which the tests leave nothing."""
    site = shared_daemon.site("shared")
    site.write("a.txt", TEXT)
    return site


@pytest.fixture(scope="module")
def server(site: Site) -> Iterator[RawClient]:
    """One server for all: whatever one test does to it, the next finds it working."""
    arguments = ["--workspace", str(site.root), "--session", "talk"]
    server = RawClient(arguments, site.daemon.environment).initialize()
    assert server.call("read", path="a.txt")["text"] == TEXT
    try:
        yield server
        assert server.complaints() == ""
    finally:
        server.kill()


def test_what_a_model_gets_wrong_is_a_tool_error_that_says_what_to_send(
    site: Site, server: RawClient
) -> None:
    replace = {"operation": "replace", "oldText": "one", "newText": "1"}
    missing = {"operation": "replace", "oldText": "tow", "newText": "2"}
    before = site.picture()
    wrong: list[tuple[str, str, str, dict[str, Any]]] = [
        ("invalid_params", '"path" is missing', "patch", {"patches": [replace]}),
        ("invalid_params", "unknown field `old`", "read", {"path": "a.txt", "old": "x"}),
        (
            "invalid_params",
            "at `preview`. Every edit takes: message?,",
            "patch",
            {"path": "a.txt", "patches": [replace], "preview": "true"},
        ),
        ("invalid_params", "The tools are: patch, patch_file,", "write_file", {"path": "a.txt"}),
        ("invalid_params", "The tools are: ", "hello", {"protocol": 1}),
        ("old_text_not_unique", "lines 1 and 3", "patch", {"path": "a.txt", "patches": [replace]}),
        (
            "old_text_not_found",
            "read the file again",
            "patch",
            {"path": "a.txt", "patches": [missing]},
        ),
        ("file_not_found", "b.txt", "read", {"path": "b.txt"}),
        ("path_outside_workspace", "workspace", "read", {"path": "/etc/passwd"}),
        ("parse_error", "Begin Patch", "apply_patch", {"input": "nonsense"}),
        ("unknown_commit", "abcd", "show", {"commit": "abcd"}),
        ("invalid_params", "missing required field `commit`", "show", {"commit": ""}),
        ("invalid_params", "'edits' is none of edit, ", "log", {"kind": "edits"}),
        ("nothing_to_undo", "", "undo", {}),
        ("input_too_large", "smaller", "patch_block", {"text": "x" * 9_000_000}),
        ("invalid_params", "surrogate", "read", {"path": "\ud800"}),
        ("invalid_params", "wait", "request_mode_upgrade", {"wait": -1e300}),
    ]
    for kind, says, tool, arguments in wrong:
        refusal = server.refusal(tool, **arguments)
        assert (kind, True) == (refusal.kind, says in refusal.text), refusal.text
    assert before.files == site.picture().files
    assert server.call("read", path="a.txt")["text"] == TEXT


def test_in_a_subdirectory_a_path_is_told_what_it_is_relative_to(
    site: Site, starting: Starting
) -> None:
    # Relative to the workspace's root it would make the file in src/src.
    sub = site.root / "src"
    sub.mkdir()
    server = starting("--workspace", str(sub), **site.daemon.environment)
    hello = server.result(server.request("initialize", HELLO))
    assert "Paths are relative to the directory that the tools name" in hello["instructions"]
    patches = [{"operation": "overwrite", "newText": "x"}]
    link = sub / "link"
    link.symlink_to("/nowhere")
    for path in ("/b.txt", "../../b.txt", "link"):
        refusal = server.refusal("patch", path=path, patches=patches)
        assert f"Use a path inside the workspace, relative to {sub} or absolute." in refusal.text
    link.unlink()
    sub.rmdir()


def test_what_a_model_leaves_empty_is_left_out_where_it_only_reads(server: RawClient) -> None:
    unset = {"path": "", "session": "", "agent": "", "since": "", "text": "", "cursor": ""}
    assert server.call("log", **unset) == server.call("log")
    assert server.call("read", path="a.txt", at="")["text"] == TEXT
    assert server.call("diff", **{"from": "", "to": ""}) == server.call("diff")
    assert "length >= 1 - at `session`" in server.refusal("undo", session="").text


def test_a_client_without_a_name_in_a_call_is_that_of_the_handshake(server: RawClient) -> None:
    meta: dict[str, Any] = {"io.modelcontextprotocol/clientInfo": {}}
    assert server.call("read", meta, path="a.txt")["text"] == TEXT


@pytest.mark.parametrize("start", ["1e999", "[" * 120 + "]" * 120, str(2**63)])
def test_a_call_that_cannot_be_sent_is_refused_and_one_beside_it_is_carried_out(
    start: str, server: RawClient
) -> None:
    edit = {"path": "beside.txt", "patches": [{"operation": "append_eof", "newText": "x\n"}]}
    server.call("log")
    beside = server.begin_call("patch", **edit)
    number = f"start-{start[:3]}"
    server.send_bytes(
        b'{"jsonrpc": "2.0", "id": "%b", "method": "tools/call", "params": {"name": "read", '
        b'"arguments": {"path": "a.txt", "start": %b}}}\n' % (number.encode(), start.encode())
    )
    refusal = Refusal(server.result(number))
    assert refusal.kind == "invalid_params"
    assert "the params of read cannot be sent" in refusal.text
    done = server.result(beside)
    assert done["isError"] is False, done
    assert server.call("undo")["files"][0]["path"] == "beside.txt"


@pytest.mark.parametrize("arguments", [3, "path", ["a.txt"], '{"path": "a.txt"}'])
def test_arguments_that_are_no_object_are_a_tool_error(arguments: Any, server: RawClient) -> None:
    number = server.request("tools/call", {"name": "read", "arguments": arguments})
    result = server.result(number)
    assert result["isError"] is True
    assert result["structuredContent"]["error"]["kind"] == "invalid_params"
    assert "must be an object" in result["content"][0]["text"]


def test_a_whole_number_may_be_written_with_a_point(server: RawClient) -> None:
    """As JSON Schema has it, and some clients know no other numbers."""
    assert server.call("read", path="a.txt", start=2.0, end=3.0)["text"] == "two\none\n"
    change = {"search": "one", "replace": "1", "occurrence": 2.0}
    told = server.call("patch_file", path="a.txt", changes=[change], dry_run=True)
    assert told["edits"][0]["line"] == 3
    assert "got `float`" in server.refusal("read", path="a.txt", start=1.5).text


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (b"garbage", None, -32700),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "pi', None, -32700),
        (b"\xff\xfe", None, -32700),
        (b"[" * 100_000, None, -32700),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "\\ud800"}', "x", -32601),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "\\ud800", nonsense}', None, -32700),
        (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": 3}', "\ud800", -32600),
        (b"[]", None, -32600),
        (b"3", None, -32600),
        (b'{"id": "x", "method": "ping"}', "x", -32600),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": "x", "method": 3}', "x", -32600),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "nonsense"}', "x", -32601),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {}}', "x", -32602),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": [1]}', "x", -32600),
        (
            b'{"jsonrpc": "2.0", "id": "x", "method": "tools/list"}' + b" " * LONGEST_LINE,
            None,
            -32600,
        ),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', None, -32600),
    ],
    ids=range(18),
)
def test_a_line_that_is_no_request_is_answered_and_the_server_goes_on(
    line: bytes, number: Any, code: int, server: RawClient
) -> None:
    server.send_bytes(line + b"\n")
    reply = server.reply(number)
    assert (number, code) == (reply["id"], reply["error"]["code"])
    assert server.call("read", path="a.txt")["text"] == TEXT


def test_what_nobody_waits_for_an_answer_to_is_passed_over(server: RawClient) -> None:
    server.send_bytes(b"\n  \n")
    server.send({"jsonrpc": "2.0", "method": "notifications/nonsense"})
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})
    server.send({"jsonrpc": "2.0", "id": 12345, "result": {}})
    assert server.call("read", path="a.txt")["text"] == TEXT


@pytest.mark.parametrize("key", ["stet/request_id", "stet/session"])
@pytest.mark.parametrize("label", ["", "x" * 201, "a\nb", 3, ["a"]])
def test_a_label_that_the_daemon_would_not_take_is_refused(
    key: str, label: Any, server: RawClient
) -> None:
    edit = {"path": "n.txt", "patches": [{"operation": "overwrite", "newText": "x"}]}
    refusal = server.refusal("patch", {key: label}, **edit)
    assert refusal.kind == "invalid_params"
    assert key in refusal.text


def test_many_conversations_keep_few_connections_and_each_its_session(
    site: Site, server: RawClient
) -> None:
    edit = {"patches": [{"operation": "overwrite", "newText": "x"}]}
    talks = [f"talk-{number}" for number in range(MOST_OPEN * 2)]
    for talk in talks:
        server.call("patch", {"stet/session": talk}, path=talk, **edit)
    handles = f"/proc/{server.process.pid}/fd"
    open_now = [os.readlink(f"{handles}/{name}") for name in os.listdir(handles)]
    # Two more are how asyncio wakes itself up.
    assert sum(link.startswith("socket:") for link in open_now) <= MOST_OPEN + 2
    for talk in talks:
        assert server.call("undo", {"stet/session": talk})["files"][0]["path"] == talk
    assert ["a.txt"] == os.listdir(site.root)


def test_in_restricted_mode_a_model_is_told_to_ask_and_may_write_when_allowed(
    site: Site, server: RawClient
) -> None:
    site.person.call("mode_set", mode="restricted", session="talk")
    edit = {"path": "a.txt", "patches": [{"operation": "overwrite", "newText": "x"}]}
    refusal = server.refusal("patch", **edit)
    assert refusal.kind == "tool_disabled"
    assert refusal.text == (
        "Patch tool is disabled in Restricted mode. Use request_mode_upgrade to request write "
        "access."
    )
    asked = server.call("request_mode_upgrade", reason="to fix it")
    assert asked["status"] == "pending"
    site.person.call("upgrade_decide", request=asked["request"], approve=True)
    assert server.call("request_mode_upgrade", wait=30)["status"] == "approved"
    assert server.call("patch", **edit)["files"][0]["status"] == "M"
    server.call("undo")


def test_a_directory_that_is_not_allowed_is_a_tool_error_until_it_is(
    shared_daemon: DaemonProcess, starting: Starting
) -> None:
    root = shared_daemon.base / "later"
    root.mkdir()
    (root / "a.txt").write_text("x\n")
    server = starting("--workspace", str(root), **shared_daemon.environment).initialize()
    refusal = server.refusal("read", path="a.txt")
    assert refusal.kind == "workspace_not_allowed"
    assert "stet init" in refusal.text
    shared_daemon.control().call("workspace_allow", root=str(root))
    assert server.call("read", path="a.txt")["text"] == "x\n"


def test_a_daemon_that_can_not_start_is_a_tool_error_until_it_can(starting: Starting) -> None:
    with running() as daemon:
        site = daemon.site("w")
        site.write("a.txt", "x\n")
        server = starting("--workspace", str(site.root), **daemon.environment).initialize()
        assert server.call("read", path="a.txt")["text"] == "x\n"
        daemon.kill()
        config = daemon.base / "c.toml"
        good = config.read_bytes()
        config.write_bytes(b"nonsense = 1\n")
        refusal = server.refusal("read", path="a.txt")
        assert refusal.kind == "daemon_unreachable"
        assert "stet doctor" in refusal.text
        config.write_bytes(good)
        daemon.start()
        assert server.call("read", path="a.txt")["text"] == "x\n"
