"""A call that hangs, and for how long it is said to."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tonnage.adapters.vendors.driver_thread import DriverThread, OverdueError, Steps
from tonnage.model.errors import HardwareError

PATIENCE_S = 60.0


async def test_an_answer_is_owed_from_the_question_until_it_comes() -> None:
    thread, release = DriverThread("test", deadline_s=0.5), threading.Event()
    assert await thread.call("first", lambda: 1) == 1
    assert thread.stuck_s() == 0
    with pytest.raises(HardwareError, match="does not answer: second"):
        await thread.call("second", release.wait)
    stuck_s = thread.stuck_s()
    assert stuck_s >= 0.5
    with pytest.raises(HardwareError, match="does not answer: second"):
        await thread.call("third", lambda: 3)
    assert thread.stuck_s() >= stuck_s
    release.set()
    thread.close()
    assert thread._thread is not None
    await asyncio.to_thread(thread._thread.join, PATIENCE_S)
    assert thread.stuck_s() == 0


async def test_each_step_has_the_deadline_for_itself_and_the_overdue_one_is_named() -> None:
    thread, release = DriverThread("test", deadline_s=0.2), threading.Event()

    def work(step: Steps) -> int:
        for subject in range(10):
            step(subject)
            if subject == 7:
                release.wait(PATIENCE_S)
            else:
                step(subject, times=100.0)
        return 1

    with pytest.raises(OverdueError) as caught:
        await thread.follow("work", work)
    assert caught.value.subject == 7
    assert not thread.free
    with pytest.raises(OverdueError) as caught:
        await thread.call("more", lambda: 1)
    assert caught.value.subject == 7
    release.set()
    thread.close()
    assert thread._thread is not None
    await asyncio.to_thread(thread._thread.join, PATIENCE_S)
    assert thread.free


async def test_work_that_nobody_waits_for_ends_at_its_next_step() -> None:
    thread, began, go_on = DriverThread("test", deadline_s=PATIENCE_S), threading.Event(), threading.Event()
    reached: list[int] = []

    def work(step: Steps) -> None:
        for subject in range(3):
            step(subject)
            reached.append(subject)
            began.set()
            go_on.wait(PATIENCE_S)

    task = asyncio.create_task(thread.follow("work", work))
    await asyncio.to_thread(began.wait, PATIENCE_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    go_on.set()
    assert await thread.call("next", lambda: 2) == 2
    assert reached == [0]
    thread.close()


async def test_what_a_call_raises_is_raised() -> None:
    thread = DriverThread("test", deadline_s=PATIENCE_S)
    with pytest.raises(KeyError, match="x"):
        await thread.call("fails", lambda: dict[str, int]()["x"])
    thread.close()
