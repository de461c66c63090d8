"""blame: who wrote each line, through undo, moves and what was saved by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from e2e.indexes import indexed
from e2e.running_daemon import BOTH, Refusal, Site
from stet.wire.framing import Encoding

Told = list[tuple[str, str]]


def blame(site: Site, path: str, **params: Any) -> Told:
    """Each run's text, and who wrote it: the agent, or the kind of the commit."""
    result = site.person.call("blame", path=path, **params)
    line = 1
    for run in result["lines"]:
        assert line == run["line"]
        line += run["count"]
    return [(run["text"], run.get("agent") or run["kind"]) for run in result["lines"]]


def both_ways(site: Site, path: str, **params: Any) -> Told:
    """The answer, which is the same before and after everything was indexed."""
    before = blame(site, path, **params)
    indexed(site)
    assert before == blame(site, path, **params)
    return before


def edit(site: Site, agent: str, path: str, old: str, new: str) -> str:
    return str(site.another(f"s-{agent}", agent=agent).replace(path, old, new)["commit"])


def test_runs_tell_agent_session_time_and_commit(site: Site) -> None:
    site.write("a.txt", "one\ntwo\nthree\n")
    commit = edit(site, "ann", "a.txt", "two\n", "zwei\nund\n")
    result = site.person.call("blame", path="a.txt")
    assert "a.txt" == result["path"]
    first, second, third = result["lines"]
    assert ("one\n", 1, 1, "outside") == tuple(first[k] for k in ("text", "line", "count", "kind"))
    assert first["agent"] is None
    assert re.fullmatch("[0-9a-f]{40}", first["commit"])
    assert {
        "line": 2,
        "count": 2,
        "text": "zwei\nund\n",
        "commit": commit,
        "kind": "edit",
        "agent": "ann",
        "session": "s-ann",
        "time": second["time"],
    } == second
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", second["time"])
    assert first["commit"] == third["commit"]


def test_what_was_saved_by_hand_since_belongs_to_no_commit(site: Site) -> None:
    site.write("a.txt", "one\ntwo\n")
    edit(site, "ann", "a.txt", "two", "zwei")
    site.write("a.txt", "one\nby hand\nzwei\n")
    assert [("one\n", "outside"), ("by hand\n", "outside"), ("zwei\n", "ann")] == both_ways(
        site, "a.txt"
    )
    runs = site.person.call("blame", path="a.txt")["lines"]
    assert [False, True, False] == [run["commit"] is None for run in runs]
    assert (None, None, None) == (runs[1]["time"], runs[1]["agent"], runs[1]["session"])


def test_a_file_that_no_edit_has_touched_is_outside_and_an_empty_one_has_no_lines(
    site: Site,
) -> None:
    site.write("b.txt", "x\n")
    site.replace("b.txt", "x", "y")
    site.write("empty", "")
    assert [] == blame(site, "empty")
    site.write("a.txt", "one\ntwo\n")
    [run] = site.person.call("blame", path="a.txt")["lines"]
    assert ("one\ntwo\n", 2, None, "outside") == (
        run["text"],
        run["count"],
        run["commit"],
        run["kind"],
    )


def test_a_line_that_undo_brought_back_belongs_to_whoever_wrote_it(site: Site) -> None:
    site.write("a.txt", "one\n")
    edit(site, "ann", "a.txt", "one\n", "one\n\ntwo\nthree\n")
    taken = edit(site, "ben", "a.txt", "two\n", "")
    edit(site, "cyd", "a.txt", "one\n", "eins\n")
    site.person.call("undo", commits=[taken])
    assert [("eins\n", "cyd"), ("\ntwo\nthree\n", "ann")] == both_ways(site, "a.txt")


def test_rollback_restore_and_redo_write_nothing_themselves(site: Site) -> None:
    site.write("a.txt", "one\n")
    written = edit(site, "ann", "a.txt", "one\n", "one\ntwo\nthree\n")
    edit(site, "ben", "a.txt", "two", "zwei")
    edit(site, "cyd", "a.txt", "three", "drei")
    site.person.call("rollback", to=written)
    expected = [("one\n", "outside"), ("two\nthree\n", "ann")]
    assert expected == both_ways(site, "a.txt")
    edit(site, "ben", "a.txt", "two\nthree\n", "nothing\n")
    site.person.call("restore", path="a.txt", at=written)
    assert expected == both_ways(site, "a.txt")
    for method in ("undo", "redo"):
        site.person.call(method)
    assert expected == both_ways(site, "a.txt")


@pytest.mark.parametrize("by_the_agent", [False, True])
def test_a_text_that_was_away_for_a_while_belongs_to_whoever_wrote_it(
    site: Site, by_the_agent: bool
) -> None:
    """As `git stash` and `git stash pop` do, or the checkout of two branches."""
    site.write("a.txt", "one\n")
    edit(site, "ann", "a.txt", "one\n", "one\ntwo\n")
    site.write("a.txt", "one\nzwei\ntwo\n")
    observed = {"tool": "Bash", "paths": ["a.txt"]}
    for n, text in enumerate(["one\n", "one\nzwei\ntwo\n"]):
        site.agent.call("observe", phase="before", use=f"u{n}", **observed)
        site.write("a.txt", text)
        if by_the_agent:
            site.agent.call("observe", phase="after", use=f"u{n}", **observed)
    site.agent.call("observe", phase="before", use="u2", **observed)
    expected = [("one\n", "outside"), ("zwei\n", "outside"), ("two\n", "ann")]
    assert expected == both_ways(site, "a.txt")


def test_the_checkout_of_branches_that_are_edited_meanwhile_writes_nothing_itself(
    site: Site,
) -> None:
    def checkout(n: int, text: str) -> None:
        for phase in ("before", "after"):
            if phase == "after":
                site.write("a.txt", text)
            site.agent.call("observe", phase=phase, use=f"u{n}", tool="Bash", paths=["a.txt"])

    site.write("a.txt", "one\n")
    edit(site, "ann", "a.txt", "one\n", "one\ntwo\n")
    checkout(1, "one\n")
    edit(site, "bob", "a.txt", "one\n", "uno\n")
    edit(site, "bob", "a.txt", "uno\n", "uno\ndue\n")
    checkout(2, "one\ntwo\n")
    assert [("one\n", "outside"), ("two\n", "ann")] == both_ways(site, "a.txt")
    edit(site, "ann", "a.txt", "two\n", "zwei\n")
    checkout(3, "uno\ndue\n")
    assert [("uno\n", "bob"), ("due\n", "bob")] == both_ways(site, "a.txt")


def test_a_late_write_to_the_replaced_file_takes_no_line_from_an_agent(own_site: Site) -> None:
    with own_site.write("a.txt", "one\n").open("a") as file:
        edit(own_site, "ann", "a.txt", "one\n", "one\ntwo\n")
        file.write("late\n")
    own_site.restart()  # looks at replaced files once more
    assert len(own_site.log(text="late")) == 2
    assert both_ways(own_site, "a.txt") == [("one\n", "outside"), ("two\n", "ann")]


def test_lines_are_followed_through_moves(site: Site) -> None:
    site.write("old/a.txt", "one\ntwo\nthree\n")
    edit(site, "ann", "old/a.txt", "one", "eins")
    mover = site.another("s-mover", agent="mover")
    result = mover.move("old/a.txt", "new/b.txt", "@@", "-two", "+zwei")
    [told] = result["files"]
    assert ("R", "old/a.txt", 1, 1) == (
        told["status"],
        told["old_path"],
        told["added"],
        told["removed"],
    )
    shown = site.person.call("show", commit=result["commit"])
    assert [told] == shown["files"]
    assert result["diff"] == shown["diff"]
    indexed(site)
    [logged] = site.person.call("log", limit=1)["commits"]
    assert [told] == logged["files"]
    edit(site, "cyd", "new/b.txt", "three", "drei")
    assert [("eins\n", "ann"), ("zwei\n", "mover"), ("drei\n", "cyd")] == both_ways(
        site, "new/b.txt"
    )
    moved = site.log(path="old/a.txt")
    assert result["commit"] == moved[0]["commit"]


def test_a_line_that_undo_brought_back_under_a_new_name_belongs_to_its_writer(site: Site) -> None:
    site.write("a.txt", "one\ntwo\nthree\n")
    edit(site, "ann", "a.txt", "two", "zwei")
    removed = edit(site, "bob", "a.txt", "zwei\n", "")
    mover = site.another("s-mover", agent="mover")
    for old, new in (("a.txt", "b.txt"), ("b.txt", "c.txt")):
        mover.move(old, new, "@@", " one", " three")
    site.person.call("undo", commits=[removed])
    assert b"one\nzwei\nthree\n" == site.bytes_of("c.txt")
    expected = [("one\n", "outside"), ("zwei\n", "ann"), ("three\n", "outside")]
    assert expected == both_ways(site, "c.txt")


def test_an_undone_move_leaves_the_lines_to_their_writers(site: Site) -> None:
    site.write("a.txt", "one\n\ntwo\n")
    edit(site, "ann", "a.txt", "one", "eins")
    mover = site.another("s-mover", agent="mover")
    mover.move("a.txt", "b.txt", "@@", "-two", "+zwei")
    edit(site, "cyd", "b.txt", "eins\n", "plus\neins\n")
    mover.call("undo")
    assert [("plus\n", "cyd"), ("eins\n", "ann"), ("\ntwo\n", "outside")] == both_ways(
        site, "a.txt"
    )


def test_lines_that_a_rollback_moved_back_from_a_deleted_name_belong_to_their_writer(
    site: Site,
) -> None:
    site.write("a.txt", "one\ntwo\n")
    to = edit(site, "ann", "a.txt", "one\n", "eins\n")
    mover = site.another("s-mover", agent="mover")
    mover.move("a.txt", "b.txt")
    site.write("b.txt", "eins\nsaved by hand\ntwo\n")
    mover.delete("b.txt")
    site.person.call("rollback", to=to)
    assert [("eins\n", "ann"), ("saved by hand\n", "outside"), ("two\n", "outside")] == both_ways(
        site, "a.txt"
    )


def test_two_edits_far_apart_own_only_their_lines(site: Site) -> None:
    text = "".join(f"line {n}\n" for n in range(9000))
    site.write("lock.json", text)
    patches = [
        {"operation": "replace", "oldText": f"line {n}\n", "newText": f"edit {n}\n"}
        for n in (5, 8990)
    ]
    result = site.agent.call("patch", path="lock.json", patches=patches)
    assert [(file["added"], file["removed"]) for file in result["files"]] == [(2, 2)]
    runs = [(text.count("\n"), who) for text, who in both_ways(site, "lock.json")]
    assert runs == [(5, "outside"), (1, "tester"), (8984, "outside"), (1, "tester"), (9, "outside")]
    assert site.kinds(text="line 4711") == ["outside"]


def test_at_a_commit_it_is_the_file_of_then(site: Site) -> None:
    site.write("a.txt", "one\ntwo\n")
    first = edit(site, "ann", "a.txt", "two", "zwei")
    edit(site, "ben", "a.txt", "one\nzwei\n", "all new\n")
    assert [("one\n", "outside"), ("zwei\n", "ann")] == both_ways(site, "a.txt", at=first)
    assert [("one\n", "outside"), ("zwei\n", "ann")] == blame(site, "a.txt", at="HEAD~1")
    (site.root / "a.txt").unlink()
    assert [("all new\n", "ben")] == blame(site, "a.txt", at="HEAD")


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"path": "nowhere.txt"}, "file_not_found"),
        ({"path": "nowhere.txt", "at": "HEAD"}, "file_not_found"),
        ({"path": "a.txt", "at": "ffffffff"}, "unknown_commit"),
        ({"path": "a.txt", "at": "HEAD~99"}, "unknown_commit"),
        ({"path": "a.txt", "at": "no commit"}, "unknown_commit"),
        ({"path": "binary"}, "not_text"),
        ({"path": "../outside"}, "path_outside_workspace"),
        ({"path": "."}, "not_a_file"),
        ({"at": "HEAD"}, "invalid_params"),
        ({"path": "a.txt", "line": 1}, "invalid_params"),
    ],
)
def test_what_can_not_be_blamed_is_refused(site: Site, params: dict[str, Any], kind: str) -> None:
    site.write("a.txt", "one\n")
    site.write("binary", b"\0\1\2")
    site.replace("a.txt", "one", "two")
    before = site.picture()
    with pytest.raises(Refusal) as refused:
        site.person.call("blame", **params)
    assert kind == refused.value.kind
    assert before == site.picture()


@pytest.mark.parametrize("encoding", BOTH)
def test_lines_end_as_everywhere_else(
    site: Site, encoding: Encoding, request: pytest.FixtureRequest
) -> None:
    site.write("a.txt", b"\xef\xbb\xbfone\r\ntwo\rthree\nfour \xff")
    site.replace("a.txt", "two", "zwei")
    client = site.greeted(site.daemon.agent(encoding), session="s-other")
    runs = client.call("blame", path="a.txt")["lines"]
    assert [("one\r\n", 1), ("zwei\r", 2), ("three\nfour \ufffd", 3)] == [
        (run["text"], run["line"]) for run in runs
    ]
