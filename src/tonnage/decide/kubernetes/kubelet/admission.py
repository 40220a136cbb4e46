"""What a node's kubelet would say of a pod that the scheduler puts there, as far as its NodeGPUStatus tells.

It is asked only where all that it goes by is known; else the answer is `KubeletUnknown`, and what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from tonnage.decide.kubernetes.kubelet.device_admission import (
    Admission,
    AdmissionUndecided,
    ContainerNeed,
    DeviceAdmissionFailure,
    DeviceAdmitted,
    Supplies,
    admission,
)
from tonnage.decide.kubernetes.kubelet.device_holders import ContainerDevices, held_ids
from tonnage.decide.kubernetes.kubelet.devices import NO_IDS, Devices
from tonnage.decide.kubernetes.kubelet.topology_manager import (
    NumaTopology,
    TopologyPolicy,
    TopologyScope,
    nodes_of,
)
from tonnage.decide.kubernetes.requests import is_extended
from tonnage.decide.kubernetes.view import NodeView
from tonnage.model.kubernetes.cluster import Container, Pod
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus
from tonnage.model.node.software import KubeletPolicies

_MOST_NUMA_NODES: Final = 8
"""With more, hints are too many to be walked through for an answer."""
_STRICT: Final = (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)
_STRICT_NAMES: Final = frozenset(policy.value for policy in _STRICT)


@dataclass(frozen=True, slots=True)
class KubeletUnknown:
    """Why the kubelet cannot be asked."""

    why: str


@dataclass(frozen=True, slots=True)
class Aligned:
    """The kubelet lets the pod in, as far as devices go; `unless` names managers that were not asked.

    `devices`: which it would give, where a strict policy settles of which NUMA nodes they are.
    """

    unless: str = ""
    devices: ContainerDevices = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class NotAligned:
    """The kubelet would fail the pod with `TopologyAffinityError`. `lasting`: also on an idle node."""

    policy: TopologyPolicy
    scope: TopologyScope
    layout: tuple[str, ...]
    """For each NUMA node what it has of the resources that the pod asks for, in words."""
    lasting: bool
    most: Mapping[str, int]
    """Healthy devices of the NUMA node that has the most of a resource, by resource."""


KubeletAnswer: TypeAlias = Aligned | NotAligned | KubeletUnknown


def needs_of(pod: Pod) -> tuple[ContainerNeed, ...]:
    """What a pod's containers ask of device plugins: init containers in order, then the others."""
    init = [
        ContainerNeed(c.name, _devices_asked(c), reusable_after=not c.sidecar, sidecar=c.sidecar)
        for c in pod.init_containers
    ]
    needs = (*init, *(ContainerNeed(c.name, _devices_asked(c)) for c in pod.containers))
    return tuple(need for need in needs if need.resources)


def alignment_matters(pod: Pod) -> bool:
    """Whether NUMA nodes may decide: several devices, or one beside CPUs of its own.

    >>> alignment_matters(Pod("p", containers=(Container(limits={"nvidia.com/gpu": 1}),)))
    False
    """
    needs = needs_of(pod)
    return bool(needs) and (sum(sum(n.resources.values()) for n in needs) > 1 or bool(_own_cpus(pod)))


def ask_kubelet(pod: Pod, node: NodeView, status: GpuStatus | None) -> KubeletAnswer:
    """Whether the node's kubelet could align the pod's devices; holders are those of `node.pods`."""
    if not needs_of(pod):
        return Aligned()
    if status is None:
        return KubeletUnknown("it has no NodeGPUStatus")
    policies = status.software.policies
    try:
        policy = TopologyPolicy(policies.topology_manager)
    except ValueError:
        return KubeletUnknown(f"its topology manager policy is unknown{_because(policies)}")
    if policy not in _STRICT:
        return Aligned()
    supply = devices_of(status, node)
    if isinstance(supply, KubeletUnknown):
        return supply
    mask = 0
    for devices in supply.values():
        for numa in devices.numa.values():
            mask |= numa
    if len(nodes_of(mask)) > _MOST_NUMA_NODES:
        return KubeletUnknown(f"its devices are on more than {_MOST_NUMA_NODES} NUMA nodes")
    return _judged(pod, policy, policies, supply, mask)


def mark_of(status: GpuStatus | None, node: NodeView) -> object:
    """Equal for nodes whose kubelets answer alike; None where the policy keeps nothing out or is unknown."""
    if status is None or status.software.policies.topology_manager not in _STRICT_NAMES:
        return None
    policies = status.software.policies
    policy_names = (
        policies.topology_manager,
        policies.topology_scope,
        policies.cpu_manager,
        policies.memory_manager,
    )
    supply = devices_of(status, node)
    if isinstance(supply, KubeletUnknown):
        return policy_names, None
    return policy_names, tuple(
        (
            name,
            tuple(
                sorted(
                    Counter(
                        (numa, device_id in devices.healthy, device_id in devices.allocated)
                        for device_id, numa in devices.numa.items()
                    ).items()
                )
            ),
        )
        for name, devices in sorted(supply.items())
    )


def _judged(
    pod: Pod,
    policy: TopologyPolicy,
    policies: KubeletPolicies,
    supply: Mapping[str, Devices],
    mask: int,
) -> KubeletAnswer:
    needs = needs_of(pod)
    topology = NumaTopology(max(1, mask.bit_length()), policy)
    scopes = [scope for scope in TopologyScope if policies.topology_scope in (scope.value, "unknown")]
    idle = {name: replace(devices, allocated=NO_IDS) for name, devices in supply.items()}
    answers: list[KubeletAnswer] = []
    for scope in scopes:
        scoped = replace(topology, scope=scope)
        verdict: Admission = admission(scoped, needs, Supplies(supply))
        if isinstance(verdict, AdmissionUndecided):
            answers.append(KubeletUnknown(verdict.why))
        elif isinstance(verdict, DeviceAdmitted):
            settled = all(_settled(ids, supply[name]) for (_, name), ids in verdict.ids.items())
            answers.append(Aligned(_unasked(pod, policies), verdict.ids if settled else {}))
        elif verdict.reason != "TopologyAffinityError":
            answers.append(Aligned(_unasked(pod, policies)))
        else:
            lasting = isinstance(admission(scoped, needs, Supplies(idle)), DeviceAdmissionFailure)
            answers.append(
                NotAligned(policy, scope, layout_of(supply, needs), lasting, _most_of(supply, needs))
            )
    if not answers:
        return KubeletUnknown(f"{policies.topology_scope} is not a topology manager scope")
    if len({type(answer) for answer in answers}) > 1:
        return KubeletUnknown("the answer depends on its topology manager scope, which is unknown")
    return answers[0]


def _settled(ids: frozenset[str], devices: Devices) -> bool:
    """Whether devices are of one NUMA node, or all that are free: others would be like them."""
    return len({devices.numa.get(device_id, 0) for device_id in ids}) < 2 or ids == devices.available


def devices_of(status: GpuStatus, node: NodeView) -> dict[str, Devices] | KubeletUnknown:
    """The devices of each resource as kubelet has them, held by the node's pods; or what does not agree."""
    numa: dict[str, dict[str, int]] = {}
    ill: dict[str, set[str]] = {}
    for uuid, resource, healthy, device in _units(status):
        mask = 1 << device.numa_node if device.numa_node is not None and device.numa_node >= 0 else 0
        replicas = status.replicas.get(resource, device.replicas)
        ids = [uuid] if replicas <= 1 else [f"{uuid}::{number}" for number in range(replicas)]
        numa.setdefault(resource, {}).update(dict.fromkeys(ids, mask))
        if not healthy:
            ill.setdefault(resource, set()).update(ids)
    held = held_ids(status)
    by_resource: dict[str, Devices] = {}
    for resource, ids_of in numa.items():
        allocated: set[str] = set()
        for pod, amounts in zip(node.pods, node.amounts, strict=True):
            pod_ids = held.get((pod.namespace, pod.name, resource), set())
            if len(pod_ids) < amounts.get(resource, 0):
                return KubeletUnknown(
                    f"its NodeGPUStatus does not name all devices of {pod.namespace}/{pod.name}"
                )
            allocated |= pod_ids
        healthy_ids = frozenset(ids_of) - ill.get(resource, set())
        offered = node.node.allocatable.get(resource, 0)
        if len(healthy_ids) != offered:
            message = (
                f"its NodeGPUStatus names {len(healthy_ids)} healthy {resource}, the node offers {offered}"
            )
            return KubeletUnknown(message)
        by_resource[resource] = Devices(resource, ids_of, healthy_ids, frozenset(allocated))
    return by_resource


def layout_of(supply: Mapping[str, Devices], needs: tuple[ContainerNeed, ...]) -> tuple[str, ...]:
    """What each NUMA node has of what is asked: `NUMA node 0: 1 of 4 nvidia.com/gpu free`."""
    resources = sorted({name for need in needs for name in need.resources if name in supply})
    numbers = sorted({n for name in resources for mask in supply[name].numa.values() for n in nodes_of(mask)})
    return tuple(
        f"NUMA node {number}: "
        + ", ".join(
            f"{_count(supply[name], supply[name].available, number)} of "
            f"{_count(supply[name], frozenset(supply[name].numa), number)} {name} free"
            for name in resources
        )
        for number in numbers
    )


def _most_of(supply: Mapping[str, Devices], needs: tuple[ContainerNeed, ...]) -> dict[str, int]:
    most: dict[str, int] = {}
    for name in {name for need in needs for name in need.resources if name in supply}:
        devices = supply[name]
        numbers = {n for mask in devices.numa.values() for n in nodes_of(mask)}
        most[name] = max((_count(devices, devices.healthy, number) for number in numbers), default=0)
    return most


def _count(devices: Devices, ids: frozenset[str], number: int) -> int:
    return sum(1 for device_id in ids if devices.numa.get(device_id, 0) >> number & 1)


def _units(status: GpuStatus) -> Iterator[tuple[str, str, bool, GpuDevice]]:
    """(uuid, resource, healthy, device) of what is offered: MIG devices where there are any, else GPUs."""
    for device in status.devices:
        if device.parts:
            yield from ((p.uuid, p.resource, p.healthy, device) for p in device.parts if p.resource)
        elif device.resource:
            yield device.uuid, device.resource, device.healthy, device


def _devices_asked(container: Container) -> dict[str, int]:
    return {name: count for name, count in container.limits.items() if is_extended(name) and count > 0}


def _own_cpus(pod: Pod) -> int:
    """Whole CPUs that a static CPU manager would give to containers of a Guaranteed pod alone."""
    containers = (*pod.containers, *pod.init_containers)
    if not all(_guaranteed(container) for container in containers):
        return 0
    return sum(c.limits["cpu"] // 1000 for c in containers if c.limits["cpu"] % 1000 == 0)


def _guaranteed(container: Container) -> bool:
    return all(
        container.limits.get(name, 0) > 0 and container.requests.get(name) == container.limits[name]
        for name in ("cpu", "memory")
    )


def _unasked(pod: Pod, policies: KubeletPolicies) -> str:
    """The managers that have a say in it and whose NUMA nodes nobody reports."""
    if not all(_guaranteed(container) for container in (*pod.containers, *pod.init_containers)):
        return ""
    managers = []
    if _own_cpus(pod) and policies.cpu_manager != "none":
        managers.append(f"CPU manager (policy {policies.cpu_manager})")
    if policies.memory_manager != "None":
        managers.append(f"memory manager (policy {policies.memory_manager})")
    return " and ".join(managers)


def _because(policies: KubeletPolicies) -> str:
    return f" ({policies.reason})" if policies.reason else ""
