"""Loads msgspec in half the time, for stet's own programs; they must start fast.

msgspec takes two names from typing_extensions if that is installed, else from typing, which has
them since Python 3.11. Loading typing_extensions takes as long as all the rest of msgspec. It needs
uuid, which asks platform for the system's name; platform compiles nine patterns when it is loaded.
Programs that use this package as a library decide themselves what they load, so nothing is done
there.
"""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace


def load(name: str, *, without: str, instead: object = None) -> None:
    """Load a module while it gets ``instead`` for another one, or can't import that if it is None:
    ``without`` it the module works, too.
    """
    if name in sys.modules or without in sys.modules:
        return
    sys.modules[without] = instead  # type: ignore[assignment]
    try:
        importlib.import_module(name)
    finally:
        del sys.modules[without]


load("uuid", without="platform", instead=SimpleNamespace(system=lambda: "Linux"))
load("msgspec", without="typing_extensions")
