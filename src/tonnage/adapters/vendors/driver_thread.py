"""One thread for calls that may block: a driver that hangs holds up its own thread and nothing else."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tonnage.model.errors import HardwareError, Problem

T = TypeVar("T")

NODE = -1
"""As the subject of a step: no single device."""


class OverdueError(HardwareError):
    """The driver owes an answer. `subject` is the index of the device that was asked about, else NODE."""

    def __init__(self, action: str, subject: int, waited_s: float) -> None:
        super().__init__(
            Problem(
                f"the driver does not answer: {action}",
                why=f"no answer within {waited_s:g} s",
                remedy="check the kernel log for Xid errors; the node may need a restart",
            )
        )
        self.subject = subject


class GivenUp(Exception):  # noqa: N818 - not an error: the end of work that nobody waits for any more
    """Raised inside a call when its caller waits no longer."""


class Steps:
    """How far a call has come: each step has the deadline for itself. Made by one thread, read by another."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._now = (NODE, time.monotonic() + deadline_s)
        self.given_up = False
        self.over = False
        """The call has come back, whether or not somebody still waits for it."""

    def __call__(self, subject: int, *, times: float = 1.0) -> None:
        """Begin a step about that device; it may take so many deadlines. Raises GivenUp."""
        if self.given_up:
            raise GivenUp
        self._now = (subject, time.monotonic() + times * self._deadline_s)

    @property
    def subject(self) -> int:
        """What the step is about."""
        return self._now[0]

    def left_s(self) -> float:
        """Seconds until the step is overdue."""
        return self._now[1] - time.monotonic()


class DriverThread:
    """Runs calls one after another. While one is overdue, further calls fail at once."""

    def __init__(self, name: str, *, deadline_s: float) -> None:
        self._name = name
        self._deadline_s = deadline_s
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._turn = asyncio.Lock()
        self._owed: tuple[Steps, str, float] | None = None
        """The call that was overdue last, what it is, and when it was made."""

    async def call(self, action: str, function: Callable[[], T]) -> T:
        """What the function returns or raises; OverdueError when it takes longer than the deadline."""
        return await self.follow(action, lambda _: function())

    async def follow(self, action: str, function: Callable[[Steps], T]) -> T:
        """The same for a function that says which device it asks about: each step has the deadline."""
        async with self._turn:
            if not self.free and self._owed is not None:
                raise OverdueError(self._owed[1], self._owed[0].subject, self._deadline_s)
            loop, begun = asyncio.get_running_loop(), time.monotonic()
            steps = Steps(self._deadline_s)
            answer: asyncio.Future[T] = loop.create_future()
            self._calls.put(lambda: self._perform(function, steps, loop, answer))
            if self._thread is None:
                # A daemon: a call that never returns must not keep the process from ending.
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            try:
                while not answer.done():
                    left = steps.left_s()
                    if left <= 0:
                        self._owed = (steps, action, begun)
                        raise OverdueError(action, steps.subject, self._deadline_s)
                    await asyncio.wait({answer}, timeout=left)
                return answer.result()
            finally:
                steps.given_up = True
                answer.cancel()

    @property
    def free(self) -> bool:
        """Whether no call is overdue."""
        return self._owed is None or self._owed[0].over

    def stuck_s(self) -> float:
        """Seconds since the call that is overdue was made; 0 when none is."""
        return 0.0 if self.free or self._owed is None else time.monotonic() - self._owed[2]

    def close(self) -> None:
        """End the thread after the calls that are queued; do not wait for it."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    @staticmethod
    def _perform(
        function: Callable[[Steps], T],
        steps: Steps,
        loop: asyncio.AbstractEventLoop,
        answer: asyncio.Future[T],
    ) -> None:
        def settle(set_it: Callable[[], None]) -> None:
            if not answer.done():
                set_it()

        try:
            answered = function(steps)
        except Exception as error:
            failure = error
            outcome = lambda: settle(lambda: answer.set_exception(failure))  # noqa: E731
        else:
            outcome = lambda: settle(lambda: answer.set_result(answered))  # noqa: E731
        steps.over = True
        if not loop.is_closed():
            loop.call_soon_threadsafe(outcome)
