"""What the historian can be asked: by name, with parameters of a type, about a place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from stet.wire.failures import Kind, refuse
from stet.wire.results import EditResult, FileChange
from stetd.historian.index.keeping import discard
from stetd.historian.index.request_store import RequestStore
from stetd.historian.maintenance.forget_scan import finish, left_out, still_there
from stetd.historian.maintenance.gc import collected, directory_bytes, is_due, tidied
from stetd.historian.maintenance.retention_choice import choose, has_remains
from stetd.historian.maintenance.rewritten_replies import Replies
from stetd.historian.maintenance.snapshots import taken
from stetd.historian.queries import blame as blame_reading
from stetd.historian.queries import files as reading
from stetd.historian.queries import log as history_reading
from stetd.historian.queries.commit_changes import changes_of, counted
from stetd.historian.queries.export import exported
from stetd.historian.queries.pins import described_pin, pinned_commits
from stetd.historian.queries.verify import claimed, verified
from stetd.historian.undo.proposals import proposed
from stetd.history.excluding import Excludes
from stetd.observing.changed_files import KnownFiles, look_at_workspace
from stetd.observing.current_content import Differing, Looking
from stetd.planning.proposals import Proposal, Proposing
from stetd.processes import historian_messages as messages
from stetd.processes.verify_claims import Claimed, Claiming, Verifying
from stetd.processes.works import (
    Choice,
    Choosing,
    Collected,
    Finishing,
    LeavingOut,
    LeftOut,
    Taken,
    Taking,
)
from stetd.repository.git_writer import Background, Unwritten
from stetd.repository.kept_handles import KeptHandles
from stetd.repository.object_files import Damaged
from stetd.repository.reachable import BrokenHistory
from stetd.repository.stored_objects import MissingObject, StoredObjects
from stetd.state.reading_place import Place
from stetd.state.replies import recorded_diff
from stetd.storage.disk import Disk
from stetd.storage.progress import Progress
from stetd.storage.request_record import RequestRecord
from stetd.storage.stat_cache import stat_cache_path
from stetd.storage.worktree import Worktree
from stetd.transaction.parameters import Blame, Diff, Export, Log, Read, Show
from stetd.transaction.refusals import damaged_history, history_unwritable, io_failure

T = TypeVar("T")


@dataclass(slots=True)
class Library:
    """What all questions share."""

    disk: Disk
    background: Background
    options: messages.Options
    #: Has the index of a repository brought up to date, soon.
    follow: Callable[[str], None]
    #: Why a repository's history can't be gone on with.
    trouble_of: Callable[[str], str | None]
    excludes: Excludes = field(default_factory=Excludes)
    #: Opens the replies that are kept; set by the historian.
    requests: Callable[[], RequestStore] = field(init=False)
    handles: KeptHandles = field(default_factory=KeptHandles)
    #: What is known of the files of each workspace.
    files: dict[str, KnownFiles] = field(default_factory=dict)

    def known_files(self, shadow: str) -> KnownFiles:
        """What earlier looks at a workspace have learnt."""
        if shadow not in self.files:
            self.files[shadow] = KnownFiles(stat_cache_path(shadow))
        return self.files[shadow]


class About(msgspec.Struct, frozen=True):
    """Where a question is asked; how far its answer has come."""

    library: Library
    told: messages.Place
    place: Place
    progress: Progress


def is_work(question: str) -> bool:
    """Whether it takes long, and one is answered after the other."""
    return question in _WORKS


def answer(library: Library, asked: messages.Ask, progress: Progress) -> object:
    """The answer. Raises Refused."""
    question = _WORKS.get(asked.question) or _QUESTIONS[asked.question]
    params = msgspec.msgpack.decode(asked.params, type=question.params)
    try:
        if asked.place is None:
            return question.answer(library, params, progress)
        with _opened(library, asked.place) as place:
            return question.answer(About(library, asked.place, place, progress), params)
    except MissingObject as error:
        raise damaged_history(str(error)) from error
    except (BrokenHistory, Damaged) as error:
        raise refuse(
            Kind.IO_ERROR,
            f"{asked.question}: the history is damaged: {error}. Nothing was removed. "
            "stet verify names all that is damaged and says what to do.",
        ) from error
    except OSError as error:
        raise io_failure(error) from error


@contextmanager
def _opened(library: Library, told: messages.Place) -> Iterator[Place]:
    """A place as it is now, once Git has what the question must have seen. Raises Refused."""
    _require(library, told.number)
    trouble = library.trouble_of(told.shadow)
    if trouble is not None:
        raise damaged_history(trouble)
    try:
        worktree = Worktree(told.root, library.disk)
    except OSError as error:
        raise refuse(
            Kind.WORKSPACE_NOT_ALLOWED,
            f"{told.root}: the workspace's directory is not there ({error.strerror}).",
        ) from error
    try:
        yield Place(
            worktree,
            told.shadow,
            told.head,
            told.directory,
            library.options.max_file_bytes,
            library.handles,
            lambda: library.follow(told.shadow),
            told.cut,
            library.excludes,
            frozenset(told.inner),
        )
    finally:
        worktree.close()


def _require(library: Library, number: int) -> None:
    """Wait until Git has this record. What was handed over is all up to it that makes commits."""
    try:
        library.background.require(min(number, library.background.handed_over))
    except Unwritten as error:
        raise history_unwritable(*error.args) from error


class _Question(msgspec.Struct, frozen=True):
    params: Any
    answer: Callable[..., object]


def _on_place(params: Any, run: Callable[[Place, Any], object]) -> _Question:
    return _Question(params, lambda about, given: run(about.place, given))


def _in_all(params: Any, run: Callable[[Library, Any], object]) -> _Question:
    return _Question(params, lambda library, given, _: run(library, given))


def _files_of(about: About, oid: str) -> list[FileChange]:
    repository = StoredObjects(about.told.shadow)
    try:
        changes = changes_of(repository, repository.commit(oid))
        return [counted(repository, change) for change in changes]
    finally:
        repository.close()


def _diff_of(about: About, result: EditResult) -> str:
    repository = StoredObjects(about.told.shadow)
    try:
        return recorded_diff(repository, result)
    finally:
        repository.close()


def _differing(about: About, asked: Looking) -> Differing:
    known = about.library.known_files(about.told.shadow)
    return look_at_workspace(about.place, known, asked)


def _answered(library: Library, key: tuple[str, str, str]) -> list[RequestRecord]:
    found = library.requests().find(*key)
    return [found] if found is not None else []


def _claimed(library: Library, asked: Claiming) -> Claimed:
    _require(library, library.background.handed_over)
    return claimed(asked)


def _proposed(about: About, asked: Proposing) -> Proposal:
    return proposed(about.place, about.told, asked, about.library.disk)


def _rebuild(library: Library, shadow: str) -> None:
    library.handles.drop(shadow)
    discard(shadow)
    library.follow(shadow)


def _tidied(library: Library, shadow: str, progress: Progress) -> Collected:
    try:
        return tidied(shadow, library.background, library.disk, progress)
    finally:
        library.handles.drop(shadow)


def _collected(library: Library, shadow: str, progress: Progress) -> Collected:
    try:
        return collected(shadow, library.background, library.disk, progress, drop=True)
    finally:
        library.handles.drop(shadow)


def _chosen(about: About, asked: Choosing) -> list[Choice]:
    library, shadow = about.library, about.told.shadow
    found = choose(shadow, asked, library.background, library.disk, about.progress)
    return [found] if found is not None else []


def _taken(about: About, asked: Taking) -> Taken:
    return taken(about.place, asked, about.library.disk, about.progress)


def _left_out(about: About, asked: LeavingOut) -> LeftOut:
    return left_out(about.place, asked, about.library.disk, about.progress)


def _finished(about: About, asked: Finishing) -> None:
    library, shadow = about.library, about.told.shadow
    replies = Replies(finish(shadow, asked, library.disk), frozenset(asked.paths))
    requests = library.requests()
    library.background.run(lambda: requests.rewrite(asked.workspace, replies.changed)).result()
    _rebuild(library, shadow)


_QUESTIONS: dict[str, _Question] = {
    "read": _on_place(Read, reading.read_file),
    "log": _on_place(Log, history_reading.log),
    "show": _on_place(Show, lambda place, asked: history_reading.show(place, asked.commit)),
    "blame": _on_place(Blame, blame_reading.blame_file),
    "diff": _on_place(Diff, reading.diff),
    "export": _on_place(Export, exported),
    "pin": _on_place(list[str], lambda place, asked: described_pin(place, *asked)),
    "pins": _on_place(None, lambda place, _: pinned_commits(place)),
    "files of a commit": _Question(str, _files_of),
    "diff of a reply": _Question(EditResult, _diff_of),
    "look at the workspace": _Question(Looking, _differing),
    "claim": _in_all(Claiming, _claimed),
    "verify": _in_all(Verifying, lambda library, asked: verified(asked, library.disk)),
    "answered call": _in_all(tuple[str, str, str], _answered),
    "reached": _in_all(int, _require),
    "sizes": _in_all(list[str], lambda _, shadows: sum(map(directory_bytes, shadows))),
    "rebuild": _in_all(str, _rebuild),
    "is due": _in_all(str, lambda _, shadow: is_due(shadow)),
    "has remains": _in_all(str, lambda _, shadow: has_remains(shadow)),
    "still there": _in_all(tuple[str, list[str]], lambda _, asked: still_there(*asked)),
    "take back": _Question(Proposing, _proposed),
}
_WORKS: dict[str, _Question] = {
    "tidy": _Question(str, _tidied),
    "collect": _Question(str, _collected),
    "what goes": _Question(Choosing, _chosen),
    "snapshot": _Question(Taking, _taken),
    "leave out": _Question(LeavingOut, _left_out),
    "finish forgetting": _Question(Finishing, _finished),
}
