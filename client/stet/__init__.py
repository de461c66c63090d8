"""The Python client of stet: agents edit files by calls that are recorded and can be undone.

    import stet
    with stet.connect(workspace=".", session="conv-1", agent="my-agent") as s:
        r = s.patch("src/a.py", [stet.replace("old", "new", to_clipboard="c")])
        s.undo(last=1)

This package is the client. Importing it loads the standard library and msgspec at most, and that
only when something of it is used: a program like ``stet hook`` that needs little starts at once.
"""

from __future__ import annotations

from stet.version import __version__ as __version__

TYPE_CHECKING = False  # typing takes longer to import than all that `stet hook` needs
if TYPE_CHECKING:
    from typing import Any

    from stet import aio as aio
    from stet.calls import Call as Call
    from stet.errors import *  # noqa: F403 - the classes of errors.__all__
    from stet.session.blocking import Session as Session
    from stet.session.blocking import connect as connect
    from stet.session.patches import *  # noqa: F403 - what is in its __all__

#: The module of each public name that is not an error.
_HOMES = {
    "Call": "calls",
    **dict.fromkeys(("Session", "connect"), "session.blocking"),
    **dict.fromkeys(("Change", "Patch", "Reindent", "append_eof", "change"), "session.patches"),
    **dict.fromkeys(("overwrite", "prepend_bof", "replace"), "session.patches"),
}
_MODULES = frozenset({"aio", "calls", "errors"})


def __getattr__(name: str) -> Any:
    is_known = name in _MODULES or name in _HOMES or name == "__all__"
    if not is_known and not name[:1].isupper():  # errors are classes
        raise AttributeError(f"module 'stet' has no attribute {name!r}")
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"stet.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(f"stet.{_HOMES[name]}"), name)
    else:
        errors = importlib.import_module("stet.errors")
        if name == "__all__":
            value = sorted([*_HOMES, "__version__", "aio", *errors.__all__])
        elif name in errors.__all__:
            value = getattr(errors, name)
        else:
            raise AttributeError(f"module 'stet' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
