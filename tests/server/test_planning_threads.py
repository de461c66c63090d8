"""Threads that have calls planned, and what becomes of a call without a thread or its process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stet.wire.failures import Refused
from stetd.planning_beside import Beside, PlanningBeside
from stetd.planning_process import Nursery, PlannerLost


@contextmanager
def no_threads() -> Iterator[None]:
    """None can be started: each would need more address space than there is."""
    before = threading.stack_size(1 << 55)
    try:
        with pytest.raises(RuntimeError):
            threading.Thread(target=print).start()
        yield
    finally:
        threading.stack_size(before)


def a_call(done: Callable[[], None]) -> Beside:
    """A call that is over by the time that its turn has come: nothing of it is looked at."""
    unused = cast("Any", None)
    return Beside(unused, unused, None, unused, done, wanted=lambda: True, over=lambda: True)


def test_without_a_thread_a_call_is_given_back_for_the_writer_to_plan() -> None:
    beside = PlanningBeside(Nursery())
    done = threading.Event()
    call = a_call(done.set)
    with no_threads():
        beside.submit(call)
    assert done.is_set()
    assert call.recorded is None
    beside.close()


def test_a_thread_is_begun_as_soon_as_there_can_be_one() -> None:
    beside = PlanningBeside(Nursery())
    with no_threads():
        beside.submit(a_call(lambda: None))
    done = threading.Event()
    beside.submit(a_call(done.set))
    assert done.wait(30)
    with no_threads():
        done = threading.Event()
        beside.submit(a_call(done.set))
        assert done.wait(30)
    beside.close()


class Lost:
    """A workspace that can't be looked at any more because the process is gone."""

    def apart(self) -> None:
        raise PlannerLost("it was ended")


def test_each_call_whose_process_was_lost_gets_a_refusal_of_its_own() -> None:
    beside = PlanningBeside(Nursery())
    refusals = []
    for _ in range(2):
        done = threading.Event()
        call = a_call(done.set)
        call.call = cast("Any", SimpleNamespace(method="patch"))
        call.workspace, call.over = cast("Any", Lost()), lambda: False
        beside.submit(call)
        assert done.wait(30)
        call.taken.set()
        refusals.append(call.recorded)
    beside.close()
    assert all(isinstance(refusal, Refused) for refusal in refusals)
    assert refusals[0] is not refusals[1]
