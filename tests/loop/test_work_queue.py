from __future__ import annotations

import asyncio
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ClusterError, Problem
from tonnage.twin.clock import VirtualClock


async def test_a_key_waits_at_most_once_and_order_is_kept() -> None:
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)
    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_key_added_while_it_is_worked_on_comes_back_after_done() -> None:
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done("a")
    assert await waiting == "a"


async def test_add_after_hands_out_at_its_time_and_the_earlier_time_wins() -> None:
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("late", 30)
    queue.add_after("a", 20)
    queue.add_after("a", 10)
    queue.add_after("a", 40)
    got: list[tuple[str, float]] = []

    async def take() -> None:
        while True:
            key = await queue.get()
            got.append((key, clock.monotonic()))
            queue.done(key)

    taker = asyncio.create_task(take())
    await clock.advance(100)
    assert got == [("a", 10), ("late", 30)]
    taker.cancel()


async def test_an_earlier_key_added_while_get_sleeps_is_not_overslept() -> None:
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("late", 30)
    waiting = asyncio.create_task(queue.get())
    await clock.advance(5)
    queue.add_after("soon", 1)
    await clock.advance(1)
    assert await waiting == "soon"


async def test_a_wake_up_meant_for_a_cancelled_getter_reaches_the_next() -> None:
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"


async def test_failures_back_off_exponentially_and_success_resets() -> None:
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock, first_retry_s=1, longest_retry_s=10)
    times: list[float] = []

    async def reconcile(_key: str) -> None:
        times.append(clock.monotonic())
        if len(times) != 6:
            raise ClusterError(Problem("conflict"))

    worker = asyncio.create_task(work(queue, reconcile))
    queue.add("a")
    await clock.advance(26)
    assert times == [0, 1, 3, 7, 15, 25]
    queue.add("a")
    await clock.advance(1)
    assert times[6:] == [26, 27], "the success at 25 s made the next failure wait one second again"
    worker.cancel()


async def test_a_reconcile_that_asks_to_look_again_is_called_again() -> None:
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    times: list[float] = []

    async def reconcile(_key: str) -> float | None:
        times.append(clock.monotonic())
        return 5.0 if len(times) < 3 else None

    worker = asyncio.create_task(work(queue, reconcile))
    queue.add("a")
    await clock.advance(60)
    assert times == [0, 5, 10]
    worker.cancel()


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from((0.0, 0.5, 1.0, 2.0))), max_size=30),
    st.integers(1, 4),
)
def test_no_key_is_worked_on_twice_at_once_and_every_add_is_followed_by_work(
    adds: list[tuple[str, float]], workers: int
) -> None:
    async def scenario() -> None:
        clock = VirtualClock(settle_passes=16)
        queue: WorkQueue[str] = WorkQueue(clock)
        busy: defaultdict[str, int] = defaultdict(int)
        started: defaultdict[str, float] = defaultdict(lambda: -1.0)

        async def reconcile(key: str) -> None:
            busy[key] += 1
            assert busy[key] == 1
            started[key] = clock.monotonic()
            await clock.sleep(1)
            busy[key] -= 1

        task = asyncio.create_task(work(queue, reconcile, workers=workers))
        for key, delay in adds:
            queue.add_after(key, delay)
            await clock.advance(0.25)
        await clock.advance(len(adds) * 2 + 5)
        assert not task.done(), "no assertion failed inside"
        assert len(queue) == 0
        assert not any(busy.values())
        assert set(started) == {key for key, _ in adds}
        last_added = {key: index * 0.25 for index, (key, _) in enumerate(adds)}
        assert all(started[key] >= last_added[key] for key in last_added)
        task.cancel()

    asyncio.run(scenario())
