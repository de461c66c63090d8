"""The checks of ``stet doctor`` on files: directories, sockets, disk, lock and journal; and the
class of a finding.

Nothing is created. Whether somebody listens on a socket is tested by connecting to it, which may
make systemd start the service.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from stet.cli.config import ask_stetd
from stet.errors import StetError
from stet.service.socket_path import UnsafeDirectory, check_private, config_path, quoted
from stet.service.spawn import Endpoint, holder, is_running

#: The history's disk is reported if it has less free space, or fewer free inodes, than this.
_SPARE_BYTES = 500 * 1024 * 1024
_SPARE_FILES = 1000

#: A command that starts the daemon.
START = "stet status"


class Finding(msgspec.Struct, frozen=True):
    """The result of a check. ``mend``: the command that mends the fault or helps to examine it."""

    check: str
    ok: bool
    detail: str
    mend: str | None = None


def fine(check: str, detail: str) -> Finding:
    """A finding without a fault."""
    return Finding(check, True, detail)


def wrong(check: str, detail: str, mend: str | None) -> Finding:
    """A finding with a fault."""
    return Finding(check, False, detail, mend)


def _as_root(command: str) -> str:
    return command if os.geteuid() == 0 else f"sudo {command}"


def chown_if_foreign(directory: str) -> str | None:
    """The command that takes over a directory of another user."""
    with contextlib.suppress(OSError):
        if os.stat(directory).st_uid != os.geteuid():
            return _as_root(f"chown -R {os.geteuid()}:{os.getegid()} {quoted(directory)}")
    return None


# -- runtime directory and sockets -----------------------------------------------------------


def runtime(endpoint: Endpoint) -> Finding:
    """Check the directory of the sockets, and its parent."""
    name, directory = "runtime directory", endpoint.runtime
    try:
        check_private(directory)
    except FileNotFoundError:
        return _missing_runtime(name, directory)
    except UnsafeDirectory as error:
        return wrong(name, str(error), error.mend or chown_if_foreign(directory))
    except OSError as error:
        mend = "unset STET_RUNTIME_DIR XDG_RUNTIME_DIR"
        return wrong(name, f"{directory}: {error.strerror}", mend)
    return fine(name, directory)


def _missing_runtime(name: str, directory: str) -> Finding:
    above = os.path.dirname(directory)
    if os.path.isdir(above) or os.access(_existing(above), os.W_OK):
        return fine(name, f"{directory}, made at the first start")
    uid, gid = os.geteuid(), os.getegid()
    mend = f"install -d -o {uid} -g {gid} -m 700 {quoted(above)}"
    if above == f"/run/user/{uid}" and os.path.exists("/run/systemd/seats"):
        # Lingering: logind creates the directory, keeps it, and starts the user manager.
        mend = f"loginctl enable-linger {uid}"
    detail = f"{above} is not there, and can't be made: nobody has logged in as you here"
    return wrong(name, detail, _as_root(mend))


def sockets(endpoint: Endpoint) -> Iterator[Finding]:
    """Check the sockets. A missing one is left to the check of the daemon."""
    for path in _socket_paths(endpoint):
        name, target = os.path.basename(path), quoted(path)
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue  # the check of the daemon or of the directory reports it
        permissions = stat.S_IMODE(mode)
        if not stat.S_ISSOCK(mode):
            yield wrong(name, f"{path} is no socket", f"rm -r {target}")
        elif permissions != 0o600:
            yield wrong(name, f"{path} has mode {permissions:04o}, not 0600", f"chmod 600 {target}")
        elif not _is_listened_on(path):
            # No ``rm`` here: when the person runs it, a new daemon may own the socket.
            yield wrong(name, f"{path} is stale: nobody listens there any more", START)
        else:
            yield fine(name, path)


def _socket_paths(endpoint: Endpoint) -> list[str]:
    return [msgspec.structs.replace(endpoint, control=each).path for each in (False, True)]


def _is_listened_on(path: str) -> bool:
    # Not by /proc/net/unix: it lists names only, and a name may belong to another socket, in
    # another mount namespace or from before a rename.
    with socket.socket(socket.AF_UNIX) as tried, contextlib.suppress(OSError):
        tried.settimeout(1)
        return tried.connect_ex(path) not in (errno.ECONNREFUSED, errno.ENOENT)
    return True


# -- state directory -------------------------------------------------------------------------


def state(directory: str) -> Finding:
    """Check the directory of the history: its owner, mode and file system."""
    name = "state directory"
    try:
        found = os.stat(directory)
    except FileNotFoundError:
        if os.path.islink(directory):
            detail = f"{directory} is a link to {os.readlink(directory)}, which is not there"
            return wrong(name, detail, f"put that back, or: rm {quoted(directory)}")
        if not os.access(above := _existing(directory), os.W_OK):
            detail = f"{directory} can't be made: {above} can't be written"
            return wrong(name, detail, "export STET_STATE_DIR=DIR, with a directory of your own")
        return fine(name, f"{directory}, made at the first start")
    except OSError as error:
        return wrong(name, f"{directory}: {error.strerror}", chown_if_foreign(directory))
    if not stat.S_ISDIR(found.st_mode):
        away = f"mv {quoted(directory)} {quoted(directory + '.old')}"
        return wrong(name, f"{directory} is no directory", away)
    if found.st_uid != os.geteuid():
        detail = f"{directory} belongs to user id {found.st_uid}, not to you ({os.geteuid()})"
        return wrong(name, detail, chown_if_foreign(directory))
    if os.statvfs(directory).f_flag & os.ST_RDONLY:
        detail = f"{directory} is on a file system that is mounted read-only"
        return wrong(name, detail, disk_command(directory))
    private = f"chmod 700 {quoted(directory)}"
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return wrong(name, f"{directory} is read-only: its mode forbids writing", private)
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        return wrong(
            name, f"{directory} has mode {mode:04o}: others can read your history", private
        )
    return fine(name, directory)


def space(directory: str) -> Finding:
    """Check the free space on the disk of the history."""
    name, where = "disk space", _existing(directory)
    try:
        found = os.statvfs(where)
    except OSError as error:
        return wrong(name, f"{where}: {error.strerror}", f"df -h {quoted(where)}")
    free = found.f_bavail * found.f_frsize
    detail = f"{free // (1024 * 1024):,} MiB free for the history"
    if _lacks_files(found):
        detail = f"only {found.f_favail} more files can be made on the disk of the history"
    elif free >= _SPARE_BYTES:
        return fine(name, detail)
    return wrong(name, detail, disk_command(directory, free))


def _lacks_files(found: os.statvfs_result) -> bool:
    # XFS makes them as needed, so a full disk has few, too. What is wanting there is space.
    return bool(found.f_files) and found.f_favail < min(_SPARE_FILES, found.f_bavail)


def disk_command(directory: str, free: int = 0) -> str:
    """The command that frees space on the disk of the history, which has ``free`` bytes left.

    It truncates the logs if that is enough. Otherwise it lists the largest files for the person.
    Where no more files can be made, it lists the directories with the most: ``stet gc`` would have
    to make some, too. For a file system that is mounted read-only it is the command that mounts it
    for writing.
    """
    point = quoted(_mount_point(_existing(directory)))
    found = os.statvfs(_existing(directory))
    if found.f_flag & os.ST_RDONLY:
        return _as_root(f"mount -o remount,rw {point}")
    if _lacks_files(found):
        return f"du -x --inodes {point} | sort -n | tail -n 20"
    logs = [os.path.join(directory, name) for name in ("stetd.log", "stetd.log.1")]
    sizes = {path: os.path.getsize(path) for path in logs if os.path.isfile(path)}
    if free + sum(sizes.values()) >= _SPARE_BYTES:
        return f"truncate -s 0 {' '.join(map(quoted, sizes))}"
    return f"du -xah {point} | sort -h | tail -n 20"


def _existing(path: str) -> str:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _mount_point(path: str) -> str:
    """The mount point of a path's file system. Unlike os.path.ismount it finds bind mounts."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = {line.split(" ")[4].replace("\\040", " ") for line in table}
    path = os.path.realpath(path)
    while path not in points and path != "/":
        path = os.path.dirname(path)
    return path


# -- configuration, lock, journal ------------------------------------------------------------


def configuration() -> Finding:
    """Check that a daemon that is started now could use its configuration."""
    name, path = "configuration", os.path.abspath(config_path())
    try:
        checked = ask_stetd("--check-config")
    except StetError as error:
        return wrong(name, error.message, f"{sys.executable} -m pip check")
    if not checked["ok"]:
        messages = "; ".join(fault["message"] for fault in checked["faults"])
        return wrong(name, messages, _command_without(path, checked["faults"]))
    there = "is used" if os.path.exists(path) else "is not there: every default holds"
    return fine(name, f"{path} {there}")


def _command_without(path: str, faults: list[dict[str, Any]]) -> str:
    """The command that makes stetd ignore the faults, usually by commenting out their lines."""
    in_file = [fault for fault in faults if fault["where"] == path]
    if not in_file:
        return "unset " + " ".join(fault["where"].split()[-1] for fault in faults)
    lines = sorted({fault["line"] for fault in in_file if fault["line"]})
    if len(lines) < len({fault["key"] for fault in in_file}) or not _is_toml(path, lines):
        return f"mv {quoted(path)} {quoted(path + '.wrong')}"
    edits = " ".join(f"-e '{line}s/^/# /'" for line in lines)
    return f"sed -i {edits} {quoted(os.path.realpath(path))}"  # it would replace a link


def _is_toml(path: str, without: Collection[int]) -> bool:
    """Whether a file is TOML without these lines: a value may go on in the next line."""
    import tomllib

    with open(path, encoding="utf-8") as file:
        lines = [line for number, line in enumerate(file, start=1) if number not in without]
    with contextlib.suppress(tomllib.TOMLDecodeError):
        tomllib.loads("".join(lines))
        return True
    return False


def lock(endpoint: Endpoint) -> Finding:
    """Check that the process named in the lock file runs. A killed one leaves its sockets."""
    pid = holder(endpoint)
    if pid is not None:
        return fine("lock", f"process {pid} has the history open")
    with contextlib.suppress(OSError, ValueError):
        with open(os.path.join(endpoint.state, "stetd.lock"), "rb") as file:
            pid = int(file.read(32))
        paths = filter(os.path.exists, _socket_paths(endpoint))
        if not is_running(pid) and not all(map(_is_listened_on, paths)):
            detail = f"{endpoint.state}/stetd.lock names process {pid}, which was killed"
            return wrong("lock", detail, START)
    return fine("lock", "no daemon has the history open")


def next_start(endpoint: Endpoint) -> Finding | None:
    """Check what the next start needs; None: nothing is wrong, and there is no journal yet, or a
    daemon has it open.
    """
    in_use = ["--in-use"] if holder(endpoint) is not None else []
    command = [sys.executable, "-P", "-m", "stetd.recovery.inspection", *in_use]
    done = subprocess.run(command, capture_output=True, check=False)
    try:
        found: Finding | None = msgspec.json.decode(done.stdout, type=Finding | None)
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return wrong("journal", f"it can't be looked at: {said}", "stet service logs")
    return found
