"""log, show, diff and undo answer the same with the index, without it, and while it is damaged."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.indexes import indexed
from e2e.running_daemon import DaemonProcess, Refusal, Site
from stetd.historian.index.history_index import HistoryIndex

#: Filters, and the subjects (shortened) that they let through, newest first.
FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["undo", "e", "out", "d", "c", "b", "a", "seen"]),
    ({"session": "conv-2"}, ["c"]),
    ({"agent": "ann"}, ["c"]),
    ({"agent": "nobody"}, []),
    ({"kind": "undo"}, ["undo"]),
    ({"kind": "outside"}, ["out", "seen"]),
    ({"method": "apply_patch"}, ["d"]),
    ({"path": "src"}, ["undo", "e", "out", "d", "b", "a", "seen"]),
    ({"path": "src/moved.py"}, ["undo", "e", "out", "d"]),
    ({"path": "src/a.py"}, ["d", "b", "a", "seen"]),
    ({"path": "src/moved"}, []),
    ({"path": "src", "agent": "tester", "method": "patch"}, ["e", "b", "a"]),
    ({"text": "needle"}, ["c"]),
    ({"text": "Because"}, ["a"]),
    ({"text": "ei"}, ["undo", "e", "d", "b", "a"]),
    ({"text": "zwei", "path": "src/a.py"}, ["b"]),
    ({"text": "NEEDLE"}, []),
    ({"text": "+needle"}, []),
    ({"text": "b/docs/x.md"}, []),
    ({"text": '"AND" (*'}, ["out"]),
    ({"since": "2000-01-01"}, ["undo", "e", "out", "d", "c", "b", "a", "seen"]),
    ({"since": 4_000_000_000}, []),
    ({"until": "2000-01-01T00:00:00"}, []),
    ({"until": 0}, []),
    ({"since": 1e300}, []),
    ({"until": -1e300}, []),
]


@pytest.fixture(scope="module")
def told(shared_daemon: DaemonProcess) -> Site:
    site = shared_daemon.site("indexed")
    site.write("src/a.py", "one\ntwo\nthree\n")
    site.replace("src/a.py", "one", "eins", message="Because.")  # a
    site.replace("src/a.py", "two", "zwei")  # b
    other = site.another("conv-2", agent="ann")
    patch = {"operation": "append_eof", "newText": "needle\n"}
    other.call("patch", path="docs/x.md", patches=patch)  # c
    site.agent.move("src/a.py", "src/moved.py", "@@", "-three", "+drei")  # d
    site.write("src/moved.py", 'eins\nzwei\ndrei\n"AND" (*)\n')
    site.replace("src/moved.py", "eins", "keine")  # e
    site.agent.call("undo")
    return site


NAMES = ["undo", "e", "out", "d", "c", "b", "a", "seen"]


def names(site: Site, **filters: Any) -> list[str]:
    """The commits that a log gives, by their short names."""
    known = {each["commit"]: name for each, name in zip(site.log(), NAMES, strict=True)}
    return [known[each["commit"]] for each in site.log(**filters)]


@pytest.mark.parametrize(("filters", "expected"), FILTERS, ids=str)
def test_filters_let_through_the_same_with_and_without_the_index(
    told: Site, filters: dict[str, Any], expected: list[str]
) -> None:
    assert expected == names(told, **filters)
    indexed(told)
    assert expected == names(told, **filters)


def test_pages_follow_each_other_whatever_the_filter(told: Site) -> None:
    indexed(told)
    for filters, expected in FILTERS:
        found: list[str] = []
        cursor = None
        while True:
            page = told.person.call("log", limit=2, cursor=cursor, **filters)
            found += [each["commit"] for each in page["commits"]]
            assert len(page["commits"]) in ((1, 2) if expected else (0,))
            cursor = page["cursor"]
            if cursor is None:
                break
            assert found[-1] == cursor
        known = dict(zip(told.ids(), NAMES, strict=True))
        assert expected == [known[oid] for oid in found]


def test_a_cursor_goes_on_where_it_was_while_history_grows(site: Site) -> None:
    site.write("a", "0\n")
    for n in range(5):
        site.replace("a", f"{n}\n", f"{n + 1}\n")
    page = site.person.call("log", limit=3)
    indexed(site)
    site.replace("a", "5\n", "6\n")
    rest = site.person.call("log", cursor=page["cursor"])
    everything = site.log()[1:]
    assert everything == page["commits"] + rest["commits"]


def test_a_time_without_an_offset_is_utc(told: Site) -> None:
    newest = told.log(limit=1)[0]["time"]
    moment = datetime.fromisoformat(newest).astimezone(UTC).replace(tzinfo=None)
    assert "undo" in names(told, until=moment.isoformat())
    assert "undo" in names(told, since=moment.isoformat())


def test_a_time_with_a_fraction_is_in_the_second_of_its_commits(told: Site) -> None:
    """A commit has no fraction: it may be of any moment of its second."""
    newest = told.log(limit=1)[0]["time"]
    moment = datetime.fromisoformat(newest)
    for since in (newest.replace("Z", ".9Z"), moment.timestamp() + 0.9):
        assert "undo" in names(told, since=since)
    assert "undo" in names(told, until=newest.replace("Z", ".1Z"))


def test_a_cursor_of_another_workspace_is_refused(told: Site, site: Site) -> None:
    site.write("a", "0\n")
    site.replace("a", "0\n", "1\n")
    with pytest.raises(Refusal) as refused:
        told.log(cursor=site.log(limit=1)[0]["commit"])
    assert "invalid_params" == refused.value.kind


def test_every_name_of_a_commit_is_understood(told: Site) -> None:
    indexed(told)
    commits = told.ids()
    for steps, oid in enumerate(commits):
        for name in (oid, oid[:10], oid[:10].upper(), f"HEAD~{steps}"):
            assert oid == told.person.call("show", commit=name)["commit"]
    for name, oid in (("HEAD", commits[0]), ("HEAD~", commits[1])):
        assert oid == told.person.call("show", commit=name)["commit"]
    for name in (f"HEAD~{len(commits)}", "f" * 40, "abc", "HEAD^", ""):
        with pytest.raises(Refusal) as refused:
            told.person.call("show", commit=name)
        assert "unknown_commit" == refused.value.kind


@pytest.mark.parametrize("damage", ["garbage", "half", "empty", "removed", "directory"])
def test_a_damaged_index_changes_no_answer_and_is_made_anew(own_site: Site, damage: str) -> None:
    site = own_site
    site.write("a", "0\n")
    for n in range(30):
        site.replace("a", f"{n}\n", f"{n + 1}\n")
    indexed(site)
    before = [site.log(), site.log(path="a", text="17"), site.person.call("blame", path="a")]
    path = HistoryIndex.path_for(site.shadow)
    site.daemon.stop()
    with open(path, "rb") as file:
        content = file.read()
    os.unlink(path)
    if damage == "directory":
        os.mkdir(path)
    elif damage != "removed":
        with open(path, "wb") as file:
            file.write(
                {"garbage": os.urandom(len(content)), "half": content[: len(content) // 2]}.get(
                    damage, b""
                )
            )
    site.daemon.start()
    site.connect()
    assert before == [
        site.log(),
        site.log(path="a", text="17"),
        site.person.call("blame", path="a"),
    ]
    if damage != "directory":
        indexed(site)
    site.agent.call("undo")
    assert b"29\n" == site.bytes_of("a")
    assert before[0] == [
        {**each, "reverted_by": None} if n == 0 else each for n, each in enumerate(site.log()[1:])
    ]
    assert 0 == site.daemon.stop()


def test_a_daemon_that_was_killed_goes_on_with_its_index(own_site: Site) -> None:
    site = own_site
    site.write("a", "0\n")
    for n in range(60):
        site.replace("a", f"{n}\n", f"{n + 1}\n")
        if n % 20 == 19:
            site.crash()
    indexed(site)
    commits = site.log(limit=1000)
    assert ["patch a: 1 edit"] * 60 == [each["message"] for each in commits[:-1]]
    assert "first seen: a" == commits[-1]["message"]
