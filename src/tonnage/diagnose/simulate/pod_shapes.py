"""Pods that ask alike, and how often they come: the yardstick of what free devices are good for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended, pod_requests
from tonnage.model.kubernetes.cluster import Container, Pod

_COVERED: Final = 0.95
MOST_SHAPES: Final = 48


@dataclass(frozen=True, slots=True)
class Reference:
    """A pod that stands for those that ask like it; its share of the pods that ask for the resource."""

    pod: Pod
    amount: int
    share: float


def shape_of(pod: Pod) -> Hashable:
    """What decides where a pod may run, but for the pods beside it: equal for pods that ask alike."""
    return (
        tuple(_amounts(c) for c in pod.containers),
        tuple(_amounts(c) for c in pod.init_containers),
        _sorted(pod.overhead),
        _sorted(pod.pod_requests),
        _sorted(pod.node_selector),
        pod.affinity.node,
        pod.tolerations,
        pod.host_ports,
    )


def group_of(pod: Pod, *, shunned: bool) -> Hashable:
    """What decides whether a pod waits, and for what: equal for pods that are answered alike.

    `shunned`: some pod wants to be away from others, so that labels tell pods apart.
    """
    looks = shunned or bool(pod.spread or pod.affinity.pods or pod.affinity.anti or pod.claims)
    return (
        shape_of(pod),
        pod.scheduler_name,
        pod.affinity,
        pod.spread,
        pod.priority,
        pod.may_preempt,
        pod.gates,
        tuple((entry.name, entry.template or entry.claim) for entry in pod.claims),
        (pod.namespace, *sorted(pod.labels.items())) if looks else (),
    )


def stays_refused(pod: Pod) -> bool:
    """Whether pods that come to nodes can never make room for the pod."""
    return not (pod.affinity.pods or any(constraint.hard for constraint in pod.spread))


def references_of(pods: Iterable[Pod]) -> dict[str, tuple[Reference, ...]]:
    """By device resource: the most frequent shapes that together make 95 % of the pods that ask for it."""
    counts: dict[str, Counter[Hashable]] = {}
    stands: dict[Hashable, Pod] = {}
    asks: dict[Hashable, Mapping[str, int]] = {}
    for pod in pods:
        if pod.claims or pod.volumes or pod.disks or pod.unmodelled or pod.gates:
            continue
        if not any("/" in name for c in (*pod.containers, *pod.init_containers) for name in c.requests):
            continue
        key = shape_of(pod)
        if key not in stands:
            stands[key] = pod
            asks[key] = {r: n for r, n in pod_requests(pod).items() if is_extended(r) and n > 0}
        for name in asks[key]:
            counts.setdefault(name, Counter())[key] += 1
    return {name: _typical(name, shapes, stands, asks) for name, shapes in sorted(counts.items())}


def _typical(
    name: str,
    counts: Counter[Hashable],
    stands: Mapping[Hashable, Pod],
    asks: Mapping[Hashable, Mapping[str, int]],
) -> tuple[Reference, ...]:
    total, covered = counts.total(), 0
    covering: list[tuple[Hashable, int]] = []
    for key, count in counts.most_common(MOST_SHAPES):
        if covered >= _COVERED * total:
            break
        covering.append((key, count))
        covered += count
    return tuple(Reference(stands[key], asks[key][name], count / covered) for key, count in covering)


def _amounts(container: Container) -> Hashable:
    return container.sidecar, _sorted(container.requests)


def _sorted(mapping: Mapping[str, object]) -> Hashable:
    return tuple(sorted(mapping.items()))
