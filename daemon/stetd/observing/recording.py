"""Records the edits that agents make with their own tools. No file is written.

The files that a tool touches are compared with the history's head twice:

    before   files that differ are committed as ``outside``. The reply is recorded under the name
             of the tool's use, with a note of the files that did not exist (:class:`BeforeNote`)
    after    files that differ now are the tool's: one commit of kind ``observed``

Commits of others between the two are in the head by then, so the tool does not get their changes.
A file that the history has never seen is the tool's only if the note says that it did not exist
(:mod:`stetd.observing.before_note`), since an undo would delete it; otherwise it is recorded as
first seen. The record asks for no change of a file (``performed``), so it can't fail half-way.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from stet.wire.first_use import known_to_msgspec
from stet.wire.results import EditResult, FileChange
from stetd.editing.paths import directories_above
from stetd.history.commits import CommitMeta
from stetd.history.objects import Image, find_entry, has_directory, object_id
from stetd.history.protecting import Protection
from stetd.observing.before_note import BeforeNote, FilesBefore
from stetd.observing.current_content import CurrentContent, ScanResult, first_few
from stetd.planning.world import CallLimits, EditCall
from stetd.session.sessions import Session
from stetd.state.workspace import Base, Workspace
from stetd.storage.journal_format import Change, PathChange, session_after
from stetd.transaction.heads import (
    HistoryBuilder,
    few_names,
    outside_changes,
    permissions_after,
    permissions_of,
    regraded,
)
from stetd.transaction.transaction import Prepared

#: The method in these commits.
METHOD = "observed"
NOT_TOLD = (
    "not attributed: nothing was reported before the tool ran, so its changes can't be "
    "distinguished from those of others. They are recorded as outside when they are found."
)
_EMPTY = object_id("blob", b"")
#: Seconds. An older note belongs to another use of a tool with the same id.
NOTE_SECONDS = 86_400


class ObservedBefore(EditResult, frozen=True, kw_only=True):
    """The recorded reply of ``before``, with the note."""

    note: BeforeNote = BeforeNote()


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the planned call: which paths to read, for which use of a tool.

    ``whole``: a scan of the workspace found the paths. ``use``: the id of the tool's use;
    ``subagent``: the agent that used it. ``found``: what the scan found, if one was made for it.
    """

    phase: Literal["before", "after"]
    paths: list[str]
    whole: bool = False
    tool: str | None = None
    use: str | None = None
    subagent: str | None = None
    found: ScanResult | None = None


def note_id(use: str) -> str:
    """The request id under which the note of a tool's use is recorded. No client can send it."""
    return f" before:{use}"


def read_note(reply: bytes) -> BeforeNote | None:
    """The note in a recorded reply; None if the reply has none, or was rewritten since."""
    try:
        return msgspec.msgpack.decode(reply, type=known_to_msgspec(ObservedBefore)).note
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
    """Read the files and seal the changes as one record. Never refuses; unclear changes are warned
    of. ``note``: the note from before the same use of the tool.
    """
    asked = Observation(**call.params)
    # The paths of a scan are relative to the root.
    directory = "" if asked.whole else call.directory
    seen = CurrentContent(workspace, directory, limits)
    seen.read(asked.paths, through_links=not asked.whole)
    history = workspace.history(now, base.head)
    recorder = _Recorder(workspace, call, asked, seen, history, protection, note or BeforeNote())
    result, paths = recorder.before() if asked.phase == "before" else recorder.after()
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
    return Prepared(
        record=record,
        result=result,
        files=[],
        objects=history.new_objects(blobs),
        head=history.head,
        session=session_after(record, session),
        targets=[],
        journal_if_unchanged=asked.phase == "before" and asked.use is not None,
    )


def _new_contents(seen: CurrentContent, paths: Iterable[PathChange]) -> dict[str, bytes]:
    contents = {}
    for change in paths:
        found = seen.files.get(change.path)
        if found is None or found.data is None or change.after is None:
            continue
        if change.before is None or change.before.oid != found.oid:
            contents[found.oid] = found.data
    return contents


class _Recorder(msgspec.Struct):
    workspace: Workspace
    call: EditCall
    asked: Observation
    seen: CurrentContent
    history: HistoryBuilder
    protection: Protection
    note: BeforeNote

    def before(self) -> tuple[EditResult, list[PathChange]]:
        """Commit the files that differ as outside, and note which files do not exist."""
        changes, subject = self._changes()
        changed = self._path_changes(changes)
        images = self.seen.images
        paths = [] if self.asked.whole else list(images)
        outside = None
        if changes:
            outside = self.history.add_outside(changes, subject)
        whole, scan = self.asked.found is not None, self.asked.found or ScanResult()
        note = BeforeNote(
            whole=whole,
            complete=whole and not scan.why and scan.excludes == self.workspace.excludes.digest,
            paths=paths,
            passed=[*scan.passed, *self.seen.unread],
            modes={**scan.modes, **dict(permissions_of(images.items()))},
            tree=scan.tree,
            ignores={} if scan.why else scan.changed_ignores,
            excludes=scan.excludes,
            lacking={
                place: self.seen.missing.get(path, 0)
                for place, path in enumerate(paths)
                if images[path] is None
            },
            recorded=self.history.head.tree.oid,
        )
        result = ObservedBefore(
            commit=None,
            outside=outside,
            warnings=first_few(self.seen.warnings),
            request=self.call.request,
            note=note,
        )
        return result, changed

    def after(self) -> tuple[EditResult, list[PathChange]]:
        """Commit the tool's changes as the agent's, and the unclear ones as outside."""
        if self.asked.whole and not self.note.whole:
            return EditResult(commit=None, warnings=[NOT_TOLD], request=self.call.request), []
        changes, _ = self._changes()
        ignores = self.asked.found.ignores if self.asked.found is not None else None
        before = FilesBefore(self.note, self.workspace.repository, self.workspace.excludes, ignores)
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
        if self.asked.whole:  # they may be many; each is recorded when a call touches it
            unclear = {}
        # With what is in their way in the history: it goes in the same commit.
        unclear, subject = outside_changes(self.history, unclear)
        own = {path: image for path, image in own.items() if path not in unclear}
        paths = self._path_changes({**unclear, **own})
        files: list[FileChange] = []
        commit = outside = None
        if unclear:
            outside = self.history.add_outside(unclear, subject)
        if own:
            moves = _moves(self.history, own)
            files = self._file_changes(own, moves)
            commit = self.history.add(self._meta(own, moves), own)
        result = EditResult(
            commit=commit,
            outside=outside,
            files=files,
            warnings=first_few(warnings),
            request=self.call.request,
        )
        return result, paths

    def _changes(self) -> tuple[dict[str, Image | None], str]:
        images = self.seen.images
        return outside_changes(self.history, images, images.keys() - self.seen.missing.keys())

    def _is_own(self, path: str, image: Image | None, before: FilesBefore) -> bool:
        """Whether the change of this file must be the tool's; ``image``: None if it is deleted."""
        if image is None:
            return True
        if find_entry(self.history.head.tree, path, self.history.load) is not None:
            return not before.was_skipped(path)
        return before.was_absent(path)

    def _image_before(self, path: str) -> Image | None:
        """The file's image in the head, with the permission bits of the note."""
        image = self.history.head.image(path, self.history.load)
        if image is None:
            return None
        noted = Image(image.oid, stat.S_IFREG | self.note.modes.get(path, 0))
        return noted if path in self.note.modes and noted.git_mode == image.git_mode else image

    def _path_changes(self, changes: Mapping[str, Image | None]) -> list[PathChange]:
        before = self._image_before
        return [PathChange(path, before(path), image) for path, image in changes.items()]

    def _meta(
        self, own: Mapping[str, Image | None], moves: Sequence[tuple[str, str]]
    ) -> CommitMeta:
        images = [(path, self._image_before(path), own[path]) for path in own]
        links = {path for path, image in own.items() if image and stat.S_ISLNK(image.mode)}
        flagged = (path for path in sorted(own) if self.protection.covers(path, link=path in links))
        return msgspec.structs.replace(self.call, method=METHOD).commit_meta(
            "observed",
            self.history.time,
            f"observed {self.asked.tool or 'edit'}: {few_names(own)}",
            subagent=self.asked.subagent,
            flagged=tuple(flagged),
            permissions=permissions_after(images),
            regraded=regraded(images, moves),
            directories=self._made_directories(own),
            moves=tuple(moves),
        )

    def _made_directories(self, own: Mapping[str, Image | None]) -> tuple[str, ...]:
        """The directories that the tool created, as far as that is known."""
        above = {
            directory
            for path, image in own.items()
            if image is not None
            for directory in directories_above(path)
        }
        if not self.note.complete:
            return tuple(sorted(above & self.note.missing_directories()))
        tree, load = self.history.head.tree, self.history.load
        return tuple(sorted(d for d in above if not has_directory(tree, d, load)))

    def _file_changes(
        self, own: Mapping[str, Image | None], moves: Sequence[tuple[str, str]]
    ) -> list[FileChange]:
        """The files of the reply, without counts of lines."""
        origins = {new: old for old, new in moves}
        files = []
        for path in sorted(own.keys() - set(origins.values())):
            image, old_path = own[path], origins.get(path)
            before = self._image_before(old_path or path)
            status = "R" if old_path else "A" if before is None else "D" if image is None else "M"
            files.append(
                FileChange(
                    path=path,
                    status=status,
                    before=before.oid if before else None,
                    after=image.oid if image else None,
                    added=0,
                    removed=0,
                    old_path=old_path,
                )
            )
        return files


def _moves(history: HistoryBuilder, own: Mapping[str, Image | None]) -> list[tuple[str, str]]:
    """(old, new) paths of files that were moved unchanged, where the pair is unique."""
    gone: dict[str, list[str]] = {}
    made: dict[str, list[str]] = {}
    for path, image in own.items():
        known = find_entry(history.head.tree, path, history.load)
        if known is not None and image is None:
            gone.setdefault(known[1], []).append(path)
        elif known is None and image is not None:
            made.setdefault(image.oid, []).append(path)
    pairs = [(gone[oid], new) for oid, new in made.items() if oid in gone and oid != _EMPTY]
    return sorted((old[0], new[0]) for old, new in pairs if len(old) == len(new) == 1)
