"""Makes the unit files of the service from the shipped templates.

The templates ``stetd.socket``, ``stetd.service`` and ``hardened.conf`` are in ``systemd/`` of a
checkout and in ``stet/units/`` of a wheel. They are working units, for packagers. An installed unit
begins with MARKER and names the program and its directories, because a service does not have the
environment of the shell that installed it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence

from stet.errors import StetError
from stet.service.socket_path import config_home
from stet.service.spawn import Endpoint

SOCKET = "stetd.socket"
SERVICE = "stetd.service"
NAMES = (SOCKET, SERVICE)
#: The drop-in that hardens the service, relative to the directory of the units.
HARDENED = "stetd.service.d/hardened.conf"

#: The first line of every installed unit; units without it are not changed or removed.
MARKER = "# Written by: stet service install. Removed by: stet service uninstall."

#: Characters that systemd refuses in the path of a program, even in quotes.
_UNUSABLE = re.compile(r"[\x00-\x1f\x7f\"'\\]")


class UnusablePath(StetError):
    """A path that can't be written in a unit file."""


def units_directory() -> str:
    """The directory of a user's own units for ``systemd --user``."""
    return os.path.join(config_home(os.environ), "systemd", "user")


def unit_path(name: str) -> str:
    """The path of a person's own unit."""
    return os.path.join(units_directory(), name)


def template(name: str) -> str:
    """The text of a shipped template. Raises StetError if it is missing."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for directory in ("units", "../../systemd"):
        path = os.path.join(package, directory, name)
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
            return file.read()
    raise StetError(f"{name} is missing in this installation ({package}). Install stetd again.")


def rendered(
    command: Sequence[str], endpoint: Endpoint, config: str, *, hardened: bool = False
) -> dict[str, str]:
    """The units of an installation, by name; all paths are absolute. Raises UnusablePath."""
    socket = _usable(endpoint.runtime, "runtime directory").replace("%", "%%")
    variables = {
        "STET_RUNTIME_DIR": endpoint.runtime,
        "STET_STATE_DIR": _usable(endpoint.state, "state directory"),
        "STET_CONFIG": _usable(config, "path of the configuration"),
    }
    program = [f"Environment={quoted(f'{name}={value}')}" for name, value in variables.items()]
    path, *arguments = command
    # The colon keeps systemd from expanding "$", also in the path.
    words = [":" + _usable(path, "path of stetd"), *arguments]
    program.append(f"ExecStart={' '.join(map(quoted, words))}")
    start = re.compile("^ExecStart=.*$", re.MULTILINE)
    units = {
        SOCKET: template(SOCKET).replace("%t/stet/", socket + "/"),
        SERVICE: start.sub(lambda _: "\n".join(program), template(SERVICE)),
    }
    if hardened:
        units[HARDENED] = template(os.path.basename(HARDENED))
    return {name: f"{MARKER}\n{text}" for name, text in units.items()}


def quoted(word: str) -> str:
    """The word quoted for systemd, with specifiers (%) escaped."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _usable(path: str, what: str) -> str:
    if _UNUSABLE.search(path) or path != path.strip():
        raise UnusablePath(
            f"the {what} {path!r} can't be written into a unit of systemd, which takes no quotes, "
            "backslashes, control characters or outer spaces there. Move it to another directory."
        )
    return path


def variable(unit: str, name: str) -> str | None:
    """The value of an environment variable in a unit that ``rendered`` has made."""
    found = re.search(rf'^Environment="{name}=((?:[^"\\]|\\.)*)"', unit, re.MULTILINE)
    return re.sub(r"\\(.)", r"\1", found[1]).replace("%%", "%") if found else None
