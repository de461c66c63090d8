"""The thread of long work: it stops, also where a step of the work does not end."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from concurrent.futures import CancelledError

import pytest

from stetd.storage.repacking import Progress
from stetd.upkeep import Job, Upkeep


@pytest.fixture
def upkeep() -> Iterator[Upkeep]:
    thread = Upkeep(lambda: 1.0, 0, last_step_s=0.05)
    thread.start()
    yield thread
    thread.close()


def test_one_piece_after_the_other_and_what_fails_stops_none(upkeep: Upkeep) -> None:
    def counted(progress: Progress) -> Generator[None, None, int]:
        for number in range(3):
            progress.done = number + 1
            yield
        return progress.done

    def broken(progress: Progress) -> Generator[None, None, int]:
        yield
        raise OSError("the disk is full")

    first = upkeep.submit(Job("first", "/w", counted))
    second = upkeep.submit(Job("second", "/w", broken))
    third = upkeep.submit(Job("third", "/w", counted))
    assert first.result(20) == 3
    with pytest.raises(OSError, match="the disk is full"):
        second.result(20)
    assert third.result(20) == 3


def test_a_step_that_does_not_end_keeps_nobody_from_stopping(upkeep: Upkeep) -> None:
    begun, ended = threading.Event(), threading.Event()

    def stuck(_: Progress) -> Generator[None, None, None]:
        begun.set()
        ended.wait()
        yield

    upkeep.submit(Job("stuck", "/w", stuck))
    waiting = upkeep.submit(Job("waiting", "/w", stuck))
    assert begun.wait(20)
    upkeep.close()
    with pytest.raises(CancelledError):
        waiting.result(20)
    ended.set()


def test_what_is_given_up_is_closed(upkeep: Upkeep) -> None:
    begun, closed = threading.Event(), threading.Event()

    def endless(_: Progress) -> Generator[None, None, None]:
        try:
            while True:
                begun.set()
                yield
        finally:
            closed.set()

    future = upkeep.submit(Job("endless", "/w", endless))
    assert begun.wait(20)
    upkeep.close()
    with pytest.raises(CancelledError):
        future.result(20)
    assert closed.wait(20)
