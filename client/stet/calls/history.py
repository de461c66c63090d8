"""Calls that read files and the history, and calls that look after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from stet.calls.call import Call, given
from stet.wire.results import (
    BlameResult,
    DiffResult,
    ExportResult,
    ForgetResult,
    GcResult,
    LogResult,
    PinInfo,
    PinList,
    ReadResult,
    ShowResult,
    SnapshotResult,
    VerifyResult,
)


def read(
    path: str, *, at: str | None = None, start: int | None = None, end: int | None = None
) -> Call[ReadResult]:
    """A file's text, or its lines ``start`` to ``end`` inclusive, from 1; ``at`` a commit.

    The result's ``oid`` is for ``if_match``; ``lines`` counts the whole file's. Raises
    FileNotFound, NotAFile, NotText, FileTooLarge, UnknownCommit.
    """
    return Call("read", given(path=path, at=at, start=start, end=end), ReadResult)


def log(
    path: str | None = None,
    *,
    session: str | None = None,
    agent: str | None = None,
    method: str | None = None,
    kind: str | None = None,
    since: str | float | None = None,
    until: str | float | None = None,
    text: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[LogResult]:
    """A page of history, newest first, of ``limit`` commits (50 if not given).

    ``since`` and ``until`` are RFC 3339 (without an offset: in UTC) or seconds since 1970.
    ``kind``: edit, outside, undo, redo, rollback, restore, snapshot or observed. ``text`` is
    looked for in added and removed lines and in messages; a rare one that is shorter than
    three characters may give empty pages with a cursor. ``cursor`` is that of the page before.
    """
    return Call(
        "log",
        given(
            path=path,
            session=session,
            agent=agent,
            method=method,
            kind=kind,
            since=since,
            until=until,
            text=text,
            limit=limit,
            cursor=cursor,
        ),
        LogResult,
    )


def show(commit: str) -> Call[ShowResult]:
    """One commit with its unified diff. Raises UnknownCommit."""
    return Call("show", {"commit": commit}, ShowResult)


def diff(
    from_: str | None = None, to: str | None = None, *, paths: Sequence[str] | None = None
) -> Call[DiffResult]:
    """What differs between two commits, or between a commit and the workspace.

    ``from_`` is HEAD if not given, ``to`` the files as they are now. ``paths``: only these.
    Raises UnknownCommit.
    """
    # "from" is a keyword of Python, so it can be no parameter.
    params = {"from": from_} if from_ is not None else {}
    return Call("diff", params | given(to=to, paths=paths), DiffResult)


def blame(path: str, *, at: str | None = None) -> Call[BlameResult]:
    """Who wrote each line of a file, as it stands now or was right after the commit ``at``.

    A line that an undo brought back belongs to whoever wrote it; one that was saved since
    and no commit has yet belongs to no commit.
    """
    return Call("blame", given(path=path, at=at), BlameResult)


def export(
    format: Literal["mbox", "diff", "jsonl"] = "mbox",  # noqa: A002 - the method's own name
    *,
    from_: str | None = None,
    to: str | None = None,
    session: str | None = None,
    agent: str | None = None,
    method: str | None = None,
    kind: str | None = None,
    since: str | float | None = None,
    until: str | float | None = None,
    paths: Sequence[str] | None = None,
    outside: bool = True,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[ExportResult]:
    """Edits as an mbox for ``git am``, one combined diff, or JSON lines: one page of it.

    The commits after ``from_``, up to ``to``, that pass the filters, oldest first. What others
    did in between to the same files is put in as commits of its own, marked, so that it
    applies; with ``outside=False`` it becomes part of the next commit. ``cursor`` is that of
    the page before; the contents of all pages together are the export.
    """
    # "from" is a keyword of Python, so it can be no parameter.
    params: dict[str, Any] = {"format": format} | ({} if from_ is None else {"from": from_})
    params |= given(to=to, session=session, agent=agent, method=method, kind=kind)
    params |= given(since=since, until=until, paths=paths, limit=limit, cursor=cursor)
    return Call("export", params | ({} if outside else {"outside": False}), ExportResult)


def pin_set(name: str, commit: str = "HEAD", *, move: bool = False) -> Call[PinInfo]:
    """Name a commit (control); the name works wherever a commit does, also as ``NAME~n``.

    ``move``: let a name that is in use name another commit; otherwise raises AlreadyExists.
    """
    params: dict[str, Any] = {"name": name, "commit": commit} | given(move=move or None)
    return Call("pin_set", params, PinInfo)


def pin_delete(name: str) -> Call[PinInfo]:
    """Forget a commit's name (control). Raises UnknownCommit."""
    return Call("pin_delete", {"name": name}, PinInfo, repeatable=False)


def pin_list() -> Call[PinList]:
    """The names of commits."""
    return Call("pin_list", {}, PinList)


def verify(*, expect: str | None = None, workspace: str | None = None) -> Call[VerifyResult]:
    """Check that the whole history is there and unchanged (control). Takes time.

    ``expect``: a commit's id, noted earlier, that must be part of it. ``workspace``: the root
    of another workspace than the session's.
    """
    return Call("verify", given(expect=expect, workspace=workspace), VerifyResult)


def gc(*, workspace: str | None = None) -> Call[GcResult]:
    """Pack a history tightly and drop what nothing needs (control). Takes time.

    ``workspace``: the root of another workspace than the session's. How far it has come is in
    ``status().work``.
    """
    return Call("gc", given(workspace=workspace), GcResult)


def snapshot(
    *, message: str | None = None, skip_large: bool = False, workspace: str | None = None
) -> Call[SnapshotResult]:
    """The whole workspace as one commit (control), but for what .gitignore files leave out.

    ``message`` says why. ``skip_large`` leaves out files over the limit, which are refused
    otherwise. Takes time the first time, hardly any where nothing has changed. How far it has
    come is in ``status().work``.
    """
    params = given(message=message, skip_large=skip_large or None, workspace=workspace)
    return Call("snapshot", params, SnapshotResult)


def forget(
    path: str,
    *,
    contents: bool = False,
    clipboards: bool = False,
    preview: bool = False,
    message: str | None = None,
    workspace: str | None = None,
) -> Call[ForgetResult]:
    """Rewrite the history so that it holds nothing that ever stood at a path (control).

    For a secret that got in; commits from the first that had it on get new ids. ``contents``:
    what stood there goes wherever else it stood, too. ``clipboards``: those that hold some of
    it are removed. ``preview`` tells what there is, and changes nothing. The file in the
    workspace stays as it is.
    """
    params = {"path": path} | given(
        contents=contents or None,
        clipboards=clipboards or None,
        preview=preview or None,
        message=message,
        workspace=workspace,
    )
    return Call("forget", params, ForgetResult, repeatable=preview)
