"""The controller's own metrics as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from tonnage.controller.counters import ControllerCounters
from tonnage.decide.cluster.operate.node_readiness import NodePart
from tonnage.loop.leadership import Leadership
from tonnage.model.metric_families import Metric, MetricFamily, MetricKind

_PREFIX: Final = "tonnage_controller_"
Samples: TypeAlias = "dict[tuple[str, ...], float]"
"""Values by those of the labels."""


def controller_families(
    counters: ControllerCounters, leadership: Leadership | None, build: Mapping[str, str]
) -> Iterator[MetricFamily]:
    """Every metric in the order of the page; without election the controller leads."""
    labels, versions = tuple(build), tuple(build.values())
    yield Metric(
        MetricKind.INFO,
        f"{_PREFIX}build",
        "Version of the controller and of Python.",
        labels,
        ((versions, 1.0),),
    )
    leads = leadership is None or leadership.held
    yield _plain(MetricKind.GAUGE, "leader", "Whether this process acts; the others wait.", float(leads))
    terms = 1.0 if leadership is None else float(leadership.terms)
    yield _plain(MetricKind.COUNTER, "terms", "How often this process became the leader.", terms)
    nodes: Samples = {
        (part,): float(counters.nodes[part]) for part in ("", *(part.value for part in NodePart))
    }
    yield _by("gpu_nodes", "GPU nodes by what they wait for; empty: they are ready.", ("waits_for",), nodes)
    turns: Samples = {(loop,): float(count) for loop, count in counters.turns.items()}
    yield _by("loop_turns", "Turns of loops.", ("loop",), turns, MetricKind.COUNTER)
    requests: Samples = {
        (verb, resource, code): float(n) for (verb, resource, code), n in counters.requests.items()
    }
    help_text = "Requests that the API server answered, in the words of its audit log."
    yield _by("api_requests", help_text, ("verb", "resource", "code"), requests, MetricKind.COUNTER)


def webhook_families(counters: ControllerCounters, ends_s: Iterable[float]) -> Iterator[MetricFamily]:
    """What the webhook has said, and when its certificate ends: nothing where it has none."""
    reviews: Samples = {(kind, outcome): float(n) for (kind, outcome), n in counters.reviews.items()}
    yield _by(
        *("webhook_reviews", "Objects that the webhook judged, by what it said.", ("kind", "outcome")),
        *(reviews, MetricKind.COUNTER),
    )
    help_text = "When the certificate of the webhook ends, in seconds since 1970."
    for end_s in ends_s:
        yield _plain(MetricKind.GAUGE, "webhook_certificate_end_timestamp_seconds", help_text, end_s)


def _plain(kind: MetricKind, name: str, help_text: str, value: float) -> Metric:
    return Metric(kind, f"{_PREFIX}{name}", help_text, (), (((), value),))


def _by(
    name: str,
    help_text: str,
    labels: tuple[str, ...],
    samples: Samples,
    kind: MetricKind = MetricKind.GAUGE,
) -> Metric:
    return Metric(kind, f"{_PREFIX}{name}", help_text, labels, _sorted(samples.items()))


def _sorted(
    samples: Iterable[tuple[tuple[str, ...], float]],
) -> tuple[tuple[tuple[str, ...], float], ...]:
    return tuple(sorted(samples))
