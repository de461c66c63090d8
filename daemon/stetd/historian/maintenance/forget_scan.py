"""What forgetting a path needs of a history (:mod:`stetd.upkeep.forget`)."""

from __future__ import annotations

import os
from contextlib import suppress

from stet.wire.failures import Kind, refuse
from stetd.failpoints import failpoint
from stetd.historian.maintenance.rewriting import Rewriting, Unwanted
from stetd.history.objects import files_under, stored_tree
from stetd.processes.works import Finishing, LeavingOut, LeftOut
from stetd.repository.packing import PackStream
from stetd.repository.references import HISTORY, read_reference, references_below, write_reference
from stetd.repository.rewritten import read_pending, take_next, write_next
from stetd.repository.shallow import write_shallow
from stetd.repository.stored_objects import MissingObject, StoredObjects
from stetd.state.reading_place import Place
from stetd.storage.disk import Disk
from stetd.storage.progress import Progress
from stetd.storage.stat_cache import stat_cache_path

#: A line of a forgotten content that is as long tells a clipboard that holds some of it.
_TELLING = 8
_MOST_TOLD = 50


def left_out(place: Place, asked: LeavingOut, disk: Disk, progress: Progress) -> LeftOut:
    """The history without the path, in packs, with the file of new ids. Raises Refused."""
    if place.head is None:
        raise _unknown(asked.path)
    repository = StoredObjects(place.shadow)
    try:
        unwanted = Unwanted(asked.path)
        if asked.contents:
            progress.begin("looking for its contents")
            looking = Rewriting(repository, unwanted, None, progress)
            looking.follow(place.head)
            unwanted = Unwanted(asked.path, frozenset(looking.blobs))
        packs = PackStream(place.shadow, disk, "forget")
        rewriting = Rewriting(repository, unwanted, None if asked.preview else packs, progress)
        progress.begin("rewriting")
        rewriting.follow(place.head)
        if not rewriting.blobs:
            raise _unknown(asked.path)
        _check_references(repository, rewriting, place.head)
        if not asked.preview:
            packs.flush()
            write_next(place.shadow, rewriting.names, disk)
        return LeftOut(
            last=place.head,
            head=rewriting.new_name(place.head),
            tree=rewriting.tree,
            paths=sorted(rewriting.paths),
            blobs=sorted(rewriting.blobs),
            touched=rewriting.touched,
            rewritten=len(rewriting.names),
            oldest=rewriting.new_name(asked.oldest) if asked.oldest is not None else None,
            holding=_holding(repository, rewriting, asked.texts),
            also_at=_elsewhere(repository, rewriting, place.head),
        )
    finally:
        repository.close()


def finish(workspace_shadow: str, asked: Finishing, disk: Disk) -> dict[str, str]:
    """Let all that names the old history name the new one; the new ids by the old."""
    names = read_pending(workspace_shadow)
    for name in references_below(workspace_shadow, "refs"):
        oid = read_reference(workspace_shadow, name) if name != HISTORY else None
        if oid in names:
            write_reference(workspace_shadow, name, names[oid], disk)
    if asked.oldest is not None:
        write_shallow(workspace_shadow, asked.oldest, disk)
    failpoint("forget.references_moved")
    take_next(workspace_shadow, disk)
    with suppress(FileNotFoundError):
        os.unlink(stat_cache_path(workspace_shadow))
    return names


def still_there(shadow: str, blobs: list[str]) -> int:
    """How many of these contents the history holds, because other paths have them."""
    repository = StoredObjects(shadow)
    try:
        return sum(_has(repository, oid) for oid in blobs)
    finally:
        repository.close()


def _unknown(path: str) -> Exception:
    return refuse(
        Kind.FILE_NOT_FOUND,
        f"{path}: the history has no such file, nor a directory of that name with "
        "files; there is nothing to forget.",
        path=path,
    )


def _check_references(repository: StoredObjects, rewriting: Rewriting, head: str) -> None:
    """Refuse while something keeps the old history that can't be moved."""
    for name in references_below(repository.path, "refs"):
        oid = read_reference(repository.path, name)
        if name == HISTORY or oid is None or oid in rewriting.names:
            continue
        if not any(commit.oid == oid for commit in repository.walk(head)):
            raise refuse(
                Kind.CONFLICT,
                f"forget: the reference {name} names {oid[:12]}, which is no commit of the "
                "history; it may keep what is to be forgotten. Remove it: git --git-dir "
                f"{repository.path} update-ref -d {name}. Nothing was changed.",
            )


def _holding(repository: StoredObjects, rewriting: Rewriting, texts: list[str]) -> list[int]:
    """The numbers of the texts that have something in common with what was left out."""
    holding: set[int] = set()
    for oid in sorted(rewriting.blobs) if texts else ():
        content = repository.blob(oid).decode("utf-8", "replace")
        holding.update(n for n, text in enumerate(texts) if _have_in_common(content, text))
    return sorted(holding)


def _have_in_common(one: str, two: str) -> bool:
    """Whether a line of one, or what it has of a line, stands in the other."""
    return any(line in two for line in _telling_lines(one)) or any(
        line in one for line in _telling_lines(two)
    )


def _telling_lines(text: str) -> set[str]:
    return {line.strip() for line in text.split("\n") if len(line.strip()) >= _TELLING}


def _elsewhere(repository: StoredObjects, rewriting: Rewriting, head: str) -> list[str]:
    """Other paths of the newest commit with the same contents."""
    found: list[str] = []
    if rewriting.unwanted.blobs:
        return found
    load = repository.load_tree
    tree = stored_tree(repository.commit(head).tree, load)
    for path, _, oid in files_under(tree, load):
        if oid in rewriting.blobs and path not in rewriting.paths:
            found.append(path)
            if len(found) == _MOST_TOLD:
                break
    return found


def _has(repository: StoredObjects, oid: str) -> bool:
    try:
        repository.blob(oid)
    except MissingObject:
        return False
    return True
