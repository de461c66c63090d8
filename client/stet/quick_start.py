"""Loads msgspec in half the time, for programs of ours that end soon or should begin soon.

msgspec takes two names from typing_extensions, if that is installed, and else from typing, which
has them as well since Python 3.11. Loading it takes as long as all the rest of msgspec. Not for
programs that use this package as a library: what they load is theirs to say.
"""

from __future__ import annotations

import importlib
import sys


def load(name: str, *, without: str) -> None:
    """Load a module that can do ``without`` another one, which stays as it is for all others."""
    if name in sys.modules or without in sys.modules:
        return
    sys.modules[without] = None  # type: ignore[assignment]
    try:
        importlib.import_module(name)
    finally:
        del sys.modules[without]


load("msgspec", without="typing_extensions")
