"""A disk that stops at its k-th change and knows what had been synced by then.

:class:`CrashableDisk` does every change for real, in a real directory, and keeps beside it
what a power cut could not take away:

- of every file the content as of its last ``fsync`` or ``fdatasync`` (none: never synced);
- of every directory the names as of its last ``fsync``, and in order the changes since. A
  rename is one change, whatever number of names it moves: it is kept or lost as a whole.

Nothing is synced in truth; so the rig may run in memory. At the k-th change the disk writes
down what it knows (:class:`Remains`) and ends the process, as a kill does: nothing can catch
it, no thread goes on. :func:`power_cut` then makes of the directory what the machine would
find after the reboot:

- ``drop``: whatever was not synced is gone;
- ``garble``: of what was not synced, some is there: each change of names or not, contents
  empty, NULs, a beginning, a beginning and NULs, or whole; a file that had been synced
  before (the journal) has each sector new or old.

A process that is merely killed leaves the directory as it is (``keep``); the change it died
in, if it was a write, may have been made in part.

What libgit2 and SQLite write does not come this way. It is seen when it is synced through
the disk or listed when its directory is, and lost like everything else otherwise. SQLite
syncs for itself: its files are kept as they are. Permission bits are kept, being metadata
that a journalling file system writes before the names that follow.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from stetd.storage.disk import Disk

Key = tuple[int, int]  # device and inode
#: How a process ends that its disk has stopped.
STOPPED = 77
_SECTOR = 512
_SQLITE = "requests.sqlite3"
_OPEN_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class File:
    """A file or link: what of it is durable (None: nothing yet), and its mode."""

    durable: bytes | None
    mode: int


@dataclass
class Directory:
    """A directory: the durable names, and the changes since, each of one or two names."""

    names: dict[str, Key]
    mode: int
    changes: list[dict[str, Key | None]] = field(default_factory=list)


@dataclass
class Remains:
    """What the disk knew when it stopped."""

    root: Key
    nodes: dict[Key, File | Directory]
    count: int
    #: All changes, for the report.
    trace: list[str]


class CrashableDisk(Disk):
    """A disk for the directory ``root`` that stops at the change number ``stop_at`` (from 0).

    Where it stops, what it knows goes to the file ``remains`` and the process ends with
    status STOPPED. ``before``, where set, is called with the kind and the names before two
    names are exchanged or one is moved: a second writer whose moment has come.

    What is there at the beginning counts as synced, unless the machine has run on since another
    process was killed: what that one has not synced (``after_kill``) can still be lost.
    """

    def __init__(
        self,
        root: str,
        remains: str,
        stop_at: int | None = None,
        seed: int = 0,
        after_kill: Remains | None = None,
    ) -> None:
        self._root = root
        self._remains = remains
        self._stop_at = stop_at
        self._random = random.Random(seed)
        self._lock = threading.RLock()
        self._nodes: dict[Key, File | Directory] = {}
        self._pins: list[int] = []
        self._trace: list[str] = []
        self.count = 0
        self.before: Callable[[str, tuple[str, ...]], None] | None = None
        if after_kill is None:
            self._take_as_durable(root)
        else:
            self._nodes = after_kill.nodes

    # -- stopping

    @contextmanager
    def _change(self, what: str, partly: Callable[[], object] = lambda: None) -> Iterator[None]:
        """One change. ``partly``: what a kill in the middle of it may have done."""
        with self._lock:
            self._trace.append(f"{self.count} {threading.current_thread().name} {what}")
            if self.count == self._stop_at:
                partly()
                self.stop()
            self.count += 1
            yield

    def remains(self) -> Remains:
        """What is known by now."""
        return Remains(self._key(os.stat(self._root)), self._nodes, self.count, self._trace)

    def stop(self) -> None:
        """End the process, here and now."""
        with self._lock:
            with open(self._remains, "wb") as file:
                pickle.dump(self.remains(), file)
            os._exit(STOPPED)

    # -- what is durable

    @staticmethod
    def _key(info: os.stat_result) -> Key:
        return info.st_dev, info.st_ino

    def _take_as_durable(self, path: str) -> None:
        for folder, _, names in os.walk(path):
            self._note_names(folder)
            for name in names:
                file = os.path.join(folder, name)
                if not os.path.islink(file):
                    self._note_content(file)

    def _meet(self, name: str, dir_fd: int | None = None) -> Key:
        """The key of what stands at a name; its inode is held, so that the key stays its own."""
        info = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        key = self._key(info)
        if key not in self._nodes:
            self._pins.append(os.open(name, _OPEN_PATH, dir_fd=dir_fd))
            if stat.S_ISDIR(info.st_mode):
                self._nodes[key] = Directory({}, info.st_mode)
            elif stat.S_ISLNK(info.st_mode):
                link = os.fsencode(os.readlink(name, dir_fd=dir_fd))
                self._nodes[key] = File(link, info.st_mode)
            else:
                self._nodes[key] = File(None, info.st_mode)
        return key

    def _note_content(self, path: str) -> None:
        node = self._nodes[self._meet(os.path.realpath(path))]
        assert isinstance(node, File)
        with open(path, "rb") as file:
            node.durable = file.read()
            node.mode = os.fstat(file.fileno()).st_mode

    def _note_names(self, path: str) -> None:
        path = os.path.realpath(path)
        node = self._nodes[self._meet(path)]
        assert isinstance(node, Directory)
        node.names = {}
        for name in os.listdir(path):
            with suppress(FileNotFoundError):  # a temporary file of libgit2's
                node.names[name] = self._meet(os.path.join(path, name))
        node.mode = os.stat(path).st_mode
        node.changes.clear()

    def _changed(self, dir_fd: int | None, changes: dict[str, Key | None]) -> None:
        """Names have changed in one go; without a handle they are paths of one directory."""
        if dir_fd is None:
            folder = os.path.dirname(next(iter(changes)))
            changes = {os.path.basename(path): key for path, key in changes.items()}
        else:
            folder = f"/proc/self/fd/{dir_fd}"
        node = self._nodes[self._meet(os.path.realpath(folder))]
        assert isinstance(node, Directory)
        node.changes.append(changes)

    def saved_outside(self, path: str, text: str) -> None:
        """A careful editor saves a file: written beside it, synced, renamed over it, synced."""
        with self._lock:
            beside = path + "~"
            with open(beside, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            os.chmod(beside, 0o644)
            os.rename(beside, path)
            self.synced_outside(path)

    def synced_outside(self, path: str) -> None:
        """Somebody has synced a file, and the directory that it is in."""
        with self._lock:
            self._note_content(path)
            self._note_names(os.path.dirname(path))

    # -- the changes

    def open(self, name: str, flags: int, mode: int = 0o600, dir_fd: int | None = None) -> int:
        if not flags & (os.O_CREAT | os.O_TRUNC):
            return super().open(name, flags, mode, dir_fd)
        with self._change(f"open {name}"):
            new = not _exists(name, dir_fd)
            fd = super().open(name, flags, mode, dir_fd)
            key = self._meet(name, dir_fd)
            if new:
                self._changed(dir_fd, {name: key})
            return fd

    def write_all(self, fd: int, data: bytes) -> None:
        part = data[: self._random.randint(0, len(data))]
        with self._change(f"write {_name(fd)}", lambda: os.write(fd, part)):
            super().write_all(fd, data)

    def pwrite_all(self, fd: int, data: bytes, offset: int) -> None:
        part = data[: self._random.randint(0, len(data))]
        with self._change(f"pwrite {_name(fd)}", lambda: os.pwrite(fd, part, offset)):
            super().pwrite_all(fd, data, offset)

    def reserve(self, fd: int, offset: int, length: int) -> None:
        with self._change(f"reserve {_name(fd)}"):
            super().reserve(fd, offset, length)

    def truncate(self, fd: int, length: int) -> None:
        with self._change(f"truncate {_name(fd)}"):
            super().truncate(fd, length)

    def fdatasync(self, fd: int) -> None:
        with self._change(f"fdatasync {_name(fd)}"):
            self._note_content(f"/proc/self/fd/{fd}")

    def fsync(self, fd: int) -> None:
        with self._change(f"fsync {_name(fd)}"):
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                self._note_names(f"/proc/self/fd/{fd}")
            else:
                self._note_content(f"/proc/self/fd/{fd}")

    def fchmod(self, fd: int, mode: int) -> None:
        with self._change(f"fchmod {_name(fd)}"):
            super().fchmod(fd, mode)
            node = self._nodes.get(self._key(os.fstat(fd)))
            if node is not None:
                node.mode = os.fstat(fd).st_mode

    def exchange(self, first: str, second: str, dir_fd: int) -> None:
        with self._change(f"exchange {first} {second}"):
            self._second_writer("exchange", first, second)
            super().exchange(first, second, dir_fd)
            self._changed(dir_fd, {n: self._meet(n, dir_fd) for n in (first, second)})

    def rename_new(self, src: str, dst: str, dir_fd: int) -> None:
        with self._change(f"rename_new {src} {dst}"):
            self._second_writer("rename_new", src, dst)
            super().rename_new(src, dst, dir_fd)
            self._changed(dir_fd, {src: None, dst: self._meet(dst, dir_fd)})

    def rename(self, src: str, dst: str, dir_fd: int) -> None:
        with self._change(f"rename {src} {dst}"):
            super().rename(src, dst, dir_fd)
            self._changed(dir_fd, {src: None, dst: self._meet(dst, dir_fd)})

    def unlink(self, name: str, dir_fd: int | None = None) -> None:
        with self._change(f"unlink {name}"):
            if _exists(name, dir_fd):
                super().unlink(name, dir_fd)
                self._changed(dir_fd, {name: None})

    def symlink(self, target: bytes, name: str, dir_fd: int) -> None:
        with self._change(f"symlink {name}"):
            super().symlink(target, name, dir_fd)
            self._changed(dir_fd, {name: self._meet(name, dir_fd)})

    def mkdir(self, name: str, mode: int, dir_fd: int | None = None) -> None:
        with self._change(f"mkdir {name}"):
            super().mkdir(name, mode, dir_fd)
            self._changed(dir_fd, {name: self._meet(name, dir_fd)})

    def rmdir(self, name: str, dir_fd: int) -> None:
        with self._change(f"rmdir {name}"):
            super().rmdir(name, dir_fd)
            self._changed(dir_fd, {name: None})

    def _second_writer(self, what: str, *names: str) -> None:
        if self.before is not None:
            self.before(what, names)


def _exists(name: str, dir_fd: int | None) -> bool:
    try:
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _name(fd: int) -> str:
    return os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))


# -- after the power cut


def power_cut(root: str, remains: Remains, mode: str, seed: int) -> None:
    """Make of the directory what a machine without power finds again (``drop``, ``garble``)."""
    cut = _PowerCut(remains, random.Random(seed) if mode == "garble" else None)
    for folder, folders, names in os.walk(root):
        for name in [".", *folders, *names]:
            path = os.path.normpath(os.path.join(folder, name))
            info = os.lstat(path)
            cut.paths[info.st_dev, info.st_ino] = path
    after = root + ".after"
    cut.build(remains.root, after)
    shutil.rmtree(root)
    os.rename(after, root)


class _PowerCut:
    """``random`` None: all that was not synced is lost."""

    def __init__(self, remains: Remains, choices: random.Random | None) -> None:
        self._nodes = remains.nodes
        self._random = choices
        #: Where things are, of those that have a name at all.
        self.paths: dict[Key, str] = {}

    def build(self, key: Key, to: str) -> None:
        """Make what is left of a directory, at another place."""
        node = self._nodes.get(key)
        known = node if isinstance(node, Directory) else Directory({}, 0o700)
        os.mkdir(to)
        for name, inside in sorted(self._names(key, known).items()):
            path = os.path.join(to, name)
            if self._is_directory(inside):
                self.build(inside, path)
            else:
                self._build_file(inside, path)
        os.chmod(to, stat.S_IMODE(known.mode))

    def _is_directory(self, key: Key) -> bool:
        if key in self._nodes:
            return isinstance(self._nodes[key], Directory)
        return os.path.isdir(self.paths[key])

    def _names(self, key: Key, known: Directory) -> dict[str, Key]:
        now = self._names_now(key)
        names: dict[str, Key | None] = dict(known.names)
        if self._random is not None:
            replayed = dict(names)
            likely = self._random.choice((0.2, 0.5, 0.8))
            for change in known.changes:
                replayed.update(change)
                if self._random.random() < likely:
                    names.update(change)
            for name in sorted({*replayed, *now}):  # what was not done through the disk
                other = now.get(name)
                if replayed.get(name) != other and self._random.random() < likely:
                    names[name] = other
        names.update({name: there for name, there in now.items() if name.startswith(_SQLITE)})
        return {name: inside for name, inside in names.items() if inside is not None}

    def _names_now(self, key: Key) -> dict[str, Key]:
        path = self.paths.get(key)
        if path is None:
            return {}
        found = ((name, os.lstat(os.path.join(path, name))) for name in os.listdir(path))
        return {name: (info.st_dev, info.st_ino) for name, info in found}

    def _build_file(self, key: Key, to: str) -> None:
        node = self._nodes.get(key)
        path = self.paths.get(key)
        assert not isinstance(node, Directory)
        mode = node.mode if node else os.lstat(path or "").st_mode
        if stat.S_ISLNK(mode):
            assert node is not None
            os.symlink(node.durable or b"", os.fsencode(to))
            return
        now = b""
        if path is not None:
            with open(path, "rb") as file:
                now = file.read()
        durable = node.durable if node else None
        if os.path.basename(to).startswith(_SQLITE):
            content = now
        elif self._random is None or (durable is not None and path is None):
            content = durable or b""
        else:
            content = garbled(durable, now, self._random)
        with open(to, "wb") as file:
            file.write(content)
        os.chmod(to, stat.S_IMODE(mode))


def garbled(durable: bytes | None, written: bytes, choices: random.Random) -> bytes:
    """What a power cut may leave of a file: between what is durable and what was written."""
    if durable == written or choices.random() < 0.2:
        return written
    if durable:
        length = choices.choice((len(durable), len(written)))
        old, new = durable.ljust(length, b"\0"), written.ljust(length, b"\0")
        return b"".join(
            choices.choice((old, new))[at : at + _SECTOR] for at in range(0, length, _SECTOR)
        )[:length]
    part = written[: choices.randint(0, len(written))]
    return choices.choice((b"", bytes(len(written)), part, part.ljust(len(written), b"\0")))


def load_remains(path: str) -> Remains:
    """What a disk has written down where it stopped."""
    with open(path, "rb") as file:
        remains = pickle.load(file)
    assert isinstance(remains, Remains)
    return remains
