"""A real daemon process with directories of its own, and clients that speak the raw wire.

What lives here: starting and ending a daemon by its process id, a client made of
`stet.wire` and a socket only (so that nothing of the client library hides what is on the wire),
and the picture of everything that a refused call must leave alone. No assertions about methods.

Directories are short and under /tmp because a socket's path has 107 bytes at most.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.forking import ForkedProcess
from stet.wire.framing import UNLIMITED_FRAME, Encoding, Framer, enclose
from stet.wire.messages import Answer, ErrorObject, decode_answer, decode_result
from stet.wire.messages import encode_request as encode

BOTH = [Encoding.JSON, Encoding.MSGPACK]
PATIENCE_S = 60.0


class Refusal(Exception):
    """The daemon answered with an error."""

    def __init__(self, error: ErrorObject) -> None:
        super().__init__(f"{error.data.get('kind')}: {error.message}")
        self.code = error.code
        self.message = error.message
        self.data = error.data
        self.kind: str = error.data["kind"]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Every failure that the error lists."""
        return list(self.data["failures"])


class ConnectionEnded(Exception):
    """The daemon closed the connection."""


class Client:
    """One connection, requests and replies as they are on the wire."""

    def __init__(self, path: str, encoding: Encoding = Encoding.JSON) -> None:
        self.encoding = encoding
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self._framer = Framer(UNLIMITED_FRAME, encoding)
        self._numbers = 0
        #: Replies that came while another was waited for.
        self._early: list[Answer] = []

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Send anything at all."""
        self.socket.sendall(data)

    def send(self, method: str, /, **params: Any) -> int:
        """Send a request without waiting for its reply; its id."""
        self._numbers += 1
        self.send_bytes(self.frame(method, self._numbers, params))
        return self._numbers

    def frame(self, method: str, id: str | int | None, params: object) -> bytes:  # noqa: A002
        """A request's frame."""
        return enclose(self.encoding, encode(self.encoding, id, method, params))

    def receive(self) -> Answer:
        """The next reply. Raises ConnectionEnded."""
        return self._early.pop(0) if self._early else self._receive()

    def _receive(self) -> Answer:
        reply = self.next()
        assert not reply.is_event, "nobody has subscribed to anything"
        return reply

    def next(self) -> Answer:
        """The next message. Raises ConnectionEnded."""
        while (frame := self._framer.next_frame()) is None:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError as error:
                raise ConnectionEnded from error
            if not data:
                raise ConnectionEnded
            self._framer.feed(data)
        return decode_answer(self.encoding, frame)

    def is_silent(self) -> bool:
        """Whether nothing has come that was not received yet."""
        poll = select.poll()  # select(2) knows no descriptor beyond 1023
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def until_begun(self) -> None:
        """Wait until the daemon has begun all that was sent to it; begun calls are queued.

        That bytes were read is not enough: a large frame may wait to be decoded.
        """
        number = self.send("none of the methods")  # is refused when it is begun
        while (reply := self._receive()).id != number:
            self._early.append(reply)

    def result_of(self, reply: Answer) -> dict[str, Any]:
        """What a reply says. Raises Refusal."""
        if reply.error is not None:
            raise Refusal(reply.error)
        result: dict[str, Any] = decode_result(self.encoding, reply.result, dict[str, Any])
        return result

    def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        """One request and its result. Raises Refusal, ConnectionEnded."""
        number = self.send(method, **params)
        reply = self.receive()
        assert reply.id == number
        return self.result_of(reply)

    def refusal(self, method: str, /, **params: Any) -> Refusal:
        """One request that must be refused."""
        try:
            result = self.call(method, **params)
        except Refusal as refusal:
            return refusal
        raise AssertionError(f"{method} was not refused but gave {result}")

    # -- calls that most tests need

    def replace(self, path: str, old: str, new: str, **more: Any) -> dict[str, Any]:
        """A patch call with one replacement."""
        patches = [{"operation": "replace", "oldText": old, "newText": new}]
        return self.call("patch", path=path, patches=patches, **more)

    def overwrite(self, path: str, text: str, **more: Any) -> dict[str, Any]:
        """A patch call that writes a whole file."""
        patches = [{"operation": "overwrite", "newText": text}]
        return self.call("patch", path=path, patches=patches, **more)

    def move(self, old: str, new: str, *hunk: str) -> dict[str, Any]:
        """An apply_patch call that moves a file, and perhaps changes lines in it."""
        return self.call(
            "apply_patch", input=envelope(f"*** Update File: {old}", f"*** Move to: {new}", *hunk)
        )

    def delete(self, path: str) -> dict[str, Any]:
        """An apply_patch call that deletes a file."""
        return self.call("apply_patch", input=envelope(f"*** Delete File: {path}"))


class DaemonProcess:
    """One daemon on private directories, which outlive a restart.

    ``settings`` are the lines of its configuration file; ``environment`` comes on top of ours,
    without any STET_* or GIT_* variable. It is forked from a process that has loaded it
    (:mod:`e2e.forking`), and started as `python -m stetd.cli` only if it has an environment of its
    own: what that does to an interpreter is to be seen.
    """

    def __init__(
        self, settings: Mapping[str, object] | None = None, environment: Mapping[str, str] = {}
    ) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="stet-e2e-", dir="/tmp"))
        self.state = self.base / "s"
        self.runtime = self.base / "r"
        config = self.base / "c.toml"
        # No notices on the desktop of whoever runs the tests.
        lines = {"log_level": '"warning"', "notify": "false", **(settings or {})}
        config.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("STET_", "GIT_"))
        }
        self.environment = {
            **inherited,
            **environment,
            "STET_RUNTIME_DIR": str(self.runtime),
            "STET_STATE_DIR": str(self.state),
            "STET_CONFIG": str(config),
        }
        self._forked = not environment
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._clients: list[Client] = []

    # -- life

    def start(self, **environment: str) -> None:
        """Start it and wait until it answers. ``environment``: for this life only."""
        assert self._process is None, "this daemon is running"
        self._process = self._started({**self.environment, **environment})
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, f"the daemon did not start:\n{self.log()}"
            try:
                client = Client(str(self.runtime / "agent.sock"))
            except OSError:
                time.sleep(0.01)
                continue
            try:
                client.call("status")
            except ConnectionEnded:
                continue
            finally:
                client.close()
            return
        raise AssertionError(f"the daemon does not answer:\n{self.log()}")

    def _started(self, environment: dict[str, str]) -> subprocess.Popen[bytes] | ForkedProcess:
        if self._forked:
            return ForkedProcess(environment, self.base / "log", self.base)
        with (self.base / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "stetd.cli"],
                env=environment,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.base,
            )

    @property
    def process(self) -> subprocess.Popen[bytes] | ForkedProcess:
        """The running process."""
        assert self._process is not None, "this daemon is not running"
        return self._process

    def wait(self) -> int:
        """Wait for its end; the exit status (negative: the signal)."""
        status = self.process.wait(PATIENCE_S)
        self._process = None
        return status

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.wait()

    def restart(self, **environment: str) -> None:
        """End it in good order and start it on the same state."""
        assert self.stop() == 0, self.log()
        self.start(**environment)

    def close(self) -> None:
        """End it however it is, and remove its directories."""
        for client in self._clients:
            client.close()
        if self._process is not None:
            self.kill()
        _removed(self.base)

    def log(self) -> str:
        """What it wrote to standard error."""
        return (self.base / "log").read_text(errors="replace")

    # -- clients

    def agent(self, encoding: Encoding = Encoding.JSON) -> Client:
        """A connection to agent.sock."""
        return self._connected("agent.sock", encoding)

    def control(self, encoding: Encoding = Encoding.JSON) -> Client:
        """A connection to control.sock."""
        return self._connected("control.sock", encoding)

    def _connected(self, name: str, encoding: Encoding) -> Client:
        client = Client(str(self.runtime / name), encoding)
        self._clients.append(client)
        return client

    def site(
        self, name: str, *, session: str = "conv-1", encoding: Encoding = Encoding.JSON
    ) -> Site:
        """A new allowed workspace with a session in it."""
        root = self.base / name
        root.mkdir()
        self.control().call("workspace_allow", root=str(root))
        return Site(self, root, session, encoding)


@contextmanager
def running(
    settings: Mapping[str, object] | None = None,
    environment: Mapping[str, str] = {},
    /,
    **once: str,
) -> Iterator[DaemonProcess]:
    """A daemon that is started, and removed at the end however it is then.

    ``once``: environment of its first life only.
    """
    daemon = DaemonProcess(settings, environment)
    try:
        daemon.start(**once)
        yield daemon
    finally:
        daemon.close()


@contextmanager
def faultless(
    settings: Mapping[str, object] | None = None, environment: Mapping[str, str] = {}
) -> Iterator[DaemonProcess]:
    """A running daemon that must end in good order, and have had nothing to complain of."""
    with running(settings, environment) as daemon:
        yield daemon
        assert daemon.stop() == 0, daemon.log()
        log = daemon.log()
        assert not log, log


def _removed(directory: Path) -> None:
    """A historian may still write for a moment after its engine was killed."""
    for _ in range(100):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.05)
    shutil.rmtree(directory)


class Site:
    """A workspace, an agent's session in it, and the person beside it."""

    def __init__(
        self, daemon: DaemonProcess, root: Path, session: str, encoding: Encoding = Encoding.JSON
    ) -> None:
        self.daemon = daemon
        self.root = root
        self.session = session
        self.encoding = encoding
        self.connect()

    def connect(self) -> None:
        """Say hello anew on all connections (after a restart)."""
        self.agent = self.greeted(self.daemon.agent(self.encoding), session=self.session)
        self.person = self.greeted(self.daemon.control(self.encoding))
        self._watcher = self.greeted(self.daemon.agent(), session=self.session)

    def greeted(self, client: Client, **more: Any) -> Client:
        """The client after its hello in this workspace."""
        hello = {"protocol": 1, "workspace": str(self.root), "agent": "tester", **more}
        self.shadow = client.call("hello", **hello)["workspace"]["shadow"]
        return client

    def another(self, session: str, **more: Any) -> Client:
        """An agent in another session of the same workspace."""
        client = self.daemon.agent(self.encoding)
        return self.greeted(client, session=session, **more)

    def restart(self, **environment: str) -> None:
        """End the daemon in good order, start it again, say hello."""
        self.daemon.restart(**environment)
        self.connect()

    def crash(self, **environment: str) -> None:
        """Kill the daemon, start it again, say hello."""
        self.daemon.kill()
        self.daemon.start(**environment)
        self.connect()

    # -- files

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> Path:
        """Write a file as a person would, beside the daemon."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(mode)
        return file

    def bytes_of(self, path: str) -> bytes:
        """A file's content."""
        return (self.root / path).read_bytes()

    # -- calls that most tests need

    def replace(self, path: str, old: str, new: str, **more: Any) -> dict[str, Any]:
        """A patch call with one replacement, by the agent."""
        return self.agent.replace(path, old, new, **more)

    def overwrite(self, path: str, text: str, **more: Any) -> dict[str, Any]:
        """A patch call that writes a whole file, by the agent."""
        return self.agent.overwrite(path, text, **more)

    def log(self, **params: Any) -> list[dict[str, Any]]:
        """The commits, newest first, as the person sees them."""
        commits: list[dict[str, Any]] = self.person.call("log", **params)["commits"]
        return commits

    def ids(self, **params: Any) -> list[str]:
        """The ids of the commits that the log has, newest first."""
        return [each["commit"] for each in self.log(**params)]

    def kinds(self, **params: Any) -> list[str]:
        """Their kinds."""
        return [each["kind"] for each in self.log(**params)]

    def git(self, *arguments: str) -> str:
        """What plain git says about the shadow repository, once it is written."""
        self.once_written()
        return git(self.shadow, *arguments)

    def fsck(self) -> str:
        """What plain git finds wrong with the shadow repository, once it is written.

        Of one that is written meanwhile it would complain: a pack that it has just listed may have
        been joined to another.
        """
        self.once_written()
        return fsck(self.shadow)

    def once_written(self) -> None:
        """Wait until everything that the daemon knows is in Git, and in the index."""
        deadline = time.monotonic() + 60
        while True:
            try:
                self.person.call("log", limit=1)
                return
            except Refusal as refusal:  # on a machine with much other work: not yet
                if refusal.kind != "overloaded" or time.monotonic() > deadline:
                    raise

    def picture(self) -> Picture:
        """Everything that a refused call must leave as it is."""
        clipboards = self._watcher.call("clipboard_list")["clipboards"]
        texts = {
            each["name"]: self._watcher.call("clipboard_get", name=each["name"])["text"]
            for each in clipboards
        }
        everything = self.person.call("workspace_list")["workspaces"]
        [own] = [each for each in everything if each["root"] == str(self.root)]
        return Picture(
            files=files_below(self.root),
            clipboards=texts,
            mode=self._watcher.call("mode_get"),
            head=own["head"],
            commits=own["commits"],
            workspaces=sorted(each["root"] for each in everything),
            sessions=self.person.call("status")["sessions"],
        )


@dataclass(frozen=True)
class Picture:
    """What may not change by a refused call; two of them are compared whole."""

    files: dict[str, tuple[int, int, bytes]]
    clipboards: dict[str, str]
    mode: dict[str, Any]
    head: str | None
    commits: int
    workspaces: list[str]
    sessions: int


def envelope(*lines: str) -> str:
    """The input of an apply_patch call."""
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def files_below(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Path to mode, time of last change and content, directories and links included.

    A directory's time tells whether a name in it was made or removed, even for a moment.
    """
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        info = path.lstat()
        content = b""
        if stat.S_ISREG(info.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(info.st_mode):
            content = os.fsencode(os.readlink(path))
        found[str(path.relative_to(root))] = (info.st_mode, info.st_mtime_ns, content)
    return found


def git(shadow: str | Path, *arguments: str) -> str:
    """Run plain git on a shadow repository, untouched by the user's own configuration."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", "--git-dir", str(shadow), *arguments],
        env={**clean, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="surrogateescape")


def fsck(shadow: str | Path) -> str:
    """What ``git fsck --strict`` complains about; nothing, if all is well.

    Dangling objects are no fault, and reported on standard output only with --dangling.
    """
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", "--git-dir", str(shadow), "fsck", "--strict", "--no-progress"],
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = "".join(
        line
        for line in (done.stdout + done.stderr).splitlines(keepends=True)
        if not line.startswith(("dangling ", "notice: "))
    )
    return complaints if done.returncode == 0 else f"exit {done.returncode}: {complaints}"


def eventually(holds: Callable[[], object]) -> bool:
    """Whether something comes to hold; what hangs ends with this."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def once_reached(trace: Path, point: str, times: int = 1) -> None:
    """Wait until a daemon's STET_FAILPOINT_TRACE has a failpoint so often."""

    def is_there() -> bool:
        return trace.exists() and trace.read_text().splitlines().count(point) >= times

    assert eventually(is_there), point


class Gate:
    """A failpoint (``name``, or ``name:3``) at which a daemon waits until it is let through."""

    def __init__(self, directory: Path, point: str) -> None:
        self._point = point
        self._trace, self._open = directory / "trace", directory / "open"
        #: For the daemon.
        self.environment = {
            "STET_FAILPOINT": f"{point}@until={self._open}",
            "STET_FAILPOINT_TRACE": str(self._trace),
        }

    def once_reached(self) -> None:
        """Wait until the daemon is there."""
        name, _, times = self._point.partition(":")
        once_reached(self._trace, name, int(times or 1))

    def open(self) -> None:
        """Let it go on."""
        self._open.touch()
