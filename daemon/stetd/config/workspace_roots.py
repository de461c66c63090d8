"""Decides which directories may be workspaces.

Directories, except those of the system, are compared by device and inode: bind mounts, and file
systems that ignore case, give one directory several names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile

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


def why_not(path: str, own: Directories, workspaces: Iterable[str]) -> str | None:
    """Why a directory (absolute, without links) can't be a workspace beside others; or None."""
    reason = _why_unsuitable(path) or _why_overlapping(path, own)
    if reason is None:
        for root in workspaces:
            # A root where a link is now is not followed, so it is no second name.
            if root != path and os.path.realpath(root) == root and _is_same(root, path):
                return f"it is the workspace {root} under another name; use that one"
    return reason


def _why_unsuitable(path: str) -> str | None:
    home = os.path.realpath(os.path.expanduser("~"))
    if _is_same(path, "/"):
        return "it is the root of the file system"
    if _is_same(path, home):
        return "it is your home directory itself, with keys and configuration in it"
    if _lies_in(home, path):
        return f"your home directory {home} lies in it"
    keys = [os.path.join(home, name) for name in _KEY_DIRECTORIES]
    if any(_lies_in(path, each) or _lies_in(each, path) for each in keys):
        return "it holds your keys"
    # A work tree with a .git of its own may lie in a bare repository.
    near = takewhile(lambda each: not os.path.lexists(f"{each}/.git"), _with_parents(path))
    if ".git" in path.lower().split("/") or any(map(_is_repository, near)):
        return "it lies in a Git directory"
    if path in _SYSTEM:
        return "it is a system directory"
    own = any(_is_below(path, other) for other in (*_SYSTEM_EXCEPTIONS, home))
    if not own and any(_is_below(path, system) for system in _SYSTEM):
        return "it lies in a system directory"
    return None


def _why_overlapping(path: str, own: Directories) -> str | None:
    for directory in (own.state, own.runtime):
        if _lies_in(directory, path):
            return f"stet's own directory {directory} lies in it"
        if _lies_in(path, directory):
            return f"it is, or lies in, stet's own directory {directory}"
    folder = os.path.dirname(os.path.realpath(own.config))
    if _lies_in(folder, path):
        return f"stet's configuration {own.config} lies in it, which says who may write"
    if os.path.basename(folder) == "stet" and _lies_in(path, folder):
        return f"it lies in the directory of stet's configuration {own.config}"
    return None


def _is_below(path: str, directory: str) -> bool:
    return path.startswith(directory + "/")


def _is_repository(directory: str) -> bool:
    """Whether this is the directory of a Git repository itself, whatever its name."""
    parts = ("HEAD", "objects", "refs")
    return all(os.path.lexists(os.path.join(directory, part)) for part in parts)


def _is_same(path: str, other: str) -> bool:
    """Whether two paths lead to one directory that exists."""
    with suppress(OSError):
        return os.path.samefile(path, other)
    return False


def _lies_in(path: str, directory: str) -> bool:
    """Whether a path, of which the end may not exist, is a directory or lies in it."""
    return any(_is_same(above, directory) for above in _with_parents(os.path.realpath(path)))


def _with_parents(path: str) -> list[str]:
    names = [path]
    while path != "/":
        names.append(path := os.path.dirname(path))
    return names
