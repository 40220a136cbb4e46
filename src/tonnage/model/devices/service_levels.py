"""What clients of services on a GPU see, modelled or measured, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LEVEL_HEADING: Final = "WAY RATE ANSWERED P50 P95 P99 SERVICE"


class SharingWay(StrEnum):
    """How services have a GPU."""

    EXCLUSIVE = "exclusive"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """What clients of one service see: requests a second that are answered, and latencies in seconds.

    No latencies (None) where requests come faster than they can be answered.
    """

    throughput: float
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None

    def meets(self, p95_s: float) -> bool:
        """Whether 95 % of requests are answered within so many seconds."""
        return self.p95_s is not None and self.p95_s <= p95_s


def level_line(way: SharingWay, rate: float, level: ServiceLevel, service: str) -> str:
    """The row of a service below the heading; a queue that grows without end has no percentiles.

    >>> level_line(SharingWay.MPS, 20, ServiceLevel(19.96, 0.01, 0.0214, None), "web")
    'mps 20/s 20.0/s 10.0ms 21.4ms grows web'
    """
    percentiles = (level.p50_s, level.p95_s, level.p99_s)
    latencies = " ".join("grows" if seconds is None else f"{seconds * 1000:.1f}ms" for seconds in percentiles)
    return f"{way} {rate:g}/s {level.throughput:.1f}/s {latencies} {service}"
