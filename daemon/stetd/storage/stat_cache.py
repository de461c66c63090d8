"""What the files of a workspace were when a snapshot last read them: their stat data and ids.

A file whose size, times, inode and mode are what they were has the content that it had, so it
need not be read again. This is a cache: it is rebuilt from nothing, and nothing is believed of it
that the newest commit does not say as well.

The file: MessagePack, directory ("" for the root, else with a slash at its end) to name to
[size, modified, changed (nanoseconds), inode, mode, id (20 bytes)].
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from stetd.storage.disk import Disk, replace_file


class Stamp(NamedTuple):
    """What ``stat`` says of a file; times in nanoseconds."""

    size: int
    mtime: int
    ctime: int
    inode: int
    mode: int

    @classmethod
    def of(cls, info: os.stat_result) -> Stamp:
        """The stamp of a file."""
        return cls(info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_mode)


#: Name to the stamp of a file and the id of its content.
Known = Mapping[str, tuple[Stamp, bytes]]
_folders = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_files = msgspec.msgpack.Decoder(dict[str, tuple[int, int, int, int, int, bytes]]).decode


class StatCache:
    """The cache as it was written, empty if it is damaged; directories are decoded when asked."""

    def __init__(self, path: str) -> None:
        self._folders: dict[str, msgspec.Raw] = {}
        with suppress(OSError, msgspec.DecodeError), open(path, "rb") as file:
            self._folders = _folders(file.read())

    def folder(self, path: str) -> Known:
        """What is known of the files in a directory."""
        try:
            found = _files(self._folders[path])
        except (KeyError, msgspec.DecodeError):
            return {}
        return {name: (Stamp(*values[:5]), values[5]) for name, values in found.items()}


def stat_cache_path(shadow: str) -> str:
    """Where the stat data of a workspace's files are kept."""
    workspaces, name = os.path.split(shadow)
    return os.path.join(os.path.dirname(workspaces), "snapshots", name + ".stat")


def write_stat_cache(path: str, folders: Iterable[tuple[str, Known]], disk: Disk) -> None:
    """Put a cache of these directories in the place of the old one. Raises OSError."""
    packed = {
        folder: {name: (*stamp, oid) for name, (stamp, oid) in known.items()}
        for folder, known in folders
        if known
    }
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    replace_file(path, msgspec.msgpack.encode(packed), disk)
