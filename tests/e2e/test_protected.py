"""Files that agents may not change, or not unnoticed; repositories made of several files; names
that differ in letter case only.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.running_daemon import DaemonProcess, Site, envelope, faultless, files_below

TASKS = ".vscode/tasks.json"


def add(*paths: str) -> dict[str, str]:
    lines = [line for path in paths for line in (f"*** Add File: {path}", "+x")]
    return {"input": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


def writing_calls(path: str) -> list[tuple[str, dict[str, Any]]]:
    """One call of each method that would change the file."""
    patches = [{"operation": "overwrite", "newText": "new\n"}]
    block = f"===SKIPPY_PATCH_START:{path}===\n===FIND===\nold\n===REPLACE===\nnew\n"
    update = f"*** Update File: {path}\n@@\n-old\n+new\n"
    away = f"*** Update File: {path}\n*** Move to: away.txt\n@@\n-old\n+new\n"
    begin, end = "*** Begin Patch\n", "*** End Patch"
    return [
        ("patch", {"path": path, "patches": patches}),
        ("patch", {"path": path, "patches": patches, "preview": True}),
        ("patch_file", {"path": path, "changes": [{"search": "old", "replace": "new"}]}),
        ("patch_block", {"text": block + "===SKIPPY_PATCH_END==="}),
        ("apply_patch", {"input": begin + update + end}),
        ("apply_patch", {"input": f"{begin}*** Delete File: {path}\n{end}"}),
        ("apply_patch", {"input": begin + away + end}),
        (
            "transaction",
            {"calls": [{"method": "patch", "params": {"path": path, "patches": patches}}]},
        ),
    ]


@pytest.fixture(scope="module")
def flagging_daemon() -> Iterator[DaemonProcess]:
    settings = {"protected": '[".envrc", "!sub/.envrc", "/scripts/"]', "protected_action": '"flag"'}
    with faultless(settings) as daemon:
        yield daemon


# -- refused, which is the default


@pytest.mark.parametrize("path", [TASKS, "sub/.VSCODE/Tasks.json", ".mcp.json", ".envrc"])
def test_no_method_changes_a_protected_file(site: Site, path: str) -> None:
    site.write(path, "old\n")
    site.write("ordinary.txt", "ordinary\n")
    before, log = files_below(site.root), site.log()
    for method, params in writing_calls(path):
        refusal = site.agent.refusal(method, **params)
        assert refusal.kind == "path_protected"
        assert f"{path}: this file is protected, because programs run what it says" in (
            refusal.message
        )
    assert (files_below(site.root), site.log()) == (before, log)
    assert site.agent.call("read", path=path)["text"] == "old\n"


def test_no_transaction_gives_a_protected_file_other_permission_bits(site: Site) -> None:
    site.write(".envrc", "old\n", mode=0o600)
    again = [{"operation": "overwrite", "newText": "old\n"}]
    calls = [
        {"method": "apply_patch", "params": {"input": envelope("*** Delete File: .envrc")}},
        {"method": "patch", "params": {"path": ".envrc", "patches": again}},
    ]
    assert site.agent.refusal("transaction", calls=calls).kind == "path_protected"
    assert (site.root / ".envrc").stat().st_mode & 0o777 == 0o600


def test_a_protected_file_that_is_moved_away_and_back_is_as_it_was(site: Site) -> None:
    site.write(".envrc", "old\n", mode=0o600)
    away = "*** Update File: .envrc\n*** Move to: away.txt"
    back = "*** Update File: away.txt\n*** Move to: .envrc"
    sent = [envelope(each) for each in (away, back, "*** Add File: a.txt\n+x")]
    calls = [{"method": "apply_patch", "params": {"input": each}} for each in sent]
    result = site.agent.call("transaction", calls=calls)
    assert ["a.txt"] == [each["path"] for each in result["files"]]
    assert (site.root / ".envrc").stat().st_mode & 0o777 == 0o600


def test_no_file_becomes_a_protected_one(site: Site) -> None:
    site.write("ordinary.txt", "ordinary\n")
    move = f"*** Update File: ordinary.txt\n*** Move to: {TASKS}\n@@\n-ordinary\n+new\n"
    for params in (add(TASKS), {"input": f"*** Begin Patch\n{move}*** End Patch"}):
        assert site.agent.refusal("apply_patch", **params).kind == "path_protected"
    assert sorted(files_below(site.root)) == [".", "ordinary.txt"]


def test_a_protected_file_is_not_reached_through_a_link(site: Site) -> None:
    site.write(TASKS, "old\n")
    (site.root / "settings").symlink_to(".vscode")
    (site.root / "plain.json").symlink_to(TASKS)
    for path in ("settings/tasks.json", "plain.json"):
        patches = [{"operation": "overwrite", "newText": "new\n"}]
        assert site.agent.refusal("patch", path=path, patches=patches).kind == "path_protected"
    assert site.bytes_of(TASKS) == b"old\n"


def test_no_link_becomes_the_directory_of_a_protected_file(site: Site) -> None:
    """Else a file below what it leads to, which has another name there, would be one."""
    site.write("other/ordinary.txt", "ordinary\n")
    (site.root / "link").symlink_to("other")
    (site.root / "sub").mkdir()
    for name in (".vscode", "sub/.VSCODE"):
        move = envelope("*** Update File: link", f"*** Move to: {name}")
        assert site.agent.refusal("apply_patch", input=move).kind == "path_protected"
    site.agent.move("link", "sub/link")
    assert os.readlink(site.root / "sub/link") == "other"


def test_one_protected_file_keeps_the_whole_call_from_happening(site: Site) -> None:
    refusal = site.agent.refusal("apply_patch", **add("fine.txt", ".envrc", ".mcp.json"))
    assert [each["path"] for each in refusal.failures] == [".envrc", ".mcp.json"]
    assert list(site.root.iterdir()) == []


def test_the_person_changes_takes_back_and_restores_a_protected_file(site: Site) -> None:
    site.write(".envrc", "old\n")
    # On control.sock the person acts; a session lets the history tell who did.
    person = site.greeted(site.daemon.control(), session="person")
    first = person.overwrite(".envrc", "one\n")
    assert "flagged in the history" in first["warnings"][0]
    person.overwrite(".envrc", "two\n")
    undone = person.call("undo")
    assert site.bytes_of(".envrc") == b"one\n"
    assert "flagged in the history" in undone["message"]
    person.call("redo")
    person.call("restore", path=".envrc", at=first["outside"])
    assert site.bytes_of(".envrc") == b"old\n"
    person.call("rollback", to=first["outside"])
    flagged = site.git("log", "--format=%(trailers:key=Stet-Flagged,valueonly)", "history").split()
    assert flagged == [".envrc"] * 5  # the rollback found nothing to change


def test_an_agent_does_not_take_back_what_is_protected_by_now(own_daemon: DaemonProcess) -> None:
    own_daemon.stop()
    config = own_daemon.base / "c.toml"
    kept = config.read_text()
    config.write_text(kept + 'protected_action = "allow"\n')
    own_daemon.start()
    site = own_daemon.site("w")
    site.overwrite(".envrc", "made by an agent\n")
    assert "Stet-Flagged" not in site.git("log", "history")
    config.write_text(kept)
    site.restart()
    assert site.agent.refusal("undo").kind == "path_protected"
    site.person.call("undo")
    assert not (site.root / ".envrc").exists()


# -- flagged


def test_a_flagged_edit_is_made_told_and_in_the_history(flagging_daemon: DaemonProcess) -> None:
    site = flagging_daemon.site("flagged")
    result = site.overwrite(".ENVRC", "new\n")
    told = (
        ".ENVRC is protected, because programs run what it says: the change is made, and flagged "
        "in the history for the person to look at."
    )
    assert result["warnings"] == [told]
    assert result["message"] == f"<patches_applied>all</patches_applied>\nWarning: {told}"
    site.overwrite("sub/.envrc", "taken back by the second pattern\n")
    site.agent.call("apply_patch", **add("ordinary.txt", "scripts/build.sh"))
    site.agent.call("undo")
    flagged = site.git("log", "--format=%s|%(trailers:key=Stet-Flagged,valueonly,separator=%x2C)")
    lines = [line.rpartition("|")[2] for line in flagged.splitlines() if line]
    assert lines[:4] == ["scripts/build.sh", "scripts/build.sh", "", ".ENVRC"]
    assert site.person.call("verify")["ok"]


def test_flags_survive_a_kill(own_daemon: DaemonProcess) -> None:
    with (own_daemon.base / "c.toml").open("a") as config:
        config.write('protected_action = "flag"\n')
    own_daemon.stop()
    own_daemon.start()
    site = own_daemon.site("w")
    commit = site.overwrite(".envrc", "new\n")["commit"]
    own_daemon.kill()
    own_daemon.start()
    site.connect()
    assert site.git("log", "-1", "--format=%H", "--grep=^Stet-Flagged: .envrc").strip() == commit


# -- repositories


@pytest.mark.parametrize("how", ["one call", "transaction", "pipelined"])
@pytest.mark.parametrize("below", ["/x", ""])  # for Git, executable files are as good
def test_no_calls_make_a_directory_a_repository(site: Site, how: str, below: str) -> None:
    paths = ["made/HEAD", f"made/objects{below}", f"made/refs{below}"]
    if how == "one call":
        assert site.agent.refusal("apply_patch", **add(*paths)).kind == "path_protected"
        assert not (site.root / "made").exists()
        return
    if how == "transaction":
        calls = [{"method": "apply_patch", "params": add(path)} for path in paths]
        assert site.agent.refusal("transaction", calls=calls).kind == "path_protected"
        assert not (site.root / "made").exists()
        return
    for path in paths:
        site.agent.send("apply_patch", **add(path))
    replies = [site.agent.receive() for _ in paths]
    errors = [each.error.data["kind"] for each in replies if each.error is not None]
    assert errors == ["path_protected"]
    assert not (site.root / "made" / "refs").exists()


def test_git_agrees_on_what_a_repository_is(site: Site) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(site.root / "sub" / "bare")], check=True)
    assert site.agent.refusal("read", path="sub/bare/config").kind == "path_protected"
    refusal = site.agent.refusal("apply_patch", **add("sub/bare/hooks/post-update"))
    assert "sub/bare holds HEAD, objects and refs" in refusal.message
    assert site.agent.call("apply_patch", **add("sub/beside.txt"))["commit"]


# -- names that differ in letter case only


def test_two_spellings_of_a_new_file_are_refused_and_of_old_files_edited(site: Site) -> None:
    refusal = site.agent.refusal("apply_patch", **add("A.txt", "a.txt"))
    assert (refusal.kind, list(site.root.iterdir())) == ("invalid_params", [])
    assert "one call can't make both A.txt and a.txt" in refusal.message
    for path in ("A.txt", "a.txt"):
        site.agent.call("apply_patch", **add(path))
    delete = "*** Begin Patch\n*** Delete File: A.txt\n*** Delete File: a.txt\n*** End Patch"
    site.agent.call("apply_patch", input=delete)
    site.agent.call("undo")
    assert sorted(path.name for path in site.root.iterdir()) == ["A.txt", "a.txt"]


def test_letter_case_of_a_name_is_changed_where_it_counts(site: Site) -> None:
    site.write("a.txt", "old\n")
    move = "*** Update File: a.txt\n*** Move to: A.txt\n@@\n-old\n+new\n"
    site.agent.call("apply_patch", input=f"*** Begin Patch\n{move}*** End Patch")
    assert files_below(site.root)["A.txt"][2] == b"new\n"
    assert not (site.root / "a.txt").exists()


def test_two_names_of_one_file_that_differ_in_letter_case_are_refused(site: Site) -> None:
    """A hard link stands in for a file system that folds case: both names lead to one inode."""
    site.write("a.txt", "old\n")
    (site.root / "A.txt").hardlink_to(site.root / "a.txt")
    patches = [{"operation": "overwrite", "newText": "new\n"}]
    calls = [
        {"method": "patch", "params": {"path": p, "patches": patches}} for p in ("a.txt", "A.txt")
    ]
    refusal = site.agent.refusal("transaction", calls=calls)
    assert refusal.kind == "invalid_params"
    assert "A.txt" in refusal.message
    assert "are one file on this file system" in refusal.message
    assert site.bytes_of("a.txt") == b"old\n"
