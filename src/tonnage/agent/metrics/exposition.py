"""The agent's own metrics as Prometheus reads them. Imported late: its library is no part of the start."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tonnage import __version__
from tonnage.agent.metrics.counters import ALLOCATE_BUCKETS_S, AgentMetrics
from tonnage.agent.metrics.probes import Facts
from tonnage.model.mps import MpsState
from tonnage.model.names import ResourceName

_PREFIX: Final = "tonnage_agent_"
_LONGEST_LABEL: Final = 200


class AgentCollector(Collector):
    """Makes the page anew each time it is read, out of the counts and of what is so then."""

    def __init__(self, metrics: AgentMetrics, facts: Callable[[], Facts]) -> None:
        self._metrics = metrics
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        facts = self._facts()
        yield _info("build", "Version of the agent and of Python.", _build())
        yield _gauge("ready", "Whether every resource of the offer is registered with kubelet.", facts.ready)
        yield _gauge("devices_readable", "Whether the last scan of the devices succeeded.", facts.readable)
        yield _gauge(
            "driver_stuck_seconds",
            "For how long the driver has owed an answer; 0 when it answers.",
            facts.driver_stuck_s,
        )
        yield from self._devices(facts)
        yield from _mps(facts.offer.mps if facts.offer else {})
        yield from self._config(facts)
        yield from self._plugin()
        yield from self._loops()

    def _devices(self, facts: Facts) -> Iterator[Metric]:
        devices = GaugeMetricFamily(
            f"{_PREFIX}devices",
            "Ids that kubelet is told: all that are advertised, and those of them that are unhealthy.",
            labels=("resource", "state"),
        )
        for shown in facts.offer.advertised if facts.offer else ():
            devices.add_metric((shown.resource, "advertised"), len(shown.slots))
            devices.add_metric((shown.resource, "unhealthy"), sum(not slot.healthy for slot in shown.slots))
        yield devices
        streams = GaugeMetricFamily(
            f"{_PREFIX}list_and_watch_streams", "Open ListAndWatch streams.", labels=("resource",)
        )
        for resource, count in facts.streams.items():
            streams.add_metric((resource,), count)
        yield streams

    def _config(self, facts: Facts) -> Iterator[Metric]:
        if facts.config is not None:
            choice = facts.config.choice
            labels = {"source": choice.source[:_LONGEST_LABEL], "key": choice.key[:_LONGEST_LABEL]}
            yield _info("config", "Where the configuration in force is from.", labels)
            yield _gauge(
                "config_refused",
                "Whether the configuration that was asked for cannot be used, so that another is in force.",
                bool(facts.config.error),
            )
        yield _counter("config_errors", "Configurations that could not be used.", self._metrics.config_errors)

    def _plugin(self) -> Iterator[Metric]:
        metrics = self._metrics
        registrations = CounterMetricFamily(
            f"{_PREFIX}registrations", "Registrations with kubelet.", labels=("resource", "result")
        )
        for names, count in metrics.registrations.items():
            registrations.add_metric(names, count)
        yield registrations
        last = GaugeMetricFamily(
            f"{_PREFIX}last_registration_timestamp_seconds",
            "When kubelet last took the resource's registration.",
            labels=("resource",),
        )
        for resource, at in metrics.last_registration.items():
            last.add_metric((resource,), at)
        yield last
        allocations = CounterMetricFamily(
            f"{_PREFIX}allocations", "Allocate calls by result.", labels=("resource", "result")
        )
        for names, count in metrics.allocations.items():
            allocations.add_metric(names, count)
        yield allocations
        yield self._allocate_duration()

    def _allocate_duration(self) -> Metric:
        buckets, total = list[tuple[str, float]](), 0
        bounds = [*map(str, ALLOCATE_BUCKETS_S), "+Inf"]
        for bound, count in zip(bounds, self._metrics.allocate_counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return HistogramMetricFamily(
            f"{_PREFIX}allocate_duration_seconds",
            "From kubelet's Allocate to its answer.",
            buckets=buckets,
            sum_value=self._metrics.allocate_sum_s,
        )

    def _loops(self) -> Iterator[Metric]:
        turns = CounterMetricFamily(f"{_PREFIX}loop_turns", "Turns of the agent's loops.", labels=("loop",))
        for loop, count in self._metrics.turns.items():
            turns.add_metric((loop,), count)
        yield turns
        requests = CounterMetricFamily(
            f"{_PREFIX}api_requests",
            "Requests that the API server answered; a watch counts when it begins.",
            labels=("verb", "resource", "code"),
        )
        for names, count in self._metrics.api_requests.items():
            requests.add_metric(names, count)
        yield requests


def _mps(states: Mapping[ResourceName, MpsState]) -> Iterator[Metric]:
    ready = GaugeMetricFamily(
        f"{_PREFIX}mps_daemon_ready", "Whether a resource's MPS control daemon serves.", labels=("resource",)
    )
    restarts = CounterMetricFamily(
        f"{_PREFIX}mps_daemon_restarts", "Starts of it after the first.", labels=("resource",)
    )
    for resource, state in states.items():
        ready.add_metric((resource,), float(not state.why))
        restarts.add_metric((resource,), state.restarts)
    yield ready
    yield restarts


def _build() -> dict[str, str]:
    return {"version": __version__, "python": platform.python_version()}


def _info(name: str, text: str, labels: Mapping[str, str]) -> Metric:
    return InfoMetricFamily(f"{_PREFIX}{name}", text, value=dict(labels))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{_PREFIX}{name}", text, value=float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"{_PREFIX}{name}", text, value=float(value))
