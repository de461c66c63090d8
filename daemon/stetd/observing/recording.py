"""Edits that agents make with their own tools: recorded; no file is written.

Twice the disk is compared with the history's head, at paths that a tool touches:

    before   what differs was found outside, and is committed as that. The reply is recorded
             under the tool's use, with a note of the files that did not exist (:class:`BeforeNote`)
    after    what differs now is the tool's: one commit of kind ``observed``

What others committed between the two is in the head by then, so it is not claimed. A file that the
history has never seen is the tool's only if the note says that it did not exist
(:mod:`stetd.observing.before_note`), since an undo would remove it; else it is recorded as first
seen. The record needs nothing written (``performed``), so it can't fail half-way.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from stet.wire.first_use import known
from stet.wire.results import EditResult, FileChange
from stetd.editing.paths import directories_above
from stetd.history.commits import CommitMeta
from stetd.history.objects import Image, LoadTree, NewObject, find_entry, has_directory, object_id
from stetd.history.protecting import Protection
from stetd.observing.before_note import BeforeNote, StoodBefore
from stetd.observing.current_content import Seen, few
from stetd.planning.world import CallLimits, EditCall
from stetd.session.sessions import Session
from stetd.state.workspace import Base, Workspace
from stetd.storage.journal_format import Change, PathChange
from stetd.transaction.heads import (
    Head,
    History,
    few_names,
    outside_changes,
    permissions_after,
    permissions_of,
    regraded,
)
from stetd.transaction.transaction import Prepared

#: What commits say of how they came about.
METHOD = "observed"
NOT_TOLD = (
    "not attributed: nothing was reported before the tool ran, so its changes can't be "
    "distinguished from those of others. They are recorded as outside when they are found."
)
_EMPTY = object_id("blob", b"")
#: An older note belongs to another use of a tool that has the same id.
NOTE_SECONDS = 86_400


class ObservedBefore(EditResult, frozen=True, kw_only=True):
    """The recorded reply of ``before``, with the note."""

    note: BeforeNote = BeforeNote()


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be read: the parameters of the planned call.

    ``whole``: the paths are those of the workspace that may differ, found by a scan. ``use``: of
    which use of a tool, and ``subagent``: whose. ``note``: what a scan has found.
    """

    phase: Literal["before", "after"]
    paths: list[str]
    whole: bool = False
    tool: str | None = None
    use: str | None = None
    subagent: str | None = None
    note: BeforeNote | None = None


def note_id(use: str) -> str:
    """The request id under which the note of a tool's use is recorded: no client can give it."""
    return f" before:{use}"


def read_note(reply: bytes) -> BeforeNote | None:
    """The note in a recorded reply; None if it is none, or was rewritten since."""
    try:
        return msgspec.msgpack.decode(reply, type=known(ObservedBefore)).note
    except msgspec.MsgspecError:
        return None


def observe(
    workspace: Workspace,
    base: Base,
    call: EditCall,
    session: Session | None,
    *,
    limits: CallLimits,
    protection: Protection,
    note: BeforeNote | None,
    number: int,
    now: int,
) -> Prepared:
    """Seal what was found as one record. Nothing is refused; what is unclear is warned of.

    ``note``: of the same use of a tool, before it.
    """
    asked = msgspec.convert(call.params, known(Observation))
    # A scan's paths are from the root, and all that are wanted.
    directory = "" if asked.whole else call.directory
    seen = Seen(workspace, directory, limits)
    seen.look(asked.paths, through_links=not asked.whole)
    history = workspace.history(now, base.head)
    sealing = _Sealing(workspace, call, asked, seen, history, protection, note or BeforeNote())
    result, paths = sealing.before() if asked.phase == "before" else sealing.after()
    blobs = _new_contents(seen, paths)
    record = Change(
        number=number,
        workspace=workspace.name,
        paths=paths,
        commits=history.commits,
        blobs=blobs,
        session=call.session,
        request=call.request,
        digest=call.digest,
        reply=msgspec.msgpack.encode(result),
        time=now,
        performed=True,
    )
    if session is not None:
        made = session.commits + int(result.commit is not None)
        session = msgspec.structs.replace(session, commits=made, last_seen=now)
    return Prepared(
        record=record,
        result=result,
        files=[],
        objects=[NewObject("blob", oid, data) for oid, data in blobs.items()] + history.objects,
        head=history.head,
        session=session,
        targets=[],
        always_recorded=asked.phase == "before" and asked.use is not None,
    )


def _new_contents(seen: Seen, paths: Iterable[PathChange]) -> dict[str, bytes]:
    contents = {}
    for change in paths:
        found = seen.files.get(change.path)
        if found is None or found.data is None or change.after is None:
            continue
        if change.before is None or change.before.oid != found.oid:
            contents[found.oid] = found.data
    return contents


@dataclass(slots=True)
class _Sealing:
    workspace: Workspace
    call: EditCall
    asked: Observation
    seen: Seen
    history: History
    protection: Protection
    note: BeforeNote

    @property
    def _load(self) -> LoadTree:
        return self.workspace.repository.load_tree

    def before(self) -> tuple[EditResult, list[PathChange]]:
        """Commit what differs as found outside; the note says what there is not."""
        changes, first_seen = self._changes()
        changed = self._path_changes(changes)
        images = self.seen.images
        paths = [] if self.asked.whole else list(images)
        outside = None
        if changes:
            subject = "first seen" if first_seen else "changed outside"
            outside = self.history.add_outside(changes, subject)
        scanned = self.asked.note or BeforeNote()
        note = msgspec.structs.replace(
            scanned,
            recorded=self.history.head.tree.oid,
            complete=scanned.complete and scanned.excludes == self.workspace.excludes.digest,
            paths=paths,
            lacking={
                place: self.seen.missing.get(path, 0)
                for place, path in enumerate(paths)
                if images[path] is None
            },
            passed=[*scanned.passed, *self.seen.passed],
            modes={**scanned.modes, **dict(permissions_of(images.items()))},
        )
        result = ObservedBefore(
            commit=None,
            outside=outside,
            warnings=few(self.seen.warnings),
            request=self.call.request,
            note=note,
        )
        return result, changed

    def after(self) -> tuple[EditResult, list[PathChange]]:
        """Commit what differs as the agent's, and the rest as first seen."""
        if self.asked.whole and not self.note.whole:
            return EditResult(commit=None, warnings=[NOT_TOLD], request=self.call.request), []
        changes, _ = self._changes()
        ignores = self.asked.note.ignores if self.asked.note is not None else None
        workspace = self.workspace
        before = StoodBefore(self.note, workspace.repository, workspace.excludes, ignores)
        own, unclear = dict[str, Image | None](), dict[str, Image | None]()
        for path, image in changes.items():
            part = own if self._is_own(path, image, before) else unclear
            part[path] = image
        warnings = list(self.seen.warnings)
        if unclear:
            warnings.append(
                f"not attributed: {few_names(unclear)}: the history does not know what was there "
                "before the tool ran, so it is not taken for the tool's."
            )
        if self.asked.whole:  # too many, perhaps; they are recorded when a call touches them
            unclear = {}
        paths = self._path_changes({**unclear, **own})
        files: list[FileChange] = []
        commit = outside = None
        if unclear:
            tree = self.history.head.tree
            tracked = any(find_entry(tree, path, self._load) is not None for path in unclear)
            subject = "changed outside" if tracked else "first seen"
            outside = self.history.add_outside(unclear, subject)
        if own:
            moves = _moves(self.history.head, own, self._load)
            files = self._described(own, moves)
            commit = self.history.add(self._meta(own, moves), own)
        result = EditResult(
            commit=commit,
            outside=outside,
            files=files,
            warnings=few(warnings),
            request=self.call.request,
        )
        return result, paths

    def _changes(self) -> tuple[dict[str, Image | None], bool]:
        return outside_changes(self.history, self.seen.images)

    def _is_own(self, path: str, image: Image | None, before: StoodBefore) -> bool:
        """Whether the tool must have made this of what the history knows: a file, or none."""
        if image is None:
            return True
        if find_entry(self.history.head.tree, path, self._load) is not None:
            return not before.was_passed_over(path)
        return before.had_none(path)

    def _stood(self, path: str) -> Image | None:
        """The image before, with the permission bits that were noted."""
        tracked = find_entry(self.history.head.tree, path, self._load)
        if tracked is None:
            return None
        image = Image(tracked[1], tracked[0])
        noted = Image(tracked[1], stat.S_IFREG | self.note.modes.get(path, 0))
        return noted if path in self.note.modes and noted.same_as(image) else image

    def _path_changes(self, changes: Mapping[str, Image | None]) -> list[PathChange]:
        return [PathChange(path, self._stood(path), image) for path, image in changes.items()]

    def _meta(
        self, own: Mapping[str, Image | None], moves: Sequence[tuple[str, str]]
    ) -> CommitMeta:
        images = [(path, self._stood(path), own[path]) for path in own]
        return msgspec.structs.replace(self.call.who, method=METHOD).commit(
            "observed",
            self.history.time,
            f"observed {self.asked.tool or 'edit'}: {few_names(own)}",
            subagent=self.asked.subagent,
            flagged=tuple(path for path in sorted(own) if self.protection.covers(path)),
            permissions=permissions_after(images),
            regraded=regraded(images, moves),
            directories=self._made_directories(own),
            moves=tuple(moves),
        )

    def _made_directories(self, own: Mapping[str, Image | None]) -> tuple[str, ...]:
        """The directories that were not there before, as far as that is known."""
        above = {
            directory
            for path, image in own.items()
            if image is not None
            for directory in directories_above(path)
        }
        if not self.note.complete:
            return tuple(sorted(above & self.note.missing_directories()))
        tree = self.history.head.tree
        return tuple(sorted(d for d in above if not has_directory(tree, d, self._load)))

    def _described(
        self, own: Mapping[str, Image | None], moves: Sequence[tuple[str, str]]
    ) -> list[FileChange]:
        """The files of the reply; their lines are not counted."""
        origins = {new: old for old, new in moves}
        files = []
        for path, image in sorted(own.items()):
            if path in origins.values():
                continue
            old_path = origins.get(path)
            stood = self._stood(old_path or path)
            status = "R" if old_path else "A" if stood is None else "D" if image is None else "M"
            files.append(
                FileChange(
                    path=path,
                    status=status,
                    before=stood.oid if stood else None,
                    after=image.oid if image else None,
                    added=0,
                    removed=0,
                    old_path=old_path,
                )
            )
        return files


def _moves(head: Head, own: Mapping[str, Image | None], load: LoadTree) -> list[tuple[str, str]]:
    """(old, new) of files that were moved unchanged, where only one can be meant."""
    gone: dict[str, list[str]] = {}
    made: dict[str, list[str]] = {}
    for path, image in own.items():
        known = find_entry(head.tree, path, load)
        if known is not None and image is None:
            gone.setdefault(known[1], []).append(path)
        elif known is None and image is not None:
            made.setdefault(image.oid, []).append(path)
    pairs = [(gone[oid], new) for oid, new in made.items() if oid in gone and oid != _EMPTY]
    return sorted((old[0], new[0]) for old, new in pairs if len(old) == len(new) == 1)
