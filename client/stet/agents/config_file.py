"""One file of a client's configuration: read, backed up beside itself, replaced atomically.

    <file>.stet-backup-<n>     the file before stet connect changed it, with its mode

A new version gets the file's name only when it is complete and on disk, and only if the file is
still as it was read. A link is followed, and its target replaced. Backups are never overwritten.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import tempfile
from collections.abc import Sequence

import msgspec

from stet.errors import StetError
from stet.service.socket_path import quoted

#: A larger file, in bytes, is no configuration.
_LARGEST = 32 * 1024 * 1024


class ConnectTrouble(StetError):
    """A client's configuration could not be changed as asked; nothing was changed."""


class ConfigFile(msgspec.Struct, frozen=True):
    """A file as it was read. ``path`` is the file behind all links; ``data`` None: no file."""

    named: str
    path: str
    data: bytes | None
    mode: int

    @property
    def text(self) -> str:
        """The text, "" if there is no file. Raises ConnectTrouble if it is not UTF-8."""
        data = self.data or b""
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise ConnectTrouble(
                f"{self.path} is not UTF-8 (line {line}), so it is not touched. Mend it first."
            ) from error


def read(named: str, *, mode: int = 0o600) -> ConfigFile:
    """Read a file. If there is none, a new one will get ``mode``. Raises ConnectTrouble."""
    path = os.path.realpath(named)
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise ConnectTrouble(f"{named} is not a file. Move it away first.")
        if found.st_size > _LARGEST:
            raise ConnectTrouble(f"{named} has {found.st_size} bytes, too many for a configuration")
        with open(path, "rb") as file:
            return ConfigFile(named, path, file.read(), stat.S_IMODE(found.st_mode))
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(named):
            raise ConnectTrouble(
                f"{named} is a link to {path}, which is not there. Mend or remove the link."
            ) from None
        return ConfigFile(named, path, None, mode)
    except OSError as error:
        raise ConnectTrouble(f"{named} can't be read: {error.strerror}") from error


def check_writable(file: ConfigFile) -> None:
    """Raises ConnectTrouble if the file is not the user's, is read-only, or has hard links, or if
    its directory is read-only. All files are checked before one is written.
    """
    if file.data is None:
        return
    found = os.stat(file.path)
    if found.st_uid != os.geteuid():
        raise ConnectTrouble(f"{file.path} belongs to user id {found.st_uid}, not to you")
    if not found.st_mode & stat.S_IWUSR:
        raise ConnectTrouble(
            f"{file.path} is read-only (mode {file.mode:04o}), so it is left alone. To let stet "
            f"write there: chmod u+w {quoted(file.path)}. If a program makes this file, put what "
            "stet connect prints into what it is made from."
        )
    if found.st_nlink > 1:
        raise ConnectTrouble(
            f"{file.path} has {found.st_nlink} names (hard links), and a new file would have only "
            "this one. Make it a file of its own, or the other names symbolic links to it, or put "
            "in what stet connect prints by hand. Nothing was changed."
        )
    if not os.access(os.path.dirname(file.path), os.W_OK):
        raise ConnectTrouble(f"the directory of {file.path} is not writable for you")


def backups(file: ConfigFile) -> list[ConfigFile]:
    """The readable backups of a file, newest first."""
    directory, name = os.path.split(file.path)
    pattern = re.compile(re.escape(name) + r"\.stet-backup-([0-9]+)")
    kept = []
    with contextlib.suppress(OSError):
        found = filter(None, map(pattern.fullmatch, os.listdir(directory)))
        for each in sorted(found, key=lambda match: int(match[1]), reverse=True):
            with contextlib.suppress(ConnectTrouble):
                kept.append(read(os.path.join(directory, each[0])))
    return [backup for backup in kept if backup.data is not None]


def back_up(file: ConfigFile) -> str:
    """Write a backup beside a file, under a free number; returns its path."""
    assert file.data is not None, "BUG: nothing to keep"
    for number in itertools.count(1):
        path = f"{file.path}.stet-backup-{number}"
        with contextlib.suppress(FileExistsError):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                _fill(handle, file.data, file.mode)
            except BaseException:
                os.unlink(path)
                raise
            return path
    raise AssertionError("BUG: numbers do not end")


def _fill(handle: int, data: bytes, mode: int) -> None:
    with open(handle, "wb") as fresh:
        os.fchmod(handle, mode)
        fresh.write(data)
        fresh.flush()
        os.fsync(handle)


def replace(file: ConfigFile, data: bytes | None) -> None:
    """Replace a file's content, and make missing directories above it; ``data`` None: remove it.

    Changes nothing and raises ConnectTrouble if the file has changed since it was read; or OSError.
    """
    directory = os.path.dirname(file.path)
    if data is None:
        _check_same(file)
        os.unlink(file.path)
    else:
        os.makedirs(directory, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".stet-", dir=directory)
        try:
            _fill(handle, data, file.mode)
            _check_same(file)
            os.replace(temporary, file.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    # The file is replaced, even if the file system can't sync a directory.
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def missing_directories(path: str) -> list[str]:
    """The missing directories above a file, the innermost first."""
    missing = []
    directory = os.path.dirname(path)
    while not os.path.isdir(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    return missing


def remove_directories(directories: Sequence[str]) -> None:
    """Remove directories that are empty; they are given the innermost first."""
    for directory in directories:
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _check_same(file: ConfigFile) -> None:
    if read(file.path).data != file.data:
        raise ConnectTrouble(f"{file.path} was changed meanwhile; try again")
