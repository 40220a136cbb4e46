"""What an exporter's page shows: counters that were asked for, what was measured, and who holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

XID_COUNT: Final = "DCGM_EXP_XID_ERRORS_COUNT"
"""How many Xids a device reported within a window."""
CLOCK_COUNT: Final = "DCGM_EXP_CLOCK_EVENTS_COUNT"
"""In how many readings within a window a reason held a device's clocks down."""
PEER_STATUS: Final = "DCGM_EXP_P2P_STATUS"
"""Whether NVLink joins a GPU with another one."""

Reading = int | float | str
"""A whole number, a number with a fraction, or the text of a label."""


class CounterType(StrEnum):
    """The second column of dcgm-exporter's CSV. A LABEL's reading stands on the entity's other rows."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class ExportedCounter:
    """A line of that CSV (dcgm-exporter: Counter). `number` is DCGM's of the field, which orders the page."""

    name: str
    type: CounterType
    help: str
    number: int


@dataclass(frozen=True, slots=True)
class GpuEntity:
    """A GPU as the page names it. `device_name` is that of its node in `/dev`."""

    index: int
    uuid: str
    pci_bus_id: str
    model: str

    @property
    def device_name(self) -> str:
        """`nvidia0`."""
        return f"nvidia{self.index}"


@dataclass(frozen=True, slots=True)
class InstanceEntity:
    """A GPU instance (MIG) with the UUIDs of its compute instances."""

    gpu: GpuEntity
    gpu_instance: int
    profile: str
    uuids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkEntity:
    """A link of a GPU, by its number."""

    gpu: GpuEntity
    link: int


@dataclass(frozen=True, slots=True)
class SwitchEntity:
    """An NVSwitch, or one of its links."""

    switch: int
    link: int | None = None


Entity = GpuEntity | InstanceEntity | LinkEntity | SwitchEntity
DeviceEntity = GpuEntity | InstanceEntity


@dataclass(frozen=True, slots=True)
class HoldingContainer:
    """A container that kubelet gave a device, or one of its replicas (`replica` is that id's number)."""

    namespace: str
    pod: str
    container: str
    replica: str = ""


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """What the API server says of a pod, as far as rows carry it, and what tells its processes.

    `static_uid` is what kubelet calls a static pod. `containers` are names by the runtime's id. `claims` are
    names of ResourceClaims in the pod's namespace.
    """

    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    static_uid: str = ""
    containers: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What a process has of a device: memory in bytes, and % of its multiprocessors; None where not known."""

    pid: int
    memory_bytes: int | None = None
    utilization: int | None = None
