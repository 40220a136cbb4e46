"""Metric families as Prometheus reads them: a page for the HTTP server, text or OpenMetrics."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as LibraryMetric
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.registry import Collector

from tonnage.adapters.http.server import HttpRequest, Response
from tonnage.model.metric_families import Histogram, Metric, MetricFamily, MetricKind

Families = Callable[[], Iterable[MetricFamily]]

_TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"
_END: Final = b"# EOF\n"
_OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class MetricsPage:
    """A handler of `/metrics`: the families as they are then, and the process' own metrics.

    `of_fleet`: they are so many that a thread goes through them and writes the page, one page at a time.
    """

    def __init__(self, families: Families, *, of_fleet: bool = False) -> None:
        self._families = families
        self._process = CollectorRegistry()  # its own: many agents may share the process
        ProcessCollector(registry=self._process)
        self._of_fleet = of_fleet
        self._turn = asyncio.Lock()

    async def __call__(self, request: HttpRequest) -> Response:
        """The library's own application would answer a careless header with an error of ours."""
        if not self._of_fleet:
            return self._page(self._families(), request)
        async with self._turn:
            return await asyncio.to_thread(self._page, self._families(), request)

    def _page(self, families: Iterable[MetricFamily], request: HttpRequest) -> Response:
        strict = _OPENMETRICS.partition(";")[0] in request.headers.get("accept", "")
        write, end = (openmetrics, _END) if strict else (generate_latest, b"")
        # A family at a time: what the library makes of a fleet's is many times as large as its text.
        parts = [write(_OneFamily(family)).removesuffix(end) for family in families]
        body = b"".join([*parts, write(self._process)])
        kind = _OPENMETRICS if strict else _TEXT_FORMAT
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(200, gzip.compress(body), kind, {"content-encoding": "gzip"})
        return Response(200, body, kind)


class _OneFamily(CollectorRegistry):
    """What the library writes a page of."""

    def __init__(self, family: MetricFamily) -> None:
        super().__init__()
        self._family = family

    def collect(self) -> Iterator[LibraryMetric]:
        yield _library_metric(self._family)


def families_text(families: Iterable[MetricFamily]) -> str:
    """The families alone, as Prometheus' text."""
    registry, fixed = CollectorRegistry(), tuple(families)
    registry.register(FamilyCollector(lambda: fixed))
    return generate_latest(registry).decode()


class FamilyCollector(Collector):
    """Gives the library the families of each moment when it asks."""

    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterator[LibraryMetric]:
        return map(_library_metric, self._families())


def _library_metric(family: MetricFamily) -> LibraryMetric:
    if isinstance(family, Histogram):
        bounds = [*map(str, family.bounds), "+Inf"]
        made = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        for series in family.series:
            buckets = list(zip(bounds, map(float, accumulate(series.counts)), strict=True))
            made.add_metric(series.values, buckets, series.sum)
        return made
    return _labelled(family)


def _labelled(family: Metric) -> LibraryMetric:
    name, text, labels = family.name, family.help, family.labels
    match family.kind:
        case MetricKind.INFO:
            labelled = InfoMetricFamily(name, text)
            for values, _ in family.samples:
                labelled.add_metric((), dict(zip(labels, values, strict=True)))
            return labelled
        case MetricKind.COUNTER:
            made: CounterMetricFamily | GaugeMetricFamily = CounterMetricFamily(name, text, labels=labels)
        case MetricKind.GAUGE:
            made = GaugeMetricFamily(name, text, labels=labels)
    for values, value in family.samples:
        made.add_metric(values, value if labels else float(value))
    return made
