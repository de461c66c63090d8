"""The calls as data: one pure function for each method (docs/rights.md).

The sessions, :class:`stet.Session` and :class:`stet.aio.AsyncSession`, make their methods of these
functions, so names, parameters, defaults and documentation are only here.

For all of them: a parameter that is None is not sent. Paths are absolute or relative to the
session's directory; in results they are relative to the workspace root. A commit is a full id, a
unique prefix of at least 4 digits, ``HEAD`` or a pin; followed by ``~n``, the n-th before that one.
Lines count from 1, list indexes from 0. A refusal of the daemon is raised as a subclass of
:class:`stet.errors.StetError`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack

import msgspec

from stet.session.patches import Change, Patch, given
from stet.wire import results
from stet.wire.events import Subscribed
from stet.wire.results import EditResult

T = TypeVar("T")

#: The object id of a call's only path, or a map of path to object id; None: must not exist.
IfMatch = str | Mapping[str, str | None]


class Common(TypedDict, total=False):
    """The parameters that all editing calls share; see :func:`patch`."""

    message: str | None
    if_match: IfMatch | None
    preview: bool
    request_id: str | None


class Chosen(Common, total=False):
    """The filters of :func:`undo` and :func:`rollback`, with the shared parameters."""

    session: str | None
    agent: str | None
    paths: Sequence[str] | None


class Filters(TypedDict, total=False):
    """The filters of :func:`log` and :func:`export`, beside paths."""

    session: str | None
    agent: str | None
    method: str | None
    kind: str | None
    since: str | float | None
    until: str | float | None


class LogFilters(Filters, total=False):
    """The parameters of :func:`log`, beside a path."""

    text: str | None
    limit: int | None
    cursor: str | None


class Call(msgspec.Struct, Generic[T], frozen=True):
    """One request, ready to be sent any number of times.

    ``repeatable``: it may arrive twice, because the method only reads, sets a value, or has a
    ``request_id``. A call that is not repeatable is not sent again when the connection is lost.
    ``wait``: seconds that the daemon may wait on purpose, on top of the session's ``timeout``.
    """

    method: str
    params: dict[str, Any]
    result: type[T]
    repeatable: bool = True
    wait: float = 0.0

    @property
    def request_id(self) -> str | None:
        """The request id of a call that changes something; retries have the same."""
        found = self.params.get("request_id")
        return found if isinstance(found, str) else None


def patch(
    path: str,
    patches: Sequence[Patch] | Patch,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Apply patches to one file in one commit: all of them to its current text, or none.

    ``path``: absolute or relative to the session's directory. ``patches``: one patch or a list,
    made by ``stet.replace``, ``stet.append_eof``, ``stet.prepend_bof`` and ``stet.overwrite``; the
    last three create a missing file. Texts are literal; at most 60,000 tokens together.

    ``message`` says why, and goes into the commit. ``if_match``: the ``oid`` that ``read`` gave
    for this path, or a map of path to ``oid`` (None: must not exist); the call is refused if a
    file has changed since. ``preview`` plans, returns the diff, and changes nothing.
    ``request_id`` is chosen if not given; two calls with the same id are carried out once.

    The result's ``commit`` is None for a preview and if only clipboards changed. ``edits[i]``
    says where a patch was applied: lines ``line`` to ``end_line`` of the new file, from 1, and
    ``rung``: how tolerantly it was matched (``exact``: not at all). ``message`` is the text
    for a model, ``diff`` a unified diff for people. ``outside``: the commit that first recorded
    the changes of others in the file.

    Raises OldTextNotFound (``failures[i].nearest`` is the closest passage), OldTextNotUnique
    (``failures[i].candidates`` are the lines of the places), OverlappingEdits, NoChange,
    FileNotFound, MissingClipboard, Stale, InputTooLarge, PathOutsideWorkspace, PathProtected,
    ToolDisabled in Restricted mode, InvalidParams. Then nothing was changed.
    """
    return _edit("patch", {"path": path, "patches": patches}, common)


def patch_file(
    path: str,
    changes: Sequence[Change] | Change,
    *,
    dry_run: bool = False,
    context: int | None = None,
    backup: bool = False,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Search and replace in one file: each change in the result of the one before; all, or none.

    ``changes``: one change or a list, made by ``stet.change``. ``dry_run`` is this dialect's name
    of ``preview``. ``context``: lines around each change in the result's message. ``backup`` keeps
    the old file as PATH.bak (or PATH.bak.1, ..), in the same commit. Other parameters, result
    and errors as in patch(); also raises OccurrenceOutOfRange.
    """
    params: dict[str, Any] = {"path": path, "changes": changes}
    params |= given(dry_run=dry_run or None, context=context, backup=backup or None)
    return _edit("patch_file", params, common)


def patch_block(
    text: str,
    filepath: str | None = None,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Apply FIND/REPLACE blocks, in one file or several: all of them, or none.

    ``text`` is a model's whole answer or the blocks alone. ``filepath``, if given, must be the path
    that the block names. The result's ``result`` is the reply in the dialect's own structure: a
    BlockResult, or a list of them for several files. Otherwise as patch(); also raises ParseError
    (with ``data["line"]``) for text without a valid block.
    """
    return _edit("patch_block", {"text": text} | given(filepath=filepath), common)


def apply_patch(
    input: str,  # noqa: A002 - the dialect's own name
    *,
    overwrite: bool = False,
    ambiguous: Literal["refuse", "first"] | None = None,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Apply a patch in Codex's format: adds, updates, moves and deletes files; all, or none.

    ``overwrite`` lets "Add File" replace an existing file. ``ambiguous="first"`` applies a hunk at
    the first of several places, as Codex does; without it such a hunk is refused. The rest is as in
    patch(); also raises ParseError (``data["line"]`` counts from 1), ContextNotFound for an ``@@``
    line that is not found, and AlreadyExists.
    """
    params = {"input": input} | given(overwrite=overwrite or None, ambiguous=ambiguous)
    return _edit("apply_patch", params, common)


def transaction(
    calls: Sequence[Call[EditResult]],
    *,
    message: str | None = None,
    if_match: Mapping[str, str | None] | None = None,
    preview: bool = False,
    request_id: str | None = None,
) -> Call[EditResult]:
    """Carry out several edits in one commit: all of them, or none.

    ``calls`` are made by the functions of this module (``stet.calls.patch(...)``,
    ``stet.calls.apply_patch(...)``), in any dialects. Each call sees the files and clipboards as
    the calls before it leave them. ``message``, ``preview`` and ``request_id`` are for the whole;
    so is ``if_match``, which is about the files before the first call. ``edits[i].call`` in the
    result and ``failures[i].call`` of an error are the index of the call, from 0. Raises what the
    calls raise; then nothing was changed.
    """
    inner = []
    for call in calls:
        params = {key: value for key, value in call.params.items() if key != "request_id"}
        inner.append({"method": call.method, "params": params})
    whole = Common(message=message, if_match=if_match, preview=preview, request_id=request_id)
    return _edit("transaction", {"calls": inner}, whole)


def undo(
    commits: Sequence[str] | None = None,
    *,
    last: int | None = None,
    request: str | None = None,
    **which: Unpack[Chosen],
) -> Call[EditResult]:
    """Undo edits in one new commit, by a three-way merge that keeps later edits.

    Give one of ``commits``, ``last`` (so many of the newest edits that are not undone yet; 1 if
    nothing is given) and ``request`` (the request id of a call). ``session``, ``agent`` and
    ``paths`` filter the newest edits. The result's ``undone`` are the commits that were undone.

    An agent may undo edits of its own session, a person (``control``) any. Raises Conflict if later
    edits touch the same lines, and changes nothing then; NothingToUndo, UnknownCommit,
    UnknownRequest, NotPermitted; ToolDisabled for an agent in Restricted mode.
    """
    return _edit("undo", given(commits=commits, last=last, request=request), which, Chosen)


def redo(
    commits: Sequence[str] | None = None,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Undo undos or rollbacks, so that the edits which they had undone are applied again.

    ``commits``: the undos; None: the newest one that is not redone, of this session, or with
    ``control`` of all sessions. Raises as undo().
    """
    return _edit("redo", given(commits=commits), common)


def rollback(
    to: str,
    *,
    include_outside: bool = False,
    **which: Unpack[Chosen],
) -> Call[EditResult]:
    """Undo all edits after the commit ``to`` that pass the filters, in one commit.

    Edits from outside are kept, unless ``include_outside`` (control). Raises as undo().
    """
    params = {"to": to} | given(include_outside=include_outside or None)
    return _edit("rollback", params, which, Chosen)


def restore(
    path: str,
    at: str,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Restore a file as it was right after the commit ``at``; delete it if it did not exist then.

    Raises NoChange if the file is like that already, UnknownCommit; NotPermitted for an agent if
    others have changed the file since.
    """
    return _edit("restore", {"path": path, "at": at}, common)


def observe(
    phase: Literal["before", "after", "stop"],
    paths: Sequence[str] | None = None,
    *,
    tool: str | None = None,
    use: str | None = None,
    late: Sequence[str] | None = None,
    background: bool | None = None,
    subagent: str | None = None,
    within: float | None = None,
    message: str | None = None,
    request_id: str | None = None,
) -> Call[results.ObserveResult]:
    """Record the changes of an agent's own tool; to be called before and after the tool runs.

    ``before`` records the files that the history does not have yet; ``after`` commits what has
    changed since as this session's (kind ``observed``), so that it can be undone. No file is
    written. ``paths``: the paths that the tool touches; None: the whole workspace, which may be too
    large to scan (``complete`` of the result). ``tool``: its name. ``use``: an id of this use, the
    same before and after. ``within``: seconds that a scan may take.

    ``late``, with ``before`` and no ``paths``: paths that it may change although
    its end is not reported, or after its end (``background``). The session's next calls of
    ``observe`` commit such changes as this use's. ``stop``: the agent's turn is over, so no more
    changes are expected, except of ``background`` uses. ``subagent``: which agent of the session.

    Of the result, ``commit`` and ``files`` are the tool's changes. ``outside`` is the newest commit
    of files that the history did not have. ``untold``: ``paths`` is None, and nothing was
    reported before the tool ran, so no change is attributed to it.
    """
    params = given(phase=phase, paths=paths, tool=tool, use=use, late=late, background=background)
    params |= given(subagent=subagent, within=within, message=message)
    params["request_id"] = new_id() if request_id is None else request_id
    return Call("observe", params, results.ObserveResult)


def _edit(
    method: str, params: dict[str, Any], common: Common, kind: type = Common
) -> Call[EditResult]:
    taken = _taken(kind, common)
    preview = taken.pop("preview", False) or None
    # The id is chosen here, not when the call is sent, because all attempts need the same.
    params = {"request_id": new_id(), **params, **taken, **given(preview=preview)}
    return Call(method, params, EditResult)


def new_id() -> str:
    """A request id that no other call has."""
    return os.urandom(16).hex()  # the module uuid takes long to load


def _taken(kind: type, keywords: Mapping[str, object]) -> dict[str, Any]:
    """Keywords as parameters. Raises TypeError for one that ``kind`` does not have."""
    for name in keywords:
        if name not in kind.__annotations__:
            raise TypeError(f"there is no parameter {name!r}")
    return given(**keywords)


def read(
    path: str, *, at: str | None = None, start: int | None = None, end: int | None = None
) -> Call[results.ReadResult]:
    """Read a file, or its lines ``start`` to ``end`` (from 1, inclusive), now or ``at`` a commit.

    The result's ``oid`` is for ``if_match``; ``lines`` counts those of the whole file. Raises
    FileNotFound, NotAFile, NotText, FileTooLarge, UnknownCommit.
    """
    return Call("read", given(path=path, at=at, start=start, end=end), results.ReadResult)


def log(path: str | None = None, **filters: Unpack[LogFilters]) -> Call[results.LogResult]:
    """A page of at most ``limit`` commits (50 if not given), newest first.

    ``since`` and ``until`` are RFC 3339 (without an offset: in UTC) or seconds since 1970.
    ``kind``: edit, outside, undo, redo, rollback, restore, snapshot, observed, forget or retention.
    ``text`` is searched in added and removed lines and in messages; for a rare text of fewer than
    three characters pages may be empty and have a cursor. ``cursor`` is that of the page before.
    """
    return Call("log", given(path=path) | _taken(LogFilters, filters), results.LogResult)


def show(commit: str) -> Call[results.ShowResult]:
    """One commit with its unified diff. Raises UnknownCommit."""
    return Call("show", {"commit": commit}, results.ShowResult)


def diff(
    from_: str | None = None, to: str | None = None, *, paths: Sequence[str] | None = None
) -> Call[results.DiffResult]:
    """The diff between two commits, or between a commit and the workspace.

    ``from_`` is HEAD if not given, ``to`` the files as they are now. ``paths``: only these.
    Raises UnknownCommit.
    """
    return Call("diff", given(from_=from_, to=to, paths=paths), results.DiffResult)


def blame(path: str, *, at: str | None = None) -> Call[results.BlameResult]:
    """Who wrote each line of a file, as it is now or was right after the commit ``at``.

    A line that an undo restored belongs to the commit that first wrote it. A line that was saved
    since the last commit belongs to none.
    """
    return Call("blame", given(path=path, at=at), results.BlameResult)


def export(
    format: Literal["mbox", "diff", "jsonl"] = "mbox",  # noqa: A002 - the method's own name
    *,
    from_: str | None = None,
    to: str | None = None,
    paths: Sequence[str] | None = None,
    outside: bool = True,
    limit: int | None = None,
    cursor: str | None = None,
    **filters: Unpack[Filters],
) -> Call[results.ExportResult]:
    """Export edits as an mbox for ``git am``, one combined diff, or JSON lines: one page of it.

    Contains the commits after ``from_``, up to ``to``, that pass the filters, oldest first. Changes
    of others in between, in the same files, are marked commits of their own, so that the export
    applies; with ``outside=False`` they become part of the next commit. ``cursor`` is that of the
    page before; the contents of all pages, in order, are the export.
    """
    params = given(format=format, from_=from_, to=to, paths=paths, limit=limit, cursor=cursor)
    params |= given(outside=None if outside else False) | _taken(Filters, filters)
    return Call("export", params, results.ExportResult)


def pin_set(name: str, commit: str = "HEAD", *, move: bool = False) -> Call[results.PinInfo]:
    """Give a commit a name (control), which can be used for it everywhere, also as ``NAME~n``.

    ``move``: let a name that is in use name this commit; otherwise raises AlreadyExists.
    """
    params: dict[str, Any] = {"name": name, "commit": commit} | given(move=move or None)
    return Call("pin_set", params, results.PinInfo)


def pin_delete(name: str) -> Call[results.PinInfo]:
    """Delete a commit's name (control). Raises UnknownCommit."""
    return Call("pin_delete", {"name": name}, results.PinInfo, repeatable=False)


def pin_list() -> Call[results.PinList]:
    """The names of commits."""
    return Call("pin_list", {}, results.PinList)


def verify(
    *, expect: str | None = None, workspace: str | None = None
) -> Call[results.VerifyResult]:
    """Check that the whole history is complete and unchanged (control). Takes time.

    ``expect``: a commit's id, noted earlier, that must be in the history. ``workspace``: the root
    of another workspace than the session's.
    """
    return Call("verify", given(expect=expect, workspace=workspace), results.VerifyResult)


def gc(*, workspace: str | None = None) -> Call[results.GcResult]:
    """Pack a history and drop objects that no reference needs (control). Takes time.

    First drops the commits that ``retention_days`` and ``retention_mb`` no longer keep.
    ``workspace``: the root of another workspace than the session's. ``status().work`` shows the
    progress.
    """
    return Call("gc", given(workspace=workspace), results.GcResult)


def snapshot(
    *, message: str | None = None, skip_large: bool = False, workspace: str | None = None
) -> Call[results.SnapshotResult]:
    """Commit the whole workspace (control), except files that .gitignore files ignore.

    ``message`` says why. ``skip_large`` leaves out files over ``max_file_bytes``; without it
    FileTooLarge is raised. The first snapshot takes time; later ones only read files that have
    changed. ``status().work`` shows the progress.
    """
    params = given(message=message, skip_large=skip_large or None, workspace=workspace)
    return Call("snapshot", params, results.SnapshotResult)


def forget(
    path: str,
    *,
    contents: bool = False,
    clipboards: bool = False,
    preview: bool = False,
    message: str | None = None,
    workspace: str | None = None,
) -> Call[results.ForgetResult]:
    """Rewrite the history without any contents that a path ever had (control).

    For a secret that was recorded. The first commit that had the path, and all later ones, get new
    ids. ``contents``: also remove the same contents at other paths. ``clipboards``: also remove
    clipboards that hold a part of them. ``preview`` says what would be removed, and changes
    nothing. The file in the workspace is not changed.
    """
    flags = given(contents=contents or None, clipboards=clipboards or None, preview=preview or None)
    params = {"path": path} | flags | given(message=message, workspace=workspace)
    return Call("forget", params, results.ForgetResult, repeatable=preview)


def session_list(*, workspace: str | None = None) -> Call[results.SessionList]:
    """Sessions of all workspaces, or of the one with this root (control)."""
    return Call("session_list", given(workspace=workspace), results.SessionList)


def session_end(session: str, *, workspace: str | None = None) -> Call[results.EndedSession]:
    """End a session, with its clipboards, mode, grants, secret and pending request (control).

    Its commits stay. ``workspace``: the root, by default that of the connection's workspace.
    """
    # Not repeatable: a second arrival might end a new session of the same name.
    params = given(session=session, workspace=workspace)
    return Call("session_end", params, results.EndedSession, repeatable=False)


def clipboard_list() -> Call[results.ClipboardList]:
    """The session's clipboards: names and sizes."""
    return Call("clipboard_list", {}, results.ClipboardList)


def clipboard_get(name: str) -> Call[results.ClipboardText]:
    """A clipboard's text. Raises MissingClipboard."""
    return Call("clipboard_get", {"name": name}, results.ClipboardText)


def clipboard_set(name: str, text: str) -> Call[results.ClipboardName]:
    """Set a clipboard's text; the clipboard is created if it is missing."""
    return Call("clipboard_set", {"name": name, "text": text}, results.ClipboardName)


def clipboard_delete(name: str) -> Call[results.ClipboardName]:
    """Remove a clipboard. Raises MissingClipboard."""
    # Not repeatable: a second arrival would be refused, as the clipboard is missing then.
    return Call("clipboard_delete", {"name": name}, results.ClipboardName, repeatable=False)


def mode_get() -> Call[results.ModeResult]:
    """The mode of the session, of its workspace, and the stricter of both."""
    return Call("mode_get", {}, results.ModeResult)


def mode_set(
    mode: Literal["restricted", "unrestricted"],
    *,
    session: str | None = None,
    scope: Literal["workspace"] | None = None,
    workspace: str | None = None,
    for_: float | None = None,
) -> Call[results.ModeResult]:
    """Set a session's mode, or with ``scope="workspace"`` the ceiling of all sessions in it.

    An agent may only restrict its own session. ``for_``: seconds after which the grant ends and the
    earlier mode returns. Answers when the calls in flight have finished.
    """
    params = given(mode=mode, session=session, scope=scope, workspace=workspace, for_=for_)
    return Call("mode_set", params, results.ModeResult)


def request_mode_upgrade(
    reason: str | None = None, *, wait: float | None = None
) -> Call[results.UpgradeResult]:
    """In Restricted mode, ask the person for write access. Returns the status of the request.

    ``reason``: shown to the person. ``wait``: seconds to wait for the decision, at most. Asking
    again while a request is pending makes no new one. ``status`` of the result is pending,
    approved or denied, and ``message`` the text for a model.
    """
    params = given(reason=reason, wait=wait)
    return Call("request_mode_upgrade", params, results.UpgradeResult, wait=wait or 0.0)


def upgrade_list(
    *, workspace: str | None = None, status: Literal["pending", "approved", "denied"] | None = None
) -> Call[results.UpgradeList]:
    """Requests for write access, of all workspaces or one, oldest first (control)."""
    return Call("upgrade_list", given(workspace=workspace, status=status), results.UpgradeList)


def upgrade_decide(
    request: str,
    approve: bool,
    *,
    note: str | None = None,
    for_: float | None = None,
    workspace: str | None = None,
) -> Call[results.UpgradeInfo]:
    """Approve or deny a request for write access (control).

    ``request``: its id, or the first digits of it, at least 4. ``note`` is shown to the agent.
    ``for_``: seconds after which the approval ends. ``workspace``: the root, if the request's id
    alone is not unique.
    """
    params = given(request=request, approve=approve, note=note, for_=for_, workspace=workspace)
    return Call("upgrade_decide", params, results.UpgradeInfo, repeatable=False)


def status() -> Call[results.StatusResult]:
    """Version, health and counts of the daemon."""
    return Call("status", {}, results.StatusResult)


def reload() -> Call[results.ReloadResult]:
    """Make the daemon read its configuration again (control). An invalid file changes nothing."""
    return Call("reload", {}, results.ReloadResult)


def shutdown() -> Call[results.ShutdownResult]:
    """Stop the daemon in good order (control). A later session with ``start`` starts another one.

    Calls in flight are answered first; later ones are refused (ShuttingDown).
    """
    # Not repeatable: a second arrival would stop the next daemon.
    return Call("shutdown", {}, results.ShutdownResult, repeatable=False)


def tools(
    style: Literal["mcp", "openai", "anthropic"] = "mcp",
    *,
    api: Literal["chat", "responses"] | None = None,
    custom: bool = False,
) -> Call[results.Tools]:
    """The tool definitions for a model, in one vendor's format.

    With ``style="openai"``: ``api`` chooses the format of chat completions (the default) or of
    responses; ``custom`` makes ``apply_patch`` a custom tool with a grammar instead of a function.
    """
    return Call("tools", {"style": style} | given(api=api, custom=custom or None), results.Tools)


def workspace_allow(root: str) -> Call[results.WorkspaceInfo]:
    """Allow edits below a directory (control). Allowing it again changes nothing."""
    return Call("workspace_allow", {"root": root}, results.WorkspaceInfo)


def workspace_forget(root: str) -> Call[results.WorkspaceInfo]:
    """Allow no more calls below a directory (control). Its history is kept."""
    return Call("workspace_forget", {"root": root}, results.WorkspaceInfo, repeatable=False)


def workspace_list() -> Call[results.WorkspaceList]:
    """All allowed workspaces (control)."""
    return Call("workspace_list", {}, results.WorkspaceList)


def subscribe(events: Sequence[str] | None = None) -> Call[Subscribed]:
    """Subscribe this connection to events. Programs use ``session.events()`` instead."""
    return Call("subscribe", given(events=events), Subscribed)


def request(method: str, params: Mapping[str, Any] | None = None) -> Call[Any]:
    """Call any method with raw params; the result is a plain value.

    It is sent again after a lost connection only if the params have a ``request_id``.
    """
    plain = dict(params or {})
    return Call(method, plain, object, repeatable=plain.get("request_id") is not None)
