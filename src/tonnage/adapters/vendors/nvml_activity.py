"""What a GPU's parts did since the last reading: GPM, from Hopper on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from tonnage.adapters.vendors.nvml_reading import optional
from tonnage.model.devices import Activity

_METRICS: Final = {
    "graphics_percent": 1,
    "sm_percent": 2,
    "sm_occupancy_percent": 3,
    "tensor_percent": 5,
    "dram_percent": 10,
    "fp64_percent": 11,
    "fp32_percent": 12,
    "fp16_percent": 13,
    "pcie_sent_mib_s": 20,
    "pcie_received_mib_s": 21,
    "nvlink_received_mib_s": 60,
    "nvlink_sent_mib_s": 61,
}
"""Fields of `Activity` by NVML's metric number."""


_LEAST_S: Final = 0.1
"""Between two samples, or nothing follows from them. Source: the documentation of nvmlGpmMetricsGet."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A device's last sample, when it was taken, and what came out of it and the one before."""

    at: float
    sample: Any
    activity: Activity | None = None


class ActivityReader:
    """Keeps each device's last sample; a reading is what happened between it and now.

    A reading soon after another is that one again. `monotonic` gives seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._session = 0
        self._last: dict[str, _Taken] = {}

    def read(self, nvml: ModuleType, session: int, uuid: str, handle: Any) -> Activity | None:
        """None: the device has no GPM, or this is its first reading."""
        if session != self._session:  # samples of an ended session are void
            self._session, self._last = session, {}
        before, now = self._last.get(uuid), self._monotonic()
        if before is not None and now - before.at < _LEAST_S:
            return before.activity
        sample = optional(nvml, lambda: _sampled(nvml, handle))
        if sample is None:
            return None
        if before is None:
            self._last[uuid] = _Taken(now, sample)
            return None
        activity = optional(nvml, lambda: _between(nvml, before.sample, sample))
        self._last[uuid] = _Taken(now, sample, activity)
        optional(nvml, lambda: nvml.nvmlGpmSampleFree(before.sample))
        return activity


def _sampled(nvml: ModuleType, handle: Any) -> Any:
    if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
        return None
    sample = nvml.nvmlGpmSampleAlloc()
    try:
        return nvml.nvmlGpmSampleGet(handle, sample)
    except nvml.NVMLError:
        nvml.nvmlGpmSampleFree(sample)
        raise


def _between(nvml: ModuleType, before: Any, now: Any) -> Activity:
    request = nvml.c_nvmlGpmMetricsGet_t()
    request.version = nvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(_METRICS)
    request.sample1, request.sample2 = before, now
    for place, number in enumerate(_METRICS.values()):
        request.metrics[place].metricId = number
    answer = nvml.nvmlGpmMetricsGet(request)
    return Activity(**{name: _value(nvml, answer.metrics[place]) for place, name in enumerate(_METRICS)})


def _value(nvml: ModuleType, metric: Any) -> float | None:
    """Where a part did not run at all some drivers divide by zero."""
    told = metric.nvmlReturn == nvml.NVML_SUCCESS and math.isfinite(metric.value)
    return float(metric.value) if told else None
