"""``stetd``: the daemon in the foreground.

Order of a start: options, directories, the instance lock, recovery (``stetd.daemon``), sockets,
readiness. Order of a stop (SIGTERM, SIGINT, or idle): the server drains, the daemon writes its
checkpoint, the lock is released. SIGHUP reads the configuration again.

Exit status::

    0  stopped as asked
    1  could not start, or failed; standard error says why
    2  usage or configuration
    5  another daemon is using the same directories
    6  the state was written by a newer version, or can't be read as state
"""

from __future__ import annotations

from stetd import quick_asyncio  # noqa: F401 # isort: skip - before anything loads asyncio
import argparse
import asyncio
import faulthandler
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from stet import own_process
from stet.service.socket_path import UnsafeDirectory, socket_path
from stet.version import __version__
from stetd.config import logs
from stetd.config.directories import AlreadyRunning, Directories, instance_lock
from stetd.config.logs import Log
from stetd.config.settings import (
    ConfigurationError,
    Reloading,
    Settings,
    load_settings,
    show_settings,
)
from stetd.processes.children import configure_allocator
from stetd.server import systemd
from stetd.server.server import Listener, Server, SocketInTheWay, listen

if TYPE_CHECKING:
    from stetd.daemon import Daemon

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_ALREADY_RUNNING = 5
EXIT_UNREADABLE_STATE = 6
#: Descriptors beside the connections': journal, workspaces, objects, grace period.
_OTHER_DESCRIPTORS = 1024
#: Seconds that sending READY=1 to the service manager may take.
_READY_TIMEOUT_S = 10.0
#: Seconds between two checks that the sockets exist.
_SOCKET_CHECK_S = 5.0

log = logging.getLogger("stetd")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon until it stops. Returns the exit status."""
    own_process.prepare()
    gc.disable()  # until everything is loaded: loading allocates much and frees nothing
    options = parser().parse_args(arguments)
    directories = Directories.from_environment()
    if options.show_config or options.check_config is not None:
        return _print_configuration(options, directories)
    if not os.path.exists("/proc/self"):
        from stet.service.spawn import NO_PROC

        return _complain(NO_PROC, EXIT_FAILED)
    hangups: list[object] = []  # a SIGHUP before the daemon serves must not be lost
    signal.signal(signal.SIGHUP, lambda number, _: hangups.append(number))
    path, must_exist = options.config or directories.config, bool(options.config)
    try:
        settings = load_settings(path, must_exist=must_exist)
    except ConfigurationError as error:
        return _complain(str(error), EXIT_USAGE)
    os.umask(0o077)
    faulthandler.enable()  # prints all stacks if the watchdog sends SIGABRT
    _raise_descriptor_limit(settings)
    configure_allocator(256 * 1024)
    destination = logs.set_up(settings.log_level)
    with ExitStack() as resources:
        try:
            directories.prepare()
            locks = resources.enter_context(instance_lock(directories))
        except AlreadyRunning as error:
            return _complain(str(error), EXIT_ALREADY_RUNNING)
        except (UnsafeDirectory, OSError) as error:
            return _complain(str(error), EXIT_FAILED)
        reloading = Reloading(path, must_exist, settings)
        return _run(reloading, directories, destination, hangups, locks)


def parser() -> argparse.ArgumentParser:
    """The command line of ``stetd``."""
    made = argparse.ArgumentParser(
        prog="stetd",
        description="The editing daemon, in the foreground. stet starts one when it needs it.",
    )
    made.add_argument("--version", action="version", version=f"stetd {__version__}")
    made.add_argument("--config", metavar="FILE", help="configuration file (TOML)")
    only = made.add_mutually_exclusive_group()
    show = "print every option as JSON, and end (stet config show is for people)"
    only.add_argument("--show-config", action="store_true", help=show)
    check = "print what is wrong with it as JSON, and end; exit status 2 if anything is"
    only.add_argument("--check-config", nargs="?", const="", metavar="FILE", help=check)
    return made


def _complain(message: str, status: int) -> int:
    print(f"stetd: {message}", file=sys.stderr)  # noqa: T201 - logging may not be set up yet
    return status


def _print_configuration(given: argparse.Namespace, directories: Directories) -> int:
    chosen = given.check_config or given.config
    path = os.path.abspath(chosen or directories.config)
    report: dict[str, Any] = {"path": path, "ok": True, "faults": []}
    try:
        settings = load_settings(path, must_exist=bool(chosen))
        if given.show_config:
            report = show_settings(path, settings)
    except ConfigurationError as error:
        report |= {"ok": False, "faults": error.faults}
    print(msgspec.json.encode(report).decode())  # noqa: T201
    return EXIT_USAGE if report.get("faults") else 0


def _raise_descriptor_limit(settings: Settings) -> None:
    wanted = 2 * settings.max_connections + _OTHER_DESCRIPTORS
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < possible:
            resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
    except (OSError, ValueError) as error:  # a hardened service may not be allowed to
        log.warning("the limit of open files stays as it is: %s", error)


def _run(
    reloading: Reloading,
    directories: Directories,
    destination: Log,
    hangups: list[object],
    locks: list[int],
) -> int:
    # These modules take long to load; a usage error need not wait for them.
    from stetd.daemon import Daemon
    from stetd.engine.long_planning import Planners
    from stetd.processes.historian_client import start_process
    from stetd.storage.journal import JournalBroken
    from stetd.storage.journal_format import FormatError

    try:
        with systemd.extend_timeout():
            daemon = Daemon.open(
                reloading.settings,
                directories,
                partial(start_process, keep=locks),
                tell=systemd.set_status,
                planners=Planners(),
            )
    except FormatError as error:
        return _complain(str(error), EXIT_UNREADABLE_STATE)
    except JournalBroken as error:
        return _complain(str(error), EXIT_FAILED)
    except OSError as error:
        where = os.fsdecode(error.filename) if error.filename else directories.state
        return _complain(f"{where}: {error.strerror}", EXIT_FAILED)
    daemon.handlers.reloading = reloading
    daemon.handlers.last_error = lambda: destination.newest
    try:
        listeners = _listeners(directories)
        serving = _serve(reloading, daemon, listeners, hangups, destination)
        daemon.loop.run_until_complete(serving)
    except (SocketInTheWay, systemd.ActivationError, OSError) as error:
        return _complain(str(error), EXIT_FAILED)
    finally:
        systemd.set_status("Writing the last checkpoint")
        with systemd.extend_timeout():
            daemon.close()
    log.info("stopped")
    return 0


def _listeners(directories: Directories) -> list[Listener]:
    """Both listening sockets: those that systemd passed, and new ones for the others."""
    given = systemd.inherited_sockets()
    return [
        Listener(given[name], control, None)
        if name in given
        else listen(socket_path(directories.runtime, control=control), control=control)
        for name, control in (("agent", False), ("control", True))
    ]


async def _serve(
    reloading: Reloading,
    daemon: Daemon,
    listeners: list[Listener],
    hangups: list[object],
    destination: Log,
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    daemon.handlers.on_shutdown = stop.set
    server = Server(
        reloading.settings,
        daemon.handlers,
        listeners,
        on_idle=stop.set,
        log_call=destination.call,
    )
    reloading.apply = partial(_reconfigure, daemon, server)
    tasks: set[asyncio.Task[object]] = set()

    def spawn(work: Coroutine[Any, Any, object]) -> None:
        task = loop.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # SIGHUP from a closed terminal ends the daemon that runs in it; otherwise it means reload.
    watched = os.isatty(sys.stderr.fileno())
    reload = stop.set if watched else lambda: spawn(reloading.reload())
    loop.add_signal_handler(signal.SIGHUP, reload)
    if hangups:
        reload()
    await server.start()
    log.info("stetd %s serves, process %d", __version__, os.getpid())
    status = partial(systemd.status_line, daemon.writer)
    # Exempt all loaded objects from garbage collection; to walk them takes 20 ms each time.
    gc.freeze()
    gc.enable()
    systemd.notify("READY=1", f"STATUS={status()}", timeout_s=_READY_TIMEOUT_S)
    if "NOTIFY_SOCKET" in os.environ:
        spawn(systemd.update_status(status))
        interval = systemd.heartbeat_interval()
        if interval is not None:
            spawn(systemd.send_heartbeats(interval))
    spawn(_stop_without_sockets([each.path for each in listeners if each.path], stop))
    await stop.wait()
    log.info("stopping")
    daemon.handlers.end_waits()
    for task in list(tasks):
        task.cancel()
    calls = server.calls_in_work
    systemd.notify("STOPPING=1", f"STATUS=Stopping: {calls} calls are being finished")
    daemon.begin_to_stop()
    await server.stop()


async def _stop_without_sockets(sockets: list[str], stop: asyncio.Event) -> None:
    """Stop if a socket was removed, as at a logout: the next client starts another daemon."""
    while all(map(os.path.exists, sockets)):
        await asyncio.sleep(_SOCKET_CHECK_S)
    log.warning("a socket is gone from %s", os.path.dirname(sockets[0]))
    stop.set()


def _reconfigure(daemon: Daemon, server: Server, settings: Settings) -> None:
    _raise_descriptor_limit(settings)
    logging.getLogger().setLevel(settings.log_level.upper())
    daemon.reconfigure(settings)
    server.reconfigure(settings)


if __name__ == "__main__":
    sys.exit(main())
