"""What each method sends and gets back: one pure function per method of CONTRACT.md 3.

The sessions, :class:`stet.Session` and :class:`stet.aio.AsyncSession`, make their methods out of
these functions, so names, parameters, defaults and documentation stand here only.

Shared by all: a parameter that is None is not sent. Paths are relative to the session's
directory or absolute; in results they are relative to the workspace root. Commits are a
full id, a unique prefix of at least 4 digits, ``HEAD`` or ``HEAD~n``. Lines count from 1,
list indexes from 0. Whatever the daemon refuses is raised as a subclass of
:class:`stet.errors.StetError`.
"""

from __future__ import annotations

from stet.calls.call import Call, IfMatch
from stet.calls.editing import (
    apply_patch,
    observe,
    patch,
    patch_block,
    patch_file,
    redo,
    restore,
    rollback,
    transaction,
    undo,
)
from stet.calls.history import (
    blame,
    diff,
    export,
    forget,
    gc,
    log,
    pin_delete,
    pin_list,
    pin_set,
    read,
    show,
    snapshot,
    verify,
)
from stet.calls.service import (
    reload,
    request,
    shutdown,
    status,
    subscribe,
    tools,
    workspace_allow,
    workspace_forget,
    workspace_list,
)
from stet.calls.sessions import (
    clipboard_delete,
    clipboard_get,
    clipboard_list,
    clipboard_set,
    mode_get,
    mode_set,
    request_mode_upgrade,
    session_end,
    session_list,
    upgrade_decide,
    upgrade_list,
)

__all__ = [
    "Call",
    "IfMatch",
    "apply_patch",
    "blame",
    "clipboard_delete",
    "clipboard_get",
    "clipboard_list",
    "clipboard_set",
    "diff",
    "export",
    "forget",
    "gc",
    "log",
    "mode_get",
    "mode_set",
    "observe",
    "patch",
    "patch_block",
    "patch_file",
    "pin_delete",
    "pin_list",
    "pin_set",
    "read",
    "redo",
    "reload",
    "request",
    "request_mode_upgrade",
    "restore",
    "rollback",
    "session_end",
    "session_list",
    "show",
    "shutdown",
    "snapshot",
    "status",
    "subscribe",
    "tools",
    "transaction",
    "undo",
    "upgrade_decide",
    "upgrade_list",
    "verify",
    "workspace_allow",
    "workspace_forget",
    "workspace_list",
]
