"""The shadow repository: made durably, read by git, merging, prefixes, isolation."""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e2e.running_daemon import git
from stetd.history.commits import CommitMeta, commit_object
from stetd.history.objects import EMPTY_TREE, FILE, NewObject, Tree, change_tree, object_id
from stetd.repository.merging import merge_file
from stetd.repository.references import write_shallow
from stetd.repository.shadow_repo import ShadowRepository, create_repository
from stetd.storage.disk import Disk
from storage.histories import blob


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "shadow")
    create_repository(made, Disk())
    return made


@pytest.fixture
def repository(path: str) -> Iterator[ShadowRepository]:
    opened = ShadowRepository(path)
    yield opened
    opened.close()


def commits(repository: ShadowRepository, count: int) -> list[str]:
    parent, oids = None, []
    for n in range(count):
        meta = CommitMeta(kind="edit", time=n, subject=f"number {n}")
        commit = commit_object(meta, EMPTY_TREE, parent)
        repository.write([NewObject("tree", EMPTY_TREE, b""), commit])
        parent = commit.oid
        oids.append(commit.oid)
    repository.set_head(oids[-1])
    return oids


@pytest.mark.usefixtures("no_collector")
def test_a_handle_that_is_closed_takes_along_what_it_remembers(
    path: str, repository: ShadowRepository
) -> None:
    [*_, newest] = commits(repository, 3)
    handle = ShadowRepository(path)
    assert 3 == len(list(handle.walk(newest)))
    assert [] == list(handle.changed(None, EMPTY_TREE))
    gc.collect()
    handle.close()
    del handle
    assert 0 == gc.collect()


def test_what_differs_is_told_whether_it_came_or_went(repository: ShadowRepository) -> None:
    file = FILE, blob(b"content").oid
    paths = ["a", "d/b", "d/e/c", "f"]
    tree, trees = change_tree(
        Tree({}, EMPTY_TREE), [(path, file) for path in paths], repository.load_tree
    )
    repository.write([blob(b"content"), *trees])
    assert list(repository.changed(None, tree.oid)) == [(path, None, file) for path in paths]
    assert list(repository.changed(tree.oid, EMPTY_TREE)) == [(path, file, None) for path in paths]
    assert list(repository.changed(tree.oid, tree.oid)) == []


@pytest.mark.usefixtures("no_collector")
def test_a_merge_leaves_nothing_to_the_garbage_collector() -> None:
    merge_file(b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n")
    merge_file(b"a\n", b"b\n", b"c\n")
    merge_file(b"a\n", b"", b"")
    assert 0 == gc.collect()


def test_a_handle_that_is_opened_again_knows_where_the_history_was_cut_off(
    path: str, repository: ShadowRepository
) -> None:
    oids = commits(repository, 4)
    assert oids[::-1] == [commit.oid for commit in repository.walk(oids[3])]
    write_shallow(path, oids[2], Disk())
    repository.reopen()
    assert [oids[3], oids[2]] == [commit.oid for commit in repository.walk(oids[3])]


def test_new_repository_is_bare_private_and_empty_to_git(path: str) -> None:
    assert git(path, "rev-parse", "--is-bare-repository") == "true\n"
    assert git(path, "symbolic-ref", "HEAD") == "refs/heads/history\n"
    assert git(path, "config", "core.hooksPath") == "/dev/null\n"
    assert git(path, "fsck", "--strict") == ""
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    assert not os.path.exists(os.path.join(path, "hooks"))


def test_files_of_a_new_repository_are_synced_before_their_directories(tmp_path: Path) -> None:
    synced: list[str] = []

    class Watched(Disk):
        def fsync(self, fd: int) -> None:
            synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path / "shadow"))

    create_repository(str(tmp_path / "shadow"), Watched())
    assert synced[:4] == ["HEAD.tmp", ".", "config.tmp", "."]
    assert set(synced[4:]) == {
        ".", "objects", "objects/info", "objects/pack",
        "refs", "refs/heads", "refs/pins", "refs/tags",
    }  # fmt: skip


def test_making_it_again_changes_nothing(path: str, repository: ShadowRepository) -> None:
    [oid] = commits(repository, 1)
    git(path, "config", "user.note", "kept")
    create_repository(path, Disk())
    assert git(path, "rev-parse", "history") == oid + "\n"
    assert git(path, "config", "user.note") == "kept\n"


def test_half_made_repository_is_completed(tmp_path: Path) -> None:
    (tmp_path / "shadow" / "objects").mkdir(parents=True)
    (tmp_path / "shadow" / "HEAD.lock").write_bytes(b"ref: refs/he")
    create_repository(str(tmp_path / "shadow"), Disk())
    assert git(str(tmp_path / "shadow"), "fsck", "--strict") == ""
    assert not (tmp_path / "shadow" / "HEAD.lock").exists()


def test_leftovers_of_a_killed_process_are_cleared(path: str) -> None:
    names = ["config.lock", "refs/heads/history.lock", "objects/pack/pack-1.idx.tmp"]
    for name in names:
        Path(path, name).write_bytes(b"")
    create_repository(path, Disk())
    assert [name for name in names if Path(path, name).exists()] == []


def test_git_variables_and_user_configuration_are_ignored(
    path: str, repository: ShadowRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n\tbare = nonsense\n[include]\n\tpath = x\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", "/nonexistent")
    repository.write([blob(b"x")])
    again = ShadowRepository(path)
    assert again.blob(object_id("blob", b"x")) == b"x"
    again.close()


def test_walk_goes_from_the_head_to_the_beginning(repository: ShadowRepository) -> None:
    oids = commits(repository, 3)
    assert repository.head() == oids[-1]
    assert [commit.oid for commit in repository.walk(repository.head())] == oids[::-1]
    assert list(repository.walk(None)) == []


@pytest.mark.parametrize("damage", [b"", b"\0" * 41, b"nonsense\n"])
def test_damaged_reference_is_replaced(repository: ShadowRepository, damage: bytes) -> None:
    [oid] = commits(repository, 1)
    Path(repository.reference_path).write_bytes(damage)
    repository.set_head(oid)
    assert Path(repository.reference_path).read_text() == oid + "\n"


# -- merging


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\xff\n", "d"]), max_size=7).map("".join)


@given(base=LINES, ours=LINES, theirs=LINES)
@settings(max_examples=60, deadline=None)
def test_merging_is_that_of_git_merge_file(base: str, ours: str, theirs: str) -> None:
    sides = [side.encode("latin-1") for side in (ours, base, theirs)]
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for name, content in zip(("ours", "base", "theirs"), sides, strict=True):
            names.append(os.path.join(folder, name))
            Path(names[-1]).write_bytes(content)
        done = subprocess.run(["git", "merge-file", "-p", *names], capture_output=True, check=False)
    merged, hunks = merge_file(sides[1], sides[0], sides[2])
    assert (merged is None) == (done.returncode != 0)
    if merged is not None:
        assert merged == done.stdout
    else:
        assert len(hunks) == done.returncode


@given(base=LINES, ours=LINES)
@settings(max_examples=30, deadline=None)
def test_merging_with_an_unchanged_side_gives_the_other(base: str, ours: str) -> None:
    one, two = base.encode("latin-1"), ours.encode("latin-1")
    assert merge_file(one, two, one)[0] == two
    assert merge_file(one, one, two)[0] == two


def test_binary_files_are_not_merged() -> None:
    hunks = ["this is a binary file; it was changed since"]
    assert merge_file(b"a\0", b"b", b"c") == (None, hunks)
