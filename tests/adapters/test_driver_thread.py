"""A call that hangs, and for how long it is said to."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tonnage.adapters.vendors.driver_thread import DriverThread
from tonnage.model.errors import HardwareError

PATIENCE_S = 20.0


async def test_an_answer_is_owed_from_the_question_until_it_comes() -> None:
    thread, release = DriverThread("test", deadline_s=0.01), threading.Event()
    assert await thread.call("first", lambda: 1) == 1
    assert thread.stuck_s() == 0
    with pytest.raises(HardwareError, match="does not answer: second"):
        await thread.call("second", release.wait)
    stuck_s = thread.stuck_s()
    assert stuck_s >= 0.01
    with pytest.raises(HardwareError, match="does not answer: second"):
        await thread.call("third", lambda: 3)
    assert thread.stuck_s() >= stuck_s
    release.set()
    thread.close()
    assert thread._thread is not None
    await asyncio.to_thread(thread._thread.join, PATIENCE_S)
    assert thread.stuck_s() == 0
