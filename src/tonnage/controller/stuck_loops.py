"""Whether the loops of a leader go on: one that waits for ever is only helped by a new process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.ports.clock import Clock

_PATIENCE_S: Final = 300.0
"""Ten turns: each begins half a minute after the one before, whether or not the API server answers."""


class StuckLoops:
    """Compares the turns of loops whenever it is asked."""

    def __init__(self, clock: Clock, turns: Mapping[str, int], loops: tuple[str, ...]) -> None:
        self._clock = clock
        self._turns = turns
        self._loops = loops
        self._turned: dict[str, tuple[int, float]] = {}

    def problems(self, *, leads: bool) -> tuple[str, ...]:
        """The loops that have not turned for five minutes, a line each; who does not lead turns none."""
        now = self._clock.monotonic()
        if not leads:
            self._turned = {}
            return ()
        for loop in self._loops:
            turns = self._turns.get(loop, 0)
            if loop not in self._turned or self._turned[loop][0] != turns:
                self._turned[loop] = turns, now
        return tuple(
            f"{loop}: no turn for {now - since:.0f} s"
            for loop, (_, since) in self._turned.items()
            if now - since > _PATIENCE_S
        )
