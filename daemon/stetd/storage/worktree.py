"""Reading and replacing the files of one workspace, below its root's descriptor.

A file is replaced by exchange and compare: the new content is staged in a temporary file beside
it, the two names are exchanged atomically, and the displaced file is compared with the one that
was read. The caller (the transaction) decides what to do if they differ.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import time
import weakref
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stetd.config.directories import unknown_owner
from stetd.editing.paths import TEMPORARY_PREFIX, directories_above, may_be_link
from stetd.failpoints import failpoint
from stetd.history.objects import Image, object_id
from stetd.storage.disk import UNSUPPORTED_RENAME, Disk
from stetd.storage.paths_on_disk import Resolver, Target, is_there, open_real

_log = logging.getLogger(__name__)

#: Files up to this size are compared byte for byte, larger ones by inode, size and times (unless
#: they were written just before the read).
_ALWAYS_COMPARE = 1 << 20
#: A file that was written less than this before the read may change again with the same times.
RACY_NS = 50_000_000
#: Type and permission bits, without set-id bits: a file system may drop these.
_COMPARED_MODE = stat.S_IFMT(0o177777) | 0o777
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Bytes of one read from a file that has grown.
_CHUNK = 1 << 20
#: Errors of ``rmdir`` for a directory that is not empty, is gone, or is no directory any more.
_NOT_OURS_TO_REMOVE = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR})
#: Errors of ``open`` for a name that has become a link, a socket or a device without a driver.
_NO_FILE = frozenset({errno.ELOOP, errno.ENXIO, errno.ENODEV})
#: For a service that was installed with --hardened: otherwise the group would be lost silently.
_UNKNOWN_IDS = (
    "this file belongs to another group than the daemon's, or has an access list that names one, "
    "and the hardened service can't keep that. Give the file the group of the daemon (chgrp), or "
    "let the person at the machine run: stet service install --no-hardened"
)
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link, of a name of which Git accepts none",
}
#: Errors of ``link`` on a file system without hard links, or for a file that can't have one.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS})


class OnDisk(msgspec.Struct, frozen=True):
    """A file as it was read. ``data`` is None for a directory, a device and the like, and for a
    link whose name (``.gitmodules`` ..) no link may have in Git.
    """

    data: bytes | None
    mode: int
    links: int
    size: int
    inode: tuple[int, int]
    mtime_ns: int
    read_at_ns: int
    oid: str

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)

    @property
    def image(self) -> Image | None:
        """Its image; None for a directory, a device or the like: the history sees no file there."""
        return Image(self.oid, self.mode) if self.data is not None else None

    def has_image(self, image: Image | None) -> bool:
        """Whether it has this image, but for set-id bits."""
        own = self.image
        if own is None or image is None:
            return own is image
        return own.oid == image.oid and not (own.mode ^ image.mode) & _COMPARED_MODE


def temporary_name() -> str:
    """A fresh name for a temporary file."""
    return f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}.tmp"


def _second_name(temporary: str) -> str:
    """Another temporary name. It needs no record, because it is derived from the first."""
    number = temporary.removeprefix(TEMPORARY_PREFIX).removesuffix(".tmp")
    return f"{TEMPORARY_PREFIX}{number[::-1]}.tmp"


def beside(path: str, name: str) -> str:
    """The path of another name in the directory of a path."""
    return path[: path.rfind("/") + 1] + name


def mode_for_new_file(directory_mode: int) -> int:
    """Permission bits of a new file: those of its directory without the execute bits.

    So files in a private directory are private, and files in a group's directory are the group's.
    """
    return stat.S_IFREG | (directory_mode & 0o666) | 0o600


def read_descriptor(fd: int, size: int) -> bytes:
    """The rest of an open regular file, which had ``size`` bytes just now."""
    data = os.read(fd, size + 1)
    if len(data) == size:  # not one byte more: this is the end
        return data
    chunks = [data]
    while chunk := os.read(fd, _CHUNK):
        chunks.append(chunk)
    return b"".join(chunks)


def _open_root(root: str) -> int:
    """A descriptor of the root. A link that has taken its place was not allowed: OSError."""
    real = os.path.realpath(root)
    if real != root:
        raise OSError(errno.ELOOP, f"a symbolic link is there now, and leads to {real}", root)
    fd = open_real(root)
    try:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    finally:
        os.close(fd)


class Worktree:
    """The files of one workspace."""

    def __init__(self, root: str, disk: Disk) -> None:
        self.root = root
        self._disk = disk
        self._root_fd = _open_root(root)
        # The last reference closes it: a checkpoint may still sync the files of a workspace that
        # was forgotten.
        self._finalizer = weakref.finalize(self, os.close, self._root_fd)
        self._finalizer.atexit = False
        self.resolver = Resolver(root, self._root_fd)
        #: How files are replaced: "exchange", or "rename" if a file system does not support that.
        self.replacement = "exchange"
        #: Device to the mode that all its files have, if its file system keeps no permission bits
        #: (FAT, NTFS, some network shares).
        self._fixed_modes: dict[int, int] = {}
        #: Files and directories (with a slash at the end) that could not be removed yet.
        self.leftovers: set[str] = set()

    def close(self) -> None:
        """Close the root's descriptor. May be called again."""
        self._finalizer()

    def gone(self) -> bool:
        """Whether the directory that was opened is not at the root's path, without links, now."""
        try:
            same = os.path.samestat(os.fstat(self._root_fd), os.stat(self.root))
            # The kernel's name for the directory: no link is in it.
            is_real = os.readlink(f"/proc/self/fd/{self._root_fd}") == self.root
        except OSError:
            return True
        return not same or not (is_real or os.path.realpath(self.root) == self.root)

    # -- reading

    def read(self, target: Target, limit: int) -> OnDisk | None:
        """The file at a target; None if there is none.

        Raises Refused: not_a_file, file_too_large (over ``limit`` bytes), io_error.
        """
        if target.missing:
            return None
        path = target.path
        try:
            found = self.read_name(target, limit=limit)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refuse(Kind.IO_ERROR, f"{path}: {error.strerror}", path=path) from error
        if found.data is None:
            raise refuse(
                Kind.NOT_A_FILE,
                f"{path}: this is {_KINDS.get(stat.S_IFMT(found.mode), 'not a regular file')}; "
                "only regular files can be edited",
                path=path,
            )
        return found

    def read_name(
        self, target: Target, temporary: str | None = None, *, limit: int | None = None
    ) -> OnDisk:
        """The target's file, or the temporary one beside it, read again until size and time agree
        with the content.

        Raises FileNotFoundError, other OSError, Refused (file_too_large).
        """
        path, dir_fd, name = target.path, target.dir_fd, temporary or target.name
        for _ in range(20):
            before = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
            if stat.S_ISLNK(before.st_mode):
                try:
                    link = os.fsencode(os.readlink(name, dir_fd=dir_fd))
                except OSError as error:
                    if error.errno == errno.EINVAL:  # it is no link any more
                        continue
                    raise
                usable = may_be_link(target.name)
                return self._on_disk(before, link if usable else None)
            if not stat.S_ISREG(before.st_mode):
                return self._on_disk(before, None)
            try:
                fd = os.open(name, _READ, dir_fd=dir_fd)
            except OSError as error:
                if error.errno in _NO_FILE:  # it is no regular file any more
                    continue
                raise
            try:
                opened = os.fstat(fd)
                if not stat.S_ISREG(opened.st_mode):
                    continue
                if limit is not None and opened.st_size > limit:
                    raise refuse(
                        Kind.FILE_TOO_LARGE,
                        f"{path}: this file has {opened.st_size:,} bytes, {limit:,} is the most "
                        "that is read or edited (max_file_bytes in the configuration)",
                        path=path,
                    )
                data = read_descriptor(fd, opened.st_size)
                after = os.fstat(fd)
            finally:
                os.close(fd)
            if (after.st_size, after.st_mtime_ns) == (opened.st_size, opened.st_mtime_ns):
                return self._on_disk(after, data)
        raise OSError(errno.EAGAIN, "the file keeps changing while it is read", name)

    @staticmethod
    def _on_disk(info: os.stat_result, data: bytes | None) -> OnDisk:
        return OnDisk(
            data=data,
            mode=info.st_mode,
            links=info.st_nlink,
            size=info.st_size,
            inode=(info.st_dev, info.st_ino),
            mtime_ns=info.st_mtime_ns,
            read_at_ns=time.time_ns(),
            oid=object_id("blob", data) if data is not None else "",
        )

    def read_path(self, path: str, limit: int) -> OnDisk | None:
        """The file at a path of the history; None if there is none, or a link above it.

        Raises Refused as :meth:`read` and ``resolve`` do.
        """
        with self.resolver.locate(path) as target:
            return self.read(target, limit) if target.path == path else None

    def directory_mode(self, target: Target) -> int:
        """Permission bits of the deepest existing directory of the target."""
        return stat.S_IMODE(os.fstat(target.dir_fd).st_mode)

    def resulting_mode(self, target: Target, mode: int) -> int:
        """The mode that a file at the target gets when it is given ``mode``, as far as known."""
        if not self._fixed_modes or not stat.S_ISREG(mode):
            return mode
        return self._fixed_modes.get(os.fstat(target.dir_fd).st_dev, mode)

    # -- replacing

    def make_directories(self, target: Target, made: list[str]) -> None:
        """Create the target's missing directories; their paths are added to ``made``.

        They get the permission and set-group-id bits of the directory above. Raises
        NotADirectoryError if something else has one of the names.
        """
        mode = self.directory_mode(target) & (0o777 | stat.S_ISGID) | 0o700
        while target.missing:
            part = target.missing[0]
            new = True
            try:
                self._disk.mkdir(part, mode, target.dir_fd)
                made.append("/".join(target.path.split("/")[: -len(target.missing)]))
            except FileExistsError:
                new = False
            fd = os.open(part, _READ | os.O_DIRECTORY, dir_fd=target.dir_fd)
            if new:
                self._disk.fchmod(fd, mode)
            os.close(target.dir_fd)
            target.dir_fd = fd
            target.missing = target.missing[1:]

    def stage(
        self, target: Target, temporary: str, content: bytes, mode: int, *, like: OnDisk | None
    ) -> int:
        """Write the new content, with its mode, to a temporary file beside the file.

        ``like``: the file that was read; the owner and extended attributes of the present file are
        copied, as far as permitted. Returns a descriptor of the present file, for the caller to
        close, if it is the one that was read; else -1.
        """
        if stat.S_ISLNK(mode):
            self._disk.symlink(content, temporary, target.dir_fd)
            return -1
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        fd = self._disk.open(temporary, flags, 0o600, target.dir_fd)
        try:
            self._disk.write_all(fd, content)
            present = _copy_attributes(target, fd, like.inode) if like is not None else -1
            try:
                self._disk.fchmod(fd, stat.S_IMODE(mode))
            except BaseException:
                _close(present)
                raise
            if like is None and ((got := os.fstat(fd)).st_mode ^ mode) & 0o777:
                self._fixed_modes[got.st_dev] = got.st_mode
        finally:
            os.close(fd)
        return present

    def rename_in(self, target: Target, temporary: str) -> None:
        """Rename the temporary file to the target's name. Raises FileExistsError if it is taken."""
        if not self._renamed(self._disk.rename_new, temporary, target.name, target.dir_fd):
            self._rename_in_by_linking(target, temporary)

    def _renamed(
        self, rename: Callable[[str, str, int], None], name: str, other: str, dir_fd: int
    ) -> bool:
        """Rename with a flag; False if the file system does not support that."""
        try:
            rename(name, other, dir_fd)
        except OSError as error:
            if error.errno not in UNSUPPORTED_RENAME:
                raise
            self.replacement = "rename"
            return False
        return True

    def _rename_in_by_linking(self, target: Target, temporary: str) -> None:
        try:
            self._link(target, temporary, target.name)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Neither flags nor links (FAT): check, then rename.
            if is_there(target.dir_fd, target.name):
                raise FileExistsError(errno.EEXIST, "File exists", target.name) from error
            self._disk.rename(temporary, target.name, target.dir_fd)
        else:
            self._disk.unlink(temporary, target.dir_fd)

    @staticmethod
    def _link(target: Target, name: str, other: str) -> None:
        os.link(
            name, other, src_dir_fd=target.dir_fd, dst_dir_fd=target.dir_fd, follow_symlinks=False
        )

    def swap(self, target: Target, temporary: str) -> None:
        """Exchange the target's file with the temporary file."""
        if not self._renamed(self._disk.exchange, temporary, target.name, target.dir_fd):
            self._swap_by_renaming(target, temporary)

    def _swap_by_renaming(self, target: Target, temporary: str) -> None:
        """Swap where names can't be exchanged: link the old file to a second name, rename over it.

        A save between the two calls is lost; ``status`` reports that this file system can do no
        better. After a kill in between, :meth:`finish_swap` ends the swap.
        """
        kept = _second_name(temporary)
        try:
            self._link(target, target.name, kept)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            old = self.read_name(target)
            if old.data is None:
                raise
            _close(self.stage(target, kept, old.data, old.mode, like=old))
        self._disk.rename(temporary, target.name, target.dir_fd)
        failpoint("swap.renamed")
        self._disk.rename(kept, temporary, target.dir_fd)

    def finish_swap(self, target: Target, temporary: str) -> None:
        """Complete or undo a swap by renaming that a kill has interrupted."""
        kept = _second_name(temporary)
        if not is_there(target.dir_fd, kept):
            return
        if is_there(target.dir_fd, temporary):
            self._disk.unlink(kept, target.dir_fd)
        else:
            self._disk.rename(kept, temporary, target.dir_fd)

    def rename_out(self, target: Target, temporary: str) -> None:
        """Rename the target's file to the temporary name. Raises FileNotFoundError."""
        if not self._renamed(self._disk.rename_new, target.name, temporary, target.dir_fd):
            self._disk.rename(target.name, temporary, target.dir_fd)

    def matches_descriptor(self, target: Target, temporary: str, expected: OnDisk, fd: int) -> bool:
        """Whether the displaced file is the one of :meth:`stage`'s descriptor, unchanged since it
        was read. This saves opening it by name.
        """
        if fd < 0 or expected.size > _ALWAYS_COMPARE:
            return False
        try:
            now = os.stat(temporary, dir_fd=target.dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        same = (now.st_dev, now.st_ino) == expected.inode and now.st_mode == expected.mode
        return same and os.pread(fd, expected.size + 1, 0) == expected.data

    def compare_displaced(self, target: Target, temporary: str, expected: OnDisk) -> OnDisk | None:
        """The displaced file (at the temporary name) if it is not the one that was read."""
        try:
            now = os.stat(temporary, dir_fd=target.dir_fd, follow_symlinks=False)
            unchanged = (
                (now.st_dev, now.st_ino) == expected.inode
                and (now.st_mode, now.st_size) == (expected.mode, expected.size)
                and now.st_mtime_ns == expected.mtime_ns
            )
            settled = expected.read_at_ns - expected.mtime_ns > RACY_NS
            if unchanged and settled and now.st_size > _ALWAYS_COMPARE:
                return None
            found = self.read_name(target, temporary)
        except FileNotFoundError:
            # Somebody removed the temporary file. The history has the file that was read.
            return None
        return None if found.data is not None and found.has_image(expected.image) else found

    def open_displaced(self, target: Target, temporary: str) -> int:
        """A descriptor of the displaced file; -1 if it can't be opened or is no regular file."""
        try:
            return os.open(temporary, _READ, dir_fd=target.dir_fd)
        except OSError:
            return -1

    def discard(self, target: Target, temporary: str) -> None:
        """Remove a temporary file, now or (:meth:`clear_leftovers`) later. Raises nothing."""
        try:
            self._disk.unlink(temporary, target.dir_fd)
        except OSError as error:
            self._add_leftover(beside(target.path, temporary), error)

    def resolve_exactly(self, path: str) -> Target:
        """Resolve a path of the history; a link as the last component is not followed.

        Raises Refused as ``resolve`` does, and path_outside_workspace if a directory above it has
        become a link: the file behind that has another path.
        """
        target = self.resolver.locate(path)
        if target.path != path:
            target.close()
            raise refuse(
                Kind.PATH_OUTSIDE_WORKSPACE,
                f"{path}: a directory above it is a symbolic link now, and leads to {target.path}",
                path=path,
            )
        return target

    def discard_path(self, path: str) -> None:
        """As :meth:`discard`, by the temporary file's path; it may be gone."""
        try:
            with self.resolve_exactly(beside(path, "x")) as target:
                if not target.missing:
                    self._disk.unlink(path.rpartition("/")[2], target.dir_fd)
        except Refused:
            return
        except OSError as error:
            if error.errno != errno.EISDIR:
                self._add_leftover(path, error)

    def remove_directory(self, path: str) -> None:
        """Remove a directory that a call made, if it is empty. Raises nothing.

        If the disk refuses, or a leftover is in it, it is removed later.
        """
        try:
            with self.resolve_exactly(path) as target:
                if not target.missing:
                    self._remove_below(target.dir_fd, path)
        except Refused:
            return
        except OSError as error:
            self._add_leftover(f"{path}/", error)

    def remove_made(self, target: Target, made: list[str]) -> None:
        """Remove the directories that :meth:`make_directories` has made for a target.

        As :meth:`remove_directory`, but upwards from the target's descriptor: this also works if
        the directory above them was moved meanwhile.
        """
        left = list(made)
        here, at = os.dup(target.dir_fd), target.path.split("/")[: -1 - len(target.missing)]
        try:
            if left and left[-1] != "/".join(at):  # it was made, but never opened
                self._remove_below(here, left.pop())
            while left and left[-1] == "/".join(at):
                above = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
                info = os.fstat(here)
                os.close(here)
                here = above
                there = os.stat(at[-1], dir_fd=here, follow_symlinks=False)
                if os.path.samestat(info, there):
                    self._remove_below(here, left[-1])
                at.pop()
                left.pop()
        except OSError as error:
            for path in reversed(left):  # the ones that were not reached
                self._directory_stays(path, error)
        finally:
            os.close(here)

    def _remove_below(self, dir_fd: int, path: str) -> None:
        try:
            self._disk.rmdir(path.rpartition("/")[2], dir_fd)
        except OSError as error:
            self._directory_stays(path, error)

    def _directory_stays(self, path: str, error: OSError) -> None:
        holds_ours = any(each.startswith(f"{path}/") for each in self.leftovers)
        if holds_ours or error.errno not in _NOT_OURS_TO_REMOVE:
            self._add_leftover(f"{path}/", error)

    def _add_leftover(self, path: str, error: OSError) -> None:
        _log.warning("%s can't be removed yet: %s", path, error.strerror)
        self.leftovers.add(path)

    def clear_leftovers(self) -> set[str]:
        """Try again to remove all leftovers; returns the paths that were tried."""
        tried = set(self.leftovers)
        self.leftovers.clear()
        # The deepest first, and files before directories.
        for path in sorted(tried, key=lambda each: (-each.count("/"), each.endswith("/"))):
            if path.endswith("/"):
                self.remove_directory(path[:-1])
            else:
                self.discard_path(path)
        return {path.rstrip("/") for path in tried}

    # -- checkpoints

    def sync(self, paths: Iterable[str]) -> None:
        """Make files durable, and the names in all directories above them; not those that are gone
        or can't be reached any more.
        """
        directories = set[str]()
        for path in paths:
            directories.update(directories_above(path))
            self._sync_one(path, _READ)
        for directory in directories:
            self._sync_one(directory, _READ | os.O_DIRECTORY)
        self._disk.fsync(self._root_fd)

    def _sync_one(self, path: str, flags: int) -> None:
        try:
            with self.resolver.locate(path) as target:
                if not target.missing:
                    fd = os.open(target.name, flags, dir_fd=target.dir_fd)
                    try:
                        self._disk.fsync(fd)
                    finally:
                        os.close(fd)
        except (Refused, FileNotFoundError, NotADirectoryError, PermissionError):
            return
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)


def _copy_attributes(target: Target, fd: int, inode: tuple[int, int]) -> int:
    """Copy owner and attributes of the present file; its descriptor, if its inode is ``inode``."""
    try:
        source = os.open(target.name, _READ, dir_fd=target.dir_fd)
    except OSError:
        return -1
    known = False
    try:
        info, own = os.fstat(source), os.fstat(fd)
        if info.st_gid == unknown_owner("gid"):
            # An unknown group can neither be set nor compared with the temporary file's.
            raise OSError(errno.EINVAL, _UNKNOWN_IDS, target.name)
        if info.st_gid != own.st_gid:
            _if_permitted(lambda: os.fchown(fd, -1, info.st_gid))
        if info.st_uid not in (own.st_uid, unknown_owner("uid")):
            _if_permitted(lambda: os.fchown(fd, info.st_uid, -1))
        names: list[str] = []
        _if_permitted(lambda: names.extend(os.listxattr(source)))
        for name in names:
            _if_permitted(partial(_copy_attribute, source, fd, name))
        known = (info.st_dev, info.st_ino) == inode
    finally:
        if not known:
            os.close(source)
    return source if known else -1


def _copy_attribute(source: int, fd: int, name: str) -> None:
    try:
        os.setxattr(fd, name, os.getxattr(source, name))
    except OSError as error:
        if error.errno == errno.EINVAL and unknown_owner("gid") != -1:
            raise OSError(errno.EINVAL, _UNKNOWN_IDS, name) from error
        raise


def _if_permitted(act: Callable[[], object]) -> None:
    """Set an attribute, if this user may: a security label is no reason to refuse an edit."""
    try:
        act()
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENODATA):
            raise
