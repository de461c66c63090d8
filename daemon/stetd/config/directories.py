"""The daemon's directories: created, checked, and locked so that only one daemon uses them.

Other users must not be able to change these directories. Each parent directory must belong to root
or the user, and must not be writable by everyone unless it is sticky, like /tmp. It may be writable
by a group: where users have private groups, home directories are. Every refusal names one path and
the command that repairs it.

A hardened service runs in a user namespace (user_namespaces(7)), in which root and all other users
have the same id, that of nobody. There this id counts as root's for parents and configuration.

The daemon holds ``stetd.lock`` in both directories with flock(2) while it runs: the state needs one
writer and the sockets one listener. The lock files are never removed.
"""

from __future__ import annotations

import fcntl
import functools
import glob
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Literal

import msgspec

from stet.service.socket_path import (
    UnsafeDirectory,
    check_owner,
    config_path,
    make_missing,
    make_private,
    quoted,
    runtime_directory,
    state_directory,
)

LOCK_NAME = "stetd.lock"
#: Seconds to wait for a lock: held by the historian of a killed daemon; by a daemon that may be
#: ending; between two attempts.
_HISTORIAN_S, _ENDING_S, _POLL_S = 10.0, 1.0, 0.005
#: The paths in the state directory that are checked. Deeper ones can only be reached through them.
_CHECKED_PATTERNS = ("*", "*/*", "workspaces/*/*")
#: Of these, what must be a directory.
_DIRECTORIES = {"journal", "workspaces"}
_SEARCHABLE_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH


class AlreadyRunning(Exception):
    """Another daemon holds a lock; the message names the directory and the process."""


class Directories(msgspec.Struct, frozen=True):
    """Absolute paths of the runtime directory, the state directory and the configuration file."""

    runtime: str
    state: str
    config: str

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Directories:
        """The paths for an environment (docs/sockets.md)."""
        return cls(runtime_directory(environ), state_directory(environ), config_path(environ))

    def prepare(self) -> None:
        """Create what is missing and check the rest. Raises UnsafeDirectory, OSError."""
        make_private(self.runtime)
        make_missing(self.state)
        self.check()

    def check(self) -> None:
        """Check what is there, and create nothing. Raises UnsafeDirectory, OSError."""
        check_configuration(self.config)
        check_above(self.runtime, "STET_RUNTIME_DIR")
        check_above(self.state, "STET_STATE_DIR")
        check_state(self.state)


@contextmanager
def instance_lock(directories: Directories) -> Iterator[list[int]]:
    """Hold the locks of both directories; yields their descriptors.

    Waits a moment for a daemon that is ending. Raises AlreadyRunning, OSError.
    """
    with ExitStack() as held:
        descriptors = []
        for directory in dict.fromkeys((directories.state, directories.runtime)):
            descriptors.append(_lock(directory))
            held.callback(os.close, descriptors[-1])
        yield descriptors


def _lock(directory: str) -> int:
    path = os.path.join(directory, LOCK_NAME)
    started = time.monotonic()
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _names_file(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
                return descriptor
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            # A daemon that has ended may leave a historian; one that is ending seems to run.
            if time.monotonic() - started < (_HISTORIAN_S if _has_ended(holder) else _ENDING_S):
                time.sleep(_POLL_S)
                continue
            raise AlreadyRunning(
                f"another stetd{f' (process {holder})' if holder else ''} is using {directory}. "
                "Talk to that one (stet status), or stop it first."
            ) from error
        os.close(descriptor)


def _has_ended(process: str) -> bool:
    from stet.service.spawn import has_ended  # few starts meet another daemon

    return process.isdecimal() and has_ended(f"/proc/{process}")


def _names_file(descriptor: int, path: str) -> bool:
    """Whether ``path`` still names the open file: a cleaner of /tmp may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _unsafe(what: str, mend: str) -> UnsafeDirectory:
    return UnsafeDirectory(f"{what} {mend}", mend)


def _no_directory(path: str) -> UnsafeDirectory:
    mend = f"mv {quoted(path)} {quoted(path + '.old')}"
    return _unsafe(f"{path} is not a directory. Move it away:", mend)


@functools.cache
def unknown_owner(kind: Literal["uid", "gid"]) -> int:
    """The id of users or groups that the namespace does not map, or -1. Raises OSError."""
    with open(f"/proc/sys/kernel/overflow{kind}", encoding="ascii") as file:
        nobody = int(file.read())
    with open(f"/proc/self/{kind}_map", encoding="ascii") as file:
        ranges = [[int(number) for number in line.split()] for line in file]
    known = any(first <= nobody < first + count for first, _, count in ranges)
    return -1 if known else nobody


def check_above(directory: str, variable: str) -> None:
    """Refuse a directory that another user could replace, by its parent directories."""
    path = os.path.realpath(directory)
    while path != "/":
        path = os.path.dirname(path)
        info = os.stat(path)
        if info.st_uid not in (0, os.geteuid(), unknown_owner("uid")):
            raise UnsafeDirectory(
                f"{path}, above {directory}, belongs to user id {info.st_uid}, who could put "
                f"another directory there. Set {variable} to a place of your own."
            )
        if not info.st_mode & stat.S_ISVTX:
            could = "anybody could put another directory there"
            mend = f"chmod o-w {quoted(path)}"
            _check_mode(f"{path}, above {directory},", info, mend, stat.S_IWOTH, could)


def check_state(directory: str) -> None:
    """Refuse a state directory in which others own, or may write to, a path that is checked.

    It may be a symbolic link if link and target belong to the user.
    """
    for info in (os.lstat(directory), os.stat(directory)):
        check_owner(directory, info, directory)
    if not stat.S_ISDIR(info.st_mode):
        raise _no_directory(directory)
    _check_mode(directory, info, f"chmod 700 {quoted(directory)}")
    private = not info.st_mode & _SEARCHABLE_BY_OTHERS  # then the modes inside do not matter
    for path in _checked_paths(directory):
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue  # a running daemon has just removed it
        check_owner(path, found, directory)
        if stat.S_ISLNK(found.st_mode):
            raise _unsafe(
                f"{path} is a symbolic link; stet makes none there. Put back what belongs there, "
                "or remove it:",
                f"rm {quoted(path)}",
            )
        if os.path.relpath(path, directory) in _DIRECTORIES and not stat.S_ISDIR(found.st_mode):
            raise _no_directory(path)
        if not private:
            _check_mode(path, found, f"chmod -R go-w {quoted(directory)}")


def _checked_paths(directory: str) -> Iterator[str]:
    for pattern in _CHECKED_PATTERNS:
        for name in sorted(glob.glob(pattern, root_dir=directory, include_hidden=True)):
            yield os.path.join(directory, name)


def check_configuration(path: str) -> None:
    """Refuse a configuration file that another user owns or may change."""
    if not os.path.exists(path):
        return
    info = os.stat(path)
    if info.st_uid not in (0, os.geteuid(), unknown_owner("uid")):
        raise UnsafeDirectory(
            f"{path} belongs to user id {info.st_uid}, not to you ({os.geteuid()}). "
            "Set STET_CONFIG to a file of your own."
        )
    mend = f"chmod o-w {quoted(path)}"
    _check_mode(path, info, mend, stat.S_IWOTH, "anybody could change it")


def _check_mode(
    what: str,
    info: os.stat_result,
    mend: str,
    others: int = stat.S_IWGRP | stat.S_IWOTH,
    could: str = "others could change what is recorded there",
) -> None:
    """Refuse what these ``others`` may write to."""
    if info.st_mode & others:
        mode = f"{stat.S_IMODE(info.st_mode):04o}"
        raise _unsafe(f"{what} has mode {mode}: {could}. Run:", mend)
