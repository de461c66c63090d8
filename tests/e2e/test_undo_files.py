"""What undo does about one file, row by row of the table in docs/decisions/0010-taking-back.md."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.running_daemon import Site, envelope, running

FIVE = "1\n2\n3\n4\n5\n"


def move(site: Site, old: str, new: str, old_line: str = "", new_line: str = "") -> str:
    """Move a file as an agent does, perhaps changing a line; the commit."""
    hunk = ["@@", f"-{old_line}", f"+{new_line}"] if old_line else []
    return str(site.agent.move(old, new, *hunk)["commit"])


def delete(site: Site, path: str) -> str:
    """Delete a file as an agent does; the commit."""
    return str(site.agent.delete(path)["commit"])


def files(site: Site) -> dict[str, bytes]:
    """Every regular file of the workspace."""
    found = (path for path in site.root.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(site.root)): path.read_bytes() for path in found}


def refused(site: Site, commit: str, reason: str, kind: str = "conflict") -> None:
    """An undo that must be refused for this reason, by the agent and the person."""
    before = site.picture()
    for client in (site.agent, site.person):
        refusal = client.refusal("undo", commits=[commit])
        assert (refusal.kind, reason in refusal.message) == (kind, True), refusal.message
        assert site.picture() == before


# -- moved since


def test_a_file_that_a_rollback_brought_back_under_its_old_name_is_undone_there(
    site: Site,
) -> None:
    made = site.overwrite("a.txt", FIVE)["commit"]
    move(site, "a.txt", "b.txt")
    site.person.call("undo", commits=[made])
    site.person.call("rollback", to=made)
    assert files(site) == {"a.txt": FIVE.encode()}
    site.person.call("undo", commits=[made])
    assert files(site) == {}


def test_edits_of_a_file_whose_deletion_is_taken_back_with_them_mean_that_file(site: Site) -> None:
    """Though another was moved to its name after that, and on to a third."""
    site.write("a.txt", FIVE)
    site.write("b.txt", "b\n")
    edit = site.replace("a.txt", "2\n", "TWO\n")["commit"]
    gone = delete(site, "a.txt")
    move(site, "b.txt", "a.txt")
    move(site, "a.txt", "c.txt")
    site.person.call("undo", commits=[gone, edit])
    assert files(site) == {"a.txt": FIVE.encode(), "c.txt": b"b\n"}


def test_moved_since_the_edit_is_taken_back_under_the_new_name(site: Site) -> None:
    site.write("a.txt", FIVE)
    edit = site.replace("a.txt", "2\n", "TWO\n")["commit"]
    move(site, "a.txt", "dir/b.txt", "4", "FOUR")
    move(site, "dir/b.txt", "c.txt", "FOUR", "four")
    result = site.agent.call("undo", commits=[edit])
    assert files(site) == {"c.txt": b"1\n2\n3\nfour\n5\n"}
    assert [(each["path"], each["status"]) for each in result["files"]] == [("c.txt", "M")]
    site.agent.call("redo")
    assert files(site) == {"c.txt": b"1\nTWO\n3\nfour\n5\n"}


def test_an_edit_between_two_moves_that_were_taken_back_is_undone_under_the_first_name(
    site: Site,
) -> None:
    site.write("a.txt", FIVE)
    first = move(site, "a.txt", "b.txt")
    edit = site.replace("b.txt", "2\n", "TWO\n")["commit"]
    second = move(site, "b.txt", "c.txt")
    site.person.call("undo", commits=[first, second])
    assert files(site) == {"a.txt": FIVE.replace("2", "TWO").encode()}
    site.person.call("undo", commits=[edit])
    assert files(site) == {"a.txt": FIVE.encode()}


def test_moved_since_a_creation_is_taken_back_under_the_new_name(site: Site) -> None:
    edit = site.overwrite("new/a.txt", FIVE)["commit"]
    move(site, "new/a.txt", "b.txt")
    site.agent.call("undo", commits=[edit])
    assert files(site) == {}
    assert not (site.root / "new").exists()


def test_a_move_is_taken_back_with_what_came_later(site: Site) -> None:
    site.write("a.sh", FIVE, mode=0o750)
    moved = move(site, "a.sh", "dir/b.sh", "2", "TWO")
    site.replace("dir/b.sh", "4\n", "FOUR\n")
    result = site.agent.call("undo", commits=[moved])
    assert files(site) == {"a.sh": b"1\n2\n3\nFOUR\n5\n"}
    assert (site.root / "a.sh").stat().st_mode & 0o777 == 0o750
    assert not (site.root / "dir").exists()
    [change] = result["files"]
    assert (change["path"], change["status"], change["old_path"]) == ("a.sh", "R", "dir/b.sh")
    site.agent.call("redo")
    assert files(site) == {"dir/b.sh": b"1\nTWO\n3\nFOUR\n5\n"}
    assert (site.root / "dir/b.sh").stat().st_mode & 0o777 == 0o750


def test_moves_that_are_taken_back_together_are_one_move(site: Site) -> None:
    site.write("a.txt", FIVE)
    first = move(site, "a.txt", "b.txt")
    second = move(site, "b.txt", "c.txt")
    [change] = site.agent.call("undo", commits=[first, second])["files"]
    assert (change["path"], change["status"], change["old_path"]) == ("a.txt", "R", "c.txt")


def test_an_undo_of_a_move_is_itself_followed(site: Site) -> None:
    site.write("a.txt", FIVE)
    edit = site.replace("a.txt", "2\n", "TWO\n")["commit"]
    moved = move(site, "a.txt", "b.txt")
    late = site.replace("b.txt", "4\n", "FOUR\n")["commit"]
    site.agent.call("undo", commits=[moved])
    site.agent.call("undo", commits=[late, edit])
    assert files(site) == {"a.txt": FIVE.encode()}


def test_everything_of_a_session_with_moves_is_taken_back(site: Site) -> None:
    site.write("a.txt", FIVE)
    site.replace("a.txt", "2\n", "TWO\n")
    move(site, "a.txt", "b.txt", "4", "FOUR")
    site.overwrite("a.txt", "another\n")
    move(site, "b.txt", "c.txt")
    site.agent.call("undo", last=99)
    assert files(site) == {"a.txt": FIVE.encode()}


def test_a_move_that_was_moved_on_is_a_conflict(site: Site) -> None:
    site.write("a.txt", FIVE)
    first = move(site, "a.txt", "b.txt")
    move(site, "b.txt", "c.txt")
    refused(site, first, "this file was moved on since, to c.txt")


def test_a_move_whose_old_name_is_taken_is_a_conflict(site: Site) -> None:
    site.write("a.txt", FIVE)
    first = move(site, "a.txt", "b.txt")
    site.write("a.txt", "mine\n")
    refused(site, first, "something else stands here since")


# -- deleted, created


def test_deleted_since_is_a_conflict(site: Site) -> None:
    site.write("a.txt", FIVE)
    edit = site.replace("a.txt", "2\n", "TWO\n")["commit"]
    delete(site, "a.txt")
    refused(site, edit, "this file was deleted since")


def test_a_deletion_is_taken_back_unless_something_new_is_there(site: Site) -> None:
    site.write("dir/a.txt", FIVE, mode=0o600)
    site.replace("dir/a.txt", "2\n", "TWO\n")
    gone = delete(site, "dir/a.txt")
    site.write("dir/a.txt", "new\n")
    refused(site, gone, "the commit deleted this file; it was created again since")
    (site.root / "dir/a.txt").unlink()
    site.agent.call("undo", commits=[gone])
    assert files(site) == {"dir/a.txt": b"1\nTWO\n3\n4\n5\n"}
    assert (site.root / "dir/a.txt").stat().st_mode & 0o777 == 0o600


def test_created_and_deleted_since_stays_deleted(site: Site) -> None:
    edit = site.overwrite("a.txt", FIVE)["commit"]
    delete(site, "a.txt")
    result = site.agent.call("undo", commits=[edit])
    assert (result["files"], files(site)) == ([], {})


# -- contents


def test_binary_changed_since_is_a_conflict_and_else_comes_back(site: Site) -> None:
    site.write("a.bin", b"\0one")
    edit = site.overwrite("a.bin", "text\n")["commit"]
    site.write("a.bin", b"\0two")
    refused(site, edit, "this is a binary file; it was changed since")
    site.write("a.bin", "text\n")
    site.agent.call("undo", commits=[edit])
    assert files(site) == {"a.bin": b"\0one"}


@pytest.mark.parametrize("number", range(40))
def test_merging_gives_what_git_merge_file_gives(site: Site, number: int) -> None:
    """Terminators, a BOM, bytes that are no UTF-8, no newline at the end, an empty file."""
    dice = random.Random(number)
    pieces = [b"one", b"two \xe9", b"", b"\xff\xfe", b"caf\xc3\xa9", b"\ttab", b"x \r"]
    ends = [b"\n", b"\r\n", b"\n", b"\r\n\n"]
    head = dice.choice([b"", b"\xef\xbb\xbf"])
    lines = [b"%d " % n + dice.choice(pieces) + dice.choice(ends) for n in range(8)]
    if dice.random() < 0.5:
        lines[-1] = lines[-1].rstrip(b"\r\n")
    before = head + b"".join(lines)
    site.write("a.txt", before)
    edit = site.agent.call(
        "patch",
        path="a.txt",
        patches=[{"operation": "replace", "oldText": f"{dice.randrange(8)} ", "newText": "NEW\n"}],
    )["commit"]
    after = site.bytes_of("a.txt")
    now = after.splitlines(keepends=True)
    for _ in range(dice.randrange(1, 3)):
        at = dice.randrange(len(now) + 1)
        now[at : at + dice.randrange(2)] = [b"by hand\xff" + dice.choice([*ends, b""])]
    site.write("a.txt", b"".join(now))
    expected = git_merge(after, b"".join(now), before)
    if expected is None:
        refused(site, edit, "the same or adjacent lines were changed since")
    else:
        site.agent.call("undo", commits=[edit])
        assert site.bytes_of("a.txt") == expected


def git_merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """What ``git merge-file`` makes of it; None: a conflict."""
    with tempfile.TemporaryDirectory() as name:
        paths = []
        for number, content in enumerate((ours, base, theirs)):
            path = Path(name, str(number))
            path.write_bytes(content)
            paths.append(str(path))
        done = subprocess.run(["git", "merge-file", "-p", *paths], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def test_an_empty_file_is_a_file(site: Site) -> None:
    site.write("a.txt", "")
    edit = site.overwrite("a.txt", "x\n")["commit"]
    made = site.overwrite("b.txt", "")["commit"]
    site.agent.call("undo", commits=[edit])
    assert files(site) == {"a.txt": b"", "b.txt": b""}
    site.agent.call("undo", commits=[made])
    assert files(site) == {"a.txt": b""}


# -- modes


def test_an_execution_bit_set_since_stays(site: Site) -> None:
    site.write("a.sh", FIVE)
    edit = site.replace("a.sh", "2\n", "TWO\n")["commit"]
    (site.root / "a.sh").chmod(0o755)
    site.agent.call("undo", commits=[edit])
    assert files(site) == {"a.sh": FIVE.encode()}
    assert (site.root / "a.sh").stat().st_mode & 0o777 == 0o755


def test_an_execution_bit_that_a_commit_set_is_taken_back(site: Site) -> None:
    """Only a person sets one; the person may take that back."""
    site.write("a.sh", FIVE)
    site.replace("a.sh", "2\n", "TWO\n")
    (site.root / "a.sh").chmod(0o755)
    outside = site.replace("a.sh", "4\n", "FOUR\n")["outside"]
    site.person.call("undo", commits=[outside])
    assert files(site) == {"a.sh": b"1\nTWO\n3\nFOUR\n5\n"}
    assert (site.root / "a.sh").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o700, 0o444])
def test_permission_bits_that_git_cannot_say_stay_and_come_back(site: Site, mode: int) -> None:
    site.write("a.txt", FIVE, mode=mode)
    edit = site.replace("a.txt", "2\n", "TWO\n")["commit"]
    site.agent.call("undo", commits=[edit])
    assert (site.root / "a.txt").stat().st_mode & 0o777 == mode
    delete(site, "a.txt")
    site.agent.call("undo")
    assert (site.root / "a.txt").stat().st_mode & 0o777 == mode


# -- links and directories


def test_a_link_that_a_person_made_and_unmade_is_in_the_history(site: Site) -> None:
    site.write("a.txt", FIVE)
    site.write("b.txt", "b\n")
    edit = site.replace("a.txt", "2\n", "TWO\n")["commit"]
    (site.root / "a.txt").unlink()
    (site.root / "a.txt").symlink_to("b.txt")
    refused(site, edit, "this is, or was, a symbolic link; it was changed since")
    restored = site.person.call("restore", path="a.txt", at=edit)
    site.person.call("undo", commits=[restored["commit"]])
    assert os.readlink(site.root / "a.txt") == "b.txt"
    site.person.call("redo")
    assert files(site) == {"a.txt": b"1\nTWO\n3\n4\n5\n", "b.txt": b"b\n"}


def test_a_private_file_whose_place_a_link_took_comes_back_private(site: Site) -> None:
    site.write("a.txt", FIVE, mode=0o600)
    site.replace("a.txt", "2\n", "TWO\n")
    tool = {"tool": "Bash", "use": "1"}
    site.agent.call("observe", phase="before", **tool)
    (site.root / "a.txt").unlink()
    (site.root / "a.txt").symlink_to("b.txt")
    observed = site.agent.call("observe", phase="after", **tool)["commit"]
    for _ in range(2):
        undone = site.agent.call("undo", commits=[observed])["commit"]
        assert (site.root / "a.txt").lstat().st_mode == 0o100600
        site.agent.call("redo", commits=[undone])
        assert os.readlink(site.root / "a.txt") == "b.txt"


@pytest.mark.parametrize("link", [False, True])
def test_a_private_file_that_a_person_removed_comes_back_private(site: Site, link: bool) -> None:
    site.write("a.txt", FIVE, mode=0o600)
    site.replace("a.txt", "2\n", "TWO\n")
    (site.root / "a.txt").unlink()
    if link:
        (site.root / "a.txt").symlink_to("b.txt")
    found = site.agent.call("observe", phase="before", tool="Bash", use="1")["outside"]
    site.person.call("undo", commits=[found])
    assert (site.root / "a.txt").lstat().st_mode == 0o100600


@pytest.mark.parametrize("name", [" ", "a ", " a", "\u00a0", "\x85"])
def test_white_space_at_the_ends_of_a_name_is_part_of_it(site: Site, name: str) -> None:
    site.write(name, FIVE, mode=0o600)
    site.replace(name, "2\n", "TWO\n")
    (site.root / name).unlink()
    found = site.agent.call("observe", phase="before", tool="Bash", use="1")["outside"]
    site.person.call("undo", commits=[found])
    assert (site.root / name).stat().st_mode == 0o100600
    site.overwrite(f"new{name}/b.txt", "b\n")
    site.agent.call("undo")
    assert os.listdir(site.root) == [name]


@pytest.mark.parametrize(("plain", "private"), [(0o644, 0o600), (0o755, 0o600), (0o644, 0o700)])
def test_permission_bits_come_and_go_with_a_move_that_is_taken_back_and_redone(
    site: Site, plain: int, private: int
) -> None:
    site.write("a.txt", FIVE, plain)
    tool = {"tool": "Bash", "use": "1"}
    site.agent.call("observe", phase="before", **tool)
    site.write("a.txt", FIVE + "6\n", private)
    site.agent.call("observe", phase="after", **tool)
    move(site, "a.txt", "b.txt")
    for _ in range(2):
        site.person.call("undo", last=2)
        assert (site.root / "a.txt").lstat().st_mode & 0o777 == plain
        site.person.call("redo")
        assert (site.root / "b.txt").lstat().st_mode & 0o777 == private


@pytest.mark.parametrize(
    ("before", "after"), [(0o644, 0o600), (0o600, 0o644), (0o600, 0o755), (0o700, 0o644)]
)
def test_permission_bits_that_a_person_changed_with_the_text_come_back(
    site: Site, before: int, after: int
) -> None:
    site.write("a.txt", FIVE, before)
    edit = site.replace("a.txt", "2\n", "TWO\n")["commit"]
    site.write("a.txt", "another\n", after)
    found = site.agent.call("observe", phase="before", tool="Bash", use="1")["outside"]
    taking_back = [
        ("undo", {"commits": [found]}),
        ("rollback", {"to": edit, "include_outside": True}),
    ]
    for method, params in taking_back * 2:
        site.person.call(method, **params)
        assert site.bytes_of("a.txt") == FIVE.replace("2", "TWO").encode()
        assert (site.root / "a.txt").lstat().st_mode & 0o777 == before
        site.person.call("redo")
        assert site.bytes_of("a.txt") == b"another\n"
        assert (site.root / "a.txt").lstat().st_mode & 0o777 == after


def test_permission_bits_that_a_person_gave_a_file_since_stay(site: Site) -> None:
    site.write("a.txt", FIVE, 0o600)
    site.replace("a.txt", "2\n", "TWO\n")
    site.write("a.txt", "another\n", 0o644)
    found = site.agent.call("observe", phase="before", tool="Bash", use="1")["outside"]
    (site.root / "a.txt").chmod(0o640)
    site.person.call("undo", commits=[found])
    assert (site.root / "a.txt").lstat().st_mode & 0o777 == 0o640


def test_permission_bits_that_a_shell_command_changed_with_the_name_come_back(site: Site) -> None:
    site.write("a.txt", FIVE)
    tool = {"tool": "Bash", "use": "1"}
    site.agent.call("observe", phase="before", **tool)
    (site.root / "a.txt").rename(site.root / "b.txt")
    (site.root / "b.txt").chmod(0o600)
    site.agent.call("observe", phase="after", **tool)
    site.person.call("undo")
    assert (site.root / "a.txt").lstat().st_mode & 0o777 == 0o644
    site.person.call("redo")
    assert (site.root / "b.txt").lstat().st_mode & 0o777 == 0o600


def test_a_directory_in_the_way_is_a_conflict(site: Site) -> None:
    site.write("a", FIVE)
    edit = site.replace("a", "2\n", "TWO\n")["commit"]
    (site.root / "a").unlink()
    site.write("a/below.txt", "x\n")
    refused(site, edit, "a: later changes are in the way, so nothing was changed: this is a dir")


def test_who_put_a_directory_in_a_files_place_is_named_though_it_is_taken_back_too(
    site: Site,
) -> None:
    site.write("a", FIVE)
    gone = delete(site, "a")
    made = site.overwrite("a/below.txt", "x\n")["commit"]
    for commits in ([gone], [gone, made]):
        refusal = site.person.refusal("undo", commits=commits)
        assert refusal.message.endswith(f" Changed since by: {made[:8]} (tester/conv-1).")
        assert refusal.data["conflicts"][0]["commits"] == [made]
    site.person.call("undo", commits=[made])
    site.person.call("undo", commits=[gone])
    assert site.bytes_of("a") == FIVE.encode()


def test_who_put_a_file_in_a_directorys_place_is_named(site: Site) -> None:
    site.write("dir/a.txt", FIVE)
    gone = delete(site, "dir/a.txt")
    (site.root / "dir").rmdir()
    made = site.overwrite("dir", "a file\n")["commit"]
    refused(site, gone, f", first. Changed since by: {made[:8]} (tester/conv-1).")


def test_a_file_where_a_directory_is_needed_is_a_conflict(site: Site) -> None:
    site.write("dir/a.txt", FIVE)
    gone = delete(site, "dir/a.txt")
    if (site.root / "dir").exists():
        (site.root / "dir").rmdir()
    site.write("dir", "a file\n")
    refused(site, gone, "dir is not a directory")


def test_what_a_command_put_in_a_files_place_is_moved_away_first(site: Site) -> None:
    site.write("a", FIVE)
    tool = {"tool": "Bash", "use": "1"}
    site.agent.call("observe", phase="before", **tool)
    (site.root / "a").unlink()
    site.write("a/below.txt", "x\n")
    swapped = site.agent.call("observe", phase="after", **tool)["commit"]
    refused(site, swapped, ". Take back by itself what put that there, or move it away, first.")
    (site.root / "a").rename(site.root / "aside")
    site.person.call("undo", commits=[swapped])
    assert site.bytes_of("a") == FIVE.encode()


def test_a_file_and_one_below_its_name_cannot_both_come_back(site: Site) -> None:
    site.write("a", FIVE)
    deletions = [delete(site, "a")]
    site.write("a/b.txt", FIVE)
    deletions.append(delete(site, "a/b.txt"))
    (site.root / "a").rmdir()
    before = site.picture()
    for preview in (True, False):
        refusal = site.person.refusal("undo", commits=deletions, preview=preview)
        assert refusal.kind == "conflict"
        assert refusal.data["conflicts"][0]["path"] == "a/b.txt"
        assert "a comes back as a file, so nothing can be below it" in refusal.message
        assert site.picture() == before


def test_a_directory_that_is_gone_is_made_again(site: Site) -> None:
    site.write("dir/deep/a.txt", FIVE)
    gone = delete(site, "dir/deep/a.txt")
    for name in ("dir/deep", "dir"):
        if (site.root / name).exists():
            (site.root / name).rmdir()
    site.agent.call("undo", commits=[gone])
    assert files(site) == {"dir/deep/a.txt": FIVE.encode()}


# -- several files


def test_a_file_over_the_limit_is_refused(limited: Site) -> None:
    limited.write("a.txt", FIVE)
    edit = limited.replace("a.txt", "2\n", "TWO\n")["commit"]
    limited.write("a.txt", b"x" * 5000)
    refused(limited, edit, "a.txt: this file has 5,000 bytes", kind="file_too_large")
    refusal = limited.person.refusal("restore", path="a.txt", at=edit)
    assert refusal.kind == "file_too_large"
    (limited.root / "a.txt").unlink()
    limited.person.call("restore", path="a.txt", at=edit)
    assert files(limited) == {"a.txt": b"1\nTWO\n3\n4\n5\n"}


@pytest.fixture
def limited() -> Any:
    """A workspace of a daemon that takes files up to 4,096 bytes."""
    with running({"max_file_bytes": 4096}) as daemon:
        yield daemon.site("w")


def test_what_stood_before_the_oldest_commit_is_not_guessed(site: Site) -> None:
    """Where old history was dropped, the oldest commit has every file, and no parent."""
    site.write("a.txt", FIVE)
    edit = site.replace("a.txt", "2\n", "TWO\n")["commit"]
    site.git("log", "-1")
    shallow = Path(site.shadow, "shallow")
    shallow.write_text(f"{edit}\n")
    try:
        refused(site, edit, "was dropped to save space", kind="nothing_to_undo")
    finally:
        shallow.unlink()


def test_the_shadow_repository_is_sound_after_all_of_it(site: Site) -> None:
    site.write("a.txt", FIVE)
    first = move(site, "a.txt", "b.txt", "2", "TWO")
    site.agent.call("undo")
    site.agent.call("redo")
    site.person.call("rollback", to="HEAD~3")
    assert files(site) == {"a.txt": FIVE.encode()}
    assert site.fsck() == ""
    trailer = site.git("log", "-1", "--format=%(trailers:key=Stet-Moved,valueonly)", first)
    assert trailer.strip() == '["a.txt","b.txt"]'


@pytest.mark.parametrize(("first", "second"), [(0o600, 0o644), (0o755, 0o600), (0o640, 0o600)])
def test_undone_swap_gives_each_file_its_own_bits_again(
    site: Site, first: int, second: int
) -> None:
    site.write("a.txt", "secret\n", mode=first)
    site.write("b.txt", "public\n", mode=second)
    steps = [("a.txt", "c.txt"), ("b.txt", "a.txt"), ("c.txt", "b.txt")]
    moves = "".join(f"*** Update File: {old}\n*** Move to: {new}\n" for old, new in steps)
    swapped = site.agent.call("apply_patch", input=f"*** Begin Patch\n{moves}*** End Patch")

    def state() -> list[tuple[str, int]]:
        found = [site.root / name for name in ("a.txt", "b.txt")]
        return [(path.read_text(), path.stat().st_mode & 0o777) for path in found]

    assert state() == [("public\n", second), ("secret\n", first)]
    site.agent.call("undo", commits=[swapped["commit"]])
    assert state() == [("secret\n", first), ("public\n", second)]
    site.agent.call("redo")
    assert state() == [("public\n", second), ("secret\n", first)]


def test_permission_bits_are_taken_back_where_the_file_is_now(site: Site) -> None:
    private = site.write("a.txt", "one\n", mode=0o600)
    tool = {"paths": ["a.txt"], "use": "u", "tool": "Bash"}
    site.agent.call("observe", phase="before", **tool)
    site.write("a.txt", "two\n", mode=0o640)
    opened = site.agent.call("observe", phase="after", **tool)["commit"]
    move(site, "a.txt", "b.txt")
    site.agent.call("undo", commits=[opened])
    assert not private.exists()
    assert site.bytes_of("b.txt") == b"one\n"
    assert (site.root / "b.txt").stat().st_mode & 0o777 == 0o600


def test_an_execution_bit_comes_back_though_a_later_commit_changed_other_bits(site: Site) -> None:
    site.write("a.txt", "one\n", mode=0o755)
    site.write("b.txt", "two\n", mode=0o775)
    tool = {"paths": ["a.txt", "b.txt"], "tool": "Bash"}
    site.agent.call("observe", phase="before", use="1", **tool)
    site.write("a.txt", "saved\n", mode=0o644)
    first = site.agent.call("observe", phase="after", use="1", **tool)["commit"]
    site.agent.call("observe", phase="before", use="2", **tool)
    for old, new in (("a.txt", "c.txt"), ("b.txt", "a.txt"), ("c.txt", "b.txt")):
        (site.root / old).rename(site.root / new)
    second = site.agent.call("observe", phase="after", use="2", **tool)["commit"]
    site.agent.call("undo", commits=[first, second])
    assert site.bytes_of("a.txt") == b"one\n"
    assert (site.root / "a.txt").stat().st_mode & 0o777 == 0o755
    assert (site.root / "b.txt").stat().st_mode & 0o777 == 0o775


def test_a_file_comes_back_executable_though_its_other_bits_were_recorded_later(
    site: Site,
) -> None:
    file = site.write("a.txt", "one\n", mode=0o755)
    tool = {"paths": ["a.txt"], "tool": "Bash"}
    changes: list[Callable[[], object]] = [
        lambda: file.chmod(0o644),
        lambda: site.write("a.txt", "two\n", 0o600),
        file.unlink,
    ]
    for use, change in enumerate(changes):
        site.agent.call("observe", phase="before", use=str(use), **tool)
        change()
        site.agent.call("observe", phase="after", use=str(use), **tool)
    site.agent.call("undo", last=3)
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("one\n", 0o755)


def test_an_undo_that_changed_only_permission_bits_is_told_and_can_be_taken_back(
    site: Site,
) -> None:
    file = site.write("a.txt", "one\n", mode=0o600)
    tool = {"paths": ["a.txt"], "use": "u", "tool": "Bash"}
    site.agent.call("observe", phase="before", **tool)
    site.write("a.txt", "two\n", mode=0o640)
    opened = site.agent.call("observe", phase="after", **tool)["commit"]
    site.overwrite("a.txt", "one\n")
    modes = []
    for method, params in (("undo", {"commits": [opened]}), ("redo", {}), ("undo", {"last": 2})):
        done = site.agent.call(method, **params)
        modes.append(file.stat().st_mode & 0o777)
        assert [("a.txt", "M", 0, 0)] == [
            (each["path"], each["status"], each["added"], each["removed"]) for each in done["files"]
        ]
        assert site.log(limit=1)[0]["files"] == done["files"]
        assert site.log(limit=1, path="a.txt")[0]["commit"] == done["commit"]
    assert modes == [0o600, 0o640, 0o600]
    assert file.read_text() == "one\n"


def bits(site: Site) -> dict[str, int]:
    """The permission bits of every file."""
    return {path: stat.S_IMODE((site.root / path).stat().st_mode) for path in files(site)}


def test_a_rollback_gives_a_file_its_own_bits_though_another_has_its_name(site: Site) -> None:
    site.write("a.txt", FIVE, mode=0o4644)
    site.write("b.txt", "b\n", mode=0o664)
    seen = site.overwrite("b.txt", "new\n")["outside"]
    delete(site, "b.txt")
    move(site, "a.txt", "b.txt", "2", "TWO")
    site.person.call("rollback", to=seen)
    assert bits(site) == {"a.txt": 0o4644, "b.txt": 0o664}


def test_an_edit_is_taken_back_where_a_move_to_its_name_was_taken_back(site: Site) -> None:
    """The name was free when the other file came there: now it has its own file again."""
    made = site.overwrite("c.txt", "new\n")["commit"]
    site.write("a.txt", FIVE)
    gone = delete(site, "c.txt")
    moved = move(site, "a.txt", "c.txt")
    for each in (moved, gone, made):
        site.agent.call("undo", commits=[each])
    assert files(site) == {"a.txt": FIVE.encode()}


def test_a_rollback_over_an_undo_that_left_the_file_alone_gives_what_was_there(site: Site) -> None:
    """The content was put back before the undo, and is not executable: all the same, as it was."""
    site.write("a.sh", "one\n", mode=0o755)
    edit = site.replace("a.sh", "one", "two")
    tool = {"paths": ["a.sh"], "tool": "Bash", "use": "u"}
    site.agent.call("observe", phase="before", **tool)
    site.write("a.sh", "one\n", mode=0o644)
    site.agent.call("observe", phase="after", **tool)
    assert site.agent.call("undo", commits=[edit["commit"]])["files"] == []
    site.person.call("rollback", to=edit["outside"])
    assert (files(site), bits(site)) == ({"a.sh": b"one\n"}, {"a.sh": 0o755})


def test_a_rollback_over_an_undo_that_left_the_file_alone_keeps_what_a_person_wrote(
    site: Site,
) -> None:
    """No step finds the file as its commit left it, so the undo has to be known for what it was."""
    site.write("a.txt", FIVE)
    edit = site.replace("a.txt", "2\n", "TWO\n")
    site.replace("a.txt", "TWO\n", "2\n")
    assert site.agent.call("undo", commits=[edit["commit"]])["files"] == []
    site.write("a.txt", FIVE + "mine\n")
    site.person.call("rollback", to=edit["outside"])
    assert files(site) == {"a.txt": (FIVE + "mine\n").encode()}


def test_a_rollback_gives_what_was_there_though_an_undo_had_less_to_do_than_it_names(
    site: Site,
) -> None:
    """It took back a move, and an edit that another agent had put back already."""
    site.write("a.txt", FIVE)
    start = site.overwrite("z.txt", "z\n")["commit"]
    move(site, "a.txt", "b.txt")
    site.replace("b.txt", "2\n", "TWO\n")
    change = {"search": "TWO\n", "replace": "2\n"}
    put_back = site.another("conv-2").call("patch_file", path="b.txt", changes=[change])["commit"]
    site.agent.call("undo", last=2)
    before = files(site)
    rollback = site.person.call("rollback", to=start)
    assert rollback["undone"] == [put_back]
    assert files(site) == {"a.txt": FIVE.encode(), "z.txt": b"z\n"}
    site.person.call("undo", commits=[rollback["commit"]])
    assert files(site) == before


@pytest.mark.parametrize("others", [False, True])
def test_a_rollback_over_an_undo_that_left_a_moved_file_alone_gives_what_was_there(
    site: Site, others: bool
) -> None:
    """The move had put the line back, so there was nothing to undo."""
    site.write("a.txt", FIVE)
    start = site.overwrite("c.txt", "c\n")["commit"]
    more = "*** Update File: c.txt\n@@\n-c\n+C\n" if others else ""
    patch = f"*** Begin Patch\n*** Update File: a.txt\n@@\n-2\n+TWO\n{more}*** End Patch"
    edit = site.agent.call("apply_patch", input=patch)["commit"]
    move(site, "a.txt", "b.txt", "TWO", "2")
    assert len(site.agent.call("undo", commits=[edit])["files"]) == others
    site.person.call("rollback", to=start)
    assert files(site) == {"a.txt": FIVE.encode(), "c.txt": b"c\n"}


def regrade(site: Site, path: str, mode: int) -> str:
    """A shell command of the agent changes the permission bits of a file."""
    tool = {"paths": [path], "tool": "Bash", "use": f"{path} {mode}"}
    site.agent.call("observe", phase="before", **tool)
    (site.root / path).chmod(mode)
    commit: str = site.agent.call("observe", phase="after", **tool)["commit"]
    return commit


def test_a_rollback_gives_a_private_file_its_bits_though_some_were_undone_and_redone(
    site: Site,
) -> None:
    """Without the undo and the redo, the swaps between them would not find the bits they left."""
    site.write("a.txt", "public\n", mode=0o755)
    site.write("b.txt", "secret\n", mode=0o600)
    start = site.overwrite("z.txt", "z\n")["commit"]
    opened = regrade(site, "b.txt", 0o755)
    site.person.call("undo", commits=[opened])
    (site.root / "a.txt").chmod(0o4755)
    steps = [("a.txt", "c.txt"), ("b.txt", "a.txt"), ("c.txt", "b.txt")]
    moves = "".join(f"*** Update File: {old}\n*** Move to: {new}\n" for old, new in steps)
    for _ in "12":
        site.agent.call("apply_patch", input=f"*** Begin Patch\n{moves}*** End Patch")
    site.person.call("redo")
    site.person.call("rollback", to=start)
    assert bits(site) == {"a.txt": 0o4755, "b.txt": 0o600, "z.txt": 0o644}
    assert site.bytes_of("b.txt") == b"secret\n"


def test_a_rollback_leaves_the_bits_that_a_person_gave_a_file_after_an_undo(site: Site) -> None:
    """What is undone already is not gone through where a file is not as the commits left it."""
    site.write("a.txt", "secret\n", mode=0o755)
    site.write("b.txt", "secret\n")
    start = site.overwrite("z.txt", "z\n")["commit"]
    regrade(site, "a.txt", 0o600)
    delete(site, "b.txt")
    site.person.call("undo", last=2)
    (site.root / "a.txt").chmod(0o700)
    (site.root / "b.txt").chmod(0o600)
    last = site.overwrite("z.txt", "zz\n")["commit"]
    assert site.person.call("rollback", to=start)["undone"] == [last]
    assert bits(site) == {"a.txt": 0o700, "b.txt": 0o600, "z.txt": 0o644}


def test_a_rollback_leaves_what_a_person_redid_by_hand(site: Site) -> None:
    start = site.overwrite("a.txt", "one\n")["commit"]
    site.overwrite("a.txt", "two\n")
    site.person.call("undo", last=1)
    site.write("a.txt", "two\n")
    last = site.overwrite("z.txt", "z\n")["commit"]
    assert site.person.call("rollback", to=start)["undone"] == [last]
    assert files(site) == {"a.txt": b"two\n"}


def test_a_rollback_does_not_fail_for_files_that_only_undone_commits_changed() -> None:
    with running({"max_file_bytes": 4096, "max_call_files": 3}) as daemon:
        site = daemon.site("w")
        start = site.overwrite("z.txt", "z\n")["commit"]
        edits = [site.overwrite(name, "new\n")["commit"] for name in ("x.txt", "y.txt", "z.txt")]
        for name in "abcd":
            site.overwrite(name, "one\n")
            site.person.call("undo", last=1)
        site.write("a", "x" * 5000)
        assert site.person.call("rollback", to=start)["undone"] == edits[::-1]
        assert sorted(files(site)) == ["a", "z.txt"]


def test_bits_come_back_with_a_file_whose_name_a_moved_link_had_before(site: Site) -> None:
    (site.root / "link").symlink_to("nowhere")
    site.write("private", "one\n", mode=0o600)
    site.agent.move("link", "name")
    there = ["*** Delete File: name", "*** Update File: private", "*** Move to: name"]
    site.agent.call("apply_patch", input=envelope(*there))
    undone = site.agent.call("undo", last=2)
    assert (site.root / "private").stat().st_mode & 0o777 == 0o600
    site.agent.call("undo", commits=[undone["commit"]])
    assert (site.root / "name").stat().st_mode & 0o777 == 0o600


def test_an_undo_says_of_one_file_only_that_it_was_moved_from_a_name(site: Site) -> None:
    for name in ("a", "b", "c"):
        site.write(name, f"{name}\n")
    site.agent.move("a", "name")
    there = ["*** Delete File: b", "*** Update File: name", "*** Move to: b"]
    site.agent.call("apply_patch", input=envelope(*there))
    site.agent.move("c", "name")
    files = site.agent.call("undo", last=3)["files"]
    told = {each["path"]: (each["status"], each.get("old_path")) for each in files}
    assert told == {"a": ("A", None), "b": ("M", None), "c": ("R", "name")}
