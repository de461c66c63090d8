"""Connects to a daemon's socket, and starts a daemon if none answers.

It starts ``stetd`` of the same installation, in a new session (setsid(2)), with ``/`` as its
directory and ``<state>/stetd.log`` as standard output and error. If two clients find no daemon at
the same time, each takes the lock ``<runtime>/spawn.lock`` in turn, and the second one finds the
daemon of the first. Nothing here knows the protocol.
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

#: Seconds that a daemon may take to start, recovery included, until its socket answers.
START_SECONDS = 30.0
#: A log of more bytes is moved to ``stetd.log.1`` at a start.
LOG_BYTES = 1024 * 1024
_POLL_SECONDS = 0.01
#: -P: without it "-m" would put the current directory before the installed packages.
STETD = (sys.executable, "-P", "-m", "stetd.cli")
NO_PROC = (
    "/proc is not mounted here, and the daemon can't run without it. Mount it (in a container: "
    "mount -t proc proc /proc; bwrap: --proc /proc), or start the daemon outside."
)

# Runs in an intermediate process, so that the daemon is not a child of this program, which would
# have to wait for it (wait(2)). Prints the daemon's process id. The daemon's output goes to this
# process's standard error. Signals that this program has blocked must end the daemon.
_DETACH = """
import os, sys
how = dict(setsid=True, setsigmask=(), file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
print(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, **how))
"""


class Endpoint(msgspec.Struct, frozen=True):
    """A daemon, given by its directories, and one of its two sockets."""

    runtime: str
    state: str
    control: bool

    @classmethod
    def from_environment(cls, *, control: bool) -> Endpoint:
        """The endpoint for this process's environment (docs/sockets.md)."""
        return cls(runtime_directory(), state_directory(), control)

    @property
    def path(self) -> str:
        """The path of the socket."""
        return socket_path(self.runtime, control=self.control)

    @property
    def log(self) -> str:
        """The path of the log of a daemon that a client started."""
        return os.path.join(self.state, "stetd.log")


def own_program(name: str) -> tuple[str, ...]:
    """The command of this installation's ``stet`` or ``stetd`` (virtual environment, pipx, uv): the
    executable beside the interpreter, else the module.
    """
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return (beside,) if os.access(beside, os.X_OK) else (sys.executable, "-P", "-m", f"{name}.cli")


def reach(endpoint: Endpoint, *, start: bool) -> socket.socket:
    """A connected, non-blocking socket; ``start``: start a daemon if none answers.
    Raises DaemonUnreachable, whose message says what was tried and what to do.
    """
    connected = connect(endpoint)
    if connected is not None:
        return connected
    # A daemon may use another runtime directory: ssh, cron and sudo set other variables.
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
            f"no stet daemon answers at {endpoint.path}; stet status starts one"
        )
    with turn_to_start(endpoint):
        return connect(endpoint) or _start_and_connect(endpoint)


def connect(endpoint: Endpoint) -> socket.socket | None:
    """A connected, non-blocking socket; None if no daemon listens.
    Raises DaemonUnreachable if a socket can't be used or its directory is not safe.
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
            # BlockingIOError: the backlog is full; a Unix socket does not wait for room in it.
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
    """Hold ``spawn.lock``, so that other clients wait before they start a daemon.
    Raises DaemonUnreachable if the lock can't be taken.
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
    """Create a directory. Raises DaemonUnreachable, which names the ``variable`` to change."""
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
        # A stopping daemon holds its locks until it ends. A daemon started before that ends at
        # once, and is started again when the old one is gone.
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
    """A connection; None if the process has ended or the deadline has passed."""
    while time.monotonic() < deadline:
        running = is_running(pid)  # before connect(): the process may listen, and then end
        connected = connect(endpoint)
        if connected is not None or not running:
            return connected
        time.sleep(_POLL_SECONDS)
    return None


def holder(endpoint: Endpoint) -> int | None:
    """The process id of the daemon that uses the state or runtime directory, by its lock files."""
    for directory in (endpoint.state, endpoint.runtime):
        try:
            with open(os.path.join(directory, "stetd.lock"), "rb") as lock:
                pid, own = int(lock.read(32)), os.fstat(lock.fileno())
        except (OSError, ValueError):
            continue
        if not (is_running(pid) and _is_daemon(pid)):
            continue
        held = []
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
            held = [e.stat() for e in descriptors if os.readlink(e.path).endswith("/stetd.lock")]
        # If its locks are in other directories, this file came here with a copy of one.
        if not held or any(os.path.samestat(own, each) for each in held):
            return pid
    return None


def elsewhere(endpoint: Endpoint) -> str | None:
    """The runtime directory of the daemon of this state directory, if it is another one."""
    pid = holder(endpoint)
    if pid is None:
        return None
    links: set[str] = set()
    with contextlib.suppress(OSError):  # it has ended
        descriptors = os.listdir(f"/proc/{pid}/fd")
        links = {os.readlink(f"/proc/{pid}/fd/{each}") for each in descriptors}
    for line in _read("/proc/net/unix").decode("utf-8", "surrogateescape").splitlines():
        fields = line.split(maxsplit=7)  # the path is the one at bind(2), also after a rename
        if len(fields) == 8 and f"socket:[{fields[6]}]" in links and fields[7][:1] == "/":
            directory, name = os.path.split(fields[7])
            if name in ("agent.sock", "control.sock", ".new"):
                where = os.path.realpath(directory)
                return None if where == os.path.realpath(endpoint.runtime) else where
    return None


def _is_daemon(pid: int) -> bool:
    """Whether a process looks like a daemon: another one may have the id of a killed daemon."""
    # All threads are checked: if the first one has ended, it has no command line.
    commands = [_read(f"{each}/cmdline") for each in _threads(pid)]
    if any(commands):
        return any(b"stetd" in each for each in commands)
    # A process that ends first frees its memory, with the command line, and then its locks. A
    # kernel thread never has a command line.
    return has_ended(f"/proc/{pid}")


def _start(endpoint: Endpoint) -> tuple[int, int]:
    """Start a daemon. Returns its process id and the offset of its first line in the log."""
    import subprocess  # most clients find a running daemon and do not need it

    if not os.path.exists("/proc/self"):
        raise DaemonUnreachable(f"no daemon runs and none can be started: {NO_PROC}")
    environ = os.environ | {"STET_RUNTIME_DIR": endpoint.runtime, "STET_STATE_DIR": endpoint.state}
    _make(_make_state, endpoint.state, "STET_STATE_DIR")
    try:
        with contextlib.suppress(FileNotFoundError):
            if os.stat(endpoint.log).st_size > LOG_BYTES:
                os.replace(endpoint.log, endpoint.log + ".1")
        log = os.open(endpoint.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            log_start = os.fstat(log).st_size
            started = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _DETACH, *STETD],
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
    """Whether a process has a thread left; until the last one ends it keeps its locks and sockets.
    The first thread of a killed process may be a zombie while others are still ending.
    """
    return not has_ended(f"/proc/{pid}") or len(_threads(pid)) > 1


def _threads(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return [f"/proc/{pid}/task/{each}" for each in os.listdir(f"/proc/{pid}/task")]
    return []


def has_ended(process: str) -> bool:
    """Whether a process, given by its directory in /proc, is gone or a zombie."""
    # The command name is in parentheses and may hold any character.
    rest = _read(f"{process}/stat").rpartition(b")")[2].split()
    return not rest or rest[0] in (b"Z", b"X")


def _read(path: str) -> bytes:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""


def _last_words(log: str, start: int) -> str:
    said = _read(log)[start:].decode("utf-8", "replace").strip()
    if not said:
        return f"It said nothing; its log is {log}"
    return f"Its log ({log}) ends with:\n" + "\n".join(said.splitlines()[-10:])
