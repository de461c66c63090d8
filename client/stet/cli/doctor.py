"""``stet doctor``: checks this installation, and prints a command that mends each fault.

Each check gives a finding. The findings are in the order in which their commands should be run:
causes before effects. The checks change nothing and start no daemon, except that connecting to a
service's socket makes systemd start its daemon. Exit status 0 when nothing is wrong, 1 otherwise.
With ``--json``: ``{"ok": bool, "findings": [{"check", "ok", "detail", "mend"}]}``.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import platform
import shlex
import sys
from collections.abc import Iterator

import stet
from stet.cli import doctor_clients, doctor_places, service
from stet.cli.asking import notice_if_silent
from stet.cli.doctor_places import START, Finding, fine, wrong
from stet.cli.output import Output
from stet.cli.usage import Arguments
from stet.errors import StetError
from stet.service import systemd, unit_files
from stet.service.socket_path import config_path, quoted
from stet.service.spawn import Endpoint, elsewhere, holder
from stet.service.unit_files import MARKER, NAMES, SERVICE, SOCKET
from stet.terminal.spans import Line, Span, plural, size, typed, visible

_PACKAGES = (
    *("argcomplete", "msgspec", "pygit2", "rapidfuzz", "regex", "rich", "tiktoken", "tomlkit"),
)
_INSTALL = "stet service install"
#: Errors that more space or a remount mends.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
#: Seconds that the daemon has to answer; systemd may have to start a service's daemon first.
_ANSWER_S = 20.0
#: Seconds without an answer after which the person is told of the wait.
_SILENT_S = 2.0


def doctor(arguments: Arguments, output: Output) -> int:
    """Check everything that edits depend on, and print the findings."""
    findings = list(_findings(arguments.directory))
    faults = sum(not finding.ok for finding in findings)
    order = ", in this order" if faults > 1 else ""
    said = f"{plural(faults, 'thing')} to mend{order}." if faults else "All is well."
    lines: list[Line] = []
    for finding in findings:
        mark = Span("ok    ", "green") if finding.ok else Span("WRONG ", "bold red")
        lines.append((mark, Span(f"{finding.check}: {visible(finding.detail)}")))
        if finding.mend:
            lines.append((Span("      to mend: ", "dim"), Span(visible(finding.mend), "bold")))
    lines.append((Span(said, "bold red" if faults else "bold green"),))
    output.tell({"ok": not faults, "findings": findings}, lines)
    return 1 if faults else 0


def _findings(directory: str) -> Iterator[Finding]:
    endpoint = Endpoint.from_environment(control=True)
    # Never wrong: this package does not load in a Python older than 3.11.
    yield fine("python", f"{platform.python_version()} ({sys.executable})")
    yield _packages()
    yield doctor_places.runtime(endpoint)
    yield (state := doctor_places.state(endpoint.state))
    yield doctor_places.space(endpoint.state)
    yield doctor_places.configuration()
    # A start would refuse a state directory that is wrong, too: once is enough.
    if (found := doctor_places.next_start(endpoint)) and (state.ok or found.check == "journal"):
        yield found
    yield doctor_places.lock(endpoint)
    yield _service(endpoint)
    yield from doctor_clients.findings(directory)
    yield from doctor_places.sockets(endpoint)
    yield from _daemon(endpoint, directory)


def _packages() -> Finding:
    found, missing = [f"stet {stet.__version__}"], []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        mend = f"{sys.executable} -m pip install {' '.join(missing)}"
        return wrong("packages", f"missing: {', '.join(missing)}", mend)
    return fine("packages", ", ".join(found))


def _daemon(endpoint: Endpoint, directory: str) -> Iterator[Finding]:
    """Whether the daemon answers, and what it reports on itself and on the workspaces."""
    advice = f"after {_ANSWER_S:.0f} s this says what to do."
    try:
        with (
            notice_if_silent(_SILENT_S, advice),
            stet.connect(
                None, control=True, start=False, timeout=_ANSWER_S, endpoint=endpoint
            ) as session,
        ):
            status, workspaces = session.status(), session.workspace_list().workspaces
    except stet.StetError as error:
        pid, where = holder(endpoint), elsewhere(endpoint)
        # A kill is always safe: answered calls are durable, recovery at the start settles the rest.
        mend = START if pid is None else f"kill -9 {pid}; {START}"
        mend = f"export STET_RUNTIME_DIR={shlex.quote(where)}" if where else mend
        silent = isinstance(error, stet.TimedOut)
        said = f"no answer within {_ANSWER_S:.0f} s" if silent else error.message
        yield wrong("daemon", said, mend)
        return
    restart = f"kill {status.pid}; {START}"
    if isinstance(status.read_only, str):
        yield wrong("daemon", f"read-only: {status.read_only}", restart)
        return
    said = f"version {status.version} answers, process {status.pid}"
    shadows = (os.path.dirname(each.shadow) for each in workspaces)
    states = {os.path.realpath(os.path.dirname(each)) for each in shadows}
    for state in states - {os.path.realpath(endpoint.state)}:
        mend = f"export STET_STATE_DIR={shlex.quote(state)}"
        yield wrong("daemon", f"{said}, but its history is {state}, not {endpoint.state}", mend)
        return
    needed = [each.shadow for each in workspaces if not each.trouble]
    for path in (os.path.join(endpoint.state, "journal"), *needed):
        if not os.path.isdir(path):
            detail = f"{said}, but {path} was moved or removed"
            yield wrong("daemon", detail, f"put it back, or: stet stop; {START}")
            return
    if status.version != stet.__version__:
        yield wrong("daemon", f"{said}, but stet is {stet.__version__}", restart)
    else:
        last = status.last_error
        said += f"; its last error, {last.time}: {last.message}" if last is not None else ""
        yield fine("daemon", said)
    if status.trouble:
        full = any(os.strerror(code) in status.trouble for code in _NO_ROOM)
        mend = doctor_places.disk_command(endpoint.state) if full else f"stet stop; {START}"
        yield wrong("history", status.trouble, mend)
    else:
        held = f"{plural(status.commits or 0, 'commit')} of {plural(len(workspaces), 'workspace')}"
        sizes = f"{size(status.shadow_bytes or 0)}, journal {size(status.journal_bytes or 0)}"
        yield fine("history", f"{held}, {sizes}; stet verify looks into it")
    yield _workspace(endpoint, directory)
    here = os.path.join(os.path.realpath(directory), "")
    for each in workspaces:
        if here.startswith(os.path.join(each.root, "")):
            continue
        if not os.path.isdir(each.root) or os.path.realpath(each.root) != each.root:
            mend = f"move it back, or: stet workspaces --forget {typed(each.root)}"
            yield wrong("workspace", f"{each.root} is not there any more", mend)
        elif each.trouble:
            yield wrong("workspace", each.trouble, f"stet verify -C {quoted(each.root)}")


def _workspace(endpoint: Endpoint, directory: str) -> Finding:
    here = os.path.abspath(directory)
    try:
        with stet.connect(here, control=True, start=False, timeout=5, endpoint=endpoint) as session:
            mode = session.hello.mode
    except stet.WorkspaceNotAllowed:
        home = os.path.join(os.path.realpath(os.path.expanduser("~")), "")
        above = home.startswith(os.path.join(os.path.realpath(here), ""))
        mend = "cd to a project's directory, then: stet init" if above else "stet init"
        return wrong("workspace", f"{here} is in no allowed workspace", mend)
    except stet.StetError as error:
        mend = "stet verify" if isinstance(error, stet.IoError) else "stet workspaces"
        return wrong("workspace", error.message, mend)
    if os.statvfs(here).f_flag & os.ST_RDONLY:
        detail = f"{session.workspace} is on a file system that is mounted read-only"
        return wrong("workspace", detail, doctor_places.disk_command(here))
    if not os.access(root := session.workspace or here, os.R_OK | os.W_OK | os.X_OK):
        detail = f"{root} is allowed, but its permissions do not let you write in it"
        mend = doctor_places.chown_if_foreign(root) or f"chmod u+rwx {quoted(root)}"
        return wrong("workspace", detail, mend)
    return fine("workspace", f"{session.workspace} is allowed{f', {mode}' if mode else ''}")


# -- the service: _INSTALL mends every fault of its units


def _service(endpoint: Endpoint) -> Finding:
    directory = unit_files.units_directory()
    units = {name: service.installed_unit(name) for name in NAMES}
    # If this link exists, the socket is enabled although its unit may be gone.
    link = os.path.join(directory, "sockets.target.wants", SOCKET)
    if not any(units.values()) and not os.path.islink(link):
        return fine("service", "not installed: commands start the daemon")
    missing = [name for name, text in units.items() if text is None]
    if missing:
        return wrong("service", f"{', '.join(missing)} missing in {directory}", _INSTALL)
    if not all((text or "").startswith(MARKER) for text in units.values()):
        return fine("service", f"the units in {directory} were not written by stet")
    unit = units[SERVICE] or ""
    runtime = unit_files.variable(unit, "STET_RUNTIME_DIR")
    if runtime != endpoint.runtime:
        return _other_sockets(runtime)
    for name, own in (("STET_STATE_DIR", endpoint.state), ("STET_CONFIG", config_path())):
        its = unit_files.variable(unit, name)
        if its != own:
            detail = f"the service's {name} is {its}, but here it is {own}"
            return wrong("service", detail, _INSTALL)
    if service.differing(service.own_units(endpoint, hardened=service.is_hardened())):
        detail = "the units are not those of this version and installation"
        return wrong("service", detail, _INSTALL)
    return _running(endpoint)


def _running(endpoint: Endpoint) -> Finding:
    reason = systemd.why_not()
    if reason:
        return fine("service", f"installed, but {reason}; commands start the daemon")
    try:
        trouble = service.not_in_charge(endpoint)
        state = systemd.properties(SERVICE, "ActiveState", "SubState")
    except StetError as error:
        return wrong("service", error.message, "systemctl --user status stetd.socket")
    if trouble:
        return wrong("service", trouble, _INSTALL)
    running = f"{state['ActiveState']} ({state['SubState']})"
    return fine("service", f"{SOCKET} listens, {SERVICE} is {running}")


def _other_sockets(runtime: str | None) -> Finding:
    """The finding on a service whose sockets this environment does not use, perhaps by mistake."""
    login = f"/run/user/{os.geteuid()}"
    if not os.environ.get("XDG_RUNTIME_DIR") and runtime == f"{login}/stet":
        detail = f"XDG_RUNTIME_DIR is not set, so the service's sockets in {runtime} are not found"
        return wrong("service", detail, f"export XDG_RUNTIME_DIR={login}")
    return fine("service", f"it serves {runtime}, which is not asked for here")
