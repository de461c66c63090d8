"""``stet doctor``: what is wrong with this installation, and the command that mends it.

Each check gives a finding; a wrong one says what to run. Nothing is started, changed or
created. Exit status 0 when nothing is wrong, 1 otherwise. With ``--json``:
``{"ok": bool, "findings": [{"check", "ok", "detail", "mend"}]}``.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator

import msgspec

import stet
from stet.cli.output import Output
from stet.render import Line, Span, visible
from stet.socket_path import UnsafeDirectory, check_private, config_path
from stet.spawn import Endpoint

#: Less than this much free space for the history is worth a word.
_SPARE_BYTES = 500 * 1024 * 1024

_PACKAGES = ("msgspec", "pydantic", "pydantic-settings", "pygit2", "rapidfuzz", "regex", "rich")
_START = "stet status"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at; ``mend`` is a command, or what to do."""

    check: str
    ok: bool
    detail: str
    mend: str | None = None


def doctor(arguments: argparse.Namespace, output: Output) -> int:
    """Look at everything that edits depend on."""
    findings = list(_findings(arguments.directory))
    ok = all(finding.ok for finding in findings)
    if output.as_json:
        output.value({"ok": ok, "findings": findings})
    else:
        output.lines(line for finding in findings for line in _lines(finding))
    return 0 if ok else 1


def _lines(finding: Finding) -> Iterator[Line]:
    mark = Span("ok    ", "green") if finding.ok else Span("WRONG ", "bold red")
    yield (mark, Span(f"{finding.check}: {visible(finding.detail)}"))
    if finding.mend:
        yield (Span("      to mend: ", "dim"), Span(finding.mend, "bold"))


def _findings(directory: str) -> Iterator[Finding]:
    endpoint = Endpoint.from_environment(control=True)
    yield _python()
    yield _packages()
    yield _runtime(endpoint)
    for control in (False, True):
        yield from _socket(msgspec.structs.replace(endpoint, control=control))
    yield _state(endpoint.state)
    yield _space(endpoint.state)
    yield _configuration()
    answer = _daemon(endpoint)
    yield answer
    if answer.ok:
        yield _workspace(endpoint, directory)
        yield from _put_off(endpoint, directory)


def _python() -> Finding:
    found = f"{platform.python_version()} ({sys.executable})"
    ok = sys.version_info >= (3, 11)
    return Finding("python", ok, found, None if ok else "install Python 3.11 or later")


def _packages() -> Finding:
    import importlib.metadata  # slow, and no other command needs it

    found, missing = [f"stet {stet.__version__}"], []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        mend = f"{sys.executable} -m pip install {' '.join(missing)}"
        return Finding("packages", False, f"missing: {', '.join(missing)}", mend)
    return Finding("packages", True, ", ".join(found))


def _runtime(endpoint: Endpoint) -> Finding:
    try:
        check_private(endpoint.runtime)
    except FileNotFoundError:
        return Finding("runtime directory", True, f"{endpoint.runtime}, made at the first start")
    except (UnsafeDirectory, OSError) as error:
        mend = getattr(error, "mend", None) or f"ls -ld '{endpoint.runtime}'"
        return Finding("runtime directory", False, str(error), mend)
    return Finding("runtime directory", True, endpoint.runtime)


def _socket(endpoint: Endpoint) -> Iterator[Finding]:
    """What is wrong with a socket; nothing if it is sound, or missing (see _daemon)."""
    name, path = os.path.basename(endpoint.path), endpoint.path
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Finding(name, False, f"{path}: {error.strerror}", f"ls -ld '{endpoint.runtime}'")
        return
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISSOCK(found.st_mode):
        yield Finding(name, False, f"{path} is no socket", f"rm '{path}'")
    elif mode != 0o600:
        yield Finding(name, False, f"{path} has mode {mode:04o}, not 0600", f"chmod 600 '{path}'")
    else:
        yield Finding(name, True, path)


def _state(directory: str) -> Finding:
    try:
        mode = stat.S_IMODE(os.stat(directory).st_mode)
    except FileNotFoundError:
        return Finding("state directory", True, f"{directory}, made at the first start")
    if not os.access(directory, os.W_OK | os.X_OK):
        return Finding(
            "state directory", False, f"{directory} cannot be written", f"chmod 700 '{directory}'"
        )
    if mode & 0o077:
        return Finding(
            "state directory",
            False,
            f"{directory} has mode {mode:04o}: others can read your history",
            f"chmod 700 '{directory}'",
        )
    return Finding("state directory", True, directory)


def _space(directory: str) -> Finding:
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    free = shutil.disk_usage(directory).free
    detail = f"{free // (1024 * 1024):,} MiB free for the history"
    if free < _SPARE_BYTES:
        return Finding("disk space", False, detail, f"df -h '{directory}'")
    return Finding("disk space", True, detail)


def _configuration() -> Finding:
    path = config_path()
    there = "is used" if os.path.exists(path) else "is not there: every default holds"
    return Finding("configuration", True, f"{path} {there}")


def _daemon(endpoint: Endpoint) -> Finding:
    try:
        with stet.connect(None, control=True, start=False, timeout=5, endpoint=endpoint) as session:
            status = session.status()
    except stet.StetError as error:
        return Finding("daemon", False, error.message, _START)
    if isinstance(status.read_only, str):
        restart = "" if status.pid is None else f"kill {status.pid}; {_START}"
        return Finding("daemon", False, f"read-only: {status.read_only}", restart)
    return Finding("daemon", True, f"version {status.version} answers, process {status.pid}")


def _workspace(endpoint: Endpoint, directory: str) -> Finding:
    here = os.path.abspath(directory)
    try:
        with stet.connect(here, control=True, start=False, timeout=5, endpoint=endpoint) as session:
            mode = session.hello.mode
    except stet.WorkspaceNotAllowed:
        return Finding("workspace", False, f"{here} is in no allowed workspace", "stet init")
    except stet.StetError as error:
        mend = "stet verify" if isinstance(error, stet.IoError) else "stet workspaces"
        return Finding("workspace", False, error.message, mend)
    detail = f"{session.workspace} is allowed" + (f", {mode}" if mode else "")
    return Finding("workspace", True, detail)


def _put_off(endpoint: Endpoint, directory: str) -> Iterator[Finding]:
    """The other workspaces in which no call works."""
    here = os.path.join(os.path.realpath(directory), "")
    with stet.connect(None, control=True, start=False, timeout=5, endpoint=endpoint) as session:
        unavailable = session.status().unavailable or {}
    for root, why in unavailable.items():
        if not here.startswith(os.path.join(root, "")):
            yield Finding("workspace", False, why, f"stet verify -C '{root}'")
