"""Which directories are workspaces: the person's choice."""

from __future__ import annotations

import os

from stet.wire.results import WorkspaceInfo, WorkspaceList
from stetd.methods.caller import Caller, Method, Params
from stetd.methods.registry import check_root
from stetd.session.modes import Standing, mode_at
from stetd.state.state import shadow_path
from stetd.state.workspace import Workspace
from stetd.storage.journal_format import WorkspaceState
from stetd.transaction.parameters import NoParams, Root, convert


async def _workspace_allow(caller: Caller, params: Params) -> WorkspaceInfo:
    root = convert(Root, "workspace_allow", params).root
    return await caller.on_writer(
        lambda: _workspace_info(caller, caller.shared.workspaces.allow(root))
    )


async def _workspace_forget(caller: Caller, params: Params) -> WorkspaceInfo:
    root = convert(Root, "workspace_forget", params).root

    def forget() -> tuple[str, WorkspaceInfo]:
        check_root(root)
        put_off = caller.state.find_unopened(os.path.realpath(root))
        if put_off is not None and put_off.root == os.path.realpath(root):
            info = _unopened_info(caller, put_off)
            caller.shared.workspaces.forget_unopened(put_off)
            return put_off.name, info
        workspace = caller.named_workspace(root)
        info = _workspace_info(caller, workspace)
        caller.shared.workspaces.forget(workspace)
        return workspace.name, info

    name, info = await caller.on_writer(forget)
    caller.shared.watched.pop(name, None)
    return info


async def _workspace_list(caller: Caller, params: Params) -> WorkspaceList:
    convert(NoParams, "workspace_list", params)
    state = caller.state
    infos = await caller.on_writer(
        lambda: [
            *(_workspace_info(caller, workspace) for workspace in state.open.values()),
            *(_unopened_info(caller, known) for known in state.unopened()),
        ]
    )
    return WorkspaceList(sorted(infos, key=lambda info: info.root))


def _unopened_info(caller: Caller, known: WorkspaceState) -> WorkspaceInfo:
    shadow = shadow_path(caller.state.directory, known.name)
    mode = mode_at(Standing(known.mode, known.grant), caller.state.now())
    trouble = caller.state.troubles.get(known.name)
    return WorkspaceInfo(known.root, shadow, mode, known.head, known.commits, trouble)


def _workspace_info(caller: Caller, workspace: Workspace) -> WorkspaceInfo:
    return WorkspaceInfo(
        workspace.root,
        workspace.shadow,
        caller.state.workspace_mode(workspace),
        workspace.head.commit,
        workspace.head.commits,
    )


METHODS = {
    "workspace_allow": Method(_workspace_allow, before_hello=True, control=True),
    "workspace_forget": Method(_workspace_forget, before_hello=True, control=True),
    "workspace_list": Method(_workspace_list, before_hello=True, control=True),
}
