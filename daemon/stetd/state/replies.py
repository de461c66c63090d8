"""Answering a request from the record of the one before it with the same id.

The record has everything but the diff, which is made again from the history.
"""

from __future__ import annotations

from stet.wire.results import EditResult, FileChange
from stetd.history.line_diffs import line_diff
from stetd.history.objects import EMPTY_TREE, Tree, find_entry, stored_tree
from stetd.repository.stored_objects import MissingObject, StoredObjects


def recorded_diff(repository: StoredObjects, result: EditResult) -> str:
    """The diff of a recorded result, made again from the history."""
    if result.commit is None:
        return ""
    try:
        stored = repository.commit(result.commit)
        parent = repository.commit(stored.parent).tree if stored.parent else EMPTY_TREE
        before = stored_tree(parent, repository.load_tree)
        after = stored_tree(stored.tree, repository.load_tree)
        files = [file for file in result.files if not file.excluded]
        return "".join(_diff_of_file(repository, before, after, file) for file in files)
    except MissingObject:
        return ""


def _diff_of_file(repository: StoredObjects, before: Tree, after: Tree, file: FileChange) -> str:
    old = find_entry(before, file.old_path or file.path, repository.load_tree)
    new = find_entry(after, file.path, repository.load_tree)
    return line_diff(
        file.path,
        repository.blob(old[1]) if old else None,
        repository.blob(new[1]) if new else None,
        old_path=file.old_path,
        modes=(old[0] if old else None, new[0] if new else None),
        ids=(old[1] if old else None, new[1] if new else None),
    ).text
