"""``hello``: checks that the peer sees the workspace, and opens the session. And ``tools``."""

from __future__ import annotations

import asyncio
import os
import shlex
import uuid

from msgspec import UNSET

from stet.wire.failures import Kind, refuse
from stet.wire.results import HelloResult, ServerInfo, Tools, WorkspaceRef
from stetd import __version__
from stetd.editing.tools.schemas import tool_definitions
from stetd.failpoints import failpoint
from stetd.methods.caller import PROTOCOL, Caller, Params
from stetd.methods.workspaces import not_allowed
from stetd.parameters import Hello, ToolStyle, check_label, convert, invalid
from stetd.server.peer import sees, start_of
from stetd.session.sessions import Entrant
from stetd.state.state import State
from stetd.storage.journal_format import WorkspaceState
from stetd.storage.paths_on_disk import nearest_real

_SERVER = ServerInfo("stetd", __version__)


async def hello(caller: Caller, params: Params) -> HelloResult:
    """Enter a workspace, and open or resume a session."""
    protocol = params.get("protocol")
    # Checked first: the hello of another protocol may have other parameters.
    if isinstance(protocol, int) and protocol != PROTOCOL:
        raise refuse(
            Kind.UNSUPPORTED_PROTOCOL,
            f"protocol {protocol} is not spoken here; this daemon speaks: {PROTOCOL}.",
        )
    wanted = convert(Hello, "hello", params)
    check_label("the session name", wanted.session)
    check_label("the agent name", wanted.agent)
    check_label("the client's name", wanted.client.name if wanted.client else None)
    if wanted.workspace is None:
        if not caller.control:
            raise invalid("hello: workspace is required: an absolute directory.")
        caller.greeted, caller.directory = True, ""
        caller.workspace = caller.session = caller.agent = caller.secret = None
        return HelloResult(PROTOCOL, _SERVER, None, None, None)
    if not os.path.isabs(wanted.workspace) or "\0" in wanted.workspace:
        raise invalid(f"hello: workspace must be an absolute directory, not {wanted.workspace!r}.")
    path, seen = os.path.realpath(wanted.workspace), None
    if not caller.control:
        root = await caller.on_writer(lambda: _innermost(caller.state, path).root)
        # In a thread: a peer can make its mount table large, and reading it slow.
        seen = await asyncio.get_running_loop().run_in_executor(None, _check_view, caller, root)
    return await caller.on_writer(lambda: _enter(caller, wanted, path, seen))


def _innermost(state: State, path: str) -> WorkspaceState:
    """The innermost allowed workspace around a directory, opened or deferred. Raises Refused."""
    allowed = (each for each in state.known.values() if each.allowed)
    around = (each for each in allowed if f"{path}/".startswith(each.root + "/"))
    found = max(around, key=lambda each: len(each.root), default=None)
    if found is None:
        which = f"it with: stet init {shlex.quote(path)}"
        if f"{os.path.realpath(os.path.expanduser('~'))}/".startswith(os.path.join(path, "")):
            which = "a project's directory with: stet init DIR"  # home itself can't be allowed
        raise not_allowed(
            f"{path} is not an allowed workspace, nor inside one. "
            f"The person at the machine can allow {which}"
        )
    return found


def _check_view(caller: Caller, root: str) -> tuple[str, bool]:
    """Check that peer and daemon see the same directory at a root. Raises Refused.

    If the root does not exist, a peer that sees the directory above it may know that. Returns the
    root, and whether it exists.
    """
    nearest = nearest_real(root)
    if not _peer_sees(caller, nearest):
        raise not_allowed(
            f"{root} is not what this process sees at that path, so it may not edit "
            "there. A sandbox needs the whole workspace, at the path that it has outside."
        )
    return root, nearest == root


def _peer_sees(caller: Caller, directory: str) -> bool:
    """Whether the process that connected, not a later one with the same id, sees a directory."""
    failpoint("hello.looking")
    pid = caller.peer.pid
    return sees(pid, directory) and start_of(pid) == caller.peer_start != 0


def _enter(caller: Caller, hello: Hello, path: str, seen: tuple[str, bool] | None) -> HelloResult:
    """Find the workspace and open the session. ``seen``: on agent.sock, by :func:`_check_view`."""
    state = caller.state
    known = _innermost(state, path)
    changed = f"the workspaces around {path} have just changed. Say hello again."
    root, exists = seen or (known.root, True)
    if root != known.root:
        raise not_allowed(changed)
    if known.name not in state.open:
        caller.shared.workspaces.reopen(known)  # its trouble may be over
    if not os.path.isdir(path):
        raise not_allowed(f"{path} is not a directory.")
    if not exists:
        raise not_allowed(changed)
    workspace, directory = state.open[known.name], path[len(known.root) + 1 :]
    agent = hello.agent or (hello.client.name if hello.client else None)
    name = hello.session
    if name is None and not caller.control:
        name = f"s-{uuid.uuid4().hex[:12]}"
    session = None
    if name:
        who = Entrant(workspace.name, name, agent, hello.secret, caller.control)
        session = caller.shared.writer.sessions.enter(who)
    caller.workspace, caller.directory = workspace.name, directory
    caller.session, caller.secret = name, hello.secret
    caller.agent = agent or (session.agent if session else None)
    caller.greeted = True
    inside = sorted(path.rstrip("/") for path, _ in state.inside(workspace))
    shown = WorkspaceRef(workspace.root, workspace.shadow)
    mode = state.effective_mode(session, workspace)
    return HelloResult(PROTOCOL, _SERVER, shown, name, mode, inside or UNSET)


async def tools(_: Caller, wanted: ToolStyle) -> Tools:
    """Define the editing tools for a model."""
    return Tools(tool_definitions(wanted.style, api=wanted.api, custom=wanted.custom))
