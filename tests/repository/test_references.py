"""References as files: what git sees, names that are none, durability, packed ones."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.running_daemon import git
from stetd.repository.references import (
    HISTORY,
    PINS,
    DamagedReference,
    delete_pin,
    pin_names,
    pinned_id,
    read_reference,
    set_pin,
    why_no_pin_name,
    write_reference,
)
from stetd.repository.shadow_repo import create_repository
from stetd.storage.disk import Disk, NotRegular
from storage.histories import Histories


@pytest.fixture
def made(tmp_path: Path) -> Histories:
    histories = Histories(tmp_path)
    for number in range(3):
        histories.commit({"a": f"{number}\n"})
    return histories


def test_git_shows_a_pin_and_gc_keeps_it(made: Histories) -> None:
    set_pin(made.path, "before-refactoring", made.oids[0], Disk())
    assert git(made.path, "for-each-ref", "refs/pins") == (
        f"{made.oids[0]} commit\trefs/pins/before-refactoring\n"
    )
    assert (
        git(made.path, "log", "-1", "--format=%H", "pins/before-refactoring").strip()
        == (made.oids[0])
    )
    os.unlink(made.repository.reference_path)
    git(made.path, "gc", "-q", "--prune=now")
    assert git(made.path, "rev-list", "--all").split() == [made.oids[0]]
    assert pinned_id(made.path, "before-refactoring") == made.oids[0]


class FullDisk(Disk):
    def write_all(self, fd: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("name", [HISTORY, f"{PINS}/new"])
def test_what_a_full_disk_leaves_of_a_reference_is_none_to_git(made: Histories, name: str) -> None:
    """A historian that started on a full disk left one that ended `git log --all`."""
    with pytest.raises(OSError, match="No space left"):
        write_reference(made.path, name, made.oids[0], FullDisk())
    assert git(made.path, "log", "--all", "--format=%H").split() == made.oids[::-1]
    git(made.path, "fsck", "--strict")
    write_reference(made.path, name, made.oids[0], Disk())
    assert read_reference(made.path, name) == made.oids[0]


def test_a_pin_may_be_moved_and_deleted_also_when_it_is_packed(made: Histories) -> None:
    for name in ("one", "two", "three"):
        set_pin(made.path, name, made.oids[0], Disk())
    git(made.path, "pack-refs", "--all", "--prune")
    assert not Path(made.path, "refs/pins/one").exists()
    assert pin_names(made.path) == ["one", "three", "two"]
    set_pin(made.path, "one", made.oids[1], Disk())
    set_pin(made.path, "two", made.oids[2], Disk())
    assert pinned_id(made.path, "one") == made.oids[1]
    delete_pin(made.path, "two", Disk())
    delete_pin(made.path, "three", Disk())
    assert pin_names(made.path) == ["one"]
    assert [line.split()[2] for line in git(made.path, "for-each-ref").splitlines()] == [
        "refs/heads/history",
        "refs/pins/one",
    ]
    assert read_reference(made.path, "refs/heads/history") == made.oids[2]


def test_with_a_pin_of_a_packed_tag_its_commit_goes_as_well(made: Histories) -> None:
    name = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    git(made.path, *name, "tag", "-a", "-m", "a tag", "v1", made.oids[0])
    set_pin(made.path, "one", git(made.path, "rev-parse", "v1").strip(), Disk())
    git(made.path, "pack-refs", "--all", "--prune")
    delete_pin(made.path, "one", Disk())
    git(made.path, "tag", "-d", "v1")
    assert git(made.path, "show-ref", "-d") == f"{made.oids[2]} refs/heads/history\n"


@pytest.mark.parametrize("content", [b"", b"\0" * 41, b"ref: refs/heads/history\n", b"a" * 39])
def test_a_reference_without_an_id_is_damaged(made: Histories, content: bytes) -> None:
    set_pin(made.path, "x", made.oids[0], Disk())
    Path(made.path, "refs/pins/x").write_bytes(content)
    with pytest.raises(DamagedReference):
        read_reference(made.path, "refs/pins/x")
    assert pinned_id(made.path, "x") == ""
    assert pin_names(made.path) == ["x"]


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", ".hidden", "a..b", "a.lock", "a.tmp", "a.", "a/b", "/a", "a/../b", "-d",
        "a b", "a\n", "a\0", "ü", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "@{1}",
        "HEAD", "head", "Head", "abcd", "ABCD", "0000", "deadbeef", "a" * 40, "x" * 101,
    ],
)  # fmt: skip
def test_what_is_no_name_for_a_pin(made: Histories, name: str) -> None:
    assert why_no_pin_name(name) is not None
    assert pinned_id(made.path, name) is None


@pytest.mark.parametrize("name", ["a", "abc", "v1.0", "before_refactoring-2", "abcdefg", "x" * 100])
def test_what_is_a_name_for_a_pin(name: str) -> None:
    assert why_no_pin_name(name) is None


@given(st.text(st.sampled_from("ab.-_/~@{HEADlock0 "), max_size=12))
def test_git_takes_every_name_that_is_taken_here(name: str) -> None:
    if why_no_pin_name(name) is None:
        subprocess.run(["git", "check-ref-format", f"refs/pins/{name}"], check=True)


def test_a_pin_is_durable_before_it_counts(made: Histories) -> None:
    done: list[str] = []

    class Watched(Disk):
        def fsync(self, fd: int) -> None:
            done.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), made.path))
            super().fsync(fd)

    set_pin(made.path, "x", made.oids[0], Watched())
    assert done == ["refs/pins/x.lock", "refs/pins"]
    done.clear()
    delete_pin(made.path, "x", Watched())
    assert done == ["refs/pins"]
    set_pin(made.path, "x", made.oids[0], Disk())
    git(made.path, "pack-refs", "--all", "--prune")
    done.clear()
    delete_pin(made.path, "x", Watched())
    assert done == ["packed-refs.tmp", "."]


def test_what_a_kill_left_of_a_pin_is_no_pin_and_is_cleared(made: Histories) -> None:
    left = Path(made.path, "refs/pins/x.tmp")
    left.write_bytes(b"ab")
    assert pin_names(made.path) == []
    create_repository(made.path, Disk())
    assert not left.exists()


@pytest.mark.timeout(10)
def test_a_pipe_keeps_no_writer_waiting(made: Histories) -> None:
    path = os.path.join(made.path, PINS, "a")
    os.mkfifo(path + ".lock")
    with pytest.raises(OSError, match="No such device"):
        set_pin(made.path, "a", made.oids[0], Disk())
    os.rename(path + ".lock", path)
    with pytest.raises(NotRegular):
        Disk().sync_path(path)
    set_pin(made.path, "a", made.oids[0], Disk())
    assert read_reference(made.path, f"{PINS}/a") == made.oids[0]
