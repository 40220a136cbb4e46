"""What the driver for claims counts, as NVIDIA's driver does and by its names, so that its dashboards fit.

The causes of refusals, which it does not tell apart, have a name of ours.

Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.5, pkg/metrics.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from tonnage.model.devices.claims import DRIVER, PreparedClaim
from tonnage.model.metric_families import Histogram, HistogramSeries, Metric, MetricFamily, MetricKind
from tonnage.ports.clock import Clock

_PREFIX: Final = "nvidia_dra_"
_BUCKETS_S: Final = tuple(0.05 * 2**n for n in range(9))
PREPARE: Final = "prepare"
UNPREPARE: Final = "unprepare"
_OPERATIONS: Final = (PREPARE, UNPREPARE)
_TYPES_NEVER_PREPARED: Final = ("vfio", "unknown")
"""Types of devices that NVIDIA's driver has rows for, too."""
_REFUSALS: Final = "tonnage_agent_claims_refused"


class ClaimMetrics:
    """Counts since the driver was made; every change is made on the event loop.

    `claims` are those that are prepared at the time.
    """

    def __init__(self, node: str, clock: Clock, claims: Callable[[], Iterable[PreparedClaim]]) -> None:
        self._node = node
        self._clock = clock
        self._claims = claims
        self._counts = {operation: [0] * (len(_BUCKETS_S) + 1) for operation in _OPERATIONS}
        self._sums_s = dict.fromkeys(_OPERATIONS, 0.0)
        self._inflight = dict.fromkeys(_OPERATIONS, 0)
        self._refusals: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def request(self, operation: str) -> Iterator[Callable[[str], None]]:
        """One claim of kubelet's call is answered within; it succeeds unless what this gives is called.

        That takes the cause of a refusal: a reason's code, or the class of an error.
        """
        causes: list[str] = []
        began = self._clock.monotonic()
        self._inflight[operation] += 1
        try:
            yield causes.append
        finally:
            self._inflight[operation] -= 1
        if causes:
            self._refusals.update((operation, cause) for cause in causes)
            return
        took_s = self._clock.monotonic() - began
        self._counts[operation][bisect_left(_BUCKETS_S, took_s)] += 1
        self._sums_s[operation] += took_s

    def families(self) -> Iterator[MetricFamily]:
        """All of it, in the order of the page."""
        labels = ("driver", "operation")
        totals = [((DRIVER, operation), float(sum(self._counts[operation]))) for operation in _OPERATIONS]
        text = "DRA prepare and unprepare requests."
        yield Metric(MetricKind.COUNTER, f"{_PREFIX}requests", text, labels, tuple(totals))
        series = (
            HistogramSeries(tuple(self._counts[operation]), self._sums_s[operation], (DRIVER, operation))
            for operation in _OPERATIONS
        )
        text = "Duration of DRA prepare and unprepare requests."
        name = f"{_PREFIX}request_duration_seconds"
        yield Histogram(name, text, _BUCKETS_S, tuple(series), labels)
        inflight = tuple(((DRIVER, operation), float(self._inflight[operation])) for operation in _OPERATIONS)
        text = "DRA prepare and unprepare requests that are not answered yet."
        yield Metric(MetricKind.GAUGE, f"{_PREFIX}requests_inflight", text, labels, inflight)
        yield self._prepared()
        yield from self._failures()

    def _prepared(self) -> MetricFamily:
        devices = [device.device for claim in self._claims() for device in claim.devices]
        parts = sum("-mig-" in device for device in devices)
        by_type = {"gpu": len(devices) - parts, "mig": parts, **dict.fromkeys(_TYPES_NEVER_PREPARED, 0)}
        prepared = tuple(((self._node, DRIVER, kind), float(count)) for kind, count in by_type.items())
        owners = ("node", "driver", "device_type")
        text = "Devices that claims of this node have."
        return Metric(MetricKind.GAUGE, f"{_PREFIX}prepared_devices", text, owners, prepared)

    def _failures(self) -> Iterator[MetricFamily]:
        for operation in _OPERATIONS:
            count = sum(n for (refused, _), n in self._refusals.items() if refused == operation)
            errors = (((DRIVER, f"{operation}_devices"), float(count)),) if count else ()
            text = f"Claims that could not be {operation}d, by what failed."
            name = f"{_PREFIX}node_{operation}_errors"
            yield Metric(MetricKind.COUNTER, name, text, ("driver", "error_type"), errors)
        causes = tuple((key, float(count)) for key, count in self._refusals.items())
        text = "Claims that were refused when kubelet asked, by cause."
        yield Metric(MetricKind.COUNTER, _REFUSALS, text, ("operation", "cause"), causes)
