"""ADM-5, SHR-2: several of a resource that a node offers by replicas: they are no such number of GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.case import Case, device_needs
from tonnage.model.name_lists import listed
from tonnage.model.names import GPU
from tonnage.model.node.device_counts import DeviceCount, device_count
from tonnage.model.reasons.facts import SharedDevices
from tonnage.model.reasons.pod.pods import ReplicasNotDevices
from tonnage.model.reasons.reason import Reason

_REPLICAS = f"{GPU}.replicas"


def reasons(case: Case) -> Iterator[Reason]:
    """One warning for each resource of which the pod asks several, by the nodes that would take it."""
    statuses, strict = case.view.snapshot.gpu, frozenset(case.remarkable.strict)
    for resource, count in device_needs(case.pod).items():
        if count < 2:
            continue
        names = case.decision.feasible or tuple(case.view.nodes)
        groups: dict[tuple[int, int, int | None, int | None], tuple[DeviceCount, list[str]]] = {}
        for name in names:
            node, status = case.view.nodes[name].node, statuses.get(name)
            if node.allocatable.get(resource, 0) <= 0 or (name in strict and case.decision.feasible):
                continue  # `single_request` tells of the strict ones
            there = device_count(node, resource, status)
            if there.shared:
                key = (*there.behind(count), there.replicas, there.devices)
                groups.setdefault(key, (there, []))[1].append(name)
        for there, nodes in groups.values():
            yield _reason(case, there, nodes, count)


def _reason(case: Case, there: DeviceCount, nodes: list[str], count: int) -> ReplicasNotDevices:
    resource = there.resource
    feasible = bool(case.decision.feasible)
    text = there.in_words(count) if feasible else there.in_words()
    return ReplicasNotDevices(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=f"on {listed(nodes, 4)}, {text}; replicas add no memory or compute",
        remedy=f'select nodes whose GPUs are not shared (nodeSelector {_REPLICAS}: "1"), or ask for 1 where a'
        " share of a GPU is enough",
        source="NVIDIA device plugin, sharing",
        resource=resource,
        requested=count,
        nodes=tuple(SharedDevices(name, there.devices, there.replicas) for name in nodes),
    )
