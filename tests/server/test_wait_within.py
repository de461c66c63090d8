"""A method's wait with a time limit."""

from __future__ import annotations

import asyncio

import pytest

from stetd.methods.caller import wait_within


def test_a_wait_that_is_over_takes_no_lock_later() -> None:
    async def wait() -> bool:
        lock = asyncio.Lock()
        await lock.acquire()
        with pytest.raises(TimeoutError):
            await wait_within(0.01, lock.acquire())
        lock.release()
        await asyncio.sleep(0)
        return lock.locked()

    assert not asyncio.run(wait())


def test_what_is_there_at_once_is_given_though_there_is_no_time() -> None:
    async def wait() -> bool:
        return await wait_within(-1.0, asyncio.Lock().acquire())

    assert asyncio.run(wait())
