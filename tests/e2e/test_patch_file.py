"""``patch_file`` through a real daemon: what its own parameters do to files and history."""

from __future__ import annotations

from typing import Any

from e2e.running_daemon import Site


def patch_file(site: Site, *changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return site.agent.call("patch_file", path="a.txt", changes=list(changes), **more)


def change(search: str, replace: str, **fields: Any) -> dict[str, Any]:
    return {"search": search, "replace": replace, **fields}


def test_a_dry_run_and_the_call_itself_are_two_requests(site: Site) -> None:
    """The dry run is no outcome: nothing is replayed for the real call with the same id."""
    site.write("a.txt", "one\n")
    tried = patch_file(site, change("one", "1"), dry_run=True, request_id="r1")
    assert (None, False) == (tried["commit"], tried.get("replayed", False))
    done = patch_file(site, change("one", "1"), request_id="r1")
    again = patch_file(site, change("one", "1"), request_id="r1")
    assert done["commit"] == again["commit"] is not None
    assert "patch_file a.txt: 1 edit" == site.log(limit=1)[0]["message"]
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
