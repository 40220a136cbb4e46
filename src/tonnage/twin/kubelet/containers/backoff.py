"""How long the kubelet waits before it tries again. Source: client-go's flowcontrol.Backoff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_S: Final = 10.0
LONGEST_S: Final = 300.0


@dataclass(slots=True)
class Backoff:
    """Doubles from ten seconds to five minutes; starts over after ten quiet minutes. Times are monotonic."""

    delay_s: float = 0.0
    raised_at: float = 0.0

    def remaining(self, failed_at: float, now: float) -> float:
        """Seconds that a try still has to wait for what failed at `failed_at`."""
        if failed_at - self.raised_at > 2 * LONGEST_S:
            self.delay_s = 0.0
        return max(0.0, failed_at + self.delay_s - now)

    def raise_at(self, now: float) -> None:
        """A try happens now: the next failure waits longer."""
        self.delay_s = min(self.delay_s * 2, LONGEST_S) if self.delay_s else FIRST_S
        self.raised_at = now


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints a duration.

    >>> go_duration(10), go_duration(80), go_duration(300), go_duration(3600)
    ('10s', '1m20s', '5m0s', '1h0m0s')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
