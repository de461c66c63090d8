"""Whether nobody else can change what the daemon relies on: who owns it, and who may write to it.

Looked at once, at the start, before anything is read. A directory above may be anybody's that is
not this user's enemy: root's or the user's own, and not writable by everyone unless it is sticky
(like /tmp, where nobody moves another one's directory). A directory above that a group may write
to is taken: with private groups that is how home directories are made.

In a user namespace that does not know root (:mod:`stetd.config.unknown_owners`), an owner whom it
does not know is taken where root is, above and of the configuration. It may be another user, which
can't be told from inside. What must be this user's own must be so there too.

Every refusal names one path and the command that mends it. Nothing is changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase

from stet.service.socket_path import AGENT_SOCKET, CONTROL_SOCKET, UnsafeDirectory
from stetd.config.unknown_owners import unknown_user

#: What in the state directory is looked at; what lies deeper can't be reached but through these.
_IN_STATE = ("*", "*/*", "workspaces/*/*")
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ENTERED_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH


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
        _check_owner(directory, info, directory, "STET_STATE_DIR")
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
        _check_owner(path, found, directory, "STET_STATE_DIR")
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
        yield from _matching(directory, pattern.split("/"))


def _matching(directory: str, names: list[str]) -> Iterator[str]:
    with os.scandir(directory) as entries:
        found = sorted(entry.name for entry in entries if fnmatchcase(entry.name, names[0]))
    for name in found:
        path = os.path.join(directory, name)
        if len(names) == 1:
            yield path
        elif os.path.isdir(path) and not os.path.islink(path):
            yield from _matching(path, names[1:])


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


def _check_owner(path: str, info: os.stat_result, directory: str, variable: str) -> None:
    if info.st_uid == os.geteuid():
        return
    mend = f"sudo chown -R {os.geteuid()} '{directory}'"
    raise UnsafeDirectory(
        f"{path} belongs to user id {info.st_uid}, not to you ({os.geteuid()}). If it is yours, "
        f"run: {mend}. If not, set {variable} to a directory of your own.",
        mend,
    )


def _check_writers(path: str, info: os.stat_result, mend: str) -> None:
    if info.st_mode & _WRITABLE_BY_OTHERS:
        raise UnsafeDirectory(
            f"{path} has mode {stat.S_IMODE(info.st_mode):04o}: others could change what is "
            f"recorded there. Run: {mend}",
            mend,
        )
