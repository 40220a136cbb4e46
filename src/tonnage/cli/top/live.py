"""The live screen: reads again and again, and shows what keys choose."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from tonnage.cli.terminal.output import paint
from tonnage.cli.top.sources import Moment
from tonnage.cli.top.terminal import REDRAW, LiveTerminal
from tonnage.diagnose.top.columns import Row, busy_of, row_key
from tonnage.diagnose.top.layout import screen
from tonnage.diagnose.top.screen_state import ScreenState, after_key
from tonnage.diagnose.top.usage import FleetUsage
from tonnage.model.errors import ConfigError, TonnageError

_SIGNALLED: Final = 128
_REMEMBERED: Final = 60
_MOST_TRENDS: Final = 20_000


class LiveScreen:
    """`read` gives what there is now, and `usage_of` what that comes to."""

    def __init__(
        self,
        read: Callable[[], Awaitable[Moment]],
        usage_of: Callable[[Moment], FleetUsage],
        state: ScreenState,
    ) -> None:
        self._read = read
        self._usage_of = usage_of
        self._state = state
        self._keys: asyncio.Queue[str] = asyncio.Queue()
        self._usage = FleetUsage()
        self._notes: tuple[str, ...] = ("reading …",)
        self._trends: dict[str, deque[float]] = {}
        self._error: TonnageError | None = None
        self._waits = asyncio.Event()

    async def run(self) -> int:
        """Return the exit status once a person leaves, or a signal comes. Raises TonnageError.

        The first reading may fail as any command does; later failures are told on the screen.
        """
        terminal = LiveTerminal(self._keys.put_nowait)
        with terminal.live():
            reading = asyncio.create_task(self._keep_reading())
            try:
                await self._follow(terminal)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        if self._error is not None:
            raise self._error
        return 0 if terminal.ended_by is None else _SIGNALLED + terminal.ended_by

    async def _follow(self, terminal: LiveTerminal) -> None:
        plain = "utf" not in (sys.stdout.encoding or "").lower()
        while self._error is None:
            paint(screen(self._usage, self._state, self._notes, terminal.size(), self._trends, plain=plain))
            key = await self._keys.get()
            if key == REDRAW:
                continue
            state = after_key(self._state, key)
            if state is None:
                return
            if (state.interval_s, state.paused) != (self._state.interval_s, self._state.paused):
                self._waits.set()
            self._state = state

    async def _keep_reading(self) -> None:
        first = True
        while True:
            if not self._state.paused:
                await self._read_once(first=first)
                first = False
                self._keys.put_nowait(REDRAW)
            self._waits.clear()
            try:
                async with asyncio.timeout(self._state.interval_s):
                    await self._waits.wait()
            except TimeoutError:
                continue

    async def _read_once(self, *, first: bool) -> None:
        try:
            moment = await self._read()
        except TonnageError as error:
            if first or isinstance(error, ConfigError):
                self._error = error
            self._notes = (f"not read: {error.problems[0].what}: {error.problems[0].why}",)
            return
        self._usage, self._notes = self._usage_of(moment), moment.notes
        present: set[str] = set()
        rows: list[Row] = [*self._usage.nodes, *self._usage.devices, *self._usage.pods]
        for row in rows:
            present.add(row_key(row))
            if (busy := busy_of(row)) is not None and len(self._trends) < _MOST_TRENDS:
                self._trends.setdefault(row_key(row), deque(maxlen=_REMEMBERED)).append(busy)
        for gone in self._trends.keys() - present:
            del self._trends[gone]
