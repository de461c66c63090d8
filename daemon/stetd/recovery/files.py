"""Bringing the files of one workspace to their last image after a crash: ARCHITECTURE.md 6.

First the temporary files are read: one may hold a displaced save that was not put back. Then
:mod:`stetd.recovery.table` decides about every path that the journal names. The decisions are
journalled and synced before any of them is carried out, by exchange and compare like every write,
so after a kill at any step the next recovery decides the same.

A file that can't be read or written stays unsettled: the caller must then keep the records in the
journal, for the next start to try again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from stet.wire.failures import Refused
from stetd import __version__
from stetd.failpoints import failpoint
from stetd.history.commits import CommitMeta
from stetd.history.objects import Image, NewObject, same_image
from stetd.recovery.table import ChainImage, decide, looks_torn
from stetd.repository.stored_objects import MissingObject
from stetd.state.state import State
from stetd.state.workspace import Workspace
from stetd.storage.journal import Journal
from stetd.storage.journal_format import Change, Reached, Step
from stetd.storage.worktree import OnDisk, beside, temporary_name
from stetd.transaction.heads import seal_outside
from stetd.transaction.transaction import Displaced, PreparedFile, Restorer, install, mark_published

_log = logging.getLogger(__name__)


class Temporary(msgspec.Struct, frozen=True):
    """A temporary file that a record names, in the directory of ``path``.

    ``settled``: the record, or the abort that voids it, is marked as published: the file is not
    needed. ``position``: of the record's image in the path's chain; the image before it is the one
    that the record found.
    """

    path: str
    name: str
    settled: bool
    position: int


class PendingRecords(msgspec.Struct):
    """The records about one workspace since the checkpoint, and those kept because it is deferred.

    ``first`` is the place of the first of them in the journal (segment, offset), ``last`` the
    segment of the last.
    """

    first: tuple[int, int]
    last: int = 0
    #: Path to its images in the order of the journal.
    chains: dict[str, list[ChainImage]] = {}
    temporaries: list[Temporary] = []
    #: Directories that an undone or voided call made: to be removed if they are empty.
    directories: list[str] = []
    #: Commits (or rewritten histories), each with the number of its record.
    commits: list[tuple[int, Step]] = []
    #: Contents, also of files that are excluded from the history.
    blobs: dict[str, bytes] = {}

    def commits_after(self, start: Reached) -> list[tuple[int, Step]]:
        """The commits that come after a head; all of them, if the head is not among them."""
        for at in range(len(self.commits), 0, -1):
            if start.after(self.commits[at - 1][1]).head == start.head:
                return self.commits[at:]
        return self.commits

    def give_up_files(self) -> None:
        """The workspace was forgotten: its files were synced, or are never settled."""
        self.chains, self.temporaries, self.directories = {}, [], []


class Recovered(msgspec.Struct):
    """What recovery did, for the log: the number of records, and paths."""

    records: int = 0
    rolled_forward: list[str] = []
    kept: list[str] = []
    torn: list[str] = []


class FileRecovery(msgspec.Struct):
    """Decides about the files of one workspace, and carries out the decisions."""

    state: State
    workspace: Workspace
    pending: PendingRecords
    report: Recovered
    records: list[Change] = []
    works: list[tuple[int, PreparedFile]] = []
    objects: list[NewObject] = []
    handled: set[str] = set()
    #: Names of temporary files that must not be removed.
    kept_temporaries: set[str] = set()
    #: Paths that could not be settled, each with its error.
    unsettled: dict[str, str] = {}

    # -- temporary files

    def check_temporaries(self) -> None:
        """Find displaced saves that were not put back (ARCHITECTURE.md 6)."""
        saves: dict[str, tuple[Temporary, list[OnDisk]]] = {}
        for temporary in self.pending.temporaries:
            if temporary.settled:
                continue
            try:
                found = self._read(temporary.path, temporary.name)
                if found is None:
                    continue
                if found.data is None:
                    self._put_back_non_file(temporary)
                elif self._is_displaced_save(temporary, found):
                    saves.setdefault(temporary.path, (temporary, []))[1].append(found)
                else:
                    # Now, and not at the end: our content is in place then. A recovery after a kill
                    # there would take a torn piece of it for a displaced save.
                    self._discard(temporary)
            except (Refused, OSError) as error:
                _log.warning("%s stays beside %s: %s", temporary.name, temporary.path, error)
                self.kept_temporaries.add(temporary.name)
        for first, found_saves in saves.values():
            self._put_back(first, found_saves)

    def _images(self, temporary: Temporary) -> list[Image | None]:
        """The image that a temporary file's record found at the path, and those that we put there:
        by that record, and later.
        """
        chain = self.pending.chains[temporary.path]
        return [link.image for link in chain[temporary.position - 1 :]]

    def _is_ours(self, temporary: Temporary, now: OnDisk | None) -> bool:
        """Whether the current file at a path is one of these images, or a torn one."""
        image = now.image if now else None
        if now is not None and image is None:
            return False
        _, *images = self._images(temporary)
        if any(same_image(image, each) for each in images):
            return True
        last = self.pending.chains[temporary.path][-1]
        if now is None or now.data is None or last.boot == self.state.boot:
            return False
        return looks_torn(now.data, self._contents(images))

    def _is_displaced_save(self, temporary: Temporary, found: OnDisk) -> bool:
        """Whether a temporary file holds somebody's save that is not recorded yet.

        It does not if its content is ours, or ours torn: by a power cut (it is of another boot), or
        by a kill during staging (of the same boot). Then no exchange has been made, so our content
        is not in place.
        """
        assert found.data is not None, "BUG: no file"
        images = self._images(temporary)
        if any(image is not None and image.oid == found.oid for image in images):
            return False
        if not looks_torn(found.data, self._contents(images)):
            return True
        if self.pending.chains[temporary.path][temporary.position].boot != self.state.boot:
            return False
        now = self._read(temporary.path)
        in_place = self._is_ours(temporary, now)
        return in_place and not same_image(now.image if now else None, images[0])

    def _put_back(self, temporary: Temporary, saves: list[OnDisk]) -> None:
        """Record displaced saves, and put the last one back if our content is still in place."""
        path = temporary.path
        try:
            now = self._read(path)
        except OSError as error:
            self._mark_unsettled(path, error)
            return
        self.handled.add(path)
        self.report.kept.append(path)
        if self._is_ours(temporary, now):
            self._record(path, saves, write=(now, saves[-1].image))
        else:
            self._record(path, [*saves, now])

    def _put_back_non_file(self, temporary: Temporary) -> None:
        """Put back a displaced directory (or pipe, ..), which the history can't keep."""
        self.kept_temporaries.add(temporary.name)
        now = self._read(temporary.path)
        if now is not None and not (
            self._is_ours(temporary, now) and self._is_newer(temporary, now)
        ):
            return
        worktree = self.workspace.worktree
        with worktree.resolve_exactly(temporary.path) as target:
            if now is None:
                worktree.rename_in(target, temporary.name)
            else:
                worktree.swap(target, temporary.name)
                self.kept_temporaries.discard(temporary.name)

    def _is_newer(self, temporary: Temporary, now: OnDisk) -> bool:
        """Whether a displaced directory is newer than the file that is in place.

        The chain has None for a directory. If the file in place is an image after that, it is a
        save that was made later.
        """
        images = self._images(temporary)[2:]
        return None not in images or not any(
            same_image(now.image, image) for image in images[images.index(None) :]
        )

    def clear_temporaries(self) -> None:
        """Remove the temporary files of settled paths."""
        for temporary in self.pending.temporaries:
            if temporary.name not in self.kept_temporaries and temporary.path not in self.unsettled:
                self._discard(temporary)
        failpoint("recovery.cleared")

    def remove_directories(self) -> None:
        """Remove the directories that undone or voided calls have made, if they are empty."""
        for directory in self.pending.directories:
            self.workspace.worktree.remove_directory(directory)

    def _discard(self, temporary: Temporary) -> None:
        self.workspace.worktree.discard_path(beside(temporary.path, temporary.name))

    # -- paths

    def check_paths(self) -> None:
        """Decide about every other path by the table."""
        for path, chain in self.pending.chains.items():
            if path in self.handled:
                continue
            same_boot = chain[-1].boot == self.state.boot
            try:
                self._decide(path, chain, self._read(path), same_boot=same_boot)
            except Refused as refusal:
                _log.warning("recovery leaves %s alone: %s", path, refusal)
            except (OSError, MissingObject) as error:
                # If all was published in this boot, somebody has made the file unreadable since.
                if not (same_boot and all(link.published for link in chain)):
                    self._mark_unsettled(path, error)

    def _mark_unsettled(self, path: str, error: Exception) -> None:
        _log.error("recovery can't settle %s: %s", path, error)
        self.unsettled[path] = str(error)
        self.handled.add(path)

    def _decide(
        self, path: str, chain: list[ChainImage], found: OnDisk | None, *, same_boot: bool
    ) -> None:
        image = found.image if found else None
        contents = self._contents([link.image for link in chain])
        torn = found is not None and found.data is not None and looks_torn(found.data, contents)
        other = found is not None and image is None
        recorded, written = decide(chain, image, same_boot=same_boot, torn=torn, other=other)
        workspace = self.workspace
        if written:
            (self.report.torn if recorded else self.report.rolled_forward).append(path)
            outside, write = [found] if recorded else [], (found, chain[-1].image)
            self._record(path, outside, write=write, restoring=recorded)
        elif recorded and not same_image(
            workspace.head.image(path, workspace.repository.load_tree), image
        ):
            self.report.kept.append(path)
            self._record(path, [found])

    # -- decisions

    def _record(
        self,
        path: str,
        found: Sequence[OnDisk | None],
        *,
        write: tuple[OnDisk | None, Image | None] | None = None,
        restoring: bool = False,
    ) -> None:
        """Add the record of a decision: a commit for each file that was ``found`` at a path.

        ``write``: (the file there now, the image to write); None: write nothing. ``restoring``: it
        is written over torn bytes, and committed too.
        """
        workspace, number, now = self.workspace, self.state.number + 1, int(time.time())
        subject = "torn by a power cut" if restoring else "changed outside"
        steps = [(subject, {path: each.image if each else None}) for each in found]
        blobs = {each.oid: each.data for each in found if each and each.data is not None}
        history = workspace.history(now)
        record = seal_outside(steps, blobs, history, number=number, workspace=workspace.name)
        if write is not None:
            before, after = write
            content = None
            if after is not None:
                content = blobs[after.oid] if after.oid in blobs else self._content(after)
            target, temporary = workspace.worktree.resolve_exactly(path), temporary_name()
            if restoring and not history.excludes(path):
                meta = CommitMeta(
                    kind="restore",
                    time=now,
                    subject=f"restore after a power cut: {path}",
                    method="recovery",
                    version=__version__,
                )
                history.add(meta, {path: after})
            work = PreparedFile(target, before, content, after, temporary)
            record = msgspec.structs.replace(
                record,
                paths=[*record.paths, work.path_change],
                commits=history.commits,
                performed=False,
            )
            self.works.append((number, work))
        self.state.number = number
        self.records.append(record)
        workspace.head = history.head
        self.objects += history.new_objects(record.blobs)

    def journal(self, journal: Journal) -> None:
        """Make the decisions durable."""
        if self.records:
            journal.append(*self.records, reserve=1 << 20)
            journal.sync(always=True)
        failpoint("recovery.decided")

    def carry_out(self, journal: Journal) -> None:
        """Write the files, each by exchange and compare."""
        for number, work in self.works:
            try:
                self._carry_out(number, work, journal)
            except (OSError, MissingObject) as error:
                self._mark_unsettled(work.target.path, error)
            finally:
                work.close()
                work.target.close()
        failpoint("recovery.carried_out")

    def _carry_out(self, number: int, work: PreparedFile, journal: Journal) -> None:
        worktree, first = self.workspace.worktree, self.state.number + 1
        history = self.workspace.history(int(time.time()))
        restorer = Restorer(worktree, journal, history, self.state.number, self.workspace.name)
        try:
            self._install(work)
        except Displaced:
            restorer.restore(work, record_displaced=True)
        except OSError:
            restorer.restore(work)
            raise
        else:
            if work.before is not None:
                worktree.discard(work.target, work.temporary)
        finally:
            self.state.number = restorer.number
            self.workspace.head = history.head
            self.objects += history.objects
        mark_published(journal, number, *range(first, self.state.number + 1))

    def _install(self, work: PreparedFile) -> None:
        """Install a file; once more if nothing has changed at its path: somebody has removed the
        temporary file (``git clean``), or the file system turns out to keep no modes.
        """
        worktree = self.workspace.worktree
        try:
            install(work, worktree)
        except Displaced as displaced:
            found = displaced.found.image if displaced.found else None
            if work.in_place or not same_image(found, work.before_image):
                raise
            work.close()
            worktree.discard(work.target, work.temporary)
            if work.after is not None:
                mode = worktree.resulting_mode(work.target, work.after.mode)
                work.after = Image(work.after.oid, mode)
            install(work, worktree)

    # -- reading

    def _read(self, path: str, temporary: str | None = None) -> OnDisk | None:
        """The current file at a path, or the temporary one beside it, after its swap."""
        worktree = self.workspace.worktree
        with worktree.resolve_exactly(path) as target, suppress(FileNotFoundError):
            if target.missing:
                return None
            if temporary is not None:
                worktree.finish_swap(target, temporary)
            return worktree.read_name(target, temporary)
        return None

    def _content(self, image: Image) -> bytes:
        known = self.pending.blobs.get(image.oid)
        return self.workspace.repository.blob(image.oid) if known is None else known

    def _contents(self, images: Sequence[Image | None]) -> list[bytes]:
        contents = []
        for image in images:
            with suppress(MissingObject):
                if image is not None:
                    contents.append(self._content(image))
        return contents
