"""The values that flow through the editing layer: what a dialect sees and what it plans."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Protocol, TypeVar

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import BlockResult, ClipboardNote, EditReport
from stetd.editing.text import Document, looks_binary

_MOST_LINKS = 40


class SourceFile(msgspec.Struct, frozen=True, dict=True):
    """A file as a call sees it; ``path``: relative to the workspace's root, links resolved."""

    path: str
    #: The content; None: no file. For a symbolic link, its target.
    data: bytes | None
    #: Type and permission bits; None without a file, or if an earlier call of the batch creates it.
    mode: int | None = None

    @cached_property
    def document(self) -> Document:
        """Its text, empty when there is no file."""
        return Document.from_bytes(self.data or b"")

    @property
    def binary(self) -> bool:
        """Whether it looks binary, so that only the whole file can be replaced."""
        return self.data is not None and looks_binary(self.data)

    @property
    def is_link(self) -> bool:
        """Whether this is a symbolic link (which only ``World.look`` gives)."""
        return self.mode is not None and stat.S_ISLNK(self.mode)


AnyFile = TypeVar("AnyFile", bound=SourceFile)


def followed(path: str, root: str, look: Callable[[str], AnyFile]) -> AnyFile:
    """The file at ``path``, links followed; ``look``: the entry at a path. Raises Refused."""
    spelled = path
    for _ in range(_MOST_LINKS):
        file = look(spelled)
        if not file.is_link:
            return file
        target = (file.data or b"").decode("utf-8", "surrogateescape")
        folder = file.path.rpartition("/")[0]
        spelled = target if target.startswith("/") else f"{root}/{folder}/{target}"
    raise refuse(Kind.NOT_A_FILE, f"{path}: too many symbolic links", path=path)


class World(Protocol):
    """What planning may read: files and the session's clipboards, as they are before the call."""

    def read(self, path: str) -> SourceFile:
        """The file at ``path`` (as the request spells it). Raises Refused."""

    def look(self, path: str) -> SourceFile:
        """The entry at ``path`` itself: a symbolic link, not its target. Raises Refused."""

    @property
    def root(self) -> str:
        """The absolute path of the workspace's root, without a slash at its end."""

    @property
    def clipboards(self) -> Mapping[str, str]:
        """The session's clipboards by name."""


def check_spelling(path: str, spelled: str, world: World) -> None:
    """Refuse a path without the blanks that were sent around it, if a file has them in its name."""
    try:
        other = spelled != path and world.look(spelled).data is not None
    except Refused:  # no file can have this name
        return
    if other:
        raise refuse(
            Kind.INVALID_PARAMS,
            f'{path}: blanks around a path are left out here, but there is a file "{spelled}", so '
            "it is not certain which one is meant. Send the path without blanks, or use the tool "
            "patch or patch_file for the file that has them in its name.",
            path=path,
        )


class PlannedFile(msgspec.Struct, frozen=True):
    """One file of a plan: its content before and after; None: no file."""

    path: str
    before: bytes | None
    after: bytes | None
    #: The old path of a file that is moved. What becomes of that path is a PlannedFile of its own.
    old_path: str | None = None
    #: The file's full mode; None: its present one, or for a new file one that fits the directory.
    mode: int | None = None
    #: The file is a new one, because the earlier file of this path was moved away.
    new: bool = False


class Plan(msgspec.Struct, frozen=True, tag=True):
    """Everything that a call will change."""

    files: tuple[PlannedFile, ...]
    edits: tuple[EditReport, ...]
    #: Clipboards that change: name to new text.
    clipboards: Mapping[str, str] = msgspec.field(default_factory=dict)
    clipboard_notes: tuple[ClipboardNote, ...] = ()
    #: For the model, in the dialect's own form.
    message: str = ""
    #: The call's own parameters ask for a preview (``dry_run``): nothing is carried out.
    preview: bool = False
    #: The message of a preview; "": the same as ``message``.
    preview_message: str = ""
    warnings: tuple[str, ...] = ()
    #: Subject line of the commit, e.g. ``patch src/a.py: 2 edits``.
    subject: str = ""
    #: Results of ``patch_block``, one per file; empty in other dialects.
    results: tuple[BlockResult, ...] = ()
