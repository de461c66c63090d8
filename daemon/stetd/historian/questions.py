"""The historian's questions: a table of names, types of parameters, and functions that answer."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.first_use import known_to_msgspec
from stet.wire.results import ClipboardRef, EditResult, FileChange
from stetd.config.settings import Settings
from stetd.historian.index.keeping import discard
from stetd.historian.index.request_store import RequestStore
from stetd.historian.maintenance.forget_scan import Rewriting, finish, left_out, rewritten
from stetd.historian.maintenance.gc import choose, collected, directory_bytes, has_remains, is_due
from stetd.historian.maintenance.snapshots import taken
from stetd.historian.queries.blame import blame_file
from stetd.historian.queries.commit_changes import changes_of, counted, described, row_of
from stetd.historian.queries.export import exported
from stetd.historian.queries.files import diff, read_file
from stetd.historian.queries.log import described_pin, log, pinned_commits, show
from stetd.historian.queries.verify import claimed, verified
from stetd.historian.undo.undo import proposed
from stetd.history.commits import rfc3339
from stetd.history.excluding import Excludes
from stetd.observing.changed_files import KnownFiles, scan_workspace
from stetd.observing.current_content import ScanRequest
from stetd.parameters import Blame, Diff, Export, Forget, Log, Read, Show
from stetd.planning.world import EditCall
from stetd.processes import historian_messages as messages
from stetd.processes.long_work import Claim, Collected, Moment, RetentionChoice, Verifying
from stetd.refusals import damaged_history, history_unwritable, io_failure
from stetd.repository.git_writer import GitWriter, Unwritten
from stetd.repository.object_files import Damaged, Missing
from stetd.repository.reachable import BrokenHistory
from stetd.repository.references import DamagedReference
from stetd.repository.stored_objects import BrokenRepository, KeptHandles, MissingObject
from stetd.state.read_view import ReadView
from stetd.state.state import shadow_path
from stetd.storage.disk import Disk
from stetd.storage.progress import Progress
from stetd.storage.request_record import RequestRecord
from stetd.storage.worktree import Worktree


class Library(msgspec.Struct):
    """State that all questions share."""

    disk: Disk
    git_writer: GitWriter
    settings: Settings
    #: Has a repository's index updated soon.
    follow: Callable[[str], None]
    #: Why a repository's history can't be continued; None if it can.
    trouble_of: Callable[[str], str | None]
    requests: RequestStore
    handles: KeptHandles = msgspec.field(default_factory=KeptHandles)
    #: The files of each workspace, as earlier scans found them.
    files: KnownFiles = {}
    #: What the forget that is under way has rewritten so far.
    rewritings: list[Rewriting] = []


def answer(library: Library, asked: messages.Ask, progress: Progress) -> object:
    """Answer a question. Raises Refused."""
    table = _ABOUT_ALL if asked.view is None else _ABOUT_A_VIEW | _ABOUT_BOTH
    expected, run = table[asked.question]
    params = msgspec.msgpack.decode(asked.params, type=known_to_msgspec(expected))
    try:
        if asked.view is None:
            return run(library, params, progress)
        with _opened(library, asked.view, progress) as view:
            if asked.question in _ABOUT_BOTH:
                return run(library, view, params)
            return run(view, params)
    except (BrokenRepository, MissingObject, Missing) as error:
        raise damaged_history(str(error)) from error
    except (BrokenHistory, DamagedReference, Damaged) as error:
        raise refuse(
            Kind.IO_ERROR,
            f"{asked.question}: the history is damaged: {error}. Nothing was removed. "
            "stet verify names all that is damaged and says what to do.",
        ) from error
    except OSError as error:
        raise io_failure(error) from error


@contextmanager
def _opened(
    library: Library, given: messages.WorkspaceView, progress: Progress
) -> Iterator[ReadView]:
    """Open a view once Git has all records that the question must see. Raises Refused."""
    if given.number:
        _require(library, given.shadow)
    trouble = library.trouble_of(given.shadow)
    if trouble is not None:
        raise damaged_history(trouble)
    try:
        worktree = Worktree(given.root, library.disk)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        raise refuse(
            Kind.WORKSPACE_NOT_ALLOWED,
            f"{given.root}: the workspace's directory is not there ({error.strerror}).",
        ) from error
    settings = library.settings
    with closing(worktree):
        try:
            yield ReadView(
                worktree, given.shadow, given.head, given.directory, settings.max_file_bytes,
                library.handles, given.cut, Excludes(settings.exclude),
                frozenset(given.inner), library.disk, progress,
            )  # fmt: skip
        except Refused as refusal:
            if refusal.kind == Kind.OVERLOADED:
                library.follow(given.shadow)  # the next question finds the index further on
            if given.cut is None or refusal.kind != Kind.UNKNOWN_COMMIT:
                raise
            said = (
                f" It may be one of the {given.cut.dropped:,} commits before "
                f"{given.cut.oldest[:12]} that retention has dropped, the last of them on "
                f"{rfc3339(given.cut.time)}; these can't be had any more."
            )
            first, *rest = refusal.failures
            first = msgspec.structs.replace(first, message=first.message + said)
            raise Refused(first, *rest, extra=refusal.extra) from refusal


def _require(library: Library, shadow: str) -> None:
    """Wait until Git has all of a history that was followed so far. Raises Refused."""
    try:
        library.git_writer.wait_for(shadow)
    except Unwritten as error:
        raise history_unwritable(*error.args) from error


def _files_of(view: ReadView, oid: str) -> list[FileChange]:
    with view.handles.opened(view.shadow) as repository:
        changes = changes_of(repository, repository.commit(oid))
        return [counted(repository.blob, row_of(change)) for change in changes]


def _diff_of(view: ReadView, result: EditResult) -> str:
    """The diff for a stored reply, which is kept without it."""
    with view.handles.opened(view.shadow) as repository:
        changes = changes_of(repository, repository.commit(result.commit or ""))
        diffs = {each.path: described(repository.blob, each)[1] for each in changes}
        return "".join(diffs.get(file.path, "") for file in result.files if not file.excluded)


def _answered(library: Library, key: tuple[str, str, str], _: Progress) -> list[RequestRecord]:
    found = library.requests.find(*key)
    return [found] if found is not None else []


def _claimed(library: Library, asked: tuple[str, str, Moment], _: Progress) -> Claim:
    state, name, moment = asked
    _require(library, shadow_path(state, name))
    return claimed(state, name, moment)


def _rebuild(library: Library, shadow: str) -> None:
    library.handles.drop(shadow)
    discard(shadow)
    library.follow(shadow)


def _packed(library: Library, shadow: str, progress: Progress, *, drop: bool) -> Collected:
    library.rewritings.clear()  # what they have written may go
    try:
        return collected(shadow, library.git_writer, library.disk, progress, drop=drop)
    finally:
        library.handles.drop(shadow)


def _chosen(library: Library, view: ReadView, _: None) -> list[RetentionChoice]:
    try:
        found = choose(view, library.settings, library.git_writer)
        return [found] if found is not None else []
    finally:
        library.handles.drop(view.shadow)


def _finished(library: Library, view: ReadView, forgotten: list[str]) -> None:
    shadow, name = view.shadow, os.path.basename(view.shadow)
    new_ids, paths = finish(view), frozenset(forgotten)

    def rewrite() -> None:
        library.requests.rewrite(name, lambda reply: rewritten(reply, new_ids, paths))

    library.git_writer.run(shadow, rewrite).result()
    _rebuild(library, shadow)


#: By name, the type of the parameters, and the function of a view and the parameters.
_ABOUT_A_VIEW: dict[str, tuple[Any, Callable[..., object]]] = {
    "read": (Read, read_file),
    "log": (Log, log),
    "show": (Show, show),
    "blame": (Blame, blame_file),
    "diff": (Diff, diff),
    "export": (Export, exported),
    "pin": (list[str], described_pin),
    "pins": (None, pinned_commits),
    "files of a commit": (str, _files_of),
    "diff of a reply": (EditResult, _diff_of),
}
#: Questions that need the library, too: functions of it, a view and the parameters.
_ABOUT_BOTH: dict[str, tuple[Any, Callable[..., object]]] = {
    "scan the workspace": (
        ScanRequest,
        lambda library, view, asked: scan_workspace(view, library.files, asked),
    ),
    "what goes": (None, _chosen),
    "take back": (EditCall, lambda library, view, call: proposed(view, call, library.settings)),
    "snapshot": (bool, lambda library, view, skip: taken(view, skip, library.settings)),
    "leave out": (
        tuple[Forget, list[tuple[ClipboardRef, str]], bool],
        lambda library, view, given: left_out(view, given, library.rewritings),
    ),
    "finish forgetting": (list[str], _finished),
}
#: Questions without a view: functions of the library, the parameters and the progress.
_ABOUT_ALL: dict[str, tuple[Any, Callable[..., object]]] = {
    "claim": (tuple[str, str, Moment], _claimed),
    "verify": (Verifying, lambda library, asked, _: verified(asked, library.disk)),
    "answered call": (tuple[str, str, str], _answered),
    "reached": (str, lambda library, shadow, _: _require(library, shadow)),
    "sizes": (list[str], lambda _, shadows, __: sum(map(directory_bytes, shadows))),
    "rebuild": (str, lambda library, shadow, _: _rebuild(library, shadow)),
    "is due": (str, lambda _, shadow, __: is_due(shadow)),
    "has remains": (str, lambda _, shadow, __: has_remains(shadow)),
    "tidy": (str, partial(_packed, drop=False)),
    "collect": (str, partial(_packed, drop=True)),
}
