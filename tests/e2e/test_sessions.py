"""Sessions: hello, their directory, clipboards, modes, secrets, retries, pipelined calls."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from e2e.running_daemon import BOTH, DaemonProcess, Refusal, Site, eventually
from stet.wire.framing import Encoding

FUNCTION = "def moved():\n    return 1\n\n\n"


def cut(text: str, name: str) -> dict[str, Any]:
    return {"operation": "replace", "oldText": text, "newText": "", "toClipboard": name}


def paste(name: str, **more: Any) -> dict[str, Any]:
    return {"operation": "append_eof", "fromClipboard": name, **more}


# -- hello


@pytest.mark.parametrize("encoding", BOTH, ids=str)
def test_hello_tells_protocol_server_workspace_session_and_mode(
    site: Site, encoding: Encoding
) -> None:
    client = site.daemon.agent(encoding)
    result = client.call(
        "hello",
        protocol=1,
        workspace=str(site.root),
        session="s",
        agent="a",
        client={"name": "test", "version": "1"},
    )
    assert result["server"].pop("version")
    assert result == {
        "protocol": 1,
        "server": {"name": "stetd"},
        "workspace": {"root": str(site.root), "shadow": site.shadow},
        "session": "s",
        "mode": "unrestricted",
    }


def test_a_session_without_a_name_gets_one(site: Site) -> None:
    names = {
        site.daemon.agent().call("hello", protocol=1, workspace=str(site.root))["session"]
        for _ in range(3)
    }
    assert len(names) == 3


def test_a_person_needs_no_workspace_to_say_hello(site: Site) -> None:
    client = site.daemon.control()
    result = client.call("hello", protocol=1)
    assert (result["workspace"], result["session"], result["mode"]) == (None, None, None)
    assert client.call("workspace_list")["workspaces"]


def test_a_workspace_may_be_spelled_through_a_link(site: Site) -> None:
    link = site.root.parent / f"{site.root.name}-link"
    link.symlink_to(site.root)
    client = site.daemon.agent()
    result = client.call("hello", protocol=1, workspace=f"{link}/")
    assert result["workspace"]["root"] == str(site.root)
    client.overwrite(f"{link}/a.txt", "x\n")
    assert site.bytes_of("a.txt") == b"x\n"


def test_hello_anew_changes_the_session(site: Site) -> None:
    site.agent.call("clipboard_set", name="c", text="one's")
    site.greeted(site.agent, session="conv-2")
    assert site.agent.call("clipboard_list")["clipboards"] == []
    site.overwrite("a.txt", "x\n")
    assert site.log(limit=1)[0]["session"] == "conv-2"


def test_a_hello_without_a_workspace_leaves_the_session(site: Site) -> None:
    person = site.greeted(site.daemon.control(), session=site.session)
    assert person.call("hello", protocol=1)["session"] is None
    assert (
        "no session of this connection"
        in person.refusal("mode_set", mode="restricted", workspace=str(site.root)).message
    )
    assert site.agent.call("mode_get")["mode"] == "unrestricted"


def test_the_person_sees_all_sessions_or_those_of_one_workspace(own_daemon: DaemonProcess) -> None:
    site, other = own_daemon.site("w1"), own_daemon.site("w2", session="theirs")
    site.overwrite("a.txt", "x\n")
    site.overwrite("a.txt", "y\n")
    other.agent.call("mode_set", mode="restricted")
    commit = site.log(limit=1)[0]
    person = own_daemon.control()
    person.call("hello", protocol=1)
    own, theirs = person.call("session_list")["sessions"]
    assert own == {
        "session": "conv-1",
        "workspace": str(site.root),
        "agent": "tester",
        "mode": "unrestricted",
        "created": own["created"],
        "last_seen": commit["time"],
        "commits": 2,
    }
    assert own["created"] <= own["last_seen"]
    assert ("theirs", str(other.root), "restricted", 0) == (
        theirs["session"], theirs["workspace"], theirs["mode"], theirs["commits"]
    )  # fmt: skip
    without_hello = own_daemon.control()
    assert [theirs] == without_hello.call("session_list", workspace=str(other.root))["sessions"]
    own_daemon.restart()
    again = own_daemon.control()
    again.call("hello", protocol=1)
    assert [own, theirs] == again.call("session_list")["sessions"]


def test_status_before_hello_tells_no_more_than_version_and_protocol(site: Site) -> None:
    assert set(site.daemon.agent().call("status")) == {"version", "protocol"}
    known = site.agent.call("status")
    assert known["pid"] == site.daemon.process.pid
    assert known["read_only"] is None
    assert known["durability"] == "full"
    assert known["limits"]["max_tokens"] == 60_000
    assert {"uptime_s", "workspaces", "sessions", "commits", "journal_bytes"} <= set(known)
    # It is left out while the historian does not answer in time, as when it is only starting.
    assert eventually(lambda: site.agent.call("status").get("shadow_bytes", 0) > 0)


# -- the session's directory


def test_paths_are_relative_to_the_sessions_directory(site: Site) -> None:
    site.write("sub/dir/a.txt", "one\n")
    site.write("top.txt", "top\n")
    client = site.daemon.agent()
    client.call("hello", protocol=1, workspace=f"{site.root}/sub", session="conv-1")

    def edit(path: str, old: str, new: str) -> list[str]:
        patches = [{"operation": "replace", "oldText": old, "newText": new}]
        result = client.call("patch", path=path, patches=patches)
        return [change["path"] for change in result["files"]]

    assert edit("dir/a.txt", "one", "two") == ["sub/dir/a.txt"]
    assert edit("../top.txt", "top", "TOP") == ["top.txt"]
    assert edit(f"{site.root}/top.txt", "TOP", "top again") == ["top.txt"]
    assert client.call("read", path="dir/a.txt")["text"] == "two\n"
    added = client.call("apply_patch", input="*** Begin Patch\n*** Add File: b\n*** End Patch")
    assert added["message"].endswith(f"\nA {site.root}/sub/b")
    assert len(client.call("log", path="dir")["commits"]) == 2
    assert len(client.call("log", path=".")["commits"]) == 3
    assert len(client.call("log", path="..")["commits"]) == 6
    assert client.refusal("read", path="../../x").kind == "path_outside_workspace"
    client.call("undo", paths=["dir/a.txt"])
    assert site.bytes_of("sub/dir/a.txt") == b"one\n"
    client.call("undo", paths=["../top.txt"])
    assert site.bytes_of("top.txt") == b"TOP\n"


# -- clipboards


def test_clipboards_belong_to_their_session(site: Site) -> None:
    site.agent.call("clipboard_set", name="c", text="mine")
    other = site.another("conv-2")
    assert other.call("clipboard_list")["clipboards"] == []
    assert other.refusal("clipboard_get", name="c").kind == "missing_clipboard"
    other.call("clipboard_set", name="c", text="theirs")
    assert site.agent.call("clipboard_get", name="c")["text"] == "mine"


def test_a_clipboard_is_set_listed_and_deleted(site: Site) -> None:
    for name, text in [("b", "two\nlines"), ("a", "ü\n"), ("empty", "")]:
        assert site.agent.call("clipboard_set", name=name, text=text) == {"name": name}
    assert site.agent.call("clipboard_list")["clipboards"] == [
        {"name": "a", "bytes": 3, "lines": 1},
        {"name": "b", "bytes": 9, "lines": 2},
        {"name": "empty", "bytes": 0, "lines": 0},
    ]
    assert site.agent.call("clipboard_delete", name="a") == {"name": "a"}
    assert site.agent.refusal("clipboard_get", name="a").kind == "missing_clipboard"


def test_clipboards_and_modes_are_as_before_after_restart_and_kill(own_site: Site) -> None:
    site = own_site
    site.write("a.py", FUNCTION + "x = 1\n")
    site.agent.call("patch", path="a.py", patches=[cut(FUNCTION, "f")])
    site.agent.call("clipboard_set", name="set", text="\u2028\r\n")
    site.agent.call("clipboard_set", name="gone", text="x")
    site.agent.call("clipboard_delete", name="gone")
    site.another("locked").call("mode_set", mode="restricted")
    before = site.picture()
    site.daemon.kill()  # before any checkpoint: all of it is in the journal only
    site.daemon.start()
    site.connect()
    assert site.picture() == before
    site.restart()
    assert site.picture() == before
    site.crash()
    assert site.picture() == before
    assert site.another("locked").call("mode_get")["session_mode"] == "restricted"
    site.agent.call("patch", path="a.py", patches=[paste("f")])
    assert site.bytes_of("a.py") == b"x = 1\n" + FUNCTION.encode()


# -- modes


def refused(site: Site, path: str = "a.txt") -> Refusal:
    patches = [{"operation": "overwrite", "newText": "never\n"}]
    return site.agent.refusal("patch", path=path, patches=patches)


def test_an_agent_may_restrict_itself_and_only_a_person_lifts_it(site: Site) -> None:
    assert site.agent.call("mode_set", mode="restricted") == {
        "mode": "restricted",
        "session_mode": "restricted",
        "workspace_mode": "unrestricted",
    }
    assert refused(site).kind == "tool_disabled"
    assert site.agent.refusal("mode_set", mode="unrestricted").kind == "not_permitted"
    assert site.greeted(site.agent, session="conv-1") is site.agent
    assert refused(site).kind == "tool_disabled"
    site.person.call("mode_set", mode="unrestricted", session="conv-1")
    site.overwrite("a.txt", "now\n")


def test_a_restricted_workspace_is_a_ceiling_for_all_its_sessions(site: Site) -> None:
    site.person.call("mode_set", mode="restricted", scope="workspace")
    assert site.agent.call("mode_get") == {
        "mode": "restricted",
        "session_mode": "unrestricted",
        "workspace_mode": "restricted",
    }
    assert refused(site).kind == "tool_disabled"
    new = site.another("new")
    assert new.call("mode_get")["session_mode"] == "restricted"
    site.person.call("mode_set", mode="unrestricted", scope="workspace")
    site.overwrite("a.txt", "now\n")
    assert new.call("mode_get")["mode"] == "restricted"


# -- secrets


def test_a_session_with_a_secret_opens_for_those_who_know_it(own_site: Site) -> None:
    site = own_site
    site.another("guarded", secret="sésame").call("clipboard_set", name="c", text="x")
    hello = {"protocol": 1, "workspace": str(site.root), "session": "guarded"}
    for _ in range(2):
        for wrong in ({}, {"secret": ""}, {"secret": "sesame"}):
            assert site.daemon.agent().refusal("hello", **hello, **wrong).kind == "not_permitted"
        known = site.another("guarded", secret="sésame")
        assert known.call("clipboard_get", name="c")["text"] == "x"
        person = site.greeted(site.daemon.control(), session="guarded")
        assert person.call("clipboard_get", name="c")["text"] == "x"
        site.restart()


def test_a_refused_hello_leaves_the_connection_where_it_was(site: Site) -> None:
    site.another("guarded", secret="x")
    hello = {"protocol": 1, "workspace": str(site.root), "session": "guarded"}
    assert site.agent.refusal("hello", **hello).kind == "not_permitted"
    site.overwrite("a.txt", "x\n")
    assert site.log(limit=1)[0]["session"] == "conv-1"


# -- retries


def test_a_retry_gets_the_first_result_and_is_not_applied_twice(own_site: Site) -> None:
    site = own_site
    site.write("a.txt", "one\n")
    patches = [{"operation": "append_eof", "newText": "two\n"}]
    call: dict[str, Any] = {"path": "a.txt", "patches": patches, "request_id": "r-1"}
    first = site.agent.call("patch", **call)
    assert first["request"] == "r-1"
    expected = {**first, "replayed": True}
    assert site.agent.call("patch", **call) == expected
    site.connect()
    assert site.agent.call("patch", **call) == expected
    site.replace("a.txt", "one", "1")
    assert site.agent.call("patch", **call) == expected
    site.restart()
    assert site.agent.call("patch", **call) == expected
    site.crash()
    assert site.agent.call("patch", **call) == expected
    assert site.bytes_of("a.txt") == b"1\ntwo\n"
    assert len(site.log()) == 3


def test_a_retried_copy_is_replayed_too(site: Site) -> None:
    site.write("a.py", FUNCTION)
    copy = {"operation": "replace", "oldText": FUNCTION, "toClipboard": "c", "fromClipboard": "c"}
    call: dict[str, Any] = {"path": "a.py", "patches": [copy], "request_id": "c"}
    first = site.agent.call("patch", **call)
    site.agent.call("clipboard_set", name="c", text="changed since")
    assert site.agent.call("patch", **call) == {**first, "replayed": True}
    assert site.agent.call("clipboard_get", name="c")["text"] == "changed since"


def test_the_same_params_from_another_directory_are_another_call(site: Site) -> None:
    site.overwrite("a.txt", "x\n", request_id="r")
    (site.root / "sub").mkdir()
    call: dict[str, Any] = {
        "path": "a.txt",
        "patches": [{"operation": "overwrite", "newText": "x\n"}],
        "request_id": "r",
    }
    inside = site.another("conv-1", workspace=str(site.root / "sub"))
    assert inside.refusal("patch", **call).kind == "invalid_params"
    first = inside.call("patch", **{**call, "request_id": "s"})
    again = site.another("conv-1", workspace=str(site.root / "sub"))
    assert again.call("patch", **{**call, "request_id": "s"}) == {**first, "replayed": True}
    assert site.bytes_of("sub/a.txt") == b"x\n"


def test_a_retry_of_a_call_in_flight_gets_its_outcome(site: Site) -> None:
    site.write("a.txt", "")
    patches = [{"operation": "append_eof", "newText": "once\n"}]
    clients = [site.another("conv-1") for _ in range(4)]
    for round_number in range(10):
        for client in clients:
            client.send("patch", path="a.txt", patches=patches, request_id=f"r{round_number}")
        results = [client.result_of(client.receive()) for client in clients]
        assert sorted(result["replayed"] for result in results) == [False, True, True, True]
        assert len({result["commit"] for result in results}) == 1
    assert site.bytes_of("a.txt") == b"once\n" * 10


def test_a_call_whose_client_hangs_up_is_carried_out_and_its_retry_replayed(site: Site) -> None:
    patches = [{"operation": "append_eof", "newText": "once\n"}]
    for number in range(20):
        call: dict[str, Any] = {"path": "a.txt", "patches": patches, "request_id": f"r{number}"}
        client = site.another("conv-1")
        client.send("patch", **call)
        if number % 2:
            client.close()
        else:  # with the reply unread, which makes it a reset
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))
            client.close()
        result = site.agent.call("patch", **call)
        assert result["request"] == f"r{number}"
    assert site.bytes_of("a.txt") == b"once\n" * 20


# -- pipelined calls


@pytest.mark.parametrize("encoding", BOTH, ids=str)
def test_pipelined_writing_calls_are_done_and_answered_in_order(
    shared_daemon: DaemonProcess, encoding: Encoding
) -> None:
    site = shared_daemon.site(f"pipelined-{encoding}", encoding=encoding)
    frames = b""
    count = 200
    for number in range(count):
        patches = [{"operation": "append_eof", "newText": f"{number}\n"}]
        params = {"path": f"{number % 3}.txt", "patches": patches}
        frames += site.agent.frame("patch", number, params)
    site.agent.send_bytes(frames)
    replies = [site.agent.receive() for _ in range(count)]
    assert [reply.id for reply in replies] == list(range(count))
    commits = [site.agent.result_of(reply)["commit"] for reply in replies]
    assert site.ids(limit=1000) == commits[::-1]
    for file in range(3):
        expected = "".join(f"{n}\n" for n in range(file, count, 3))
        assert site.bytes_of(f"{file}.txt") == expected.encode()


def test_a_read_sees_the_writing_calls_before_it(site: Site) -> None:
    for number in range(30):
        patches = [{"operation": "overwrite", "newText": f"{number}\n"}]
        site.agent.send("patch", path="a.txt", patches=patches)
        read = site.agent.send("read", path="a.txt", at="HEAD")
        replies = {reply.id: reply for reply in (site.agent.receive(), site.agent.receive())}
        assert site.agent.result_of(replies[read])["text"] == f"{number}\n"


def test_what_follows_hello_in_one_go_knows_the_session(site: Site) -> None:
    client = site.daemon.agent()
    hello = {"protocol": 1, "workspace": str(site.root), "session": "conv-9"}
    patches = [{"operation": "overwrite", "newText": "x\n"}]
    client.send_bytes(
        client.frame("hello", 1, hello)
        + client.frame("patch", 2, {"path": "a.txt", "patches": patches})
        + client.frame("log", 3, {"session": "conv-9"})
    )
    assert [client.receive().id for _ in range(3)] == [1, 2, 3]
    assert site.log(limit=1)[0]["session"] == "conv-9"
