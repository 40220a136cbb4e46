"""The families `tonnage_pod_gpu_*`: what each container uses of devices, within a number of series."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.decide.node.exporter.usage_counters import UsageCounters
from tonnage.model.metric_families import Metric, MetricKind
from tonnage.model.node.pod_usage import Amount, Certainty, DeviceUse, DeviceUser, UsageCounter

LABELS: Final = (
    *("namespace", "pod", "container", "UUID", "gpu", "GPU_I_ID", "GPU_I_PROFILE", "resource", "claim"),
    "attribution",
)
_COUNTERS: Final = (
    (
        UsageCounter.SECONDS,
        "Seconds for which the container has had the device, in whole GPUs (a part of one counts as such).",
    ),
    (UsageCounter.COMPUTE, "Seconds in which the container computed on the device, in whole GPUs."),
    (UsageCounter.ENERGY, "Energy that the device used for the container."),
)
Sample = tuple[tuple[str, ...], float]
_Use = Callable[[DeviceUse], Amount | None]
_GAUGES: Final[tuple[tuple[str, str, _Use], ...]] = (
    ("memory_bytes", "Memory of the device that the container has.", lambda use: use.memory),
    (
        "compute_ratio",
        "Part of the time (0 to 1) in which the container computed on the device, at the last reading.",
        lambda use: use.ratio,
    ),
)
_MOST_SERIES: Final = len(_COUNTERS) * len(Certainty) + len(_GAUGES)
"""Of a user."""


@dataclass(frozen=True, slots=True)
class UsedShares:
    """What was counted of those who hold devices now, and what they used at the last reading.

    `indices` are of GPUs by UUID. `extra` are more labels of a user, such as those of its pod.
    """

    counters: UsageCounters
    uses: Mapping[DeviceUser, DeviceUse]
    indices: Mapping[str, int]
    extra: Mapping[DeviceUser, Mapping[str, str]]


def series_of(usage: UsedShares, user: DeviceUser) -> int:
    """How many series the user has."""
    use = usage.uses.get(user)
    gauges = 0 if use is None else sum(of(use) is not None for _, _, of in _GAUGES)
    return len(usage.counters.counts.get(user, ())) + gauges


def within_limit(usage: UsedShares, users: Sequence[DeviceUser], limit: int) -> tuple[DeviceUser, ...]:
    """The users whose series are shown: the first of them, until the next would be too many."""
    if len(users) * _MOST_SERIES <= limit:
        return tuple(users)
    shown: list[DeviceUser] = []
    total = 0
    for user in users:
        total += series_of(usage, user)
        if total > limit:
            break
        shown.append(user)
    return tuple(shown)


def pod_metrics(usage: UsedShares, users: Sequence[DeviceUser]) -> Iterator[Metric]:
    """The families, with the series of these users."""
    extra = sorted({name for user in users for name in usage.extra.get(user, ())})
    names = (*LABELS, *extra)

    counted: dict[UsageCounter, list[Sample]] = {counter: [] for counter, _ in _COUNTERS}
    measured: dict[str, list[Sample]] = {name: [] for name, _, _ in _GAUGES}
    for user in users:  # each is looked up once: to hash one costs more than to write its series
        labels = _labels_of(user, usage, extra)
        for (counter, certainty), count in usage.counters.counts.get(user, {}).items():
            counted[counter].append((labels(certainty), count))
        use = usage.uses.get(user)
        if use is None:
            continue
        for name, _, of in _GAUGES:
            amount = of(use)
            if amount is not None:
                measured[name].append((labels(amount.certainty), amount.value))
    for counter, text in _COUNTERS:
        yield Metric(MetricKind.COUNTER, f"tonnage_pod_gpu_{counter}", text, names, tuple(counted[counter]))
    for name, text, _ in _GAUGES:
        yield Metric(MetricKind.GAUGE, f"tonnage_pod_gpu_{name}", text, names, tuple(measured[name]))


def _labels_of(
    user: DeviceUser, usage: UsedShares, extra: Sequence[str]
) -> Callable[[Certainty], tuple[str, ...]]:
    """The user's values of labels, by how sure an amount is."""
    own = usage.extra.get(user, {})
    first = (
        *(user.namespace, user.pod, user.container, user.uuid, str(usage.indices.get(user.uuid, ""))),
        *(user.gpu_instance, user.profile, user.resource, user.claim),
    )
    last = tuple(own.get(name, "") for name in extra)
    return lambda certainty: (*first, certainty, *last)


def budget_metrics(limit: int, left_out: int, since_s: float) -> Iterator[Metric]:
    """What is said of these families themselves."""
    gauges = (
        ("series_limit", "Series that the page has at most; containers beyond it are left out.", limit),
        ("users_left_out", "Containers that tonnage_pod_gpu_* leaves out: too many series.", left_out),
        (
            "pod_counters_start_time_seconds",
            "When the counters of containers began, in seconds since 1970.",
            since_s,
        ),
    )
    for name, text, value in gauges:
        yield Metric(MetricKind.GAUGE, f"tonnage_exporter_{name}", text, (), (((), value),))
