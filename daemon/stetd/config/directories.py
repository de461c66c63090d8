"""The daemon's directories, made and checked, and the locks that make it the only one.

Where they are is decided in :mod:`stet.service.socket_path`, which the client asks too. What is
refused of them is said in :mod:`stetd.config.ownership`. ``stetd.lock`` in both is held with
flock(2) for the daemon's life: the state needs one writer and the sockets one listener, and each
directory may be given without the other. The files are never removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping

import msgspec

from stet.service.socket_path import (
    config_path,
    make_above,
    make_private,
    runtime_directory,
    socket_path,
    state_directory,
)
from stetd.config.ownership import check_above, check_configuration, check_sockets, check_state

LOCK_NAME = "stetd.lock"
#: Seconds in which the historian of a daemon that was killed ends; until then it holds the locks.
_HISTORIAN_S, _ENDING_S, _POLL_S = 10.0, 1.0, 0.005


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

    @property
    def agent_socket(self) -> str:
        """Where agents connect."""
        return socket_path(self.runtime, control=False)

    @property
    def control_socket(self) -> str:
        """Where the person connects."""
        return socket_path(self.runtime, control=True)

    def prepare(self) -> None:
        """Create what is missing and check the rest.

        Raises UnsafeDirectory, whose message has the command that mends it, or OSError.
        """
        make_private(self.runtime)
        check_above(self.runtime, "STET_RUNTIME_DIR")
        check_sockets(self.runtime)
        make_above(self.state)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.state, 0o700)
        check_above(self.state, "STET_STATE_DIR")
        check_state(self.state)
        check_configuration(self.config)


class InstanceLock:
    """The locks on both directories. Held from :meth:`acquire` until :meth:`release`."""

    def __init__(self) -> None:
        #: Whoever has them open holds the locks.
        self.descriptors: list[int] = []

    @classmethod
    def acquire(cls, directories: Directories) -> InstanceLock:
        """Lock the state and the runtime directory; a moment is waited for a daemon that ends.

        Raises AlreadyRunning, or OSError if a lock file can't be opened.
        """
        lock = cls()
        try:
            for directory in dict.fromkeys((directories.state, directories.runtime)):
                lock.descriptors.append(_lock(directory))
        except BaseException:
            lock.release()
            raise
        return lock

    def release(self) -> None:
        """Let go; the lock files stay."""
        while self.descriptors:
            os.close(self.descriptors.pop())


def _lock(directory: str) -> int:
    path = os.path.join(directory, LOCK_NAME)
    began = time.monotonic()
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
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
            # One that has ended leaves a historian that has not yet heard of it; one that is just
            # ending looks as if it ran.
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
