"""From a request to its result: the methods of CONTRACT.md 3, who may call them, on what.

A :class:`Connection` lives on the event loop. What changes anything is handed to the
writer thread before the first ``await``, so the writing calls of a connection keep their
order; what only reads runs on a small pool of threads.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from stet.wire.failures import Kind, Refused, refuse
from stet.wire.results import (
    ClipboardInfo,
    ClipboardList,
    ClipboardName,
    ClipboardText,
    EditResult,
    HelloResult,
    ModeResult,
    Peer,
    ServerInfo,
    StatusResult,
    Tools,
    WorkspaceInfo,
    WorkspaceList,
    WorkspaceRef,
)
from stetd import __version__, reading
from stetd.call_planning import EDIT_METHODS
from stetd.call_world import EditCall
from stetd.config import Settings
from stetd.editing.tokens import MAX_TOKENS
from stetd.editing.tool_schemas import tool_definitions
from stetd.params import (
    ClipboardKey,
    ClipboardSetting,
    Common,
    Diff,
    Hello,
    Log,
    ModeSetting,
    NoParams,
    Read,
    Root,
    Show,
    ToolStyle,
    Undo,
    check_label,
    convert,
    not_permitted,
    split_common,
)
from stetd.reading import Place
from stetd.session.sessions import (
    MODES,
    RESTRICTED,
    Session,
    clipboard_bytes,
    hash_secret,
    secret_matches,
    stricter,
    with_clipboards,
)
from stetd.state import State, shadow_path
from stetd.storage.background import Background
from stetd.storage.journal_format import ClipboardSet, ModeSet, SessionOpened, WorkspaceState
from stetd.workspace import Workspace
from stetd.workspaces import Workspaces, check_root
from stetd.writer import Writer

PROTOCOL = 1
_BEFORE_HELLO = frozenset({"hello", "status", "tools", "shutdown"})
_CONTROL_ONLY = frozenset({"workspace_allow", "workspace_forget", "workspace_list", "shutdown"})

T = TypeVar("T")
Params = dict[str, Any]


@dataclass(slots=True)
class Handlers:
    """What all connections share."""

    writer: Writer
    background: Background
    workspaces: Workspaces
    settings: Settings
    started: float = field(default_factory=time.monotonic)
    readers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(4, thread_name_prefix="stet-read")
    )
    #: Set by the server: called when a person asks the daemon to stop.
    on_shutdown: Callable[[], None] = field(default=lambda: None)

    def connect(self, *, control: bool, pid: int, command: str) -> Connection:
        """A new connection from this process."""
        return Connection(self, control=control, peer=Peer(pid, command))

    @property
    def state(self) -> State:
        """The writer's state; only to be touched on its thread."""
        return self.writer.state

    def close(self) -> None:
        """End the reading threads."""
        self.readers.shutdown()


class Connection:
    """One client: who it is, and which workspace and session it has said hello to."""

    def __init__(self, shared: Handlers, *, control: bool, peer: Peer) -> None:
        self._shared = shared
        self._control = control
        self._peer = peer
        self._workspace: str | None = None
        self._directory = ""
        self._session: str | None = None
        self._agent: str | None = None
        self._greeted = False
        self._methods: dict[str, Callable[[Params], Awaitable[object]]] = {
            "hello": self._hello,
            "status": self._status,
            "tools": self._tools,
            "read": self._read,
            "undo": self._undo,
            "log": self._log,
            "show": self._show,
            "diff": self._diff,
            "clipboard_list": self._clipboard_list,
            "clipboard_get": self._clipboard_get,
            "clipboard_set": self._clipboard_set,
            "clipboard_delete": self._clipboard_delete,
            "mode_get": self._mode_get,
            "mode_set": self._mode_set,
            "workspace_allow": self._workspace_allow,
            "workspace_forget": self._workspace_forget,
            "workspace_list": self._workspace_list,
            "shutdown": self._shutdown,
        }

    async def call(self, method: str, params: Params) -> object:
        """Carry out a request. Raises Refused."""
        if method in EDIT_METHODS:
            self._check_greeted(method)
            return await self._edit(method, params)
        handler = self._methods.get(method)
        if handler is None:
            raise self._unknown(method)
        if method in _CONTROL_ONLY and not self._control:
            raise not_permitted(
                f"{method} is for the person at the machine: it works on control.sock only."
            )
        says_workspace = self._control and params.get("workspace") is not None
        if method not in _BEFORE_HELLO | _CONTROL_ONLY and not says_workspace:
            self._check_greeted(method)
        return await handler(params)

    def disconnected(self) -> None:
        """The client is gone. What it asked for goes on."""

    def _unknown(self, method: str) -> Refused:
        known = sorted([*EDIT_METHODS, *self._methods])
        near = difflib.get_close_matches(method, known, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return refuse(
            Kind.UNKNOWN_METHOD,
            f"there is no method {method!r}.{hint} The methods are: {', '.join(known)}.",
        )

    def _check_greeted(self, method: str) -> None:
        if not self._greeted or self._workspace is None:
            raise refuse(
                Kind.HELLO_REQUIRED,
                f"{method}: say hello with a workspace first: "
                '{"method": "hello", "params": {"protocol": 1, "workspace": "/absolute/path"}}',
            )

    async def _on_writer(self, run: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._shared.writer.submit(run))

    def _open_workspace(self) -> Workspace:
        """Give this connection's workspace; on the writer thread."""
        workspace = self._shared.state.open.get(self._workspace or "")
        if workspace is None:
            raise refuse(
                Kind.WORKSPACE_NOT_ALLOWED,
                "this workspace is no longer allowed. The person can allow it again: stet init DIR",
            )
        return workspace

    def _own_session(self) -> Session | None:
        if self._session is None:
            return None
        return self._shared.state.sessions.get((self._workspace or "", self._session))

    def _needs_session(self) -> Session:
        self._open_workspace()
        session = self._own_session()
        if session is None:
            raise refuse(
                Kind.INVALID_PARAMS,
                "this needs a session: name one in hello, e.g. session: 'conv-1'",
            )
        return session

    # -- hello, status, tools

    async def _hello(self, params: Params) -> HelloResult:
        protocol = params.get("protocol")
        # Before anything else: the hello of another protocol may have other parameters.
        is_number = isinstance(protocol, int) and not isinstance(protocol, bool)
        if is_number and protocol != PROTOCOL:
            raise refuse(
                Kind.UNSUPPORTED_PROTOCOL,
                f"protocol {protocol} is not spoken here; this daemon speaks: {PROTOCOL}.",
            )
        hello = convert(Hello, "hello", params)
        check_label("the session name", hello.session)
        check_label("the agent name", hello.agent)
        check_label("the client's name", hello.client.name if hello.client else None)
        server = ServerInfo("stetd", __version__)
        if hello.workspace is None:
            if not self._control:
                raise refuse(
                    Kind.INVALID_PARAMS, "hello: workspace is required: an absolute directory."
                )
            self._greeted, self._workspace = True, None
            return HelloResult(PROTOCOL, server, None, None, None)
        if not os.path.isabs(hello.workspace) or "\0" in hello.workspace:
            raise refuse(
                Kind.INVALID_PARAMS,
                f"hello: workspace must be an absolute directory, not {hello.workspace!r}.",
            )
        path = os.path.realpath(hello.workspace)
        return await self._on_writer(lambda: self._enter(hello, path, server))

    def _enter(self, hello: Hello, path: str, server: ServerInfo) -> HelloResult:
        """Find the workspace and open the session; on the writer thread."""
        state = self._shared.state
        found = state.find_workspace(path)
        away = state.find_unopened(path) if found is None else None
        if away is not None:  # its directory may be back
            self._shared.workspaces.allow(away.root)
            found = state.find_workspace(path)
        if found is None:
            raise refuse(
                Kind.WORKSPACE_NOT_ALLOWED,
                f"{path} is not an allowed workspace, nor inside one. "
                f"The person at the machine can allow it with: stet init {path}",
            )
        if not os.path.isdir(path):
            raise refuse(Kind.WORKSPACE_NOT_ALLOWED, f"{path} is not a directory.")
        workspace, directory = found
        agent = hello.agent or (hello.client.name if hello.client else None)
        name = hello.session
        if name is None and not self._control:
            name = f"s-{uuid.uuid4().hex[:12]}"
        session = self._open_session(workspace, name, agent, hello.secret) if name else None
        self._workspace, self._directory = workspace.name, directory
        self._session = name
        self._agent = agent or (session.agent if session else None)
        self._greeted = True
        return HelloResult(
            PROTOCOL,
            server,
            WorkspaceRef(workspace.root, workspace.shadow),
            name,
            self._shared.state.effective_mode(session, workspace),
        )

    def _open_session(
        self, workspace: Workspace, name: str, agent: str | None, secret: str | None
    ) -> Session:
        state = self._shared.state
        known = state.sessions.get((workspace.name, name))
        if known is not None:
            if not self._control and not secret_matches(known, secret):
                raise not_permitted(
                    f"session {name!r} was opened with a secret; "
                    "give the same one in hello, or choose another session name."
                )
            if agent is None or agent == known.agent:
                return known
            session = msgspec.structs.replace(known, agent=agent)
        else:
            now = int(time.time())
            session = Session(
                workspace=workspace.name,
                name=name,
                mode=stricter(self._shared.settings.default_mode, workspace.mode),
                created=now,
                last_seen=now,
                agent=agent,
                secret=hash_secret(secret, os.urandom(16)) if secret is not None else None,
            )
        self._shared.writer.record(SessionOpened(session))
        state.sessions[workspace.name, name] = session
        return session

    async def _status(self, params: Params) -> StatusResult:
        convert(NoParams, "status", params)
        if not self._control and not self._greeted:
            return StatusResult(version=__version__, protocol=PROTOCOL)
        partial = await self._on_writer(self._counts)
        shadows = await self._on_writer(
            lambda: [workspace.shadow for workspace in self._shared.state.open.values()]
        )
        loop = asyncio.get_running_loop()
        sizes = await loop.run_in_executor(
            self._shared.readers, lambda: sum(_directory_bytes(shadow) for shadow in shadows)
        )
        return msgspec.structs.replace(partial, shadow_bytes=sizes)

    def _counts(self) -> StatusResult:
        state, settings = self._shared.state, self._shared.settings
        writer = self._shared.writer
        limited = (
            "max_frame",
            "max_connections",
            "max_pipelined",
            "max_file_bytes",
            "max_clipboard_bytes",
            "frame_timeout_s",
        )
        return StatusResult(
            version=__version__,
            protocol=PROTOCOL,
            pid=os.getpid(),
            uptime_s=round(time.monotonic() - self._shared.started, 3),
            durability=settings.durability,
            read_only=writer.read_only,
            trouble=self._shared.background.failure,
            workspaces=len(state.open),
            sessions=len(state.sessions),
            commits=sum(workspace.head.commits for workspace in state.open.values()),
            journal_bytes=writer.journal.bytes,
            limits={name: int(getattr(settings, name)) for name in limited}
            | {"max_tokens": MAX_TOKENS},
            replacement={w.root: w.worktree.replacement for w in state.open.values()},
        )

    async def _tools(self, params: Params) -> Tools:
        wanted = convert(ToolStyle, "tools", params)
        return Tools(tool_definitions(wanted.style, api=wanted.api, custom=wanted.custom))

    # -- edits

    async def _edit(self, method: str, params: Params) -> EditResult:
        common, own = split_common(params)
        return await self._submit(method, own, common)

    async def _undo(self, params: Params) -> EditResult:
        common, own = split_common(params)
        undo = convert(Undo, "undo", own)
        given = [name for name in ("commits", "last", "request") if own.get(name) is not None]
        if len(given) > 1:
            raise refuse(
                Kind.INVALID_PARAMS,
                f"undo: give one of commits, last, request; not {' and '.join(given)}.",
            )
        filters = [name for name in ("session", "agent", "paths") if own.get(name) is not None]
        if given == ["request"] and "session" in filters:
            filters.remove("session")  # request ids are scoped to sessions
        if filters and given not in ([], ["last"]):
            raise refuse(
                Kind.INVALID_PARAMS,
                f"undo: {', '.join(filters)} choose among the newest edits and go with last only; "
                f"{given[0]} says already what to take back. Leave one of them out.",
            )
        if not self._control and undo.session not in (None, self._session):
            raise not_permitted(
                "an agent may take back its own edits only, those of its own session. "
                f"A person can undo others: stet undo --session {undo.session}"
            )
        own = msgspec.to_builtins(undo)
        if undo.paths:
            own["paths"] = [_below(self._directory, path) for path in undo.paths]
        return await self._submit("undo", own, common)

    async def _submit(self, method: str, own: Params, given: Params) -> EditResult:
        common = convert(Common, method, given)
        check_label("request_id", common.request_id)
        if common.message is not None and "\0" in common.message:
            raise refuse(Kind.INVALID_PARAMS, f"{method}: message can't contain NUL characters.")
        kept = {key: value for key, value in given.items() if key != "request_id"}
        canonical = msgspec.msgpack.encode([method, own, kept], order="deterministic")
        call = EditCall(
            workspace=self._workspace or "",
            method=method,
            params=own,
            session=self._session,
            directory=self._directory,
            agent=self._agent,
            peer=self._peer,
            control=self._control,
            request=common.request_id or uuid.uuid4().hex,
            retryable=common.request_id is not None,
            digest=hashlib.sha256(canonical).digest(),
            why=common.message or "",
            if_match=common.if_match,
            preview=bool(common.preview),
        )
        return await asyncio.wrap_future(self._shared.writer.submit_edit(call))

    # -- reading

    async def _reading(self, run: Callable[[Place], T]) -> T:
        """Run on a reading thread, once Git has what this client may have been told of."""
        place, number = await self._on_writer(self._place)
        background = self._shared.background

        def wait_and_run() -> T:
            background.require(number)
            return run(place)

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._shared.readers, wait_and_run)

    def _place(self) -> tuple[Place, int]:
        workspace = self._open_workspace()
        workspace.check_present()
        place = Place(
            workspace.worktree,
            workspace.shadow,
            workspace.head.commit,
            self._directory,
            self._shared.settings.max_file_bytes,
        )
        return place, workspace.number

    async def _read(self, params: Params) -> object:
        read = convert(Read, "read", params)
        return await self._reading(lambda place: reading.read_file(place, read))

    async def _log(self, params: Params) -> object:
        log = convert(Log, "log", params)
        return await self._reading(lambda place: reading.log(place, log))

    async def _show(self, params: Params) -> object:
        show = convert(Show, "show", params)
        return await self._reading(lambda place: reading.show(place, show.commit))

    async def _diff(self, params: Params) -> object:
        diff = convert(Diff, "diff", params)
        return await self._reading(lambda place: reading.diff(place, diff))

    # -- clipboards

    async def _clipboard_list(self, params: Params) -> ClipboardList:
        convert(NoParams, "clipboard_list", params)
        clipboards = await self._on_writer(lambda: self._needs_session().clipboards)
        return ClipboardList(
            [
                ClipboardInfo(name, len(text.encode()), _count_lines(text))
                for name, text in sorted(clipboards.items())
            ]
        )

    async def _clipboard_get(self, params: Params) -> ClipboardText:
        name = convert(ClipboardKey, "clipboard_get", params).name
        text = await self._on_writer(lambda: self._clipboard(name))
        return ClipboardText(name, text)

    def _clipboard(self, name: str) -> str:
        clipboards = self._needs_session().clipboards
        if name not in clipboards:
            known = ", ".join(sorted(clipboards)) or "none"
            raise refuse(
                Kind.MISSING_CLIPBOARD,
                f"there is no clipboard {name!r} in this session. Clipboards that exist: {known}.",
            )
        return clipboards[name]

    async def _clipboard_set(self, params: Params) -> ClipboardName:
        setting = convert(ClipboardSetting, "clipboard_set", params)
        check_label("the clipboard name", setting.name)
        await self._on_writer(lambda: self._set_clipboard(setting.name, setting.text))
        return ClipboardName(setting.name)

    async def _clipboard_delete(self, params: Params) -> ClipboardName:
        name = convert(ClipboardKey, "clipboard_delete", params).name

        def delete() -> None:
            self._clipboard(name)
            self._set_clipboard(name, None)

        await self._on_writer(delete)
        return ClipboardName(name)

    def _set_clipboard(self, name: str, text: str | None) -> None:
        session = self._needs_session()
        changed = with_clipboards(session, {name: text})
        size, limit = clipboard_bytes(changed.clipboards), self._shared.settings.max_clipboard_bytes
        if size > limit:
            raise refuse(
                Kind.INPUT_TOO_LARGE,
                f"the session's clipboards would hold {size:,} bytes, {limit:,} is the most.",
            )
        self._shared.writer.record(ClipboardSet(session.workspace, session.name, name, text))
        self._shared.state.sessions[session.workspace, session.name] = changed

    # -- mode

    async def _mode_get(self, params: Params) -> ModeResult:
        convert(NoParams, "mode_get", params)
        return await self._on_writer(
            lambda: self._mode_result(self._own_session(), self._open_workspace())
        )

    def _mode_result(self, session: Session | None, workspace: Workspace) -> ModeResult:
        return ModeResult(
            mode=self._shared.state.effective_mode(session, workspace),
            session_mode=session.mode if session else None,
            workspace_mode=workspace.mode,
        )

    async def _mode_set(self, params: Params) -> ModeResult:
        setting = convert(ModeSetting, "mode_set", params)
        if setting.mode not in MODES:
            raise refuse(
                Kind.INVALID_PARAMS,
                f"mode_set: mode {setting.mode!r} is none of {', '.join(MODES)}.",
            )
        if setting.scope not in (None, "session", "workspace"):
            raise refuse(
                Kind.INVALID_PARAMS, "mode_set: scope is 'session' (the default) or 'workspace'."
            )
        if not self._control:
            self._check_agent_may_set(setting)
        return await self._on_writer(lambda: self._set_mode(setting))

    def _check_agent_may_set(self, setting: ModeSetting) -> None:
        own = setting.session in (None, self._session) and setting.workspace is None
        if setting.mode != RESTRICTED or setting.scope == "workspace" or not own:
            raise not_permitted(
                "an agent may only set its own session to restricted. Use request_mode_upgrade "
                "to ask for write access; the person decides."
            )

    def _set_mode(self, setting: ModeSetting) -> ModeResult:
        state = self._shared.state
        workspace = self._named_workspace(setting.workspace)
        if setting.scope == "workspace":
            self._shared.writer.record(ModeSet(workspace.name, None, setting.mode))
            workspace.mode = setting.mode
            return self._mode_result(self._own_session(), workspace)
        name = setting.session or self._session
        session = state.sessions.get((workspace.name, name)) if name else None
        if session is None:
            raise refuse(
                Kind.INVALID_PARAMS,
                f"mode_set: there is no session {name!r} in this workspace. "
                "Name one with session, or use scope: 'workspace' for all of them.",
            )
        self._shared.writer.record(ModeSet(workspace.name, session.name, setting.mode))
        session = msgspec.structs.replace(session, mode=setting.mode)
        state.sessions[workspace.name, session.name] = session
        return self._mode_result(session, workspace)

    def _named_workspace(self, root: str | None) -> Workspace:
        """The workspace with exactly this root, by default the connection's own."""
        if root is None:
            return self._open_workspace()
        check_root(root)
        found = self._shared.state.find_workspace(os.path.realpath(root))
        # A directory inside is not enough: to forget one would forget all around it.
        if found is None or found[1]:
            raise refuse(
                Kind.WORKSPACE_NOT_ALLOWED,
                f"{root} is not an allowed workspace. `workspace_list` lists those that are.",
            )
        return found[0]

    # -- workspaces and the daemon

    async def _workspace_allow(self, params: Params) -> WorkspaceInfo:
        root = convert(Root, "workspace_allow", params).root
        return await self._on_writer(lambda: _workspace_info(self._shared.workspaces.allow(root)))

    async def _workspace_forget(self, params: Params) -> WorkspaceInfo:
        root = convert(Root, "workspace_forget", params).root

        def forget() -> WorkspaceInfo:
            check_root(root)
            away = self._shared.state.find_unopened(os.path.realpath(root))
            if away is not None and away.root == os.path.realpath(root):
                self._shared.workspaces.forget_unopened(away)
                return self._unopened_info(away)
            workspace = self._named_workspace(root)
            info = _workspace_info(workspace)
            self._shared.workspaces.forget(workspace)
            return info

        return await self._on_writer(forget)

    async def _workspace_list(self, params: Params) -> WorkspaceList:
        convert(NoParams, "workspace_list", params)
        state = self._shared.state
        infos = await self._on_writer(
            lambda: [
                *map(_workspace_info, state.open.values()),
                *map(self._unopened_info, state.unopened()),
            ]
        )
        return WorkspaceList(sorted(infos, key=lambda info: info.root))

    def _unopened_info(self, known: WorkspaceState) -> WorkspaceInfo:
        shadow = shadow_path(self._shared.state.directory, known.name)
        return WorkspaceInfo(known.root, shadow, known.mode, known.head, known.commits)

    async def _shutdown(self, params: Params) -> dict[str, bool]:
        convert(NoParams, "shutdown", params)
        self._shared.on_shutdown()
        return {"stopping": True}


def _workspace_info(workspace: Workspace) -> WorkspaceInfo:
    return WorkspaceInfo(
        workspace.root,
        workspace.shadow,
        workspace.mode,
        workspace.head.commit,
        workspace.head.commits,
    )


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def _below(directory: str, path: str) -> str:
    return path if path.startswith("/") else os.path.normpath(os.path.join(directory, path))


def _directory_bytes(path: str) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
