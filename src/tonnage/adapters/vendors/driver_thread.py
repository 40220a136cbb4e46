"""One thread for calls that may block: a driver that hangs holds up its own thread and nothing else."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from tonnage.model.errors import HardwareError, Problem

T = TypeVar("T")


class DriverThread:
    """Runs calls one after another. While one is overdue, further calls fail at once."""

    def __init__(self, name: str, *, deadline_s: float) -> None:
        self._name = name
        self._deadline_s = deadline_s
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._overdue = ""
        self._overdue_since = 0.0

    async def call(self, what: str, function: Callable[[], T]) -> T:
        """What the function returns or raises; HardwareError when it takes longer than the deadline."""
        if self._overdue:
            raise self._hung(self._overdue)
        loop = asyncio.get_running_loop()
        asked = loop.time()
        answer: asyncio.Future[T] = loop.create_future()
        self._calls.put(lambda: self._perform(function, loop, answer))
        if self._thread is None:
            # A daemon: a call that never returns must not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        try:
            async with asyncio.timeout(self._deadline_s):
                return await answer
        except TimeoutError:
            self._overdue, self._overdue_since = what, asked
            raise self._hung(what) from None

    def stuck_s(self) -> float:
        """Seconds since the call that is overdue was made; 0 when none is."""
        return asyncio.get_running_loop().time() - self._overdue_since if self._overdue else 0.0

    def close(self) -> None:
        """End the thread after the calls that are queued; do not wait for it."""
        self._calls.put(None)

    def _hung(self, what: str) -> HardwareError:
        return HardwareError(
            Problem(
                f"the driver does not answer: {what}",
                why=f"no answer within {self._deadline_s:g} s",
                remedy="look for Xid errors in the kernel log; the node may need a restart",
            )
        )

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            self._overdue = ""

    @staticmethod
    def _perform(
        function: Callable[[], T], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T]
    ) -> None:
        def settle(set_it: Callable[[], None]) -> None:
            if not answer.done():
                set_it()

        try:
            result = function()
        except Exception as error:
            failure = error
            outcome = lambda: settle(lambda: answer.set_exception(failure))  # noqa: E731
        else:
            outcome = lambda: settle(lambda: answer.set_result(result))  # noqa: E731
        if not loop.is_closed():
            loop.call_soon_threadsafe(outcome)
