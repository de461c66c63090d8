"""The commit sequence of one call: prepare, then publish, or abort. PROTOCOL.md in code.

    seal(draft)            what the call will do, as one journal record: images before and
                           after, the commits, the reply. Nothing has changed yet.
    (the writer appends the records of a batch and syncs once; from here on they happen)
    Prepared.publish()     per path: stage, swap, compare what came out.
    abort(...)             something else came out, or the disk refused: one synced record
                           voids the call and the later ones of its batch, then the files
                           are put back.

Only the writer thread runs this module.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec

from stet.wire.failures import Refused
from stet.wire.results import ClipboardNote, EditReport, EditResult, FileChange, Peer
from stetd import __version__
from stetd.failpoints import hit
from stetd.history.commits import CommitMeta, commit_object
from stetd.history.objects import (
    Image,
    LoadTree,
    NewObject,
    Tree,
    change_tree,
    find_entry,
    object_id,
    paths_in_the_way,
)
from stetd.session.sessions import Session, with_clipboards
from stetd.storage.journal import Journal, JournalBroken
from stetd.storage.journal_format import Abort, Change, CommitRecord, PathChange, Published
from stetd.storage.paths_on_disk import Target
from stetd.storage.shadow_repo import line_diff
from stetd.storage.worktree import OnDisk, Worktree, mode_for_new_file, temporary_name

_log = logging.getLogger(__name__)
_PLAIN_PERMISSIONS = (0o644, 0o755)
_COMPARED_MODE = stat.S_IFMT(0o177777) | 0o777
#: A larger file that somebody creates in the way is left for planning to refuse.
_MAX_RECORDED = 1 << 26


@dataclass(frozen=True, slots=True)
class Head:
    """Where a workspace's history stands: newest commit, its tree, number of commits."""

    commit: str | None
    tree: Tree
    commits: int


@dataclass(frozen=True, slots=True)
class Who:
    """Who asks, for the commit's author and trailers."""

    agent: str | None
    session: str | None
    peer: Peer | None
    method: str
    request: str | None
    why: str = ""


@dataclass(slots=True)
class DraftFile:
    """One file that a call touches: where it is, what stands there, what it becomes.

    ``after`` None deletes it; ``mode`` is the full mode of the result (None: that of the
    present file, or one that fits the directory).
    """

    target: Target
    found: OnDisk | None
    after: bytes | None
    mode: int | None = None
    old_path: str | None = None


@dataclass(slots=True)
class Draft:
    """What a call wants to do, however it was planned (a dialect, an undo)."""

    kind: str
    subject: str
    files: list[DraftFile]
    edits: Sequence[EditReport] = ()
    message: str = ""
    warnings: Sequence[str] = ()
    clipboards: Mapping[str, str] = field(default_factory=dict)
    clipboard_notes: Sequence[ClipboardNote] = ()
    reverts: tuple[str, ...] = ()
    #: Directories to be removed at the end if nothing is left in them.
    leftover_directories: Sequence[str] = ()
    #: Make a commit even if no file changes (an undo of what was put back by hand).
    record_always: bool = False


class Stage(Enum):
    """How far a file's replacement has come."""

    UNTOUCHED = auto()
    STAGED = auto()
    IN_PLACE = auto()


@dataclass(slots=True)
class FileWork:
    """One file of a prepared transaction."""

    target: Target
    before: OnDisk | None
    content: bytes | None
    after: Image | None
    temporary: str
    stage: Stage = Stage.UNTOUCHED
    #: What was displaced for good (a person's file, or after an abort ours), and a handle on
    #: it for the grace period; -1: none.
    displaced: OnDisk | None = None
    displaced_fd: int = -1
    made_directories: list[str] = field(default_factory=list)


class Displaced(Exception):
    """Something else than what was read stood at a path when it was replaced."""

    def __init__(self, path: str, found: OnDisk | None) -> None:
        super().__init__(path)
        self.path = path
        self.found = found


@dataclass(slots=True)
class Prepared:
    """A sealed transaction. Once its record is durable it must be published or aborted."""

    record: Change
    result: EditResult
    files: list[FileWork]
    objects: list[NewObject]
    head: Head
    session: Session | None
    targets: list[Target]

    @property
    def abort_reserve(self) -> int:
        """Journal space that aborting this may take: every image once more, and change."""
        return 4096 + sum(
            1024 + (work.before.size if work.before else 0) + len(work.content or b"")
            for work in self.files
        )

    def publish(self, worktree: Worktree) -> None:
        """Put every file in place (PROTOCOL.md 4). Temporary files stay until all are verified.

        Raises Displaced or OSError; the caller then aborts. Once all files are verified
        nothing is raised any more: the call has happened.
        """
        for work in self.files:
            install(work, worktree)
        hit("publish.before_discard")
        for work in self.files:
            if work.before is not None:
                _keep_displaced(work, work.before, worktree)
                clear_temporary(work, worktree)
                hit("publish.discarded")
        for directory in self.record.leftover_directories:
            worktree.remove_directory(directory)
        hit("publish.done")

    def close(self) -> None:
        """Give the directory handles back."""
        for target in self.targets:
            target.close()
        for work in self.files:
            if work.displaced_fd >= 0:
                os.close(work.displaced_fd)
                work.displaced_fd = -1


def install(work: FileWork, worktree: Worktree) -> None:
    """Stage a file, put it in place, and compare what came out.

    Raises Displaced if that is not what was read, OSError if the disk refuses.
    """
    if work.content is not None and work.after is not None:
        _make_directories(work, worktree)
        hit("publish.before_stage")
        work.stage = Stage.STAGED
        like = work.before is not None
        try:
            worktree.stage(work.target, work.temporary, work.content, work.after.mode, like=like)
        except FileNotFoundError as error:  # the directory was removed
            raise Displaced(work.target.path, None) from error
        hit("publish.staged")
    if work.before is None:
        try:
            worktree.put_in(work.target, work.temporary)
        except FileExistsError as error:
            raise Displaced(work.target.path, _what_is_there(work, worktree)) from error
        work.stage = Stage.IN_PLACE
        hit("publish.in_place")
        return
    try:
        if work.content is None:
            worktree.take_out(work.target, work.temporary)
        else:
            worktree.swap(work.target, work.temporary)
    except FileNotFoundError as error:
        raise Displaced(work.target.path, _what_is_there(work, worktree)) from error
    work.stage = Stage.IN_PLACE
    hit("publish.swapped")
    displaced = worktree.came_out(work.target, work.temporary, work.before)
    hit("publish.in_place")
    if displaced is not None:
        raise Displaced(work.target.path, displaced)


def _make_directories(work: FileWork, worktree: Worktree) -> None:
    if not work.target.missing:
        return
    try:
        worktree.make_directories(work.target, work.made_directories)
    except (NotADirectoryError, FileNotFoundError) as error:
        # A file got the directory's name, or the directory went away. Planned again, the
        # call is refused with the words for that.
        raise Displaced(work.target.path, None) from error
    hit("publish.made_directories")


def _what_is_there(work: FileWork, worktree: Worktree) -> OnDisk | None:
    """What somebody has just put at a path; None if it can't be read, or is no file."""
    try:
        return worktree.look(work.target.dir_fd, work.target.name, limit=_MAX_RECORDED)
    except (OSError, Refused):
        return None


def _keep_displaced(work: FileWork, displaced: OnDisk, worktree: Worktree) -> None:
    """Keep a handle on what is at the temporary name, which is about to be removed."""
    work.displaced = displaced
    work.displaced_fd = worktree.keep_open(work.target, work.temporary)


def clear_temporary(work: FileWork, worktree: Worktree) -> None:
    """Remove a temporary file whose content is accounted for, if the disk lets us."""
    try:
        worktree.discard(work.target, work.temporary)
    except OSError as error:
        _log.warning("%s stays beside %s: %s", work.temporary, work.target.path, error)


# -- sealing


@dataclass(slots=True)
class History:
    """Commits added on top of a head, with their new objects."""

    head: Head
    load: LoadTree
    time: int
    commits: list[CommitRecord] = field(default_factory=list)
    objects: list[NewObject] = field(default_factory=list)

    def add(self, meta: CommitMeta, changes: dict[str, Image | None]) -> str:
        """Put a commit on top."""
        git = [
            (path, (image.git_mode, image.oid) if image else None)
            for path, image in changes.items()
        ]
        tree, objects = change_tree(self.head.tree, git, self.load)
        commit = commit_object(meta, tree.oid, self.head.commit)
        self.commits.append(CommitRecord(commit.oid, self.head.commit, meta, changes))
        self.objects += [*objects, commit]
        self.head = Head(commit.oid, tree, self.head.commits + 1)
        return commit.oid

    def add_outside(self, changes: dict[str, Image | None], subject: str) -> str:
        """Commit what was found, made by nobody we know."""
        names = sorted(changes)
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        meta = CommitMeta(
            kind="outside",
            time=self.time,
            subject=f"{subject}: {shown}",
            permissions=_permissions(changes.items()),
            version=__version__,
        )
        return self.add(meta, changes)


def _permissions(pairs: Iterable[tuple[str, Image | None]]) -> tuple[tuple[str, int], ...]:
    return tuple(
        (path, stat.S_IMODE(image.mode))
        for path, image in pairs
        if image is not None
        and stat.S_ISREG(image.mode)
        and stat.S_IMODE(image.mode) not in _PLAIN_PERMISSIONS
    )


def _missing_directories(works: Iterable[FileWork]) -> tuple[str, ...]:
    """The directories that putting these files in place will make."""
    made = set()
    for work in works:
        parts = work.target.path.split("/")[:-1]
        for depth in range(len(parts) - len(work.target.missing), len(parts)):
            made.add("/".join(parts[: depth + 1]))
    return tuple(sorted(made))


def outside_changes(
    head: Head, found: Mapping[str, Image | None], load: LoadTree
) -> tuple[dict[str, Image | None], bool]:
    """What differs between the history and the disk at these paths.

    Gives the changes, and whether all of them are files seen for the first time.
    """
    changes: dict[str, Image | None] = {}
    first_seen = True
    for path, image in found.items():
        # Also where no file was found: it may be made now, which says that these are gone.
        for other in paths_in_the_way(head.tree, path, load):
            if other not in found:
                changes[other] = None
                first_seen = False
        known = find_entry(head.tree, path, load)
        there = (image.git_mode, image.oid) if image else None
        if known != there:
            changes[path] = image
            first_seen = first_seen and known is None
    return changes, first_seen


def _work(item: DraftFile, worktree: Worktree) -> FileWork:
    """Complete a draft's file: its mode, its image afterwards, its temporary name."""
    if item.after is None:
        return FileWork(item.target, item.found, None, None, temporary_name())
    mode = item.mode
    if mode is None and item.found is not None:
        mode = item.found.mode
    if mode is None:
        mode = mode_for_new_file(worktree.directory_mode(item.target))
    after = Image(object_id("blob", item.after), mode)
    return FileWork(item.target, item.found, item.after, after, temporary_name())


def seal(
    draft: Draft,
    who: Who,
    *,
    number: int,
    time: int,
    digest: bytes,
    workspace: str,
    worktree: Worktree,
    head: Head,
    session: Session | None,
    load: LoadTree,
    preview: bool = False,
) -> Prepared:
    """Turn a draft into a prepared transaction. Changes nothing."""
    works = [_work(item, worktree) for item in draft.files]
    history = History(head, load, time)
    found = {work.target.path: work.before.image if work.before else None for work in works}
    outside, first_seen = outside_changes(head, found, load)
    changed = [work for work in works if not _unchanged(work)]
    outside_id = commit_id = None
    if draft.files and (changed or draft.record_always):
        if outside:
            subject = "first seen" if first_seen else "changed outside"
            outside_id = history.add_outside(outside, subject)
        touched: dict[str, Image | None] = {work.target.path: work.after for work in changed}
        befores = [(w.target.path, w.before.image if w.before else None) for w in changed]
        permissions = _permissions([(p, touched[p] or before) for p, before in befores])
        meta = CommitMeta(
            kind=draft.kind,
            time=time,
            subject=draft.subject,
            why=who.why,
            method=who.method,
            agent=who.agent,
            session=who.session,
            request=who.request,
            peer=who.peer,
            reverts=draft.reverts,
            permissions=permissions,
            directories=_missing_directories(changed),
            version=__version__,
        )
        commit_id = history.add(meta, touched)
    result = _result(draft, works, commit_id, outside_id, who, preview=preview)
    if session is not None:
        session = with_clipboards(session, dict(draft.clipboards))
        made = int(commit_id is not None)
        session = msgspec.structs.replace(session, commits=session.commits + made, last_seen=time)
    blobs = {
        work.after.oid: work.content for work in changed if work.after and work.content is not None
    }
    for work in works:
        if work.before and work.before.data is not None and work.target.path in outside:
            blobs[work.before.oid] = work.before.data
    record = Change(
        number=number,
        workspace=workspace,
        paths=[
            PathChange(
                work.target.path,
                work.before.image if work.before else None,
                work.after,
                work.temporary,
            )
            for work in changed
        ],
        commits=history.commits,
        blobs=blobs,
        session=who.session,
        clipboards=dict(draft.clipboards),
        request=who.request,
        digest=digest,
        reply=msgspec.msgpack.encode(msgspec.structs.replace(result, diff="")),
        time=time,
        performed=not changed,
        leftover_directories=sorted(draft.leftover_directories, reverse=True),
    )
    return Prepared(
        record=record,
        result=result,
        files=changed,
        objects=[NewObject("blob", oid, data) for oid, data in blobs.items()] + history.objects,
        head=history.head,
        session=session,
        targets=[work.target for work in works],
    )


def _unchanged(work: FileWork) -> bool:
    before = work.before.image if work.before else None
    return before == work.after


def _is(found: OnDisk, image: Image | None) -> bool:
    """Whether what was found is what we put there (set-id bits may not be ours to keep)."""
    there = found.image
    if there is None or image is None:
        return there is image
    return there.oid == image.oid and not (there.mode ^ image.mode) & _COMPARED_MODE


def _result(
    draft: Draft,
    works: list[FileWork],
    commit: str | None,
    outside: str | None,
    who: Who,
    *,
    preview: bool,
) -> EditResult:
    files: list[FileChange] = []
    diffs: list[str] = []
    moved_from = {item.old_path for item in draft.files if item.old_path}
    for item, work in zip(draft.files, works, strict=True):
        if _unchanged(work) or (work.after is None and work.target.path in moved_from):
            continue
        change, text = describe_change(work, item.old_path)
        files.append(change)
        diffs.append(text)
    warnings = [*draft.warnings, *_link_warnings(works)]
    return EditResult(
        commit=None if preview else commit,
        outside=None if preview else outside,
        files=files,
        edits=list(draft.edits),
        message=_with_warnings(draft.message, warnings[len(draft.warnings) :]),
        diff="".join(diffs),
        warnings=warnings,
        clipboards=list(draft.clipboard_notes),
        request=who.request,
        undone=list(draft.reverts) if draft.reverts else msgspec.UNSET,
    )


def _with_warnings(message: str, warnings: Sequence[str]) -> str:
    return "\n".join([message, *(f"Warning: {text}" for text in warnings)])


def _link_warnings(works: list[FileWork]) -> list[str]:
    return [
        f"{work.target.path} had {work.before.links} hard links; this name now has a file of "
        "its own, the other names keep the old content."
        for work in works
        if work.before
        and work.before.links > 1
        and work.content is not None
        and not _unchanged(work)
    ]


def describe_change(work: FileWork, old_path: str | None) -> tuple[FileChange, str]:
    """One file of a result, and its diff."""
    before = work.before.image if work.before else None
    data = work.before.data if work.before else None
    modes = (before.git_mode if before else None, work.after.git_mode if work.after else None)
    diff = line_diff(work.target.path, data, work.content, old_path=old_path, modes=modes)
    status = "R" if old_path else "A" if before is None else "D" if work.after is None else "M"
    change = FileChange(
        path=work.target.path,
        status=status,
        before=before.oid if before else None,
        after=work.after.oid if work.after else None,
        added=diff.added,
        removed=diff.removed,
        old_path=old_path,
    )
    return change, diff.text


@dataclass(slots=True)
class Found:
    """Edits made outside, sealed as a record that needs nothing written."""

    record: Change
    head: Head
    objects: list[NewObject]


def seal_found(
    steps: Sequence[tuple[str, Mapping[str, Image | None]]],
    blobs: Mapping[str, bytes],
    *,
    head: Head,
    number: int,
    time: int,
    workspace: str,
    load: LoadTree,
) -> Found:
    """Record what was found: a commit for each (subject, changes), in order."""
    history = History(head, load, time)
    paths: list[PathChange] = []
    for subject, changes in steps:
        for path, image in changes.items():
            known = find_entry(history.head.tree, path, load)
            before = Image(known[1], known[0]) if known else None
            paths.append(PathChange(path, before, image))
        history.add_outside(dict(changes), subject)
    record = Change(
        number=number,
        workspace=workspace,
        paths=paths,
        commits=history.commits,
        blobs=dict(blobs),
        time=time,
        performed=True,
    )
    objects = [NewObject("blob", oid, data) for oid, data in blobs.items()]
    return Found(record, history.head, objects + history.objects)


def seal_restoring(
    found: Found,
    target: Target,
    before: OnDisk | None,
    after: Image | None,
    content: bytes | None,
    *,
    meta: CommitMeta | None,
    load: LoadTree,
) -> tuple[Found, FileWork]:
    """Add to a record that a file must be brought to an image (recovery).

    ``meta``: also commit that, where the history says otherwise.
    """
    record = found.record
    history = History(found.head, load, record.time)
    if meta is not None:
        history.add(meta, {target.path: after})
    temporary = temporary_name()
    change = PathChange(target.path, before.image if before else None, after, temporary)
    record = msgspec.structs.replace(
        record,
        paths=[*record.paths, change],
        commits=[*record.commits, *history.commits],
        performed=False,
    )
    objects = found.objects + history.objects
    work = FileWork(target, before, content, after, temporary)
    return Found(record, history.head, objects), work


# -- aborting


@dataclass(slots=True)
class Aborted:
    """What an abort left behind: the head with everything that was found, and its objects."""

    head: Head
    objects: list[NewObject]
    number: int


def abort(
    voided: Sequence[Prepared],
    cause: Exception,
    *,
    base: Head,
    number: int,
    time: int,
    journal: Journal,
    worktree: Worktree,
    load: LoadTree,
) -> Aborted:
    """Void ``voided[0]``, which failed to publish, and the later records of its batch.

    One record, synced before anything is put back (PROTOCOL.md 6): it names for every
    path the image that stands afterwards and keeps what was displaced. ``base`` is the
    head before the first voided record. Raises OSError or JournalBroken if the record
    can't be written or a file can't be put back; all that can be is put back even then.
    """
    history = History(base, load, time)
    stands, blobs = _what_stands(voided, cause)
    for prepared in voided:
        for commit in prepared.record.commits:
            if commit.meta.kind == "outside":
                history.add(commit.meta, commit.changes)
                blobs.update(_carried(prepared, commit))
    displaced, _ = outside_changes(history.head, stands, load)
    if displaced:
        history.add_outside(displaced, "changed outside")
    record = Abort(
        number=number,
        workspace=voided[0].record.workspace,
        voided=[prepared.record.number for prepared in voided],
        parent=base.commit,
        stands=stands,
        commits=history.commits,
        blobs=blobs,
        time=time,
    )
    put_back = PutBack(worktree, journal, history, number, record.workspace)
    hit("abort.before_record")
    try:
        journal.append(record)
        journal.sync()
    finally:
        hit("abort.before_put_back")
        put_back.restore_all(voided[0].files)
    mark_published(journal, *range(number, put_back.number + 1))
    hit("abort.done")
    objects = [NewObject("blob", oid, data) for oid, data in blobs.items()]
    return Aborted(history.head, objects + history.objects, put_back.number)


def _what_stands(
    voided: Sequence[Prepared], cause: Exception
) -> tuple[dict[str, Image | None], dict[str, bytes]]:
    """For every voided path the image that stands once all is put back, and new contents."""
    stands: dict[str, Image | None] = {}
    blobs: dict[str, bytes] = {}
    for prepared in voided:
        for work in prepared.files:
            before = work.before.image if work.before else None
            stands.setdefault(work.target.path, before)
    if isinstance(cause, Displaced):
        # Every path is named, or recovery would take the voided image for the last one.
        stands[cause.path] = cause.found.image if cause.found else None
        if cause.found is not None and cause.found.data is not None:
            blobs[cause.found.oid] = cause.found.data
    return stands, blobs


def _carried(prepared: Prepared, commit: CommitRecord) -> dict[str, bytes]:
    wanted = {image.oid for image in commit.changes.values() if image}
    return {oid: data for oid, data in prepared.record.blobs.items() if oid in wanted}


def mark_published(journal: Journal, *numbers: int) -> None:
    """Mark records as carried out: a hint for recovery; without it, it looks a second time."""
    try:
        journal.append(*(Published(number) for number in numbers))
    except (OSError, JournalBroken):
        _log.warning("could not mark record %d as published", numbers[0])


@dataclass(slots=True)
class PutBack:
    """Putting files back after an abort (PROTOCOL.md 7).

    Each swap expects what we last put in place. Anything else that comes out was saved
    by somebody in between: it is journalled and becomes what is put in next. These
    records have numbers up to ``number``; the caller marks them with its own.
    """

    worktree: Worktree
    journal: Journal
    history: History
    number: int
    workspace: str

    def restore_all(self, works: Sequence[FileWork]) -> None:
        """Take all files back, the last first. What fails does not keep the others."""
        failures: list[Exception] = []
        for work in reversed(works):
            try:
                self.restore(work)
            except (OSError, JournalBroken) as error:
                _log.error("%s could not be put back: %s", work.target.path, error)
                failures.append(error)
        if failures:
            raise failures[0]

    def restore(self, work: FileWork, *, keep_displaced: bool = False) -> None:
        """Take one file back to what was displaced.

        ``keep_displaced``: what came out is not known to the journal yet; record it.
        """
        if keep_displaced and work.before is not None and work.stage is Stage.IN_PLACE:
            self._found(work, self.worktree.look(work.target.dir_fd, work.temporary))
        if work.stage is Stage.IN_PLACE:
            if work.before is None:
                self._take_out_again(work)
            elif work.content is None:
                self._put_in_again(work)
            else:
                self._swap_back(work)
        clear_temporary(work, self.worktree)
        for directory in reversed(work.made_directories):
            self.worktree.remove_directory(directory)

    def _swap_back(self, work: FileWork) -> None:
        last_put = work.after
        while True:
            coming = self._image_at_temporary(work)
            try:
                self.worktree.swap(work.target, work.temporary)
            except FileNotFoundError:
                # Our transient text was deleted: deleted it stays, and that is recorded.
                self._found(work, None)
                return
            hit("abort.swapped_back")
            out = self.worktree.look(work.target.dir_fd, work.temporary)
            if _is(out, last_put):
                _keep_displaced(work, out, self.worktree)
                return
            self._found(work, out)
            last_put = coming

    def _image_at_temporary(self, work: FileWork) -> Image | None:
        """What is about to be put in; None if it can't be read, which must not keep it out."""
        try:
            return self.worktree.look(work.target.dir_fd, work.temporary).image
        except OSError:
            return None

    def _take_out_again(self, work: FileWork) -> None:
        try:
            self.worktree.take_out(work.target, work.temporary)
        except FileNotFoundError:
            return
        out = self.worktree.look(work.target.dir_fd, work.temporary)
        if _is(out, work.after):
            _keep_displaced(work, out, self.worktree)
        else:
            self._found(work, out)
            self._put_in_again(work)

    def _put_in_again(self, work: FileWork) -> None:
        try:
            self.worktree.put_in(work.target, work.temporary)
        except FileExistsError:
            # Somebody's newer file is there; what we hold is in the history already.
            return

    def _found(self, work: FileWork, out: OnDisk | None) -> None:
        self.number += 1
        found = seal_found(
            [("changed outside", {work.target.path: out.image if out else None})],
            {out.oid: out.data} if out and out.data is not None else {},
            head=self.history.head,
            number=self.number,
            time=self.history.time,
            workspace=self.workspace,
            load=self.history.load,
        )
        self.history.head = found.head
        self.history.objects += found.objects
        # Not done until the caller marks it: it may still have to be put in place.
        self.journal.append(msgspec.structs.replace(found.record, performed=False))
        self.journal.sync()
