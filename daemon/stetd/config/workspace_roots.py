"""Decides which directories may be workspaces.

Directories are compared by device and inode, not by name: bind mounts, and file systems that ignore
case, give one directory several names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from stetd.config.directories import Directories

#: An agent that writes here could take over the machine or the account.
_SYSTEM = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run",
    "/sbin", "/sys", "/usr", "/var",
)  # fmt: skip
#: Directories *inside* these often hold projects.
_SYSTEM_EXCEPTIONS = ("/usr/local/src", "/usr/src", "/var/www", "/var/lib", "/root")
#: In the home directory: an agent that writes here could log in or sign as the user.
_KEY_DIRECTORIES = (".ssh", ".gnupg")

_Identity = tuple[int, int]


def why_not(path: str, own: Directories, workspaces: Iterable[str]) -> str | None:
    """Why a directory (absolute, without links) can't be a workspace beside others; or None."""
    reason = _why_unsuitable(path) or _why_overlapping(path, own)
    here = _identity(path)
    if reason is None and here is not None:
        for root in workspaces:
            if root != path and _identity(root) == here:
                return f"it is the workspace {root} under another name; use that one"
    return reason


def _why_unsuitable(path: str) -> str | None:
    home = os.path.realpath(os.path.expanduser("~"))
    here = _identity(path)
    if path == "/" or here == _identity("/"):
        return "it is the root of the file system"
    if path == home or here == _identity(home):
        return "it is your home directory itself, with keys and configuration in it"
    if here in _existing_with_parents(home):
        return f"your home directory {home} lies in it"
    if any(_inside(path, os.path.join(home, keys)) for keys in _KEY_DIRECTORIES):
        return "it holds your keys"
    if ".git" in path.lower().split("/") or any(map(_is_repository, _with_parents(path))):
        return "it lies in a Git directory"
    if path in _SYSTEM:
        return "it is a system directory"
    if any(_inside(path, system) for system in _SYSTEM):
        exceptions = (*_SYSTEM_EXCEPTIONS, home)
        if not any(_inside(path, other) and path != other for other in exceptions):
            return "it lies in a system directory"
    return None


def _why_overlapping(path: str, own: Directories) -> str | None:
    here, above = _identity(path), _existing_with_parents(path)
    for directory in (own.state, own.runtime):
        real = os.path.realpath(directory)
        if here in _existing_with_parents(real) or _inside(real, path):
            return f"stet's own directory {directory} lies in it"
        if _identity(real) in above or _inside(path, real):
            return f"it is, or lies in, stet's own directory {directory}"
    folder = os.path.dirname(os.path.realpath(own.config))
    if here in _existing_with_parents(folder) or _inside(folder, path):
        return f"stet's configuration {own.config} lies in it, which says who may write"
    if os.path.basename(folder) == "stet" and _inside(path, folder):
        return f"it lies in the directory of stet's configuration {own.config}"
    return None


def _inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _is_repository(directory: str) -> bool:
    """Whether this is the directory of a Git repository itself, whatever its name."""
    parts = ("HEAD", "objects", "refs")
    return all(os.path.lexists(os.path.join(directory, part)) for part in parts)


def _existing_with_parents(path: str) -> list[_Identity]:
    """A directory and its parents, as far as they exist."""
    found = map(_identity, _with_parents(path))
    return [identity for identity in found if identity is not None]


def _with_parents(path: str) -> list[str]:
    names = [path]
    while path != "/":
        names.append(path := os.path.dirname(path))
    return names


def _identity(path: str) -> _Identity | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino
