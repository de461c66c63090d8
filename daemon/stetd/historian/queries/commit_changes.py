"""A commit's changes, read from Git: its files with their changed lines, and its text.

A file that a commit moved (``Stet-Moved``) is one change with status R, as in the reply of the call
that moved it: its ``before`` is the content at the old path. The old path has no entry of its own
unless there is a new file. A file whose permission bits alone changed is one with status M.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from stet.wire.failures import Kind, refuse
from stet.wire.results import FileChange
from stetd.historian.index.history_index import FileRow, IndexedFile
from stetd.history.commits import StoredCommit
from stetd.history.git_patch import FileState, line_diff
from stetd.history.line_diffs import compare_lines, count_lines
from stetd.history.objects import Change
from stetd.repository.stored_objects import MissingObject, StoredObjects

#: Bytes of a file's two contents together up to which they are compared for the index.
_COMPARED_BYTES = 4 << 20
#: Characters of a commit's changed lines that are indexed at most.
_INDEXED_BYTES = 64 << 20
#: The same for one file.
_FILE_BYTES = 1 << 20
#: Characters of the largest answer: it is made, sent and read in memory.
_LARGEST_ANSWER = 64 << 20
#: Gives contents by their ids.
Blobs = Callable[[str], bytes]


class PathChange(NamedTuple):
    """The file at a path, or at ``old_path``, before and now."""

    path: str
    before: Change
    after: Change
    old_path: str | None = None
    #: A, M or D for a file that is excluded from the history; both sides are None then.
    excluded: str = ""

    @property
    def status(self) -> str:
        """A, M, D or R."""
        if self.excluded:
            return self.excluded
        if self.old_path is not None:
            return "R"
        return "A" if self.before is None else "D" if self.after is None else "M"


def trees_around(repository: StoredObjects, commit: StoredCommit) -> tuple[str | None, str]:
    """The ids of the trees before and after a commit; None before the first commit."""
    before = None if commit.parent is None else repository.commit(commit.parent).tree
    return before, commit.tree


def changes_of(repository: StoredObjects, commit: StoredCommit) -> Iterator[PathChange]:
    """The changes of a commit, ordered by path."""
    before, after = trees_around(repository, commit)
    changed = (PathChange(*change) for change in repository.changed(before, after))
    meta = commit.meta
    if not (meta.excluded or meta.regraded) and (before is None or not meta.moves):
        yield from changed
        return
    changes = {change.path: change for change in changed}
    find = repository.file_in
    for path, *_ in meta.regraded:  # perhaps its permission bits alone changed
        if path not in changes and (now := find(after, path)):
            changes[path] = PathChange(path, now, now)
    for old, new in meta.moves:
        stood, now = find(before, old) if before else None, find(after, new)
        if stood is None or now is None:
            continue
        if old in changes and changes[old].after is None:
            del changes[old]
        changes[new] = PathChange(new, stood, now, old)
    for status, path in meta.excluded:
        changes[path] = PathChange(path, None, None, excluded=status)
    yield from (changes[path] for path in sorted(changes))


def counted(blob: Blobs, row: FileRow) -> FileChange:
    """A row as in results; its lines are counted if it has no counts."""
    added, removed = row.added, row.removed
    if added is None or removed is None:
        added, removed = count_lines(*_contents(blob, row))
    return FileChange(
        path=row.path,
        status=row.status,
        before=row.before,
        after=row.after,
        added=added,
        removed=removed,
        old_path=row.old_path,
        excluded=row.before is None and row.after is None,
    )


def described(blob: Blobs, change: PathChange) -> tuple[FileChange, str]:
    """A change as in results, and its unified diff."""
    before, after = (state_of(blob, side) for side in (change.before, change.after))
    diff = line_diff(change.path, before, after, old_path=change.old_path)
    row = row_of(change)._replace(added=diff.added, removed=diff.removed)
    return counted(blob, row), diff.text


def state_of(blob: Blobs, known: Change) -> FileState | None:
    """A side of a change with its content; None if there is no file."""
    return FileState(*known, blob(known[1])) if known else None


def described_all(
    blob: Blobs, changes: Iterable[PathChange], what: str
) -> tuple[list[FileChange], str]:
    """Changes as in results, and their joined diffs.

    Raises Refused (file_too_large), which calls the diff ``what``.
    """
    files: list[FileChange] = []
    diffs: list[str] = []
    size = 0
    for change in changes:
        file, diff = described(blob, change)
        files.append(file)
        diffs.append(diff)
        size += len(diff)
        check_size(size, what)
    return files, "".join(diffs)


def check_size(size: int, what: str) -> None:
    """Refuse (file_too_large) an answer of more characters than _LARGEST_ANSWER."""
    if size > _LARGEST_ANSWER:
        raise refuse(
            Kind.FILE_TOO_LARGE,
            f"{what} has more than {_LARGEST_ANSWER >> 20} MiB, which is too much for one answer. "
            "Narrow it: `diff` and `export` take paths, and `export` a session, or from and to. Or "
            "use plain git on the shadow repository.",
        )


def _contents(blob: Blobs, row: FileRow) -> tuple[bytes | None, bytes | None]:
    return blob(row.before) if row.before else None, blob(row.after) if row.after else None


def files_to_index(repository: StoredObjects, commit: StoredCommit) -> Iterator[IndexedFile]:
    """A commit's changes, ordered by path."""
    room = _INDEXED_BYTES
    for change in changes_of(repository, commit):
        row, text = _file_row(repository, change)
        if text is not None and (len(text) > _FILE_BYTES or room < 0):
            text = None
        room -= len(text or "")
        yield IndexedFile(row, text)


def row_of(change: PathChange) -> FileRow:
    """A file's row without counts and hunks."""
    before, after = (side[1] if side else None for side in (change.before, change.after))
    return FileRow(change.path, change.status, before, after, change.old_path)


def _file_row(repository: StoredObjects, change: PathChange) -> tuple[FileRow, str | None]:
    """A file's row, and its added and removed lines (None: too much to be compared, or damaged)."""
    row = row_of(change)
    if row.before == row.after:
        return row._replace(added=0, removed=0, hunks=()), ""
    try:
        before, after = _contents(repository.blob, row)
    except MissingObject:
        return row, None
    if len(before or b"") + len(after or b"") > _COMPARED_BYTES:
        return row, None
    compared = compare_lines(before, after)
    row = row._replace(added=compared.added, removed=compared.removed, hunks=compared.hunks)
    return row, compared.text


def has_text(
    repository: StoredObjects, commit: StoredCommit, text: str, files: Iterable[FileRow]
) -> bool:
    """Whether a commit's message, or a line added to or removed from these files, has this text."""
    if text in commit.meta.message:
        return True
    if "\n" in text:
        return False
    sought = text.encode("utf-8", "replace")
    return any(
        _side_has(repository, file, sought)
        and text in compare_lines(*_contents(repository.blob, file)).text
        for file in files
    )


def _side_has(repository: StoredObjects, file: FileRow, sought: bytes) -> bool:
    """Whether the file has the text, before or after: cheaper to say than what changed."""
    if file.before == file.after:
        return False
    if b"\xef\xbf\xbd" in sought:  # in place of any byte that is no UTF-8
        return True
    return any(sought in repository.blob(oid) for oid in (file.before, file.after) if oid)
