"""Files that the history is not to keep: edited like others, and stored nowhere.

Two secrets: what stands in the file, and what an edit puts there. ``everything`` is all that the
state directory holds, down to the bytes that can be inflated anywhere in a pack.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import DaemonProcess, Gate, Site, eventually, running
from e2e.test_forget import everything
from stet.wire.failures import Kind

OLD = "hunter2-is-the-password"
NEW = "correct-horse-battery"
PATTERNS = '[".env", "*.PEM", "secrets/", "!public.pem"]'


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with running({"exclude": PATTERNS, "checkpoint_idle_s": 0.05, "grace_s": 0}) as daemon:
        yield daemon


@pytest.fixture
def site(daemon: DaemonProcess) -> Site:
    site = daemon.site("w")
    site.write(".env", f"key = {OLD}\nother = 1\n", mode=0o600)
    return site


def kept(site: Site) -> list[str]:
    """Which of the secrets the state holds anywhere."""
    found = everything(site)
    return [secret for secret in (OLD, NEW) if secret.encode() in found]


def edited(site: Site) -> dict[str, Any]:
    return site.replace(".env", OLD, NEW, request_id="r-1")


def test_a_late_write_to_a_file_that_is_excluded_by_then_is_not_committed() -> None:
    with running({"grace_s": 2, "checkpoint_idle_s": 0.05}) as daemon:
        site = daemon.site("w")
        file = site.write("notes.txt", "one\n")
        with file.open("r+b", buffering=0) as held:
            site.replace("notes.txt", "one", "two")
            held.seek(0, os.SEEK_END)
            held.write(OLD.encode())
        (daemon.base / "c.toml").write_text(
            'exclude = ["notes.txt"]\ngrace_s = 2\nnotify = false\n'
        )
        daemon.control().call("reload")
        assert eventually(lambda: len(site.log()) > 2)  # the late write was noticed
        assert eventually(lambda: not kept(site))


# -- an edit


def test_an_excluded_file_is_edited_listed_and_stored_nowhere(site: Site) -> None:
    result = edited(site)
    assert site.bytes_of(".env") == f"key = {NEW}\nother = 1\n".encode()
    assert (site.root / ".env").stat().st_mode & 0o777 == 0o600
    assert (result["diff"], result["outside"]) == ("", None)
    [file] = result["files"]
    assert (file["path"], file["status"], file["excluded"]) == (".env", "M", True)
    [warning] = result["warnings"]
    assert ".env is excluded from the history" in warning
    assert "can't be undone" in warning
    assert warning in result["message"]
    expected = {
        "path": ".env", "status": "M", "before": None, "after": None, "added": 0, "removed": 0,
        "excluded": True,
    }  # fmt: skip
    shown = site.person.call("show", commit=result["commit"])
    assert (shown["files"], shown["diff"]) == ([expected], "")
    [logged] = site.log(path=".env")
    assert (logged["commit"], logged["files"]) == (result["commit"], [expected])
    assert "\nStet-Excluded: M .env\n" in site.git("cat-file", "commit", result["commit"])
    assert site.log(text=NEW) == site.log(text=OLD) == []
    assert eventually(lambda: kept(site) == [])
    assert site.git("ls-tree", "-r", "--name-only", "history") == ""
    assert site.person.call("verify")["problems"] == []
    assert site.fsck() == ""
    site.restart()
    assert eventually(lambda: site.log(path=".env")[0]["files"] == [expected])


def test_patterns_are_a_gitignores_in_any_letter_case_also_behind_links(site: Site) -> None:
    for path in (".ENV", "deep/down/.Env", "certs/key.pem", "secrets/a", "Secrets/deep/b.txt"):
        assert site.overwrite(path, f"{NEW}\n")["files"][0]["excluded"] is True, path
    (site.root / "config").symlink_to(".env")
    result = site.replace("config", OLD, NEW)
    assert [file["path"] for file in result["files"]] == [".env"]
    assert eventually(lambda: kept(site) == [])
    shutil.rmtree(site.root / "secrets")
    for path in ("env", ".env.txt", "public.pem", "secrets"):
        assert "excluded" not in site.overwrite(path, f"{NEW}\n")["files"][0]
        assert site.git("show", f"history:{path}") == f"{NEW}\n"


def test_a_call_over_both_keeps_the_other_file(site: Site) -> None:
    site.write("a.txt", "one\n")
    patches = [{"operation": "replace", "oldText": OLD, "newText": NEW}]
    other = [{"operation": "replace", "oldText": "one", "newText": "two"}]
    result = site.agent.call(
        "transaction",
        calls=[
            {"method": "patch", "params": {"path": ".env", "patches": patches}},
            {"method": "patch", "params": {"path": "a.txt", "patches": other}},
        ],
    )
    assert "+two" in result["diff"]
    assert ".env" not in result["diff"]
    shown = site.person.call("show", commit=result["commit"])
    assert [(f["path"], f.get("excluded", False)) for f in shown["files"]] == [
        (".env", True),
        ("a.txt", False),
    ]
    assert [f["path"] for f in site.person.call("show", commit=result["outside"])["files"]] == [
        "a.txt"
    ]
    assert site.git("ls-tree", "-r", "--name-only", "history") == "a.txt\n"
    refusal = site.agent.refusal("undo")
    assert refusal.kind == Kind.CONFLICT
    assert site.bytes_of("a.txt") == b"two\n"


def test_creating_and_deleting_are_told_apart(site: Site) -> None:
    site.overwrite("secrets/new", f"{NEW}\n")
    deleted = site.agent.delete(".env")
    assert not (site.root / ".env").exists()
    assert deleted["files"][0]["status"] == "D"
    [newest, first] = site.log()
    assert [(f["path"], f["status"]) for f in newest["files"]] == [(".env", "D")]
    assert [(f["path"], f["status"]) for f in first["files"]] == [("secrets/new", "A")]
    assert eventually(lambda: kept(site) == [])


# -- replies


def test_a_retried_call_is_answered_without_what_the_file_says(site: Site) -> None:
    changes = [{"search": OLD, "replace": NEW}]
    params: dict[str, Any] = {"path": ".env", "changes": changes, "context": 1}
    first = site.agent.call("patch_file", **params, request_id="r-2")
    assert "other = 1" in first["message"]
    assert eventually(lambda: kept(site) == [])
    again = site.agent.call("patch_file", **params, request_id="r-2")
    assert (again["replayed"], again["commit"]) == (True, first["commit"])
    assert (again["files"], again["diff"]) == (first["files"], "")
    assert "other = 1" not in again["message"]
    assert ".env is excluded" in again["message"]


def test_a_preview_stores_nothing_either_and_if_match_takes_the_id_that_read_gives(
    site: Site,
) -> None:
    oid = site.agent.call("read", path=".env")["oid"]
    result = site.replace(".env", OLD, NEW, preview=True)
    assert (result["diff"], result["commit"]) == ("", None)
    assert kept(site) == []
    after = site.replace(".env", OLD, NEW, if_match=oid)["files"][0]["after"]
    assert site.agent.call("read", path=".env")["oid"] == after
    assert site.agent.refusal("patch", path=".env", patches=[], if_match=oid).kind == Kind.STALE


# -- taking back


def test_what_touched_an_excluded_file_is_not_taken_back(site: Site) -> None:
    first = site.overwrite("a.txt", "one\n")["commit"]
    commit = edited(site)["commit"]
    before = site.picture()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("undo", {}),
        ("undo", {"commits": [commit]}),
        ("undo", {"request": "r-1"}),
        ("undo", {"paths": [".env"]}),
        ("rollback", {"to": first}),
    ]
    for method, params in calls:
        refusal = site.agent.refusal(method, **params)
        assert refusal.kind == Kind.CONFLICT, method
        assert [each["path"] for each in refusal.data["conflicts"]] == [".env"]
        assert "excluded from the history" in refusal.message
    assert site.agent.refusal("restore", path=".env", at=first).kind == Kind.FILE_NOT_FOUND
    assert site.picture() == before
    site.agent.call("undo", commits=[first])
    assert not (site.root / "a.txt").exists()


# -- other ways into the history


def test_what_would_carry_the_content_to_a_kept_place_is_refused(site: Site) -> None:
    site.write("public.pem", "x\n")
    before = site.picture()
    cut = [{"operation": "replace", "oldText": OLD, "newText": "", "toClipboard": "c"}]
    copy = [{"operation": "replace", "oldText": OLD, "newText": OLD, "toClipboard": "c"}]
    changes = [{"search": OLD, "replace": NEW}]
    envelope = "*** Begin Patch\n*** Update File: .env\n*** Move to: plain\n"
    hunk = f"@@\n-key = {OLD}\n+key = {NEW}\n"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("patch", {"path": ".env", "patches": cut}),
        ("patch", {"path": ".env", "patches": copy}),
        ("patch_file", {"path": ".env", "changes": changes, "backup": True}),
        ("apply_patch", {"input": f"{envelope}*** End Patch"}),
        ("apply_patch", {"input": f"{envelope}{hunk}*** End Patch"}),
        (
            "transaction",
            {"calls": [{"method": "patch", "params": {"path": ".env", "patches": cut}}]},
        ),
    ]
    for method, params in calls:
        refusal = site.agent.refusal(method, **params)
        assert refusal.kind in (Kind.PATH_PROTECTED, Kind.NO_CHANGE), refusal
    assert site.picture() == before
    assert kept(site) == []


@pytest.mark.parametrize("taken", [True, False])
def test_nor_where_the_move_is_not_recorded_as_one(site: Site, taken: bool) -> None:
    site.write("there", "x\n")
    move = "*** Update File: .env\n*** Move to: there\n@@\n-other = 1\n"
    again = "*** Update File: .env\n*** Move to: plain\n@@\n-other = 1\n*** Add File: .env\n+x\n"
    lines = f"*** Delete File: there\n{move}" if taken else again
    refusal = site.agent.refusal("apply_patch", input=f"*** Begin Patch\n{lines}*** End Patch")
    assert refusal.kind == Kind.PATH_PROTECTED
    assert kept(site) == []


@pytest.mark.parametrize(("old", "new"), [(".env", "secrets/env"), ("a.txt", "b.txt")])
def test_a_file_may_be_moved_to_where_as_much_of_it_is_kept(site: Site, old: str, new: str) -> None:
    site.write("a.txt", "one\n")
    move = f"*** Begin Patch\n*** Update File: {old}\n*** Move to: {new}\n*** End Patch\n"
    content = site.bytes_of(old)
    site.agent.call("apply_patch", input=move)
    assert site.bytes_of(new) == content
    assert not (site.root / old).exists()
    assert eventually(lambda: kept(site) == [])


def test_a_move_to_an_excluded_name_keeps_what_was_there_before(site: Site) -> None:
    site.overwrite("plain", "text\n")
    moved = site.agent.move("plain", "secrets/held")
    assert site.bytes_of("secrets/held") == b"text\n"
    assert not (site.root / "plain").exists()
    shown = site.person.call("show", commit=moved["commit"])
    assert [(f["path"], f["status"]) for f in shown["files"]] == [
        ("plain", "D"),
        ("secrets/held", "A"),
    ]
    assert site.agent.refusal("undo").kind == Kind.CONFLICT
    assert site.person.call("verify")["problems"] == []


def test_a_snapshot_skips_it(site: Site) -> None:
    site.write("a.txt", "one\n")
    site.write("secrets/deep", f"{NEW}\n")
    result = site.person.call("snapshot")
    assert result["files"] == 1
    assert sorted(each["path"] for each in result["skipped"]) == [".env", "secrets/deep"]
    assert site.git("ls-tree", "-r", "--name-only", "history") == "a.txt\n"
    assert kept(site) == []


def test_a_snapshot_between_an_edit_and_a_power_cut_leaves_the_file(site: Site) -> None:
    """That a snapshot lacks the file does not mean that it was deleted."""
    edited(site)
    site.person.call("snapshot")
    site.crash(STET_BOOT_ID="another-boot")
    assert site.bytes_of(".env") == f"key = {NEW}\nother = 1\n".encode()


# -- a pattern that comes later, and one that goes


def configure(site: Site, patterns: str) -> None:
    site.daemon.stop()
    config = site.daemon.base / "c.toml"
    lines = [line for line in config.read_text().splitlines() if not line.startswith("exclude")]
    config.write_text("\n".join([*lines, f"exclude = {patterns}", ""]))
    site.daemon.start()
    site.connect()


def test_a_file_that_the_history_has_already_leaves_it_with_the_next_edit(site: Site) -> None:
    configure(site, "[]")
    first = site.replace(".env", "other = 1", "other = 2")["commit"]
    configure(site, PATTERNS)
    assert site.person.call("diff")["files"] == []
    site.write(".env", f"key = {NEW}\n")
    assert site.person.call("diff") == {"diff": "", "files": []}
    commit = site.replace(".env", "key", "name")["commit"]
    [file] = site.person.call("show", commit=commit)["files"]
    assert (file["path"], file["excluded"]) == (".env", True)
    assert site.git("ls-tree", "-r", "--name-only", "history") == ""
    assert site.person.call("read", path=".env", at=first)["text"].startswith(f"key = {OLD}")
    assert eventually(lambda: kept(site) == [OLD]), "what was kept before is for `forget`"
    site.person.call("forget", path=".env")
    assert kept(site) == []
    assert site.person.call("verify")["problems"] == []


def test_a_file_that_is_no_longer_excluded_is_kept_from_then_on(site: Site) -> None:
    edited(site)
    configure(site, '["x"]')
    result = site.replace(".env", "other = 1", "other = 2")
    assert site.person.call("show", commit=result["outside"])["message"] == "first seen: .env"
    site.agent.call("undo")
    assert site.bytes_of(".env") == f"key = {NEW}\nother = 1\n".encode()
    assert site.person.call("verify")["problems"] == []


def test_a_save_in_the_instant_of_replacing_is_put_back_and_stored_nowhere(
    daemon: DaemonProcess,
) -> None:
    """What is displaced is somebody's, excluded or not."""
    site = daemon.site("w")
    site.write(".env", f"key = {OLD}\n")
    gate = Gate(daemon.base, "publish.staged")
    daemon.restart(**gate.environment)
    site.connect()
    patches = [{"operation": "replace", "oldText": "key", "newText": "name"}]
    site.agent.send("patch", path=".env", patches=patches)
    gate.once_reached()
    site.write(".env", f"key = {NEW}\n")
    gate.open()
    result = site.agent.result_of(site.agent.receive())
    assert site.bytes_of(".env") == f"name = {NEW}\n".encode()
    assert result["outside"] is None
    assert eventually(lambda: kept(site) == [])
    assert site.kinds() == ["edit"]
    assert site.person.call("verify")["problems"] == []


def test_an_undo_gives_no_kept_name_back_to_what_an_excluded_file_says_by_now(site: Site) -> None:
    configure(site, "[]")
    site.overwrite("a.txt", "one\ntwo\nthree\n")
    moved = site.agent.move("a.txt", "secrets/a")["commit"]
    configure(site, PATTERNS)
    site.write("secrets/a", f"one\ntwo\nthree\n{NEW}\n")
    for method, params in (
        ("undo", {}),
        ("undo", {"preview": True}),
        ("rollback", {"to": f"{moved}~1"}),
    ):
        refusal = site.agent.refusal(method, **params)
        assert refusal.kind == Kind.CONFLICT
        assert "secrets/a: " in refusal.message
        assert "it can't become a.txt again" in refusal.message
    assert not (site.root / "a.txt").exists()
    assert NEW not in kept(site)
    site.write("secrets/a", "one\ntwo\nthree\n")
    site.agent.call("undo")
    assert site.bytes_of("a.txt") == b"one\ntwo\nthree\n"


def reloaded_at(gate: Gate, site: Site, patterns: str) -> None:
    """Other patterns hold from when the daemon has come to the gate."""
    gate.once_reached()
    (site.daemon.base / "c.toml").write_text(f"exclude = {patterns}\nnotify = false\n")
    site.person.call("reload")
    gate.open()


def test_an_undo_that_was_planned_before_a_file_was_excluded_is_planned_again(
    tmp_path: Path,
) -> None:
    gate = Gate(tmp_path, "historian.proposed")
    with running(**gate.environment) as daemon:
        site = daemon.site("w")
        site.overwrite("a.txt", "one\n")
        site.agent.move("a.txt", "secrets/a")
        site.write("secrets/a", f"one\ntwo\n{NEW}\n")
        site.agent.send("undo")
        reloaded_at(gate, site, PATTERNS)
        error = site.agent.receive().error
        assert error is not None
        assert "it can't become a.txt again" in error.message
        assert site.bytes_of("secrets/a") == f"one\ntwo\n{NEW}\n".encode()
        assert kept(site) == []


def test_a_snapshot_that_was_begun_before_a_file_was_excluded_has_it_not(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "snapshot.before_record")
    with running(**gate.environment) as daemon:
        site = daemon.site("w")
        site.write("a.txt", "one\n")
        site.write(".env", f"{NEW}\n")
        site.person.send("snapshot")
        snapshotting, site.person = site.person, site.greeted(daemon.control())
        reloaded_at(gate, site, PATTERNS)
        result = snapshotting.result_of(snapshotting.receive())
        assert [each["path"] for each in result["skipped"]] == [".env"]
        assert site.git("ls-tree", "-r", "--name-only", result["commit"]) == "a.txt\n"


def test_what_a_transaction_takes_back_itself_is_not_quoted_in_its_recorded_reply(
    site: Site,
) -> None:
    def change(old: str, new: str) -> dict[str, Any]:
        changes = [{"search": old, "replace": new}]
        return {"method": "patch_file", "params": {"path": ".env", "changes": changes}}

    calls = [change(OLD, NEW), change(NEW, OLD)]
    other = {"path": "a.txt", "patches": [{"operation": "overwrite", "newText": "one\n"}]}
    sent = {"calls": [*calls, {"method": "patch", "params": other}], "request_id": "r-1"}
    first = site.agent.call("transaction", **sent)
    assert [each["path"] for each in first["files"]] == ["a.txt"]
    assert OLD in first["message"]
    again = site.agent.call("transaction", **sent)
    assert (again["replayed"], again["commit"]) == (True, first["commit"])
    assert kept(site) == []
