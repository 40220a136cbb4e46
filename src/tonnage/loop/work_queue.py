"""client-go's workqueue: keys for level-triggered loops: each waits once, none is worked on twice at once."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from tonnage.model.errors import ClusterError
from tonnage.ports.clock import Clock

K = TypeVar("K", bound=Hashable)

_LOG: Final = logging.getLogger(__name__)


class WorkQueue(Generic[K]):
    """Keys in the order in which they were added. Every `get` is answered by one `done`.

    A key added while it is being worked on is handed out again after its `done`, never before. `retry` waits
    `first_retry_s`, twice as long each further time, `longest_retry_s` at most, until `forget`.
    """

    def __init__(self, clock: Clock, *, first_retry_s: float = 0.005, longest_retry_s: float = 60.0) -> None:
        self._clock = clock
        self._first_retry_s = first_retry_s
        self._longest_retry_s = longest_retry_s
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        """Keys that `_ready` holds, or that go there at `done`."""
        self._busy: set[K] = set()
        self._later: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        """The earliest time in `_later` of each key."""
        self._failures: dict[K, int] = {}
        self._count = 0
        self._getters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Keys that wait now or later; not those being worked on."""
        return len(self._waiting | self._due.keys())

    def add(self, key: K) -> None:
        """Have `key` worked on. Adding it again while it waits changes nothing."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._busy:
            self._ready.append(key)
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Have `key` worked on in `seconds`; the earlier of two times wins."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        self._count += 1
        heapq.heappush(self._later, (due, self._count, key))
        self._wake()

    def retry(self, key: K) -> None:
        """Add `key` again after its back-off."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(self._first_retry_s * 2 ** min(failures, 40), self._longest_retry_s))

    def forget(self, key: K) -> None:
        """The key went well: its next failure waits `first_retry_s` again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, as soon as there is one."""
        while True:
            self._move_due()
            if self._ready:
                key = self._ready.popleft()
                self._waiting.discard(key)
                self._busy.add(key)
                if self._ready:
                    self._wake()
                return key
            await self._wait()

    def done(self, key: K) -> None:
        """The work on `key` has ended, well or not."""
        self._busy.discard(key)
        if key in self._waiting:
            self._ready.append(key)
            self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _move_due(self) -> None:
        now = self._clock.monotonic()
        while self._later and (self._later[0][0] <= now or self._superseded(self._later[0])):
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)

    def _superseded(self, entry: tuple[float, int, K]) -> bool:
        return self._due.get(entry[2]) != entry[0]

    async def _wait(self) -> None:
        getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        alarm: asyncio.Future[None] | None = None
        try:
            if self._later:
                pause = self._later[0][0] - self._clock.monotonic()
                alarm = asyncio.ensure_future(self._clock.sleep(pause))
                await asyncio.wait((getter, alarm), return_when=asyncio.FIRST_COMPLETED)
            else:
                await getter
        except asyncio.CancelledError:
            if getter.done() and not getter.cancelled():
                self._wake()  # the wake-up was meant for whoever waits now
            raise
        finally:
            getter.cancel()
            if alarm is not None:
                alarm.cancel()
            if getter in self._getters:
                self._getters.remove(getter)


async def work(
    queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[float | None]], *, workers: int = 1
) -> None:
    """Take keys and reconcile them until cancelled, `workers` at a time.

    `reconcile` returns None when nothing is left to do, or the seconds after which to look again. A
    ClusterError (a conflict, an unreachable server) is logged and retried with back-off; anything else ends
    the loop.
    """
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_worker(queue, reconcile))


async def _worker(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[float | None]]) -> None:
    while True:
        key = await queue.get()
        try:
            again_s = await reconcile(key)
        except ClusterError as error:
            _LOG.info("reconcile failed, will retry: key=%s error=%s", key, error)
            queue.retry(key)
        else:
            queue.forget(key)
            if again_s is not None:
                queue.add_after(key, again_s)
        finally:
            queue.done(key)
        # Where nothing had to be waited for, ten thousand keys would else be one turn of the event loop.
        await asyncio.sleep(0)
