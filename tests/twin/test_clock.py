from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from tonnage.twin.clock import VirtualClock


async def _note(clock: VirtualClock, seconds: float, log: list[tuple[float, float]]) -> None:
    await clock.sleep(seconds)
    log.append((seconds, clock.monotonic()))


async def test_time_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(datetime(2026, 5, 1, tzinfo=UTC))
    await clock.settle()
    assert clock.now() == datetime(2026, 5, 1, tzinfo=UTC)
    await clock.advance(90)
    assert clock.now() == datetime(2026, 5, 1, 0, 1, 30, tzinfo=UTC)
    assert clock.monotonic() == 90


@given(st.lists(st.floats(0.001, 100), max_size=12))
def test_sleepers_wake_in_order_each_at_its_own_time(times: list[float]) -> None:
    async def scenario() -> None:
        clock = VirtualClock(settle_passes=4)
        log: list[tuple[float, float]] = []
        tasks = [asyncio.create_task(_note(clock, seconds, log)) for seconds in times]
        await clock.advance(100)
        assert all(task.done() for task in tasks)
        assert log == [(seconds, seconds) for seconds in sorted(times)]

    asyncio.run(scenario())


async def test_a_sleeper_that_sleeps_again_is_woken_again_within_the_same_advance() -> None:
    clock = VirtualClock()
    ticks: list[float] = []

    async def ticker() -> None:
        while True:
            await clock.sleep(10)
            ticks.append(clock.monotonic())

    task = asyncio.create_task(ticker())
    await clock.advance(35)
    assert ticks == [10, 20, 30]
    task.cancel()


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    task.cancel()
    await clock.advance(9)
    assert task.cancelled()
    assert clock.monotonic() == 9
