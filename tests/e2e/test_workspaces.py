"""Which directories may be workspaces, and what becomes of one whose directory is another."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import Client, DaemonProcess, Site
from e2e.test_two_workspaces import nested
from stet.wire.failures import Kind

APPEND = [{"operation": "append_eof", "newText": "x\n"}]


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    """A daemon with a home directory of its own and a configuration in its usual place."""
    daemon = DaemonProcess()
    home = daemon.base / "home" / "me"
    for path in (".config/stet", ".ssh", "project/.git", "project/src"):
        (home / path).mkdir(parents=True)
    config = home / ".config" / "stet" / "config.toml"
    (daemon.base / "c.toml").rename(config)
    daemon.environment |= {"HOME": str(home), "STET_CONFIG": str(config)}
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.close()


def refused(person: Client, root: str | Path) -> str:
    """Why a directory is not allowed."""
    before = person.call("workspace_list")
    refusal = person.refusal("workspace_allow", root=str(root))
    assert refusal.kind == Kind.WORKSPACE_NOT_ALLOWED
    assert person.call("workspace_list") == before
    return refusal.message


REFUSED = [
    ("/", "the root of the file system"),
    ("{base}/home/me", "your home directory itself"),
    ("{base}/home/me/", "your home directory itself"),
    ("{base}/home/me/project/..", "your home directory itself"),
    ("{base}/home", "your home directory {base}/home/me lies in it"),
    ("{base}", "your home directory {base}/home/me lies in it"),
    ("{base}/home/me/.ssh", "it holds your keys"),
    ("{base}/s", "stet's own directory {base}/s lies in it"),
    ("{base}/s/workspaces", "it is, or lies in, stet's own directory {base}/s"),
    ("{base}/r", "stet's own directory {base}/r lies in it"),
    ("{base}/home/me/.config", "stet's configuration {base}/home/me/.config/stet/config.toml"),
    ("{base}/home/me/.config/stet", "stet's configuration"),
    ("{base}/home/me/.config/stet/deep", "the directory of stet's configuration"),
    ("{base}/home/me/project/.git", "it lies in a Git directory"),
    ("{base}/bare", "it lies in a Git directory"),
    ("{base}/bare/refs/heads", "it lies in a Git directory"),
    ("{base}/link-to-home", "your home directory itself"),
    ("/etc", "a system directory"),
    ("/usr/bin", "it lies in a system directory"),
    ("/proc/self", "it lies in a system directory"),
    ("{base}/log", "is not a directory"),
    ("{base}/missing", "No such file or directory"),
]


def test_what_is_nobodys_project_is_refused_with_the_reason(daemon: DaemonProcess) -> None:
    (daemon.base / "link-to-home").symlink_to(daemon.base / "home" / "me")
    (daemon.base / "home/me/.config/stet/deep").mkdir()
    subprocess.run(["git", "init", "-q", "--bare", str(daemon.base / "bare")], check=True)
    person = daemon.control()
    for root, why in REFUSED:
        said = refused(person, root.format(base=daemon.base))
        assert why.format(base=daemon.base) in said, (root, said)


def test_a_root_is_the_same_however_it_is_spelled(daemon: DaemonProcess) -> None:
    project = daemon.base / "home" / "me" / "project"
    link = daemon.base / "link"
    link.symlink_to(project)
    person, p = daemon.control(), str(project)
    for root in (p, f"{p}/", f"{p}/.", f"{p}/src/..", f"/../{p}", str(link), f"{link}//"):
        assert person.call("workspace_allow", root=root)["root"] == p
        assert person.call("workspace_allow", root=p)["root"] == p
        assert len(person.call("workspace_list")["workspaces"]) == 1
        hello = daemon.agent().call("hello", protocol=1, workspace=root)
        assert hello["workspace"]["root"] == p
        person.call("workspace_forget", root=p)


def mounted(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"can't mount here: {done.stderr.strip()}")


def test_a_directory_at_a_second_place_is_the_same_directory(daemon: DaemonProcess) -> None:
    """As with a file system that folds case: two histories of the same files."""
    site = daemon.site("w")
    names = {"w2": site.root, "s2": daemon.state, "home2": daemon.base / "home" / "me"}
    person = daemon.control()
    made = []
    try:
        for name, directory in names.items():
            (daemon.base / name).mkdir()
            mounted("--bind", str(directory), str(daemon.base / name))
            made.append(daemon.base / name)
        assert f"it is the workspace {site.root} under another name" in refused(
            person, daemon.base / "w2"
        )
        assert "stet's own directory" in refused(person, daemon.base / "s2")
        assert "stet's own directory" in refused(person, daemon.base / "s2" / "workspaces")
        assert "home directory itself" in refused(person, daemon.base / "home2")
    finally:
        for path in made:
            subprocess.run(["umount", str(path)], check=True)


# -- moved, replaced, gone


def test_a_root_that_a_link_has_taken_the_place_of_is_not_followed(daemon: DaemonProcess) -> None:
    site = daemon.site("w")
    site.overwrite("a.txt", "one\n")
    elsewhere = daemon.base / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("theirs\n")
    site.root.rename(daemon.base / "moved")
    site.root.symlink_to(elsewhere)
    for method, params in calls_on("a.txt"):
        refusal = site.agent.refusal(method, **params)
        assert refusal.kind == Kind.WORKSPACE_NOT_ALLOWED, method
        assert "a symbolic link is there now" in refusal.message
    hello = {"protocol": 1, "workspace": str(site.root), "session": "conv-1"}
    assert daemon.agent().refusal("hello", **hello).kind == Kind.WORKSPACE_NOT_ALLOWED
    daemon.restart()
    assert daemon.agent().refusal("hello", **hello).kind == Kind.WORKSPACE_NOT_ALLOWED
    assert (elsewhere / "a.txt").read_text() == "theirs\n"
    site.root.unlink()
    (daemon.base / "moved").rename(site.root)
    site.connect()
    site.replace("a.txt", "one", "two")
    assert len(site.log()) == 2


def calls_on(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("patch", {"path": path, "patches": APPEND}),
        ("read", {"path": path}),
        ("undo", {}),
    ]


def test_a_link_above_the_root_is_not_followed_either(daemon: DaemonProcess) -> None:
    (daemon.base / "above").mkdir()
    site = daemon.site("above/w")
    site.write("a.txt", "one\n")
    shutil.copytree(daemon.base / "above", daemon.base / "other")
    (daemon.base / "above").rename(daemon.base / "moved")
    (daemon.base / "above").symlink_to(daemon.base / "other")
    refusal = site.agent.refusal("patch", path="a.txt", patches=APPEND)
    assert refusal.kind == Kind.WORKSPACE_NOT_ALLOWED
    assert (daemon.base / "other/w/a.txt").read_text() == "one\n"
    assert (daemon.base / "moved/w/a.txt").read_text() == "one\n"


@pytest.mark.parametrize("moved", ["above", "above/w"])
def test_a_root_that_was_moved_and_left_a_link_can_be_allowed_where_it_is_now(
    daemon: DaemonProcess, moved: str
) -> None:
    """As when a project moves to a larger disk. Nobody goes on with the old root's history."""
    (daemon.base / "above").mkdir()
    site = daemon.site("above/w")
    site.overwrite("a.txt", "one\n")
    there = (daemon.base / moved).rename(daemon.base / "there")
    (daemon.base / moved).symlink_to(there)
    refusal = site.agent.refusal("patch", path="a.txt", patches=APPEND)
    assert refusal.kind == Kind.WORKSPACE_NOT_ALLOWED
    assert "a symbolic link is there now" in refusal.message
    real, person = os.path.realpath(site.root), daemon.control()
    assert person.call("workspace_allow", root=str(site.root))["root"] == real
    assert len(person.call("workspace_list")["workspaces"]) == 2
    assert person.call("workspace_forget", root=str(site.root))["root"] == str(site.root)
    assert [each["root"] for each in person.call("workspace_list")["workspaces"]] == [real]
    again = Site(daemon, site.root, "conv-1")  # through the link
    again.replace("a.txt", "one", "two")
    assert again.kinds() == ["edit", "outside"]


def test_a_deferred_root_where_a_link_is_now_can_be_forgotten(daemon: DaemonProcess) -> None:
    site = daemon.site("w")
    site.root.rename(daemon.base / "moved")
    site.root.symlink_to(daemon.base / "moved")
    daemon.restart()
    person = daemon.control()
    person.call("workspace_allow", root=str(daemon.base / "moved"))
    assert person.call("workspace_forget", root=str(site.root))["root"] == str(site.root)
    [left] = person.call("workspace_list")["workspaces"]
    assert left["root"] == str(daemon.base / "moved")


def test_a_directory_put_in_place_of_another_goes_on_with_its_history(
    daemon: DaemonProcess,
) -> None:
    """What was allowed is the place. What stands there otherwise is recorded as outside."""
    site = daemon.site("w")
    site.overwrite("a.txt", "one\n")
    moved = site.root.rename(daemon.base / "moved")
    site.root.mkdir()
    site.write("a.txt", "another\n")
    result = site.replace("a.txt", "another", "edited")
    assert site.person.call("show", commit=result["outside"])["kind"] == "outside"
    assert (moved / "a.txt").read_text() == "one\n"
    assert site.bytes_of("a.txt") == b"edited\n"
    assert site.fsck() == ""


def test_a_workspace_that_is_allowed_again_at_once_has_all_of_its_history(
    daemon: DaemonProcess,
) -> None:
    """Git gets an edit some time after its reply."""
    site = daemon.site("w")
    person = daemon.control()
    made: list[str] = []
    for text in ("one\n", "two\n", "three\n"):
        made.insert(0, site.overwrite("a.txt", text)["commit"])
        for method in ("workspace_forget", "workspace_allow"):
            person.send(method, root=str(site.root))
        _, allowed = (person.result_of(person.receive()) for _ in range(2))
        assert (allowed["head"], allowed["commits"]) == (made[0], len(made))
        site = Site(daemon, site.root, "conv-1")
        assert site.ids() == made
    assert person.call("verify", workspace=str(site.root))["problems"] == []


def test_while_the_root_is_gone_every_call_says_so_and_the_history_is_kept(
    daemon: DaemonProcess,
) -> None:
    site = daemon.site("w")
    commit = site.overwrite("a.txt", "one\n")["commit"]
    moved = site.root.rename(daemon.base / "moved")
    for method, params in [*calls_on("a.txt"), ("log", {}), ("diff", {})]:
        refusal = site.agent.refusal(method, **params)
        assert refusal.kind == Kind.WORKSPACE_NOT_ALLOWED, method
        assert "it goes on when the directory is back" in refusal.message
    [listed] = daemon.control().call("workspace_list")["workspaces"]
    assert (listed["head"], listed["commits"]) == (commit, 1)
    assert site.person.call("verify", workspace=str(site.root))["problems"] == []
    moved.rename(site.root)
    site.agent.call("undo")
    assert not (site.root / "a.txt").exists()


# -- one inside another


def test_an_inner_workspace_that_is_back_is_entered_again_though_the_outer_is_open(
    daemon: DaemonProcess,
) -> None:
    _, inner = nested(daemon, "outer")
    inner.write("a.txt", "one\n")
    inner.replace("a.txt", "one", "two")
    daemon.stop()
    aside = inner.root.rename(daemon.base / "aside")
    daemon.start()
    aside.rename(inner.root)
    hello = {"protocol": 1, "workspace": str(inner.root), "session": "conv-1"}
    assert daemon.agent().call("hello", **hello)["workspace"]["root"] == str(inner.root)
    inner.connect()
    inner.agent.call("undo")
    assert inner.bytes_of("a.txt") == b"one\n"


def test_a_root_with_a_name_that_is_no_utf_8_is_refused(daemon: DaemonProcess) -> None:
    os.mkdir(os.fsencode(daemon.base) + b"/\xff")
    (daemon.base / "odd").symlink_to(os.fsdecode(os.fsencode(daemon.base) + b"/\xff"))
    refusal = daemon.control().refusal("workspace_allow", root=str(daemon.base / "odd"))
    assert refusal.kind == Kind.INVALID_PARAMS
    assert "not valid UTF-8" in refusal.message
