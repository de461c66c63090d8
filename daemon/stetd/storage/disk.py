"""The system calls that write, rename, remove and sync files, as methods of one class.

Tests replace the class by one that crashes at the k-th change and knows what was synced. Names in a
workspace are relative to a directory's descriptor (``dir_fd``), never absolute paths.

Assumptions about the file system: ``rename`` is atomic; ``fdatasync`` makes a file's bytes and
length durable, ``fsync`` of a directory its names; nothing else is durable.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syncfs.argtypes = [ctypes.c_int]
#: More bytes than a ``struct statfs`` has. Its first field is the type of file system.
_STATFS_BYTES = 256
#: File systems that overwrite bytes in place: ext4 and XFS (magic numbers, statfs(2)).
_OVERWRITING = frozenset({0xEF53, 0x58465342})

#: Errors of ``fsync`` on a file system that has nothing to sync, mostly for directories.
_NOTHING_TO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
#: Errors of ``renameat2`` on a file system that does not support the flag.
UNSUPPORTED_RENAME = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


def _renameat2(dir_fd: int, src: str, dst: str, flags: int) -> None:
    done = _libc.renameat2(dir_fd, os.fsencode(src), dir_fd, os.fsencode(dst), flags)
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), dst)


def _sync(act: Callable[[int], None], fd: int) -> None:
    try:
        act(fd)
    except OSError as error:
        if error.errno not in _NOTHING_TO_SYNC:
            raise SyncFailed(error.errno, error.strerror) from error


class SyncFailed(OSError):
    """A sync failed: the data may be lost, even if a second sync succeeds."""


class NotRegular(OSError):
    """Something else, such as a FIFO, is in the place of a regular file."""


class Disk:
    """The real disk."""

    def open(self, name: str, flags: int, mode: int = 0o600, dir_fd: int | None = None) -> int:
        """``openat``; always close-on-exec, and never waits for the other end of a FIFO."""
        return os.open(name, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode, dir_fd=dir_fd)

    def write_all(self, fd: int, data: bytes) -> None:
        """Write all bytes at the descriptor's position; short writes are continued."""
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def pwrite_all(self, fd: int, data: bytes, offset: int) -> None:
        """Write all bytes at ``offset``; short writes are continued."""
        view = memoryview(data)
        while view:
            written = os.pwrite(fd, view, offset)
            view = view[written:]
            offset += written

    def reserve(self, fd: int, offset: int, length: int) -> None:
        """Allocate the space for writing ``length`` bytes at ``offset``."""
        os.posix_fallocate(fd, offset, length)

    def overwrites_in_place(self, fd: int) -> bool:
        """Whether the file system needs no new space for overwriting bytes."""
        found = ctypes.create_string_buffer(_STATFS_BYTES)
        kind = ctypes.c_long.from_buffer(found)
        return _libc.fstatfs(fd, found) == 0 and kind.value in _OVERWRITING

    def truncate(self, fd: int, length: int) -> None:
        """Cut a file to ``length`` bytes."""
        os.ftruncate(fd, length)

    def fdatasync(self, fd: int) -> None:
        """Make a file's content and length durable. Raises SyncFailed."""
        _sync(os.fdatasync, fd)

    def fsync(self, fd: int) -> None:
        """Make a file with its attributes, or a directory's names, durable. Raises SyncFailed."""
        _sync(os.fsync, fd)

    def fchmod(self, fd: int, mode: int) -> None:
        """Set permission bits."""
        os.fchmod(fd, mode)

    def exchange(self, first: str, second: str, dir_fd: int) -> None:
        """Swap two names of one directory atomically (``RENAME_EXCHANGE``)."""
        _renameat2(dir_fd, first, second, _RENAME_EXCHANGE)

    def rename_new(self, src: str, dst: str, dir_fd: int) -> None:
        """Rename to a name that must be free (``RENAME_NOREPLACE``). Raises FileExistsError."""
        _renameat2(dir_fd, src, dst, _RENAME_NOREPLACE)

    def rename(self, src: str, dst: str, dir_fd: int) -> None:
        """Rename, replacing an existing file."""
        os.rename(src, dst, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    def unlink(self, name: str, dir_fd: int | None = None) -> None:
        """Remove a name, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=dir_fd)

    def symlink(self, target: bytes, name: str, dir_fd: int) -> None:
        """Make a symbolic link; ``target`` are its bytes."""
        os.symlink(target, os.fsencode(name), dir_fd=dir_fd)

    def mkdir(self, name: str, mode: int, dir_fd: int | None = None) -> None:
        """Make a directory with exactly these permission bits."""
        os.mkdir(name, mode, dir_fd=dir_fd)

    def rmdir(self, name: str, dir_fd: int) -> None:
        """Remove an empty directory. Raises OSError if it is not empty."""
        os.rmdir(name, dir_fd=dir_fd)

    def sync_path(self, path: str) -> None:
        """Make a file, or a directory's names, durable. Raises FileNotFoundError, SyncFailed."""
        fd = open_regular(path)
        try:
            self.fsync(fd)
        finally:
            os.close(fd)


def open_regular(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file or a directory. Raises NotRegular for anything else: to open or read it
    could wait for ever.
    """
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise NotRegular(errno.EINVAL, "it is no regular file", path)
    return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)


def read_file(path: str, most: int = -1) -> bytes:
    """The content of a regular file, or its first ``most`` bytes. Raises OSError."""
    with open(path, "rb", buffering=0, opener=open_regular) as file:
        return file.read(most)


def read_if_exists(path: str) -> bytes:
    """The content of a file; empty if it is not there."""
    try:
        return read_file(path)
    except FileNotFoundError:
        return b""


def replace_file(path: str, content: bytes, disk: Disk, unfinished: str = ".tmp") -> None:
    """Replace a file durably and atomically; ``unfinished`` ends the name of the new one so far."""
    write_durably(path + unfinished, content, disk)
    os.replace(path + unfinished, path)
    disk.sync_path(os.path.dirname(path))


def write_durably(path: str, content: bytes, disk: Disk) -> None:
    """Write a file; it is durable, but its name is not."""
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        disk.write_all(fd, content)
        disk.fsync(fd)
    finally:
        os.close(fd)
