"""Looking into stored trees, and comparing them, at the cost of what is looked for.

:mod:`stetd.history.objects` does the same on trees as values, which are made of all entries of
a directory; here a directory of 50,000 files stays what it is on disk: bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stetd.history.objects import EMPTY_TREE, TREE, Change, Entry
from stetd.history.tree_bytes import differing, entries_of, find_in
from stetd.repository.recent import Recent

#: Bytes of trees that are kept for the next question, with what it takes to keep one: a
#: small directory is smaller than that.
_KEPT_BYTES, _TO_KEEP_ONE = 4 << 20, 320


class StoredTrees:
    """The trees of a repository. ``read`` gives an object's content, or raises."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._kept: Recent[str, bytes] = Recent(_KEPT_BYTES, least=2)

    def find(self, tree: str, path: str) -> tuple[int, str] | None:
        """(git mode, id) of the blob or link at a path; None if there is none."""
        *parents, name = path.split("/")
        for parent in parents:
            child = find_in(self._content(tree), parent)
            if child is None or child.mode != TREE:
                return None
            tree = child.oid
        entry = find_in(self._content(tree), name)
        return (entry.mode, entry.oid) if entry is not None and entry.mode != TREE else None

    def changed(
        self, old: str | None, new: str | None, prefix: str = ""
    ) -> Iterator[tuple[str, Change, Change]]:
        """Every (path, before, after) that differs between two trees, in name order.

        None is no tree.
        """
        if old == new:
            return
        before, after = self._differing(old, new)
        for name in sorted({*before, *after}):
            one, two = before.get(name), after.get(name)
            was, now = _file(one), _file(two)
            if was or now:
                yield prefix + name, was, now
            if _tree(one) or _tree(two):
                yield from self.changed(_tree(one), _tree(two), f"{prefix}{name}/")

    def _differing(
        self, old: str | None, new: str | None
    ) -> tuple[dict[str, Entry], dict[str, Entry]]:
        if old is None or new is None:
            one, two = (entries_of(self._content(oid)) if oid else {} for oid in (old, new))
            return one, two
        return differing(self._content(old), self._content(new))

    def _content(self, oid: str) -> bytes:
        if oid == EMPTY_TREE:
            return b""
        content = self._kept.get(oid)
        if content is None:
            content = self._read(oid)
            self._kept.keep(oid, content, len(content) + _TO_KEEP_ONE)
        return content


def _file(entry: Entry | None) -> Change:
    return (entry.mode, entry.oid) if entry is not None and entry.mode != TREE else None


def _tree(entry: Entry | None) -> str | None:
    return entry.oid if entry is not None and entry.mode == TREE else None
