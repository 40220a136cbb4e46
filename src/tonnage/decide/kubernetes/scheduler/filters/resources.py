"""NodeResourcesFit: every request within what the node has and its pods leave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.decide.kubernetes.claims.extended_resources import backed_by_classes, left_to_claims
from tonnage.decide.kubernetes.requests import (
    CPU,
    EPHEMERAL,
    MEMORY,
    PODS,
    comes_back,
    is_extended,
    pod_requests,
    written_amount,
    written_apart,
)
from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.reasons.pod.scheduling import (
    InsufficientResource,
    ResourceNotAdvertised,
    ResourceTooLarge,
    TooManyPods,
)
from tonnage.model.reasons.reason import Reason

NAME: Final = "NodeResourcesFit"
CROWDED: Final = "Too many pods"
_COMPUTE: Final = (CPU, MEMORY, EPHEMERAL)


def prepare(pod: Pod, view: ClusterView) -> Check | None:
    """Refuse nodes with too little left, counting the pods that run, terminate or are assumed there."""
    requests = pod_requests(pod)
    for name in _overlooked(requests, view.settings(pod).ignored):
        del requests[name]
    ordered = [
        (name, requests[name])
        for name in (*_COMPUTE, *sorted(set(requests) - set(_COMPUTE)))
        if requests.get(name, 0) > 0 and (name in _COMPUTE or _is_counted(name))
    ]

    by_class = bool(backed_by_classes(pod, view.supply))

    def check(node: NodeView) -> PluginRefusal | None:
        reasons: list[Reason] = []
        counted = ordered if not by_class else _counted_on(node, ordered, view)
        texts: list[str] = []
        if len(node.pods) + 1 > node.node.allocatable.get(PODS, 0):
            reasons.append(_too_many_pods(node))
            texts.append(CROWDED)
        for name, amount in counted:
            if amount > node.node.allocatable.get(name, 0) - node.requested.get(name, 0):
                reasons.append(_insufficient(node, name, amount))
                texts.append(insufficient(name))
        if not texts:
            return None
        unresolvable = any(amount > node.node.allocatable.get(name, 0) for name, amount in counted)
        return PluginRefusal(NAME, tuple(texts), unresolvable=unresolvable, reasons=tuple(reasons))

    return check


def _counted_on(node: NodeView, ordered: list[tuple[str, int]], view: ClusterView) -> list[tuple[str, int]]:
    """Without what the node does not offer and a DeviceClass stands for, which is the allocator's matter."""
    return [pair for pair in ordered if not left_to_claims(pair[0], node.node, view.supply)]


def insufficient(resource: str) -> str:
    """Upstream's words on a node that has too little left of a resource."""
    return f"Insufficient {resource}"


def _is_counted(resource: str) -> bool:
    return "/" in resource or resource.startswith(("hugepages-", "attachable-volumes-"))


def _overlooked(requests: Iterable[str], ignored: tuple[str, ...]) -> list[str]:
    """Extended resources that the scheduler's profile leaves to others."""
    return [
        name
        for name in requests
        if ignored and is_extended(name) and (name in ignored or f"{name.partition('/')[0]}/*" in ignored)
    ]


def _too_many_pods(node: NodeView) -> Reason:
    limit = node.node.allocatable.get(PODS, 0)
    return TooManyPods(
        subject=f"Node {node.name}",
        message=f"the node takes {limit} pods and has {len(node.pods)}",
        remedy="end pods on the node, or raise the kubelet's maxPods",
        source=NAME,
        limit=limit,
        pods=len(node.pods),
    )


def _insufficient(node: NodeView, name: str, amount: int) -> Reason:
    """Why a node has too little: CPU in thousandths of a core, memory and disk in bytes, else a count."""
    allocatable = node.node.allocatable.get(name, 0)
    used = node.requested.get(name, 0)
    requested, whole = written_apart(name, amount, allocatable)
    request = f"asks {requested} {name}"
    ever = max(allocatable, node.node.capacity.get(name, 0)) if comes_back(name) else allocatable
    kind: type[ResourceNotAdvertised | ResourceTooLarge | InsufficientResource]
    if allocatable == 0:
        kind, message = ResourceNotAdvertised, f"the node does not offer {name}"
        remedy = f"see which nodes offer it: kubectl get nodes -o custom-columns with {name}"
    elif amount > allocatable:
        kind = ResourceTooLarge
        lost = f" of {written_amount(name, ever)}" if ever > allocatable else ""
        message = f"{request}, the whole node has {whole}{lost} allocatable"
        remedy = f"ask for less {name}, or use larger nodes"
    else:
        kind = InsufficientResource
        requested, free = written_apart(name, amount, allocatable - used)
        free, state = ("none", "taken") if used > allocatable else (free, "used")
        message = f"asks {requested} {name}, {free} free ({written_amount(name, used)} of {whole} {state})"
        remedy = "wait for a pod there to end, or free one"
    return kind(
        subject=f"Node {node.name}",
        message=message,
        remedy=remedy,
        source=NAME,
        lasting=amount > ever,
        resource=name,
        requested=amount,
        allocatable=allocatable,
        capacity=node.node.capacity.get(name, 0),
        used=used,
        free=allocatable - used,
    )
