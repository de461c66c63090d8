"""Git objects as values: ids, trees and images, without a repository.

The writer computes every id itself, so that a commit's id is known when its journal
record is written, and the objects can reach the repository later. Formats are Git's:
an object's id is SHA-1 over ``<kind> <length>\\0<content>``; a tree is a sequence of
``<octal mode> <name>\\0<20-byte id>`` ordered by name, directories as if they ended in ``/``.
"""

from __future__ import annotations

import hashlib
import stat
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

FILE = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000
TREE = 0o40000
#: The mode of a directory in a stored entry.
TREE_MODE = b"%o" % TREE

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def object_id(kind: str, content: bytes) -> str:
    """The id (40 hex digits) of an object of this kind with this content."""
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def is_utf8(text: bytes) -> bool:
    """Whether bytes are valid UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


class Image(msgspec.Struct, frozen=True, array_like=True):
    """The content of a path: blob id and the full ``st_mode`` (type and permission bits)."""

    oid: str
    mode: int

    @property
    def git_mode(self) -> int:
        """The mode as Git keeps it: 100644, 100755 or 120000."""
        if stat.S_ISLNK(self.mode):
            return LINK
        return EXECUTABLE if self.mode & stat.S_IXUSR else FILE


def same_image(one: Image | None, other: Image | None) -> bool:
    """Whether two places hold the same to Git; None is no file."""
    if one is None or other is None:
        return one is other
    return (one.oid, one.git_mode) == (other.oid, other.git_mode)


class NewObject(NamedTuple):
    """An object to be written to the repository."""

    kind: str
    oid: str
    content: bytes


class Entry(NamedTuple):
    """One entry of a tree; ``tree`` is set once a subtree has been loaded."""

    mode: int
    oid: str
    tree: Tree | None = None


#: Gives the entries of a stored tree by name; the mapping must not be changed.
LoadTree = Callable[[str], Mapping[str, Entry]]
Change = tuple[int, str] | None  # (git mode, blob id), None removes


def file_of(entry: Entry | None) -> Change:
    """The file of an entry; None if it is a directory, or not there."""
    return (entry.mode, entry.oid) if entry is not None and entry.mode != TREE else None


def _row(name: str, entry: Entry) -> bytes:
    return b"%o %s\0%s" % (entry.mode, name.encode(), bytes.fromhex(entry.oid))


def order_key(mode: bytes, name: bytes) -> bytes:
    """What entries are ordered by: directories as if they ended in a slash."""
    return name + b"/" if mode == TREE_MODE else name


def _order(row: bytes) -> bytes:
    mode, _, rest = row.partition(b" ")
    return order_key(mode, rest[: rest.index(0)])


def _rows(entries: Mapping[str, Entry]) -> list[bytes]:
    return sorted((_row(*item) for item in entries.items()), key=_order)


def _change_row(rows: list[bytes], name: str, was: Entry | None, now: Entry | None) -> None:
    """Replace, add or remove the row of one entry. Its place may change with its mode."""
    if was is not None:
        del rows[bisect_left(rows, _order(_row(name, was)), key=_order)]
    if now is not None:
        insort(rows, _row(name, now), key=_order)


class Tree(msgspec.Struct, eq=False):
    """An immutable directory; changing one gives a new one that shares what did not change.

    Subtrees are loaded when first needed, so the memory held is that of the touched
    directories, whatever the length of the history.
    """

    entries: Mapping[str, Entry]
    oid: str
    _rows: list[bytes] | None = None

    @property
    def rows(self) -> list[bytes]:
        """The entries as they are stored, in order; must not be changed.

        They are kept: a directory may have tens of thousands of entries, and a call changes one.
        """
        if self._rows is None:
            self._rows = _rows(self.entries)
        return self._rows


def tree_content(entries: Mapping[str, Entry]) -> bytes:
    """The content of the tree object with these entries."""
    return b"".join(_rows(entries))


def stored_tree(oid: str, load: LoadTree) -> Tree:
    """The tree with this id, its entries loaded (its subtrees not yet)."""
    if oid == EMPTY_TREE:
        return Tree({}, EMPTY_TREE)
    return Tree(load(oid), oid)


def _child(tree: Tree, name: str, load: LoadTree) -> Tree | None:
    entry = tree.entries.get(name)
    if entry is None or entry.mode != TREE:
        return None
    return entry.tree or stored_tree(entry.oid, load)


def _directory(tree: Tree, names: Iterable[str], load: LoadTree) -> Tree | None:
    for name in names:
        child = _child(tree, name, load)
        if child is None:
            return None
        tree = child
    return tree


def find_entry(tree: Tree, path: str, load: LoadTree) -> tuple[int, str] | None:
    """(git mode, id) of the blob or link at ``path``; None if there is none."""
    *parents, name = path.split("/")
    folder = _directory(tree, parents, load)
    return file_of(folder.entries.get(name)) if folder is not None else None


def has_directory(tree: Tree, path: str, load: LoadTree) -> bool:
    """Whether the tree has files in a directory at ``path``."""
    return _directory(tree, path.split("/"), load) is not None


def paths_in_the_way(tree: Tree, path: str, load: LoadTree) -> list[str]:
    """Files of the tree that can't exist if ``path`` is a file.

    That is a file where ``path`` needs a directory, or files below ``path`` itself:
    someone turned the one into the other outside the daemon.
    """
    *parents, name = path.split("/")
    above = ""
    for parent in parents:
        child = _child(tree, parent, load)
        if child is None:
            return [above + parent] if parent in tree.entries else []
        tree = child
        above += f"{parent}/"
    below = _child(tree, name, load)
    return [file for file, _, now in changed_paths(None, below, load, f"{path}/") if now]


def _changed(
    tree: Tree, changes: Mapping[tuple[str, ...], Change], load: LoadTree, new: list[NewObject]
) -> Tree:
    entries = dict(tree.entries)
    deeper: dict[str, dict[tuple[str, ...], Change]] = {}
    for parts, change in changes.items():
        if len(parts) > 1:
            deeper.setdefault(parts[0], {})[parts[1:]] = change
        elif change is None:
            if parts[0] in entries and entries[parts[0]].mode != TREE:
                del entries[parts[0]]
        else:
            entries[parts[0]] = Entry(*change)
    for name, below in deeper.items():
        child = _child(tree, name, load) or Tree({}, EMPTY_TREE)
        changed = _changed(child, below, load, new)
        if changed.entries:
            entries[name] = Entry(TREE, changed.oid, changed)
        elif name in entries and entries[name].mode == TREE:
            del entries[name]
    rows = list(tree.rows)
    for name in {parts[0] for parts in changes}:
        was, now = tree.entries.get(name), entries.get(name)
        if was is not now:
            _change_row(rows, name, was, now)
    content = b"".join(rows)
    result = Tree(entries, object_id("tree", content), rows)
    if entries:
        new.append(NewObject("tree", result.oid, content))
    return result


def change_tree(
    tree: Tree, changes: Iterable[tuple[str, Change]], load: LoadTree
) -> tuple[Tree, list[NewObject]]:
    """The tree with these paths set or removed, and the tree objects that are new.

    Only the directories along the touched paths are rewritten.
    """
    new: list[NewObject] = []
    result = _changed(tree, {tuple(p.split("/")): c for p, c in changes}, load, new)
    if not result.entries:
        new.append(NewObject("tree", EMPTY_TREE, b""))
    return result, new


def changed_paths(
    old: Tree | None, new: Tree | None, load: LoadTree, prefix: str = ""
) -> Iterator[tuple[str, Change, Change]]:
    """Every (path, before, after) that differs between two trees, in name order.

    Equal subtrees are not opened: the cost is that of the difference.
    """
    before = old.entries if old else {}
    after = new.entries if new else {}
    # Trees of tens of thousands of entries mostly differ in one; sets find it soonest.
    for name in sorted({name for name, _ in before.items() ^ after.items()}):
        one, two = before.get(name), after.get(name)
        if one and two and (one.mode, one.oid) == (two.mode, two.oid):
            continue
        old_tree = _child(old, name, load) if old else None
        new_tree = _child(new, name, load) if new else None
        was, now = file_of(one), file_of(two)
        if was or now:
            yield prefix + name, was, now
        if old_tree or new_tree:
            yield from changed_paths(old_tree, new_tree, load, f"{prefix}{name}/")
