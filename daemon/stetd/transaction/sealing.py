"""Sealing a draft: one journal record of all that the call will do.

The record is enough to make the commits again, with the same ids, and to send the reply again.
Sealing changes nothing.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence

import msgspec

from stet.wire.results import EditResult, FileChange
from stetd.editing.paths import directories_above
from stetd.history.excluding import Excludes
from stetd.history.git_patch import FileState, line_diff
from stetd.history.objects import Image, object_id
from stetd.session.sessions import Session
from stetd.storage.journal_format import Change, session_after
from stetd.storage.worktree import OnDisk, Worktree, mode_for_new_file, temporary_name
from stetd.transaction.drafts import Draft, DraftFile, Requester
from stetd.transaction.heads import (
    HistoryBuilder,
    outside_changes,
    permissions_after,
    regraded,
)
from stetd.transaction.transaction import Prepared, PreparedFile

_NOT_KEPT = (
    "This call was carried out. What it answered is not kept, because it changed a file that is "
    "excluded from the history."
)


def _missing_directories(works: Iterable[PreparedFile]) -> tuple[str, ...]:
    made: set[str] = set()
    for work in works:
        above = list(directories_above(work.target.path))
        made.update(above[len(above) - len(work.target.missing) :])
    return tuple(sorted(made))


def _work(item: DraftFile, worktree: Worktree) -> PreparedFile:
    """Add to a draft's file its mode, its image afterwards and its temporary name."""
    if item.after is None:
        return PreparedFile(item.target, item.found, None, None, temporary_name())
    mode, found = item.mode, item.found
    if mode is None and found is not None and not (item.new or stat.S_ISLNK(found.mode)):
        mode = found.mode  # not a link's: what replaces a link is a new file
    if mode is None:
        mode = mode_for_new_file(worktree.directory_mode(item.target))
    after = Image(object_id("blob", item.after), worktree.resulting_mode(item.target, mode))
    return PreparedFile(item.target, item.found, item.after, after, temporary_name())


def seal(
    draft: Draft,
    who: Requester,
    *,
    history: HistoryBuilder,
    number: int,
    digest: bytes,
    workspace: str,
    worktree: Worktree,
    session: Session | None,
) -> Prepared:
    """Turn a draft into a prepared transaction on a history. Changes nothing."""
    time, excludes = history.time, history.excludes
    works = [_work(item, worktree) for item in draft.files]
    found = {work.target.path: work.before_image for work in works}
    outside, subject = outside_changes(history, found)
    changed = [work for work in works if work.changes]
    outside_id = commit_id = None
    if changed or draft.reverts:
        if outside:
            outside_id = history.add_outside(outside, subject)
        images = [(work.target.path, work.before_image, work.after) for work in changed]
        moves = tuple(
            (f.old_path, f.target.path)
            for f in draft.files
            if f.old_path
            and found.get(f.old_path)  # no file was there: the call itself made it, so no move
            and not (excludes(f.old_path) or excludes(f.target.path))
        )
        meta = who.commit_meta(
            draft.kind,
            time,
            draft.subject,
            reverts=draft.reverts,
            flagged=tuple(draft.flagged),
            permissions=permissions_after(images),
            regraded=regraded(images, moves),
            directories=_missing_directories(changed),
            moves=moves,
            excluded=tuple((_status(w), w.target.path) for w in changed if excludes(w.target.path)),
        )
        commit_id = history.add(meta, {path: after for path, _, after in images})
    result = _result(draft, works, commit_id, outside_id, who, excludes)
    blobs: dict[str, bytes] = {}
    private: dict[str, bytes] = {}
    for work in changed:
        if work.after is not None and work.content is not None:
            kept = private if excludes(work.target.path) else blobs
            kept[work.after.oid] = work.content
        if work.before and work.before.data is not None and excludes(work.target.path):
            # The history does not have it, and recovery may have to put it back.
            private[work.before.oid] = work.before.data
    for work in works:
        if work.before and work.before.data is not None and work.target.path in outside:
            blobs[work.before.oid] = work.before.data
    record = Change(
        number=number,
        workspace=workspace,
        paths=[work.path_change for work in changed],
        commits=history.commits,
        blobs=blobs,
        session=who.session,
        clipboards=dict(draft.clipboards),
        request=who.request,
        digest=digest,
        reply=msgspec.msgpack.encode(_kept_reply(result, excludes)),
        time=time,
        performed=not changed,
        leftover_directories=sorted(draft.leftover_directories, reverse=True),
        private=private,
    )
    return Prepared(
        record=record,
        result=result,
        files=changed,
        objects=history.new_objects(blobs),
        head=history.head,
        session=session_after(record, session),
        targets=[work.target for work in works],
        preview=draft.preview,
    )


def _result(
    draft: Draft,
    works: list[PreparedFile],
    commit: str | None,
    outside: str | None,
    who: Requester,
    excludes: Excludes,
) -> EditResult:
    files: list[FileChange] = []
    diffs: list[str] = []
    moved_from = {item.old_path for item in draft.files if item.old_path}
    before = {work.target.path: work.before for work in works}
    for item, work in zip(draft.files, works, strict=True):
        moved = before.get(item.old_path) if item.old_path else None
        if not work.changes and moved is None:
            continue
        if work.after is None and work.target.path in moved_from:
            continue
        old_path = item.old_path if moved else None
        change, text = _describe_change(work, moved or work.before, old_path)
        if excludes(work.target.path):
            change, text = msgspec.structs.replace(change, excluded=True), ""
        files.append(change)
        diffs.append(text)
    warnings = [*draft.warnings, *_link_warnings(works), *_excluded_warnings(files)]
    return EditResult(
        commit=None if draft.preview else commit,
        outside=None if draft.preview else outside,
        files=files,
        edits=list(draft.edits),
        message=_with_warnings(draft.message, warnings[len(draft.warnings) :]),
        diff="".join(diffs),
        warnings=warnings,
        clipboards=list(draft.clipboard_notes),
        request=who.request,
        undone=list(draft.reverts) if draft.reverts else msgspec.UNSET,
        result=msgspec.UNSET if draft.result is None else draft.result,
    )


def _with_warnings(message: str, warnings: Sequence[str]) -> str:
    return "\n".join([message, *(f"Warning: {text}" for text in warnings)])


def _status(work: PreparedFile) -> str:
    return "A" if work.before is None else "D" if work.after is None else "M"


def _excluded_warnings(files: Iterable[FileChange]) -> list[str]:
    return [
        f"{file.path} is excluded from the history (exclude, in the configuration): this change "
        "can't be undone, and the earlier content is not kept."
        for file in files
        if file.excluded
    ]


def _kept_reply(result: EditResult, excludes: Excludes) -> EditResult:
    """A reply as it is recorded: without its diff, and without quotes from excluded files."""
    kept = msgspec.structs.replace(result, diff="")
    # A file is edited and not changed if later edits of the call take that back.
    unchanged = {edit.path for edit in result.edits} - {file.path for file in result.files}
    if not (any(file.excluded for file in result.files) or any(map(excludes, unchanged))):
        return kept
    warnings = _excluded_warnings(result.files)
    return msgspec.structs.replace(
        kept, message=_with_warnings(_NOT_KEPT, warnings), warnings=warnings, result=msgspec.UNSET
    )


def _link_warnings(works: list[PreparedFile]) -> list[str]:
    return [
        f"{work.target.path} had {work.before.links} hard links; this name now has a file of "
        "its own, the other names keep the old content."
        for work in works
        if work.before and work.before.links > 1 and work.content is not None and work.changes
    ]


def _describe_change(
    work: PreparedFile, found: OnDisk | None, old_path: str | None
) -> tuple[FileChange, str]:
    """One file of a result, and its diff; ``found``: the file before, at its path or old path."""
    before = found.image if found else None
    after = work.after
    diff = line_diff(
        work.target.path,
        _state(before, found.data if found else None),
        _state(after, work.content),
        old_path=old_path,
    )
    change = FileChange(
        path=work.target.path,
        status="R" if old_path else _status(work),
        before=before.oid if before else None,
        after=after.oid if after else None,
        added=diff.added,
        removed=diff.removed,
        old_path=old_path,
    )
    return change, diff.text


def _state(image: Image | None, data: bytes | None) -> FileState | None:
    return FileState(image.git_mode, image.oid, data or b"") if image else None
