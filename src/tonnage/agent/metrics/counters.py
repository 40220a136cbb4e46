"""What an agent counts about itself: plain numbers in one object, so that many agents fit into a process."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

from tonnage.model.names import ResourceName
from tonnage.ports.clock import Clock

ALLOCATE_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LOOPS: Final = ("devices", "holders", "plugin")
"""The loops that turn every few seconds whatever happens; the others wait for somebody to call."""
LATE_S: Final = {"devices": 300.0, "holders": 60.0, "plugin": 60.0, "claims": 60.0}
"""No step takes half as long: calls of kubelet end after 10 s, a look at several GPUs that hang after 100.

The loop for claims is late only once it has turned: most agents have none.
"""


class AgentMetrics:
    """Counts since the start, and when each loop last turned. Every change is made on the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turned = dict.fromkeys(LOOPS, clock.monotonic())
        self.turns: Counter[str] = Counter()
        self.registrations: Counter[tuple[ResourceName, str]] = Counter()
        """By resource and result, `registered` or `failed`."""
        self.last_registration: dict[ResourceName, float] = {}
        """Seconds since 1970 by resource."""
        self.allocations: Counter[tuple[ResourceName, str]] = Counter()
        """By resource and result."""
        self.allocate_counts = [0] * (len(ALLOCATE_BUCKETS_S) + 1)
        """How many took up to so long, but longer than the bucket before; the last is for all above."""
        self.allocate_sum_s = 0.0
        self.config_errors = 0
        self.api_requests: Counter[tuple[str, str, str]] = Counter()
        """By verb, resource and code, as an audit log has them."""

    def turned(self, loop: str) -> None:
        """A loop of `LATE_S` begins its next step."""
        self.turns[loop] += 1
        self._turned[loop] = self._clock.monotonic()

    def late(self) -> dict[str, float]:
        """Seconds since their last turn of the loops that hang."""
        now = self._clock.monotonic()
        return {loop: now - last for loop, last in self._turned.items() if now - last > LATE_S[loop]}

    def registered(self, resource: ResourceName) -> None:
        """kubelet took the resource's registration."""
        self.registrations[resource, "registered"] += 1
        self.last_registration[resource] = self._clock.now().timestamp()

    def not_registered(self, resource: ResourceName) -> None:
        """kubelet could not be told of the resource."""
        self.registrations[resource, "failed"] += 1

    def allocated(self, resource: ResourceName, outcome: str, took_s: float) -> None:
        """An Allocate call ended: `granted`, `refused` or `failed`."""
        self.allocations[resource, outcome] += 1
        self.allocate_counts[bisect_left(ALLOCATE_BUCKETS_S, took_s)] += 1
        self.allocate_sum_s += took_s

    def config_refused(self) -> None:
        """A configuration could not be used."""
        self.config_errors += 1

    def api_answered(self, verb: str, resource: str, code: str) -> None:
        """The API server answered a request."""
        self.api_requests[verb, resource, code] += 1
