"""The real clock, and beats on which loops look together."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tonnage.ports import Clock


class SystemClock:
    """Wall and monotonic time of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """End at a whole millisecond: sleepers that end at nearly the same time wake the process once."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        timer = loop.call_at(math.ceil((loop.time() + seconds) * 1000) / 1000, _end, over)
        try:
            await over
        finally:
            timer.cancel()


def _end(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


async def next_beat(clock: Clock, period_s: float = 1.0) -> None:
    """Return at the next multiple of the period, after that long at most.

    Loops that look now and then do so on the same beats: an idle process then wakes once a second and not
    once for each of them, which costs more than all that they do.
    """
    await clock.sleep(period_s - clock.monotonic() % period_s)
