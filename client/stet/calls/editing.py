"""Calls that change files, alone or in a transaction, and calls that take changes back."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stet.calls.call import Call, IfMatch, given
from stet.session.changes import Change
from stet.session.patches import Patch
from stet.wire.observations import ObserveResult
from stet.wire.results import EditResult


def patch(
    path: str,
    patches: Sequence[Patch] | Patch,
    *,
    message: str | None = None,
    if_match: IfMatch | None = None,
    preview: bool = False,
    request_id: str | None = None,
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
    tells where a patch landed: lines ``line`` to ``end_line`` of the new file, counted from 1,
    and ``rung``, how tolerantly it was matched (``exact``: not at all). ``message`` is the text
    for a model, ``diff`` a unified diff for people. ``outside``: the commit that recorded first
    what others had left in the file.

    Raises OldTextNotFound (``failures[i].nearest`` is the closest passage), OldTextNotUnique
    (``failures[i].candidates`` are the lines of the places), OverlappingEdits, NoChange,
    FileNotFound, MissingClipboard, Stale, InputTooLarge, PathOutsideWorkspace, PathProtected,
    ToolDisabled in Restricted mode, InvalidParams. Then nothing was changed.
    """
    params = {"path": path, "patches": patches}
    return _edit("patch", params, message, if_match, preview, request_id)


def patch_file(
    path: str,
    changes: Sequence[Change] | Change,
    *,
    dry_run: bool = False,
    context: int | None = None,
    backup: bool = False,
    message: str | None = None,
    if_match: IfMatch | None = None,
    preview: bool = False,
    request_id: str | None = None,
) -> Call[EditResult]:
    """Search and replace in one file, each change on the result of the one before; or none.

    ``changes``: one or a list of what ``stet.change`` makes. ``dry_run`` is ``preview`` under
    the name that the dialect has for it. ``context``: lines around each change in the result's
    message. ``backup`` keeps the old file as PATH.bak, in the same commit. The rest, result and
    errors too, as in patch(); also raises OccurrenceOutOfRange.
    """
    params: dict[str, Any] = {"path": path, "changes": changes}
    params |= given(dry_run=dry_run or None, context=context, backup=backup or None)
    return _edit("patch_file", params, message, if_match, preview, request_id)


def patch_block(
    text: str,
    filepath: str | None = None,
    *,
    message: str | None = None,
    if_match: IfMatch | None = None,
    preview: bool = False,
    request_id: str | None = None,
) -> Call[EditResult]:
    """Apply FIND/REPLACE blocks, in one file or several: all of them, or none.

    ``text`` is a model's whole answer or the blocks alone. ``filepath``, if given, must be
    the one that the block names. The structure that the dialect replies with is the
    result's ``result``: a BlockResult, or a list of them for several files. The rest as in
    patch(); raises ParseError, with ``data["line"]``, for text that is no block.
    """
    params = {"text": text} | given(filepath=filepath)
    return _edit("patch_block", params, message, if_match, preview, request_id)


def apply_patch(
    input: str,  # noqa: A002 - the dialect's own name
    *,
    overwrite: bool = False,
    ambiguous: Literal["refuse", "first"] | None = None,
    message: str | None = None,
    if_match: IfMatch | None = None,
    preview: bool = False,
    request_id: str | None = None,
) -> Call[EditResult]:
    """Apply a patch in Codex's format: adds, updates, moves and deletions; all, or none.

    ``overwrite`` lets "Add File" replace a file that exists. ``ambiguous="first"`` takes the
    first of several places, as Codex does; otherwise they are refused. The rest as in
    patch(); also raises ParseError (``data["line"]`` counts from 1), ContextNotFound for an
    ``@@`` line that stands nowhere, and AlreadyExists.
    """
    params = {"input": input} | given(overwrite=overwrite or None, ambiguous=ambiguous)
    return _edit("apply_patch", params, message, if_match, preview, request_id)


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
    and ``failures[i].call`` of an error tell which call is meant, from 0. Raises as the calls
    do; then none of them has happened.
    """
    inner = [
        {
            "method": call.method,
            "params": {key: value for key, value in call.params.items() if key != "request_id"},
        }
        for call in calls
    ]
    return _edit("transaction", {"calls": inner}, message, if_match, preview, request_id)


def undo(
    commits: Sequence[str] | None = None,
    *,
    last: int | None = None,
    request: str | None = None,
    session: str | None = None,
    agent: str | None = None,
    paths: Sequence[str] | None = None,
    message: str | None = None,
    if_match: IfMatch | None = None,
    preview: bool = False,
    request_id: str | None = None,
) -> Call[EditResult]:
    """Take back edits in one new commit, merged around later edits.

    One of ``commits``, ``last`` (that many of the newest edits not undone yet, 1 if
    nothing is given) and ``request`` (the request id of a call); ``session``, ``agent``
    and ``paths`` narrow the choice. The result's ``undone`` are the commits taken back.

    An agent takes back what its own session did, a person (``control``) anything. Raises
    Conflict, having changed nothing, where later edits touch the same lines; NothingToUndo,
    UnknownCommit, UnknownRequest, NotPermitted; ToolDisabled for an agent in Restricted mode.
    """
    which = given(
        commits=commits, last=last, request=request, session=session, agent=agent, paths=paths
    )
    return _edit("undo", which, message, if_match, preview, request_id)


def redo(
    commits: Sequence[str] | None = None,
    *,
    message: str | None = None,
    if_match: IfMatch | None = None,
    preview: bool = False,
    request_id: str | None = None,
) -> Call[EditResult]:
    """Take back undos or rollbacks, so that what they had taken back stands again.

    ``commits`` are these undos; None: the newest one that is not redone, of this session or
    with ``control`` of all. Raises as undo().
    """
    return _edit("redo", given(commits=commits), message, if_match, preview, request_id)


def rollback(
    to: str,
    *,
    session: str | None = None,
    agent: str | None = None,
    paths: Sequence[str] | None = None,
    include_outside: bool = False,
    message: str | None = None,
    if_match: IfMatch | None = None,
    preview: bool = False,
    request_id: str | None = None,
) -> Call[EditResult]:
    """Take back everything after the commit ``to`` that passes the filters, in one commit.

    Edits that were made outside stay, unless ``include_outside`` (control). Raises as
    undo().
    """
    params = {"to": to} | given(
        session=session, agent=agent, paths=paths, include_outside=include_outside or None
    )
    return _edit("rollback", params, message, if_match, preview, request_id)


def restore(
    path: str,
    at: str,
    *,
    message: str | None = None,
    if_match: IfMatch | None = None,
    preview: bool = False,
    request_id: str | None = None,
) -> Call[EditResult]:
    """Make a file what it was right after the commit ``at``, or remove it if it was not there.

    Raises NoChange if it is so already, UnknownCommit; NotPermitted for an agent, if others
    have changed the file since.
    """
    return _edit("restore", {"path": path, "at": at}, message, if_match, preview, request_id)


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
) -> Call[ObserveResult]:
    """Record what an agent does with a tool of its own: called before it and after it.

    ``before`` takes up what stands there and is not in the history yet; ``after`` commits what
    has changed since, as this session's (kind ``observed``), so that it can be taken back. No
    file is written. ``paths``: those that the tool touches; None: the whole workspace, which
    may be too large (``complete`` of the result). ``tool``: its name. ``use``: a name for this
    one use of it, the same both times. ``within``: seconds that looking may take.

    ``late``, before a tool that touches any file: those that it may change without its end being
    told, or after it (``background``). What becomes of these is committed as this
    use's by the session's next calls of ``observe``. ``stop``: the agent's turn is over, and
    nothing more is expected, unless ``background``. ``subagent``: which of the session's agents.
    """
    params = given(
        phase=phase,
        paths=paths,
        tool=tool,
        use=use,
        late=late,
        background=background,
        subagent=subagent,
        within=within,
        message=message,
    )
    params["request_id"] = request_id or uuid.uuid4().hex
    return Call("observe", params, ObserveResult)


def _edit(
    method: str,
    params: dict[str, Any],
    message: str | None,
    if_match: IfMatch | None,
    preview: bool,
    request_id: str | None,
) -> Call[EditResult]:
    # The id is made here, not where the call is sent: every attempt must carry the same.
    common = given(message=message, if_match=if_match, request_id=request_id or uuid.uuid4().hex)
    if preview:
        common["preview"] = True
    return Call(method, params | common, EditResult)
