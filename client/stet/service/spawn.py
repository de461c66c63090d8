"""Reaching a daemon: connect to its socket, and start one when none answers.

The daemon that is started is ``stetd`` of the same installation, in a session of its own, with
``/`` as its directory and ``<state>/stetd.log`` as standard output and error. Two clients that
find none at the same time hold ``<runtime>/spawn.lock`` one after the other, and the second finds
the first one's daemon. Nothing here knows the protocol.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator

import msgspec

from stet.errors import DaemonUnreachable
from stet.service.socket_path import (
    UnsafeDirectory,
    check_owner,
    check_private,
    make_missing,
    make_private,
    runtime_directory,
    socket_path,
    state_directory,
)

#: Seconds that a daemon may take from its start, with recovery, until its socket answers.
START_SECONDS = 30.0
#: The log is moved to ``stetd.log.1`` when it is larger than this at a start.
LOG_BYTES = 1024 * 1024
_POLL_SECONDS = 0.01
NO_PROC = (
    "/proc is not mounted here, and the daemon can't run without it. Mount it (in a container: "
    "mount -t proc proc /proc; bwrap: --proc /proc), or start the daemon outside."
)

# Runs in a process of its own, so that the daemon is nobody's child here: programs that did not
# know they had a child would have to wait for it. Prints the daemon's process id; the daemon's
# output goes where this process's errors go.
_DETACH = """
import os, sys
to_log = [(os.POSIX_SPAWN_DUP2, 2, 1)]
print(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, setsid=True, file_actions=to_log))
"""


class Endpoint(msgspec.Struct, frozen=True):
    """Which daemon, by its directories, and which of its two sockets."""

    runtime: str
    state: str
    control: bool

    @classmethod
    def from_environment(cls, *, control: bool) -> Endpoint:
        """The endpoint that CONTRACT.md 1 gives for this process's environment."""
        return cls(runtime_directory(), state_directory(), control)

    @property
    def path(self) -> str:
        """The path of the socket."""
        return socket_path(self.runtime, control=self.control)

    @property
    def log(self) -> str:
        """The path of the log of a daemon that was started from here."""
        return os.path.join(self.state, "stetd.log")


def program_beside(python: str, name: str, module: str) -> tuple[str, ...]:
    """The program of the same installation beside an interpreter, else that with the module."""
    beside = os.path.join(os.path.dirname(python), name)
    # -P: without it "-m" would put the current directory before the installed packages.
    return (beside,) if os.access(beside, os.X_OK) else (python, "-P", "-m", module)


def reach(endpoint: Endpoint, *, start: bool) -> socket.socket:
    """A connected, non-blocking socket; ``start`` a daemon if none answers.
    Raises DaemonUnreachable, which says what was tried and what to do.
    """
    connected = connect(endpoint)
    if connected is not None:
        return connected
    # Over ssh, in cron and with sudo other variables are set.
    where = elsewhere(endpoint)
    if where is not None:
        import shlex

        variable = f"STET_RUNTIME_DIR={shlex.quote(where)}"
        raise DaemonUnreachable(
            f"stetd (process {holder(endpoint)}) uses the state directory {endpoint.state} and "
            f"listens in {where}, but this command looks in {endpoint.runtime}. Set {variable}, "
            f"or end that one: {variable} stet stop"
        )
    if not start:
        raise DaemonUnreachable(
            f"no stet daemon answers at {endpoint.path}. Start one with: stet status"
        )
    with turn_to_start(endpoint):
        return connect(endpoint) or _start_and_connect(endpoint)


def connect(endpoint: Endpoint) -> socket.socket | None:
    """A connected, non-blocking socket, or None when no daemon listens.
    Raises DaemonUnreachable when there is one that cannot or must not be used.
    """
    try:
        check_private(endpoint.runtime)
    except FileNotFoundError:
        return None
    except (UnsafeDirectory, OSError) as error:
        raise DaemonUnreachable(f"the runtime directory cannot be used: {error}") from error
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            connection.connect(endpoint.path)
        except OSError as error:
            # The backlog is full: a Unix socket says so at once instead of waiting.
            if isinstance(error, BlockingIOError) and time.monotonic() <= deadline:
                time.sleep(_POLL_SECONDS)
                continue
            connection.close()
            if isinstance(error, FileNotFoundError | ConnectionRefusedError):
                return None
            raise DaemonUnreachable(
                f"cannot connect to {endpoint.path}: {error.strerror}"
            ) from error
        return connection


@contextlib.contextmanager
def turn_to_start(endpoint: Endpoint) -> Iterator[None]:
    """Hold ``spawn.lock``: meanwhile no other client starts a daemon; those that would, wait.
    Raises DaemonUnreachable when the lock can't be had.
    """
    _make(make_private, endpoint.runtime, "STET_RUNTIME_DIR")
    try:
        path = os.path.join(endpoint.runtime, "spawn.lock")
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise DaemonUnreachable(f"no daemon runs and none can be started: {error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _make(make: Callable[[str], None], directory: str, variable: str) -> None:
    """Create a directory. Raises DaemonUnreachable, with what says that it be another one."""
    try:
        make(directory)
    except (UnsafeDirectory, OSError) as error:
        mend = f". Set {variable} to a directory of your own." if isinstance(error, OSError) else ""
        raise DaemonUnreachable(f"no daemon runs and none can be started: {error}{mend}") from error


def _make_state(directory: str) -> None:
    make_missing(directory)
    check_owner(directory, os.stat(directory), directory)  # else the log would be another user's


def _start_and_connect(endpoint: Endpoint) -> socket.socket:
    deadline = time.monotonic() + START_SECONDS
    while True:
        before = holder(endpoint)
        pid, log_start = _start(endpoint)
        connected = _wait_for(endpoint, pid, deadline)
        # A daemon that is just stopping keeps its directories until it has; the one started
        # beside it ends at once, and is started again when that one is gone.
        if connected is None and not is_running(pid):
            other = holder(endpoint) or before
            if other is None or time.monotonic() > deadline:
                said = _last_words(endpoint.log, log_start)
                raise DaemonUnreachable(f"the daemon was started and ended at once. {said}")
            pid = other
            connected = _wait_for(endpoint, pid, deadline)
        if connected is not None:
            return connected
        if is_running(pid):
            raise DaemonUnreachable(
                f"the daemon (process {pid}) runs, but its socket {endpoint.path} did not answer "
                f"within {START_SECONDS:.0f} s. Its log is {endpoint.log}"
            )


def _wait_for(endpoint: Endpoint, pid: int, deadline: float) -> socket.socket | None:
    """A connection, or None when the process has ended or the time is over."""
    while time.monotonic() < deadline:
        running = is_running(pid)  # asked first: it may listen, and end, in between
        connected = connect(endpoint)
        if connected is not None or not running:
            return connected
        time.sleep(_POLL_SECONDS)
    return None


def holder(endpoint: Endpoint) -> int | None:
    """The running process that holds the state or runtime directory, by their lock files."""
    for directory in (endpoint.state, endpoint.runtime):
        try:
            with open(os.path.join(directory, "stetd.lock"), "rb") as lock:
                pid = int(lock.read(32))
        except (OSError, ValueError):
            continue
        if is_running(pid) and _is_daemon(pid):
            return pid
    return None


def elsewhere(endpoint: Endpoint) -> str | None:
    """Another runtime directory, in which the daemon of this state directory listens."""
    pid = holder(endpoint)
    where = _listens_in(pid) if pid is not None else None
    return None if where == os.path.realpath(endpoint.runtime) else where


def _listens_in(pid: int) -> str | None:
    """The directory of the sockets on which a process listens, by the kernel's table."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
        links = {os.readlink(f"/proc/{pid}/fd/{each}") for each in descriptors}
        table = _read("/proc/net/unix").decode("utf-8", "surrogateescape")
    except OSError:
        return None
    for line in table.splitlines():
        fields = line.split(maxsplit=7)  # a socket keeps the name under which it was bound
        if len(fields) == 8 and f"socket:[{fields[6]}]" in links and fields[7][:1] == "/":
            directory, name = os.path.split(fields[7])
            if name in ("agent.sock", "control.sock", ".new"):
                return os.path.realpath(directory)
    return None


def _is_daemon(pid: int) -> bool:
    """Whether a process looks like a daemon: the id of a killed one may be used again."""
    # Each thread is asked: the first one may have ended, and then it has no command line.
    commands = [_read(f"{each}/cmdline") for each in _threads(pid)]
    if any(commands):
        return any(b"stetd" in each for each in commands)
    # One that ends gives back its memory first, and its locks after that; a process of the
    # kernel never had any memory.
    return _has_ended(f"/proc/{pid}")


def _start(endpoint: Endpoint) -> tuple[int, int]:
    """Start a daemon; its process id, and where in the log its own lines begin."""
    import subprocess  # most clients find a daemon running and need not load it

    if not os.path.exists("/proc/self"):
        raise DaemonUnreachable(f"no daemon runs and none can be started: {NO_PROC}")
    environ = os.environ | {"STET_RUNTIME_DIR": endpoint.runtime, "STET_STATE_DIR": endpoint.state}
    # -P: without it "-m" would put the current directory before the installed packages.
    daemon = [sys.executable, "-P", "-m", "stetd.cli"]
    _make(_make_state, endpoint.state, "STET_STATE_DIR")
    try:
        with contextlib.suppress(FileNotFoundError):
            if os.stat(endpoint.log).st_size > LOG_BYTES:
                os.replace(endpoint.log, endpoint.log + ".1")
        log = os.open(endpoint.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            log_start = os.fstat(log).st_size
            started = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _DETACH, *daemon],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                env=environ,
                check=True,
            )
            return int(started.stdout), log_start
        finally:
            os.close(log)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise DaemonUnreachable(f"no daemon runs and none can be started: {error}") from error


def is_running(pid: int) -> bool:
    """Whether a process has a thread that has not ended: till then it keeps locks and sockets.
    One that was killed may look like a zombie, by its first thread, while others are still ending.
    """
    return not _has_ended(f"/proc/{pid}") or len(_threads(pid)) > 1


def _threads(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/task/{each}" for each in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _has_ended(process: str) -> bool:
    # The command name is in parentheses and may hold any character.
    rest = _read(f"{process}/stat").rpartition(b")")[2].split()
    return not rest or rest[0] in (b"Z", b"X")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _last_words(log: str, start: int) -> str:
    said = _read(log)[start:].decode("utf-8", "replace").strip()
    if not said:
        return f"It said nothing; its log is {log}"
    return f"Its log ({log}) ends with:\n" + "\n".join(said.splitlines()[-10:])
