"""Values that the command line accepts, and the error for wrong usage."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

#: Shells that can be completed for.
SHELLS = ("bash", "zsh", "fish")
CLIENTS = ("claude-code", "codex", "gemini", "cursor", "vscode", "zed", "opencode", "qwen-code")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Arguments(SimpleNamespace):
    """The parsed arguments. Not an argparse.Namespace, which would load argparse."""

    def given(self, *names: str) -> dict[str, Any]:
        """These arguments as a call's parameters of the same names; None for an empty list."""
        return {name: None if (value := getattr(self, name)) == [] else value for name in names}


class UsageError(Exception):
    """The command line or the input is invalid: exit status 2."""


def duration(text: str) -> float:
    """Seconds of ``90s``, ``30m``, ``2h``, ``1d``, ``1w``. Raises ArgumentTypeError."""
    number, unit = text[:-1], text[-1:]
    if unit in UNITS and number.isascii() and number.isdigit() and int(number[:12]):
        return float(int(number[:12]) * UNITS[unit])
    import argparse  # which replaces the message of a ValueError

    raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90s, 30m, 2h or 1d")


def columns() -> int:
    """The terminal's width in columns, as shutil finds it; shutil itself loads slowly."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80
