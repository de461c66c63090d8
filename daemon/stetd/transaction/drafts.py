"""What planning gives: who asks, and a draft of what a call wants to do.

However a call was planned - by a dialect, by undo - this is all that the transaction needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stet.wire.results import BlockResult, ClipboardNote, EditReport, Peer
from stetd import __version__
from stetd.history.commits import CommitMeta
from stetd.storage.paths_on_disk import Target
from stetd.storage.worktree import OnDisk


class Who(msgspec.Struct, frozen=True):
    """Who asks, for the commit's author and trailers."""

    agent: str | None
    session: str | None
    peer: Peer | None
    method: str
    request: str | None
    why: str = ""

    def commit(self, kind: str, time: int, subject: str, **more: Any) -> CommitMeta:
        """What a commit says that was asked for so."""
        asked = msgspec.structs.asdict(self)
        return CommitMeta(
            kind=kind, time=time, subject=subject, version=__version__, **asked, **more
        )


@dataclass(slots=True)
class DraftFile:
    """One file that a call touches: where it is, its content now, what it becomes.

    ``after`` None deletes it; ``mode`` is the full mode of the result (None: that of the
    present file, or one that fits the directory; if it is ``new`` the latter, whatever was
    there).
    """

    target: Target
    found: OnDisk | None
    after: bytes | None
    mode: int | None = None
    new: bool = False
    old_path: str | None = None


@dataclass(slots=True)
class Draft:
    """What a call wants to do, however it was planned (a dialect, an undo)."""

    kind: str
    subject: str
    files: list[DraftFile]
    edits: Sequence[EditReport] = ()
    message: str = ""
    warnings: Sequence[str] = ()
    clipboards: Mapping[str, str] = field(default_factory=dict)
    clipboard_notes: Sequence[ClipboardNote] = ()
    reverts: tuple[str, ...] = ()
    #: Directories to be removed at the end if nothing is left in them.
    leftover_directories: Sequence[str] = ()
    #: The call asked in its own parameters (``dry_run``) that nothing be carried out.
    preview: bool = False
    #: Make a commit even if no file changes (an undo of what was put back by hand).
    record_always: bool = False
    #: What ``patch_block`` answers beside the message: one file, or several; None: no answer.
    result: BlockResult | list[BlockResult] | None = None
    #: Protected files that it changes, which its commit names.
    flagged: Sequence[str] = ()
