"""What stood there before a shell command and was not looked at is never taken for its work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.forking import ForkServer
from e2e.running_daemon import DaemonProcess, Site, files_below, running
from hooks.test_observe import after, before, told, whole
from rigs.forked_daemon import ForkedDaemon
from stetd.observing.current_content import ScanResult

Step = Callable[[Site], Any]
FEW = {"max_call_files": 2, "max_file_bytes": 5000}


def _ignored(site: Site) -> None:
    site.write(".gitignore", "*.env\nbuild/\n")
    site.write("a.env", "the person's\n")
    site.write("build/out.bin", "the person's\n")


def _patched_by_another(site: Site) -> None:
    site.another("conv-2").overwrite(".gitignore", "")


def _told_by_another(site: Site) -> None:
    other = site.another("conv-2")
    told = {"tool": "Edit", "use": "u1", "paths": [".gitignore"]}
    other.call("observe", phase="before", **told)
    site.write(".gitignore", "")
    other.call("observe", phase="after", **told)


def _taken_back(site: Site) -> None:
    site.write(".gitignore", "*.log\n")
    site.write("sub/kept.log", "the person's\n")


def _own_rules(site: Site) -> None:
    site.write("cache/.gitignore", "*\n")
    site.write("cache/deep/kept", "the person's\n")


def _private_rules(site: Site) -> None:
    site.write(".gitignore", ".gitignore\n*.env\n")
    site.write("a.env", "the person's\n")


def _bare(site: Site) -> None:
    for name in ("HEAD", "objects/one", "refs/heads/main", "config"):
        site.write(f"sub/bare/{name}", "the person's\n")


def _link_of_rules(site: Site) -> None:
    (site.root / ".gitignore").symlink_to("elsewhere")


def _ignored_by_many_rules(site: Site) -> None:
    site.write(".gitignore", "*.env\nbuild/\n" * 9_999)
    site.write("a.env", "the person's\n")


def _made_a_file(site: Site) -> None:
    (site.root / ".gitignore").unlink()
    site.write(".gitignore", "by the command\n")


WAYS: dict[str, tuple[Step, Step]] = {
    "emptied": (_ignored, lambda site: site.write(".gitignore", "")),
    "deleted": (_ignored, lambda site: (site.root / ".gitignore").unlink()),
    "patched by another": (_ignored, _patched_by_another),
    "told by another": (_ignored, _told_by_another),
    "taken back": (_taken_back, lambda site: site.write("sub/.gitignore", "!*.log\n")),
    "own rules": (_own_rules, lambda site: (site.root / "cache/.gitignore").unlink()),
    "private rules": (_private_rules, lambda site: site.write(".gitignore", ".gitignore\n")),
    "rules too large": (
        _ignored,
        lambda site: site.write(".gitignore", "*.env\nbuild/\n" * 99_999),
    ),
    "rules were too large": (
        _ignored_by_many_rules,
        lambda site: site.write(".gitignore", ""),
    ),
    "a repository": (_bare, lambda site: (site.root / "sub/bare/HEAD").unlink()),
    "a link to it": (_ignored, lambda site: (site.root / "link").symlink_to("a.env")),
    "a link that became a file": (_link_of_rules, _made_a_file),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_was_left_out_and_is_seen_now_was_not_made_by_the_command(
    site: Site, way: str
) -> None:
    stand, act = WAYS[way]
    stand(site)
    stood = {path for path in site.root.rglob("*") if not path.is_dir()}
    assert before(site, "t1")["complete"] is True
    act(site)
    site.write("made.txt", "by the command\n")
    done = after(site, "t1")
    claimed = {site.root / file["path"] for file in done["files"] if file["status"] == "A"}
    assert claimed & stood == set()
    there = {path for path in stood if os.path.lexists(path)}
    if done["commit"] is not None:  # of rules that nobody has kept nothing below is known
        site.agent.call("undo")
    assert {path for path in there if not os.path.lexists(path)} == set()
    whole(site)


@pytest.mark.parametrize("way", ["emptied", "a repository", "a link to it"])
def test_what_the_command_made_beside_it_is_the_commands(site: Site, way: str) -> None:
    stand, act = WAYS[way]
    stand(site)
    before(site, "t1")
    act(site)
    site.write("made.txt", "by the command\n")
    site.write("new/made.txt", "by the command\n")
    made = [file["path"] for file in after(site, "t1")["files"] if file["status"] == "A"]
    assert [path for path in made if path.endswith("made.txt")] == ["made.txt", "new/made.txt"]


def test_rules_that_nobody_has_changed_leave_nothing_unclear(site: Site) -> None:
    _private_rules(site)
    _own_rules(site)
    before(site, "t1")
    site.write("sub/made.txt", "by the command\n")
    done = after(site, "t1")
    assert [(f["status"], f["path"]) for f in done["files"]] == [("A", "sub/made.txt")]
    assert done["warnings"] == []


def test_what_editors_keep_while_a_person_types_is_not_the_commands(site: Site) -> None:
    there = ["sub/.a.txt.swp", ".swo", "#b.txt#"]
    for path in there:
        site.write(path, "typed\n")
    before(site, "t1")
    for path in there[:2]:
        site.write(path, "typed more\n")
    (site.root / "#b.txt#").unlink()
    site.write("sub/#c.txt#", "typed\n")
    (site.root / ".#b.txt").symlink_to("me@host.1234:99")
    for path in ("made.txt", "a.swp", "sub/#d"):
        site.write(path, "by the command\n")
    done = after(site, "t1")
    assert [file["path"] for file in done["files"]] == ["a.swp", "made.txt", "sub/#d"]
    assert done["warnings"] == []
    site.write("sub/.a.txt.swp", "typed still more\n")
    site.person.call("undo", commits=[done["commit"]])
    assert sorted(path for path in files_below(site.root) if path not in (".", "sub")) == [
        ".#b.txt", ".swo", "sub/#c.txt#", "sub/.a.txt.swp",
    ]  # fmt: skip


def test_what_an_editor_keeps_is_not_the_commands_where_it_is_named_afterwards(site: Site) -> None:
    site.write(".a.txt.swp", "typed\n")
    before(site, "t1")
    site.write("#made#", "by the command\n")
    done = after(site, "t1", ".a.txt.swp", "#made#")
    assert [file["path"] for file in done["files"]] == ["#made#"]
    assert [whose for whose, *_ in told(site, path=".a.txt.swp")] == ["outside"]


def test_an_ignored_file_that_is_named_afterwards_is_not_the_commands(site: Site) -> None:
    _ignored(site)
    before(site, "t1")
    done = after(site, "t1", "a.env", "build/out.bin")
    assert (done["commit"], done["files"]) == (None, [])


@pytest.fixture
def powerless() -> Iterator[Site]:
    """A workspace of a daemon that permissions hold for, whoever runs the tests."""
    with ForkServer() as forks:
        daemon = ForkedDaemon(forks)
        daemon.tricks = {"powerless": True}
        daemon.start()
        try:
            yield daemon.site("w")
        finally:
            daemon.close()


def test_what_is_in_a_directory_that_could_not_be_read_is_not_the_commands(powerless: Site) -> None:
    site = powerless
    site.write("shut/deep/kept", "the person's\n")
    (site.root / "shut").chmod(0)
    try:
        before(site, "t1")
    finally:
        (site.root / "shut").chmod(0o755)
    site.write("made.txt", "by the command\n")
    assert [file["path"] for file in after(site, "t1")["files"]] == ["made.txt"]


def test_files_beyond_what_one_call_takes_are_not_the_commands(few_files: DaemonProcess) -> None:
    site = few_files.site("w")
    for n in range(5):
        site.write(f"{n}.txt", "the person's\n")
    before(site, "t1")
    done = after(site, "t1")
    assert (done["commit"], done["files"]) == (None, [])


def test_what_was_excluded_then_is_not_the_commands(few_files: DaemonProcess) -> None:
    site = few_files.site("v")
    site.write("a.secret", "the person's\n")
    _configure(few_files, 'exclude = ["*.secret"]\n')
    before(site, "t1")
    _configure(few_files, "exclude = []\n")
    done = after(site, "t1")
    assert (done["commit"], done["files"]) == (None, [])


def test_a_file_that_was_too_large_is_not_the_commands(few_files: DaemonProcess) -> None:
    site = few_files.site("u")
    site.write("large.txt", "the person's\n" * 1000)
    before(site, "t1")
    os.truncate(site.root / "large.txt", 3)
    done = after(site, "t1")
    assert (done["commit"], done["files"]) == (None, [])


def test_what_a_person_wrote_into_a_file_that_was_passed_over_is_not_the_commands(
    few_files: DaemonProcess,
) -> None:
    site = few_files.site("y")
    site.write("a.txt", "in the history\n")
    before(site, "t1")
    site.write("a.txt", "by a person, and too large\n" * 1000)
    before(site, "t2")
    os.truncate(site.root / "a.txt", 27)
    done = after(site, "t2")
    assert (done["commit"], done["files"]) == (None, [])
    assert "a.txt" in done["warnings"][0]
    before(site, "t3")
    assert told(site)[1:] == [("outside", None, ["M a.txt"])]


def test_a_file_that_another_has_deleted_meanwhile_was_there(site: Site) -> None:
    file = site.write("a.txt", "the person's\n")
    before(site, "t1")
    other = site.another("conv-2")
    told_of = {"tool": "Delete", "use": "u1", "paths": ["a.txt"]}
    other.call("observe", phase="before", **told_of)
    file.unlink()
    other.call("observe", phase="after", **told_of)
    file.write_text("the person's\n")
    done = after(site, "t1")
    assert (done["commit"], done["files"]) == (None, [])


def test_more_than_is_noted_is_no_look_at_everything() -> None:
    found = ScanResult()
    found.add_skipped([f"{n}" for n in range(1000)])
    assert (found.why, len(found.passed)) == ("", 1000)
    found.add_skipped(["one more", "and another"])
    assert (found.why != "", len(found.passed)) == (True, 1001)


@pytest.fixture(scope="module")
def few_files() -> Iterator[DaemonProcess]:
    """A daemon that takes two files a call, and only small ones."""
    with running(FEW) as daemon:
        yield daemon


def _configure(daemon: DaemonProcess, exclude: str) -> None:
    lines = [f"{name} = {value}\n" for name, value in FEW.items()]
    (daemon.base / "c.toml").write_text("".join([*lines, exclude, "notify = false\n"]))
    told = daemon.control().call("reload")
    assert (told["error"], told["restart"]) == (None, [])


def test_a_session_in_a_directory_below_sees_the_whole_workspace(site: Site) -> None:
    site.write("sub/a.txt", "the person's\n")
    below = site.daemon.agent()
    below.call("hello", protocol=1, workspace=str(site.root / "sub"), agent="t", session="conv-9")
    below.call("observe", phase="before", use="t1")
    site.write("sub/a.txt", "by the command\n")
    site.write("b.txt", "by the command\n")
    done = below.call("observe", phase="after", use="t1")
    assert [(f["status"], f["path"]) for f in done["files"]] == [("A", "b.txt"), ("M", "sub/a.txt")]


def test_a_file_of_the_history_that_is_excluded_by_now_is_passed_over_in_silence(
    few_files: DaemonProcess,
) -> None:
    site = few_files.site("x")
    site.write("a.secret", "in the history\n")
    before(site, "t1")
    _configure(few_files, 'exclude = ["*.secret"]\n')
    assert before(site, "t2")["warnings"] == []
    assert after(site, "t2")["warnings"] == []
    _configure(few_files, "")
