"""The fleet, one row for each node and device resource: what is there, what is offered, who has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.decide.kubernetes.view import NodeView, view_of
from tonnage.diagnose.explain.nodes.closed_nodes import GPUS_HEALTHY, utc
from tonnage.diagnose.explain.nodes.verdicts import holders
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Node, Snapshot
from tonnage.model.names import PRODUCT_LABEL
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


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One resource of one node. `advertised` is None when no agent says; `allocated` counts what pods ask."""

    node: str
    resource: str
    product: str
    mode: str
    advertised: int | None
    allocatable: int
    capacity: int
    allocated: int
    used_mib: int | None
    memory_mib: int
    troubles: tuple[str, ...] = ()
    cordoned: bool = False
    holders: tuple[tuple[str, int], ...] = ()
    devices: tuple[DeviceRow, ...] = ()
    replicas: int | None = 1
    """Of each device; None: it is shared, and nobody tells how often."""
    device_count: int | None = None
    """GPUs or MIG devices behind the capacity."""

    @property
    def in_order(self) -> bool:
        """Whether everything that is there is offered and healthy. To cordon a node is no trouble."""
        return not self.troubles

    @property
    def health(self) -> str:
        """`healthy`, or every trouble."""
        state = "; ".join(self.troubles) or "healthy"
        return f"{state} (cordoned)" if self.cordoned else state

    def to_json(self) -> JsonObject:
        """The row as `status -o json` prints it."""
        held: list[JsonValue] = [{"pod": pod, "amount": amount} for pod, amount in self.holders]
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
            "cordoned": self.cordoned,
            "holders": held,
            "devices": [_device_json(device) for device in self.devices],
        }


def fleet(snapshot: Snapshot) -> tuple[FleetRow, ...]:
    """Rows by node and resource name. A node that offers no device, and has none, has no row."""
    view = view_of(snapshot)
    return tuple(
        _row(node, resource, snapshot.gpu.get(node.name))
        for node in view.nodes.values()
        for resource in _resources(node, snapshot.gpu.get(node.name))
    )


def _resources(view: NodeView, status: GpuStatus | None) -> list[str]:
    node = view.node
    names = {name for name in (*node.capacity, *node.allocatable) if is_extended(name)}
    names |= (
        {device.resource for device in status.devices if device.resource} if status is not None else set()
    )
    resources = sorted(
        name
        for name in names
        if (node.capacity.get(name, 0) or node.allocatable.get(name, 0))
        and (view.requested.get(name, 0) or not _is_former(node, name, status))
    )
    if not resources and status is not None and status.devices:
        return sorted(names) or [""]
    return resources


def _is_former(node: Node, resource: str, status: GpuStatus | None) -> bool:
    """Whether the node's devices go by another name now; kubelet lists the old one for some minutes more."""
    names = {device.resource for device in status.devices} if status is not None else set()
    return not node.allocatable.get(resource, 0) and bool(names) and not names & {resource, ""}


def _row(view: NodeView, resource: str, status: GpuStatus | None) -> FleetRow:
    node = view.node
    devices = [d for d in status.devices if d.resource in (resource, "")] if status is not None else []
    used = [d.used_mib for d in devices]
    count = device_count(node, resource, status)
    return FleetRow(
        node=node.name,
        resource=resource,
        product=node.labels.get(PRODUCT_LABEL, "")
        or ", ".join(sorted({d.product for d in devices if d.product})),
        mode="mps" if status is not None and resource in status.mps else _mode(node, count),
        advertised=_advertised(resource, devices, status),
        allocatable=node.allocatable.get(resource, 0),
        capacity=node.capacity.get(resource, 0),
        allocated=view.requested.get(resource, 0),
        used_mib=sum(u for u in used if u is not None) if used and None not in used else None,
        memory_mib=sum(d.memory_mib for d in devices),
        troubles=tuple(_troubles(node, resource, devices, status)),
        cordoned=node.unschedulable,
        holders=holders(view, resource),
        devices=tuple(_device_row(d) for d in devices),
        replicas=count.replicas,
        device_count=count.devices,
    )


def _advertised(resource: str, devices: list[GpuDevice], status: GpuStatus | None) -> int | None:
    """What the agent offers to kubelet; of an older agent, what its devices come to."""
    if status is not None and resource in status.offered:
        return status.offered[resource]
    return sum(d.replicas for d in devices) if devices else None


def _mode(node: Node, count: DeviceCount) -> str:
    """`exclusive`, `time-sliced`, `mps` or `mig`: by the agent, else by labels, else by the name."""
    if "/mig-" in count.resource:
        return "mig"
    if not count.shared:
        return "exclusive"
    return "mps" if node.labels.get(_STRATEGY, "") == "mps" else "time-sliced"


def _which(node: Node, ill: list[GpuDevice]) -> str:
    """KUB-2: which devices, by index, and since when the agent calls the node's devices unhealthy."""
    numbers = [str(device.index) for device in ill if device.index is not None]
    parts = [f"GPU {', '.join(numbers)}"] if numbers else []
    since = next(
        (
            condition.since
            for condition in node.problem_conditions
            if condition.type == GPUS_HEALTHY and condition.since
        ),
        None,
    )
    parts += [f"since {utc(since)}"] if since is not None else []
    return f" ({'; '.join(parts)})" if parts else ""


def _troubles(node: Node, resource: str, devices: list[GpuDevice], status: GpuStatus | None) -> Iterator[str]:
    ill = [device for device in devices if not device.healthy]
    missing = node.capacity.get(resource, 0) - node.allocatable.get(resource, 0)
    if ill:
        why = "; ".join(sorted({device.reason for device in ill if device.reason}))
        yield f"{len(ill)} of {len(devices)} unhealthy{f': {why}' if why else ''}{_which(node, ill)}"
    elif missing > 0 and _is_former(node, resource, status):
        yield "offered under another name now, still held under this one"
    elif missing > 0:
        yield f"{missing} of {node.capacity[resource]} not allocatable"
    elif not resource or (devices and not node.allocatable.get(resource, 0)):
        yield "not advertised"
    if status is not None and (why := status.mps.get(resource, "")):
        yield f"MPS daemon does not serve: {why}"
    if node.ready is False:
        yield "node not ready"
    for problem in status.problems if status is not None else ():
        yield problem.splitlines()[0]


def _device_row(device: GpuDevice) -> DeviceRow:
    return DeviceRow(
        device.uuid,
        device.index,
        device.product,
        device.healthy,
        device.reason,
        device.memory_mib,
        device.used_mib,
        tuple(f"{h.namespace}/{h.pod}" for h in device.holders),
    )


def _device_json(device: DeviceRow) -> JsonObject:
    return {
        "uuid": device.uuid,
        "index": device.index,
        "product": device.product,
        "health": "healthy" if device.healthy else "unhealthy",
        "reason": device.reason,
        "memory_mib": device.memory_mib,
        "used_mib": device.used_mib,
        "holders": [*device.holders],
    }
