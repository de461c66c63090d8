"""Loads msgspec in half the time, for stet's own programs; they must start fast.

msgspec takes two names from typing_extensions if that is installed, else from typing, which has
them since Python 3.11. Loading typing_extensions takes as long as all the rest of msgspec. Programs
that use this package as a library decide themselves what they load, so nothing is done there.
"""

from __future__ import annotations

import importlib
import sys


def load(name: str, *, without: str) -> None:
    """Load a module while it can't import another one, ``without`` which it works, too."""
    if name in sys.modules or without in sys.modules:
        return
    sys.modules[without] = None  # type: ignore[assignment]
    try:
        importlib.import_module(name)
    finally:
        del sys.modules[without]


load("msgspec", without="typing_extensions")
