"""The values that flow through the editing layer: what a dialect sees and what it plans.

Nothing here reads or writes files. A dialect is a function

    plan(params: dict[str, object], world: World) -> Plan

that raises :class:`stet.wire.failures.Refused` with *every* failure of the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stet.wire.results import BlockResult, ClipboardNote, EditReport


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as a call sees it.

    ``path`` is the canonical path relative to the workspace root (symlinks resolved,
    ``/`` between components); ``data`` is None when there is no file there.
    """

    path: str
    data: bytes | None


class World(Protocol):
    """What a call may look at: files and the session's clipboards, before the call."""

    def read(self, path: str) -> SourceFile:
        """The file at ``path`` (as the request spells it).

        Raises Refused: path_outside_workspace, path_protected, not_a_file,
        file_too_large, invalid_params (NUL, control characters), io_error.
        """
        ...

    @property
    def clipboards(self) -> Mapping[str, str]:
        """The session's clipboards by name."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of a plan, canonical path; ``after`` None means it is deleted.

    ``before`` is the very bytes that planning saw, None for a file that is created.
    """

    path: str
    before: bytes | None
    after: bytes | None
    #: Set when ``path`` is the target of a move: the file's old canonical path. The
    #: source is a PlannedFile of its own with ``after`` None.
    old_path: str | None = None
    #: The canonical path of a file whose permission bits a file that is created gets.
    mode_of: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a call will do if it is committed."""

    files: tuple[PlannedFile, ...]
    edits: tuple[EditReport, ...]
    #: Clipboards that change: name to new text.
    clipboards: Mapping[str, str] = field(default_factory=dict)
    clipboard_notes: tuple[ClipboardNote, ...] = ()
    #: For the model, in the dialect's own form.
    message: str = ""
    #: The call asks itself for a preview (``dry_run``): nothing of the plan is carried out.
    preview: bool = False
    #: What is said instead of ``message`` when nothing is carried out; "": the same.
    preview_message: str = ""
    warnings: tuple[str, ...] = ()
    #: Subject line of the commit, e.g. ``patch src/a.py: 2 edits``.
    subject: str = ""
    #: What ``patch_block`` answers beside the message, one a file; other dialects: nothing.
    results: tuple[BlockResult, ...] = ()
