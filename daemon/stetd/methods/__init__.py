"""The table of methods (docs/rights.md): parameters, rights and function of each."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from stet.wire import results
from stet.wire.failures import Kind, Refused, refuse
from stetd import parameters as takes
from stetd.methods import (
    daemon,
    editing,
    greeting,
    history,
    modes,
    observing,
    sessions,
    upkeep,
    workspaces,
)
from stetd.methods.caller import Caller, Params, Shared
from stetd.planning.calls import EDIT_METHODS
from stetd.planning.world import OBSERVE
from stetd.server.connection import ClientConnection
from stetd.server.peer import PeerProcess

Run = Callable[[Caller, Any], Awaitable[object]]


#: What the connection must have sent before: nothing; a hello, even without a workspace; a hello
#: with a workspace (on control.sock the parameter ``workspace`` is enough).
Needs = Literal["nothing", "hello", "workspace"]


class Method(msgspec.Struct, frozen=True):
    """A method and its rights. The writer checks the mode, when the call's turn comes.

    ``takes``: the type of its parameters; None: the function converts them itself. ``control``: on
    control.sock only.
    """

    run: Run
    takes: type[takes.Params] | None = takes.NoParams
    needs: Needs = "workspace"
    control: bool = False


def _queued(run: Callable[[Caller, Any], object], *, after_all: bool = False) -> Run:
    """A method that runs between batches, after the earlier calls of its client, or of all."""

    async def runs(caller: Caller, params: object) -> object:
        return await caller.on_writer(lambda: run(caller, params), after_all=after_all)

    return runs


def _asks(question: str, answer: type) -> Run:
    """A method that the historian answers."""

    async def run(caller: Caller, params: object) -> object:
        return await caller.ask(question, params, answer)

    return run


_AGENTS: dict[str, Method] = {
    "hello": Method(greeting.hello, None, "nothing"),
    "tools": Method(greeting.tools, takes.ToolStyle, "nothing"),
    "status": Method(daemon.status, needs="nothing"),
    "subscribe": Method(daemon.subscribe, takes.Subscribe, "hello"),
    **{name: Method(editing.edit(name), None) for name in sorted(EDIT_METHODS)},
    "undo": Method(editing.edit("undo", takes.Undo, editing.check_undo), None),
    "redo": Method(editing.edit("redo", takes.Redo), None),
    "rollback": Method(editing.edit("rollback", takes.Rollback, editing.check_rollback), None),
    "restore": Method(editing.edit("restore", takes.Restore), None),
    OBSERVE: Method(observing.observe, None),
    "read": Method(history.read, takes.Read),
    "log": Method(_asks("log", results.LogResult), takes.Log),
    "show": Method(_asks("show", results.ShowResult), takes.Show),
    "diff": Method(_asks("diff", results.DiffResult), takes.Diff),
    "blame": Method(_asks("blame", results.BlameResult), takes.Blame),
    "export": Method(history.export, takes.Export),
    "pin_list": Method(lambda caller, _: caller.ask("pins", None, results.PinList)),
    "clipboard_list": Method(_queued(sessions.clipboard_list)),
    "clipboard_get": Method(_queued(sessions.clipboard_get), takes.ClipboardKey),
    "clipboard_set": Method(_queued(sessions.clipboard_set), takes.ClipboardSetting),
    "clipboard_delete": Method(_queued(sessions.clipboard_delete), takes.ClipboardKey),
    "mode_get": Method(_queued(modes.mode_get)),
    "mode_set": Method(modes.mode_set, takes.ModeSetting),
    "request_mode_upgrade": Method(modes.request_mode_upgrade, takes.UpgradeAsking),
}
_PERSONS: dict[str, Method] = {
    "session_list": Method(_queued(sessions.session_list), takes.OneWorkspace, "hello"),
    "session_end": Method(_queued(sessions.session_end, after_all=True), takes.SessionEnding),
    "upgrade_list": Method(_queued(modes.upgrade_list), takes.UpgradeListing, "hello"),
    "upgrade_decide": Method(_queued(modes.upgrade_decide), takes.UpgradeDeciding, "hello"),
    "pin_set": Method(history.pin_set, takes.PinSetting),
    "pin_delete": Method(_queued(history.pin_delete), takes.PinName),
    "verify": Method(history.verify, takes.Verify),
    "forget": Method(upkeep.forget, takes.Forget),
    "gc": Method(upkeep.gc, takes.OneWorkspace),
    "snapshot": Method(upkeep.snapshot, takes.TakeSnapshot),
    "workspace_allow": Method(workspaces.workspace_allow, takes.Root, "nothing"),
    "workspace_forget": Method(_queued(workspaces.workspace_forget), takes.Root, "nothing"),
    "workspace_list": Method(_queued(workspaces.workspace_list), needs="nothing"),
    "reload": Method(daemon.reload, needs="nothing"),
    "shutdown": Method(daemon.shutdown, needs="nothing"),
}
#: Every method there is, by its name.
METHODS: Mapping[str, Method] = {
    **_AGENTS,
    **{name: replace(method, control=True) for name, method in _PERSONS.items()},
}


class Requests(Caller):
    """Carries out the requests of one client."""

    async def call(self, name: str, params: Params) -> object:
        """Carry out a request. Raises Refused."""
        method = METHODS.get(name)
        if method is None:
            near = difflib.get_close_matches(name, METHODS, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            known = ", ".join(sorted(METHODS))
            raise refuse(
                Kind.UNKNOWN_METHOD, f"there is no method {name!r}.{hint} The methods are: {known}."
            )
        if method.control and not self.control:
            raise takes.not_permitted(
                f"{name} is for the person at the machine: it works on control.sock only."
            )
        says_workspace = self.control and params.get("workspace") is not None
        if method.needs == "workspace" and self.workspace is None and not says_workspace:
            raise _hello_first(name)
        wanted = params if method.takes is None else takes.convert(method.takes, name, params)
        if method.needs == "hello" and not (self.greeted or says_workspace):
            raise _hello_first(name)
        return await method.run(self, wanted)


class Handlers(Shared):
    """Makes what carries out the requests of each connection."""

    def connect(self, *, control: bool, peer: PeerProcess, client: ClientConnection) -> Requests:
        """What carries out the requests of a new connection."""
        caller = Requests(self, control, results.Peer(peer.pid, peer.command), peer.start, client)
        self.callers.add(caller)
        return caller


def _hello_first(name: str) -> Refused:
    return refuse(
        Kind.HELLO_REQUIRED,
        f"{name}: say hello with a workspace first: "
        '{"method": "hello", "params": {"protocol": 1, "workspace": "/absolute/path"}}',
    )
