"""``stet service``: the daemon as a user service of systemd, activated by its sockets.

``install`` writes those units of :mod:`stet.service.unit_files` that differ from the files on disk,
enables and starts the socket unit, and stops a daemon that a command has started. Meanwhile no
client can start another daemon. Only units that stet has written are replaced or removed. A
hardened service has an additional drop-in, which stays until ``install --no-hardened``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping

import msgspec

import stet
from stet import calls
from stet.cli import asking
from stet.cli.output import Output
from stet.cli.usage import Arguments, UsageError
from stet.errors import DaemonUnreachable, StetError, TransportError
from stet.service import systemd, unit_files
from stet.service.socket_path import UnsafeDirectory, config_path, quoted, refuse_root_elsewhere
from stet.service.spawn import Endpoint, connect, holder, own_program, turn_to_start
from stet.service.unit_files import HARDENED, MARKER, NAMES, SERVICE, SOCKET, unit_path
from stet.session.connection import Connection
from stet.terminal.spans import Line, Span, visible
from stet.wire.framing import Encoding

#: Seconds that a daemon has to finish its calls and stop, as in the unit; and to answer.
_STOP_S = 90.0
_ANSWER_S = 60.0
_POLL_S = 0.02

#: Variables that the unit sets, or that only the client reads.
_NOT_OPTIONS = {
    *("STET_RUNTIME_DIR", "STET_STATE_DIR", "STET_CONFIG"),
    *("STET_SESSION", "STET_AGENT", "STET_SECRET"),
}


class ServiceTrouble(StetError):
    """The service could not be installed or removed as asked; the message says what to do."""


# -- install ---------------------------------------------------------------------------------


def install(arguments: Arguments, output: Output) -> None:
    """Write the units, start the socket unit, and check that a daemon answers."""
    try:
        refuse_root_elsewhere(unit_files.units_directory())
    except UnsafeDirectory as error:
        raise ServiceTrouble(str(error)) from error
    _require_systemd()
    endpoint = Endpoint.from_environment(control=False)
    hardened = is_hardened() if arguments.hardened is None else arguments.hardened
    units = own_units(endpoint, hardened=hardened)
    changed = differing(units)
    if changed or not_in_charge(endpoint):
        _replace_units(changed, endpoint)
    _check_loaded()
    version = _version_once_started(endpoint, hardened=hardened)
    pid = main_process()
    said = [
        f"{'wrote' if changed[name] else 'removed'} {unit_path(name)}" for name in sorted(changed)
    ]
    said = said or [f"the units in {unit_files.units_directory()} were as they should be"]
    said.append(f"{endpoint.path} answers: stetd {version}, process {pid}")
    own = {name for name in os.environ if name.startswith("STET_")} - _NOT_OPTIONS
    if own:
        said.append(
            f"not taken over: {', '.join(sorted(own))}. A service does not see the variables of "
            f"this shell; write them into {config_path()}"
        )
    done = {
        "units": [unit_path(name) for name in units],
        "changed": sorted(changed),
        "hardened": hardened,
        "version": version,
        "pid": pid,
    }
    output.tell(done, [(Span(visible(line)),) for line in said])


def is_hardened() -> bool:
    """Whether stet's drop-in for hardening is installed."""
    return (installed_unit(HARDENED) or "").startswith(MARKER)


def _version_once_started(endpoint: Endpoint, *, hardened: bool) -> str:
    try:
        return version_of_daemon(endpoint)
    except TransportError as error:
        if not hardened:
            raise
        raise ServiceTrouble(
            f"the hardened service does not answer ({error.message}). Perhaps this system does not "
            "let users make namespaces. See: systemctl --user status stetd. "
            "Without hardening: stet service install --no-hardened"
        ) from error


def own_units(endpoint: Endpoint, *, hardened: bool) -> dict[str, str]:
    """The units for the ``stetd`` of this installation and the directories of this environment."""
    return unit_files.rendered(own_program("stetd"), endpoint, config_path(), hardened=hardened)


def _require_systemd() -> None:
    reason = systemd.why_not()
    if reason:
        raise systemd.NoUserManager(
            f"there is no service here: {reason}. None is needed: every stet command starts the "
            "daemon by itself when none runs, and it goes on running."
        )


def differing(units: Mapping[str, str]) -> dict[str, str | None]:
    """The units whose files differ, with the text that they should have; None: to be removed.

    Raises ServiceTrouble for a unit that stet did not write.
    """
    changed: dict[str, str | None] = {}
    if HARDENED not in units and is_hardened():
        changed[HARDENED] = None
    for name, text in units.items():
        found = installed_unit(name)
        if found is not None and not found.startswith(MARKER):
            path = unit_path(name)
            raise ServiceTrouble(
                f"{path} was not written by stet, so it is not replaced. Move it away first: "
                f"mv {quoted(path)} {quoted(path + '.old')}"
            )
        if found != text:
            changed[name] = text
    return changed


def installed_unit(name: str) -> str | None:
    """The text of a unit in the user's unit directory; None if no such file can be seen."""
    try:
        with open(unit_path(name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def not_in_charge(endpoint: Endpoint) -> str | None:
    """Why systemd does not listen now or at the next login, or which other daemon runs; or None."""
    found = systemd.properties(SOCKET, "ActiveState", "Result", "UnitFileState")
    if found["ActiveState"] != "active":
        return f"{SOCKET} is {found['ActiveState']} ({found['Result']})"
    if found["UnitFileState"] != "enabled":
        return f"{SOCKET} is not enabled"
    pid = holder(endpoint)
    if pid in (None, main_process()):
        return None
    return f"process {pid} has the history open, and is not the service's"


def main_process() -> int | None:
    """The process id of the service; None if it does not run."""
    return int(systemd.properties(SERVICE, "MainPID")["MainPID"] or 0) or None


def _replace_units(changed: Mapping[str, str | None], endpoint: Endpoint) -> None:
    with turn_to_start(endpoint):
        _stop_units()
        _stop_daemon(endpoint)
        for name, text in changed.items():
            path = unit_path(name)
            if text is None:
                _remove_unit(path)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path + ".new", 0o644)
            os.replace(path + ".new", path)  # a symbolic link there is not followed
        systemd.systemctl("daemon-reload")
        _reset_failed()
        systemd.systemctl("enable", "--now", SOCKET)


def _stop_units() -> None:
    for name in NAMES:
        if systemd.properties(name, "LoadState")["LoadState"] != "not-found":
            systemd.systemctl("stop", name)


def _reset_failed() -> None:
    """Reset failed units, so that systemd can start them again, or forget those without a file."""
    for name in NAMES:
        with contextlib.suppress(systemd.UnitTrouble):  # systemd does not know it any more
            systemd.systemctl("reset-failed", name)


def _remove_unit(path: str) -> None:
    """Remove a unit or drop-in, and the directory of drop-ins if that is then empty."""
    os.unlink(path)
    if path.endswith(HARDENED):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))


def _stop_daemon(endpoint: Endpoint) -> None:
    """Stop a daemon with these directories; it finishes its calls first. Raises ServiceTrouble."""
    control = msgspec.structs.replace(endpoint, control=True)
    try:
        with stet.connect(None, control=True, start=False, timeout=30, endpoint=control) as session:
            session.perform(calls.request("shutdown"))
        deadline = time.monotonic() + _STOP_S
    except TransportError:
        deadline = time.monotonic()
    while (pid := holder(endpoint)) is not None:
        if time.monotonic() >= deadline:
            raise ServiceTrouble(
                f"process {pid} uses {endpoint.state}, and does not stop when asked at "
                f"{control.path}. Stop it, then try again: kill {pid}"
            )
        time.sleep(_POLL_S)


def _check_loaded() -> None:
    for name in NAMES:
        path = unit_path(name)
        used = systemd.properties(name, "FragmentPath")["FragmentPath"]
        if used != path and os.path.realpath(used) != os.path.realpath(path):
            raise ServiceTrouble(
                f"systemd uses {used or 'no file'} for {name}, not {path}. If XDG_CONFIG_HOME is "
                "set here, it must be set for systemd too: systemctl --user import-environment "
                "XDG_CONFIG_HOME; then log in again."
            )


def version_of_daemon(endpoint: Endpoint, seconds: float = _ANSWER_S) -> str:
    """The version of the daemon on agent.sock. Raises TransportError without an answer in time."""
    connected = connect(endpoint)
    if connected is None:
        raise DaemonUnreachable(
            f"nobody listens at {endpoint.path}. See: stet service status, stet service logs"
        )
    with contextlib.closing(Connection(connected, Encoding.JSON)) as connection:
        return connection.ask(calls.status(), time.monotonic() + seconds).version


# -- uninstall -------------------------------------------------------------------------------


def uninstall(arguments: Arguments, output: Output) -> None:
    """Stop the service and remove its units; with --purge-history remove the history, too."""
    purge = arguments.purge_history
    if output.as_json and purge and not arguments.yes:
        raise UsageError("with --json nobody is asked: add --yes")
    endpoint = Endpoint.from_environment(control=False)
    own = [name for name in NAMES if (installed_unit(name) or "").startswith(MARKER)]
    if purge:
        _check_removable(endpoint)
        warning = (
            f"All that agents ever did is recorded in {endpoint.state}. It can't be brought back."
        )
        purge = arguments.yes or asking.confirm(f"{warning}\nRemove it?", "")
    removed = _remove(own)
    said = [f"removed {path}" for path in removed] or ["no service was installed"]
    purged = _purge(endpoint.state) if purge else []
    said += [f"removed {path}" for path in purged]
    if not purged and os.path.isdir(endpoint.state):
        said.append(f"history stays in {endpoint.state}, configuration in {config_path()}")
    lines = [(Span(visible(line)),) for line in said]
    output.tell({"removed": removed, "purged": purged}, lines)


def _check_removable(endpoint: Endpoint) -> None:
    """Raise ServiceTrouble if the service has another history, or another daemon has this one."""
    unit = installed_unit(SERVICE)
    state = unit and unit_files.variable(unit, "STET_STATE_DIR")
    if state and state != endpoint.state:
        raise ServiceTrouble(
            f"the service keeps its history in {state}, but here it would be {endpoint.state}. "
            f"Nothing was done. Try: STET_STATE_DIR={quoted(state)} stet service uninstall "
            "--purge-history"
        )
    pid = holder(endpoint)
    if pid is not None and (systemd.why_not() is not None or pid != main_process()):
        raise ServiceTrouble(
            f"process {pid} uses {endpoint.state} and is not the service. Nothing was done. Stop "
            f"it first: kill {pid}"
        )


def _remove(own: list[str]) -> list[str]:
    """Remove stet's units; return their paths. Without systemd only the files are removed."""
    if not own:
        return []
    managed = systemd.why_not() is None
    if managed:
        _stop_units()
        systemd.systemctl("disable", *own)
    removed = [unit_path(name) for name in [*own, *([HARDENED] if is_hardened() else [])]]
    # Where systemd could not disable the units, their links are left.
    beside = sorted(os.listdir(unit_files.units_directory()))
    wanting = [each for each in beside if each.endswith((".wants", ".requires"))]
    links = [unit_path(os.path.join(each, name)) for each in wanting for name in own]
    for path in [*removed, *filter(os.path.islink, links)]:
        _remove_unit(path)
    if managed:
        systemd.systemctl("daemon-reload")
        _reset_failed()
    return removed


# -- removing the history

#: What a daemon, or a client that starts one, creates in the state directory. The lock is last.
_STATE_FILES = (
    *("journal", "workspaces", "index", "snapshots", "requests.sqlite3", "requests.sqlite3-wal"),
    *("requests.sqlite3-shm", "stetd.log", "stetd.log.1", "stetd.lock"),
)


def _purge(state: str) -> list[str]:
    """Remove the history; return the removed paths. Raises ServiceTrouble if a daemon has it.

    Only _STATE_FILES are removed. If there are other files, they and the directory stay. The
    daemon's lock is held during the removal, so that no daemon can start.
    """
    if not os.path.isdir(state):
        return []
    lock = os.open(os.path.join(state, "stetd.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        paths = [os.path.join(state, name) for name in _STATE_FILES]
        removed = [path for path in paths if os.path.lexists(path)]
        for path in removed:
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    except BlockingIOError as error:
        raise ServiceTrouble(f"a daemon uses {state}, so it stays. Stop it, try again.") from error
    finally:
        os.close(lock)
    with contextlib.suppress(OSError):
        os.rmdir(state)
        return [state]
    return removed


# -- status and logs -------------------------------------------------------------------------


def status(_: Arguments, output: Output) -> int:
    """Print systemd's state of the service, and start nothing; 1 unless the socket listens."""
    _require_systemd()
    endpoint = Endpoint.from_environment(control=False)
    socket = systemd.properties(SOCKET, "LoadState", "ActiveState", "SubState", "UnitFileState")
    service = systemd.properties(
        SERVICE, "LoadState", "ActiveState", "SubState", "MainPID", "NRestarts", "Result",
        "ActiveEnterTimestamp", "StatusText",
    )  # fmt: skip
    running, version = service["ActiveState"] == "active", None
    if running:  # else a connection would start it
        with contextlib.suppress(TransportError):
            version = version_of_daemon(endpoint, 5)
    facts: dict[str, object] = {
        "installed": all(installed_unit(name) is not None for name in NAMES),
        "socket_unit": _unit_state(socket),
        "enabled": socket["UnitFileState"] == "enabled",
        "hardened": is_hardened(),
        "service_unit": _unit_state(service),
        "result": service["Result"] or None,
        "pid": int(service["MainPID"] or 0) or None,
        "since": service["ActiveEnterTimestamp"] or None if running else None,
        "restarts": int(service["NRestarts"] or 0),
        "says": service["StatusText"] or None,
        "socket": endpoint.path,
        "version": version,
        "installed_version": stet.__version__,
    }
    output.tell(facts, _status_lines(facts))
    return 0 if socket["ActiveState"] == "active" else 1


def _unit_state(unit: Mapping[str, str]) -> str:
    if unit["LoadState"] == "not-found":
        return "not installed"
    return f"{unit['ActiveState']} ({unit['SubState']})"


def _status_lines(facts: Mapping[str, object]) -> Iterator[Line]:
    rows = [
        (SOCKET, f"{facts['socket_unit']}{', enabled' if facts['enabled'] else ''}"),
        ("socket", facts["socket"]),
        (SERVICE, f"{facts['service_unit']}{', hardened' if facts['hardened'] else ''}"),
        ("process", facts["pid"]),
        ("since", facts["since"]),
        ("version", facts["version"]),
        ("says", facts["says"]),
        ("restarts", facts["restarts"] or None),
        ("ended with", None if facts["result"] in ("success", None) else facts["result"]),
    ]
    for label, value in rows:
        if value is not None:
            yield (Span(f"{label + ':':<15}", "dim"), Span(visible(str(value))))
    if not facts["installed"]:
        yield (Span("to install it: ", "dim"), Span("stet service install", "bold"))


def logs(arguments: Arguments, _: Output) -> None:
    """Replace this process by ``journalctl`` for the service. Raises ServiceTrouble."""
    endpoint = Endpoint.from_environment(control=False)
    own = f"A daemon that a command started writes to {endpoint.log}"
    if installed_unit(SERVICE) is None:
        raise ServiceTrouble(f"no service is installed. {own}: tail -n 100 {quoted(endpoint.log)}")
    journalctl = shutil.which("journalctl")
    if journalctl is None:
        raise ServiceTrouble(f"there is no journalctl to read the service's log with. {own}")
    sys.stdout.flush()
    # --user-unit, not --user --unit: it also works where there are no journals per user.
    options = ["--user-unit", SERVICE, "-n", str(arguments.lines), *(["-f"] * arguments.follow)]
    os.execv(journalctl, ["journalctl", *options])  # noqa: S606 - no shell is wanted
