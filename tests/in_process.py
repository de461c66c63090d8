"""A daemon in this process, without its sockets, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from historian_thread import start_thread
from stetd.config.directories import Directories
from stetd.config.settings import Settings
from stetd.daemon import Daemon
from stetd.engine.writer import Writer
from stetd.methods import Requests
from stetd.methods.caller import Params
from stetd.server.peer import PeerProcess
from stetd.storage.disk import Disk

T = TypeVar("T")


async def _ready() -> None:
    """Nothing waits to be sent: there is no socket."""


class InProcess:
    """Runs it until it is closed."""

    def __init__(
        self,
        settings: Settings,
        directories: Directories,
        disk: Disk | None = None,
        planners: Any = None,
    ) -> None:
        self._opened = threading.Event()
        self._failure: BaseException | None = None
        self.daemon: Daemon
        self._thread = threading.Thread(
            target=self._run, args=(settings, directories, disk, planners), daemon=True
        )
        self._thread.start()
        self._opened.wait()
        self._raise_failure()

    def _run(
        self, settings: Settings, directories: Directories, disk: Disk | None, planners: Any
    ) -> None:
        try:
            # The historian is a thread, and is killed with the rest.
            disk = disk or Disk()
            run = partial(start_thread, disk)
            self.daemon = Daemon.open(settings, directories, run, disk, planners=planners)
            self._opened.set()
            self.daemon.loop.run_forever()
            self.daemon.close()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever opened or closes it
            self._failure = error
        finally:
            self._opened.set()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    @property
    def writer(self) -> Writer:
        return self.daemon.writer

    def connect(self, *, control: bool, peer: PeerProcess) -> Asking:
        """A connection that is asked from any thread, on whatever loop."""
        client: Any = SimpleNamespace(wait_writable=_ready)
        made = self.daemon.handlers.connect(control=control, peer=peer, client=client)
        return Asking(self, made)

    def on_loop(self, run: Callable[[], T]) -> T:
        """Do something where the daemon's work is done, and wait for it."""

        async def carry_out() -> T:
            return run()

        return asyncio.run_coroutine_threadsafe(carry_out(), self.daemon.loop).result(60)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done where the daemon's work is done, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.daemon.loop).result(60)

    def checkpoint(self) -> None:
        """Take one, and wait for it."""
        done = threading.Event()
        self.on_loop(lambda: self.writer.checkpoints.begin(done.set))
        assert done.wait(20)

    def close(self) -> None:
        if self._thread.is_alive():
            self.daemon.loop.call_soon_threadsafe(self.daemon.loop.stop)
        self._thread.join()
        self._raise_failure()


def opened(base: Path, disk: Disk | None = None, **settings: Any) -> InProcess:
    """One whose directories lie below ``base``, and which has nothing to do by itself."""
    names = (str(base / name) for name in ("run", "state", "c.toml"))
    chosen = {"gc_idle_s": 0, "log_level": "error", **settings}
    return InProcess(Settings(**chosen), Directories(*names), disk)


@contextmanager
def running(base: Path, disk: Disk | None = None, **settings: Any) -> Iterator[InProcess]:
    """The same, which is closed at the end."""
    daemon = opened(base, disk, **settings)
    try:
        yield daemon
    finally:
        daemon.close()


class Asking:
    """One connection to it."""

    def __init__(self, daemon: InProcess, connection: Requests) -> None:
        self._daemon = daemon
        self.connection = connection

    async def call(self, method: str, params: Params) -> Any:
        asked = self.connection.call(method, params)
        running = asyncio.run_coroutine_threadsafe(asked, self._daemon.daemon.loop)
        return await asyncio.wrap_future(running)

    def disconnected(self) -> None:
        self._daemon.on_loop(self.connection.disconnected)
