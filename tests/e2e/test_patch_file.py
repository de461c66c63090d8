"""``patch_file`` through a real daemon: what its own parameters do to files and history."""

from __future__ import annotations

import stat
import time
from typing import Any

from e2e.running_daemon import Site
from stetd.editing.patch_file.regex_search import SECONDS

RUNAWAY = {"search": "(?:a|a)*$", "replace": "x", "regex": True}


def patch_file(site: Site, *changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return site.agent.call("patch_file", path="a.txt", changes=list(changes), **more)


def change(search: str, replace: str, **fields: Any) -> dict[str, Any]:
    return {"search": search, "replace": replace, **fields}


def test_a_call_is_one_commit_and_can_be_taken_back(site: Site) -> None:
    site.write("a.txt", "one\ntwo\n")
    result = patch_file(site, change("one", "1"), change("two", "2"), message="numbers")
    assert b"1\n2\n" == site.bytes_of("a.txt")
    newest = site.log()[0]
    assert ("patch_file", result["commit"]) == (newest["method"], newest["commit"])
    assert "patch_file a.txt: 2 edits" in site.git("log", "-1", "--format=%s", "history")
    site.agent.call("undo")
    assert b"one\ntwo\n" == site.bytes_of("a.txt")


def test_a_dry_run_makes_no_commit_and_gives_the_diff(site: Site) -> None:
    site.write("a.txt", "one\ntwo\n")
    before = site.picture()
    result = patch_file(site, change("one", "1"), dry_run=True, backup=True)
    assert result["commit"] is None
    assert "-one\n+1\n" in result["diff"]
    assert "+++ b/a.txt.bak" in result["diff"]
    assert before == site.picture()


def test_a_dry_run_and_the_call_itself_are_two_requests(site: Site) -> None:
    """The dry run is no outcome: nothing is replayed for the real call with the same id."""
    site.write("a.txt", "one\n")
    tried = patch_file(site, change("one", "1"), dry_run=True, request_id="r1")
    assert (None, False) == (tried["commit"], tried.get("replayed", False))
    done = patch_file(site, change("one", "1"), request_id="r1")
    again = patch_file(site, change("one", "1"), request_id="r1")
    assert done["commit"] == again["commit"] is not None
    assert again["replayed"]
    assert b"1\n" == site.bytes_of("a.txt")


def test_a_transaction_can_not_hold_a_dry_run(site: Site) -> None:
    site.write("a.txt", "one\n")
    params = {"path": "a.txt", "changes": [change("one", "1")], "dry_run": True}
    calls = [{"method": "patch_file", "params": params}]
    refusal = site.agent.refusal("transaction", calls=calls)
    assert "invalid_params" == refusal.kind
    assert "leave dry_run out" in refusal.message
    result = site.agent.call("transaction", calls=calls, preview=True)
    assert result["commit"] is None
    assert b"one\n" == site.bytes_of("a.txt")


def test_a_backup_is_part_of_the_call_with_the_permissions_of_the_file(site: Site) -> None:
    site.write("a.txt", "one\n", mode=0o600)
    result = patch_file(site, change("one", "1"), backup=True)
    assert [("a.txt", "M"), ("a.txt.bak", "A")] == [
        (file["path"], file["status"]) for file in result["files"]
    ]
    backup = site.root / "a.txt.bak"
    assert (b"one\n", 0o600) == (backup.read_bytes(), stat.S_IMODE(backup.stat().st_mode))
    site.agent.call("undo")
    assert b"one\n" == site.bytes_of("a.txt")
    assert not backup.exists()
    assert "" == site.fsck()


def test_backups_of_one_transaction_are_numbered(site: Site) -> None:
    site.write("a.txt", "one\n")
    params = [
        {"path": "a.txt", "changes": [change("one", "two")], "backup": True},
        {"path": "a.txt", "changes": [change("two", "three")], "backup": True},
    ]
    calls = [{"method": "patch_file", "params": each} for each in params]
    site.agent.call("transaction", calls=calls)
    contents = [site.bytes_of(name) for name in ("a.txt", "a.txt.bak", "a.txt.bak.1")]
    assert [b"three\n", b"one\n", b"two\n"] == contents


def test_a_backup_in_a_session_below_the_root_is_beside_the_file(site: Site) -> None:
    site.write("sub/a.txt", "one\n")
    below = site.another("below", workspace=str(site.root / "sub"))
    below.call("patch_file", path="a.txt", changes=[change("one", "1")], backup=True)
    assert b"one\n" == site.bytes_of("sub/a.txt.bak")


def test_the_daemon_answers_while_a_pattern_runs_away(site: Site) -> None:
    """The search lets go of the interpreter: what needs no writer is answered meanwhile."""
    site.write("a.txt", "a" * 60 + "!\n")
    other = site.another("other")
    site.agent.send("patch_file", path="a.txt", changes=[RUNAWAY])
    longest, first = 0.0, time.monotonic()
    while time.monotonic() - first < SECONDS / 2:
        began = time.monotonic()
        other.call("tools")
        longest = max(longest, time.monotonic() - began)
    assert longest < SECONDS / 2
    reply = site.agent.receive()
    assert reply.error is not None
    assert "The pattern runs away" in reply.error.message
    assert b"a" * 60 + b"!\n" == site.bytes_of("a.txt")
