"""What a GPU's parts did since the last reading: GPM, from Hopper on."""

from __future__ import annotations

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


class ActivityReader:
    """Keeps each device's last sample; a reading is what happened between it and now."""

    def __init__(self) -> None:
        self._session = 0
        self._last: dict[str, Any] = {}

    def read(self, nvml: ModuleType, session: int, uuid: str, handle: Any) -> Activity | None:
        """None: the device has no GPM, or this is its first reading."""
        if session != self._session:  # samples of an ended session are void
            self._session, self._last = session, {}
        now = optional(nvml, lambda: _sampled(nvml, handle))
        if now is None:
            return None
        before = self._last.get(uuid)
        self._last[uuid] = now
        if before is None:
            return None
        activity = optional(nvml, lambda: _between(nvml, before, now))
        optional(nvml, lambda: nvml.nvmlGpmSampleFree(before))
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
    return Activity(
        **{
            name: answer.metrics[place].value
            if answer.metrics[place].nvmlReturn == nvml.NVML_SUCCESS
            else None
            for place, name in enumerate(_METRICS)
        }
    )
