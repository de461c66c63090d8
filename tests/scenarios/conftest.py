"""Fixtures of the scenarios: daemons that live as long as the module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.running_daemon import DaemonProcess
from stet.wire.framing import Encoding

pytest.register_assert_rewrite("scenarios.ways")

from scenarios.ways import InProcess, OverTheSocket  # noqa: E402 - after the line above

#: What is in the folders are data, whatever their names.
collect_ignore_glob = ["*/[0-9]*"]


@pytest.fixture(scope="module")
def in_process() -> Iterator[InProcess]:
    way = InProcess()
    yield way
    way.close()


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    process = DaemonProcess({"durability": '"relaxed"'})
    try:
        process.start()
        yield process
        assert process.stop() == 0, process.log()
        assert process.log() == ""
    finally:
        process.close()


@pytest.fixture
def json_socket(daemon: DaemonProcess) -> OverTheSocket:
    return OverTheSocket(daemon, Encoding.JSON)


@pytest.fixture
def msgpack_socket(daemon: DaemonProcess) -> OverTheSocket:
    return OverTheSocket(daemon, Encoding.MSGPACK)
