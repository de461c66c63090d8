"""A path through a link that a call before it has removed: no other file than that is edited."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.running_daemon import Site
from e2e.test_transaction_of_dialects import Call, call, codex, move, patch, texts

OVERWRITE = {"operation": "overwrite", "newText": "mine\n"}
GOES = {"deleted": codex("*** Delete File: docs"), "moved": move("docs", "kept")}
THROUGH = {
    "patch": patch("docs/x.md", OVERWRITE),
    "apply_patch": codex("*** Add File: docs/new.md", "+mine"),
    "by two links": patch("also/x.md", OVERWRITE),
}


def with_links(site: Site) -> None:
    site.write("old/x.md", "theirs\n")
    (site.root / "docs").symlink_to("old")
    (site.root / "also").symlink_to("docs")


def pipelined(site: Site, *calls: Call) -> list[Any]:
    """Send calls so that they share a batch; their errors."""
    frames = [
        site.agent.frame(each["method"], 1000 + number, each["params"])
        for number, each in enumerate(calls)
    ]
    site.agent.send_bytes(b"".join(frames))
    return [site.agent.receive().error for _ in calls]


@pytest.mark.parametrize("goes", GOES)
@pytest.mark.parametrize("through", ["patch", "apply_patch"])
def test_calls_of_one_batch_are_as_one_after_the_other(site: Site, goes: str, through: str) -> None:
    with_links(site)
    assert [None, None] == pipelined(site, GOES[goes], THROUGH[through])
    assert "theirs\n" == (site.root / "old/x.md").read_text()
    assert not (site.root / "docs").is_symlink()
    assert "mine\n" in [file.read_text() for file in (site.root / "docs").iterdir()]


def test_a_file_gives_way_to_a_directory_within_a_batch(site: Site) -> None:
    site.write("docs", "theirs\n")
    assert [None, None] == pipelined(site, GOES["deleted"], THROUGH["patch"])
    assert {"docs/x.md": "mine\n"} == texts(site)


@pytest.mark.parametrize("goes", GOES)
def test_a_link_that_leads_outside_gives_way_to_a_directory(site: Site, goes: str) -> None:
    (site.root / "docs").symlink_to(site.root.parent)
    assert [None, None] == pipelined(site, GOES[goes], THROUGH["patch"])
    assert {"docs/x.md": "mine\n"} == texts(site)


def test_a_directory_that_a_call_before_makes_can_be_left_again(site: Site) -> None:
    calls = [patch(path, OVERWRITE) for path in ("new/x.md", "new/../y.md")]
    assert [None, None] == pipelined(site, *calls)
    assert {"new/x.md": "mine\n", "y.md": "mine\n"} == texts(site)


@pytest.mark.parametrize(("first", "second"), [("docs", "docs/x.md"), ("docs/x.md", "docs")])
def test_no_file_and_directory_of_one_name_in_a_batch(site: Site, first: str, second: str) -> None:
    calls = [patch(path, OVERWRITE) for path in (first, second, "other.txt")]
    one, refused, three = pipelined(site, *calls)
    assert (one, refused.data["kind"], three) == (None, "not_a_file", None)
    assert {first: "mine\n", "other.txt": "mine\n"} == texts(site)
    assert [["other.txt"], [first]] == [
        [change["path"] for change in each["files"]] for each in site.log()
    ]


@pytest.mark.parametrize("goes", GOES)
@pytest.mark.parametrize("through", THROUGH)
def test_a_transaction_says_what_to_send_instead(site: Site, goes: str, through: str) -> None:
    with_links(site)
    before = site.picture()
    refusal = site.agent.refusal("transaction", calls=[GOES[goes], THROUGH[through]])
    assert ("invalid_params", 1) == (refusal.kind, refusal.failures[0]["call"])
    assert "leads through the link docs" in refusal.message
    assert before == site.picture()


def test_a_transaction_knows_it_of_a_path_that_it_has_used_before(site: Site) -> None:
    with_links(site)
    before = site.picture()
    calls = [patch("docs/x.md", {**OVERWRITE, "newText": "once\n"}), GOES["deleted"]]
    assert (
        "invalid_params" == site.agent.refusal("transaction", calls=[*calls, THROUGH["patch"]]).kind
    )
    assert before == site.picture()
    site.agent.call("transaction", calls=calls)
    assert "once\n" == (site.root / "old/x.md").read_text()
    assert not (site.root / "docs").is_symlink()


@pytest.mark.parametrize("wanted", [["*** Delete File: docs"], GOES["moved"]["params"]["input"]])
def test_nor_does_one_patch_go_through_a_link_that_it_removes(site: Site, wanted: Any) -> None:
    with_links(site)
    before = site.picture()
    lines = wanted if isinstance(wanted, list) else wanted.split("\n")[1:-1]
    both = codex(*lines, "*** Add File: docs/new.md", "+mine")
    refusal = site.agent.refusal("apply_patch", **both["params"])
    assert "invalid_params" == refusal.kind
    assert "in two calls" in refusal.message
    assert before == site.picture()


def test_a_link_to_a_file_is_edited_through_and_removed_in_one_patch(site: Site) -> None:
    site.write("a.txt", "one\n")
    (site.root / "link").symlink_to("a.txt")
    both = codex("*** Update File: link", "@@", "-one", "+two", "*** Delete File: link")
    site.agent.call("apply_patch", **both["params"])
    assert {"a.txt": "two\n"} == texts(site)


def test_calls_beside_a_removed_link_share_its_batch(site: Site) -> None:
    with_links(site)
    other = call("patch", path="new.txt", patches=[OVERWRITE])
    assert [None] * 3 == pipelined(site, GOES["deleted"], other, patch("old/x.md", OVERWRITE))
    assert ("mine\n", "mine\n") == tuple(
        (site.root / p).read_text() for p in ("new.txt", "old/x.md")
    )
