"""The daemon's directories, made and checked, and the locks that make it the only one.

Nobody else may be able to change what the daemon relies on. A directory above must be root's or the
user's own, and not writable by everyone unless it is sticky, like /tmp. It may be writable by a
group: with private groups that is how home directories are made. Every refusal names one path and
the command that mends it.

A hardened service runs in a user namespace (user_namespaces(7)), where root and all other users
have one id, that of nobody. There that id counts as root's, above and for the configuration.

``stetd.lock`` in both is held with flock(2) for the daemon's life: the state needs one writer and
the sockets one listener. The files are never removed.
"""

from __future__ import annotations

import fcntl
import functools
import glob
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Literal

import msgspec

from stet.service.socket_path import (
    AGENT_SOCKET,
    CONTROL_SOCKET,
    UnsafeDirectory,
    check_owner,
    config_path,
    make_above,
    make_private,
    runtime_directory,
    state_directory,
)

LOCK_NAME = "stetd.lock"
#: Seconds in which the historian of a daemon that was killed ends; until then it holds the locks.
_HISTORIAN_S, _ENDING_S, _POLL_S = 10.0, 1.0, 0.005
#: What in the state directory is checked; what lies deeper can't be reached but through these.
_IN_STATE = ("*", "*/*", "workspaces/*/*")
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ENTERED_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH


class AlreadyRunning(Exception):
    """Another daemon holds one of the directories; the message says which and who."""


class Directories(msgspec.Struct, frozen=True):
    """Absolute paths: of the runtime and state directory, and of the configuration file."""

    runtime: str
    state: str
    config: str

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Directories:
        """The directories that CONTRACT.md 1 gives for an environment."""
        return cls(runtime_directory(environ), state_directory(environ), config_path(environ))

    def prepare(self) -> None:
        """Create what is missing and check the rest. Raises UnsafeDirectory, OSError."""
        make_private(self.runtime)
        check_above(self.runtime, "STET_RUNTIME_DIR")
        check_sockets(self.runtime)
        make_above(self.state)
        with suppress(FileExistsError):
            os.mkdir(self.state, 0o700)
        check_above(self.state, "STET_STATE_DIR")
        check_state(self.state)
        check_configuration(self.config)


@contextmanager
def instance_lock(directories: Directories) -> Iterator[list[int]]:
    """Hold the locks on both directories; gives the descriptors that hold them.

    A moment is waited for a daemon that ends. Raises AlreadyRunning, OSError.
    """
    with ExitStack() as held:
        descriptors = []
        for directory in dict.fromkeys((directories.state, directories.runtime)):
            descriptors.append(_lock(directory))
            held.callback(os.close, descriptors[-1])
        yield descriptors


def _lock(directory: str) -> int:
    path = os.path.join(directory, LOCK_NAME)
    began = time.monotonic()
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still_there(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
                return descriptor
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            # One that has ended may leave a historian; one that is just ending looks as if it ran.
            if time.monotonic() - began < (_HISTORIAN_S if _has_ended(holder) else _ENDING_S):
                time.sleep(_POLL_S)
                continue
            raise AlreadyRunning(
                f"another stetd{f' (process {holder})' if holder else ''} is using {directory}. "
                "Talk to that one (stet status), or stop it first."
            ) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _has_ended(process: str) -> bool:
    try:
        with open(f"/proc/{int(process)}/stat", encoding="utf-8", errors="replace") as file:
            return ") Z " in file.read()
    except FileNotFoundError:
        return True
    except (ValueError, OSError):
        return False


def _is_still_there(descriptor: int, path: str) -> bool:
    """Whether ``path`` still names the file: a cleaner of /tmp may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _unsafe(what: str, mend: str) -> UnsafeDirectory:
    return UnsafeDirectory(f"{what} {mend}", mend)


@functools.cache
def unknown_owner(kind: Literal["uid", "gid"]) -> int:
    """The id of users, or groups, without one; -1 where all have one. Raises OSError."""
    with open(f"/proc/sys/kernel/overflow{kind}", encoding="ascii") as file:
        nobody = int(file.read())
    with open(f"/proc/self/{kind}_map", encoding="ascii") as file:
        ranges = [[int(number) for number in line.split()] for line in file]
    known = any(first <= nobody < first + count for first, _, count in ranges)
    return -1 if known else nobody


def check_above(directory: str, variable: str) -> None:
    """Refuse a directory that somebody else could put another one in place of."""
    path = os.path.realpath(directory)
    while path != "/":
        path = os.path.dirname(path)
        info = os.stat(path)
        if info.st_uid not in (0, os.geteuid(), unknown_owner("uid")):
            raise UnsafeDirectory(
                f"{path}, above {directory}, belongs to user id {info.st_uid}, who could put "
                f"another directory there. Set {variable} to a place of your own."
            )
        if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
            raise _unsafe(
                f"{path}, above {directory}, has mode {stat.S_IMODE(info.st_mode):04o}: anybody "
                "could put another directory there. Run:",
                f"chmod o-w '{path}'",
            )


def check_state(directory: str) -> None:
    """Refuse a state directory of which others own, or may write to, anything that counts.

    It may be a link of the user's own to a directory of the user's own.
    """
    for info in (os.lstat(directory), os.stat(directory)):
        check_owner(directory, info, directory)
    if not stat.S_ISDIR(info.st_mode):
        mend = f"mv '{directory}' '{directory}.old'"
        raise _unsafe(f"{directory} is not a directory. Move it away:", mend)
    _check_writers(directory, info, f"chmod 700 '{directory}'")
    private = not info.st_mode & _ENTERED_BY_OTHERS  # then modes inside let nobody in
    for path in _looked_at(directory):
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue  # a daemon that runs here has just removed it
        check_owner(path, found, directory)
        if stat.S_ISLNK(found.st_mode):
            raise _unsafe(
                f"{path} is a symbolic link; stet makes none there. Put back what belongs there, "
                "or remove it:",
                f"rm '{path}'",
            )
        if not private:
            _check_writers(path, found, f"chmod -R go-w '{directory}'")


def _looked_at(directory: str) -> Iterator[str]:
    for pattern in _IN_STATE:
        for name in sorted(glob.glob(pattern, root_dir=directory, include_hidden=True)):
            yield os.path.join(directory, name)


def check_sockets(directory: str) -> None:
    """Refuse a runtime directory with something of another user's."""
    for name in (AGENT_SOCKET, CONTROL_SOCKET):
        path = os.path.join(directory, name)
        if os.path.lexists(path) and (owner := os.lstat(path).st_uid) != os.geteuid():
            raise _unsafe(
                f"{path} belongs to user id {owner}, not to you ({os.geteuid()}). Remove it:",
                f"rm -f '{path}'",
            )


def check_configuration(path: str) -> None:
    """Refuse a configuration file that another user decides on."""
    if not os.path.exists(path):
        return
    info = os.stat(path)
    if info.st_uid not in (0, os.geteuid(), unknown_owner("uid")):
        raise UnsafeDirectory(
            f"{path} belongs to user id {info.st_uid}, not to you ({os.geteuid()}). "
            "Set STET_CONFIG to a file of your own."
        )
    if info.st_mode & stat.S_IWOTH:
        mode = f"{stat.S_IMODE(info.st_mode):04o}"
        raise _unsafe(
            f"{path} has mode {mode}: anybody could change it. Run:", f"chmod o-w '{path}'"
        )


def _check_writers(path: str, info: os.stat_result, mend: str) -> None:
    if info.st_mode & _WRITABLE_BY_OTHERS:
        mode = f"{stat.S_IMODE(info.st_mode):04o}"
        raise _unsafe(
            f"{path} has mode {mode}: others could change what is recorded there. Run:", mend
        )
