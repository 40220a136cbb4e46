"""What a GPU's parts did since the last reading: GPM, from Hopper on."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from tonnage.adapters.vendors.nvml_reading import optional

_LEAST_S: Final = 0.1
"""Between two samples, or nothing follows from them. Source: the documentation of nvmlGpmMetricsGet."""


@dataclass(frozen=True, slots=True)
class _LastSamples:
    """A device's last two samples, and when the last was taken."""

    at: float
    last: Any
    before: Any = None


class ActivityReader:
    """Keeps each device's last two samples; a reading is what happened between them.

    A reading soon after another is between the same two. `monotonic` gives seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._session = 0
        self._samples: dict[str, _LastSamples] = {}

    def read(
        self, nvml: ModuleType, session: int, uuid: str, take: Callable[[Any], Any], metrics: Collection[int]
    ) -> Mapping[int, float]:
        """Metrics by number, of those asked for; none without GPM, and at the first reading.

        `take` fills a sample that is the device's and returns it.
        """
        if session != self._session:  # samples of an ended session are void
            self._session, self._samples = session, {}
        samples, now = self._samples.get(uuid), self._monotonic()
        if samples is None or now - samples.at >= _LEAST_S:
            sample = optional(nvml, lambda: _sampled(nvml, take))
            if sample is None:
                return {}
            if samples is not None and samples.before is not None:
                _free(nvml, samples.before)
            samples = self._samples[uuid] = _LastSamples(now, sample, samples and samples.last)
        before, last = samples.before, samples.last
        return {} if before is None else optional(nvml, lambda: _between(nvml, before, last, metrics)) or {}

    def forget(self, nvml: ModuleType, uuids: Collection[str]) -> None:
        """Give back the samples of all devices but these."""
        for uuid in self._samples.keys() - uuids:
            samples = self._samples.pop(uuid)
            for sample in (samples.before, samples.last):
                if sample is not None:
                    _free(nvml, sample)


def _sampled(nvml: ModuleType, take: Callable[[Any], Any]) -> Any:
    sample = nvml.nvmlGpmSampleAlloc()
    try:
        return take(sample)
    except nvml.NVMLError:
        nvml.nvmlGpmSampleFree(sample)
        raise


def _free(nvml: ModuleType, sample: Any) -> None:
    optional(nvml, lambda: nvml.nvmlGpmSampleFree(sample))


def _between(nvml: ModuleType, before: Any, last: Any, metrics: Collection[int]) -> Mapping[int, float]:
    """Where a part did not run at all some drivers divide by zero."""
    request = nvml.c_nvmlGpmMetricsGet_t()
    request.version = nvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(metrics)
    request.sample1, request.sample2 = before, last
    for place, number in enumerate(metrics):
        request.metrics[place].metricId = number
    answers = nvml.nvmlGpmMetricsGet(request).metrics
    return {
        number: float(answers[place].value)
        for place, number in enumerate(metrics)
        if answers[place].nvmlReturn == nvml.NVML_SUCCESS and math.isfinite(answers[place].value)
    }
