"""Forgetting a path: for a secret that got into the history.

    look      which commits had it; whether anything stands in the way
    rewrite   these commits and all after them, without it, into packs (:mod:`stetd.rewriting`)
    switch    (writer) the commits made meanwhile; a commit of kind ``forget`` that names the path,
              not its content; the old and new ids (:mod:`stetd.storage.rewritten`). All durable;
              then one journal record lets the history go on from there
    finish    a checkpoint in a new segment, so that nothing older stays in the journal;
              references; replies by request id; query index; stat data; then what nothing needs
              any more is collected

Killed before the record, the history is the old one; after it, the new one, and the next start
finishes. Files of the workspace are never touched: what still stands at the path is recorded
again when it is edited.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

import msgspec

from stet.wire.failures import Kind, refuse
from stet.wire.first_use import known
from stet.wire.results import ClipboardRef, EditResult, ForgetResult, Peer
from stetd import __version__
from stetd.collecting import collecting
from stetd.failpoints import hit
from stetd.history.commits import CommitMeta, commit_object
from stetd.history.objects import NewObject, files_under, stored_tree
from stetd.history_work import check_open, record, wait_for_checkpoint
from stetd.rewriting import LeftOut, Rewriting
from stetd.session.sessions import with_clipboards
from stetd.snapshotting import stat_cache_path
from stetd.storage.history_index import HistoryIndex
from stetd.storage.index_schema import remove
from stetd.storage.journal_format import ClipboardSet, Cut, Rewritten
from stetd.storage.pack_stream import PackStream
from stetd.storage.references import HISTORY, read_reference, references_below, write_reference
from stetd.storage.repacking import Progress
from stetd.storage.rewritten import read_pending, take_next, write_next
from stetd.storage.shadow_repo import MissingObject, ShadowRepository
from stetd.storage.shallow import write_shallow
from stetd.workspace import Workspace, head_at
from stetd.writer import Writer

#: So often what calls added meanwhile is rewritten beside them; what is left then, on the writer.
_ROUNDS = 5
#: A line of a forgotten content that is as long tells a clipboard that holds some of it.
_TELLING = 8
_MOST_TOLD = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be forgotten, and who asks.

    ``contents``: at any path. ``clipboards``: remove those that hold some of it, too.
    """

    path: str
    contents: bool
    clipboards: bool
    preview: bool
    message: str
    agent: str | None
    session: str | None
    peer: Peer | None


def forgetting(
    writer: Writer,
    workspace: Workspace,
    asked: Asked,
    progress: Progress,
    on_cut: Callable[[str], None],
) -> Generator[None, None, ForgetResult]:
    """Forget a path, step by step; not on the writer thread. Raises Refused, OSError, ..."""
    run = _Forgetting(writer, workspace, asked, progress)
    result = yield from run.steps()
    if not asked.preview:
        yield from finishing(writer, workspace, progress, on_cut)
        result = run.told_after(result)
    return result


@dataclass(slots=True)
class _Forgetting:
    writer: Writer
    workspace: Workspace
    asked: Asked
    progress: Progress
    head: str | None = None
    blobs: set[str] = field(default_factory=set)
    commit: str | None = None

    def steps(self) -> Generator[None, None, ForgetResult]:
        workspace, asked = self.workspace, self.asked
        self._on_writer(self._begin)
        self.writer.background.require(workspace.number)
        if self.head is None:
            raise self._unknown()
        repository = ShadowRepository(workspace.shadow)
        try:
            left_out = LeftOut(asked.path)
            if asked.contents:
                self.progress.begin("looking for its contents")
                looking = Rewriting(repository, left_out, None)
                yield from self._followed(looking, self.head)
                left_out = LeftOut(asked.path, frozenset(looking.blobs))
            packs = PackStream(workspace.shadow, self.writer.state.disk, "forget")
            rewriting = Rewriting(repository, left_out, None if asked.preview else packs)
            self.progress.begin("rewriting")
            yield from self._followed(rewriting, self.head)
            if not rewriting.blobs:
                raise self._unknown()
            self.blobs = set(rewriting.blobs)
            self._check_references(repository, rewriting)
            holding = yield from self._clipboards(repository)
            if not asked.preview:
                yield from self._switch(rewriting, packs, holding)
            also = yield from self._elsewhere(repository, rewriting)
        finally:
            repository.close()
        return ForgetResult(
            commit=self.commit,
            paths=sorted(rewriting.paths),
            commits=rewriting.touched,
            rewritten=len(rewriting.names),
            contents=len(self.blobs),
            also_at=also,
            in_workspace=sorted(path for path in rewriting.paths if self._is_there(path)),
            clipboards=holding,
            clipboards_removed=asked.clipboards and not asked.preview,
        )

    def _on_writer(self, run: Callable[[], object]) -> None:
        self.writer.from_thread(run)

    def _begin(self) -> None:
        self._check_open()
        self.head = self.workspace.head.commit
        self.writer.end_grace()

    def _check_open(self) -> None:
        check_open(self.writer, self.workspace)
        if self.writer.state.unsettled:
            raise refuse(
                Kind.IO_ERROR,
                "forget: the journal keeps calls for a workspace that is put off, and perhaps with "
                "them what is to be forgotten. Bring that workspace back, or forget it: stet "
                "status names it and says how. Nothing was changed.",
            )

    def _followed(self, rewriting: Rewriting, head: str) -> Iterator[None]:
        for _ in rewriting.follow(head):
            self.progress.done += 1
            yield

    def _unknown(self) -> Exception:
        return refuse(
            Kind.FILE_NOT_FOUND,
            f"{self.asked.path}: the history has no such file, nor a directory of that name with "
            "files; there is nothing to forget.",
            path=self.asked.path,
        )

    def _check_references(self, repository: ShadowRepository, rewriting: Rewriting) -> None:
        """Refuse while something keeps the old history that can't be moved."""
        for name in references_below(repository.path, "refs"):
            oid = read_reference(repository.path, name)
            if name == HISTORY or oid is None or oid in rewriting.names:
                continue
            if not _is_in_history(repository, oid, self.head):
                raise refuse(
                    Kind.CONFLICT,
                    f"forget: the reference {name} names {oid[:12]}, which is no commit of the "
                    "history; it may keep what is to be forgotten. Remove it: git --git-dir "
                    f"{repository.path} update-ref -d {name}. Nothing was changed.",
                )

    # -- clipboards, and other places

    def _clipboards(
        self, repository: ShadowRepository
    ) -> Generator[None, None, list[ClipboardRef]]:
        """The clipboards that hold a part of what is forgotten."""
        sessions = self.writer.from_thread(lambda: list(self.writer.state.sessions.values()))
        texts = {
            ClipboardRef(session.name, name): text
            for session in sorted(sessions, key=lambda each: each.name)
            if session.workspace == self.workspace.name
            for name, text in sorted(session.clipboards.items())
        }
        holding: set[ClipboardRef] = set()
        for oid in sorted(self.blobs) if texts else ():
            content = repository.blob(oid).decode("utf-8", "replace")
            holding.update(ref for ref, text in texts.items() if _have_in_common(content, text))
            yield
        return [ref for ref in texts if ref in holding]

    def _remove_clipboards(self, holding: list[ClipboardRef]) -> None:
        state = self.writer.state
        for each in holding:
            key = self.workspace.name, each.session
            session = state.sessions.get(key)  # it may have been ended meanwhile
            if session is not None and each.clipboard in session.clipboards:
                self.writer.record(ClipboardSet(*key, each.clipboard, None))
                state.sessions[key] = with_clipboards(session, {each.clipboard: None})

    def _elsewhere(
        self, repository: ShadowRepository, rewriting: Rewriting
    ) -> Generator[None, None, list[str]]:
        """Other paths of the newest commit with the same contents."""
        found: list[str] = []
        if self.head is None or rewriting.left_out.blobs:
            return found
        load = repository.load_tree
        tree = stored_tree(repository.commit(self.head).tree, load)
        for path, _, oid in files_under(tree, load):
            if oid in self.blobs and path not in rewriting.paths and len(found) < _MOST_TOLD:
                found.append(path)
            yield
        return found

    def _is_there(self, path: str) -> bool:
        return os.path.lexists(os.path.join(self.workspace.root, path))

    def told_after(self, result: ForgetResult) -> ForgetResult:
        """The result, with what is still in the history because other paths have it."""
        repository = ShadowRepository(self.workspace.shadow)
        try:
            left = sum(_has(repository, oid) for oid in self.blobs)
        finally:
            repository.close()
        return msgspec.structs.replace(result, contents_left=left)

    # -- the switch

    def _switch(
        self, rewriting: Rewriting, packs: PackStream, holding: list[ClipboardRef]
    ) -> Iterator[None]:
        for _ in range(_ROUNDS):
            head = self.writer.from_thread(lambda: self.workspace.head.commit)
            assert head is not None, "BUG: a history that ended"
            if head == rewriting.last:
                break
            self.writer.background.require(self.workspace.number)
            yield from self._followed(rewriting, head)
        yield from packs.flush()
        hit("forget.rewritten")
        if self.asked.clipboards:
            self._on_writer(lambda: self._remove_clipboards(holding))
        # So that no call since the last checkpoint has to be settled on what is gone.
        _take_checkpoint(self.writer)
        self._on_writer(lambda: self._record(rewriting, packs))
        hit("forget.recorded")

    def _record(self, rewriting: Rewriting, packs: PackStream) -> None:
        """Let the history go on from the rewritten commits; on the writer thread."""
        workspace, writer, state = self.workspace, self.writer, self.writer.state
        self._check_open()
        head = workspace.head
        assert head.commit is not None, "BUG: a history that ended"
        writer.background.require(workspace.number)
        for _ in rewriting.follow(head.commit):
            pass
        self.blobs = set(rewriting.blobs)
        commit = self._forget_commit(rewriting, head.commit)
        for step in (packs.add("commit", commit.oid, commit.content), packs.flush()):
            for _ in step:
                pass
        write_next(workspace.shadow, rewriting.names, state.disk)
        cut = self._moved_cut(rewriting)
        rewritten = Rewritten(
            commit.oid, head.commits + 1, sorted(rewriting.paths), sorted(self.blobs)
        )
        hit("forget.before_record")
        number = record(writer, workspace.name, cut=cut, rewritten=rewritten)
        state.set_forgetting(workspace.name, rewritten)
        if cut is not None:
            state.set_cut(workspace.name, cut)
        workspace.repository.reopen()
        workspace.head = head_at(workspace.repository, commit.oid, rewritten.commits)
        writer.to_git(workspace, number, [])
        self.commit = commit.oid

    def _forget_commit(self, rewriting: Rewriting, head: str) -> NewObject:
        asked, names = self.asked, rewriting.names
        assert rewriting.last == head, "BUG: a commit that was not rewritten"
        meta = CommitMeta(
            kind="forget",
            time=int(time.time()),
            subject=f"forget {asked.path}: {rewriting.touched:,} commits changed it, "
            f"{len(names):,} have new ids",
            why=asked.message,
            method="forget",
            agent=asked.agent,
            session=asked.session,
            peer=asked.peer,
            version=__version__,
        )
        return commit_object(meta, rewriting.tree, rewriting.new_name(head))

    def _moved_cut(self, rewriting: Rewriting) -> Cut | None:
        """Where a history that was cut off begins then; both beginnings hold for the moment."""
        cut = self.writer.state.known[self.workspace.name].cut
        if cut is None or cut.oldest not in rewriting.names:
            return None
        new = rewriting.names[cut.oldest]
        write_shallow(self.workspace.shadow, new, self.writer.state.disk, cut.oldest)
        return msgspec.structs.replace(cut, oldest=new)


# -- afterwards


def finishing(
    writer: Writer, workspace: Workspace, progress: Progress, on_cut: Callable[[str], None]
) -> Generator[None, None, None]:
    """Do what has to be done when the history is another one; may be done again."""
    shadow, state = workspace.shadow, writer.state
    known = writer.from_thread(lambda: state.known[workspace.name])
    rewritten = known.forgetting
    if rewritten is None:
        return
    progress.begin("forgetting elsewhere")
    writer.background.require(workspace.number)
    # First of all: with "relaxed" durability a power cut could take the record, and what follows
    # has no way back.
    _take_checkpoint(writer)
    hit("forget.checkpointed")
    yield
    names = read_pending(shadow)
    for name in references_below(shadow, "refs"):
        oid = read_reference(shadow, name) if name != HISTORY else None
        if oid in names:
            write_reference(shadow, name, names[oid], state.disk)
    if known.cut is not None:
        write_shallow(shadow, known.cut.oldest, state.disk)
    hit("forget.references_moved")
    take_next(shadow, state.disk)
    replies = _Replies(names, frozenset(rewritten.paths))
    writer.background.run(
        lambda: writer.checkpoints.store.rewrite(workspace.name, replies.changed)
    ).result()
    remove(HistoryIndex.path_for(shadow))
    on_cut(shadow)
    if os.path.exists(stat_cache_path(shadow)):
        os.unlink(stat_cache_path(shadow))
    hit("forget.replies_changed")
    yield
    yield from collecting(writer, workspace, progress, drop=True)
    writer.from_thread(lambda: _record_end(writer, workspace))


def _record_end(writer: Writer, workspace: Workspace) -> None:
    record(writer, workspace.name, rewritten=Rewritten("", 0, []))
    writer.state.set_forgetting(workspace.name, None)


def _take_checkpoint(writer: Writer) -> None:
    """Wait for one after which nothing older is in the journal."""
    before = writer.from_thread(lambda: writer.journal.position.segment)
    recorded = wait_for_checkpoint(writer, fresh=True)
    if recorded is None or recorded.segment <= before:
        raise refuse(
            Kind.IO_ERROR,
            "forget: no checkpoint could be taken, so the journal still holds what is to be "
            "forgotten. Send the call again.",
        )


@dataclass(frozen=True, slots=True)
class _Replies:
    """Replies by request id, of a history that was rewritten."""

    names: dict[str, str]
    paths: frozenset[str]

    def changed(self, reply: bytes) -> bytes:
        """A reply with the ids that its commits have now, and no text about these paths."""
        result = msgspec.msgpack.decode(reply, type=known(EditResult))
        told = msgspec.structs.replace(
            result,
            commit=self.names.get(result.commit or "", result.commit),
            outside=self.names.get(result.outside or "", result.outside),
        )
        touched = {path for file in result.files for path in (file.path, file.old_path)}
        if self.paths & touched:
            told = msgspec.structs.replace(
                told,
                message="This call was carried out. It changed a path that was forgotten since.",
                files=[file for file in told.files if file.path not in self.paths],
                edits=[edit for edit in told.edits if edit.path not in self.paths],
                warnings=[],
                result=msgspec.UNSET,
            )
        return msgspec.msgpack.encode(told)


def _have_in_common(one: str, two: str) -> bool:
    """Whether a line of one, or what it has of a line, stands in the other."""
    return any(line in two for line in _telling_lines(one)) or any(
        line in one for line in _telling_lines(two)
    )


def _telling_lines(text: str) -> set[str]:
    return {line.strip() for line in text.split("\n") if len(line.strip()) >= _TELLING}


def _has(repository: ShadowRepository, oid: str) -> bool:
    try:
        repository.blob(oid)
    except MissingObject:
        return False
    return True


def _is_in_history(repository: ShadowRepository, oid: str, head: str | None) -> bool:
    return any(commit.oid == oid for commit in repository.walk(head))
