"""The twin's clock: it stands still until somebody moves it."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
_SETTLE_PASSES: Final = 64
_IDLE_PASSES: Final = 10
"""After so many in a row with nobody else's turn between, nothing more is to come of this process."""


class VirtualClock:
    """A Clock port whose time passes only inside `advance`.

    Between two moments the event loop *settles*: it runs up to `settle_passes` passes, each of which runs
    every ready callback and polls every socket once without waiting, and fewer where nobody has anything to
    do. That is enough for chains of tasks, queues and loopback sockets of this process. It cannot see work
    that happens in other threads or processes (gRPC's poller, an agent of its own): a test that depends on
    such work waits for its effect (`Informer.wait_for`), then advances.
    """

    def __init__(self, start: datetime = _EPOCH, *, settle_passes: int = _SETTLE_PASSES) -> None:
        self._start = start
        self._elapsed_s = 0.0
        self._passes = settle_passes
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime:
        """Wall time, aware, UTC."""
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has been moved by `seconds`; zero or less only yields to the loop."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, self._count, wake))
        await wake

    async def settle(self) -> None:
        """Let everything that needs no time happen."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)  # of loops without it: all passes
        idle = 0
        for _ in range(self._passes):
            await asyncio.sleep(0)
            idle = idle + 1 if ready is not None and not ready else 0
            if idle == _IDLE_PASSES:
                return

    async def advance(self, seconds: float) -> None:
        """Move time on by `seconds`, waking sleepers in the order of their times.

        A sleeper that goes to sleep again on the way is woken again if its new time still lies in the span.
        """
        target = self._elapsed_s + seconds
        await self.settle()
        while (due := self._next_due()) is not None and due <= target:
            await self._move_to(due)
        self._elapsed_s = max(self._elapsed_s, target)
        await self.settle()

    def _next_due(self) -> float | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)  # cancelled sleepers
        return self._sleepers[0][0] if self._sleepers else None

    async def _move_to(self, due: float) -> None:
        self._elapsed_s = max(self._elapsed_s, due)
        while self._sleepers and self._sleepers[0][0] <= due:
            wake = heapq.heappop(self._sleepers)[2]
            if not wake.done():
                wake.set_result(None)
        await self.settle()
