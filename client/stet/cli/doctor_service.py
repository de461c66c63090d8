"""The part of ``stet doctor`` that looks at the service: its units, and what systemd makes of them.

No service at all is nothing wrong. One command mends everything here, because installing again
writes what is missing, starts what was given up, and takes over from a daemon beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from stet.cli import service
from stet.cli.finding import Finding
from stet.errors import StetError
from stet.service import systemd, unit_files
from stet.service.socket_path import config_path
from stet.service.spawn import Endpoint, holder
from stet.service.unit_files import HARDENED, MARKER, NAMES, SERVICE, SOCKET

_INSTALL = "stet service install"


def findings(endpoint: Endpoint) -> Iterator[Finding]:
    """What there is to say about the service."""
    directory = unit_files.units_directory()
    units = {name: service.installed_unit(directory, name) for name in NAMES}
    if not any(units.values()) and not _links_left(directory):
        yield Finding("service", True, "not installed: commands start the daemon")
        return
    missing = [name for name, text in units.items() if text is None]
    if missing:
        detail = f"{', '.join(missing)} missing in {directory}"
        yield Finding("service", False, detail, _INSTALL)
        return
    texts = {name: text or "" for name, text in units.items()}
    if not all(text.startswith(MARKER) for text in texts.values()):
        yield Finding("service", True, f"the units in {directory} were not written by stet")
        return
    its = unit_files.variable(texts[SERVICE], "STET_RUNTIME_DIR")
    if its != endpoint.runtime:
        yield _elsewhere(its)
        return
    stale = _stale(texts, endpoint)
    yield Finding("service", False, stale, _INSTALL) if stale else _running(endpoint)


def _links_left(directory: str) -> bool:
    """Whether the socket is enabled although its unit is gone."""
    return os.path.islink(os.path.join(directory, "sockets.target.wants", SOCKET))


def _stale(texts: dict[str, str], endpoint: Endpoint) -> str | None:
    """Why the units are not those of this installation and environment."""
    program = unit_files.program_of(texts[SERVICE])
    if program is None or not os.access(program, os.X_OK):
        return f"the unit starts {program or 'nothing'}, which is not there"
    for name, own in (("STET_STATE_DIR", endpoint.state), ("STET_CONFIG", config_path())):
        its = unit_files.variable(texts[SERVICE], name)
        if its != own:
            return f"the service's {name} is {its}, but here it is {own}"
    hardened = service.is_hardened(unit_files.units_directory())
    if hardened:
        texts[HARDENED] = service.installed_unit(unit_files.units_directory(), HARDENED) or ""
    if texts == unit_files.rendered(service.this_installation(endpoint), hardened=hardened):
        return None
    return "the units are not those of this version and installation"


def _running(endpoint: Endpoint) -> Finding:
    reason = systemd.why_not()
    if reason:
        return Finding("service", True, f"installed, but {reason}; commands start the daemon")
    try:
        socket = systemd.properties(SOCKET, "ActiveState", "Result", "UnitFileState")
        state = systemd.properties(SERVICE, "ActiveState", "SubState", "Result")
        main = service.main_process()
    except StetError as error:
        return Finding("service", False, error.message, "systemctl --user status stetd.socket")
    if socket["ActiveState"] != "active":
        detail = f"{SOCKET} is {socket['ActiveState']} ({socket['Result']})"
        return Finding("service", False, detail, _INSTALL)
    if socket["UnitFileState"] != "enabled":
        return Finding("service", False, f"{SOCKET} is not enabled", _INSTALL)
    pid = holder(endpoint)
    if pid not in (None, main):
        detail = f"process {pid} has the history open, and is not the service's"
        return Finding("service", False, detail, _INSTALL)
    detail = f"{SOCKET} listens, {SERVICE} is {state['ActiveState']} ({state['SubState']})"
    return Finding("service", True, detail)


def _elsewhere(its: str | None) -> Finding:
    """The service has other sockets than those that are used here: on purpose, or by mistake."""
    login = f"/run/user/{os.geteuid()}"
    if not os.environ.get("XDG_RUNTIME_DIR") and its == f"{login}/stet":
        detail = f"XDG_RUNTIME_DIR is not set, so the service's sockets in {its} are not found"
        return Finding("service", False, detail, f"export XDG_RUNTIME_DIR={login}")
    return Finding("service", True, f"it serves {its}, which is not asked for here")
