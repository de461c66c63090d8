"""The unit files of the service: the shipped templates, and what an installation makes of them.

The templates ``stetd.socket``, ``stetd.service`` and ``hardened.conf`` are in ``systemd/`` of a
checkout and in ``stet/units/`` of a wheel. They are units that work as they are, for packagers.
Installed, they begin with MARKER and say which program it is and where it keeps its things, because
a service has another environment than the shell it was installed from.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from stet.errors import StetError
from stet.service.socket_path import config_home

SOCKET = "stetd.socket"
SERVICE = "stetd.service"
NAMES = (SOCKET, SERVICE)
#: What makes the service a hardened one, below the directory of the units.
HARDENED = "stetd.service.d/hardened.conf"

#: The first line of every unit that was installed; others are not touched.
MARKER = "# Written by: stet service install. Removed by: stet service uninstall."

#: What systemd refuses in the path of a program, however it is quoted.
_UNUSABLE = re.compile(r"[\x00-\x1f\x7f\"'\\]")


class UnusablePath(StetError):
    """A path that can't stand in a unit file."""

    KIND = "unusable_path"


class Installed(NamedTuple):
    """What units are made from: the program and its directories, absolute."""

    program: tuple[str, ...]
    runtime: str
    state: str
    config: str


def units_directory(environ: Mapping[str, str] = os.environ) -> str:
    """Where ``systemd --user`` looks for a person's own units."""
    return os.path.join(config_home(environ), "systemd", "user")


def unit_path(name: str) -> str:
    """The path of a person's own unit."""
    return os.path.join(units_directory(), name)


def template(name: str) -> str:
    """The text of a unit as it is shipped."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for directory in ("units", "../../systemd"):
        path = os.path.join(package, directory, name)
        with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
            return file.read()
    raise StetError(f"{name} is missing in this installation ({package}). Install stetd again.")


def rendered(installed: Installed, *, hardened: bool = False) -> dict[str, str]:
    """The units of an installation, by name. Raises UnusablePath."""
    socket = _usable(installed.runtime, "runtime directory").replace("%", "%%")
    variables = {
        "STET_RUNTIME_DIR": installed.runtime,
        "STET_STATE_DIR": _usable(installed.state, "state directory"),
        "STET_CONFIG": _usable(installed.config, "path of the configuration"),
    }
    program = [f"Environment={quoted(f'{name}={value}')}" for name, value in variables.items()]
    path, *arguments = installed.program
    # The colon keeps "$" from being replaced, in the path too.
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
    """A word for a line that systemd splits into words, with its specifiers escaped."""
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
    """The value of an environment variable in a unit that was rendered here."""
    variables = (each.partition("=") for each in _first_words(unit, "Environment"))
    return next((value for its, _, value in variables if its == name), None)


def program_of(unit: str) -> str | None:
    """The path of the program in a unit that was rendered here."""
    return next((each.removeprefix(":") for each in _first_words(unit, "ExecStart")), None)


def _first_words(unit: str, key: str) -> Iterator[str]:
    """The first word, if it is quoted, of each value that a key has in a unit's text."""
    for word in re.findall(rf'^{key}=[ \t]*"((?:[^"\\]|\\.)*)"', unit, re.MULTILINE):
        yield re.sub(r"\\(.)", r"\1", word).replace("%%", "%")
