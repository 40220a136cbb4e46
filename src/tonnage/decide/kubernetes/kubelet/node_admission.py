"""predicateAdmitHandler: what a kubelet asks of a pod that is bound to its node, by whomever.

Devices are its device manager's matter (`kubelet`), and so are resources that the node does not know.

Source: Kubernetes 1.35, pkg/kubelet/lifecycle/predicate.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from tonnage.decide.kubernetes.matching import node_is_selected, untolerated
from tonnage.decide.kubernetes.requests import CPU, EPHEMERAL, MEMORY, PODS, pod_requests
from tonnage.decide.kubernetes.scheduler.filters import node_affinity, ports, taints
from tonnage.decide.kubernetes.view import NodeView
from tonnage.model.kubernetes.cluster import Pod

_NATIVE: Final = (PODS, CPU, MEMORY, EPHEMERAL)
Amounts = Mapping[str, int]
"""By resource, in the units of `pod_requests`."""


@dataclass(frozen=True, slots=True)
class NodeAdmissionFailure:
    """A pod that kubelet would fail: the status' reason, and its message without `Pod was rejected: `.

    `lasting`: also on a node that is empty.
    """

    reason: str
    upstream_message: str
    lasting: bool
    resource: str = ""
    requested: int = 0
    used: int = 0
    there: int = 0


def node_admission_failure(pod: Pod, node: NodeView) -> NodeAdmissionFailure | None:
    """The first thing for which the kubelet would fail the pod, beside those of `node`; None: it takes it."""
    return next(chain(_short(pod, node), broken_rules(pod, node)), None)


def unknown_devices(pod: Pod, node: NodeView) -> tuple[str, ...]:
    """Extended resources that the node does not know: a kubelet starts the pod without them."""
    requests = pod_requests(pod)
    return tuple(
        sorted(name for name in requests if requests[name] > 0 and not _is_known(name, node.node.allocatable))
    )


def broken_rules(pod: Pod, node: NodeView, *, static: bool = False) -> Iterator[NodeAdmissionFailure]:
    """The scheduler's rules, but for amounts, that the kubelet checks again and that do not hold.

    `static`: the pod mirrors one from a file of the node, which no taint keeps away.
    """
    if not node_is_selected(pod, node.node):
        yield _broken("NodeAffinity", node_affinity.TEXT, lasting=True)
    ports_in_use = [port for other in node.pods for port in other.host_ports]
    if any(ports.clash(port, other) for port in pod.host_ports for other in ports_in_use):
        yield _broken("NodePorts", ports.TEXT, lasting=False)
    if not static and untolerated(node.node.taints, pod.tolerations, ("NoExecute",)):
        yield _broken("TaintToleration", taints.TEXT, lasting=True)


def shortfalls(requests: Amounts, used: Amounts, allocatable: Amounts) -> Iterator[NodeAdmissionFailure]:
    """What a node that is so `used` has too little of for one more pod, in the order in which kubelet looks.

    An extended resource that the node does not know is left out: the scheduler has to care for that.
    """
    requests = {**requests, PODS: 1}
    extended = sorted(name for name in requests if name not in _NATIVE and _is_known(name, allocatable))
    for name in (*_NATIVE, *extended):
        requested, in_use, there = requests.get(name, 0), used.get(name, 0), allocatable.get(name, 0)
        if requested and requested + in_use > there:
            detail = f"requested: {requested}, used: {in_use}, capacity: {there}"
            message = f"Node didn't have enough resource: {name}, {detail}"
            yield NodeAdmissionFailure(
                f"OutOf{name}", message, requested > there, name, requested, in_use, there
            )


def _short(pod: Pod, node: NodeView) -> Iterator[NodeAdmissionFailure]:
    used = {**node.requested, PODS: len(node.pods)}
    return shortfalls(pod_requests(pod), used, node.node.allocatable)


def _is_known(name: str, allocatable: Amounts) -> bool:
    return "/" not in name or name in allocatable


def _broken(predicate: str, why: str, *, lasting: bool) -> NodeAdmissionFailure:
    return NodeAdmissionFailure(predicate, f"Predicate {predicate} failed: {why}", lasting)
