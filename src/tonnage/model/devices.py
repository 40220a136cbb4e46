"""Devices as their vendor states them, and what happens to them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Device:
    """One physical device. `product` is the driver's own name; `reason` says why it is not healthy."""

    uuid: str
    index: int
    product: str
    memory_mib: int
    compute_capability: str = ""
    pci_bus_id: str = ""
    minor: int | None = None
    numa_node: int | None = None
    healthy: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Every device of a node in index order, uuids unique.

    `problems` are facts about the node as a whole or about devices too broken to be listed.
    """

    devices: tuple[Device, ...] = ()
    driver_version: str = ""
    cuda_version: str = ""
    problems: tuple[str, ...] = ()


class RawEventKind(StrEnum):
    """CHANGED: scan again. XID: the driver reported an error, `code` is its number."""

    CHANGED = "changed"
    XID = "xid"


@dataclass(frozen=True, slots=True)
class RawEvent:
    """What a backend saw happen; `uuid` is empty when it concerns the node."""

    kind: RawEventKind
    uuid: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """Readings of one device; None is a reading that the device does not give."""

    uuid: str
    memory_used_mib: int | None = None
    utilization_percent: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
