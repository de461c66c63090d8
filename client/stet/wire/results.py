"""The results of methods as typed values: EditResult, CommitInfo and the others.

Object ids are 40 hex digits, lines count from 1, list indexes from 0, times are
RFC 3339 in UTC. Every field that an older peer may not send has a default.
"""

from __future__ import annotations

from typing import Any

import msgspec


class FileChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file of a commit. ``before`` and ``after`` are blob ids; None: no file. ``status`` is A
    (added), M (modified), D (deleted) or R (renamed, with ``old_path``); ``added`` and ``removed``
    count lines. ``excluded``: the history does not keep this file, so it has no diff, and in
    ``log`` and ``show`` neither ids nor counts.
    """

    path: str
    status: str
    before: str | None
    after: str | None
    added: int
    removed: int
    old_path: str | None = None
    excluded: bool = False


class EditReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where one edit of a call landed: lines ``line``..``end_line`` of the new file.

    ``rung``: of the matching ladder (docs/dialects.md). ``score``: for ``fuzzy`` only. ``call``:
    which call of a ``transaction``.
    """

    index: int
    path: str
    line: int
    end_line: int
    rung: str
    call: int | None = None
    score: float | None = None


class ClipboardNote(msgspec.Struct, frozen=True):
    """A clipboard that the call stored; ``modified_by_match``: it differs from oldText."""

    name: str
    modified_by_match: bool


class BlockResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``patch_block`` for one file, in the structure that its dialect prescribes.
    ``filepath`` is the path as the block spells it (null if none could be read), ``result`` says
    ``Applied N changes``. ``exitCode`` is 0 and ``error`` null, or 1 and the reason. ``call``:
    which call of a ``transaction``.
    """

    filepath: str | None
    result: str
    error: str | None
    exitCode: int  # noqa: N815 - the seed's spelling
    call: int | msgspec.UnsetType = msgspec.UNSET


class EditResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of every method that writes files. ``commit`` is null for a preview. Only
    ``patch_block`` gives a ``result``: an object for one file, a list for several; in a
    ``transaction`` always a list, for all its calls of that dialect.
    """

    commit: str | None
    outside: str | None = None
    files: list[FileChange] = []
    edits: list[EditReport] = []
    message: str = ""
    diff: str = ""
    warnings: list[str] = []
    clipboards: list[ClipboardNote] = []
    replayed: bool = False
    request: str | None = None
    undone: list[str] | msgspec.UnsetType = msgspec.UNSET
    result: BlockResult | list[BlockResult] | msgspec.UnsetType = msgspec.UNSET

    def further_warnings(self) -> list[str]:
        """The warnings that ``message`` does not contain; those of an edit are in both."""
        said = self.message.lower()
        return [each for each in self.warnings if f"warning: {each.lower()}" not in said]


class Peer(msgspec.Struct, frozen=True):
    """The process at the other end of the socket, from SO_PEERCRED and /proc."""

    pid: int
    command: str


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of the shadow repository, read from its trailers. ``subagent``: which of the
    session's agents made it, if the client has told. ``forgotten``: those of its files that
    ``forget`` has removed from the history; then it can't be undone any more.
    """

    commit: str
    parent: str | None
    time: str
    kind: str
    method: str | None = None
    agent: str | None = None
    session: str | None = None
    subagent: str | None = None
    request: str | None = None
    peer: Peer | None = None
    message: str = ""
    files: list[FileChange] = []
    reverts: list[str] = []
    reverted_by: str | None = None
    forgotten: list[str] | msgspec.UnsetType = msgspec.UNSET


class Dropped(msgspec.Struct, frozen=True):
    """The oldest part of a history, which retention has dropped: how many commits, the oldest
    commit that is left, when commits were last dropped, and why.
    """

    commits: int
    oldest: str
    time: str
    why: str


class LogResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of history, newest first; ``cursor`` is None at the end. The last page has ``dropped``
    if retention has dropped older commits.
    """

    commits: list[CommitInfo]
    cursor: str | None
    dropped: Dropped | None = None


class ShowResult(CommitInfo, frozen=True, kw_only=True):
    """CommitInfo with the unified diff against the parent."""

    diff: str = ""


class DiffResult(msgspec.Struct, frozen=True):
    """A unified diff and the files in it."""

    diff: str
    files: list[FileChange]


class BlameLines(msgspec.Struct, frozen=True, kw_only=True):
    """A run of lines that one commit wrote: ``count`` lines from ``line`` on, and their text.
    ``kind`` is ``outside`` with a commit for lines that it found in the file, and without one for
    current lines that are in no commit yet. It is ``retention`` if the commit is the oldest that is
    left: an earlier one may have written the lines, so nobody is named.
    """

    line: int
    count: int
    text: str
    commit: str | None = None
    kind: str = "outside"
    agent: str | None = None
    session: str | None = None
    time: str | None = None


class BlameResult(msgspec.Struct, frozen=True):
    """Who wrote each line of a file, in order. ``path`` is relative to the workspace's root."""

    path: str
    lines: list[BlameLines]


class ReadResult(msgspec.Struct, frozen=True):
    """A file's text, or a range of its lines. ``mode``: octal digits; ``lines``: number of lines of
    the whole file; ``eol``: one of lf, crlf, cr, mixed, none; ``bom``: whether the file starts with
    a UTF-8 BOM, which ``text`` leaves out. ``oid``: blob id of the whole file, for ``if_match``.
    """

    text: str
    oid: str
    mode: str
    lines: int
    eol: str
    bom: bool


class ServerInfo(msgspec.Struct, frozen=True):
    """The program that answers."""

    name: str
    version: str


class WorkspaceRef(msgspec.Struct, frozen=True):
    """A workspace's root and the path of its shadow repository."""

    root: str
    shadow: str


class HelloResult(msgspec.Struct, frozen=True):
    """``workspace`` and ``session`` are None for a control connection without one. ``inside``: the
    paths of other workspaces inside this one, if there are any; their files belong to them.
    """

    protocol: int
    server: ServerInfo
    workspace: WorkspaceRef | None
    session: str | None
    mode: str | None
    inside: list[str] | msgspec.UnsetType = msgspec.UNSET


class ClipboardInfo(msgspec.Struct, frozen=True):
    """Size of a clipboard: UTF-8 bytes and lines."""

    name: str
    bytes: int
    lines: int


class ClipboardList(msgspec.Struct, frozen=True):
    """The session's clipboards, by name."""

    clipboards: list[ClipboardInfo]


class ClipboardText(msgspec.Struct, frozen=True):
    """A clipboard's text."""

    name: str
    text: str


class ClipboardName(msgspec.Struct, frozen=True):
    """The clipboard that was set or deleted."""

    name: str


class ModeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """``mode`` is the stricter of the other two; each is ``restricted`` or ``unrestricted``.
    ``until``: when a grant ends and ``mode`` is restricted again; likewise for the other two.
    """

    mode: str
    session_mode: str | None
    workspace_mode: str
    until: str | None = None
    session_until: str | None = None
    workspace_until: str | None = None


class UpgradeResult(msgspec.Struct, frozen=True):
    """The status of a request for write access: ``pending``, ``approved`` or ``denied``.
    ``request`` is None if the session may write already. ``note`` is the person's; ``until``: when
    the approval ends, if it does; ``message``: the text for the model.
    """

    request: str | None
    status: str
    note: str = ""
    until: str | None = None
    message: str = ""


class UpgradeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A request for write access by a session of the workspace with this root. ``status`` is
    ``pending``, ``approved`` or ``denied``, ``note`` the person's. ``time``: when it was made,
    ``decided``: when the person decided, ``until``: when the access ends that was approved.
    """

    request: str
    workspace: str
    session: str
    agent: str | None
    reason: str
    time: str
    status: str
    note: str = ""
    decided: str | None = None
    until: str | None = None


class UpgradeList(msgspec.Struct, frozen=True):
    """Requests of all workspaces, oldest first; decided ones are kept for a while."""

    requests: list[UpgradeInfo]


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session of the workspace with this root. ``mode`` is the mode that holds for it now.
    ``last_seen``: when it was last opened or made an edit; ``commits``: how many it made;
    ``until``: when a grant ends and it is restricted again.
    """

    session: str
    workspace: str
    agent: str | None
    mode: str
    created: str
    last_seen: str
    commits: int
    until: str | None = None


class SessionList(msgspec.Struct, frozen=True):
    """The sessions of all open workspaces, oldest first in each."""

    sessions: list[SessionInfo]


class EndedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was ended: how many clipboards were removed, and the pending request that was
    denied. ``next_mode``: the mode of a session that is opened under the same name now.
    """

    session: str
    workspace: str
    clipboards: int
    request: str | None
    next_mode: str


class WorkspaceInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One allowed workspace; ``head`` is None before the first commit. ``trouble``: why no call
    works in it (its directory is missing, its history is damaged ..).
    """

    root: str
    shadow: str
    mode: str
    head: str | None
    commits: int
    trouble: str | None = None


class WorkspaceList(msgspec.Struct, frozen=True):
    """All allowed workspaces."""

    workspaces: list[WorkspaceInfo]


class ExportResult(msgspec.Struct, frozen=True, kw_only=True):
    """A page of an export; the contents of all pages, in order, are the export. ``commits``: how
    many are in it; ``context``: how many of these are only there because later ones need them;
    ``skipped``: how many were left out because they change no file. ``cursor`` is None at the end.
    """

    format: str
    content: str
    commits: int
    context: int = 0
    skipped: int = 0
    cursor: str | None = None


class PinInfo(msgspec.Struct, frozen=True):
    """A name for a commit, with the commit's time and message. ``commit`` is None if the reference
    is damaged, ``time`` and ``message`` are None if the commit can't be read.
    """

    name: str
    commit: str | None
    time: str | None = None
    message: str | None = None


class PinList(msgspec.Struct, frozen=True):
    """All pins of a workspace, by name."""

    pins: list[PinInfo]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem with a history; ``message`` is a sentence for a person. ``kind``:
    damaged_object, missing_object, wrong_object, damaged_pack, damaged_index, missing_pack,
    missing_index, malformed, reverts, count, reference, journal, pin, replaced, expect, deferred,
    more. ``what``: the file or reference, relative to the repository; ``commit``: the commit that
    needs it; ``path``: the path in the workspace.
    """

    kind: str
    message: str
    what: str | None = None
    commit: str | None = None
    object: str | None = None
    path: str | None = None


class VerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a history is complete and unchanged. ``objects``: how many were read and are intact.
    ``changed_outside``: how many files of the workspace differ from the newest commit, which is not
    a problem; None if the directory is missing. ``warnings``: oddities that may be harmless.
    """

    ok: bool
    commits: int
    objects: int
    problems: list[Problem]
    head: str | None = None
    changed_outside: int | None = None
    warnings: list[str] = []


class Tools(msgspec.Struct, frozen=True):
    """Tool definitions in one vendor's shape."""

    tools: list[dict[str, object]]


class GcResult(msgspec.Struct, frozen=True):
    """Bytes of the shadow repository before and after; ``dropped``: removed objects that no
    reference needed; ``dropped_commits``: commits that retention has dropped.
    """

    bytes_before: int
    bytes_after: int
    dropped: int = 0
    dropped_commits: int = 0


class SkippedPath(msgspec.Struct, frozen=True):
    """A path that a snapshot left out for another reason than a .gitignore file."""

    path: str
    why: str


class SnapshotResult(msgspec.Struct, frozen=True, kw_only=True):
    """``commit`` is null if nothing has changed. ``files`` and ``bytes`` count the whole snapshot.
    ``skipped`` has the first hundred of ``skipped_count``.
    """

    commit: str | None
    files: int
    bytes: int
    added: int
    modified: int
    removed: int
    skipped: list[SkippedPath] = []
    skipped_count: int = 0


class ClipboardRef(msgspec.Struct, frozen=True):
    """A clipboard of a session."""

    session: str
    clipboard: str


class ForgetResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was forgotten or, if ``commit`` is null, would be. ``commits``: how many changed the
    ``paths``; ``rewritten``: how many have a new id; ``contents``: versions that are gone;
    ``contents_left``: versions that stay because other paths have them; ``also_at``: paths that
    have one now. ``in_workspace``: paths whose file still exists; an edit records it again.
    ``clipboards``: those that hold a part of the contents.
    """

    commit: str | None
    paths: list[str]
    commits: int
    rewritten: int
    contents: int
    contents_left: int = 0
    also_at: list[str] = []
    in_workspace: list[str] = []
    clipboards: list[ClipboardRef] = []
    clipboards_removed: bool = False


class WorkInfo(msgspec.Struct, frozen=True):
    """Long work that runs or waits: ``what`` is the method's name. ``done`` of ``total`` steps of
    this ``phase``; total None: unknown. Work that waits has no phase ("").
    """

    what: str
    workspace: str
    phase: str
    done: int
    total: int | None


class LoggedError(msgspec.Struct, frozen=True):
    """An error from the daemon's log. ``time`` is RFC 3339 in UTC."""

    time: str
    message: str


class OptionChange(msgspec.Struct, frozen=True):
    """An option of the daemon whose value has changed."""

    option: str
    before: Any
    after: Any


class ReloadResult(msgspec.Struct, frozen=True):
    """The outcome of reading the configuration again. ``restart``: options that were changed in the
    file and need a restart. ``error``: why nothing was applied; the old configuration stays.
    """

    path: str
    changed: list[OptionChange]
    restart: list[str]
    error: str | None


class ShutdownResult(msgspec.Struct, frozen=True):
    """The daemon stops: calls in flight are answered, new ones refused as ``shutting_down``."""

    stopping: bool


class StatusResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Health and counts. Before ``hello`` on agent.sock only the first two fields are sent."""

    version: str
    protocol: int
    pid: int | None = None
    uptime_s: float | None = None
    durability: str | None = None
    read_only: str | msgspec.UnsetType | None = msgspec.UNSET
    #: Why the history can't be written now (a full disk, say); calls are safe in the journal.
    trouble: str | None = None
    workspaces: int | None = None
    sessions: int | None = None
    commits: int | None = None
    journal_bytes: int | None = None
    shadow_bytes: int | None = None
    limits: dict[str, int] | None = None
    replacement: dict[str, str] | None = None
    #: Long work that runs, then long work that waits.
    work: list[WorkInfo] | None = None
    #: Why the last reload of the configuration failed (control only).
    config_error: str | None = None
    #: The newest error in the daemon's log (control only).
    last_error: LoggedError | None = None
    #: Why no call works in a workspace now, by its root.
    unavailable: dict[str, str] | None = None


class ObservedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that a tool changed. ``status``: A, M, D, or R with ``old_path``; blob ids or null."""

    path: str
    status: str
    before: str | None
    after: str | None
    old_path: str | None = None


class ObserveResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``observe``. ``outside``: the newest commit that recorded files which the
    history did not have. ``commit`` and ``files``: the tool's changes, after it has run.
    ``complete``: the whole workspace was scanned; also true if paths were named. ``untold``:
    no paths were named, and nothing was reported before the tool ran, so no change is attributed to
    it.
    """

    commit: str | None = None
    outside: str | None = None
    files: list[ObservedFile] = []
    complete: bool = True
    untold: bool = False
    warnings: list[str] = []
    replayed: bool = False
    request: str | None = None
