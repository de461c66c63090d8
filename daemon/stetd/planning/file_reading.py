"""The method ``read``: the file as it is now, and the lines of any version."""

from __future__ import annotations

import os
import stat

from stet.wire.failures import Kind, refuse
from stet.wire.results import ReadResult
from stetd.editing.text import Document, looks_binary, presentable
from stetd.history.objects import object_id
from stetd.parameters import Read
from stetd.state.read_view import ReadView


def read_workspace_file(view: ReadView, params: Read) -> ReadResult:
    """The lines that are asked for, of a file of the workspace. Raises Refused."""
    _, data, mode = read_file(view, params.path)
    return read_lines(params, data, mode)


def read_lines(params: Read, data: bytes, mode: str) -> ReadResult:
    """The lines that are asked for, of a file's content. Raises Refused."""
    if looks_binary(data):
        raise refuse(
            Kind.NOT_TEXT,
            f"{params.path}: this file is binary (a NUL byte at offset {data.index(0)}) and can't "
            "be shown as text. To replace all of it, patch it with overwrite.",
            path=params.path,
        )
    document = Document.from_bytes(data)
    first = params.start or 1
    last = min(params.end or document.line_count, document.line_count)
    if params.end is not None and params.end < first:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"read: end ({params.end}) is before start ({first}); lines count from 1, both ends "
            "are read",
            path=params.path,
        )
    if first > max(document.line_count, 1):
        raise refuse(
            Kind.INVALID_PARAMS,
            f"{params.path} has {document.line_count} lines, but start is {first}; "
            "send a start within the file",
            path=params.path,
        )
    start, end = document.line_start(first - 1), document.line_start(last)
    return ReadResult(
        text=presentable(document.text[start:end]),
        oid=object_id("blob", data),
        mode=mode,
        lines=document.line_count,
        eol=document.eol,
        bom=document.bom,
    )


def read_file(view: ReadView, path: str) -> tuple[str, bytes, str]:
    """The file at a path, links followed: its canonical path, its content, its permissions."""
    with view.worktree.resolver.resolve(path, view.directory) as target:
        found = view.worktree.read(target, view.max_file_bytes)
    if found is None or found.data is None:
        raise refuse(
            Kind.FILE_NOT_FOUND,
            f"{path}: there is no such file. Check the path; it is relative to "
            f"{os.path.join(view.worktree.root, view.directory)}",
            path=path,
        )
    return target.path, found.data, f"{stat.S_IMODE(found.mode):o}"
