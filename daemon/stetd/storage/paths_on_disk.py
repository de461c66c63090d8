"""Resolving a path below a workspace's root (ARCHITECTURE.md 1).

The directory that is checked is the one that is used: resolving opens a descriptor of the file's
directory, and every operation uses that descriptor and the last name of the path. It is opened by
``openat2`` if the path has no symbolic links, else by a walk that opens each component with
``O_NOFOLLOW`` and follows links itself, as long as their target lies inside the root.

A directory may be moved while its descriptor is open. So a writer checks before and after a write
that the directory still is at its path (:meth:`Resolver.in_place`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stetd.editing.paths import REPOSITORY_PARTS, check_component, folded_name, in_repository

_SYS_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_MAX_LINKS = 40
#: Linux's limit for a path, and the limit of names in it: each costs a descriptor here and a stack
#: frame in the history's trees.
_MAX_PATH = 4095
_MAX_DEPTH = 255
_REAL = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


#: One for all calls: the kernel only reads it.
_HOW = _OpenHow(_DIRECTORY, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS)
_HOW_GIVEN = ctypes.byref(_HOW), ctypes.sizeof(_HOW)


def _openat2_directory(dir_fd: int, path: str) -> int:
    fd = _libc.syscall(_SYS_OPENAT2, dir_fd, os.fsencode(path), *_HOW_GIVEN)
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return int(fd)


class Target(msgspec.Struct):
    """A resolved path: the descriptor of a directory and the name in it. The owner closes it.

    ``path`` is canonical: relative to the root, no links, no dots. ``missing``: directories between
    the descriptor's and the name that do not exist yet. ``links``: canonical paths of the links
    that were followed.
    """

    path: str
    dir_fd: int
    missing: tuple[str, ...]
    name: str
    links: tuple[str, ...] = ()

    def close(self) -> None:
        """Close the descriptor."""
        if self.dir_fd >= 0:
            os.close(self.dir_fd)
            self.dir_fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _outside(path: str, root: str, directory: str = "") -> Exception:
    base = f"{root}/{directory} or absolute" if directory else "it"
    return refuse(
        Kind.PATH_OUTSIDE_WORKSPACE,
        f"{path}: this path leads outside the workspace {root}. "
        f"Use a path inside the workspace, relative to {base}.",
        path=path,
    )


def relative_parts(path: str, root: str, directory: str, *, asked: str | None = None) -> list[str]:
    """The components of a request's path below the root, before links are followed.

    ``directory``: the session's, relative to the root. ``asked``: the path to name in a refusal.
    Raises Refused (path_outside_workspace) for an absolute path outside the root.
    """
    if path.startswith("/"):
        prefix = root + "/"
        if path.rstrip("/") == root:
            return []
        if not path.startswith(prefix):
            # The root may have another spelling, through a link above it. The result is still
            # resolved below the root's descriptor.
            folder, name = os.path.split(path.rstrip("/"))
            try:
                path = os.path.join(os.path.realpath(folder), name)
            except (OSError, ValueError) as error:  # a link was replaced meanwhile; a NUL in it
                raise _outside(asked or path, root, directory) from error
        if not path.startswith(prefix):
            raise _outside(asked or path, root, directory)
        return [p for p in path[len(prefix) :].split("/") if p not in ("", ".")]
    return [p for p in f"{directory}/{path}".split("/") if p not in ("", ".")]


class Resolver(msgspec.Struct):
    """Resolves paths below one root, which the caller has opened."""

    _root: str
    _root_fd: int

    def resolve(self, path: str, directory: str = "", *, follow_last: bool = True) -> Target:
        """Resolve a request's path.

        ``follow_last``: follow a link that is the last component (edits go through it).
        Raises Refused: path_outside_workspace, path_protected, not_a_file, invalid_params.
        """
        target = self._resolve(path, directory, follow_last=follow_last)
        try:
            _refuse_repository(path, target)
        except BaseException:
            target.close()
            raise
        return target

    def locate(self, path: str) -> Target:
        """As :meth:`resolve`, for a path of the history, or a name that was read in a directory.

        A link that is the last component is not followed, and a directory that has become a Git
        repository is no reason to refuse.
        """
        return self._resolve(path, "", follow_last=False)

    def in_place(self, target: Target) -> bool:
        """Whether a target's directory is still at its path.

        The kernel names the path of the descriptor's directory. If it is another one (the root may
        have been moved), or the kernel can't tell (no /proc, a very long path), the target's path
        is resolved again and must lead to the same directory.
        """
        parent = "/".join(target.path.split("/")[: -1 - len(target.missing)])
        try:
            there = os.readlink(f"/proc/self/fd/{target.dir_fd}")
        except OSError:
            return self._leads_to(target, parent)
        path = f"{self._root}/{parent}" if parent else self._root
        return there == path or self._leads_to(target, parent)

    def _leads_to(self, target: Target, parent: str) -> bool:
        try:
            again = self.locate(f"{parent}/x" if parent else "x")
        except (Refused, OSError):
            return False
        with again:
            return (
                again.path.rpartition("/")[0] == parent
                and not again.missing
                and os.path.samestat(os.fstat(again.dir_fd), os.fstat(target.dir_fd))
            )

    def _resolve(self, path: str, directory: str, *, follow_last: bool) -> Target:
        if len(path.encode(errors="replace")) > _MAX_PATH:
            raise _too_deep(path)
        parts = relative_parts(path, self._root, directory)
        if ".." not in parts:
            direct = self._resolve_directly(path, parts, follow_last)
            if direct is not None:
                return direct
        return self._walk(path, directory, parts, follow_last)

    def canonical(self, path: str, directory: str = "", *, follow_last: bool = True) -> str:
        """A request's path as the history spells it; "" for the root itself.

        It may name a directory, or nothing that still exists. ``follow_last`` as in
        :meth:`resolve`. Raises Refused, but never not_a_file.
        """
        try:
            with self.resolve(path, directory, follow_last=follow_last) as target:
                return target.path
        except Refused as refusal:
            if refusal.kind != Kind.NOT_A_FILE:
                raise
            parts = relative_parts(path, self._root, directory)
            with suppress(Refused), self._walk(path, directory, [*parts, "x"], False) as inside:
                return inside.path.rpartition("/")[0]
            return os.path.normpath("/" + "/".join(parts)).strip("/")

    def possible_paths(self, path: str, directory: str = "") -> Iterator[str]:
        """The paths of the history that a request's path may mean. Raises Refused.

        The path as spelled, even if links are on it now; a link itself; the path it leads to.
        """
        parts = relative_parts(path, self._root, directory)
        for part in parts:
            check_component(part, path)
        yield "/".join(parts)
        yield self.canonical(path, directory, follow_last=False)
        yield self.canonical(path, directory)

    def _resolve_directly(self, path: str, parts: list[str], follow_last: bool) -> Target | None:
        """Resolve by ``openat2``; None if links, or a kernel without it, need the walk."""
        if not parts:
            raise _not_a_file(path)
        if len(parts) > _MAX_DEPTH:
            raise _too_deep(path)
        for part in parts:
            check_component(part, path)
        parent = "/".join(parts[:-1]) or "."
        try:
            fd = _openat2_directory(self._root_fd, parent)
        except OSError:
            return None
        if follow_last and _read_link(fd, parts[-1]) is not None:
            os.close(fd)
            return None
        return Target("/".join(parts), fd, (), parts[-1])

    def _walk(self, path: str, directory: str, parts: list[str], follow_last: bool) -> Target:
        todo = list(reversed(parts))
        done: list[str] = []
        fds = [os.dup(self._root_fd)]
        links: list[str] = []
        try:
            while todo:
                part = todo.pop()
                if len(done) + len(todo) >= _MAX_DEPTH:
                    raise _too_deep(path)
                if part == "..":
                    if not done:
                        raise _outside(path, self._root, directory)
                    done.pop()
                    os.close(fds.pop())
                    continue
                check_component(part, path)
                link = _read_link(fds[-1], part) if todo or follow_last else None
                if link is not None:
                    links.append("/".join([*done, part]))
                    if len(links) > _MAX_LINKS:
                        raise refuse(Kind.NOT_A_FILE, f"{path}: too many symbolic links", path=path)
                    if link.startswith("/"):
                        inside = relative_parts(link, self._root, directory, asked=path)
                        while done:
                            done.pop()
                            os.close(fds.pop())
                    else:
                        inside = [p for p in link.split("/") if p not in ("", ".")]
                    todo.extend(reversed(inside))
                    continue
                if not todo or not _open_component(fds, part, path):
                    return _target(path, done, fds, [part, *reversed(todo)], links)
                done.append(part)
            raise _not_a_file(path)
        finally:
            for fd in fds:
                os.close(fd)


def _refuse_repository(path: str, target: Target) -> None:
    """Refuse a target that lies in an embedded Git repository, or would complete one.

    A directory with HEAD, objects and refs is a repository, whatever its name. It is read through
    the descriptor and its parents, the directories that will be used.
    """
    parts = target.path.split("/")
    for depth in range(len(parts) - len(target.missing)):
        own = folded_name(parts[depth])
        if own != "head" and not is_there(target.dir_fd, _up_to(target, depth) + "HEAD"):
            continue  # the common case: it saves two system calls
        if repository_parts(target, depth) | {own} >= REPOSITORY_PARTS:
            raise in_repository(path, "/".join(parts[:depth]))


def repository_parts(target: Target, depth: int) -> set[str]:
    """The parts of a Git repository, in lower case, in the directory of the first ``depth`` names
    of a target's path.
    """
    if depth > target.path.count("/") - len(target.missing):
        return set()
    above = _up_to(target, depth)
    names = ("HEAD", "objects", "refs")
    return {name.lower() for name in names if is_there(target.dir_fd, above + name)}


def _up_to(target: Target, depth: int) -> str:
    """The relative path from the target's descriptor to a directory above it."""
    return "../" * (target.path.count("/") - len(target.missing) - depth)


def is_there(dir_fd: int, name: str) -> bool:
    """Whether a directory has a name; a link counts, wherever it leads."""
    return os.access(name, os.F_OK, dir_fd=dir_fd, follow_symlinks=False)


def _open_component(fds: list[int], part: str, path: str) -> bool:
    try:
        fds.append(os.open(part, _DIRECTORY, dir_fd=fds[-1]))
    except FileNotFoundError:
        return False
    except NotADirectoryError as error:
        raise refuse(Kind.NOT_A_FILE, f"{path}: {part} is not a directory", path=path) from error
    except OSError as error:
        raise refuse(Kind.IO_ERROR, f"{path}: {part}: {error.strerror}", path=path) from error
    return True


def _target(
    path: str, done: list[str], fds: list[int], rest: list[str], links: list[str]
) -> Target:
    """The target below the last descriptor. ``rest``: the directories that are missing, so that no
    link can be among them, and the name.
    """
    if ".." in rest:
        raise refuse(
            Kind.INVALID_PARAMS,
            f"{path}: '..' after a directory that does not exist; write the path without '..'",
            path=path,
        )
    for part in rest:
        check_component(part, path)
    name = "/".join([*done, *rest])
    return Target(name, fds.pop(), tuple(rest[:-1]), rest[-1], tuple(links))


def _too_deep(path: str) -> Exception:
    return refuse(
        Kind.INVALID_PARAMS,
        f"{path[:80]}...: this path is too long; {_MAX_PATH} bytes and {_MAX_DEPTH} names one "
        "below the other are the most.",
    )


def _not_a_file(path: str) -> Exception:
    return refuse(Kind.NOT_A_FILE, f"{path}: this is a directory; name a file", path=path)


def _read_link(dir_fd: int, name: str) -> str | None:
    """The content of a link; None if the name is no link, or not there."""
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError:
        return None


# -- directories by their real paths: a link in the path is refused, not followed


def open_real(directory: str) -> int:
    """A descriptor (O_PATH) of an absolute directory, opened name by name from the root on.

    Raises OSError; for a link NotADirectoryError.
    """
    fd = os.open("/", _REAL)
    try:
        for name in filter(None, directory.split("/")):
            inner = os.open(name, _REAL | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
    except BaseException:
        os.close(fd)
        raise
    return fd


def nearest_real(directory: str) -> str:
    """The absolute directory, or the nearest one above it that :func:`open_real` can open."""
    while True:
        try:
            os.close(open_real(directory))
        except OSError:
            if directory == "/":
                raise
            directory = os.path.dirname(directory)
        else:
            return directory
