"""How a server ends: whoever goes first, calls under way are answered or harmlessly dropped."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from e2e.running_daemon import PATIENCE_S, Site
from mcp_server.raw_client import HELLO, INITIALIZED, RawClient, Starting
from mcp_server.test_exactly_once import standing_still


def edit(name: str) -> dict[str, Any]:
    return {"path": name, "patches": [{"operation": "overwrite", "newText": "x\n"}]}


@pytest.fixture
def server(site: Site, starting: Starting) -> RawClient:
    return starting("--workspace", str(site.root), **site.daemon.environment)


def ended(server: RawClient) -> tuple[int, str]:
    """The exit status and what it wrote to standard error."""
    return server.wait(), server.complaints()


def test_a_client_that_only_looks_is_answered(server: RawClient) -> None:
    server.initialize()
    assert server.result(server.request("tools/list"))["tools"]
    server.end_input()
    assert (0, "") == ended(server)


def test_calls_that_are_under_way_when_the_input_ends_are_answered(
    site: Site, server: RawClient
) -> None:
    server.request("initialize", HELLO)
    server.send(INITIALIZED)
    calls = [server.begin_call("patch", **edit(f"{number}.txt")) for number in range(5)]
    server.end_input()
    assert [1, *calls] == sorted(server.line()["id"] for _ in range(6))
    assert server.line() is None
    assert (0, "") == ended(server)
    assert 5 == len(site.log())


def test_a_call_under_way_is_answered_though_another_had_its_id(
    site: Site, server: RawClient
) -> None:
    server.initialize()
    with standing_still(site.daemon):
        number = server.begin_call("patch", **edit("a.txt"))
        same = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "x"}}
        server.send(same)
        assert server.line()["result"]["isError"] is True
        server.end_input()
    assert server.line()["result"]["isError"] is False
    assert (0, "") == ended(server)


def test_a_request_without_an_end_of_its_line_is_a_request(server: RawClient) -> None:
    server.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"nonsense"}')
    server.end_input()
    assert server.line()["error"]["code"] == -32601
    assert (0, "") == ended(server)


def test_sigterm_ends_it_without_a_word(server: RawClient) -> None:
    server.initialize()
    server.call("patch", **edit("a.txt"))
    server.process.terminate()
    assert (0, "") == ended(server)
    assert server.line() is None


def test_sigterm_before_the_first_call_ends_it_without_a_word(server: RawClient) -> None:
    server.initialize()
    server.process.terminate()
    assert (0, "") == ended(server)


def test_a_client_that_no_longer_reads_ends_it_and_its_edit_stands(
    site: Site, server: RawClient
) -> None:
    server.initialize()
    server.call("patch", **edit("a.txt"))
    assert server.process.stdout is not None
    server.process.stdout.close()
    server.begin_call("patch", **edit("b.txt"))
    assert (0, "") == ended(server)
    assert (site.root / "b.txt").read_text() == "x\n"


def test_a_client_is_heard_before_it_has_read_what_it_asked_for(
    site: Site, server: RawClient
) -> None:
    server.initialize()
    site.write("long.txt", "x" * 90_000 + "\n")  # more than a pipe holds
    calls = [server.begin_call("read", path="long.txt")]
    assert server.process.stdout is not None
    select.select([server.process.stdout], [], [], PATIENCE_S)
    calls += [server.request("ping"), server.begin_call("patch", **edit("a.txt"))]
    server.end_input()
    deadline = time.monotonic() + PATIENCE_S
    while not (site.root / "a.txt").exists():
        assert time.monotonic() < deadline, "the edit waits until the answers are read"
        time.sleep(0.01)
    assert calls == sorted(server.line()["id"] for _ in calls)
    assert (0, "") == ended(server)


def test_nothing_but_the_protocol_gets_out_and_no_child_reads_what_comes_in(
    site: Site, starting: Starting
) -> None:
    """The daemon, as a child that is started by the first call, has other descriptors."""
    assert site.daemon.stop() == 0
    server = starting("--workspace", str(site.root), **site.daemon.environment).initialize()
    try:
        server.call("patch", **edit("a.txt"))
        pid = int((site.daemon.state / "stetd.lock").read_text())
        own = {os.readlink(f"/proc/{server.process.pid}/fd/{number}") for number in (0, 1)}
        assert {os.devnull, os.readlink(f"/proc/{server.process.pid}/fd/2")} == own
        pipes = {
            os.readlink(f"/proc/self/fd/{pipe.fileno()}")
            for pipe in (server.process.stdin, server.process.stdout)
            if pipe is not None
        }
        theirs = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
        assert not pipes & theirs
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        site.daemon.start()


@pytest.mark.parametrize("way", ["<&-", "< /dev/null"])
def test_without_an_input_it_ends(way: str, site: Site) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$0" -P -m stet.cli mcp {way}', sys.executable],
        env=site.daemon.environment,
        cwd=site.root,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)


def test_wrong_usage_is_told_on_standard_error_alone(site: Site, starting: Starting) -> None:
    server = starting("--tools", "patch,write", **site.daemon.environment)
    assert server.line() is None
    status, said = ended(server)
    assert status == 2
    assert "write names no tool that edits" in said
