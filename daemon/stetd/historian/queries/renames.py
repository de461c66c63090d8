"""Renames between two trees: a file that went and a file that came with much the same content.

As in Git, half of the content must be the same; what is exactly the same goes first. Commits know
what they have moved (``Stet-Moved``); two trees with commits between them don't.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from stetd.historian.queries.commit_changes import PathChange
from stetd.history.git_patch import likeness, lines
from stetd.repository.stored_objects import StoredObjects

_LEAST_ALIKE = 0.5
#: Pairs of files whose contents are compared at most, and the bytes of such a file.
_MOST_PAIRS, _MOST_BYTES = 2_500, 1 << 20
_LINK = 0o120000
#: Path to mode and blob id.
_Files = dict[str, tuple[int, str]]


def with_renames(repository: StoredObjects, changes: Sequence[PathChange]) -> list[PathChange]:
    """The changes, by their paths; a deletion and an addition that are a rename are one."""
    found = {change.path: change for change in changes}
    gone = {c.path: c.before for c in changes if c.after is None and c.before is not None}
    new = {c.path: c.after for c in changes if c.before is None and c.after is not None}
    for pairs in (_same, _alike):
        for old_path, path in list(pairs(repository, gone, new)):
            if old_path in gone and path in new:
                found[path] = PathChange(path, gone.pop(old_path), new.pop(path), old_path)
                del found[old_path]
    return [found[path] for path in sorted(found)]


def _same(_: StoredObjects, gone: _Files, new: _Files) -> Iterator[tuple[str, str]]:
    """The paths of files that are exactly the same."""
    by_content: dict[tuple[int, str], list[str]] = {}
    for path, version in gone.items():
        by_content.setdefault(version, []).append(path)
    for path, version in new.items():
        yield from [(by_content[version].pop(0), path)] if by_content.get(version) else []


def _alike(repository: StoredObjects, gone: _Files, new: _Files) -> Iterator[tuple[str, str]]:
    """The paths of the others that are alike, most alike first."""
    if not 0 < len(gone) * len(new) <= _MOST_PAIRS:
        return
    before = {path: _lines(repository, version) for path, version in gone.items()}
    after = {path: _lines(repository, version) for path, version in new.items()}
    pairs = [
        (alike, old, path)
        for old in before
        for path in after
        if (alike := likeness(before[old], after[path])) >= _LEAST_ALIKE
    ]
    for _, old, path in sorted(pairs, reverse=True):
        yield old, path


def _lines(repository: StoredObjects, version: tuple[int, str]) -> Counter[bytes]:
    """The lines of a file; none of what is no text file of a sensible size."""
    content = repository.blob(version[1]) if version[0] != _LINK else b""
    return lines(content) if len(content) <= _MOST_BYTES else Counter()
