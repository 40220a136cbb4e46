"""Those who wait for news, told in rounds, so that requests are answered however many wait."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

_AT_ONCE: Final = 32
"""So many are woken in one turn of the loop."""
_REST_S: Final = 20e-6
"""For each of more than that they are left alone after a round, so that the next round tells more.

It is half of what telling a watch over TLS costs.
"""


class Rounds:
    """One round at a time: what is new meanwhile, all are told in the next."""

    __slots__ = ("_due", "_news", "_under_way", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._due: deque[asyncio.Future[None]] = deque()
        self._under_way = False
        self._news = False

    async def news(self, future: asyncio.Future[None]) -> None:
        """Return once the future is set: by a round, or by whoever else has it."""
        self._waiting[future] = None
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def tell(self) -> None:
        """Wake all who wait, those who have waited longest first, after the round under way."""
        self._news = True
        if not self._under_way:
            self._begin()

    def _begin(self) -> None:
        self._under_way, self._news = self._news, False
        if self._under_way:
            self._due.extend(self._waiting)
            self._waiting = {}
            self._wake_some(_REST_S * len(self._due) if len(self._due) > _AT_ONCE else 0.0)

    def _wake_some(self, rest_s: float) -> None:
        for _ in range(min(_AT_ONCE, len(self._due))):
            future = self._due.popleft()
            if not future.done():
                future.set_result(None)
        if self._due:
            asyncio.get_running_loop().call_soon(self._wake_some, rest_s)
        elif rest_s:
            asyncio.get_running_loop().call_later(rest_s, self._begin)
        else:
            self._begin()
