"""``stet hook CLIENT``: tells the daemon what an agent's own tool is about to do, or has done.

The agent's client waits for this program, before and after each of the agent's tools. So it
takes a bounded time, always ends with 0, prints nothing on standard output (clients read
decisions there), and at most one line on standard error. Nothing it meets may keep the agent
from its work.

No more is imported than is needed to talk JSON lines with a socket: no msgspec, not the client
library (tests/hooks/test_hook_start.py). What the payloads look like: :mod:`stet.hook_payloads`.
"""

from __future__ import annotations

import _thread  # threading takes longer to load than a thread to start
import contextlib
import json
import os
import select
import socket
import sys
import time

from stet.hook_payloads import ToolUse, read_payload
from stet.socket_path import (
    UnsafeDirectory,
    check_private,
    runtime_directory,
    socket_path,
    state_directory,
)
from stet.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_USAGE = "usage: stet hook CLIENT [--before SECONDS] [--after SECONDS] [--no-start]"
#: A payload may hold a whole new file, twice.
_LARGEST_PAYLOAD = 32 << 20
#: After a command it may tell of every file of a workspace: 50,000 (observe_max_files), and more
#: where that was raised.
_LARGEST_REPLY = 64 << 20
_LONGEST_WARNING = 400
_LONGEST_SHOWN = 150
#: Of the time that is left the daemon may take so much for looking at files.
_SHARE = 0.7
_LONGEST_S = 60.0
_POLL_S = 0.02
#: Files of one use of a tool may lie in so many workspaces.
_MOST_WORKSPACES = 4
# In a process of its own, which nobody waits for. -P: the agent's directory is not searched.
_START = """
from stet.spawn import Endpoint, reach
reach(Endpoint.from_environment(control=False), start=True).close()
"""


class _Warning(Exception):
    """Why nothing was recorded, or not all; one line."""


class _Refused(Exception):
    """The daemon's words when it refuses to record something."""


class _Progress:
    """How far the daemon was told, and what is therefore true when it goes no further."""

    __slots__ = ("recorded", "waiting")

    def __init__(self) -> None:
        self.recorded = self.waiting = False

    def verdict(self) -> str:
        """What became of it as a whole; the reason is to follow."""
        if self.waiting:
            return "perhaps not recorded"
        return "not all was recorded" if self.recorded else "nothing was recorded"


_progress = _Progress()
#: Held from the first line on standard error: there is to be no second one.
_said = _thread.allocate_lock()


class _Options:
    """The command line."""

    __slots__ = ("after", "before", "client", "start")

    def __init__(self, words: Sequence[str]) -> None:
        self.client = ""
        self.before, self.after, self.start = 2.0, 5.0, True
        waiting = list(words)
        while waiting:
            word = waiting.pop(0)
            if word == "--no-start":
                self.start = False
            elif word in ("--before", "--after"):
                setattr(self, word[2:], _seconds(waiting.pop(0) if waiting else ""))
            elif self.client or not _is_name(word):
                raise _Warning(_USAGE)
            else:
                self.client = word
        if not self.client:
            raise _Warning(_USAGE)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise _Warning(_USAGE) from None
    if not 0 < seconds <= _LONGEST_S:
        raise _Warning(f"{text} is no time: a number of seconds up to {_LONGEST_S:.0f}")
    return seconds


def _is_name(word: str) -> bool:
    plain = word.replace("-", "").replace("_", "").replace(".", "")
    return plain.isascii() and plain.isalnum() and word[0] != "-" and len(word) <= 60


def main(words: Sequence[str]) -> int:
    """Carry it out; 0, whatever happens."""
    began = time.monotonic()
    try:
        if list(words) in (["-h"], ["--help"]):
            os.write(1, f"{_USAGE}\nCalled by an agent's client; see docs/hooks.md.\n".encode())
            return 0
        options = _Options(words)
        # If all else fails, if a file system hangs: a little later than what is bounded below.
        _end_at(began + max(options.before, options.after) + 0.2)
        use = read_payload(_payload())
        if use is not None:
            limit = options.after if use.after else options.before
            _end_at(began + limit + 0.2)
            _observe(use, options, began + limit)
    except _Warning as problem:
        _warn(str(problem))
    except (_Refused, ValueError) as error:
        _warn(f"{_progress.verdict()}: {error}")
    except Exception as error:  # noqa: BLE001 - the agent must go on, whatever it was
        _warn(f"{_progress.verdict()}: {type(error).__name__}: {error}")
    except KeyboardInterrupt:
        pass
    return 0


def _end_at(moment: float) -> None:
    """Have the process end then, whatever it is doing.

    By another thread: no signal is handled while a call hangs in the kernel, or where the client
    has them blocked. What hangs so that not even SIGKILL ends it (a FUSE server that has taken a
    request and stopped) is not bounded by this.
    """
    try:
        _thread.start_new_thread(_sleep_and_give_up, (moment,))
    except RuntimeError:  # the user may have no more threads
        import signal

        signal.signal(signal.SIGALRM, lambda _signal, _frame: _give_up())
        signal.setitimer(signal.ITIMER_REAL, max(0.01, moment - time.monotonic()))


def _sleep_and_give_up(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
    _give_up()


def _give_up() -> None:
    try:
        _warn(f"{_progress.verdict()}: there was no time")
    finally:
        os._exit(0)


def _warn(text: str) -> None:
    """Say it on standard error, unless something was said, or nobody reads there."""
    if not _said.acquire(blocking=False):
        return
    line = " ".join(text.split())
    shown = "".join(c if c.isprintable() else "?" for c in line)[:_LONGEST_WARNING]
    with contextlib.suppress(OSError):
        writable = select.poll()
        writable.register(2, select.POLLOUT)
        if writable.poll(0):
            os.write(2, f"stet hook: {shown}\n".encode("utf-8", "replace"))


def _payload() -> dict[str, Any]:
    """What the client says on standard input, all of which is read. Raises _Warning."""
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(0, 1 << 18):
        size += len(piece)
        if size <= _LARGEST_PAYLOAD:
            pieces.append(piece)
        else:  # it is read to its end all the same: nobody is to meet a closed pipe
            pieces.clear()
    if size > _LARGEST_PAYLOAD:
        raise _Warning(f"nothing was recorded: the payload has more than {_LARGEST_PAYLOAD} bytes")
    try:
        payload = json.loads(b"".join(pieces))
    except (ValueError, RecursionError) as error:
        raise _Warning(f"nothing was recorded: the payload is not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise _Warning("nothing was recorded: the payload is not a JSON object")
    return payload


# -- telling the daemon


def _observe(use: ToolUse, options: _Options, deadline: float) -> None:
    """Tell the daemon. Raises _Warning, _Refused, OSError."""
    warnings: list[str] = []
    here = os.path.realpath(use.directory or "/")
    if use.paths is None:
        _tell(use, None, here, options, deadline, warnings)
    else:
        warnings += [
            f"not recorded: {_shown(path)}: its name is not text in UTF-8"
            for path in use.paths
            if not _is_text(path)
        ]
        paths = [_real(path) for path in use.paths if _is_text(path)]
        # The agent's own workspace first, before time is spent on what lies elsewhere.
        paths.sort(key=lambda path: not _is_below(path, here))
        _tell_of_each(use, paths, options, deadline, warnings)
    if warnings:
        more = f" (and {len(warnings) - 1} more)" if len(warnings) > 1 else ""
        raise _Warning(warnings[0] + more)


def _tell_of_each(
    use: ToolUse, paths: list[str], options: _Options, deadline: float, warnings: list[str]
) -> None:
    """Tell of files, workspace by workspace; where one is refused the others have their turn."""
    told = 0
    above = {path: _existing(path) for path in paths}
    while paths and told < _MOST_WORKSPACES:
        directory = above[paths[0]]
        try:
            root = _tell(use, paths, directory, options, deadline, warnings)
        except _Refused as refusal:
            # Not what lies deeper: a directory in one that is not allowed may be.
            others = [path for path in paths if above[path] != directory]
            more = len(paths) - len(others) - 1
            files = f"{_shown(paths[0])} and {more} more" if more else _shown(paths[0])
            warnings.append(f"not recorded: {files}: {refusal}")
            paths = others
        else:
            told += 1
            paths = [path for path in paths if not _is_below(path, root)]
    if paths:
        warnings.append(f"not recorded, because they lie in other workspaces: {len(paths)}")


def _tell(
    use: ToolUse,
    paths: list[str] | None,
    directory: str,
    options: _Options,
    deadline: float,
    warnings: list[str],
) -> str:
    """Say hello in the workspace around ``directory`` and observe; the workspace's root.

    Raises _Warning, _Refused (another directory may not be), OSError.
    """
    hello = {
        "protocol": 1,
        "workspace": directory,
        "session": use.session,
        "agent": options.client,
        "client": {"name": "stet-hook", "version": __version__},
    }
    with _connection(options, deadline) as connected:
        replies = _replies(connected, deadline)
        _send(connected, 1, "hello", hello, deadline)
        root: str = _result(next(replies))["workspace"]["root"]
        own = None if paths is None else [path for path in paths if _is_below(path, root)]
        if paths and not own:
            raise _Refused(f"it does not lie in {root}")
        observed: dict[str, Any] = {
            "phase": "after" if use.after else "before",
            "tool": use.tool,
            "use": use.use,
            "within": round(max(0.05, (deadline - time.monotonic()) * _SHARE), 3),
        }
        if own is not None:
            observed["paths"] = own
        if use.after and use.why:
            observed["message"] = use.why
        if use.after and use.request is not None:
            observed["request_id"] = use.request
        _progress.waiting = True
        _send(connected, 2, "observe", observed, deadline)
        reply = next(replies)
        _progress.waiting = False
        warnings += _result(reply).get("warnings", [])
        _progress.recorded = True
    return root


def _real(path: str) -> str:
    """The path with the links above its last component resolved, as roots are."""
    parent, name = os.path.split(path)
    return os.path.join(os.path.realpath(parent), name)


def _existing(path: str) -> str:
    """The deepest directory above a path that exists."""
    parent = os.path.dirname(path)
    while not os.path.isdir(parent) and parent != "/":
        parent = os.path.dirname(parent)
    return parent


def _is_text(path: str) -> bool:
    """Whether a message can hold it, half a surrogate pair can't."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(path: str) -> str:
    """A path that leaves room for what is said of it."""
    return path if len(path) <= _LONGEST_SHOWN else "..." + path[-_LONGEST_SHOWN:]


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _result(reply: dict[str, Any]) -> dict[str, Any]:
    """What a reply says. Raises _Refused."""
    error = reply.get("error")
    if error is not None:
        raise _Refused(str(error.get("message", error)))
    result: dict[str, Any] = reply["result"]
    return result


# -- the socket


def _connection(options: _Options, deadline: float) -> socket.socket:
    """A connection to the daemon, which is started if none answers. Raises _Warning."""
    runtime = runtime_directory()
    path = socket_path(runtime, control=False)
    started = False
    while True:
        try:
            check_private(runtime)
            connected = socket.socket(socket.AF_UNIX)
            try:
                connected.settimeout(_left(deadline))
                connected.connect(path)
            except BaseException:
                connected.close()
                raise
        except UnsafeDirectory as error:
            raise _Warning(f"{_progress.verdict()}: {error}") from error
        except (FileNotFoundError, ConnectionRefusedError):
            if not started and not (options.start and _may_start()):
                raise _Warning(f"{_progress.verdict()}: no stet daemon answers") from None
        except BlockingIOError:  # its backlog is full
            started = True
        else:
            return connected
        if not started:
            _start()
            started = True
        if time.monotonic() + _POLL_S > deadline:
            raise _Warning(f"{_progress.verdict()}: no stet daemon answers yet") from None
        time.sleep(_POLL_S)


def _may_start() -> bool:
    """Whether there is anything that a daemon could have to do with it."""
    return os.path.isdir(os.path.join(state_directory(), "workspaces"))


def _start() -> None:
    """Have a daemon started by a process that outlives this one and holds none of its pipes."""
    nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    command = [sys.executable, "-P", "-c", _START]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=nothing, setsid=True)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise _Warning("perhaps not recorded: the stet daemon did not answer in time")
    return left


def _send(
    connected: socket.socket, number: int, method: str, params: dict[str, Any], deadline: float
) -> None:
    request = json.dumps({"id": number, "method": method, "params": params})
    connected.settimeout(_left(deadline))
    try:
        connected.sendall(request.encode() + b"\n")
    except TimeoutError:
        _left(deadline)


def _replies(connected: socket.socket, deadline: float) -> Iterator[dict[str, Any]]:
    """The daemon's replies, one by one. Raises _Warning."""
    received = bytearray()
    searched = 0  # a large reply comes in thousands of pieces, each of which is looked at once
    while True:
        end = received.find(b"\n", searched)
        if end >= 0:
            line = bytes(received[:end])
            del received[: end + 1]
            searched = 0
            try:
                reply = json.loads(line)
            except (ValueError, RecursionError):
                reply = None
            if not isinstance(reply, dict):
                raise _Warning(f"{_progress.verdict()}: what answers is no stet daemon")
            yield reply
            continue
        searched = len(received)
        if searched > _LARGEST_REPLY:
            raise _Warning("perhaps not recorded: the reply is too large")
        connected.settimeout(_left(deadline))
        try:
            piece = connected.recv(1 << 16)
        except TimeoutError:
            continue  # the time is over, which is noticed above
        if not piece:
            raise _Warning("perhaps not recorded: the stet daemon closed the connection")
        received += piece
