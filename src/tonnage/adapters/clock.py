"""The real clock."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import UTC, datetime


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
