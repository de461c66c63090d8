"""Several workspaces on one daemon: beside each other, and one inside another."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from e2e.running_daemon import DaemonProcess, Site, eventually
from unwritable import unwritable


def test_the_same_edit_in_two_workspaces_is_whole_in_both_histories(
    shared_daemon: DaemonProcess,
) -> None:
    """An object that one shadow repository had was once not written to the other."""
    one, two = shared_daemon.site("one"), shared_daemon.site("two")
    for site in (one, two):
        site.write("a.txt", "first\n")
        site.replace("a.txt", "first", "second")
    for site in (one, two):
        assert site.fsck() == ""
        assert site.git("show", "history:a.txt") == "second\n"
        site.agent.call("undo")
        assert site.bytes_of("a.txt") == b"first\n"


def test_histories_clipboards_and_modes_are_a_workspaces_own(shared_daemon: DaemonProcess) -> None:
    left, right = shared_daemon.site("left"), shared_daemon.site("right")
    left.overwrite("a.txt", "left\n", request_id="r")
    right.overwrite("a.txt", "right\n", request_id="r")
    left.agent.call("clipboard_set", name="c", text="left's")
    left.person.call("mode_set", mode="restricted", scope="workspace")
    assert right.agent.call("clipboard_list")["clipboards"] == []
    assert right.agent.call("mode_get")["mode"] == "unrestricted"
    assert (left.bytes_of("a.txt"), right.bytes_of("a.txt")) == (b"left\n", b"right\n")
    lefts = left.log()[0]["commit"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("show", {"commit": lefts}),
        ("undo", {"commits": [lefts]}),
        ("read", {"path": "a.txt", "at": lefts}),
    ]
    for method, params in calls:
        assert right.person.refusal(method, **params).kind == "unknown_commit"
    absolute = right.agent.refusal("read", path=f"{left.root}/a.txt")
    assert absolute.kind == "path_outside_workspace"


def test_pipelined_calls_of_two_workspaces_at_once(shared_daemon: DaemonProcess) -> None:
    sites = [shared_daemon.site(f"at-once-{n}") for n in range(2)]
    for number in range(60):
        for site in sites:
            patches = [{"operation": "append_eof", "newText": f"{number}\n"}]
            site.agent.send("patch", path="a.txt", patches=patches)
    expected = "".join(f"{number}\n" for number in range(60)).encode()
    for site in sites:
        commits = [site.agent.result_of(site.agent.receive())["commit"] for _ in range(60)]
        assert site.bytes_of("a.txt") == expected
        assert site.ids(limit=100) == commits[::-1]
        assert site.fsck() == ""


def nested(daemon: DaemonProcess, name: str) -> tuple[Site, Site]:
    """A workspace and another one in a directory of it."""
    outer = daemon.site(name)
    inner = outer.root / "inner"
    inner.mkdir()
    daemon.control().call("workspace_allow", root=str(inner))
    return outer, Site(daemon, inner, "conv-1")


def test_of_nested_workspaces_hello_finds_the_innermost(shared_daemon: DaemonProcess) -> None:
    outer, inner = nested(shared_daemon, "outer")
    (inner.root / "sub").mkdir()
    for directory, site in [(inner.root, inner), (inner.root / "sub", inner), (outer.root, outer)]:
        client = shared_daemon.agent()
        hello = client.call("hello", protocol=1, workspace=str(directory), session="conv-1")
        assert hello["workspace"] == {"root": str(site.root), "shadow": site.shadow}
        assert hello.get("inside") == (["inner"] if site is outer else None)
    assert outer.shadow != inner.shadow


def test_an_edit_through_the_outer_workspace_is_outside_to_the_inner(
    shared_daemon: DaemonProcess,
) -> None:
    outer, inner = nested(shared_daemon, "outer-edits")
    inner.overwrite("a.txt", "one\n")
    outer.replace("inner/a.txt", "one", "two")
    result = inner.replace("a.txt", "two", "three")
    assert inner.person.call("show", commit=result["outside"])["kind"] == "outside"
    assert outer.agent.refusal("undo").kind == "conflict"
    inner.agent.call("undo")
    outer.agent.call("undo")
    assert inner.bytes_of("a.txt") == b"one\n"
    assert inner.fsck() == outer.fsck() == ""


def test_a_forgotten_workspace_takes_no_calls_and_keeps_its_history(own_site: Site) -> None:
    site = own_site
    first = site.overwrite("a.txt", "one\n", request_id="r")
    person = site.daemon.control()
    forgotten = person.call("workspace_forget", root=str(site.root))
    assert (forgotten["head"], forgotten["commits"]) == (first["commit"], 1)
    assert person.call("workspace_list") == {"workspaces": []}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("patch", {"path": "a.txt", "patches": [{"operation": "append_eof", "newText": "x"}]}),
        ("undo", {}),
        ("read", {"path": "a.txt"}),
        ("log", {}),
        ("clipboard_list", {}),
        ("mode_get", {}),
    ]
    for method, params in calls:
        refusal = site.agent.refusal(method, **params)
        assert refusal.kind == "workspace_not_allowed", method
        assert "The person can allow it again: stet init" in refusal.message, method
    hello = {"protocol": 1, "workspace": str(site.root)}
    assert site.daemon.agent().refusal("hello", **hello).kind == "workspace_not_allowed"
    assert site.bytes_of("a.txt") == b"one\n"
    for restart in (site.daemon.kill, site.daemon.stop):
        restart()
        site.daemon.start()
        person = site.daemon.control()
        assert person.call("workspace_list") == {"workspaces": []}
    allowed = person.call("workspace_allow", root=str(site.root))
    assert allowed == forgotten
    site.connect()
    assert site.overwrite("a.txt", "one\n", request_id="r")["replayed"] is True
    site.agent.call("undo")
    assert not (site.root / "a.txt").exists()
    assert site.fsck() == ""


def test_what_is_written_late_is_recorded_before_a_workspace_is_forgotten(own_site: Site) -> None:
    site = own_site
    file = site.write("a.txt", "one\n")
    with file.open("ab", buffering=0) as held:
        site.replace("a.txt", "one", "two")
        held.write(b"late\n")
        site.person.call("workspace_forget", root=str(site.root))
    time.sleep(2.2)  # longer than the grace period
    person = site.daemon.control()
    person.call("workspace_allow", root=str(site.root))
    site.connect()
    assert site.kinds() == ["outside", "outside", "edit", "outside"]
    site.overwrite("b.txt", "b\n")
    assert site.git("show", f"{site.log()[2]['commit']}:a.txt") == "one\nlate\n"
    assert site.person.call("verify")["problems"] == []


def test_allowing_a_workspace_again_changes_nothing(site: Site) -> None:
    site.overwrite("a.txt", "one\n")
    before = site.picture()
    info = site.daemon.control().call("workspace_allow", root=f"{site.root}/")
    assert (info["head"], info["commits"]) == (before.head, before.commits)
    assert site.picture() == before


def without_its_directory(site: Site) -> Path:
    """Start the daemon while the workspace's directory is elsewhere; where it is."""
    site.daemon.stop()
    away = site.root.with_name("away")
    site.root.rename(away)
    site.daemon.start()
    hello = {"protocol": 1, "workspace": str(site.root), "session": "conv-1"}
    refusal = site.daemon.agent().refusal("hello", **hello)
    assert refusal.kind == "workspace_not_allowed"
    assert f"{site.root}: No such file or directory" in refusal.message
    return away


def test_a_workspace_whose_directory_is_away_can_be_forgotten(own_site: Site) -> None:
    commit = own_site.overwrite("a.txt", "one\n")["commit"]
    without_its_directory(own_site)
    person = own_site.daemon.control()
    [listed] = person.call("workspace_list")["workspaces"]
    assert "No such file or directory" in listed["trouble"]
    assert listed == {
        "trouble": listed["trouble"],
        "root": str(own_site.root),
        "shadow": own_site.shadow,
        "mode": "unrestricted",
        "head": commit,
        "commits": 1,
    }
    assert person.call("workspace_forget", root=str(own_site.root)) == listed
    assert person.call("workspace_list") == {"workspaces": []}
    refusal = person.refusal("workspace_forget", root=str(own_site.root))
    assert refusal.kind == "workspace_not_allowed"
    assert own_site.daemon.stop() == 0


def test_a_workspace_whose_directory_was_away_at_the_start_works_again(own_site: Site) -> None:
    site = own_site
    site.overwrite("a.txt", "one\n", request_id="r")
    site.agent.call("clipboard_set", name="c", text="kept")
    without_its_directory(site).rename(site.root)
    site.connect()
    assert site.agent.call("clipboard_get", name="c")["text"] == "kept"
    assert site.overwrite("a.txt", "one\n", request_id="r")["replayed"] is True
    site.agent.call("undo")
    assert site.kinds() == ["undo", "edit"]
    # The historian was begun anew on purpose; `stet doctor` showed it as the last error.
    assert "is deferred" in site.person.call("status")["last_error"]["message"]
    assert site.fsck() == ""


def test_what_is_forgotten_leaves_no_handle_open(own_site: Site) -> None:
    person, opened = own_site.person, f"/proc/{own_site.daemon.process.pid}/fd"

    def turn(number: int) -> None:
        root = own_site.daemon.base / f"other{number}"
        root.mkdir()
        person.call("workspace_allow", root=str(root))
        agent = own_site.daemon.agent()
        agent.call("hello", protocol=1, workspace=str(root), session="s", agent="a")
        agent.call("patch", path="f", patches=[{"operation": "append_eof", "newText": "x\n"}])
        agent.close()
        person.call("workspace_forget", root=str(root))

    turn(0)
    before = len(os.listdir(opened))
    for number in range(1, 21):
        turn(number)
    assert eventually(lambda: len(os.listdir(opened)) < before + 10)  # a pack or two may be open


def test_forget_does_not_wait_long_for_a_history_that_cannot_be_written(
    own_daemon: DaemonProcess,
) -> None:
    """It needs a checkpoint, and that needs the histories of all workspaces."""
    one, two = own_daemon.site("forgets"), own_daemon.site("stuck")
    one.overwrite("a.txt", "secret\n")
    one.log()
    with unwritable(two.shadow):
        two.overwrite("b.txt", "b\n")
        began = time.monotonic()
        refused = one.person.refusal("forget", path="a.txt")
        assert "no checkpoint could be taken" in refused.message
        assert time.monotonic() - began < 20
    assert one.person.call("forget", path="a.txt")["commits"] == 1


def test_a_forgotten_workspace_leaves_no_pack_open(own_site: Site) -> None:
    """Each one kept descriptors for as long as the daemon runs, and the space of removed packs."""
    for number in range(3):
        own_site.overwrite(f"d{number}/a.txt", "a\n")
    own_site.person.call("gc")
    own_site.restart()
    own_site.overwrite("d0/a.txt", "b\n")  # its tree is read from the pack

    def opened() -> list[str]:
        found = []
        for fd in Path(f"/proc/{own_site.daemon.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(fd))
        return [name for name in found if name.startswith(own_site.shadow)]

    assert opened()
    own_site.person.call("workspace_forget", root=str(own_site.root))
    assert not opened()
