"""Inputs of the tools that read, take edits back, or ask for write access."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from stetd.editing.tools.inputs.base import Time, ToolInput, said


class ReadInput(ToolInput, frozen=True):
    """Input of ``read``."""

    path: Annotated[str, said("File to read, relative to the working directory", min_length=1)]
    at: Annotated[str, said("Read the file as it was right after this commit")] = ""
    start: Annotated[int, said("First line to read, from 1", ge=1)] = 1
    end: Annotated[int | None, said("Last line to read", ge=1)] = None


class UndoInput(ToolInput, frozen=True):
    """Input of ``undo``."""

    commits: Annotated[list[str] | None, said("Commits to take back (ids from log)")] = None
    last: Annotated[
        int | None, said("Take back the newest so many edits of this session (default 1)", ge=1)
    ] = None
    request: Annotated[str, said("Take back the call with this request id")] = ""
    session: Annotated[str, said("Only edits of this session")] = ""
    agent: Annotated[str, said("Only edits of this agent")] = ""
    paths: Annotated[list[str] | None, said("Only edits that touched these files")] = None


class LogInput(ToolInput, frozen=True):
    """Input of ``log``."""

    path: Annotated[str, said("Only commits that touched this file")] = ""
    session: Annotated[str, said("Only commits of this session")] = ""
    agent: Annotated[str, said("Only commits of this agent")] = ""
    method: Annotated[str, said("Only commits made by this method, such as patch")] = ""
    since: Annotated[Time, said("Only from this time on (RFC 3339, or seconds)")] = ""
    until: Annotated[Time, said("Only up to this time (RFC 3339, or seconds)")] = ""
    text: Annotated[str, said("Only commits that add, remove or mention this text")] = ""
    limit: Annotated[int, said("At most so many commits", ge=1)] = 50
    cursor: Annotated[str, said("Go on where an earlier answer stopped")] = ""


class ShowInput(ToolInput, frozen=True):
    """Input of ``show``."""

    commit: Annotated[str, said("Commit id, unique prefix, HEAD or HEAD~n", min_length=1)]


class DiffInput(ToolInput, frozen=True):
    """Input of ``diff``."""

    from_: Annotated[str, said("Commit to compare from")] = field(default="", name="from")
    to: Annotated[str, said("Commit to compare to (default: the files as they are now)")] = ""
    paths: Annotated[list[str] | None, said("Only these files")] = None


class UpgradeInput(ToolInput, frozen=True):
    """Input of ``request_mode_upgrade``."""

    reason: Annotated[str, said("What for; the person reads it")] = ""
    wait: Annotated[
        float,
        said("Seconds to wait for the decision, at most (default: do not wait)", ge=0, le=86_400),
    ] = 0
