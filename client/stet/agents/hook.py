"""``stet hook CLIENT``: reports to the daemon what an agent's own tool is about to do, or has done.

Every event also says which conversation the client's process holds (:mod:`stet.agents.joining`);
the start of a session does nothing else. At the end of a turn (Stop) the daemon reads again the
files of tools whose end was not reported. No daemon is started for that, and nothing is printed.

The agent's client waits for this program before and after each tool. So it takes a bounded time,
always ends with 0, prints nothing on standard output (clients read decisions there), and at most
one line on standard error. No error may keep the agent from its work.

It imports only what it needs to send JSON lines to a socket: neither msgspec nor the client library
(tests/hooks/test_hook_start.py).
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

from stet.agents.hook_payloads import HookEvent, read_payload
from stet.agents.joining import join
from stet.service.socket_path import (
    UnsafeDirectory,
    check_private,
    runtime_directory,
    socket_path,
    state_directory,
)
from stet.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_USAGE = "usage: stet hook CLIENT [--before SECONDS] [--after SECONDS] [--no-start]"
#: Largest payload in bytes; one may have a whole new file, twice.
_LARGEST_PAYLOAD = 32 << 20
#: Largest reply in bytes; after a command it may name every file of a workspace (50,000, or more if
#: observe_max_files was raised).
_LARGEST_REPLY = 64 << 20
_LONGEST_WARNING = 400
_LONGEST_SHOWN = 150
_NO_ANSWER = "perhaps not recorded: the stet daemon did not answer in time"
#: The share of the remaining time that the daemon may take to scan files.
_SHARE = 0.7
_LONGEST_S = 60.0
_POLL_S = 0.02
#: Workspaces in which the files of one use of a tool are recorded.
_MOST_WORKSPACES = 4
#: Variables in which clients give the directory that they were started in.
_PROJECTS = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR")
#: The most ``late`` paths that one request may have.
_MOST_LATE = 1000
# Runs in a process of its own. -P: do not search the agent's directory for modules.
_START = """
from stet.service.spawn import Endpoint, reach
reach(Endpoint.from_environment(control=False), start=True).close()
"""


class _Warning(Exception):
    """One line that says why nothing, or not everything, was recorded."""


class _Refused(Exception):
    """A refusal of the daemon."""


class _NotUsed(_Refused):
    """The workspace is not allowed, or there has never been a daemon."""


class _Run:
    """The options, and the state of this run."""

    def __init__(self) -> None:
        self.client = ""
        self.before, self.after, self.start = 2.0, 5.0, True
        self.deadline = 0.0
        #: An observation was sent, and its answer has not come.
        self.waiting = False
        #: The workspaces that were asked.
        self.roots: list[str] = []
        self.warnings: list[str] = []
        #: Warnings of workspaces without a report before the tool: nothing is attributed there.
        self.untold: list[str] = []
        #: Some workspace has attributed changes.
        self.attributed = False

    def read(self, words: Sequence[str]) -> None:
        """Take the options from the command line. Raises _Warning."""
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

    def verdict(self) -> str:
        """The result of the run, for the beginning of a warning."""
        if self.waiting:
            return "perhaps not recorded"
        return "not all was recorded" if self.roots else "nothing was recorded"

    def left(self) -> float:
        """The seconds until the deadline. Raises _Warning if there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise _Warning(_NO_ANSWER)
        return left


_run = _Run()
#: Acquired by the thread that writes the one line to standard error, and never released.
_speaking = _thread.allocate_lock()


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
    """Run ``stet hook``; returns 0."""
    began = time.monotonic()
    try:
        if list(words) in (["-h"], ["--help"]):
            os.write(1, f"{_USAGE}\nCalled by an agent's client; see docs/hooks.md.\n".encode())
            return 0
        _run.read(words)
        # For the case that a file system hangs: a little later than the limits below.
        _end_at(began + max(_run.before, _run.after) + 0.2)
        event = read_payload(_payload())
        if event is not None:
            join(event.session, _run.client)
            _run.deadline = began + (_run.after if event.phase == "after" else _run.before)
            _end_at(_run.deadline + 0.2)
            _observe(event)
    except (_NotUsed, KeyboardInterrupt):
        pass  # a client has one hook for all directories; it is silent where stet is not used
    except _Warning as problem:
        _warn(str(problem))
    except (_Refused, ValueError) as error:
        _warn(f"{_run.verdict()}: {error}")
    except Exception as error:  # noqa: BLE001 - the agent must go on, whatever it was
        _warn(f"{_run.verdict()}: {type(error).__name__}: {error}")
    return 0


def _end_at(moment: float) -> None:
    """End the process at a given time (monotonic).

    A thread does this, because signals are not handled while a system call hangs, or if the client
    has blocked them.
    """

    def give_up() -> None:
        try:
            time.sleep(max(0.0, moment - time.monotonic()))
            _warn(f"{_run.verdict()}: there was no time")
        finally:
            os._exit(0)

    _thread.start_new_thread(give_up, ())


def _warn(text: str) -> None:
    """Print a line on standard error, unless a line was printed already."""
    line = " ".join(text.split())
    shown = "".join(c if c.isprintable() else "?" for c in line)[:_LONGEST_WARNING]
    # The thread that ends the process waits for the other thread's line, but not long.
    if not _speaking.acquire(timeout=0.2):
        return
    with contextlib.suppress(OSError):
        writable = select.poll()
        writable.register(2, select.POLLOUT)
        if writable.poll(0):
            os.write(2, f"stet hook: {shown}\n".encode("utf-8", "replace"))


def _payload() -> dict[str, Any]:
    """The payload from standard input, which is read to its end. Raises _Warning."""
    with open(0, "rb", closefd=False) as file:
        text = file.read(_LARGEST_PAYLOAD + 1)
        while file.read(1 << 18):  # to its end, or the client would get EPIPE
            pass
    if len(text) > _LARGEST_PAYLOAD:
        raise _Warning(f"nothing was recorded: the payload has more than {_LARGEST_PAYLOAD} bytes")
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Warning(f"nothing was recorded: the payload is not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise _Warning("nothing was recorded: the payload is not a JSON object")
    return payload


# -- telling the daemon


def _observe(event: HookEvent) -> None:
    """Tell the daemon. Raises _Warning, _Refused, OSError."""
    if event.phase == "start":
        return
    if event.phase == "stop":
        _run.start = False
        with contextlib.suppress(_Warning, _Refused):
            _tell_all(event, _directories(event))
        return
    _tell_all(event, _directories(event) if event.paths is None else _files(event))
    warnings = _run.warnings if _run.attributed else _run.warnings + _run.untold
    if warnings:
        more = f" (and {len(warnings) - 1} more)" if len(warnings) > 1 else ""
        raise _Warning(warnings[0] + more)


def _directories(event: HookEvent) -> list[str]:
    """The directories that a command may work in, the client's first."""
    named = [*(os.environ.get(name, "") for name in _PROJECTS), *event.places]
    found = [place for place in named if os.path.isabs(place) and os.path.isdir(place)]
    if event.directory:  # a command may have removed it
        found.insert(0, _existing(event.directory + "/"))
    return list(dict.fromkeys(map(os.path.realpath, found)))[:_MOST_WORKSPACES]


def _files(event: HookEvent) -> list[str]:
    """The files that a tool names; those of the agent's own workspace first, while there is time.

    What can't be told of is warned of.
    """
    named = event.paths or []
    _run.warnings += [
        f"not recorded: {_shown(path)}: its name is not text in UTF-8"
        for path in named
        if not _is_text(path)
    ]
    here = os.path.realpath(event.directory or "/")
    paths = [_real(path) for path in named if _is_text(path)]
    return sorted(paths, key=lambda path: not _is_below(path, here))


def _tell_all(event: HookEvent, places: list[str]) -> None:
    """Report directories or files; the refusal of one workspace does not stop the others."""
    not_used: list[str] = []
    above = {place: place if event.paths is None else _existing(place) for place in places}
    while places and len(_run.roots) < _MOST_WORKSPACES:
        directory = above[places[0]]
        try:
            told = _tell(event, places, directory)
        except _Refused as refusal:
            # Files in other directories are tried: one inside this directory may be allowed.
            told = [place for place in places if above[place] == directory]
            more = f" and {len(told) - 1} more" if len(told) > 1 else ""
            where = not_used if isinstance(refusal, _NotUsed) else _run.warnings
            where.append(f"not recorded: {_shown(places[0])}{more}: {refusal}")
        places = [place for place in places if place not in told]
    if event.paths is not None and _run.roots:
        _run.warnings = not_used + _run.warnings
    if places:
        _run.warnings.append(f"not recorded, because they lie in other workspaces: {len(places)}")


def _tell(event: HookEvent, places: list[str], directory: str) -> list[str]:
    """Report to the workspace around ``directory``. Returns those of the places that belong to it.
    Raises _Warning, _Refused (only there; another workspace may accept it), OSError.
    """
    hello = {
        "protocol": 1,
        "workspace": directory,
        "session": event.session,
        "agent": _run.client,
        "client": {"name": "stet-hook", "version": __version__},
    }
    with socket.socket(socket.AF_UNIX) as connected, connected.makefile("rb") as replies:
        _connect(connected)

        def ask(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
            request = json.dumps({"id": number, "method": method, "params": params})
            connected.settimeout(_run.left())
            try:
                connected.sendall(request.encode() + b"\n")
                connected.settimeout(_run.left())
                line = replies.readline(_LARGEST_REPLY + 1)
            except TimeoutError:
                raise _Warning(_NO_ANSWER) from None
            return _result(line)

        entered = ask(1, "hello", hello)
        root: str = entered["workspace"]["root"]
        own = [directory]
        if event.paths is not None:
            own = [path for path in places if _is_below(path, root)]
            for each in entered.get("inside", ()):  # which are workspaces of their own
                own = [path for path in own if not _is_below(path, os.path.join(root, each))]
        if not own:
            raise _Refused(f"it does not lie in {root}")
        if root in _run.roots:
            return own
        _run.waiting = True
        result = ask(2, "observe", _observation(event, own, root))
    untold = bool(result.get("untold"))
    (_run.untold if untold else _run.warnings).extend(result.get("warnings", ()))
    _run.attributed = _run.attributed or not untold
    _run.roots.append(root)
    return own


def _observation(event: HookEvent, own: list[str], root: str) -> dict[str, Any]:
    if event.phase == "stop":
        return {"phase": "stop", "background": event.background}
    within = round(max(0.05, (_run.deadline - time.monotonic()) * _SHARE), 3)
    params = {"phase": event.phase, "within": within, **event.params}
    if event.paths is not None:
        params["paths"] = own
    if event.phase == "before":
        late = [*event.late, *(path for path in event.new if not os.path.lexists(path))]
        late = [_real(path) for path in late if _is_text(path)]
        late = [path for path in dict.fromkeys(late) if _is_below(path, root)][:_MOST_LATE]
        if late:
            params |= {"late": late, "background": event.background}
        else:  # nothing is recorded that a message could be about
            params.pop("message", None)
    return params


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
    """Whether a message can hold it: UTF-8 has no half of a surrogate pair."""
    return path.encode("utf-8", "ignore").decode() == path


def _shown(path: str) -> str:
    """A path, or the end of a long one, so that a warning has room for the reason."""
    return path if len(path) <= _LONGEST_SHOWN else "..." + path[-_LONGEST_SHOWN:]


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _result(line: bytes) -> dict[str, Any]:
    """What a reply says. Raises _Warning, _Refused."""
    if not line.endswith(b"\n"):
        is_large = len(line) > _LARGEST_REPLY
        trouble = "reply is too large" if is_large else "stet daemon closed the connection"
        raise _Warning(f"perhaps not recorded: the {trouble}")
    reply = None
    with contextlib.suppress(ValueError, RecursionError):
        reply = json.loads(line)
    if not isinstance(reply, dict):
        raise _Warning(f"{_run.verdict()}: what answers is no stet daemon")
    _run.waiting = False
    error = reply.get("error")
    if error is not None:
        not_allowed = (error.get("data") or {}).get("kind") == "workspace_not_allowed"
        raise (_NotUsed if not_allowed else _Refused)(str(error.get("message", error)))
    result: dict[str, Any] = reply["result"]
    return result


def _connect(connection: socket.socket) -> None:
    """Connect to the daemon, which is started if none answers. Raises _Warning, _NotUsed."""
    runtime = runtime_directory()
    path = socket_path(runtime, control=False)
    runs = False
    while True:
        try:
            check_private(runtime)
            connection.settimeout(_run.left())
            connection.connect(path)
            return
        except UnsafeDirectory as error:
            raise _Warning(f"{_run.verdict()}: {error}") from error
        except BlockingIOError:  # its backlog is full
            runs = True
        except (FileNotFoundError, ConnectionRefusedError):
            # Where there are no workspaces, a daemon has nothing to record.
            if not runs and not os.path.isdir(os.path.join(state_directory(), "workspaces")):
                raise _NotUsed("no stet daemon answers") from None
            if not runs and not _run.start:
                raise _Warning(f"{_run.verdict()}: no stet daemon answers") from None
        if not runs:
            # By a process that outlives this one and holds none of its pipes.
            nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
            command = [sys.executable, "-P", "-c", _START]
            os.posix_spawn(sys.executable, command, os.environ, file_actions=nothing, setsid=True)
            runs = True
        if time.monotonic() + _POLL_S > _run.deadline:
            raise _Warning(f"{_run.verdict()}: no stet daemon answers yet")
        time.sleep(_POLL_S)
