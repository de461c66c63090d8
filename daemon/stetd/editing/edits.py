"""The values that flow through the editing layer: what a dialect sees and what it plans."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

import msgspec

from stet.wire.results import BlockResult, ClipboardNote, EditReport
from stetd.editing.text import Document, looks_binary


class SourceFile(msgspec.Struct, frozen=True, dict=True):
    """A file as a call sees it; ``path``: from the workspace's root, symbolic links resolved."""

    path: str
    #: None when there is no file; of a symbolic link where it points.
    data: bytes | None
    #: Type and permission bits; None without a file, or for one that a call before this makes.
    mode: int | None = None

    @cached_property
    def document(self) -> Document:
        """Its text, empty when there is no file."""
        return Document.from_bytes(self.data or b"")

    @property
    def binary(self) -> bool:
        """Whether it looks binary, so that nothing in it can be edited in part."""
        return self.data is not None and looks_binary(self.data)

    @property
    def is_link(self) -> bool:
        """Whether this is a symbolic link (which only ``World.look`` gives)."""
        return self.mode is not None and stat.S_ISLNK(self.mode)

    def leads_to(self, root: str) -> str:
        """The absolute path that a symbolic link leads to, as it is spelled in it."""
        text = (self.data or b"").decode("utf-8", "surrogateescape")
        folder = self.path.rpartition("/")[0]
        return text if text.startswith("/") else f"{root}/{folder}/{text}"


class World(Protocol):
    """What a call may look at: files and the session's clipboards, before the call."""

    def read(self, path: str) -> SourceFile:
        """The file at ``path`` (as the request spells it). Raises Refused."""

    def look(self, path: str) -> SourceFile:
        """The entry at ``path`` itself: a symbolic link, not what it leads to. Raises Refused."""

    @property
    def root(self) -> str:
        """The absolute path of the workspace's root, without a slash at its end."""

    @property
    def clipboards(self) -> Mapping[str, str]:
        """The session's clipboards by name."""


class PlannedFile(msgspec.Struct, frozen=True):
    """One file of a plan: from the bytes that planning saw to others; None: there is no file."""

    path: str
    before: bytes | None
    after: bytes | None
    #: The old path of a file that is moved; its removal is a PlannedFile of its own.
    old_path: str | None = None
    #: The full mode that the file gets; None: the one it has, or one that fits the directory.
    mode: int | None = None
    #: The earlier file of this path was moved: this is not that one with other content.
    new: bool = False


class Plan(msgspec.Struct, frozen=True):
    """Everything a call will do if it is committed."""

    files: tuple[PlannedFile, ...]
    edits: tuple[EditReport, ...]
    #: Clipboards that change: name to new text.
    clipboards: Mapping[str, str] = msgspec.field(default_factory=dict)
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
