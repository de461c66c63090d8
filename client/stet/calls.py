"""What each method sends and gets back: one pure function per method of CONTRACT.md 3.

The sessions, :class:`stet.Session` and :class:`stet.aio.AsyncSession`, make their methods out of
these functions, so names, parameters, defaults and documentation stand here only.

Shared by all: a parameter that is None is not sent. Paths are relative to the session's directory
or absolute; in results they are relative to the workspace root. Commits are a full id, a unique
prefix of at least 4 digits, ``HEAD`` or a pin; with ``~n`` behind it, the n-th before that one.
Lines count from 1, list indexes from 0.
Whatever the daemon refuses is raised as a subclass of :class:`stet.errors.StetError`.
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

#: An object id for the one path of a call, or path to object id, None: must not exist.
IfMatch = str | Mapping[str, str | None]


class Common(TypedDict, total=False):
    """What every call that edits takes beside its own parameters; see :func:`patch`."""

    message: str | None
    if_match: IfMatch | None
    preview: bool
    request_id: str | None


class Chosen(Common, total=False):
    """What narrows the choice of what is taken back, and what every such call takes."""

    session: str | None
    agent: str | None
    paths: Sequence[str] | None


class Filters(TypedDict, total=False):
    """Which commits :func:`log` and :func:`export` are about, beside paths."""

    session: str | None
    agent: str | None
    method: str | None
    kind: str | None
    since: str | float | None
    until: str | float | None


class LogFilters(Filters, total=False):
    """What :func:`log` takes beside a path."""

    text: str | None
    limit: int | None
    cursor: str | None


class Call(msgspec.Struct, Generic[T], frozen=True):
    """One request, ready to be sent any number of times.

    ``repeatable``: a second arrival does no harm, because the method only reads, sets
    something to a value, or carries a ``request_id``. What is not repeatable is not sent
    again when the connection is lost. ``wait``: seconds that the daemon may take on purpose,
    on top of the session's ``timeout``.
    """

    method: str
    params: dict[str, Any]
    result: type[T]
    repeatable: bool = True
    wait: float = 0.0

    @property
    def request_id(self) -> str | None:
        """The request id of a call that changes something, which survives retries."""
        found = self.params.get("request_id")
        return found if isinstance(found, str) else None


def patch(
    path: str,
    patches: Sequence[Patch] | Patch,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Apply patches to one file: all of them against its present text, or none. One commit.

    ``path``: relative to the session's directory, or absolute. ``patches``: one or a list of
    what ``stet.replace``, ``stet.append_eof``, ``stet.prepend_bof`` and ``stet.overwrite`` make;
    the last three create a missing file. Texts are literal; at most 60,000 tokens together.

    ``message`` says why, and goes into the commit. ``if_match``: the ``oid`` that ``read`` gave
    for this path, or a map of path to ``oid`` (None: must not exist); the call is refused if a
    file is another one now. ``preview`` plans, gives the diff, and changes nothing.
    ``request_id`` is made up unless given; the same one twice is carried out once.

    The result's ``commit`` is None for a preview and when only clipboards changed. ``edits[i]``
    says where a patch landed: lines ``line`` to ``end_line`` of the new file, counted from 1,
    and ``rung``, how tolerantly it was matched (``exact``: not at all). ``message`` is the text
    for a model, ``diff`` a unified diff for people. ``outside``: the commit that recorded first
    what others had left in the file.

    Raises OldTextNotFound (``failures[i].nearest`` is the closest passage), OldTextNotUnique
    (``failures[i].candidates`` are the lines of the places), OverlappingEdits, NoChange,
    FileNotFound, MissingClipboard, Stale, InputTooLarge, PathOutsideWorkspace, PathProtected,
    ToolDisabled in Restricted mode, InvalidParams. Then nothing was changed.
    """
    params = {"path": path, "patches": patches}
    return _edit("patch", params, common)


def patch_file(
    path: str,
    changes: Sequence[Change] | Change,
    *,
    dry_run: bool = False,
    context: int | None = None,
    backup: bool = False,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Search and replace in one file, each change on the result of the one before; or none.

    ``changes``: one or a list of what ``stet.change`` makes. ``dry_run`` is ``preview`` under
    the name that the dialect has for it. ``context``: lines around each change in the result's
    message. ``backup`` keeps the old file as PATH.bak, in the same commit. The rest, result and
    errors too, as in patch(); also raises OccurrenceOutOfRange.
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

    ``text`` is a model's whole answer or the blocks alone. ``filepath``, if given, must be
    the one that the block names. The structure that the dialect replies with is the
    result's ``result``: a BlockResult, or a list of them for several files. The rest as in
    patch(); raises ParseError, with ``data["line"]``, for text that is no block.
    """
    params = {"text": text} | given(filepath=filepath)
    return _edit("patch_block", params, common)


def apply_patch(
    input: str,  # noqa: A002 - the dialect's own name
    *,
    overwrite: bool = False,
    ambiguous: Literal["refuse", "first"] | None = None,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Apply a patch in Codex's format: adds, updates, moves and deletions; all, or none.

    ``overwrite`` lets "Add File" replace a file that exists. ``ambiguous="first"`` takes the
    first of several places, as Codex does; otherwise they are refused. The rest as in
    patch(); also raises ParseError (``data["line"]`` counts from 1), ContextNotFound for an
    ``@@`` line that is not found, and AlreadyExists.
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
    """Several edits as one: all of them or none, one commit.

    ``calls`` are made by the functions of this module (``stet.calls.patch(...)``,
    ``stet.calls.apply_patch(...)``), in any dialects; each sees what the ones before it
    leave, clipboards included. ``message``, ``preview`` and ``request_id`` go with the whole;
    so does ``if_match``, about the files before the first call. ``edits[i].call`` in the result
    and ``failures[i].call`` of an error say which call is meant, from 0. Raises as the calls
    do; then none of them has happened.
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
    """Take back edits in one new commit, merged around later edits.

    One of ``commits``, ``last`` (that many of the newest edits not undone yet, 1 if
    nothing is given) and ``request`` (the request id of a call); ``session``, ``agent``
    and ``paths`` narrow the choice. The result's ``undone`` are the commits taken back.

    An agent takes back what its own session did, a person (``control``) anything. Raises
    Conflict, having changed nothing, where later edits touch the same lines; NothingToUndo,
    UnknownCommit, UnknownRequest, NotPermitted; ToolDisabled for an agent in Restricted mode.
    """
    return _edit("undo", given(commits=commits, last=last, request=request), which, Chosen)


def redo(
    commits: Sequence[str] | None = None,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Take back undos or rollbacks, so that what they had taken back is there again.

    ``commits`` are these undos; None: the newest one that is not redone, of this session or
    with ``control`` of all. Raises as undo().
    """
    return _edit("redo", given(commits=commits), common)


def rollback(
    to: str,
    *,
    include_outside: bool = False,
    **which: Unpack[Chosen],
) -> Call[EditResult]:
    """Take back everything after the commit ``to`` that passes the filters, in one commit.

    Edits that were made outside stay, unless ``include_outside`` (control). Raises as undo().
    """
    params = {"to": to} | given(include_outside=include_outside or None)
    return _edit("rollback", params, which, Chosen)


def restore(
    path: str,
    at: str,
    **common: Unpack[Common],
) -> Call[EditResult]:
    """Make a file what it was right after the commit ``at``, or remove it if it was not there.

    Raises NoChange if it is so already, UnknownCommit; NotPermitted for an agent, if others
    have changed the file since.
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
    """Record what an agent does with a tool of its own: called before it and after it.

    ``before`` records what is there and not in the history yet; ``after`` commits what
    has changed since, as this session's (kind ``observed``), so that it can be taken back. No
    file is written. ``paths``: those that the tool touches; None: the whole workspace, which
    may be too large (``complete`` of the result). ``tool``: its name. ``use``: a name for this
    one use of it, the same both times. ``within``: seconds that looking may take.

    ``late``, before a tool that touches any file: those that it may change without its end being
    reported, or after it (``background``). What becomes of these is committed as this
    use's by the session's next calls of ``observe``. ``stop``: the agent's turn is over, and
    nothing more is expected, unless ``background``. ``subagent``: which of the session's agents.
    """
    params = given(phase=phase, paths=paths, tool=tool, use=use, late=late, background=background)
    params |= given(subagent=subagent, within=within, message=message)
    params["request_id"] = request_id or new_id()
    return Call("observe", params, results.ObserveResult)


def _edit(
    method: str, params: dict[str, Any], common: Common, kind: type = Common
) -> Call[EditResult]:
    taken = _taken(kind, common)
    preview = taken.pop("preview", False) or None
    # The id is made here, not where the call is sent: every attempt must carry the same.
    request = taken.pop("request_id", None) or new_id()
    return Call(method, params | taken | given(preview=preview, request_id=request), EditResult)


def new_id() -> str:
    """A request id that no other call has."""
    return os.urandom(16).hex()  # the module uuid takes long to load


def _taken(kind: type, keywords: Mapping[str, object]) -> dict[str, Any]:
    """Keywords as parameters. Raises TypeError for one that the ``kind`` of them has not."""
    for name in keywords:
        if name not in kind.__annotations__:
            raise TypeError(f"there is no parameter {name!r}")
    return given(**keywords)


def read(
    path: str, *, at: str | None = None, start: int | None = None, end: int | None = None
) -> Call[results.ReadResult]:
    """A file's text, or its lines ``start`` to ``end`` inclusive, from 1; ``at`` a commit.

    The result's ``oid`` is for ``if_match``; ``lines`` counts the whole file's. Raises
    FileNotFound, NotAFile, NotText, FileTooLarge, UnknownCommit.
    """
    return Call("read", given(path=path, at=at, start=start, end=end), results.ReadResult)


def log(path: str | None = None, **filters: Unpack[LogFilters]) -> Call[results.LogResult]:
    """A page of history, newest first, of ``limit`` commits (50 if not given).

    ``since`` and ``until`` are RFC 3339 (without an offset: in UTC) or seconds since 1970.
    ``kind``: edit, outside, undo, redo, rollback, restore, snapshot or observed. ``text`` is
    looked for in added and removed lines and in messages; a rare one that is shorter than
    three characters may give empty pages with a cursor. ``cursor`` is that of the page before.
    """
    return Call("log", given(path=path) | _taken(LogFilters, filters), results.LogResult)


def show(commit: str) -> Call[results.ShowResult]:
    """One commit with its unified diff. Raises UnknownCommit."""
    return Call("show", {"commit": commit}, results.ShowResult)


def diff(
    from_: str | None = None, to: str | None = None, *, paths: Sequence[str] | None = None
) -> Call[results.DiffResult]:
    """What differs between two commits, or between a commit and the workspace.

    ``from_`` is HEAD if not given, ``to`` the files as they are now. ``paths``: only these.
    Raises UnknownCommit.
    """
    # "from" is a keyword of Python, so it can be no parameter.
    params = {"from": from_} if from_ is not None else {}
    return Call("diff", params | given(to=to, paths=paths), results.DiffResult)


def blame(path: str, *, at: str | None = None) -> Call[results.BlameResult]:
    """Who wrote each line of a file, as it is now or was right after the commit ``at``.

    A line that an undo brought back belongs to whoever wrote it; one that was saved since
    and no commit has yet belongs to no commit.
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
    """Edits as an mbox for ``git am``, one combined diff, or JSON lines: one page of it.

    The commits after ``from_``, up to ``to``, that pass the filters, oldest first. What others
    did in between to the same files is put in as commits of its own, marked, so that it
    applies; with ``outside=False`` it becomes part of the next commit. ``cursor`` is that of
    the page before; the contents of all pages together are the export.
    """
    # "from" is a keyword of Python, so it can be no parameter.
    params: dict[str, Any] = {"format": format} | ({} if from_ is None else {"from": from_})
    params |= given(to=to, paths=paths, limit=limit, cursor=cursor) | _taken(Filters, filters)
    return Call("export", params | ({} if outside else {"outside": False}), results.ExportResult)


def pin_set(name: str, commit: str = "HEAD", *, move: bool = False) -> Call[results.PinInfo]:
    """Name a commit (control); the name works wherever a commit does, also as ``NAME~n``.

    ``move``: let a name that is in use name another commit; otherwise raises AlreadyExists.
    """
    params: dict[str, Any] = {"name": name, "commit": commit} | given(move=move or None)
    return Call("pin_set", params, results.PinInfo)


def pin_delete(name: str) -> Call[results.PinInfo]:
    """Forget a commit's name (control). Raises UnknownCommit."""
    return Call("pin_delete", {"name": name}, results.PinInfo, repeatable=False)


def pin_list() -> Call[results.PinList]:
    """The names of commits."""
    return Call("pin_list", {}, results.PinList)


def verify(
    *, expect: str | None = None, workspace: str | None = None
) -> Call[results.VerifyResult]:
    """Check that the whole history is there and unchanged (control). Takes time.

    ``expect``: a commit's id, noted earlier, that must be part of it. ``workspace``: the root
    of another workspace than the session's.
    """
    return Call("verify", given(expect=expect, workspace=workspace), results.VerifyResult)


def gc(*, workspace: str | None = None) -> Call[results.GcResult]:
    """Pack a history tightly and drop what nothing needs (control). Takes time.

    ``workspace``: the root of another workspace than the session's. How far it has come is in
    ``status().work``.
    """
    return Call("gc", given(workspace=workspace), results.GcResult)


def snapshot(
    *, message: str | None = None, skip_large: bool = False, workspace: str | None = None
) -> Call[results.SnapshotResult]:
    """The whole workspace as one commit (control), but for what .gitignore files leave out.

    ``message`` says why. ``skip_large`` leaves out files over the limit, which are refused
    otherwise. Takes time the first time, hardly any where nothing has changed. How far it has
    come is in ``status().work``.
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
    """Rewrite the history without all contents that a path ever had (control).

    For a secret that got in; commits from the first that had it on get new ids. ``contents``:
    the same contents at other paths go, too. ``clipboards``: those that hold some of
    them are removed. ``preview`` says what would go, and changes nothing. The file in the
    workspace stays as it is.
    """
    flags = given(contents=contents or None, clipboards=clipboards or None, preview=preview or None)
    params = {"path": path} | flags | given(message=message, workspace=workspace)
    return Call("forget", params, results.ForgetResult, repeatable=preview)


def session_list(*, workspace: str | None = None) -> Call[results.SessionList]:
    """Sessions of all workspaces, or of the one with this root (control)."""
    return Call("session_list", given(workspace=workspace), results.SessionList)


def session_end(session: str, *, workspace: str | None = None) -> Call[results.EndedSession]:
    """End a session: its clipboards, mode, grants, secret and pending request go (control).

    Its commits stay. ``workspace``: its root, by default the connection's own.
    """
    # Not repeatable: the second arrival might end one that was opened meanwhile.
    params = given(session=session, workspace=workspace)
    return Call("session_end", params, results.EndedSession, repeatable=False)


def clipboard_list() -> Call[results.ClipboardList]:
    """The session's clipboards: names and sizes."""
    return Call("clipboard_list", {}, results.ClipboardList)


def clipboard_get(name: str) -> Call[results.ClipboardText]:
    """A clipboard's text. Raises MissingClipboard."""
    return Call("clipboard_get", {"name": name}, results.ClipboardText)


def clipboard_set(name: str, text: str) -> Call[results.ClipboardName]:
    """Put text into a clipboard, which is created if it is missing."""
    return Call("clipboard_set", {"name": name, "text": text}, results.ClipboardName)


def clipboard_delete(name: str) -> Call[results.ClipboardName]:
    """Remove a clipboard. Raises MissingClipboard."""
    # Not repeatable: the second arrival would be refused as missing.
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
    """Set a session's mode, or with ``scope="workspace"`` the ceiling of all sessions.

    An agent may only restrict its own session. ``for_`` is the length in seconds of a grant that
    ends by itself: then the mode before returns. Answers once calls in flight have finished.
    """
    params = given(mode=mode, session=session, scope=scope, workspace=workspace)
    return Call("mode_set", params | ({} if for_ is None else {"for": for_}), results.ModeResult)


def request_mode_upgrade(
    reason: str | None = None, *, wait: float | None = None
) -> Call[results.UpgradeResult]:
    """Ask the person for write access, in Restricted mode; says whether they have decided.

    ``reason``: what for, as the person reads it. ``wait``: so many seconds for the decision, at
    most. Asked again while the request is pending, it is the same one. ``status`` of the result is
    pending, approved or denied, and ``message`` the text for a model.
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
    """Approve or deny a request for write access, by its id or a unique beginning (control).

    ``note`` is shown to the agent. ``for_``: the seconds after which an approval ends.
    ``workspace``: its root, where the request's id alone would not be unique.
    """
    params = given(request=request, approve=approve, note=note, workspace=workspace)
    params |= {} if for_ is None else {"for": for_}
    return Call("upgrade_decide", params, results.UpgradeInfo, repeatable=False)


def status() -> Call[results.StatusResult]:
    """Version, health and counts of the daemon."""
    return Call("status", {}, results.StatusResult)


def reload() -> Call[results.ReloadResult]:
    """Let the daemon read its configuration again (control). A wrong file changes nothing."""
    return Call("reload", {}, results.ReloadResult)


def shutdown() -> Call[results.ShutdownResult]:
    """Let the daemon end in good order (control). The next call with ``start`` starts another.

    Calls in flight are answered first; later ones are refused (ShuttingDown).
    """
    # Not repeatable: the second arrival would end the daemon that came after.
    return Call("shutdown", {}, results.ShutdownResult, repeatable=False)


def tools(
    style: Literal["mcp", "openai", "anthropic"] = "mcp",
    *,
    api: Literal["chat", "responses"] | None = None,
    custom: bool = False,
) -> Call[results.Tools]:
    """The tool definitions for a model, in one vendor's shape.

    With ``style="openai"``: ``api`` chooses the shape of chat completions (if not given) or of
    responses; ``custom`` makes ``apply_patch`` a custom tool with a grammar instead of a function.
    """
    return Call("tools", {"style": style} | given(api=api, custom=custom or None), results.Tools)


def workspace_allow(root: str) -> Call[results.WorkspaceInfo]:
    """Allow edits below a directory (control). Allowing it again changes nothing."""
    return Call("workspace_allow", {"root": root}, results.WorkspaceInfo)


def workspace_forget(root: str) -> Call[results.WorkspaceInfo]:
    """Allow no more edits below a directory (control). Its history is kept."""
    return Call("workspace_forget", {"root": root}, results.WorkspaceInfo, repeatable=False)


def workspace_list() -> Call[results.WorkspaceList]:
    """All allowed workspaces (control)."""
    return Call("workspace_list", {}, results.WorkspaceList)


def subscribe(events: Sequence[str] | None = None) -> Call[Subscribed]:
    """Have events sent on this connection; ``session.events()`` is what you want."""
    return Call("subscribe", given(events=events), Subscribed)


def request(method: str, params: Mapping[str, Any] | None = None) -> Call[Any]:
    """Any method with params as they go over the wire; the result as plain values.

    Sent again after a lost connection only if the params carry a ``request_id``.
    """
    plain = dict(params or {})
    return Call(method, plain, object, repeatable="request_id" in plain)
