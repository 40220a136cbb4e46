"""What a pod asks of a node, counted as scheduler, quota and kubelet count it.

Source: k8s.io/component-helpers/resource, kube-scheduler 1.35 (NodeInfo, NodeResourcesFit).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from tonnage.model.kubernetes.cluster import Container, Pod, Requests

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL: Final = "ephemeral-storage"
PODS: Final = "pods"
_LEAST_CPU_MILLI: Final = 100
_LEAST_MEMORY: Final = 200 * 1024 * 1024
_SCORED_LEAST: Final = {CPU: _LEAST_CPU_MILLI, MEMORY: _LEAST_MEMORY}


def pod_requests(pod: Pod, *, by_pod: bool = False) -> dict[str, int]:
    """Total by resource: the larger of all together and any init step, then pod-level ones, then overhead.

    A container that is being resized counts with the most of what it asks, was promised and has; `by_pod`:
    the most counts of the sums over the pod, as from 1.37 on.
    """
    return _total(pod, {}, pod_level=True, by_pod=by_pod)


def pod_limits(pod: Pod) -> dict[str, int]:
    """Limits in total, counted as requests are; overhead only where there is a limit at all."""
    limited = replace(
        pod,
        containers=tuple(replace(c, requests=c.limits) for c in pod.containers),
        init_containers=tuple(replace(c, requests=c.limits) for c in pod.init_containers),
        pod_requests=pod.pod_limits,
        overhead={},
    )
    total = pod_requests(limited)
    add(total, {name: amount for name, amount in pod.overhead.items() if name in total})
    return total


def scored_requests(pod: Pod, *, pod_level: bool, by_pod: bool = False) -> tuple[int, int]:
    """(cpu milli, memory bytes) as scores count them: a container that names none counts as a small one.

    In a pod with pod-level requests that is so only where the pod as a whole names none.
    """
    least: Requests = _SCORED_LEAST
    if pod_level and _whole_pod(pod.pod_requests):
        requested = pod_requests(pod, by_pod=by_pod)
        least = {name: amount for name, amount in least.items() if not requested.get(name)}
    total = _total(pod, least, pod_level=pod_level, by_pod=by_pod)
    return total.get(CPU, 0), total.get(MEMORY, 0)


def asked_for_scores(pod: Pod) -> dict[str, int]:
    """What a pod that is to be placed counts in scores, without what it asks as a whole."""
    return _total(pod, _SCORED_LEAST, pod_level=False, by_pod=False)


def is_extended(resource: str) -> bool:
    """Whether the name is an extended resource: counted in whole units, requests equal to limits.

    >>> [is_extended(name) for name in ("nvidia.com/gpu", "cpu", "hugepages-2Mi", "kubernetes.io/x")]
    [True, False, False, False]
    """
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def comes_back(resource: str) -> bool:
    """Whether what a node has beyond its allocatable amount is only withheld for now: devices that are ill.

    What is kept of CPU, memory and disk for kubelet and the system stays so.
    """
    return is_extended(resource)


def written_amount(name: str, amount: int) -> str:
    """An amount as people write it.

    >>> written_amount("cpu", 1500), written_amount("memory", 3 * 1024**3)
    ('1500m', '3Gi')
    """
    if name == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    for suffix, size in (("Gi", 1024**3), ("Mi", 1024**2)):
        if name in (MEMORY, EPHEMERAL) and abs(amount) >= size:
            return f"{amount / size:.4g}{suffix}"
    return f"{amount}"


def written_apart(name: str, amount: int, other: int) -> tuple[str, str]:
    """Two amounts as people write them, in full where the short ones would look the same.

    >>> written_apart("memory", 3 * 2**29, 3 * 2**29 + 1)
    ('1610612736', '1610612737')
    """
    written = written_amount(name, amount), written_amount(name, other)
    return (f"{amount}", f"{other}") if amount != other and len(set(written)) == 1 else written


def add(total: dict[str, int], amounts: Requests) -> None:
    """Add `amounts` to `total` in place."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _total(pod: Pod, least: Requests, *, pod_level: bool, by_pod: bool) -> dict[str, int]:
    status = pod.status
    if not status.resized and not status.cannot_resize:
        total = _together(pod, least, _requests_of)
    elif by_pod:
        sums = [_together(pod, least, which) for which in (_allocated_of(pod), _actual_of(pod))]
        total = _most([*sums, *([] if status.cannot_resize else [_together(pod, least, _requests_of)])])
    else:
        total = _together(pod, least, _effective_of(pod))
    if pod_level:
        total.update(_whole_pod(pod.pod_requests))
    add(total, pod.overhead)
    return total


def _together(pod: Pod, least: Requests, amounts_of: Callable[[Container], Requests]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in pod.containers:
        add(total, {**least, **amounts_of(container)} if least else amounts_of(container))
    if not pod.init_containers:
        return total
    return _with_init(total, [(c.sidecar, {**least, **amounts_of(c)}) for c in pod.init_containers])


def _with_init(total: dict[str, int], init: Iterable[tuple[bool, dict[str, int]]]) -> dict[str, int]:
    """Sidecars (True) run beside everything after them; the others run one by one before the rest."""
    beside: dict[str, int] = {}
    peak: dict[str, int] = {}
    for sidecar, amounts in init:
        step = dict(amounts)
        if sidecar:
            add(beside, step)
            step = dict(beside)
        else:
            add(step, beside)
        for name, amount in step.items():
            peak[name] = max(peak.get(name, 0), amount)
    add(total, beside)
    return {name: max(total.get(name, 0), peak.get(name, 0)) for name in total | peak}


def _requests_of(container: Container) -> Requests:
    return container.requests


def _effective_of(pod: Pod) -> Callable[[Container], Requests]:
    """The most of what a container has, was promised and, unless that is hopeless, asks."""
    steps = {c.name for c in pod.init_containers if not c.sidecar}
    held = {resize.container: resize for resize in pod.status.resized if resize.container not in steps}

    def amounts(container: Container) -> Requests:
        resize = held.get(container.name)
        if resize is None or resize.actual is None:
            return container.requests
        requested = () if pod.status.cannot_resize else (container.requests,)
        return _most([resize.actual, resize.allocated or {}, *requested])

    return amounts


def _allocated_of(pod: Pod) -> Callable[[Container], Requests]:
    """What a container was promised; unsaid, nothing if its node can never do what it asks."""
    unsaid: Requests | None = {} if pod.status.cannot_resize else None
    held = {
        resize.container: unsaid if resize.allocated is None else resize.allocated
        for resize in pod.status.resized
    }

    def amounts(container: Container) -> Requests:
        allocated = held.get(container.name)
        return container.requests if allocated is None else allocated

    return amounts


def _actual_of(pod: Pod) -> Callable[[Container], Requests]:
    held = {resize.container: resize.actual for resize in pod.status.resized if resize.actual}
    allocated = _allocated_of(pod)
    return lambda container: held.get(container.name) or allocated(container)


def _most(parts: Iterable[Requests]) -> dict[str, int]:
    """The largest amount of each resource."""
    largest: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            largest[name] = max(largest.get(name, amount), amount)
    return largest


def _whole_pod(amounts: Requests) -> dict[str, int]:
    """Pod-level amounts cover cpu, memory and huge pages only, never devices."""
    return {
        name: amount
        for name, amount in amounts.items()
        if name in (CPU, MEMORY) or name.startswith("hugepages-")
    }
