"""How much pretended containers may compute: what is theirs at once, then turns that all of a fleet share.

Programs of containers run in the twin's process, and other people's manifests have loops without end.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tonnage.ports.clock import Clock

_AT_ONCE: Final = 5000
_A_SECOND: Final = 10
_A_TURN: Final = 100
_TURN_S: Final = 0.05
"""So the turns of all containers together come to 2,000 commands a second, some tenth of a processor."""
_BYTES: Final = 4096
"""Whoever moves so many bytes has done as much as by a command."""
_EACH_TIME: Final = 128


class Turns:
    """Turns of a fleet's containers, one after the other."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next_turn(self, clock: Clock) -> int:
        """Return after a turn with what may be done in it."""
        async with self._lock:
            await clock.sleep(_TURN_S)
        return _A_TURN


class Work:
    """What the programs of one container do together."""

    def __init__(self, turns: Turns | None = None) -> None:
        self._turns = turns or Turns()
        self._left = float(_AT_ONCE)
        self._since: float | None = None

    def moved(self, count: int) -> None:
        """So many bytes were read or written at once."""
        self._left -= (count + _EACH_TIME) / _BYTES

    async def command(self, clock: Clock) -> None:
        """A command is about to run: wait for turns if too much was done lately."""
        now = clock.monotonic()
        rested_s = now - (now if self._since is None else self._since)
        self._since = now
        self._left = min(_AT_ONCE, self._left + rested_s * _A_SECOND) - 1
        while self._left < 0:
            self._left += await self._turns.next_turn(clock)
        await asyncio.sleep(0)  # others of this process have their turn, too
