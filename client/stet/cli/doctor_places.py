"""The part of ``stet doctor`` that looks at files: directories, sockets, disk, lock, journal; and
what a finding is.

Nothing is created. A socket on which systemd listens is not connected to: that would start the
service, and is the last check's.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from stet.cli.config import ask_stetd
from stet.errors import StetError
from stet.service.socket_path import UnsafeDirectory, check_private, config_path
from stet.service.spawn import Endpoint, holder, is_running

#: Less than this much free space, or so few files, for the history is worth a word.
_SPARE_BYTES = 500 * 1024 * 1024
_SPARE_FILES = 1000

START = "stet status"


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


# -- runtime directory and sockets -----------------------------------------------------------


def runtime(endpoint: Endpoint) -> Finding:
    """The directory of the sockets, and the one above it."""
    name, directory = "runtime directory", endpoint.runtime
    try:
        check_private(directory)
    except FileNotFoundError:
        return _missing_runtime(directory)
    except UnsafeDirectory as error:
        return Finding(name, False, str(error), error.mend or _own_again(directory))
    except OSError as error:
        detail = f"{directory}: {error.strerror}"
        return Finding(name, False, detail, as_root(f"rm -r {quoted(directory)}"))
    return Finding(name, True, directory)


def _missing_runtime(directory: str) -> Finding:
    name, above = "runtime directory", os.path.dirname(directory)
    if os.path.isdir(above) or os.access(_existing(above), os.W_OK):
        return Finding(name, True, f"{directory}, made at the first start")
    detail = f"{above} is not there, and can't be made: nobody has logged in as you here"
    uid, gid = os.geteuid(), os.getegid()
    if above == f"/run/user/{uid}" and os.path.exists("/run/systemd/seats"):
        # logind makes it, keeps it, and starts the user manager.
        return Finding(name, False, detail, as_root(f"loginctl enable-linger {uid}"))
    made = as_root(f"install -d -o {uid} -g {gid} -m 700 {quoted(above)}")
    return Finding(name, False, detail, made)


def _own_again(directory: str) -> str | None:
    """The command that gives a directory back to the user, if it is somebody else's."""
    with contextlib.suppress(OSError):
        if os.lstat(directory).st_uid != os.geteuid():
            return as_root(f"chown -R {os.geteuid()}:{os.getegid()} {quoted(directory)}")
    return None


def sockets(endpoint: Endpoint) -> Iterator[Finding]:
    """What is wrong with the sockets; nothing about one that is missing (see the daemon)."""
    for control in (False, True):
        yield from _socket(msgspec.structs.replace(endpoint, control=control))


def _socket(endpoint: Endpoint) -> Iterator[Finding]:
    name, path = os.path.basename(endpoint.path), endpoint.path
    try:
        found = os.lstat(path)
    except (FileNotFoundError, PermissionError):
        return  # that of its directory is told
    except OSError as error:
        yield Finding(name, False, f"{path}: {error.strerror}", f"rm -r {quoted(path)}")
        return
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISSOCK(found.st_mode):
        yield Finding(name, False, f"{path} is no socket", f"rm -r {quoted(path)}")
    elif mode != 0o600:
        detail = f"{path} has mode {mode:04o}, not 0600"
        yield Finding(name, False, detail, f"chmod 600 {quoted(path)}")
    elif not _is_listened_on(path):
        # Not removed first: by the time that is done, it may be the one of a new daemon.
        detail = f"{path} is stale: nobody listens there any more"
        yield Finding(name, False, detail, START)
    else:
        yield Finding(name, True, path)


def _is_listened_on(path: str) -> bool:
    # Tried, and not looked for in /proc/net/unix: that has names only, and the same name may be
    # another socket's, in another mount namespace or before it was moved.
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(1)
        try:
            tried.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


# -- state directory -------------------------------------------------------------------------


def state(directory: str) -> Finding:
    """The directory of the history: whose it is, and whether it can be written."""
    name = "state directory"
    try:
        found = os.stat(directory)
    except FileNotFoundError:
        return Finding(name, True, f"{directory}, made at the first start")
    except OSError as error:
        return Finding(name, False, f"{directory}: {error.strerror}", _own_again(directory))
    if not stat.S_ISDIR(found.st_mode):
        away = f"mv {quoted(directory)} {quoted(directory + '.old')}"
        return Finding(name, False, f"{directory} is no directory", away)
    foreign = _foreign(directory, found.st_uid)
    if foreign:
        again = as_root(f"chown -R {os.geteuid()}:{os.getegid()} {quoted(directory)}")
        return Finding(name, False, foreign, again)
    if os.statvfs(directory).f_flag & os.ST_RDONLY:
        detail = f"{directory} is on a file system that is mounted read-only"
        point = quoted(_mount_point(directory))
        return Finding(name, False, detail, as_root(f"mount -o remount,rw {point}"))
    private = f"chmod 700 {quoted(directory)}"
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return Finding(name, False, f"{directory} is read-only: its mode forbids writing", private)
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        detail = f"{directory} has mode {mode:04o}: others can read your history"
        return Finding(name, False, detail, private)
    return Finding(name, True, directory)


def _foreign(directory: str, owner: int) -> str | None:
    """What in a directory belongs to somebody else: usually a command was run with sudo."""
    if owner != os.geteuid():
        return f"{directory} belongs to user id {owner}, not to you ({os.geteuid()})"
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            uid = entry.stat(follow_symlinks=False).st_uid
            if uid != os.geteuid():
                return f"{entry.path} belongs to user id {uid}, not to you ({os.geteuid()})"
    return None


def space(directory: str) -> Finding:
    """Whether the disk has room for the history."""
    where = _existing(directory)
    try:
        found = os.statvfs(where)
    except OSError as error:
        return Finding("disk space", False, f"{where}: {error.strerror}", f"df -h {quoted(where)}")
    free = found.f_bavail * found.f_frsize
    detail = f"{free // (1024 * 1024):,} MiB free for the history"
    if free < _SPARE_BYTES:
        return Finding("disk space", False, detail, room(directory, free))
    if found.f_files and found.f_favail < _SPARE_FILES:
        detail = f"only {found.f_favail} more files can be made on the disk of the history"
        return Finding("disk space", False, detail, "stet gc")
    return Finding("disk space", True, detail)


def room(directory: str, free: int = 0) -> str:
    """What gives room on the disk of the history, of which ``free`` bytes are left.

    A log that has grown is emptied; otherwise the person has to choose what goes.
    """
    logs = [os.path.join(directory, name) for name in ("stetd.log", "stetd.log.1")]
    sizes = {path: os.path.getsize(path) for path in logs if os.path.isfile(path)}
    if free + sum(sizes.values()) >= _SPARE_BYTES:
        return f"truncate -s 0 {' '.join(quoted(path) for path in sizes)}"
    return f"du -xah {quoted(_mount_point(_existing(directory)))} | sort -h | tail -n 20"


def _existing(path: str) -> str:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _mount_point(path: str) -> str:
    """Where the file system of a path is mounted; bind mounts too, unlike os.path.ismount."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = {line.split(" ")[4].replace("\\040", " ") for line in table}
    path = os.path.realpath(path)
    while path not in points and path != "/":
        path = os.path.dirname(path)
    return path


# -- configuration, lock, journal ------------------------------------------------------------


def configuration() -> Finding:
    """Whether a daemon that is started now could use its configuration."""
    path = os.path.abspath(config_path())
    try:
        checked = ask_stetd("--check-config")
    except StetError as error:
        return Finding("configuration", False, error.message, f"{sys.executable} -m pip check")
    if not checked["ok"]:
        told = "; ".join(fault["message"] for fault in checked["faults"])
        return Finding("configuration", False, told, _without(path, checked["faults"]))
    there = "is used" if os.path.exists(path) else "is not there: every default holds"
    return Finding("configuration", True, f"{path} {there}")


def _without(path: str, faults: list[dict[str, Any]]) -> str:
    """The command after which what is wrong is not read: lines become comments."""
    in_file = [fault for fault in faults if fault["where"] == path]
    if not in_file:
        return "unset " + " ".join(_variable(fault["where"]) for fault in faults)
    lines = sorted({fault["line"] for fault in in_file if fault["line"]})
    if len(lines) < len({fault["key"] for fault in in_file}):
        return f"mv {quoted(path)} {quoted(path + '.wrong')}"
    edits = " ".join(f"-e '{line}s/^/# /'" for line in lines)
    return f"sed -i {edits} {quoted(path)}"


def _variable(where: str) -> str:
    return where.split()[-1]


def lock(endpoint: Endpoint) -> Finding:
    """Whether the process that the locks name runs; one that was killed leaves its sockets."""
    pid = holder(endpoint)
    if pid is not None:
        return Finding("lock", True, f"process {pid} has the history open")
    named = _named(endpoint)
    killed = named is not None and not is_running(named)
    if killed and not all(map(_is_listened_on, _socket_paths(endpoint))):
        detail = f"{endpoint.state}/stetd.lock names process {named}, which was killed"
        return Finding("lock", False, detail, START)
    return Finding("lock", True, "no daemon has the history open")


def _named(endpoint: Endpoint) -> int | None:
    try:
        with open(os.path.join(endpoint.state, "stetd.lock"), "rb") as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None


def _socket_paths(endpoint: Endpoint) -> list[str]:
    both = [msgspec.structs.replace(endpoint, control=each).path for each in (False, True)]
    return [path for path in both if os.path.exists(path)]


def journal(endpoint: Endpoint) -> Iterator[Finding]:
    """What the next start will find; nothing while a daemon has it open, or has none."""
    if holder(endpoint) is not None or not os.path.isdir(os.path.join(endpoint.state, "journal")):
        return
    environ = os.environ | {"STET_STATE_DIR": endpoint.state}
    command = [sys.executable, "-P", "-m", "stetd.recovery.inspection"]
    done = subprocess.run(command, capture_output=True, env=environ, check=False)
    try:
        found: dict[str, Any] = msgspec.json.decode(done.stdout)
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        yield Finding("journal", False, f"it can't be looked at: {said}", "stet service logs")
        return
    yield _journal(found)


def _journal(found: dict[str, Any]) -> Finding:
    if found["unreadable"]:
        return Finding("journal", False, found["unreadable"], START)
    if found["newer"]:
        detail = f"{found['refused']} - nothing is lost, but this stet is too old for it"
        return Finding("journal", False, detail, _upgrade())
    if found["refused"]:
        path = found["refused"].partition(": ")[0]
        away = f"mv {quoted(path)} {quoted(path + '.damaged')}; {START}"
        return Finding("journal", False, found["refused"], away)
    for torn in found["torn"]:
        detail = f"{torn['path']} ends with {torn['bytes']} bytes that are no record"
        kept = f"cp {quoted(torn['path'])} {quoted(torn['path'] + '.damaged')}"
        return Finding("journal", False, f"{detail}; a start cuts them off", f"{kept}; {START}")
    return Finding("journal", True, f"{found['segments']} segments, all readable")


def _upgrade() -> str:
    """How this installation gets a newer version."""
    if "/pipx/venvs/" in sys.prefix:
        return "pipx upgrade stetd"
    if "/uv/tools/" in sys.prefix:
        return "uv tool upgrade stetd"
    return f"{quoted(sys.executable)} -m pip install --upgrade stetd"
