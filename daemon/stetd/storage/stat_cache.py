"""Cache of stat data and blob ids of a workspace's files, as a snapshot last read them.

A file with the same size, times, inode and mode has the same content, so it need not be read again.
The cache may be lost: it is rebuilt. An entry is used only if the newest commit has the same id.

The file: MessagePack, directory ("" for the root, else with a slash at its end) to name to
[size, modified, changed (nanoseconds), inode, mode, id (20 bytes)].
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from stetd.storage.disk import Disk, replace_file


class Stamp(NamedTuple):
    """The stat data of a file; times in nanoseconds."""

    size: int
    mtime: int
    ctime: int
    inode: int
    mode: int

    @classmethod
    def of(cls, info: os.stat_result) -> Stamp:
        """The stamp of a file."""
        return cls(info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_mode)


#: Name to a file's stamp and the blob id of its content.
Known = Mapping[str, tuple[Stamp, bytes]]
_folders = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_files = msgspec.msgpack.Decoder(dict[str, tuple[int, int, int, int, int, bytes]]).decode


def read_stat_cache(path: str) -> Callable[[str], Known]:
    """Read the cache, empty if it is damaged; the result gives the known files of a directory."""
    folders: dict[str, msgspec.Raw] = {}
    with suppress(OSError, msgspec.DecodeError), open(path, "rb") as file:
        folders = _folders(file.read())

    def known(folder: str) -> Known:
        try:
            found = _files(folders[folder])
        except (KeyError, msgspec.DecodeError):
            return {}
        return {name: (Stamp(*values[:5]), values[5]) for name, values in found.items()}

    return known


def stat_cache_path(shadow: str) -> str:
    """The path of a workspace's cache."""
    workspaces, name = os.path.split(shadow)
    return os.path.join(os.path.dirname(workspaces), "snapshots", name + ".stat")


def write_stat_cache(path: str, folders: Iterable[tuple[str, Known]], disk: Disk) -> None:
    """Replace the cache by one of these directories. Raises OSError."""
    packed = {
        folder: {name: (*stamp, oid) for name, (stamp, oid) in known.items()}
        for folder, known in folders
        if known
    }
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    replace_file(path, msgspec.msgpack.encode(packed), disk)
