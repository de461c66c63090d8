"""Inputs of the tools that read, take edits back, or ask for write access."""

from __future__ import annotations

from pydantic import Field, StrictFloat, StrictInt

from stetd.editing.inputs.base import Text, Time, ToolInput


class ReadInput(ToolInput):
    """Input of ``read``."""

    path: Text = Field(min_length=1, description="File to read, relative to the working directory")
    at: Text = Field(default="", description="Read the file as it was right after this commit")
    start: StrictInt = Field(default=1, ge=1, description="First line to read, from 1")
    end: StrictInt | None = Field(default=None, ge=1, description="Last line to read")


class UndoInput(ToolInput):
    """Input of ``undo``."""

    commits: list[Text] | None = Field(
        default=None, description="Commits to take back (ids from log)"
    )
    last: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Take back the newest so many edits of this session (default 1)",
    )
    request: Text = Field(default="", description="Take back the call with this request id")
    session: Text = Field(default="", description="Only edits of this session")
    agent: Text = Field(default="", description="Only edits of this agent")
    paths: list[Text] | None = Field(
        default=None, description="Only edits that touched these files"
    )


class LogInput(ToolInput):
    """Input of ``log``."""

    path: Text = Field(default="", description="Only commits that touched this file")
    session: Text = Field(default="", description="Only commits of this session")
    agent: Text = Field(default="", description="Only commits of this agent")
    method: Text = Field(default="", description="Only commits made by this method, such as patch")
    since: Time = Field(default="", description="Only from this time on (RFC 3339, or seconds)")
    until: Time = Field(default="", description="Only up to this time (RFC 3339, or seconds)")
    text: Text = Field(default="", description="Only commits that add, remove or mention this text")
    limit: StrictInt = Field(default=50, ge=1, description="At most so many commits")
    cursor: Text = Field(default="", description="Go on where an earlier answer stopped")


class ShowInput(ToolInput):
    """Input of ``show``."""

    commit: Text = Field(min_length=1, description="Commit id, unique prefix, HEAD or HEAD~n")


class DiffInput(ToolInput):
    """Input of ``diff``."""

    from_: Text = Field(default="", alias="from", description="Commit to compare from")
    to: Text = Field(
        default="", description="Commit to compare to (default: the files as they are now)"
    )
    paths: list[Text] | None = Field(default=None, description="Only these files")


class UpgradeInput(ToolInput):
    """Input of ``request_mode_upgrade``."""

    reason: Text = Field(default="", description="What for; the person reads it")
    wait: StrictInt | StrictFloat = Field(
        default=0,
        ge=0,
        le=86_400,
        description="Seconds to wait for the decision, at most (default: do not wait)",
    )
