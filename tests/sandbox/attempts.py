"""What a hostile process in a sandbox tries; a line of JSON each: what, and what came of it.

Run inside of the sandbox with the name of a part and a JSON object of the names in
:class:`Targets`. It needs no more than Python's standard library. ``answer`` is the kind of a
refusal, the name of an error number, or what was reached: ``DONE``, ``OPENED``, ``WRITTEN``.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REMOUNT, _MS_BIND = 32, 4096


@dataclass
class Targets:
    """Absolute paths as they are outside; sessions and commits as the test made them."""

    socket: str
    workspace: str
    other: str
    elsewhere: str
    runtime: str
    state: str
    config: str
    daemon: int
    guarded: str
    commit: str
    request: str


class Connection:
    """JSON lines over agent.sock."""

    def __init__(self, targets: Targets) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(targets.socket)
        self._replies = self._socket.makefile("rb")

    def result(self, method: str, /, **params: Any) -> dict[str, Any]:
        """A reply's result. Raises AssertionError."""
        reply = self._ask(method, params)
        assert "result" in reply, reply
        return dict(reply["result"])

    def answer(self, method: str, /, **params: Any) -> str:
        """The kind of the refusal; DONE if there is none."""
        reply = self._ask(method, params)
        return str(reply["error"]["data"]["kind"]) if "error" in reply else "DONE"

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        request = {"id": 1, "method": method, "params": params}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        return dict(json.loads(self._replies.readline()))


def greeted(targets: Targets, session: str) -> Connection:
    """A connection with a session of its own in the workspace that the sandbox was given."""
    connection = Connection(targets)
    connection.result("hello", protocol=1, workspace=targets.workspace, session=session)
    return connection


def tell(tried: str, answer: str) -> None:
    """One line."""
    print(json.dumps({"tried": tried, "answer": answer}), flush=True)


def attempt(tried: str, run: Callable[[], str]) -> None:
    """Try something that may fail with an error of the system."""
    try:
        tell(tried, run())
    except OSError as error:
        tell(tried, errno.errorcode.get(error.errno or 0, str(error)))


def lift_the_restriction(targets: Targets) -> None:
    """The workspace is restricted."""
    own = greeted(targets, "sandboxed")
    patches = [{"operation": "append_eof", "newText": "x"}]
    tell("edit", own.answer("patch", path="a.txt", patches=patches))
    tell("own mode", own.answer("mode_set", mode="unrestricted"))
    tell("another's mode", own.answer("mode_set", mode="unrestricted", session="theirs"))
    tell("the workspace's mode", own.answer("mode_set", mode="unrestricted", scope="workspace"))
    tell("a grant", own.answer("mode_set", mode="unrestricted", **{"for": 60}))
    made = own._ask("request_mode_upgrade", {"reason": "please"})
    request = made.get("result", {}).get("request") or "1"
    tell("approve itself", own.answer("upgrade_decide", request=request, approve=True))
    tell("see who asks", own.answer("upgrade_list"))
    fresh = greeted(targets, "under-a-new-name")
    tell("a new name", fresh.answer("patch", path="a.txt", patches=patches))
    tell("edit after all that", own.answer("patch", path="a.txt", patches=patches))


def reach_other_workspaces(targets: Targets) -> None:
    """Another allowed one, and one that is not."""
    spellings = {
        "the other workspace": targets.other,
        "by way of its own": f"{targets.workspace}/../{os.path.basename(targets.other)}",
        "through a link in its own": f"{targets.workspace}/link",
        "a directory in the other": f"{targets.other}/deep",
        "one not allowed": targets.elsewhere,
        "the root": "/",
    }

    def hello(workspace: str) -> str:
        return Connection(targets).answer("hello", protocol=1, workspace=workspace, session="x")

    for tried, workspace in spellings.items():
        tell(f"hello: {tried}", hello(workspace))
    _imitate(targets.other)
    tell("hello: a link where it would be", hello(targets.other))
    own = greeted(targets, "sandboxed")
    for path in (f"{targets.other}/a.txt", "../other/a.txt", "link/a.txt"):
        tell(f"read {path}", own.answer("read", path=path))
    for root in ("/", targets.elsewhere, targets.workspace):
        tell(f"allow {root}", own.answer("workspace_allow", root=root))
    tell("forget", own.answer("workspace_forget", root=targets.workspace))
    tell("list", own.answer("workspace_list"))


def _imitate(path: str) -> None:
    """Put a link there that leads, where somebody else follows it, to that very path."""
    if not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(path, path)


def touch_what_others_did(targets: Targets) -> None:
    """The workspace is not restricted, so these are refused for what they are."""
    own = greeted(targets, "sandboxed")
    tell("undo by id", own.answer("undo", commits=[targets.commit]))
    tell("undo by request", own.answer("undo", request=targets.request))
    tell("undo the last", own.answer("undo"))
    tell("undo the last of theirs", own.answer("undo", session="theirs"))
    tell("rollback", own.answer("rollback", to=targets.commit))
    tell("restore", own.answer("restore", path="a.txt", at="HEAD~1"))
    hello = {"protocol": 1, "workspace": targets.workspace, "session": targets.guarded}
    tell("resume a session", Connection(targets).answer("hello", **hello))
    tell("guess its secret", Connection(targets).answer("hello", **hello, secret="guess"))
    forged = {"pid": 1, "command": "person"}
    tell("forge who it is", Connection(targets).answer("hello", **hello, peer=forged))
    patches = [{"operation": "append_eof", "newText": "x"}]
    tell("forge it in a call", own.answer("patch", path="a.txt", patches=patches, peer=forged))
    tell("forget a path", own.answer("forget", path="a.txt"))
    for method in ("gc", "verify", "snapshot", "shutdown", "session_list"):
        tell(method, own.answer(method))
    tell("pin", own.answer("pin_set", name="p", commit=targets.commit))
    tell("end a session", own.answer("session_end", session="theirs"))


def leave_the_sandbox(targets: Targets) -> None:
    """Not through the daemon: the sockets and directories themselves."""
    names = {
        "control.sock beside agent.sock": os.path.dirname(targets.socket),
        "control.sock": targets.runtime,
        "control.sock through init": f"/proc/1/root{targets.runtime}",
        "control.sock through itself": f"/proc/self/root{targets.runtime}",
        "control.sock through the daemon": f"/proc/{targets.daemon}/root{targets.runtime}",
    }
    for tried, directory in names.items():
        attempt(tried, lambda d=directory: _opened(f"{d}/control.sock"))  # type: ignore[misc]
    for prefix in ("", "/proc/1/root", f"/proc/{targets.daemon}/root"):
        where = f" through {prefix.split('/')[2]}" if prefix else ""
        attempt(f"the state{where}", lambda p=prefix: _listed(p + targets.state))  # type: ignore[misc]
        attempt(f"the configuration{where}", lambda p=prefix: _read(p + targets.config))  # type: ignore[misc]
    attempt("the runtime directory", lambda: _listed(targets.runtime))
    attempt("the other workspace", lambda: _listed(targets.other))
    attempt("write a file", lambda: _written(f"{targets.workspace}/a.txt"))
    attempt("write a hook", lambda: _written(f"{targets.workspace}/.git/hooks/x"))
    attempt("write through init", lambda: _written(f"/proc/1/root{targets.workspace}/a.txt"))
    attempt("replace the socket", lambda: _renamed(targets.socket))
    attempt("signal the daemon", lambda: _signalled(targets.daemon))
    attempt("make it writable", lambda: _remounted(targets.workspace))


def _opened(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
    return "OPENED"


def _listed(path: str) -> str:
    os.listdir(path)
    return "LISTED"


def _read(path: str) -> str:
    with open(path, "rb") as file:
        file.read()
    return "READ"


def _written(path: str) -> str:
    with open(path, "ab"):
        return "WRITTEN"


def _renamed(path: str) -> str:
    os.rename(path, path + ".old")
    return "RENAMED"


def _signalled(pid: int) -> str:
    os.kill(pid, 0)
    return "SIGNALLED"


def _remounted(path: str) -> str:
    """In a user and mount namespace of its own, where it is root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    if libc.mount(None, path.encode(), None, _MS_REMOUNT | _MS_BIND, None):
        raise OSError(ctypes.get_errno(), "mount")
    return _written(f"{path}/a.txt")


PARTS = {
    "restricted": [lift_the_restriction],
    "unrestricted": [reach_other_workspaces, touch_what_others_did, leave_the_sandbox],
}

if __name__ == "__main__":
    for part in PARTS[sys.argv[1]]:
        part(Targets(**json.loads(sys.argv[2])))
