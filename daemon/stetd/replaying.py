"""Answering a request from the record of the one before it with the same id.

The record has everything but the diff, which is made again from the history.
"""

from __future__ import annotations

from stet.wire.results import EditResult, FileChange
from stetd.history.objects import EMPTY_TREE, Tree, find_entry, stored_tree
from stetd.storage.shadow_repo import MissingObject, line_diff
from stetd.workspace import Workspace


def recorded_diff(workspace: Workspace, result: EditResult) -> str:
    """The diff of a recorded result, made again from the history."""
    if result.commit is None:
        return ""
    try:
        before, after = _trees_around(workspace, result.commit)
        files = [file for file in result.files if not file.excluded]
        return "".join(_diff_of_file(workspace, before, after, file) for file in files)
    except MissingObject:
        return ""


def _trees_around(workspace: Workspace, commit: str) -> tuple[Tree, Tree]:
    repository = workspace.repository
    stored = repository.commit(commit)
    before = Tree({}, EMPTY_TREE)
    if stored.parent is not None:
        before = stored_tree(repository.commit(stored.parent).tree, repository.load_tree)
    return before, stored_tree(stored.tree, repository.load_tree)


def _diff_of_file(workspace: Workspace, before: Tree, after: Tree, file: FileChange) -> str:
    repository = workspace.repository
    old = find_entry(before, file.old_path or file.path, repository.load_tree)
    new = find_entry(after, file.path, repository.load_tree)
    return line_diff(
        file.path,
        repository.blob(old[1]) if old else None,
        repository.blob(new[1]) if new else None,
        old_path=file.old_path,
        modes=(old[0] if old else None, new[0] if new else None),
    ).text
