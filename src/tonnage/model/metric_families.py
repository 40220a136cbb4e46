"""Metrics of a program as plain values: what it counts, before anything is written for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    """Prometheus' types of metrics but histograms; INFO has the value 1 and says it all in labels."""

    COUNTER = "counter"
    GAUGE = "gauge"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric family; `name` without the endings `_total` and `_info`, `samples` by values of the labels."""

    kind: MetricKind
    name: str
    help: str
    labels: tuple[str, ...] = ()
    samples: tuple[tuple[tuple[str, ...], float], ...] = ()


@dataclass(frozen=True, slots=True)
class HistogramSeries:
    """`counts` are of each bucket alone, the last of what is above all; `values` those of the labels."""

    counts: tuple[int, ...]
    sum: float
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Histogram:
    """A metric family of histograms with the same bounds, one for each combination of labels."""

    name: str
    help: str
    bounds: tuple[float, ...]
    series: tuple[HistogramSeries, ...]
    labels: tuple[str, ...] = ()


MetricFamily = Metric | Histogram
