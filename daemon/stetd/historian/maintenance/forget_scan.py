"""The historian's part of forgetting a path (:mod:`stetd.upkeep.forget`).

Rewrites every commit that had the path, and all later ones, without it. Authors, times and messages
stay. A commit that changed a path that is left out gets a line ``Stet-Forgotten`` for it, and lines
``Stet-Reverts`` get the new ids.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping
from contextlib import closing, suppress

import msgspec

from stet.wire.failures import Kind, refuse
from stet.wire.first_use import known_to_msgspec
from stet.wire.results import ClipboardRef, EditResult, ForgetResult
from stetd.failpoints import failpoint
from stetd.history.objects import EMPTY_TREE, TREE, Entry, object_id, tree_content
from stetd.parameters import Forget
from stetd.processes.long_work import RewrittenHistory
from stetd.repository.packing import PackStream
from stetd.repository.references import (
    HISTORY,
    read_reference,
    references_below,
    write_reference,
    write_shallow,
)
from stetd.repository.rewritten import read_pending, take_next, write_next
from stetd.repository.stored_objects import StoredObjects
from stetd.state.read_view import ReadView
from stetd.storage.progress import Progress
from stetd.storage.stat_cache import stat_cache_path

#: Length from which a line in common shows that a clipboard has forgotten content.
_TELLING = 8
_MAX_PATHS_TOLD = 50
#: Size of the cache of rewritten trees.
_MAX_TREES = 20_000
#: A clipboard and its text.
_Clipboard = tuple[ClipboardRef, str]


def left_out(
    view: ReadView, given: tuple[Forget, list[_Clipboard], bool], done: list[Rewriting]
) -> RewrittenHistory:
    """Write the history without the path into packs, and the file of new ids. Raises Refused.

    ``given``: what is asked for (preview: write nothing), the clipboards to search, and whether
    to go on from ``done``, the work on the commits before; ``done`` is replaced.
    """
    asked, clipboards, again = given
    head, disk, progress = view.head, view.disk, view.progress
    packs = None if asked.preview else PackStream(view.shadow, disk, "forget")
    earlier = {each.unwanted: each for each in done if again}
    done.clear()  # after a failure, what it counts as written may not be there
    with closing(StoredObjects(view.shadow)) as repository:

        def without(unwanted: frozenset[str], *, rewrite: bool) -> Rewriting:
            progress.begin("rewriting" if rewrite else "looking for its contents")
            found = earlier.get(unwanted) or Rewriting(repository, asked.path, unwanted)
            found.repository, found.packs = repository, packs if rewrite else None
            found.follow(head, progress)
            return found

        at_path = without(frozenset(), rewrite=not asked.contents)
        if head is None or not at_path.blobs:
            raise refuse(
                Kind.FILE_NOT_FOUND,
                f"{asked.path}: the history has no such file, nor a directory of that name with "
                "files; there is nothing to forget.",
                path=asked.path,
            )
        everywhere = without(at_path.blobs, rewrite=asked.contents)
        rewriting = everywhere if asked.contents else at_path
        _check_references(repository.path, rewriting)
        paths = rewriting.paths
        left = {oid for path, oid in everywhere.left_out if path not in paths}
        also_at = sorted(everywhere.removed.keys() - paths)[:_MAX_PATHS_TOLD]
        if packs is not None:
            packs.flush()
            write_next(view.shadow, rewriting.new_ids, disk)
            done += at_path, everywhere
        result = ForgetResult(
            commit=None,
            paths=sorted(paths),
            commits=rewriting.touched,
            rewritten=len(rewriting.new_ids),
            contents=len(rewriting.blobs),
            contents_left=len(left),
            also_at=also_at,
            clipboards=_holding(repository, rewriting, clipboards),
        )
        return RewrittenHistory(
            last=head,
            head=rewriting.new_id(head),
            tree=rewriting.tree,
            blobs=sorted(rewriting.blobs),
            oldest=rewriting.new_id(view.cut.oldest) if view.cut is not None else None,
            result=result,
        )


def finish(view: ReadView) -> dict[str, str]:
    """Point references to the new history; returns the new ids by the old ones."""
    shadow, disk = view.shadow, view.disk
    new_ids = read_pending(shadow)
    for name in references_below(shadow, "refs"):
        oid = read_reference(shadow, name) if name != HISTORY else None
        if oid in new_ids:
            write_reference(shadow, name, new_ids[oid], disk)
    if view.cut is not None:
        write_shallow(shadow, view.cut.oldest, disk)
    failpoint("forget.references_moved")
    take_next(shadow, disk)
    with suppress(FileNotFoundError):
        os.unlink(stat_cache_path(shadow))
    return new_ids


def _check_references(repository: str, rewriting: Rewriting) -> None:
    """Refuse if a reference keeps the old history and can't be moved to the new one."""
    for name in references_below(repository, "refs"):
        oid = read_reference(repository, name)
        if name == HISTORY or oid is None or oid in rewriting.new_ids:
            continue
        if bytes.fromhex(oid) not in rewriting.kept:
            raise refuse(
                Kind.CONFLICT,
                f"forget: the reference {name} names {oid[:12]}, which is no commit of the "
                "history; it may keep what is to be forgotten. Remove it: git --git-dir "
                f"{shlex.quote(repository)} update-ref -d {name}. Nothing was changed.",
            )


def _holding(
    repository: StoredObjects, rewriting: Rewriting, clipboards: list[_Clipboard]
) -> list[ClipboardRef]:
    """The clipboards that have something in common with the contents left out."""
    holding: set[ClipboardRef] = set()
    for oid in sorted(rewriting.blobs) if clipboards else ():
        content = repository.blob(oid).decode("utf-8", "replace")
        holding.update(each for each, text in clipboards if _have_in_common(content, text))
    return [each for each, _ in clipboards if each in holding]


def _have_in_common(one: str, two: str) -> bool:
    """Whether a line of one text, stripped and long enough, occurs in the other."""
    return any(line in two for line in _telling_lines(one)) or any(
        line in one for line in _telling_lines(two)
    )


def _telling_lines(text: str) -> set[str]:
    return {line.strip() for line in text.split("\n") if len(line.strip()) >= _TELLING}


def rewritten(reply: bytes, new_ids: Mapping[str, str], forgotten: Collection[str]) -> bytes:
    """A stored reply with the new ids of its commits, and without text about forgotten paths."""
    result = msgspec.msgpack.decode(reply, type=known_to_msgspec(EditResult))
    result = msgspec.structs.replace(
        result,
        commit=new_ids.get(result.commit or "", result.commit),
        outside=new_ids.get(result.outside or "", result.outside),
    )
    touched = {path for file in result.files for path in (file.path, file.old_path)}
    if not touched.isdisjoint(forgotten):
        result = msgspec.structs.replace(
            result,
            message="This call was carried out. It changed a path that was forgotten since.",
            files=[file for file in result.files if file.path not in forgotten],
            edits=[edit for edit in result.edits if edit.path not in forgotten],
            warnings=[],
            result=msgspec.UNSET,
        )
    return msgspec.msgpack.encode(result)


# -- the history without a path


class Rewriting(msgspec.Struct):
    """Rewrites commits, oldest first. ``packs`` None: only finds what would be rewritten.

    Leaves out one path (a file, or a directory with everything below it), and the ``unwanted``
    blobs at any path.
    """

    repository: StoredObjects
    path: str
    unwanted: frozenset[str]
    packs: PackStream | None = None
    #: Of the rewritten commits, by their old ids.
    new_ids: dict[str, str] = {}
    #: The ids of the commits that stay as they are, 20 bytes each.
    kept: bytearray = bytearray()
    #: What was left out: paths, each with a blob.
    left_out: set[tuple[str, str]] = set()
    #: The number of commits that changed something that is left out.
    touched: int = 0
    #: The tree of the last rewritten commit.
    tree: str = EMPTY_TREE
    #: What was left out of it, as paths with blobs.
    removed: Mapping[str, str] = {}
    _known: dict[tuple[str, str], tuple[str, Mapping[str, str]]] = {}

    @property
    def paths(self) -> set[str]:
        """The paths that were left out."""
        return {path for path, _ in self.left_out}

    @property
    def blobs(self) -> frozenset[str]:
        """The blobs that were left out."""
        return frozenset(oid for _, oid in self.left_out)

    def follow(self, oid: str | None, progress: Progress) -> None:
        """Rewrite this commit and all before it that are not rewritten yet."""
        chain = bytearray()
        while oid is not None and oid not in self.new_ids:
            chain += bytes.fromhex(oid)
            progress.step()
            oid = self.repository.commit(oid).parent
        for at in range(len(chain) - 20, -1, -20):
            self._rewrite(chain[at : at + 20].hex())
            progress.step()

    def new_id(self, oid: str) -> str:
        """The new id of a commit."""
        return self.new_ids.get(oid, oid)

    def _rewrite(self, oid: str) -> None:
        content = self.repository.blob(oid)
        header, _, message = content.partition(b"\n\n")
        lines = header.split(b"\n")
        tree = lines[0][5:].decode()
        new_tree, removed = self._without(tree, "")
        changed = sorted({path for path, _ in removed.items() ^ self.removed.items()})
        self.removed = removed
        self.tree = new_tree
        self.left_out.update(removed.items())
        self.touched += bool(changed)
        lines[0] = b"tree " + new_tree.encode()
        if len(lines) > 1 and lines[1].startswith(b"parent "):
            lines[1] = b"parent " + self.new_id(lines[1][7:].decode()).encode()
        new = b"\n".join(lines) + b"\n\n" + self._message(message, changed)
        if new == content:
            self.kept += bytes.fromhex(oid)
            return
        new_oid = object_id("commit", new)
        self.new_ids[oid] = new_oid
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
                line = key + space + self.new_id(value.decode()).encode()
            lines.append(line)
        forgotten = (b"Stet-Forgotten: " + path.encode() for path in changed)
        lines += [line for line in forgotten if line not in lines]
        return body + gap + b"\n".join(lines) + b"\n"

    def _without(self, tree: str, prefix: str) -> tuple[str, Mapping[str, str]]:
        """A tree without the paths to leave out; also those paths, with their blobs."""
        may_hold = self.unwanted or (self.path + "/").startswith(prefix)
        if tree == EMPTY_TREE or not may_hold:
            return tree, {}
        key = (tree, prefix)
        if key not in self._known:
            if len(self._known) >= _MAX_TREES:
                self._known.clear()
            self._known[key] = self._made_without(tree, prefix)
        return self._known[key]

    def _made_without(self, tree: str, prefix: str) -> tuple[str, Mapping[str, str]]:
        entries: dict[str, Entry] = {}
        removed: dict[str, str] = {}
        for name, entry in self.repository.load_tree(tree).items():
            path = prefix + name
            if path == self.path and entry.mode == TREE:
                files = self.repository.files(entry.oid, path + "/")
                removed.update((inner, oid) for inner, (_, oid) in files)
            elif entry.mode == TREE:
                oid, below = self._without(entry.oid, path + "/")
                removed.update(below)
                if oid != EMPTY_TREE:
                    entries[name] = Entry(TREE, oid)
            elif path == self.path or entry.oid in self.unwanted:
                removed[path] = entry.oid
            else:
                entries[name] = entry
        if not removed:
            return tree, {}
        if not entries and prefix:
            return EMPTY_TREE, removed
        content = tree_content(entries)
        oid = object_id("tree", content)
        if self.packs is not None:
            self.packs.add("tree", oid, content)
        return oid, removed
