"""A history without some paths or contents: every commit that had them, and all after it, anew.

Who did what, when and why stays as it was. A commit that changed something that is left out
says so with ``Stet-Forgotten``, a line for each path; ``Stet-Reverts`` follows the commits that
it names. What stays the same is not written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from stetd.history.objects import EMPTY_TREE, TREE, Entry, Tree, files_under, object_id, stored_tree
from stetd.repository.packing import PackStream
from stetd.repository.stored_objects import StoredObjects
from stetd.storage.progress import Progress

_MOST_REMEMBERED = 20_000


class Unwanted(msgspec.Struct, frozen=True):
    """What goes: one path (a file, or a directory and all below it); and these blobs anywhere."""

    path: str
    blobs: frozenset[str] = frozenset()


@dataclass(slots=True)
class Rewriting:
    """Rewrites commits, oldest first. ``packs`` None: only looks what there would be to do."""

    repository: StoredObjects
    unwanted: Unwanted
    packs: PackStream | None
    progress: Progress
    #: Old ids to new ones, of the commits that are other ones now.
    names: dict[str, str] = field(default_factory=dict)
    #: The blobs that were left out, and where.
    blobs: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    #: How many commits changed what is left out.
    touched: int = 0
    #: The last commit that was looked at.
    last: str | None = None
    #: The tree of the last one, as it is now.
    tree: str = EMPTY_TREE
    _removed: Mapping[str, str] = field(default_factory=dict)
    _known: dict[tuple[str, str], tuple[str, Mapping[str, str]]] = field(default_factory=dict)

    def follow(self, head: str) -> None:
        """Rewrite all commits up to this one that were not looked at yet."""
        chain = bytearray()
        oid: str | None = head
        while oid is not None and oid != self.last:
            chain += bytes.fromhex(oid)
            self.progress.step()
            oid = self.repository.commit(oid).parent
        for at in range(len(chain) - 20, -1, -20):
            self._rewrite(chain[at : at + 20].hex())
            self.progress.step()

    def new_name(self, oid: str) -> str:
        """What a commit is called now."""
        return self.names.get(oid, oid)

    def _rewrite(self, oid: str) -> None:
        content = self.repository.raw_commit(oid)
        header, _, message = content.partition(b"\n\n")
        lines = header.split(b"\n")
        tree = lines[0][5:].decode()
        new_tree, removed = self._without(tree, "")
        changed = sorted(
            path
            for path in {*removed, *self._removed}
            if removed.get(path) != self._removed.get(path)
        )
        self._removed = removed
        self.last, self.tree = oid, new_tree
        self.blobs.update(removed.values())
        self.paths.update(removed)
        self.touched += bool(changed)
        lines[0] = b"tree " + new_tree.encode()
        if len(lines) > 1 and lines[1].startswith(b"parent "):
            lines[1] = b"parent " + self.new_name(lines[1][7:].decode()).encode()
        new = b"\n".join(lines) + b"\n\n" + self._message(message, changed)
        if new == content:
            return
        new_oid = object_id("commit", new)
        self.names[oid] = new_oid
        if self.packs is not None:
            self.packs.add("commit", new_oid, new)

    def _message(self, message: bytes, changed: list[str]) -> bytes:
        body, gap, trailers = message.rstrip(b"\n").rpartition(b"\n\n")
        if not gap:
            return message
        lines = []
        for line in trailers.split(b"\n"):
            key, space, value = line.partition(b" ")
            if key == b"Stet-Reverts:" and len(value) == 40:
                line = key + space + self.new_name(value.decode()).encode()
            lines.append(line)
        known = set(lines)
        told = [b"Stet-Forgotten: " + path.encode() for path in changed]
        lines += [line for line in told if line not in known]
        return body + gap + b"\n".join(lines) + b"\n"

    def _without(self, tree: str, prefix: str) -> tuple[str, Mapping[str, str]]:
        """A tree without what is left out, and what that was: path to blob."""
        if tree == EMPTY_TREE or not self._may_hold(prefix):
            return tree, {}
        key = (tree, prefix)
        if key not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = self._made_without(tree, prefix)
        return self._known[key]

    def _may_hold(self, prefix: str) -> bool:
        return bool(self.unwanted.blobs) or (self.unwanted.path + "/").startswith(prefix)

    def _made_without(self, tree: str, prefix: str) -> tuple[str, Mapping[str, str]]:
        entries: dict[str, Entry] = {}
        removed: dict[str, str] = {}
        for name, entry in self.repository.load_tree(tree).items():
            path = prefix + name
            if path == self.unwanted.path:
                removed.update(self._all_of(path, entry))
            elif entry.mode == TREE:
                oid, below = self._without(entry.oid, path + "/")
                removed.update(below)
                if oid != EMPTY_TREE:
                    entries[name] = Entry(TREE, oid)
            elif entry.oid in self.unwanted.blobs:
                removed[path] = entry.oid
            else:
                entries[name] = entry
        if not removed:
            return tree, {}
        if not entries and prefix:
            return EMPTY_TREE, removed
        content = Tree(entries).serialize()
        oid = object_id("tree", content)
        if self.packs is not None:
            self.packs.add("tree", oid, content)
        return oid, removed

    def _all_of(self, path: str, entry: Entry) -> dict[str, str]:
        if entry.mode != TREE:
            return {path: entry.oid}
        load = self.repository.load_tree
        below = files_under(stored_tree(entry.oid, load), load, path + "/")
        return {inner: oid for inner, _, oid in below}
