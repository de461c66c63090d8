"""Creates a shadow repository: the files and directories of a bare Git repository."""

from __future__ import annotations

import os

from stetd.repository.packing import clear_half_packs
from stetd.repository.references import HISTORY, PINS
from stetd.storage.disk import Disk, read_if_exists, replace_file

#: The files of a bare Git repository.
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
    """Create an empty shadow repository (0700) durably, or complete one after a crash.

    ``clear_leftovers``: remove a killed process's locks and temporary files; nobody may be
    writing there.

    Each file is synced: with an empty ``HEAD`` after a power cut it would be no repository.
    """
    for folder in _DIRECTORIES:
        os.makedirs(os.path.join(path, folder), mode=0o700, exist_ok=True)
    if clear_leftovers:  # locks would block later commits
        clear_half_packs(path)
        for folder in ("", "refs/heads", PINS, "objects", "objects/pack"):
            for name in os.listdir(os.path.join(path, folder)):
                if name.endswith((".lock", ".tmp")) or name.startswith("tmp_"):
                    os.unlink(os.path.join(path, folder, name))
    head = os.path.join(path, "HEAD")
    if read_if_exists(head) != _HEAD:
        replace_file(head, _HEAD, disk)
    config = read_if_exists(os.path.join(path, "config"))
    if b"[core]" not in config or b"\0" in config:
        replace_file(os.path.join(path, "config"), _CONFIG, disk)
    for folder in _DIRECTORIES:
        disk.sync_directory(os.path.join(path, folder))
