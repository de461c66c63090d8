"""Whether nobody else can change what the daemon relies on: who owns it, and who may write to it.

Looked at once, at the start, before anything is read. A directory above must be root's or the
user's own, and not writable by everyone unless it is sticky, like /tmp. It may be writable by a
group: with private groups that is how home directories are made.

A hardened service runs in a user namespace (user_namespaces(7)), where root and all other users
have one id, that of nobody. There that id is taken where root's is, above and of the configuration.

Every refusal names one path and the command that mends it. Nothing is changed.
"""

from __future__ import annotations

import functools
import glob
import os
import stat
from collections.abc import Iterator

from stet.service.socket_path import AGENT_SOCKET, CONTROL_SOCKET, UnsafeDirectory

#: What in the state directory is looked at; what lies deeper can't be reached but through these.
_IN_STATE = ("*", "*/*", "workspaces/*/*")
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ENTERED_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH


@functools.cache
def unknown_user() -> int:
    """The id that stands for users without one; -1 where every user has one. Raises OSError."""
    return _overflow("uid")


@functools.cache
def unknown_group() -> int:
    """The id that stands for groups without one; -1 where every group has one. Raises OSError."""
    return _overflow("gid")


def _overflow(kind: str) -> int:
    with open(f"/proc/sys/kernel/overflow{kind}", encoding="ascii") as file:
        nobody = int(file.read())
    with open(f"/proc/self/{kind}_map", encoding="ascii") as file:
        ranges = [[int(number) for number in line.split()] for line in file]
    known = any(first <= nobody < first + count for first, _, count in ranges)
    return -1 if known else nobody


def check_above(directory: str, variable: str) -> None:
    """Refuse a directory that somebody else could put another one in place of.

    ``variable``: that says where it is. Raises UnsafeDirectory, OSError.
    """
    path = os.path.realpath(directory)
    while path != "/":
        path = os.path.dirname(path)
        info = os.stat(path)
        if info.st_uid not in (0, os.geteuid(), unknown_user()):
            raise UnsafeDirectory(
                f"{path}, above {directory}, belongs to user id {info.st_uid}, who could put "
                f"another directory there. Set {variable} to a place of your own."
            )
        if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
            mend = f"chmod o-w '{path}'"
            raise UnsafeDirectory(
                f"{path}, above {directory}, has mode {stat.S_IMODE(info.st_mode):04o}: anybody "
                f"could put another directory there. Run: {mend}",
                mend,
            )


def check_state(directory: str) -> None:
    """Refuse a state directory of which others own, or may write to, anything that counts.

    It may be a link of the user's own to a directory of the user's own. Raises UnsafeDirectory.
    """
    for info in (os.lstat(directory), os.stat(directory)):
        _check_owner(directory, info, directory)
    if not stat.S_ISDIR(info.st_mode):
        mend = f"mv '{directory}' '{directory}.old'"
        raise UnsafeDirectory(f"{directory} is not a directory. Move it away: {mend}", mend)
    _check_writers(directory, info, f"chmod 700 '{directory}'")
    private = not info.st_mode & _ENTERED_BY_OTHERS  # then modes inside let nobody in
    for path in _looked_at(directory):
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue  # a daemon that runs here has just removed it
        _check_owner(path, found, directory)
        if stat.S_ISLNK(found.st_mode):
            mend = f"rm '{path}'"
            raise UnsafeDirectory(
                f"{path} is a symbolic link; stet makes none there. Put back what belongs there, "
                f"or remove it: {mend}",
                mend,
            )
        if not private:
            _check_writers(path, found, f"chmod -R go-w '{directory}'")


def _looked_at(directory: str) -> Iterator[str]:
    for pattern in _IN_STATE:
        for name in sorted(glob.glob(pattern, root_dir=directory, include_hidden=True)):
            yield os.path.join(directory, name)


def check_sockets(directory: str) -> None:
    """Refuse a runtime directory with something of another user's. Raises UnsafeDirectory."""
    for name in (AGENT_SOCKET, CONTROL_SOCKET):
        path = os.path.join(directory, name)
        if os.path.lexists(path):
            info = os.lstat(path)
            if info.st_uid != os.geteuid():
                mend = f"rm -f '{path}'"
                raise UnsafeDirectory(
                    f"{path} belongs to user id {info.st_uid}, not to you ({os.geteuid()}). "
                    f"Remove it: {mend}",
                    mend,
                )


def check_configuration(path: str) -> None:
    """Refuse a configuration file that another user decides on. Raises UnsafeDirectory."""
    if not os.path.exists(path):
        return
    info = os.stat(path)
    if info.st_uid not in (0, os.geteuid(), unknown_user()):
        raise UnsafeDirectory(
            f"{path} belongs to user id {info.st_uid}, not to you ({os.geteuid()}). "
            "Set STET_CONFIG to a file of your own."
        )
    if info.st_mode & stat.S_IWOTH:
        mend = f"chmod o-w '{path}'"
        raise UnsafeDirectory(
            f"{path} has mode {stat.S_IMODE(info.st_mode):04o}: anybody could change it. "
            f"Run: {mend}",
            mend,
        )


def _check_owner(path: str, info: os.stat_result, directory: str) -> None:
    if info.st_uid == os.geteuid():
        return
    mend = f"sudo chown -R {os.geteuid()} '{directory}'"
    raise UnsafeDirectory(
        f"{path} belongs to user id {info.st_uid}, not to you ({os.geteuid()}). If it is yours, "
        f"run: {mend}. If not, set STET_STATE_DIR to a directory of your own.",
        mend,
    )


def _check_writers(path: str, info: os.stat_result, mend: str) -> None:
    if info.st_mode & _WRITABLE_BY_OTHERS:
        raise UnsafeDirectory(
            f"{path} has mode {stat.S_IMODE(info.st_mode):04o}: others could change what is "
            f"recorded there. Run: {mend}",
            mend,
        )
