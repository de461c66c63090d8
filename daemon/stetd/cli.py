"""``stetd``: the daemon in the foreground.

Order of a start: options, directories, the lock that makes it the only daemon, recovery
(``stetd.daemon``), sockets, readiness. Order of a stop (SIGTERM, SIGINT, or idle): the
server drains, the daemon writes its checkpoint, the lock is let go.

Exit status::

    0  stopped as asked
    1  could not start, or failed; standard error says why
    2  usage or configuration
    5  another daemon is using the same directories
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stet.socket_path import UnsafeDirectory
from stet.version import __version__
from stetd import systemd_socket
from stetd.config import ConfigurationError, Settings, load_settings
from stetd.directories import AlreadyRunning, Directories, InstanceLock
from stetd.listening import Listener, SocketInTheWay, listen
from stetd.server import Server

if TYPE_CHECKING:
    from stetd.daemon import Daemon

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_ALREADY_RUNNING = 5

#: Descriptors beside the connections: journal, workspaces, objects, grace period.
_OTHER_DESCRIPTORS = 1024

log = logging.getLogger("stetd")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon until it is told to stop; the exit status."""
    options = _parser().parse_args(arguments)
    directories = Directories.from_environment()
    try:
        path = options.config or directories.config
        settings = load_settings(path, must_exist=bool(options.config))
    except ConfigurationError as error:
        return _complain(str(error), EXIT_USAGE)
    _set_up_process(settings)
    try:
        directories.prepare()
        lock = InstanceLock.acquire(directories)
    except AlreadyRunning as error:
        return _complain(str(error), EXIT_ALREADY_RUNNING)
    except (UnsafeDirectory, OSError) as error:
        return _complain(str(error), EXIT_FAILED)
    try:
        return _run(settings, directories)
    finally:
        lock.release()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stetd",
        description="The editing daemon, in the foreground. stet starts one when it needs it.",
    )
    parser.add_argument("--version", action="version", version=f"stetd {__version__}")
    parser.add_argument("--config", metavar="FILE", help="configuration file (TOML)")
    return parser


def _complain(message: str, status: int) -> int:
    print(f"stetd: {message}", file=sys.stderr)  # noqa: T201 - logging may not be set up yet
    return status


def _set_up_process(settings: Settings) -> None:
    os.umask(0o077)
    _raise_descriptor_limit(2 * settings.max_connections + _OTHER_DESCRIPTORS)
    # The journal of systemd puts the time before each line itself.
    time = "" if "JOURNAL_STREAM" in os.environ else "%(asctime)s "
    logging.basicConfig(
        level=settings.log_level.upper(),
        format=time + "%(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )


def _raise_descriptor_limit(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < possible:
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))


def _run(settings: Settings, directories: Directories) -> int:
    # pygit2 and the rest take their time to load; a usage error need not wait for it.
    from stetd.daemon import Daemon, StartError

    try:
        daemon = Daemon.open(settings, directories)
    except StartError as error:
        return _complain(str(error), EXIT_FAILED)
    try:
        listeners = _listeners(directories)
        asyncio.run(_serve(settings, daemon, listeners))
    except (SocketInTheWay, systemd_socket.ActivationError, OSError) as error:
        return _complain(str(error), EXIT_FAILED)
    finally:
        daemon.close()
    log.info("stopped")
    return 0


def _listeners(directories: Directories) -> list[Listener]:
    """Both sockets: the one that systemd opened where there is one, else a new one."""
    inherited = systemd_socket.inherited_sockets()
    listeners = []
    for name, path in (
        ("agent", directories.agent_socket),
        ("control", directories.control_socket),
    ):
        control = name == "control"
        given = inherited.get(name)
        listeners.append(
            Listener(given, control, None) if given is not None else listen(path, control=control)
        )
    return listeners


async def _serve(settings: Settings, daemon: Daemon, listeners: list[Listener]) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    daemon.handlers.on_shutdown = stop.set
    server = Server(settings, daemon.handlers, listeners, idle=stop.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await server.start()
    log.info("stetd %s serves, process %d", __version__, os.getpid())
    systemd_socket.notify("READY=1", "STATUS=Serving")
    await stop.wait()
    log.info("stopping")
    systemd_socket.notify("STOPPING=1", "STATUS=Finishing calls in work")
    await server.stop()


if __name__ == "__main__":
    sys.exit(main())
