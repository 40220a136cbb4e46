"""The agent's own metrics as values, out of what it counted and of what is so now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tonnage.agent.metrics.counters import ALLOCATE_BUCKETS_S, AgentMetrics
from tonnage.agent.metrics.probes import ProbeFacts
from tonnage.model.devices.mps import MpsState
from tonnage.model.metric_families import Histogram, HistogramSeries, Metric, MetricFamily, MetricKind
from tonnage.model.names import ResourceName

_PREFIX: Final = "tonnage_agent_"
_LONGEST_LABEL: Final = 200

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Values by those of the labels."""


def agent_families(
    metrics: AgentMetrics, facts: ProbeFacts, build: Mapping[str, str]
) -> Iterator[MetricFamily]:
    """Every metric in the order of the page; `build` are the versions of which the agent is made."""
    yield _info_metric("build", "Version of the agent and of Python.", build)
    yield _gauge("ready", "Whether every resource of the offer is registered with kubelet.", facts.ready)
    yield _gauge("devices_readable", "Whether the last scan of the devices succeeded.", facts.readable)
    yield _gauge(
        "driver_stuck_seconds",
        "Seconds since the driver last answered; 0 while it answers.",
        facts.driver_stuck_s,
    )
    yield from _devices(facts)
    yield from _mps(facts.offer.mps if facts.offer else {})
    yield from _config(metrics, facts)
    yield from _plugin(metrics)
    yield from _loops(metrics)


def _devices(facts: ProbeFacts) -> Iterator[MetricFamily]:
    devices: dict[tuple[str, ...], float] = {}
    for shown in facts.offer.advertised if facts.offer else ():
        devices[shown.resource, "advertised"] = len(shown.slots)
        devices[shown.resource, "unhealthy"] = sum(not slot.healthy for slot in shown.slots)
    yield _gauges(
        "devices",
        "Device ids advertised to kubelet, and the unhealthy ones among them.",
        ("resource", "state"),
        devices.items(),
    )
    yield _gauges(
        "list_and_watch_streams", "Open ListAndWatch streams.", ("resource",), _by_resource(facts.streams)
    )


def _mps(states: Mapping[ResourceName, MpsState]) -> Iterator[MetricFamily]:
    ready = {resource: float(not state.why) for resource, state in states.items()}
    restarts = {resource: state.restarts for resource, state in states.items()}
    help_text = "Whether a resource's MPS control daemon is ready."
    yield _gauges("mps_daemon_ready", help_text, ("resource",), _by_resource(ready))
    yield _counters(
        "mps_daemon_restarts", "Restarts of the MPS control daemon.", ("resource",), _by_resource(restarts)
    )


def _config(metrics: AgentMetrics, facts: ProbeFacts) -> Iterator[MetricFamily]:
    if facts.config is not None:
        choice = facts.config.choice
        labels = {"source": choice.source[:_LONGEST_LABEL], "key": choice.key[:_LONGEST_LABEL]}
        yield _info_metric("config", "Source of the configuration in force.", labels)
        yield _gauge(
            "config_refused",
            "Whether the requested configuration is unusable and another is in force.",
            bool(facts.config.error),
        )
    help_text = "Configurations that could not be used."
    yield _counters("config_errors", help_text, (), [((), metrics.config_errors)])


def _plugin(metrics: AgentMetrics) -> Iterator[MetricFamily]:
    results = ("resource", "result")
    yield _counters("registrations", "Registrations with kubelet.", results, metrics.registrations.items())
    yield _gauges(
        "last_registration_timestamp_seconds",
        "When kubelet last accepted the resource's registration.",
        ("resource",),
        _by_resource(metrics.last_registration),
    )
    yield _counters("allocations", "Allocate calls by result.", results, metrics.allocations.items())
    yield Histogram(
        f"{_PREFIX}allocate_duration_seconds",
        "Duration of Allocate calls.",
        ALLOCATE_BUCKETS_S,
        (HistogramSeries(tuple(metrics.allocate_counts), metrics.allocate_sum_s),),
    )


def _loops(metrics: AgentMetrics) -> Iterator[MetricFamily]:
    turns = (((loop,), count) for loop, count in metrics.turns.items())
    yield _counters("loop_turns", "Iterations of the agent's loops.", ("loop",), turns)
    yield _counters(
        "api_requests",
        "Requests that the API server answered; a watch counts when it begins.",
        ("verb", "resource", "code"),
        metrics.api_requests.items(),
    )


def _by_resource(values: Mapping[ResourceName, float]) -> Samples:
    return (((resource,), value) for resource, value in values.items())


def _info_metric(name: str, text: str, labels: Mapping[str, str]) -> Metric:
    return _metric(MetricKind.INFO, name, text, labels, [(tuple(labels.values()), 1.0)])


def _gauge(name: str, text: str, value: float) -> Metric:
    return _gauges(name, text, (), [((), value)])


def _gauges(name: str, text: str, labels: Iterable[str], samples: Samples) -> Metric:
    return _metric(MetricKind.GAUGE, name, text, labels, samples)


def _counters(name: str, text: str, labels: Iterable[str], samples: Samples) -> Metric:
    return _metric(MetricKind.COUNTER, name, text, labels, samples)


def _metric(
    kind: MetricKind,
    name: str,
    text: str,
    labels: Iterable[str],
    samples: Samples,
) -> Metric:
    return Metric(kind, f"{_PREFIX}{name}", text, tuple(labels), tuple(samples))
