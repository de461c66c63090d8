"""Which programs belong to this very installation. Nothing is started here."""

from __future__ import annotations

import os


def program_beside(python: str, name: str, module: str) -> tuple[str, ...]:
    """The program beside an interpreter, else the interpreter with the module."""
    beside = os.path.join(os.path.dirname(python), name)
    # -P: without it "-m" would put the current directory before the installed packages.
    return (beside,) if os.access(beside, os.X_OK) else (python, "-P", "-m", module)
