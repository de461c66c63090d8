"""stet: let an agent edit, and let what it did stand or be taken back, one call at a time.

    import stet
    with stet.connect(workspace=".", session="conv-1", agent="my-agent") as s:
        r = s.patch("src/a.py", [stet.replace("old", "new", to_clipboard="c")])
        s.undo(last=1)

This package is the client. Importing it loads the standard library and msgspec only;
``stet.aio``, the same for asyncio, is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stet.calls import Call
from stet.changes import Change, change
from stet.errors import *  # noqa: F403 - the classes of errors.__all__
from stet.errors import __all__ as _errors
from stet.patches import Patch, Reindent, append_eof, overwrite, prepend_bof, replace
from stet.session import Session, connect
from stet.version import __version__

if TYPE_CHECKING:
    from stet import aio

__all__ = [
    "Call",
    "Change",
    "Patch",
    "Reindent",
    "Session",
    "__version__",
    "aio",
    "append_eof",
    "change",
    "connect",
    "overwrite",
    "prepend_bof",
    "replace",
    *_errors,
]


def __getattr__(name: str) -> Any:
    # asyncio costs more to import than everything else here together.
    if name == "aio":
        import importlib

        return importlib.import_module("stet.aio")
    raise AttributeError(f"module 'stet' has no attribute {name!r}")
