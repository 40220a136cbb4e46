"""What no node knows, as metrics: pods that wait and why, how long, quotas, and each node's amounts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.diagnose.case import device_needs
from tonnage.diagnose.cluster_view import Ground, ground_of
from tonnage.diagnose.explain.bound.scheduled_pods import explain_placed
from tonnage.diagnose.explain.explain import explain_waiting_pod
from tonnage.diagnose.leading_reason import leading_code
from tonnage.diagnose.status import FleetRow, fleet
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.metric_families import Metric, MetricFamily, MetricKind
from tonnage.model.verdict import Subject

MOST_EXPLAINED: Final = 64
"""Groups of alike pods whose layer and code are worked out, those of most pods first."""
UNEXPLAINED: Final = "not-explained"
"""The code of pods beyond that."""
_PREFIX: Final = "tonnage_cluster_"
_REQUESTS: Final = "requests."
_WAITING: Final = ("Pending", "")

Samples = Mapping[tuple[str, ...], float]


def cluster_families(snapshot: Snapshot, *, version: str = "") -> Iterator[MetricFamily]:
    """Every metric of `tonnage metrics cluster`.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    waiting = [pod for pod in snapshot.pods if pod.status.phase in _WAITING and device_needs(pod)]
    yield _gauge(
        "pending_pods",
        "Pods that ask for a device and are Pending, by the layer and code that explain gives.",
        ("resource", "namespace", "layer", "code"),
        _pending(waiting, ground_of(snapshot, version=version)),
    )
    yield _gauge(
        "queue_seconds",
        "Age of the oldest pod that has no node yet, for each resource that it asks for.",
        ("resource", "namespace"),
        _queue(waiting, snapshot),
    )
    yield _gauge(
        "rejected_pods",
        "Failed pods that kubelet refused, by its reason.",
        ("resource", "namespace", "node", "reason"),
        _rejected(snapshot.pods),
    )
    yield from _quotas(snapshot)
    yield from _amounts(snapshot)


def _pending(pods: Iterable[Pod], ground: Ground) -> Samples:
    """Pods of one owner are alike: one of them is explained."""
    groups: dict[tuple[object, ...], list[Pod]] = defaultdict(list)
    for pod in pods:
        own = (pod.owner.kind, pod.owner.name) if pod.owner else (pod.name,)
        groups[pod.namespace, pod.node_name, own, tuple(device_needs(pod).items())].append(pod)
    counts: Counter[tuple[str, ...]] = Counter()
    for number, members in enumerate(sorted(groups.values(), key=len, reverse=True)):
        code, layer = _cause(members[0], ground) if number < MOST_EXPLAINED else (UNEXPLAINED, "")
        for resource in device_needs(members[0]):
            counts[resource, members[0].namespace, layer, code] += len(members)
    return counts


def _cause(pod: Pod, ground: Ground) -> tuple[str, str]:
    """Code and layer; both empty where nothing is in the way, so that its turn has yet to come."""
    if pod.node_name:
        explanation = explain_placed(pod, Subject("Pod", pod.namespace, pod.name), ground.view.snapshot)
    else:
        explanation = explain_waiting_pod(ground, pod, with_remedies=False)
    return ("", "") if explanation.verdict.good else leading_code(explanation)


def _queue(pods: Iterable[Pod], snapshot: Snapshot) -> Samples:
    oldest: dict[tuple[str, ...], float] = {}
    for pod in pods:
        if pod.node_name or pod.created is None or snapshot.now is None:
            continue
        age_s = max(0.0, (snapshot.now - pod.created).total_seconds())
        for resource in device_needs(pod):
            key = resource, pod.namespace
            oldest[key] = max(age_s, oldest.get(key, 0.0))
    return oldest


def _rejected(pods: Iterable[Pod]) -> Samples:
    """Kubelet gives a reason to a pod that it does not admit; one whose containers failed has none."""
    counts: Counter[tuple[str, ...]] = Counter()
    for pod in pods:
        if pod.status.phase == "Failed" and pod.status.reason and pod.node_name:
            for resource in device_needs(pod):
                counts[resource, pod.namespace, pod.node_name, pod.status.reason] += 1
    return counts


def _quotas(snapshot: Snapshot) -> Iterator[Metric]:
    used: dict[tuple[str, ...], float] = {}
    hard: dict[tuple[str, ...], float] = {}
    for quota in snapshot.quotas:
        for name, text in quota.hard.items():
            resource = name.removeprefix(_REQUESTS)
            if name.startswith(_REQUESTS) and is_extended(resource):
                key = quota.namespace, quota.name, resource
                hard[key] = float(parse_quantity(text))
                used[key] = float(parse_quantity(quota.used.get(name, "0")))
    labels = ("namespace", "quota", "resource")
    yield _gauge("quota_used", "Devices that count against a ResourceQuota.", labels, used)
    yield _gauge("quota_hard", "Devices that a ResourceQuota allows.", labels, hard)


def _amounts(snapshot: Snapshot) -> Iterator[Metric]:
    rows = [row for row in fleet(snapshot) if row.resource]
    keyed: dict[tuple[str, ...], FleetRow] = {(row.resource, row.node): row for row in rows}
    labels = ("resource", "node")
    amounts = (
        ("capacity", "Devices that a node has.", {key: row.capacity for key, row in keyed.items()}),
        (
            "allocatable",
            "Devices that a node can give to pods.",
            {key: row.allocatable for key, row in keyed.items()},
        ),
        (
            "requested",
            "Devices that pods on a node ask for.",
            {key: row.allocated for key, row in keyed.items()},
        ),
    )
    for name, text, by_key in amounts:
        samples = {key: float(amount) for key, amount in by_key.items() if amount is not None}
        yield _gauge(f"resource_{name}", text, labels, samples)
    modes = {(*key, row.mode, row.product): 1.0 for key, row in keyed.items()}
    text = "How a node offers a resource, and of which product; 1."
    yield _metric(MetricKind.INFO, "resource", text, (*labels, "mode", "product"), modes)


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    return _metric(MetricKind.GAUGE, name, text, labels, samples)


def _metric(kind: MetricKind, name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    return Metric(kind, f"{_PREFIX}{name}", text, labels, tuple(sorted(samples.items())))
