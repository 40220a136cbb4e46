"""Beats on which loops look together, by the clock that they are given."""

from __future__ import annotations

from tonnage.ports.clock import Clock


async def next_beat(clock: Clock, period_s: float = 1.5) -> None:
    """Return at the next multiple of the period, after that long at most.

    Loops that look now and then do so on the same beats: an idle process then wakes once in that time and not
    once for each of them, which costs more than all that they do.
    """
    await clock.sleep(period_s - clock.monotonic() % period_s)
