"""One file of a client's configuration: read, backed up beside itself, replaced in one step.

    <file>.stet-backup-<n>     what the file was before stet connect changed it, with its mode

What is written goes under its name only when it is whole and on disk, and only if the file is still
what was read. A link is followed, and the file behind it replaced. Backups are never overwritten.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stet.errors import StetError

#: Configuration of more bytes than that is none.
_LARGEST = 32 * 1024 * 1024


class ConnectTrouble(StetError):
    """A client's configuration could not be changed as asked; nothing was changed."""

    KIND = "connect_trouble"


@dataclass(frozen=True)
class ConfigFile:
    """A file as it was read. ``path`` is the file behind all links; ``data`` None: no file."""

    named: str
    path: str
    data: bytes | None
    mode: int

    @property
    def text(self) -> str:
        """Its text, "" if there is none. Raises ConnectTrouble for what is not UTF-8."""
        data = self.data or b""
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise ConnectTrouble(
                f"{self.path} is not UTF-8 (line {line}), so it is not touched. Mend it first."
            ) from error


class Backup(NamedTuple):
    """What a file was, and where that is kept."""

    path: str
    data: bytes


def read(named: str, *, mode: int = 0o600) -> ConfigFile:
    """A file, or the place for one, which will get ``mode``. Raises ConnectTrouble."""
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
    """Raises ConnectTrouble for a file that is not the user's to change."""
    if file.data is None:
        return
    found = os.stat(file.path)
    if found.st_uid != os.geteuid():
        raise ConnectTrouble(f"{file.path} belongs to user id {found.st_uid}, not to you")
    if not found.st_mode & stat.S_IWUSR:
        raise ConnectTrouble(
            f"{file.path} is read-only (mode {file.mode:04o}), so it is left alone. To let stet "
            f"write there: chmod u+w '{file.path}'. If a program makes this file, put what "
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


def backups(file: ConfigFile) -> list[Backup]:
    """The backups of a file, the newest first; unreadable ones are left out."""
    directory, name = os.path.split(file.path)
    pattern = re.compile(re.escape(name) + r"\.stet-backup-([0-9]+)")
    kept = []
    with contextlib.suppress(OSError):
        found = filter(None, map(pattern.fullmatch, os.listdir(directory)))
        for each in sorted(found, key=lambda match: int(match[1]), reverse=True):
            path = os.path.join(directory, each[0])
            with contextlib.suppress(OSError), open(path, "rb") as backup:
                kept.append(Backup(path, backup.read()))
    return kept


def back_up(file: ConfigFile) -> str:
    """Keep a file's bytes beside it, under a number that is free; the path."""
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
    """Make a file these bytes, with the directories above it; or remove it. Or it stays as it is:
    raises ConnectTrouble if somebody has changed it since it was read, and OSError.
    """
    if data is None:
        _check_same(file)
        os.unlink(file.path)
    else:
        _write(file, data)
    # What is done is done, also on a file system that can't sync a directory.
    with contextlib.suppress(OSError):
        handle = os.open(os.path.dirname(file.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write(file: ConfigFile, data: bytes) -> None:
    temporary = None
    try:
        os.makedirs(os.path.dirname(file.path), exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".stet-", dir=os.path.dirname(file.path))
        _fill(handle, data, file.mode)
        _check_same(file)
        os.replace(temporary, file.path)
    except BaseException:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise


def missing_directories(path: str) -> list[str]:
    """The directories above a file that are not there, the innermost first."""
    missing = []
    directory = os.path.dirname(path)
    while not os.path.isdir(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    return missing


def remove_directories(directories: Sequence[str]) -> None:
    """Remove directories, the innermost first, as far as they are empty."""
    for directory in sorted(directories, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _check_same(file: ConfigFile) -> None:
    if read(file.path).data != file.data:
        raise ConnectTrouble(f"{file.path} was changed meanwhile; try again")
