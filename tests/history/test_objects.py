"""Trees built without a repository are those that Git builds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stetd.history.objects import (
    EMPTY_TREE,
    EXECUTABLE,
    FILE,
    LINK,
    Image,
    Tree,
    change_tree,
    changed_paths,
    find_entry,
    object_id,
    paths_in_the_way,
    same_image,
    stored_tree,
)
from stetd.repository.shadow_repo import ShadowRepository, create_repository
from stetd.storage.disk import Disk

Files = dict[str, tuple[int, str]]

#: Names whose order differs between files and directories (``a.b`` < ``a/`` < ``a0``).
NAMES = st.sampled_from(["a", "a.b", "a0", "a-b", "ab", "é", "B", "_"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
ENTRIES = st.tuples(
    st.sampled_from([FILE, EXECUTABLE, LINK]), st.sampled_from("1234").map(lambda c: c * 40)
)
CHANGES = st.dictionaries(PATHS, st.none() | ENTRIES, max_size=8)


class Repository:
    """A repository to load trees from, and Git's own opinion about them."""

    def __init__(self, path: str) -> None:
        create_repository(path, Disk())
        self._path = path
        self.shadow = ShadowRepository(path)
        self.load = self.shadow.load_tree

    def tree_of(self, files: Files) -> str:
        """The tree that git writes for these files."""
        listing = "".join(f"{mode:o} {oid}\t{path}\n" for path, (mode, oid) in files.items())
        environment = {**os.environ, "GIT_INDEX_FILE": self._path + ".index"}
        if os.path.exists(environment["GIT_INDEX_FILE"]):
            os.unlink(environment["GIT_INDEX_FILE"])
        output = b""
        for command in (["update-index", "--index-info"], ["write-tree", "--missing-ok"]):
            output = subprocess.run(
                ["git", "--git-dir", self._path, *command],
                input=listing.encode(), env=environment, capture_output=True, check=True,
            ).stdout  # fmt: skip
        return output.decode().strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    made = Repository(str(tmp_path_factory.mktemp("objects") / "shadow"))
    yield made
    made.shadow.close()


def without_conflicts(
    changes: dict[str, tuple[int, str] | None],
) -> dict[str, tuple[int, str] | None]:
    """Leave out what would make a path both a file and a directory in one change."""
    kept: dict[str, tuple[int, str] | None] = {}
    for path, change in changes.items():
        if not any(other.startswith(path + "/") or path.startswith(other + "/") for other in kept):
            kept[path] = change
    return kept


def applied(files: Files, changes: dict[str, tuple[int, str] | None]) -> Files:
    """What the changes leave: a file takes the place of a directory, and the other way round."""
    result = dict(files)
    for path, change in changes.items():
        if change is None:
            result.pop(path, None)
            continue
        for other in list(result):
            if other.startswith(path + "/") or path.startswith(other + "/"):
                del result[other]
        result[path] = change
    return result


@settings(max_examples=25, deadline=None)
@given(
    changes=st.lists(CHANGES.map(without_conflicts), min_size=1, max_size=3), reloaded=st.booleans()
)
def test_changed_trees_are_those_that_git_writes(
    repository: Repository, changes: list[dict[str, tuple[int, str] | None]], reloaded: bool
) -> None:
    tree, files = Tree({}, EMPTY_TREE), dict[str, tuple[int, str]]()
    for change in changes:
        before, old_files = tree, files
        tree, new = change_tree(tree, change.items(), repository.load)
        repository.shadow.write(new)
        files = applied(files, change)
        assert tree.oid == repository.tree_of(files)
        assert {path: now for path, _, now in changed_paths(None, tree, repository.load)} == files
        for path in change:
            assert find_entry(tree, path, repository.load) == files.get(path)
        assert {
            path: (old, now) for path, old, now in changed_paths(before, tree, repository.load)
        } == {
            path: (old_files.get(path), files.get(path))
            for path in {*old_files, *files}
            if old_files.get(path) != files.get(path)
        }
        if reloaded:
            tree = stored_tree(tree.oid, repository.load)


@given(st.binary(max_size=200))
@settings(max_examples=20, deadline=None)
def test_ids_are_those_of_git(content: bytes) -> None:
    hashed = subprocess.run(
        ["git", "hash-object", "--stdin"], input=content, capture_output=True, check=True
    ).stdout
    assert object_id("blob", content) == hashed.decode().strip()


def test_only_the_touched_directories_are_written(repository: Repository) -> None:
    blob = (FILE, "1" * 40)
    tree, new = change_tree(Tree({}, EMPTY_TREE), [("x/a", blob), ("y/b", blob)], repository.load)
    repository.shadow.write(new)
    _, new = change_tree(stored_tree(tree.oid, repository.load), [("x/c", blob)], repository.load)
    assert [kind for kind, _, _ in new] == ["tree", "tree"]


def test_removing_the_last_file_leaves_the_empty_tree(repository: Repository) -> None:
    blob = (FILE, "1" * 40)
    tree, _ = change_tree(Tree({}, EMPTY_TREE), [("x/y/a", blob)], repository.load)
    tree, new = change_tree(tree, [("x/y/a", None)], repository.load)
    assert tree.oid == EMPTY_TREE == object_id("tree", b"")
    assert new == [("tree", EMPTY_TREE, b"")]


def test_files_in_the_way_of_a_path(repository: Repository) -> None:
    blob = (FILE, "1" * 40)
    tree, _ = change_tree(
        Tree({}, EMPTY_TREE), [("f", blob), ("d/a", blob), ("d/e/b", blob)], repository.load
    )
    assert paths_in_the_way(tree, "f/x", repository.load) == ["f"]
    assert paths_in_the_way(tree, "d", repository.load) == ["d/a", "d/e/b"]
    assert paths_in_the_way(tree, "d/e", repository.load) == ["d/e/b"]
    assert paths_in_the_way(tree, "f", repository.load) == []
    assert paths_in_the_way(tree, "new/x", repository.load) == []


@pytest.mark.parametrize(
    ("mode", "git_mode"),
    [
        (0o100600, FILE),
        (0o100666, FILE),
        (0o100700, EXECUTABLE),
        (0o100655, FILE),
        (0o120777, LINK),
    ],
)
def test_git_keeps_of_the_permissions_only_whether_the_owner_may_execute(
    mode: int, git_mode: int
) -> None:
    assert Image("a" * 40, mode).git_mode == git_mode


def test_no_file_is_the_same_as_no_file_only() -> None:
    image = Image("a" * 40, 0o100644)
    assert same_image(None, None)
    assert same_image(image, Image("a" * 40, 0o100600))
    assert not same_image(image, None)
    assert not same_image(None, image)
    assert not same_image(image, Image("a" * 40, 0o100755))


def test_git_objects_module_needs_no_repository() -> None:
    """Pure: nothing of it touches a disk (import-linter holds the layer; this, the habit)."""
    source = Path(object_id.__code__.co_filename).read_text()
    assert "open(" not in source
