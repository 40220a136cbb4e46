"""The fleet, one row for each node and device resource: what is there, what is offered, who has it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.decide.kubernetes.view import NodeView, view_of
from tonnage.diagnose.agent_silence import UNKNOWN_AGE, ReportAge, moment_of, report_age
from tonnage.diagnose.explain.nodes.verdicts import holders
from tonnage.diagnose.fleet.claim_pools import ClaimPool, claim_pools
from tonnage.diagnose.fleet.label_claims import divided, product_of
from tonnage.diagnose.fleet.troubles import (
    Trouble,
    claim_troubles,
    device_word,
    is_former,
    label_troubles,
    troubles_of,
)
from tonnage.diagnose.unseen_kinds import unseen_kinds
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Node, Snapshot
from tonnage.model.names import GPU, PRODUCT_LABEL
from tonnage.model.node.device_counts import DeviceCount, device_count
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus

_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device behind a resource, where the node's agent says. `used_mib` is None when not known."""

    uuid: str
    index: int | None
    product: str
    healthy: bool
    reason: str
    memory_mib: int
    used_mib: int | None
    holders: tuple[str, ...]
    claim_name: str = ""
    """Under which claims know it; empty: it is not offered as claims."""

    @property
    def state(self) -> str:
        """One word for its health."""
        return "healthy" if self.healthy else device_word(self.reason)


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One resource of one node. An amount is None where it is not known.

    `advertised` is what the agent offers; `allocated` counts what pods ask, `holders` names them.
    """

    node: str
    resource: str
    product: str
    mode: str
    advertised: int | None
    allocatable: int | None
    capacity: int | None
    allocated: int | None
    used_mib: int | None
    memory_mib: int
    troubles: tuple[Trouble, ...] = ()
    cordoned: bool = False
    holders: tuple[tuple[str, int], ...] | None = ()
    devices: tuple[DeviceRow, ...] = ()
    replicas: int | None = 1
    """Of each device; None: it is shared, and nobody tells how often."""
    device_count: int | None = None
    """GPUs or MIG devices behind the capacity."""
    agent: ReportAge = UNKNOWN_AGE
    limit: str = ""
    """What the number of free devices does not say."""
    held_tainted: int = 0
    """Allocated devices that are not allocatable to others any more."""

    @property
    def in_order(self) -> bool:
        """Whether everything that is there is offered and healthy. To cordon a node is no trouble."""
        return not self.troubles

    @property
    def health(self) -> str:
        """`healthy`, or every trouble with its reason; `-` where nothing of the node was seen."""
        return self._with_cordon("; ".join(trouble.text for trouble in self.troubles))

    @property
    def state(self) -> str:
        """`healthy`, or a word for every trouble."""
        return self._with_cordon(", ".join(dict.fromkeys(trouble.word for trouble in self.troubles)))

    def _with_cordon(self, troubles: str) -> str:
        state = troubles or ("-" if self.allocatable is None and not self.devices else "healthy")
        return f"{state} (cordoned)" if self.cordoned else state

    def held_in(self, namespace: str) -> FleetRow:
        """The row with what pods of one namespace hold."""
        own = [pair for pair in self.holders or () if pair[0].startswith(f"{namespace}/")]
        if self.holders is None:
            return self
        return replace(self, holders=tuple(own), allocated=sum(amount for _, amount in own))

    def to_json(self) -> JsonObject:
        """The row as `status -o json` prints it."""
        held: list[JsonValue] = [{"pod": pod, "amount": amount} for pod, amount in self.holders or ()]
        return {
            "node": self.node,
            "resource": self.resource,
            "product": self.product,
            "mode": self.mode,
            "replicas": self.replicas,
            "device_count": self.device_count,
            "advertised": self.advertised,
            "allocatable": self.allocatable,
            "capacity": self.capacity,
            "allocated": self.allocated,
            "used_mib": self.used_mib,
            "memory_mib": self.memory_mib,
            "health": self.health,
            "troubles": [trouble.to_json() for trouble in self.troubles],
            "cordoned": self.cordoned,
            "agent": self.agent.to_json(),
            "holders": held if self.holders is not None else None,
            "devices": [_device_json(device) for device in self.devices],
        }


def fleet(snapshot: Snapshot) -> tuple[FleetRow, ...]:
    """Rows by node and resource name. A node that offers no device, and has none, has no row."""
    unseen, now = unseen_kinds(snapshot), moment_of(snapshot)
    view = view_of(_with_named_nodes(snapshot) if "Node" in unseen else snapshot)
    pools = claim_pools(snapshot)
    return tuple(
        row
        for node in view.nodes.values()
        for row in _rows(node, snapshot, pools.get(node.node.name, ()), unseen, now)
    )


def _rows(
    node: NodeView,
    snapshot: Snapshot,
    pools: Sequence[ClaimPool],
    unseen: Collection[str],
    now: datetime | None,
) -> Iterator[FleetRow]:
    """The rows of a node: its extended resources, and what it offers as claims."""
    status = snapshot.gpu.get(node.node.name)
    agent = report_age(status, now)
    claimed = frozenset(uuid for pool in pools for uuid in (*pool.names, *pool.parents))
    plugin = status and replace(status, devices=tuple(d for d in status.devices if d.uuid not in claimed))
    labels = tuple(label_troubles(node.node, status))
    for resource in _resources(node, plugin, node_seen="Node" not in unseen, claims=bool(pools)):
        yield _row(node, resource, plugin, agent, unseen, labels)
    yield from (_claim_row(node.node, pool, status, agent, labels) for pool in pools)


def _with_named_nodes(snapshot: Snapshot) -> Snapshot:
    """Nodes of which nothing is known but what pods and reports say."""
    names = {pod.node_name for pod in snapshot.pods if pod.node_name} | snapshot.gpu.keys()
    return replace(snapshot, nodes=tuple(Node(name) for name in sorted(names)))


def _resources(
    view: NodeView, status: GpuStatus | None, *, node_seen: bool, claims: bool = False
) -> list[str]:
    node = view.node
    names = {name for name in (*node.capacity, *node.allocatable) if is_extended(name)}
    names |= (
        {device.resource for device in status.devices if device.resource} if status is not None else set()
    )
    if not node_seen:  # pods alone say what it has
        names |= {name for name, amount in view.requested.items() if amount and is_extended(name)}
    resources = sorted(
        name
        for name in names
        if (node.capacity.get(name, 0) or node.allocatable.get(name, 0) or not node_seen)
        and (view.requested.get(name, 0) or not is_former(node, name, status))
        and (view.requested.get(name, 0) or not (claims and _is_ended(node, name, status)))
    )
    if not resources and status is not None and status.devices:
        return sorted(names) or [""]
    return resources


def _is_ended(node: Node, resource: str, status: GpuStatus | None) -> bool:
    """Whether the node's devices are offered as claims now; kubelet lists the resource for some minutes."""
    return not node.allocatable.get(resource, 0) and status is not None and not status.devices


def _claim_row(
    node: Node, pool: ClaimPool, status: GpuStatus | None, agent: ReportAge, labels: tuple[Trouble, ...]
) -> FleetRow:
    """What a driver offers as claims on a node: a device is allocatable unless a taint keeps claims off."""
    of_node = status.devices if status is not None else ()
    devices = [device for device in of_node if device.uuid in pool.names or device.uuid in pool.parents]
    used = [device.used_mib for device in devices]
    return FleetRow(
        node=node.name,
        resource=pool.resource,
        product=product_of(node, devices if node.labels.get(PRODUCT_LABEL) is None else of_node),
        mode="claims",
        advertised=len(pool.devices) if pool.published else 0,
        allocatable=pool.usable,
        capacity=pool.count,
        allocated=pool.allocated,
        used_mib=sum(u for u in used if u is not None) if used and None not in used else None,
        memory_mib=sum(device.memory_mib for device in devices),
        troubles=(*claim_troubles(node, pool, devices, status, agent), *labels),
        cordoned=node.unschedulable,
        holders=pool.holders,
        devices=tuple(_device_row(device, pool.names.get(device.uuid, "")) for device in devices),
        device_count=pool.count,
        agent=agent,
        limit=pool.limit,
        held_tainted=pool.held_tainted,
    )


def _row(
    view: NodeView,
    resource: str,
    status: GpuStatus | None,
    agent: ReportAge,
    unseen: Collection[str],
    labels: tuple[Trouble, ...],
) -> FleetRow:
    node, of_node = view.node, status.devices if status is not None else ()
    devices = [d for d in of_node if d.resource in (resource, "")]
    used = [d.used_mib for d in devices]
    nodes_seen, pods_seen = "Node" not in unseen, "Pod" not in unseen
    troubles = (*troubles_of(node, resource, devices, status, agent), *labels)
    count = device_count(node, resource, status)
    is_seen = nodes_seen or status is not None
    return FleetRow(
        node=node.name,
        resource=resource,
        product=product_of(node, devices if node.labels.get(PRODUCT_LABEL) is None else of_node),
        mode="mps" if status is not None and resource in status.mps else _mode(node, count, is_seen=is_seen),
        advertised=_advertised(resource, devices, status),
        allocatable=node.allocatable.get(resource, 0) if nodes_seen else None,
        capacity=node.capacity.get(resource, 0) if nodes_seen else None,
        allocated=view.requested.get(resource, 0) if pods_seen else None,
        used_mib=sum(u for u in used if u is not None) if used and None not in used else None,
        memory_mib=sum(d.memory_mib for d in devices),
        troubles=tuple(t for t in troubles if nodes_seen or t.word != "not advertised"),
        cordoned=node.unschedulable,
        holders=holders(view, resource) if pods_seen else None,
        devices=tuple(_device_row(d) for d in devices),
        replicas=count.replicas if is_seen else None,
        device_count=count.devices,
        agent=agent,
    )


def _advertised(resource: str, devices: list[GpuDevice], status: GpuStatus | None) -> int | None:
    """What the agent offers to kubelet; of an older agent, what its devices come to."""
    if status is not None and resource in status.offered:
        return status.offered[resource]
    return sum(d.replicas for d in devices) if devices else None


def _mode(node: Node, count: DeviceCount, *, is_seen: bool) -> str:
    """`exclusive`, `time-sliced`, `mps` or `mig`: by the agent, else by labels, else by the name; `-` where
    only pods are seen, whose resource does not tell.
    """
    if "/mig-" in count.resource:
        return "mig"
    if not count.shared and count.resource == GPU and divided(node):
        return "mig"
    if not count.shared:
        return "exclusive" if is_seen else "-"
    return "mps" if node.labels.get(_STRATEGY, "") == "mps" else "time-sliced"


def _device_row(device: GpuDevice, claim_name: str = "") -> DeviceRow:
    return DeviceRow(
        device.uuid,
        device.index,
        device.product,
        device.healthy,
        device.reason,
        device.memory_mib,
        device.used_mib,
        tuple(f"{h.namespace}/{h.pod}" for h in device.holders),
        claim_name,
    )


def _device_json(device: DeviceRow) -> JsonObject:
    return {
        "uuid": device.uuid,
        "index": device.index,
        "product": device.product,
        "health": "healthy" if device.healthy else "unhealthy",
        "state": device.state,
        "reason": device.reason,
        "memory_mib": device.memory_mib,
        "used_mib": device.used_mib,
        "holders": [*device.holders],
        **({"claim_name": device.claim_name} if device.claim_name else {}),
    }
