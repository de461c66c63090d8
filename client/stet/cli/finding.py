"""One thing that ``stet doctor`` has looked at, and how the commands that mend it are written."""

from __future__ import annotations

import os
import shlex

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """``mend``: the command that mends what is wrong; where none can, what to look at."""

    check: str
    ok: bool
    detail: str
    mend: str | None = None


def quoted(path: str) -> str:
    """A path for a shell; in single quotes, so that it is seen where it ends."""
    return f"'{path}'" if "'" not in path else shlex.quote(path)


def as_root(command: str) -> str:
    """A command that takes root."""
    return command if os.geteuid() == 0 else f"sudo {command}"
