"""The result of planning: a draft of the changes a call makes, and who asked for them.

The transaction needs nothing else, whether a dialect or an undo has planned the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stet.wire.results import BlockResult, ClipboardNote, EditReport, Peer
from stetd import __version__
from stetd.history.commits import CommitMeta
from stetd.storage.paths_on_disk import Target
from stetd.storage.worktree import OnDisk


class Requester(msgspec.Struct, frozen=True):
    """Who asked for a change, for the commit's author and trailers."""

    agent: str | None
    session: str | None
    peer: Peer | None
    method: str
    request: str | None
    why: str = ""

    def commit_meta(self, kind: str, time: int, subject: str, **more: Any) -> CommitMeta:
        """The metadata of a commit that was asked for in this way."""
        asked = {name: getattr(self, name) for name in Requester.__struct_fields__}
        return CommitMeta(
            kind=kind, time=time, subject=subject, version=__version__, **asked, **more
        )


class DraftFile(msgspec.Struct):
    """One file that a call touches: where it is, its content now, its content afterwards.

    ``after`` None: delete it. ``mode`` None: keep the mode; a new file gets one that fits its
    directory. ``new``: it is a new file, although one is there (which was moved away, say).
    """

    target: Target
    found: OnDisk | None
    after: bytes | None
    mode: int | None = None
    new: bool = False
    old_path: str | None = None


class Draft(msgspec.Struct):
    """The changes that a call makes."""

    kind: str
    subject: str
    files: list[DraftFile]
    edits: Sequence[EditReport] = ()
    message: str = ""
    warnings: Sequence[str] = ()
    clipboards: Mapping[str, str] = {}
    clipboard_notes: Sequence[ClipboardNote] = ()
    #: Makes a commit even if no file changes: what an undo takes back may be gone already.
    reverts: tuple[str, ...] = ()
    #: Directories to remove at the end if they are empty.
    leftover_directories: Sequence[str] = ()
    #: The client wants to see the result only.
    preview: bool = False
    #: What ``patch_block`` returns beside the message, for one file or several; None: nothing.
    result: BlockResult | list[BlockResult] | None = None
    #: Protected files that the call changes; its commit names them.
    flagged: Sequence[str] = ()

    def close(self) -> None:
        """Close the descriptors of all files."""
        for item in self.files:
            item.target.close()
