"""PodAdmitHandler: whether a pod that was bound to this node fits it, by the kubelet's own view.

Source: Kubernetes 1.36, pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/sysctl/allowlist.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.admission.security_options import safe_sysctls
from tonnage.decide.kubernetes.kubelet.node_admission import broken_rules, shortfalls
from tonnage.decide.kubernetes.requests import PODS, pod_requests
from tonnage.decide.kubernetes.view import NodeView
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mappings, text
from tonnage.model.kubernetes.quantity import integer_value, milli_value
from tonnage.model.kubernetes.well_known import MIRROR
from tonnage.reading.cluster import node_from, pod_from
from tonnage.twin.kubelet.pod_conditions import OWN
from tonnage.wire.objects import Container, Node, Pod

CPU: Final = "cpu"
_OWN: Final = ("cpu", "memory")
_SYSTEM: Final = "linux"
_MINOR: Final = 35
_CLAIMS_APART: Final = 36
"""From here on kubelet asks no resource of the node that a claim meets."""
_SWAPPED: Final = str.maketrans("./", "/.")


@dataclass(frozen=True, slots=True)
class AdmissionFailure:
    """Why a pod may not run here: the status' reason, and its message without `Pod was rejected: `."""

    reason: str
    message: str


def amount_of(resource: str, quantity: str | float) -> int:
    """A quantity in the units that the kubelet counts in: thousandths for CPU, else whole ones."""
    return milli_value(str(quantity)) if resource == CPU else integer_value(str(quantity))


def amounts_of(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """Several quantities at once, see `amount_of`."""
    return {name: amount_of(name, quantity) for name, quantity in quantities.items()}


def is_sidecar(container: Container) -> bool:
    """Whether an init container stays up beside the others."""
    return container.restart_policy == "Always"


def pod_amounts(pod: Pod) -> Mapping[str, int]:
    """What the pod asks for: all containers or the greediest init step, pod-level ones, overhead."""
    return pod_requests(pod_from(pod))


def device_amounts(pod: Pod, container: Container) -> dict[str, int]:
    """Limits of extended resources, what the device manager looks at, but for those that a claim meets."""
    claimed, limits = claimed_resources(pod), container.resources.limits
    return amounts_of({name: limits[name] for name in limits if "/" in name and name not in claimed})


def claimed_resources(pod: Pod) -> frozenset[str]:
    """Extended resources that the scheduler has met by a claim: on one node it does so for all containers."""
    mapped = mappings(pod.status.extended_resource_claim_status, "requestMappings")
    return frozenset(text(mapping, "resourceName") for mapping in mapped)


def own_cpus(pod: Pod) -> dict[str, int]:
    """Whole CPUs that a static CPU manager gives each container alone; none if it is not Guaranteed."""
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    if not all(_guaranteed(container) for container in containers):
        return {}
    amounts = {c.name: amount_of(CPU, c.resources.limits[CPU]) for c in containers}
    return {name: amount // 1000 for name, amount in amounts.items() if amount % 1000 == 0}


def _guaranteed(container: Container) -> bool:
    limits, requests = amounts_of(container.resources.limits), amounts_of(container.resources.requests)
    return all(limits.get(name, 0) > 0 and requests.get(name, limits[name]) == limits[name] for name in _OWN)


def rejected(pod: Pod, failure: AdmissionFailure, start: str) -> JsonObject:
    """The status of a pod that is not let in. The kubelet's own conditions go, as it has nothing to say."""
    types = [condition.type for condition in pod.status.conditions]
    gone: list[JsonValue] = [{"type": kind, "$patch": "delete"} for kind in types if kind in OWN]
    return {
        "phase": "Failed",
        "reason": failure.reason,
        "message": f"Pod was rejected: {failure.message}",
        "startTime": start,
        **({"conditions": gone if len(gone) < len(types) else None} if gone else {}),
        **({"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}),
    }


def system_failure(pod: Pod) -> AdmissionFailure | None:
    """Why a pod for another operating system, or with sysctls that may harm others, is not let in."""
    for sysctl in (pod.spec.security_context or {}).get("sysctls") or ():
        if refusal := _sysctl_refusal(pod, str(sysctl.get("name"))):
            return AdmissionFailure("SysctlForbidden", f"forbidden sysctl: {refusal}")
    if (pod.spec.os or {}).get("name", _SYSTEM) == _SYSTEM:
        return None
    message = "Failed to admit pod as the OS field doesn't match node OS"
    return AdmissionFailure("PodOSNotSupported", message)


def _sysctl_refusal(pod: Pod, written: str) -> str:
    """Why a pod may not set a sysctl, whose parts dots or slashes separate; empty: it may."""
    first = next((letter for letter in written if letter in "./"), ".")
    name = written.translate(_SWAPPED) if first == "/" else written
    if name not in safe_sysctls(_MINOR):
        return f'"{name}" not allowlisted'
    space, shared = ("Net", pod.spec.host_network) if name.startswith("net.") else ("IPC", pod.spec.host_ipc)
    return f'"{name}" not allowed with host {space} enabled' if shared else ""


def fit_failure(
    pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, int], minor: int = _MINOR
) -> AdmissionFailure | None:
    """The first thing that the node lacks. `others` are the pods that run here already."""
    used: Counter[str] = Counter()
    for other in others:
        used.update({**pod_amounts(other), PODS: 1})
    claimed = claimed_resources(pod) if minor >= _CLAIMS_APART else frozenset()
    requested = {name: amount for name, amount in pod_amounts(pod).items() if name not in claimed}
    return lacking(requested, used, allocatable)


def lacking(
    requested: Mapping[str, int], used: Mapping[str, int], allocatable: Mapping[str, int]
) -> AdmissionFailure | None:
    """The first thing of which a node that is so `used` has too little for one more pod."""
    short = next(shortfalls(requested, used, allocatable), None)
    return AdmissionFailure(short.reason, short.upstream_message) if short is not None else None


def predicate_failure(pod: Pod, others: Iterable[Pod], node: Node) -> AdmissionFailure | None:
    """The first of the scheduler's other rules that the kubelet checks again and that does not hold."""
    here = NodeView(node_from(node)).plus([pod_from(other) for other in others])
    broken = next(broken_rules(pod_from(pod), here, static=is_static(pod)), None)
    return AdmissionFailure(broken.reason, broken.upstream_message) if broken is not None else None


def is_static(pod: Pod) -> bool:
    """Whether the pod mirrors one from a file of the node, which no taint keeps away."""
    return MIRROR in pod.metadata.annotations
