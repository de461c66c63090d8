"""Pins: names for commits that work wherever a commit does, and survive whatever happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import Site


def fill(site: Site, count: int = 6) -> list[str]:
    return [site.overwrite("a.txt", f"{n}\n")["commit"] for n in range(count)]


def test_a_pin_works_wherever_a_commit_does(site: Site) -> None:
    edits = fill(site)
    pin = site.person.call("pin_set", name="good", commit=edits[2])
    assert (pin["name"], pin["commit"], pin["message"]) == (
        "good",
        edits[2],
        "patch a.txt: 1 edit",
    )
    assert site.agent.call("show", commit="good")["commit"] == edits[2]
    assert site.agent.call("show", commit="good~")["commit"] == edits[1]
    assert site.agent.call("show", commit="good~2")["commit"] == edits[0]
    assert site.agent.call("read", path="a.txt", at="good")["text"] == "2\n"
    assert "-2\n+5\n" in site.agent.call("diff", **{"from": "good", "to": "HEAD"})["diff"]
    site.person.call("restore", path="a.txt", at="good")
    assert site.bytes_of("a.txt") == b"2\n"
    site.person.call("undo")
    site.person.call("rollback", to="good")
    assert site.bytes_of("a.txt") == b"2\n"
    assert site.person.call("undo", commits=["good"], preview=True)["undone"] == [edits[2]]


def test_pins_are_listed_and_deleted(site: Site) -> None:
    edits = fill(site, 2)
    assert site.agent.call("pin_list") == {"pins": []}
    site.person.call("pin_set", name="second")
    site.person.call("pin_set", name="first", commit=edits[0][:8])
    pins = site.agent.call("pin_list")["pins"]
    assert [(pin["name"], pin["commit"]) for pin in pins] == [
        ("first", edits[0]),
        ("second", edits[1]),
    ]
    assert pins[0]["time"] == site.person.call("show", commit="first")["time"]
    assert site.person.call("pin_delete", name="first")["commit"] == edits[0]
    assert [pin["name"] for pin in site.agent.call("pin_list")["pins"]] == ["second"]
    assert site.agent.refusal("show", commit="first").kind == "unknown_commit"
    assert site.person.refusal("pin_delete", name="first").kind == "unknown_commit"
    assert site.fsck() == ""


def test_a_name_in_use_is_moved_only_if_that_is_said(site: Site) -> None:
    edits = fill(site, 3)
    site.person.call("pin_set", name="x", commit=edits[0])
    site.person.call("pin_set", name="x", commit=edits[0])
    refusal = site.person.refusal("pin_set", name="x", commit=edits[1])
    assert refusal.kind == "already_exists"
    assert edits[0] in refusal.message
    assert "move: true" in refusal.message
    assert site.agent.call("show", commit="x")["commit"] == edits[0]
    site.person.call("pin_set", name="x", commit="x~0", move=True)
    site.person.call("pin_set", name="x", commit=edits[1], move=True)
    assert site.agent.call("show", commit="x")["commit"] == edits[1]


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"name": "../../heads/history"}, "invalid_params"),
        ({"name": "HEAD"}, "invalid_params"),
        ({"name": "abcdef"}, "invalid_params"),
        ({"name": ""}, "invalid_params"),
        ({"name": "x" * 5000}, "invalid_params"),
        ({"name": 5}, "invalid_params"),
        ({}, "invalid_params"),
        ({"name": "x", "commit": "ffff"}, "unknown_commit"),
        ({"name": "x", "commit": "nonsense"}, "unknown_commit"),
        ({"name": "x", "commit": "HEAD~5"}, "unknown_commit"),
        ({"name": "x", "commit": "../../heads/history"}, "unknown_commit"),
        ({"name": "x", "extra": 1}, "invalid_params"),
    ],
)
def test_bad_parameters_are_refused_and_change_nothing(
    site: Site, params: dict[str, Any], kind: str
) -> None:
    fill(site, 1)
    before = site.git("for-each-ref")
    assert site.person.refusal("pin_set", **params).kind == kind
    assert site.git("for-each-ref") == before


def test_an_empty_history_has_nothing_to_pin(site: Site) -> None:
    assert site.person.refusal("pin_set", name="x").kind == "unknown_commit"


def test_a_damaged_pin_is_told_and_can_be_deleted_or_set_anew(site: Site) -> None:
    edits = fill(site, 2)
    for name in ("x", "y"):
        site.person.call("pin_set", name=name, commit=edits[0])
        Path(site.shadow, "refs/pins", name).write_bytes(b"")
    refusal = site.agent.refusal("show", commit="x")
    assert (refusal.kind, "refs/pins/x" in refusal.message) == ("io_error", True)
    assert [pin["commit"] for pin in site.agent.call("pin_list")["pins"]] == [None, None]
    assert [p["kind"] for p in site.person.call("verify")["problems"]] == ["pin", "pin"]
    assert site.person.refusal("pin_set", name="x", commit=edits[1]).kind == "already_exists"
    site.person.call("pin_set", name="x", commit=edits[1], move=True)
    site.person.call("pin_delete", name="y")
    assert site.person.call("verify")["problems"] == []


def test_a_pin_of_something_else_is_told_by_verify(site: Site) -> None:
    fill(site, 2)
    blob = site.git("rev-parse", "history:a.txt").strip()
    site.git("update-ref", "refs/pins/blob", blob)
    [pin] = site.agent.call("pin_list")["pins"]
    assert (pin["commit"], pin["time"]) == (blob, None)
    assert [p["kind"] for p in site.person.call("verify")["problems"]] == ["pin"]
    site.person.call("pin_delete", name="blob")
