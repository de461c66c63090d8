"""redo, rollback and restore: commits of their own, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.running_daemon import Client, Site

TEN = "".join(f"line {n}\n" for n in range(1, 11))


def upper(*numbers: int, text: str = TEN) -> bytes:
    """The file with these lines edited."""
    for number in numbers:
        text = text.replace(f"line {number}\n", f"LINE {number}\n")
    return text.encode()


def edit(client: Client, number: int, path: str = "a.txt") -> str:
    """Edit a line; the commit."""
    return str(client.replace(path, f"line {number}\n", f"LINE {number}\n")["commit"])


@pytest.fixture
def ten(site: Site) -> Iterator[Site]:
    """A workspace with ten lines in a file."""
    site.write("a.txt", TEN)
    yield site
    assert site.fsck() == ""


# -- redo


def test_redo_makes_the_newest_undo_as_if_it_had_not_been(ten: Site) -> None:
    first, second = edit(ten.agent, 1), edit(ten.agent, 5)
    undos = [ten.agent.call("undo")["commit"] for _ in range(2)]
    assert ten.bytes_of("a.txt") == upper()
    said = ten.agent.call("redo", preview=True)["message"]
    assert said.startswith("Would redo, by taking back 1 commit:")
    for undo, expected in zip(reversed(undos), (upper(1), upper(1, 5)), strict=True):
        result = ten.agent.call("redo")
        assert result["undone"] == [undo]
        assert ten.bytes_of("a.txt") == expected
    [newest] = ten.log(limit=1)
    assert (newest["kind"], newest["method"], newest["reverts"]) == ("redo", "redo", [undos[0]])
    log = {each["commit"]: each["reverted_by"] for each in ten.log()}
    assert (log[first], log[second], log[undos[0]]) == (None, None, newest["commit"])
    refusal = ten.agent.refusal("redo")
    assert refusal.kind == "nothing_to_undo"
    assert refusal.message == (
        "there is no undo left to redo in session 'conv-1'. Each undo is redone once."
    )


def test_a_redo_merges_around_later_edits_or_is_refused(ten: Site) -> None:
    edit(ten.agent, 1)
    undo = ten.agent.call("undo")["commit"]
    other = edit(ten.agent, 9)
    ten.agent.call("redo")
    assert ten.bytes_of("a.txt") == upper(1, 9)
    ten.agent.call("undo", commits=[other])
    ten.agent.call("undo")
    ten.write("a.txt", TEN.replace("line 1\n", "line one\n"))
    before = ten.picture()
    assert ten.agent.refusal("redo").kind == "conflict"
    assert ten.agent.refusal("redo", commits=[undo]).kind == "nothing_to_undo"
    assert ten.picture() == before


def test_redo_of_one_that_is_redone_names_the_redo(ten: Site) -> None:
    edit(ten.agent, 1)
    undo = ten.agent.call("undo")["commit"]
    redo = ten.agent.call("redo", commits=[undo])["commit"]
    refusal = ten.agent.refusal("redo", commits=[undo])
    assert refusal.kind == "nothing_to_undo"
    assert refusal.message == f"{undo[:8]} is redone already, by {redo[:8]}."


def test_redo_of_an_edit_names_the_undo_that_it_could_mean(ten: Site) -> None:
    first = edit(ten.agent, 1)
    undo = ten.agent.call("undo")["commit"]
    refusal = ten.agent.refusal("redo", commits=[first])
    assert refusal.kind == "invalid_params"
    assert refusal.message == (
        f"redo takes undos and rollbacks, but {first[:8]} is of kind edit; it was undone by "
        f"{undo[:8]}, which can be redone."
    )
    redo = ten.agent.call("redo")["commit"]
    refusal = ten.agent.refusal("redo", commits=[redo])
    assert refusal.message.endswith(f"is of kind redo; to take it back, use undo: {redo[:8]}.")


def test_a_refusal_names_only_what_would_not_be_refused_for_the_same_reason(ten: Site) -> None:
    first, other = edit(ten.agent, 1), ten.another("conv-2")
    undo = ten.agent.call("undo")["commit"]
    assert f"stet redo {undo[:8]}" in other.refusal("redo", commits=[undo]).message
    for method in ("undo", "redo"):  # it is undone already, and is no undo
        refusal = other.refusal(method, commits=[first])
        assert refusal.kind == "not_permitted"
        assert refusal.message.endswith("an agent may take back its own edits only.")
    redo = ten.agent.call("redo")["commit"]
    again = ten.agent.call("undo", commits=[redo])["commit"]
    said = ten.agent.refusal("redo", commits=[redo]).message
    assert said.endswith(f"is of kind redo; it was undone by {again[:8]}, which can be redone.")
    found = ten.ids()[-1]  # nothing was there before
    assert ten.person.refusal("redo", commits=[found]).message.endswith("is of kind outside.")
    ten.overwrite("secret", "x\n")
    forgotten = ten.person.call("forget", path="secret")["commit"]
    assert ten.person.refusal("redo", commits=[forgotten]).message.endswith("is of kind forget.")


def test_undoing_a_redo_undoes_the_edit_again_and_that_can_be_redone(ten: Site) -> None:
    first = edit(ten.agent, 1)
    undo = ten.agent.call("undo")["commit"]
    redo = ten.agent.call("redo")["commit"]
    again = ten.agent.call("undo", commits=[redo])["commit"]
    assert ten.bytes_of("a.txt") == upper()
    log = {each["commit"]: each["reverted_by"] for each in ten.log()}
    assert (log[first], log[undo], log[redo], log[again]) == (undo, None, again, None)
    assert ten.agent.refusal("undo").kind == "nothing_to_undo"
    assert ten.agent.call("redo")["undone"] == [again]
    assert ten.bytes_of("a.txt") == upper(1)


def test_an_agent_redoes_its_own_undos_and_the_person_all(ten: Site) -> None:
    other = ten.another("conv-2")
    edit(ten.agent, 1)
    edit(other, 5)
    undo = other.call("undo")["commit"]
    assert ten.agent.refusal("redo").kind == "nothing_to_undo"
    assert ten.agent.refusal("redo", commits=[undo]).kind == "not_permitted"
    assert ten.person.call("redo")["undone"] == [undo]
    assert ten.bytes_of("a.txt") == upper(1, 5)


def test_what_would_be_undone_twice_is_refused(ten: Site) -> None:
    first = edit(ten.agent, 1)
    undo = ten.agent.call("undo")["commit"]
    redo = ten.agent.call("redo")["commit"]
    second = ten.agent.call("undo", commits=[first])["commit"]
    before = ten.picture()
    refusal = ten.agent.refusal("undo", commits=[redo])
    assert ten.picture() == before
    assert refusal.kind == "nothing_to_undo"
    assert refusal.message == (
        f"this would undo {first[:8]} a second time, which {second[:8]} has undone already; "
        f"nothing was changed. Take {second[:8]} back first."
    )
    ten.agent.call("undo", commits=[second])
    ten.agent.call("undo", commits=[redo])
    assert ten.bytes_of("a.txt") == upper()
    assert {each["commit"]: each["reverted_by"] for each in ten.log()}[first] == undo


def test_of_two_undos_of_one_edit_in_one_call_it_says_which_to_leave_out(ten: Site) -> None:
    first = edit(ten.agent, 1)
    undo = ten.agent.call("undo")["commit"]
    redo = ten.agent.call("redo")["commit"]
    refusal = ten.agent.refusal("undo", commits=[first, redo])
    assert refusal.kind == "nothing_to_undo"
    assert refusal.message == (
        f"this would undo {first[:8]} twice, because {undo[:8]}, which undid it before, would "
        f"stand again; nothing was changed. Leave {first[:8]} out."
    )
    ten.agent.call("undo", commits=[redo])
    assert ten.bytes_of("a.txt") == upper()


def test_of_two_redos_of_one_edit_in_one_call_it_says_which_to_leave_out(ten: Site) -> None:
    first = edit(ten.agent, 1)
    redos = []
    for _ in range(2):
        ten.agent.call("undo", commits=[first])
        redos.append(ten.agent.call("redo")["commit"])
    refusal = ten.agent.refusal("undo", commits=redos)
    assert refusal.kind == "nothing_to_undo"
    [left] = [redo for redo in redos if not refusal.message.endswith(f"Leave {redo[:8]} out.")]
    ten.agent.call("undo", commits=[left])
    assert ten.bytes_of("a.txt") == upper()


def test_a_command_that_a_refusal_gives_can_be_typed_as_it_is(ten: Site) -> None:
    edit(ten.agent, 1)
    patches = [{"operation": "append_eof", "newText": "x\n"}]
    ten.another("conv 2").call("patch", path="a b.txt", patches=patches)
    for method, params, command in (
        ("undo", {"session": "conv 2"}, "stet undo --session 'conv 2'"),
        ("rollback", {"to": "HEAD~1", "session": "conv 2"}, "--session 'conv 2'"),
        ("restore", {"path": "a b.txt", "at": "HEAD~1"}, "stet restore 'a b.txt' --at .."),
    ):
        refusal = ten.agent.refusal(method, **params)
        assert (refusal.kind, command in refusal.message) == ("not_permitted", True)


# -- rollback


@pytest.fixture
def two(ten: Site) -> Site:
    """Edits of two agents: conv-1 lines 1, 5 and dir/b.txt; conv-2 lines 3 and 9."""
    other = ten.another("conv-2", agent="other")
    ten.commits = [edit(ten.agent, 1), edit(other, 3), edit(ten.agent, 5)]  # type: ignore[attr-defined]
    ten.overwrite("dir/b.txt", "b\n")
    edit(other, 9)
    return ten


def first_of(site: Site) -> str:
    """The first edit's commit."""
    return str(site.commits[0])  # type: ignore[attr-defined]


def test_a_rollback_takes_back_everything_after_a_commit_in_one(two: Site) -> None:
    ids = two.ids()
    result = two.person.call("rollback", to=first_of(two), message="enough")
    assert two.bytes_of("a.txt") == upper(1)
    assert not (two.root / "dir").exists()
    assert result["undone"] == ids[:4]
    [newest] = two.log(limit=1)
    assert (newest["kind"], newest["reverts"]) == ("rollback", ids[:4])
    assert newest["message"] == f"rollback to {first_of(two)[:8]}: 4 commits\n\nenough"
    assert result["message"].startswith(
        f"Rolled back to {first_of(two)[:8]}, taking back 4 commits:\n  {ids[0][:8]} patch a.txt"
    )


@pytest.mark.parametrize(
    ("filters", "left", "b_stands"),
    [
        ({"session": "conv-2"}, (1, 5), True),
        ({"agent": "tester"}, (1, 3, 9), False),
        ({"paths": ["dir"]}, (1, 3, 5, 9), False),
        ({"paths": ["a.txt"], "agent": "other"}, (1, 5), True),
    ],
)
def test_a_rollback_is_filtered(
    two: Site, filters: dict[str, Any], left: tuple[int, ...], b_stands: bool
) -> None:
    two.person.call("rollback", to=first_of(two), **filters)
    assert two.bytes_of("a.txt") == upper(*left)
    assert (two.root / "dir/b.txt").exists() is b_stands


def test_an_agents_rollback_is_about_its_own(two: Site) -> None:
    two.agent.call("rollback", to=first_of(two))
    assert two.bytes_of("a.txt") == upper(1, 3, 9)
    assert not (two.root / "dir").exists()
    refusal = two.agent.refusal("rollback", to=first_of(two))
    assert refusal.kind == "nothing_to_undo"
    refusal = two.agent.refusal("rollback", to=first_of(two), session="conv-2")
    assert refusal.kind == "not_permitted"


def test_a_rollback_can_be_undone_and_redone(two: Site) -> None:
    rollback = two.person.call("rollback", to=first_of(two))["commit"]
    undo = two.person.call("undo", commits=[rollback])["commit"]
    assert two.bytes_of("a.txt") == upper(1, 3, 5, 9)
    assert two.bytes_of("dir/b.txt") == b"b\n"
    assert two.person.call("redo")["undone"] == [undo]
    assert two.bytes_of("a.txt") == upper(1)
    assert two.person.call("redo", commits=[rollback])["files"][0]["path"] == "a.txt"
    assert two.bytes_of("a.txt") == upper(1, 3, 5, 9)


def test_a_rollback_takes_back_an_undo_that_could_stay_where_others_would_undo_the_same(
    ten: Site,
) -> None:
    first, second = edit(ten.agent, 1), edit(ten.agent, 3)
    later = edit(ten.agent, 9)
    both = ten.agent.call("undo", commits=[first, later])["commit"]
    undone_undo = ten.agent.call("undo", commits=[both, second])["commit"]
    alone = ten.agent.call("undo", commits=[later])["commit"]
    assert ten.bytes_of("a.txt") == upper(1)
    result = ten.agent.call("rollback", to=second)
    assert ten.bytes_of("a.txt") == upper(1, 3)
    # The last would have stayed: it undoes what is to be undone. But so does the first, once
    # what undid that is taken back.
    assert result["undone"] == [alone, undone_undo, both, later]


def test_a_rollback_keeps_what_a_person_wrote_unless_told_otherwise(ten: Site) -> None:
    first = edit(ten.agent, 1)
    ten.write("a.txt", upper(1) + b"by hand\n")
    edit(ten.agent, 5)
    edit(ten.agent, 9)
    ten.person.call("rollback", to=first)
    assert ten.bytes_of("a.txt") == upper(1) + b"by hand\n"
    assert ten.person.refusal("rollback", to=first).kind == "nothing_to_undo"
    assert ten.agent.refusal("rollback", to=first, include_outside=True).kind == "not_permitted"
    result = ten.person.call("rollback", to=first, include_outside=True)
    assert ten.bytes_of("a.txt") == upper(1)
    assert len(result["undone"]) == 1


@pytest.mark.parametrize("since", ["nothing", "an edit"])
def test_a_rollback_of_a_path_brings_no_undone_edit_of_another_file_back(
    two: Site, since: str
) -> None:
    two.person.call("undo", last=4)  # all but line 1 of a.txt, and dir/b.txt
    if since == "nothing":
        refusal = two.person.refusal("rollback", to=first_of(two), paths=["dir"])
        assert refusal.kind == "nothing_to_undo"
    else:
        two.overwrite("dir/c.txt", "c\n")
        two.person.call("rollback", to=first_of(two), paths=["dir"])
    assert two.bytes_of("a.txt") == upper(1)
    assert not (two.root / "dir").exists()


def test_a_rollback_of_a_path_takes_back_again_what_an_undo_took_back_with_older_edits(
    two: Site,
) -> None:
    two.write("b.txt", TEN)
    before, first = edit(two.agent, 1, "b.txt"), edit(two.agent, 4, "b.txt")
    other, second = edit(two.agent, 7), edit(two.agent, 9, "b.txt")
    undo = two.person.call("undo", commits=[second, other, before])["commit"]
    result = two.person.call("rollback", to=first, paths=["b.txt"])
    assert result["undone"] == [undo, second, other]
    assert two.bytes_of("b.txt") == upper(1, 4)  # as it was then
    assert two.bytes_of("a.txt") == upper(1, 3, 5, 9)


def test_a_rollback_does_not_bring_back_what_a_person_took_back_of_their_own(ten: Site) -> None:
    first = edit(ten.agent, 1)
    ten.write("a.txt", upper(1) + b"by hand\n")
    edit(ten.agent, 5)
    ten.person.call("rollback", to=first, include_outside=True)
    edit(ten.agent, 9)
    ten.person.call("rollback", to=first)
    assert ten.bytes_of("a.txt") == upper(1)


def test_a_rollback_keeps_the_permission_bits_that_a_person_has_set_since(ten: Site) -> None:
    first = edit(ten.agent, 1)
    edit(ten.agent, 5)
    ten.agent.delete("a.txt")
    ten.agent.call("undo")
    (ten.root / "a.txt").chmod(0o600)
    ten.agent.call("rollback", to=first)
    assert ten.bytes_of("a.txt") == upper(1)
    assert (ten.root / "a.txt").stat().st_mode & 0o777 == 0o600


def test_a_rollback_with_outside_edits_never_removes_what_was_only_found(ten: Site) -> None:
    first = edit(ten.agent, 1)
    ten.write("mine.txt", TEN)
    edit(ten.agent, 5, "mine.txt")
    ten.person.call("rollback", to=first, include_outside=True)
    assert ten.bytes_of("mine.txt") == TEN.encode()
    assert ten.bytes_of("a.txt") == upper(1)


def test_a_rollback_in_conflict_changes_nothing(two: Site) -> None:
    two.write("a.txt", upper(1, 3, 5, 9).replace(b"LINE 9\n", b"line nine\n"))
    before = two.picture()
    refusal = two.person.refusal("rollback", to=first_of(two))
    assert two.picture() == before
    assert refusal.kind == "conflict"
    assert [each["path"] for each in refusal.data["conflicts"]] == ["a.txt"]


def test_a_preview_of_a_rollback_changes_nothing(two: Site) -> None:
    before = two.picture()
    preview = two.person.call("rollback", to=first_of(two), preview=True)
    assert two.picture() == before
    assert preview["commit"] is None
    done = two.person.call("rollback", to=first_of(two))
    for key in ("undone", "files", "diff"):
        assert preview[key] == done[key]
    assert preview["message"] == done["message"].replace("Rolled back", "Would roll back")


@pytest.mark.parametrize("name", ["HEAD~99", "zzzz", "abc", "f" * 40, "0123"])
def test_a_commit_that_is_none_is_refused(ten: Site, name: str) -> None:
    edit(ten.agent, 1)
    before = ten.picture()
    assert ten.person.refusal("rollback", to=name).kind == "unknown_commit"
    assert ten.person.refusal("restore", path="a.txt", at=name).kind == "unknown_commit"
    assert ten.person.refusal("redo", commits=[name]).kind == "unknown_commit"
    assert ten.picture() == before


def test_a_commit_of_another_workspace_is_none(ten: Site) -> None:
    edit(ten.agent, 1)
    other = ten.daemon.site(f"{ten.root.name}-other")
    other.write("a.txt", TEN + "other\n")
    foreign = edit(other.agent, 1)
    before = ten.picture()
    assert ten.person.refusal("undo", commits=[foreign]).kind == "unknown_commit"
    assert ten.person.refusal("redo", commits=[foreign]).kind == "unknown_commit"
    assert ten.person.refusal("rollback", to=foreign).kind == "unknown_commit"
    assert ten.person.refusal("restore", path="a.txt", at=foreign).kind == "unknown_commit"
    assert ten.picture() == before


# -- restore


def test_restore_makes_a_file_what_it_was(two: Site) -> None:
    result = two.person.call("restore", path="a.txt", at=first_of(two), message="looked better")
    assert two.bytes_of("a.txt") == upper(1)
    assert result["message"] == f"Restored a.txt as it was after {first_of(two)[:8]}."
    assert "undone" not in result
    [newest] = two.log(limit=1)
    assert (newest["kind"], newest["reverts"]) == ("restore", [])
    assert newest["message"] == f"restore a.txt as of {first_of(two)[:8]}\n\nlooked better"
    assert two.bytes_of("dir/b.txt") == b"b\n"
    refusal = two.person.refusal("restore", path="a.txt", at=first_of(two))
    assert refusal.kind == "no_change"


def test_a_restore_counts_as_an_edit(two: Site) -> None:
    restore = two.person.call("restore", path="a.txt", at=first_of(two))["commit"]
    undo = two.person.call("undo")
    assert undo["undone"] == [restore]
    assert two.bytes_of("a.txt") == upper(1, 3, 5, 9)
    two.person.call("redo")
    assert two.bytes_of("a.txt") == upper(1)


def test_restore_removes_a_file_that_was_not_there(two: Site) -> None:
    result = two.person.call("restore", path="dir/b.txt", at=first_of(two))
    assert [each["status"] for each in result["files"]] == ["D"]
    assert result["message"] == f"Removed dir/b.txt: there was none after {first_of(two)[:8]}."
    assert not (two.root / "dir").exists()
    two.person.call("undo")
    assert two.bytes_of("dir/b.txt") == b"b\n"


def test_restore_brings_a_removed_file_back_with_its_mode(ten: Site) -> None:
    ten.write("key", "secret\n", mode=0o600)
    first = ten.replace("key", "secret", "public")["commit"]
    ten.agent.delete("key")
    edit(ten.agent, 1)
    ten.person.call("restore", path="key", at=first)
    assert ten.bytes_of("key") == b"public\n"
    assert (ten.root / "key").stat().st_mode & 0o777 == 0o600


def test_restore_to_before_a_file_was_known_takes_it_as_it_was_found(ten: Site) -> None:
    ten.write("b.txt", "b\n")
    old = ten.replace("b.txt", "b", "bb")["commit"]
    edit(ten.agent, 1)
    result = ten.person.call("restore", path="a.txt", at=old)
    assert ten.bytes_of("a.txt") == TEN.encode()
    [warning] = result["warnings"]
    assert "the history knows a.txt only since" in warning
    assert ten.person.refusal("restore", path="c.txt", at=old).kind == "file_not_found"


def test_restore_overwrites_what_a_person_wrote_and_keeps_it_in_the_history(ten: Site) -> None:
    first = edit(ten.agent, 1)
    ten.write("a.txt", "by hand\n")
    result = ten.person.call("restore", path="a.txt", at=first)
    assert ten.bytes_of("a.txt") == upper(1)
    shown = ten.person.call("read", path="a.txt", at=result["outside"])
    assert shown["text"] == "by hand\n"


def test_an_agent_restores_a_file_only_if_all_since_is_its_own(ten: Site) -> None:
    first = edit(ten.agent, 1)
    edit(ten.agent, 5)
    ten.agent.call("restore", path="a.txt", at=first)
    assert ten.bytes_of("a.txt") == upper(1)
    other = ten.another("conv-2")
    theirs = edit(other, 9)
    refusal = ten.agent.refusal("restore", path="a.txt", at=first)
    assert refusal.kind == "not_permitted"
    assert f"{theirs[:8]} (patch a.txt: 1 edit) is not of this session" in refusal.message
    other.call("restore", path="a.txt", at="HEAD~1")
    assert ten.bytes_of("a.txt") == upper(1)


def test_an_agent_does_not_restore_over_what_a_person_wrote(ten: Site) -> None:
    first = edit(ten.agent, 1)
    edit(ten.agent, 5)
    ten.write("a.txt", upper(1, 5) + b"by hand\n")
    refusal = ten.agent.refusal("restore", path="a.txt", at=first)
    assert (refusal.kind, "changed outside" in refusal.message) == ("not_permitted", True)
    assert ten.bytes_of("a.txt") == upper(1, 5) + b"by hand\n"


def test_an_agent_may_restore_to_before_its_own_first_edit(ten: Site) -> None:
    ten.overwrite("b.txt", "b\n")
    edit(ten.agent, 1)
    edit(ten.agent, 5)
    ten.agent.call("restore", path="a.txt", at="HEAD~3")
    assert ten.bytes_of("a.txt") == TEN.encode()


def test_restore_follows_the_directory_of_the_session(ten: Site) -> None:
    ten.write("dir/a.txt", TEN)
    inside = ten.greeted(ten.daemon.agent(), session="conv-3", workspace=str(ten.root / "dir"))
    first = edit(inside, 1)
    edit(inside, 5)
    inside.call("restore", path="a.txt", at=first)
    assert ten.bytes_of("dir/a.txt") == upper(1)
    assert ten.bytes_of("a.txt") == TEN.encode()


@pytest.mark.parametrize("outside", [False, True])
def test_restore_of_a_link_that_took_the_place_of_a_file_leaves_its_target(
    ten: Site, outside: bool
) -> None:
    first = edit(ten.agent, 1)
    (ten.root / "a.txt").unlink()
    target = ten.root.parent / f"{ten.root.name}.outside" if outside else ten.root / "target.txt"
    target.write_text("target\n")
    (ten.root / "a.txt").symlink_to(target)
    ten.person.call("restore", path="a.txt", at=first)
    assert not (ten.root / "a.txt").is_symlink()
    assert ten.bytes_of("a.txt") == upper(1)
    assert target.read_text() == "target\n"


def test_restore_through_a_link_restores_the_file_that_was_edited(ten: Site) -> None:
    (ten.root / "link.txt").symlink_to("a.txt")
    first = edit(ten.agent, 1, "link.txt")
    edit(ten.agent, 5)
    ten.person.call("restore", path="link.txt", at=first)
    assert (ten.root / "link.txt").is_symlink()
    assert ten.bytes_of("a.txt") == upper(1)


def test_a_request_id_makes_each_of_them_once(two: Site) -> None:
    first = two.person.call("rollback", to=first_of(two), request_id="r1")
    again = two.person.call("rollback", to=first_of(two), request_id="r1")
    assert (again["replayed"], again["commit"]) == (True, first["commit"])
    assert again["diff"] == first["diff"]
    redo = two.person.call("redo", request_id="r2")
    assert two.person.call("redo", request_id="r2")["commit"] == redo["commit"]
    assert two.person.refusal("redo", commits=["HEAD"], request_id="r2").kind == "invalid_params"
    undo = two.person.call("undo", request_id="r3")
    assert two.person.call("undo", request_id="r3") == {**undo, "replayed": True}


def test_untouched_files_keep_bytes_modes_and_times(two: Site) -> None:
    two.write("other/x.txt", "x\n", mode=0o640)
    (two.root / "empty").mkdir()
    before = {k: v for k, v in two.picture().files.items() if k.startswith(("other", "empty"))}
    two.person.call("rollback", to=first_of(two))
    two.person.call("redo")
    two.person.call("restore", path="a.txt", at=first_of(two))
    after = {k: v for k, v in two.picture().files.items() if k.startswith(("other", "empty"))}
    assert after == before


def test_clipboards_and_modes_are_not_touched(two: Site) -> None:
    patch = {"operation": "replace", "oldText": "LINE 1\n", "newText": "1\n", "toClipboard": "c"}
    two.agent.call("patch", path="a.txt", patches=[patch])
    before = two.picture()
    two.agent.call("undo")
    two.agent.call("redo")
    two.person.call("rollback", to=first_of(two))
    after = two.picture()
    assert (after.clipboards, after.mode) == (before.clipboards, before.mode)
    assert before.clipboards == {"c": "LINE 1\n"}


def test_restoring_a_file_leaves_directories_that_are_not_above_it(site: Site) -> None:
    start = site.overwrite("a.txt", "one\n")["commit"]
    patch = (
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n"
        "*** Add File: other/b.txt\n+b\n*** Add File: new/deep/c.txt\n+c\n*** End Patch"
    )
    site.agent.call("apply_patch", input=patch)
    (site.root / "other/b.txt").unlink()
    site.person.call("restore", path="new/deep/c.txt", at=start)
    assert not (site.root / "new").exists()
    site.person.call("restore", path="a.txt", at=start)
    assert site.bytes_of("a.txt") == b"one\n"
    assert (site.root / "other").is_dir()


@pytest.mark.parametrize("others", [False, True])
def test_rollback_leaves_no_file_whose_making_was_undone_after_it_was_deleted(
    site: Site, others: bool
) -> None:
    """The undo had found no file any more, so it does not stand for taking the file away."""
    start = site.overwrite("a.txt", "one\n")["commit"]
    patch = "*** Begin Patch\n*** Add File: b.txt\n+b\n%s*** End Patch"
    more = "*** Update File: a.txt\n@@\n-one\n+two\n" if others else ""
    made = site.agent.call("apply_patch", input=patch % more)["commit"]
    deleted = site.another("conv-2").delete("b.txt")["commit"]
    undone = site.person.call("undo", commits=[made])["commit"]
    result = site.person.call("rollback", to=start)
    assert result["undone"] == [undone, deleted, made]
    assert not (site.root / "b.txt").exists()
    assert site.bytes_of("a.txt") == b"one\n"
    site.person.call("redo")
    assert not (site.root / "b.txt").exists()


def test_rollback_keeps_what_a_person_wrote_where_an_edit_was_undone_under_a_new_name(
    site: Site,
) -> None:
    start = site.overwrite("a.txt", "one\ntwo\n")["commit"]
    edit = site.replace("a.txt", "one", "ONE")["commit"]
    moved = site.agent.move("a.txt", "b.txt")["commit"]
    site.person.call("undo", commits=[edit])
    site.write("b.txt", "mine\ntwo\n")
    assert site.person.call("rollback", to=start)["undone"] == [moved]
    assert site.bytes_of("a.txt") == b"mine\ntwo\n"


def test_rollback_has_nothing_to_do_for_edits_that_an_undo_took_back_together(site: Site) -> None:
    start = site.overwrite("a.txt", "one\n")["commit"]
    site.overwrite("b.txt", "b\n")
    site.agent.delete("b.txt")
    site.person.call("undo", last=2)
    assert site.person.refusal("rollback", to=start).kind == "nothing_to_undo"
