"""The output of ``stetd --show-config`` and ``--check-config``: every option and its source.

``stet config`` runs these commands, because the client must not import the daemon, and because it
must also work if the configuration keeps the daemon from starting.
"""

from __future__ import annotations

import os
from typing import Any

from stetd.config.settings import (
    NEED_RESTART,
    OPTIONS,
    ConfigurationError,
    is_in_environment,
    line_of,
    load_settings,
    read_file,
    variable_of,
)

#: Units by the suffix of an option's name.
_UNITS = {"_s": "seconds", "_bytes": "bytes", "_mb": "MiB", "_days": "days", "_frame": "bytes"}


def unit_of(name: str) -> str:
    """The unit of an option; "" for counts and choices."""
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def show(path: str, *, must_exist: bool = False) -> dict[str, Any]:
    """Every option as a daemon started now would have it. Raises ConfigurationError."""
    settings = load_settings(path, must_exist=must_exist)
    text = read_file(path)
    options = []
    for name, option in OPTIONS.items():
        line = None if is_in_environment(name) else line_of(text, name)
        in_file = "default" if line is None else "file"
        options.append(
            {
                "name": name,
                "value": getattr(settings, name),
                "default": option.default,
                "source": "environment" if is_in_environment(name) else in_file,
                "line": line,
                "variable": variable_of(name),
                "unit": unit_of(name),
                "restart": name in NEED_RESTART,
                "description": option.description,
            }
        )
    return {"path": path, "exists": os.path.exists(path), "options": options}


def check(path: str, *, must_exist: bool = False) -> dict[str, Any]:
    """The errors in the configuration, if any."""
    faults = []
    try:
        load_settings(path, must_exist=must_exist)
    except ConfigurationError as error:
        faults = [
            {"where": fault.where, "line": fault.line, "key": fault.key, "message": str(fault)}
            for fault in error.faults
        ]
    return {"path": path, "ok": not faults, "faults": faults}
