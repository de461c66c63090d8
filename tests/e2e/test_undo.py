"""undo: a commit that takes commits back, around whatever came later."""

from __future__ import annotations

import os
from typing import Any

import pytest

from e2e.running_daemon import Site

TEN = "".join(f"line {n}\n" for n in range(1, 11))


def test_undo_takes_the_newest_edit_back_and_then_the_one_before_it(site: Site) -> None:
    site.write("a.txt", "one\n")
    site.replace("a.txt", "one", "two")
    last = site.replace("a.txt", "two", "three")
    result = site.agent.call("undo")
    assert site.bytes_of("a.txt") == b"two\n"
    assert result["undone"] == [last["commit"]]
    assert result["outside"] is None
    assert [(each["path"], each["status"]) for each in result["files"]] == [("a.txt", "M")]
    assert "-three\n+two\n" in result["diff"]
    assert result["message"] == f"Undone 1 commit:\n  {last['commit'][:8]} patch a.txt: 1 edit"
    site.agent.call("undo")
    assert site.bytes_of("a.txt") == b"one\n"
    assert site.agent.refusal("undo").kind == "nothing_to_undo"


def test_undo_of_several_is_one_commit(site: Site) -> None:
    site.write("a.txt", "0\n")
    made = [site.replace("a.txt", str(n), str(n + 1))["commit"] for n in range(4)]
    before = len(site.log())
    result = site.agent.call("undo", last=3)
    assert site.bytes_of("a.txt") == b"1\n"
    assert result["undone"] == made[:0:-1]
    assert len(site.log()) == before + 1
    assert site.log(limit=1)[0]["message"].startswith("undo 3 commits")


def test_undo_keeps_what_a_person_wrote_since(site: Site) -> None:
    site.write("a.txt", TEN)
    edit = site.replace("a.txt", "line 5\n", "LINE 5\n")["commit"]
    by_hand = TEN.replace("line 5\n", "LINE 5\n").replace("line 1\n", "by hand\n")
    site.write("a.txt", by_hand)
    result = site.agent.call("undo", commits=[edit])
    assert site.bytes_of("a.txt") == TEN.replace("line 1\n", "by hand\n").encode()
    assert result["outside"] is not None
    outside = site.person.call("show", commit=result["outside"])
    assert (outside["kind"], outside["message"]) == ("outside", "changed outside: a.txt")
    assert "-line 1\n+by hand\n" in outside["diff"]


def test_undo_that_cannot_merge_tells_the_hunks_and_changes_nothing(site: Site) -> None:
    site.write("a.txt", TEN)
    site.write("b.txt", "b\n")
    edit = site.replace("a.txt", "line 5\n", "LINE 5\n")["commit"]
    other = site.replace("b.txt", "b", "bb")["commit"]
    site.write("a.txt", TEN.replace("line 5\n", "line five\n"))
    before = site.picture()
    refusal = site.agent.refusal("undo", commits=[edit, other])
    assert site.picture() == before
    assert refusal.kind == "conflict"
    [conflict] = refusal.data["conflicts"]
    assert conflict["path"] == "a.txt"
    [hunk] = conflict["hunks"]
    assert "line five\n" in hunk
    assert "line 5\n" in hunk
    assert refusal.message == (
        "a.txt: later changes are in the way, so nothing was changed: the same or adjacent lines "
        "were changed since. Changed since by: an edit outside that is not recorded yet."
    )


def test_a_conflict_names_who_is_in_the_way(site: Site) -> None:
    site.write("a.txt", TEN)
    edit = site.replace("a.txt", "line 5\n", "LINE 5\n")["commit"]
    site.agent.call("undo", commits=[site.replace("a.txt", "line 9\n", "LINE 9\n")["commit"]])
    other = site.another("conv-2", agent="other")
    patches = [{"operation": "replace", "oldText": "LINE 5\n", "newText": "five\n"}]
    theirs = other.call("patch", path="a.txt", patches=patches)["commit"]
    undo = site.log()[1]["commit"]
    refusal = site.agent.refusal("undo", commits=[edit])
    assert refusal.message.endswith(
        f" Changed since by: {theirs[:8]} (other/conv-2), {undo[:8]} (tester/conv-1)."
    )
    assert refusal.data["conflicts"][0]["commits"] == [theirs, undo]


def test_what_is_in_the_way_of_several_edits_of_a_file_is_said_once(site: Site) -> None:
    site.write("a.txt", TEN)
    edits = [site.replace("a.txt", f"line {n}\n", f"LINE {n}\n")["commit"] for n in (3, 8)]
    other = site.another("conv-2", agent="other")
    for n in (3, 8):
        patch = {"operation": "replace", "oldText": f"LINE {n}\n", "newText": "theirs\n"}
        other.call("patch", path="a.txt", patches=[patch])
    refusal = site.agent.refusal("undo", commits=edits)
    assert refusal.message.count("later changes are in the way") == 1
    assert len(refusal.data["conflicts"]) == 2


def test_undo_of_a_new_file_removes_it_and_the_directories_made_for_it(site: Site) -> None:
    (site.root / "old").mkdir()
    site.overwrite("old/new/deep/a.txt", "x\n")
    result = site.agent.call("undo")
    assert [each["status"] for each in result["files"]] == ["D"]
    assert [path.name for path in site.root.rglob("*")] == ["old"]


def test_undo_of_a_new_file_leaves_directories_that_hold_something(site: Site) -> None:
    site.overwrite("new/deep/a.txt", "x\n")
    site.write("new/mine.txt", "mine\n")
    site.agent.call("undo")
    assert sorted(path.name for path in site.root.rglob("*")) == ["mine.txt", "new"]


def test_undo_of_a_new_file_that_was_changed_since_is_a_conflict(site: Site) -> None:
    site.overwrite("a.txt", "x\n")
    site.write("a.txt", "x\nby hand\n")
    refusal = site.agent.refusal("undo")
    assert refusal.kind == "conflict"
    assert "the commit created this file; it was changed since" in refusal.message
    assert site.bytes_of("a.txt") == b"x\nby hand\n"


def test_undo_of_what_a_person_put_back_is_recorded_and_changes_nothing(site: Site) -> None:
    site.write("a.txt", "one\n")
    edit = site.replace("a.txt", "one", "two")["commit"]
    site.write("a.txt", "one\n")
    result = site.agent.call("undo")
    assert result["undone"] == [edit]
    assert result["files"] == []
    assert site.bytes_of("a.txt") == b"one\n"
    assert site.agent.refusal("undo").kind == "nothing_to_undo"
    assert site.fsck() == ""


def test_undo_of_an_undo_that_changed_nothing_is_recorded(site: Site) -> None:
    """It changes no file either, but from then on the edit stands again."""
    edit = site.overwrite("a.txt", "one\n")["commit"]
    (site.root / "a.txt").unlink()
    undo = site.agent.call("undo")
    again = site.agent.call("undo", commits=[undo["commit"]])
    assert (undo["files"], again["files"]) == ([], [])
    log = {each["commit"]: each["reverted_by"] for each in site.log()}
    assert (log[undo["commit"]], log[edit]) == (again["commit"], None)
    assert site.fsck() == ""


def test_a_request_id_that_two_sessions_use_means_ones_own(site: Site) -> None:
    site.write("a.txt", "one\n")
    site.replace("a.txt", "one", "two", request_id="r")
    other = site.another("conv-2")
    append = {"operation": "append_eof", "newText": "x\n"}
    other.call("patch", path="b.txt", patches=append, request_id="r")
    site.agent.call("undo", request="r")
    assert (site.bytes_of("a.txt"), site.bytes_of("b.txt")) == (b"one\n", b"x\n")
    site.person.call("undo", request="r", session="conv-2")
    assert not (site.root / "b.txt").exists()


def test_a_preview_of_an_undo_tells_it_and_changes_nothing(site: Site) -> None:
    site.write("a.txt", "one\n")
    edit = site.replace("a.txt", "one", "two")["commit"]
    before = site.picture()
    preview = site.agent.call("undo", preview=True)
    assert site.picture() == before
    assert (preview["commit"], preview["undone"]) == (None, [edit])
    done = site.agent.call("undo")
    assert preview["diff"] == done["diff"]
    assert preview["message"].removeprefix("Would undo") == done["message"].removeprefix("Undone")


@pytest.fixture
def mixed(site: Site) -> Site:
    """Two agents in two sessions edit three files."""
    site.write("a.txt", TEN)
    other = site.another("conv-2", agent="other")

    def edit(client: Any, path: str, old: str, new: str) -> None:
        patches = [{"operation": "replace", "oldText": old, "newText": new}]
        client.call("patch", path=path, patches=patches)

    edit(site.agent, "a.txt", "line 1\n", "LINE 1\n")
    edit(other, "a.txt", "line 3\n", "LINE 3\n")
    edit(site.agent, "a.txt", "line 5\n", "LINE 5\n")
    site.overwrite("dir/b.txt", "b\n")
    edit(other, "a.txt", "line 9\n", "LINE 9\n")
    return site


def upper(*numbers: int) -> bytes:
    """The file with these lines edited."""
    text = TEN
    for number in numbers:
        text = text.replace(f"line {number}\n", f"LINE {number}\n")
    return text.encode()


def test_an_agents_undo_counts_its_own_session_only(mixed: Site) -> None:
    mixed.agent.call("undo", last=2)
    assert mixed.bytes_of("a.txt") == upper(1, 3, 9)
    assert not (mixed.root / "dir").exists()


def test_a_persons_undo_counts_all_sessions(mixed: Site) -> None:
    mixed.person.call("undo", last=2)
    assert mixed.bytes_of("a.txt") == upper(1, 3, 5)
    assert not (mixed.root / "dir").exists()


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ({"session": "conv-2", "last": 9}, (1, 5)),
        ({"agent": "other"}, (1, 3, 5)),
        ({"agent": "tester", "paths": ["a.txt"]}, (1, 3, 9)),
        ({"paths": ["a.txt"], "last": 3}, (1,)),
        ({"paths": ["dir", "a.txt"], "session": "conv-1", "last": 2}, (1, 3, 9)),
        ({"paths": ["."], "last": 9}, ()),
    ],
)
def test_a_persons_undo_is_filtered(
    mixed: Site, filters: dict[str, Any], left: tuple[int, ...]
) -> None:
    mixed.person.call("undo", **filters)
    assert mixed.bytes_of("a.txt") == upper(*left)


def test_an_agents_undo_is_filtered_by_path_however_it_is_spelled(mixed: Site) -> None:
    for number, path in enumerate(["a.txt", f"{mixed.root}/a.txt"]):
        mixed.agent.call("undo", paths=[path])
        assert mixed.bytes_of("a.txt") == upper(*[(1, 3, 9), (3, 9)][number])
    assert (mixed.root / "dir/b.txt").exists()
    assert mixed.agent.refusal("undo", paths=["./a.txt"]).kind == "nothing_to_undo"


@pytest.mark.parametrize(
    ("path", "taken_back"),
    [
        ("b.txt", ["dir/b.txt"]),
        (".", ["dir/a.txt", "dir/b.txt"]),
        ("../a.txt", ["a.txt"]),
        ("to-deep/../a.txt", ["other/a.txt"]),  # as the system and every other call have it
    ],
)
def test_paths_are_relative_to_the_sessions_directory_and_go_through_its_links(
    mixed: Site, path: str, taken_back: list[str]
) -> None:
    mixed.overwrite("dir/a.txt", "in dir\n")
    mixed.overwrite("other/a.txt", "in another\n")
    (mixed.root / "other/deep").mkdir()
    (mixed.root / "dir/to-deep").symlink_to("../other/deep")
    inside = mixed.greeted(
        mixed.daemon.agent(), session="conv-1", workspace=str(mixed.root / "dir")
    )
    undo = inside.call("undo", paths=[path], preview=True)
    assert taken_back[:1] == [file["path"] for file in undo["files"]]
    rollback = inside.call("rollback", paths=[path], to="HEAD~7", preview=True)
    assert taken_back == [file["path"] for file in rollback["files"]]


def test_a_private_file_comes_back_private(site: Site) -> None:
    site.root.chmod(0o700)
    site.overwrite("key", "one\n")
    undo = site.agent.call("undo")["commit"]
    assert not (site.root / "key").exists()
    site.agent.call("undo", commits=[undo])
    assert (site.root / "key").stat().st_mode & 0o777 == 0o600
    assert site.bytes_of("key") == b"one\n"


def test_a_new_file_whose_mode_a_person_changed_is_not_removed(site: Site) -> None:
    site.overwrite("a.sh", "one\n")
    (site.root / "a.sh").chmod(0o755)
    assert site.agent.refusal("undo").kind == "conflict"
    assert (site.root / "a.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("what", ["fifo", "link out", "parent link out", "parent link in"])
def test_undo_never_follows_what_took_the_place_of_a_file(site: Site, what: str) -> None:
    outside = site.root.parent / f"{site.root.name}-outside"
    outside.mkdir()
    (outside / "a.txt").write_text("two\n")
    site.write("dir/a.txt", "one\n")
    edit = site.replace("dir/a.txt", "one", "two")["commit"]
    file = site.root / "dir/a.txt"
    file.unlink()
    match what:
        case "fifo":
            os.mkfifo(file)
        case "link out":
            file.symlink_to(outside / "a.txt")
        case "parent link in":
            file.parent.rmdir()
            site.write("moved/a.txt", "two\n")
            file.parent.symlink_to("moved")
        case _:
            file.parent.rmdir()
            file.parent.symlink_to(outside)
    before = site.picture()
    for client in (site.agent, site.person):
        refusal = client.refusal("undo", commits=[edit])
        assert refusal.kind in ("conflict", "not_a_file", "path_outside_workspace")
        assert "a.txt" in refusal.message
        assert site.picture() == before
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("a.txt", "two\n")]
