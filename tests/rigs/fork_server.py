"""A process that forks real daemons: one costs milliseconds, not a start of Python.

Reads orders from standard input, a JSON line each, and answers each with a JSON line:

    {"do": "fork", "environment": {..}, "log": path, "directory": path, "held": bool,
     "tricks": {..}}           -> pid
    {"do": "look", "pid": n}   -> null while it runs, "stopped", or its wait status

A child is the whole daemon, ``stetd.cli.main``, with its threads and sockets. ``held``: it
stops itself (SIGSTOP) before it does anything, so that a tracer can be attached. Tricks, for
what the kernel can't be made to do:

    short_writes   every write takes this many bytes at most
    no_sync        fsync and fdatasync do nothing (the mutant that a power cut must catch)
    file_size      no file may grow beyond so many bytes (RLIMIT_FSIZE)
    powerless      without capabilities, so that permissions hold for root as for anybody
    stop_at        stop (SIGSTOP) at every failpoint; its name is appended to this file

Failpoints are read from the environment when the daemon is imported, which has happened
before the fork; so they are armed in every module that imported ``failpoint``.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import stetd.daemon  # loaded once, before any fork
from stetd import cli, failpoints
from stetd.editing.tokens import load_encoding
from stetd.storage.disk import Disk


def arm_failpoints(armed: Callable[[str], None]) -> None:
    """Put a function in the place of ``failpoint`` wherever it was imported."""
    for module in list(sys.modules.values()):
        if module.__name__.startswith("stetd") and hasattr(module, "failpoint"):
            module.failpoint = armed  # type: ignore[attr-defined]


def _stop_at_every_point(names: str) -> Callable[[str], None]:
    def failpoint(name: str) -> None:
        with open(names, "a", encoding="ascii") as out:
            out.write(f"{name}\n")
        # To this thread: sent to the process, another might take it, and this one go on a bit.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    return failpoint


def _write_short(most: int) -> None:
    write, pwrite = os.write, os.pwrite
    os.write = lambda fd, data: write(fd, memoryview(data)[:most])
    os.pwrite = lambda fd, data, offset: pwrite(fd, memoryview(data)[:most], offset)


def _drop_capabilities() -> None:
    header = struct.pack("Ii", 0x20080522, 0)  # version 3, this process (capset(2))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def play_tricks(tricks: dict[str, Any]) -> None:
    """Arm what an order asks for."""
    if "short_writes" in tricks:
        _write_short(tricks["short_writes"])
    if tricks.get("no_sync"):
        Disk.fsync = Disk.fdatasync = lambda self, fd: None  # type: ignore[method-assign]
    if "file_size" in tricks:
        resource.setrlimit(resource.RLIMIT_FSIZE, (tricks["file_size"],) * 2)
    if "stop_at" in tricks:
        arm_failpoints(_stop_at_every_point(tricks["stop_at"]))
    else:
        arm_failpoints(failpoints.from_environment())
    if tricks.get("powerless"):
        _drop_capabilities()


def be_a_daemon(order: dict[str, Any]) -> None:
    """Run a daemon in this process and end it."""
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["directory"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 1
    try:
        play_tricks(order["tricks"])
        if order["held"]:
            os.kill(os.getpid(), signal.SIGSTOP)
        status = cli.main([])
    except BaseException:  # noqa: BLE001 - whatever it is, it belongs into the log
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _fork(order: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        be_a_daemon(order)
    return child


def _look(pid: int) -> int | str | None:
    found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
    if not found:
        return None
    return "stopped" if os.WIFSTOPPED(status) else status


def main() -> None:
    """Serve orders until the input ends."""
    assert stetd.daemon.Daemon is not None
    load_encoding()
    for line in sys.stdin:
        order = json.loads(line)
        answer = _fork(order) if order["do"] == "fork" else _look(order["pid"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
