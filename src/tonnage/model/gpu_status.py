"""What a node's agent publishes beyond core objects, as the thinking rooms read it (`NodeGPUStatus`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceHolder:
    """A container that holds devices: their ids (or replica ids) under a resource name."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One device as the node's agent reports it. `memory_mib` 0 and `used_mib` None when unknown."""

    id: str
    product: str = ""
    index: int | None = None
    resource: str = ""
    memory_mib: int = 0
    used_mib: int | None = None
    utilisation: int | None = None
    health: str = ""
    health_reason: str = ""


@dataclass(frozen=True, slots=True)
class GpuStatus:
    """What a node's agent publishes beyond core objects (`NodeGPUStatus`)."""

    node: str
    mode: str = ""
    """`exclusive`, `time-sliced`, … as the agent says."""
    devices: tuple[GpuDevice, ...] = ()
    holders: tuple[DeviceHolder, ...] = ()
    problems: tuple[str, ...] = ()
    """What the agent complains about, such as a configuration that it refuses."""
    replicas: Mapping[str, int] = field(default_factory=dict)
    """Replicas of one device by resource name, where it is shared."""
    single_requests: frozenset[str] = frozenset()
    """Resources of which a container may ask one at most (`failRequestsGreaterThanOne`)."""
