"""The fleet, one row for each node and device resource: what is there, what is offered, who has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tonnage.decide.cluster.requests import is_extended
from tonnage.decide.cluster.view import NodeView, view_of
from tonnage.diagnose.nodes import holders
from tonnage.diagnose.rules.product_undecided import PRODUCT
from tonnage.model.cluster import Node, Snapshot
from tonnage.model.gpu_status import GpuDevice, GpuStatus
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.names import SHARED_SUFFIX

_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
_MODES: Final = {"time-slicing": "time-sliced", "mps": "mps", "none": "exclusive"}


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
    health: str
    holders: tuple[tuple[str, int], ...] = ()
    devices: tuple[DeviceRow, ...] = ()

    @property
    def in_order(self) -> bool:
        """Whether everything that is there is offered and healthy."""
        return self.allocatable == self.capacity and all(device.healthy for device in self.devices)

    def to_json(self) -> JsonObject:
        """The row as `status -o json` prints it."""
        held: list[JsonValue] = [{"pod": pod, "amount": amount} for pod, amount in self.holders]
        return {
            "node": self.node,
            "resource": self.resource,
            "product": self.product,
            "mode": self.mode,
            "advertised": self.advertised,
            "allocatable": self.allocatable,
            "capacity": self.capacity,
            "allocated": self.allocated,
            "used_mib": self.used_mib,
            "memory_mib": self.memory_mib,
            "health": self.health,
            "holders": held,
            "devices": [_device_json(device) for device in self.devices],
        }


def fleet(snapshot: Snapshot) -> tuple[FleetRow, ...]:
    """Rows by node and resource name. A node that offers no device, and has none, has no row."""
    view = view_of(snapshot)
    return tuple(
        _row(node, resource, snapshot.gpu.get(node.name))
        for node in view.nodes.values()
        for resource in _resources(node.node, snapshot.gpu.get(node.name))
    )


def _resources(node: Node, status: GpuStatus | None) -> list[str]:
    names = {name for name in (*node.capacity, *node.allocatable) if is_extended(name)}
    names |= (
        {device.resource for device in status.devices if device.resource} if status is not None else set()
    )
    kept = sorted(n for n in names if node.capacity.get(n, 0) or node.allocatable.get(n, 0))
    if not kept and status is not None and status.devices:
        return sorted(names) or [""]
    return kept


def _row(view: NodeView, resource: str, status: GpuStatus | None) -> FleetRow:
    node = view.node
    devices = [d for d in status.devices if d.resource in (resource, "")] if status is not None else []
    used = [d.used_mib for d in devices]
    return FleetRow(
        node=node.name,
        resource=resource,
        product=node.labels.get(PRODUCT, "") or ", ".join(sorted({d.product for d in devices if d.product})),
        mode=_mode(node, resource, devices),
        advertised=sum(d.replicas for d in devices) if devices else None,
        allocatable=node.allocatable.get(resource, 0),
        capacity=node.capacity.get(resource, 0),
        allocated=view.requested.get(resource, 0),
        used_mib=sum(u for u in used if u is not None) if used and None not in used else None,
        memory_mib=sum(d.memory_mib for d in devices),
        health=_health(node, resource, devices),
        holders=holders(view, resource),
        devices=tuple(_device_row(d) for d in devices),
    )


def _mode(node: Node, resource: str, devices: Iterable[GpuDevice]) -> str:
    """`exclusive`, `time-sliced`, `mps` or `mig`: by the agent, else by label, else by the name."""
    if "/mig-" in resource:
        return "mig"
    replicas = {device.replicas for device in devices}
    label = _MODES.get(node.labels.get(_STRATEGY, ""))
    if replicas:
        return ("mps" if label == "mps" else "time-sliced") if max(replicas) > 1 else "exclusive"
    return label or ("time-sliced" if resource.endswith(SHARED_SUFFIX) else "exclusive")


def _health(node: Node, resource: str, devices: list[GpuDevice]) -> str:
    ill = [device for device in devices if not device.healthy]
    if ill:
        why = "; ".join(sorted({device.reason for device in ill if device.reason}))
        return f"{len(ill)} of {len(devices)} unhealthy{f': {why}' if why else ''}"
    missing = node.capacity.get(resource, 0) - node.allocatable.get(resource, 0)
    if missing > 0:
        return f"{missing} of {node.capacity[resource]} not allocatable"
    if not resource or (devices and not node.allocatable.get(resource, 0)):
        return "not advertised"
    return "healthy" if node.ready is not False else "node not ready"


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
