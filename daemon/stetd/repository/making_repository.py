"""Making a shadow repository: the files and directories that plain git takes for a bare one."""

from __future__ import annotations

import os

from stetd.repository.packing import clear_half_packs
from stetd.repository.references import HISTORY, PINS
from stetd.storage.disk import Disk, read_if_exists, replace_file

#: What makes a directory a bare Git repository, besides its directories.
_HEAD = b"ref: " + HISTORY.encode() + b"\n"
_CONFIG = b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tlogAllRefUpdates = false
\thooksPath = /dev/null
[gc]
\tauto = 0
"""
_DIRECTORIES = (
    "", "objects", "objects/info", "objects/pack", "refs", "refs/heads", PINS, "refs/tags",
)  # fmt: skip


def create_repository(path: str, disk: Disk, *, clear_leftovers: bool = True) -> None:
    """Make an empty shadow repository (0700), durably; or mend what a crash left of one.

    ``clear_leftovers``: what a killed process left goes; nobody may be writing there.

    Each file is synced: after a power cut an empty ``HEAD`` would be no repository any more.
    """
    for folder in _DIRECTORIES:
        os.makedirs(os.path.join(path, folder), mode=0o700, exist_ok=True)
    if clear_leftovers:
        _clear_leftovers(path)
    head = os.path.join(path, "HEAD")
    if read_if_exists(head) != _HEAD:
        replace_file(head, _HEAD, disk)
    config = read_if_exists(os.path.join(path, "config"))
    if b"[core]" not in config or b"\0" in config:
        replace_file(os.path.join(path, "config"), _CONFIG, disk)
    for folder in _DIRECTORIES:
        disk.sync_directory(os.path.join(path, folder))


def _clear_leftovers(path: str) -> None:
    """Remove what a killed process left: locks, which would block every later commit, and
    temporary files. The caller holds the daemon's lock.
    """
    clear_half_packs(path)
    for folder in ("", "refs/heads", PINS, "objects", "objects/pack"):
        directory = os.path.join(path, folder)
        for name in os.listdir(directory):
            if name.endswith((".lock", ".tmp")) or name.startswith("tmp_"):
                os.unlink(os.path.join(directory, name))
