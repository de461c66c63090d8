"""What the files of a workspace were when a snapshot last read them: their stat data and ids.

A file whose size, times, inode and mode are what they were has the content that it had, so it
need not be read again. This is a cache: it is rebuilt from nothing, and nothing is believed of it
that the newest commit does not say as well.

The file: 8 bytes ``STETSTA`` and the version (1); then for each directory its path's length and
its content's length (4 bytes each, big end first), the path (UTF-8, "" for the root, else with a
slash at the end) and the content: MessagePack, name to [size, modified, changed (nanoseconds),
inode, mode, id (20 bytes)].
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from stetd.storage.disk import Disk

_MAGIC = b"STETSTA\x01"
_HEAD = struct.Struct(">II")


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
_decode = msgspec.msgpack.Decoder(dict[str, tuple[int, int, int, int, int, bytes]]).decode


class StatCache:
    """The cache as it was written; directories are decoded when they are asked for."""

    def __init__(self, path: str) -> None:
        self._data = b""
        self._places: dict[str, tuple[int, int]] = {}
        try:
            with open(path, "rb") as file:
                self._data = file.read()
        except OSError:
            return

    def load(self) -> None:
        """Find the directories in it. What is damaged is left out."""
        at = len(_MAGIC)
        if self._data[:at] != _MAGIC:
            return
        while at + _HEAD.size <= len(self._data):
            path_length, length = _HEAD.unpack_from(self._data, at)
            start = at + _HEAD.size + path_length
            if start + length > len(self._data):
                return
            path = self._data[at + _HEAD.size : start].decode("utf-8", "replace")
            self._places[path] = start, length
            at = start + length

    def folder(self, path: str) -> Known:
        """What is known of the files in a directory."""
        start, length = self._places.get(path, (0, 0))
        try:
            found = _decode(self._data[start : start + length]) if length else {}
        except msgspec.DecodeError:
            return {}
        return {name: (Stamp(*values[:5]), values[5]) for name, values in found.items()}


def stat_cache_path(shadow: str) -> str:
    """Where the stat data of a workspace's files are kept."""
    workspaces, name = os.path.split(shadow)
    return os.path.join(os.path.dirname(workspaces), "snapshots", name + ".stat")


class StatCacheWriter:
    """Writes a cache, directory by directory; it takes the old one's place at the end."""

    def __init__(self, path: str, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._temporary = path + ".tmp"
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._fd = disk.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._piece = bytearray(_MAGIC)

    def add(self, folder: str, known: Known) -> None:
        """A directory with the files in it."""
        rows = {name: (*stamp, oid) for name, (stamp, oid) in known.items()}
        path, content = folder.encode(), msgspec.msgpack.encode(rows)
        self._piece += _HEAD.pack(len(path), len(content)) + path + content
        if len(self._piece) > 1 << 17:
            self._flush()

    def _flush(self) -> None:
        self._disk.write_all(self._fd, bytes(self._piece))
        self._piece.clear()

    def finish(self) -> None:
        """Let it take the old one's place."""
        self._flush()
        self._disk.fdatasync(self._fd)
        self.close()
        os.replace(self._temporary, self._path)

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
