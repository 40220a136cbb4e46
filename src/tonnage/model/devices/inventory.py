"""Devices as their vendor states them, and what happens to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from tonnage.model.devices.device_nodes import DeviceNodes
from tonnage.model.devices.links import Link


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A part of a device that works as one; `profile` is the driver's name of its size, such as 1g.10gb.

    `index` is its place on the device, `placement` the first memory slice and their number (None: not told),
    `profile_number` the driver's own for its GPU instance's profile (None: not told).
    One on a device that is not healthy is not healthy either.
    """

    uuid: str
    index: int
    profile: str
    gpu_instance: int
    compute_instance: int
    memory_mib: int
    placement: tuple[int, int] | None = None
    multiprocessors: int = 0
    gpu_slices: int = 0
    compute_slices: int = 0
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    optical_flow_engines: int = 0
    healthy: bool = True
    reason: str = ""
    profile_number: int | None = None


@dataclass(frozen=True, slots=True)
class ProfileSize:
    """What a MIG device of a profile has by its driver, under the names of `MigDevice`."""

    memory_mib: int
    multiprocessors: int
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    optical_flow_engines: int = 0


FABRIC_COMPLETE: Final = "completed"
FABRIC_STATES: Final = ("not started", "in progress", FABRIC_COMPLETE, "failed")
"""States of the NVLink fabric of a board with NVSwitches: until it is complete no CUDA context is made."""


@dataclass(frozen=True, slots=True)
class Device:
    """One physical device. `product` is the driver's own name; `reason` says why it is not healthy.

    `mig_enabled` is None for a device that cannot be divided. `clique` is `<cluster's uuid>.<id>` of those
    that its NVLink fabric joins it with, once the fabric is complete. `fabric` is what Fabric Manager has
    made of it, in a word of `FABRIC_STATES`; empty without NVSwitches. `addressing_mode` is how it reaches
    the host's memory (`HMM`, `ATS`, `None`), where its driver tells; so `profile_sizes`, by the driver's
    number of each MIG profile that it offers.
    """

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
    mig_enabled: bool | None = None
    migs: tuple[MigDevice, ...] = ()
    clique: str = ""
    fabric: str = ""
    addressing_mode: str = ""
    profile_sizes: Mapping[int, ProfileSize] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a device says about its own state; None is what it does not tell.

    One that `hangs` owes an answer and says nothing else. `uncorrected_errors` counts ECC errors since the
    driver was loaded or the device was reset. A pending remapping (of rows; on old devices a retirement of
    pages) is done at the next reset. `recovery_action` is a `model.devices.health.RecoveryAction`, or
    a newer one. `nvlinks_up` counts active links, `nvlink_errors` their CRC, ECC and recovery errors.
    """

    uuid: str
    hangs: bool = False
    uncorrected_errors: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    recovery_action: int | None = None
    nvlinks_up: int | None = None
    nvlink_errors: int | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """Every device of a node in index order, uuids unique.

    `problems` are facts about the node as a whole or about devices too broken to be listed. `links` holds at
    most one Link for a source and a target; it may be empty, and say less than all. `vitals` are of devices
    that can be read, or hang. `incarnation` is another text after each boot of the node and each loading of
    the driver; empty when that cannot be told.
    """

    devices: tuple[Device, ...] = ()
    driver_version: str = ""
    cuda_version: str = ""
    problems: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    nodes: DeviceNodes = field(default_factory=DeviceNodes)
    vitals: tuple[Vitals, ...] = ()
    incarnation: str = ""


class ComputeMode(IntEnum):
    """Who may compute on a device. The values are NVML's.

    DEFAULT: any number of processes. EXCLUSIVE_PROCESS: one, such as an MPS server for its clients.
    """

    DEFAULT = 0
    EXCLUSIVE_PROCESS = 3


class TimeSlice(IntEnum):
    """How long a process computes on a device before the next one does. The values are nvidia-smi's."""

    DEFAULT = 0
    SHORT = 1
    MEDIUM = 2
    LONG = 3


class RawEventKind(StrEnum):
    """CHANGED: scan again. XID: the driver reported an error, `code` is its number."""

    CHANGED = "changed"
    XID = "xid"


@dataclass(frozen=True, slots=True)
class RawEvent:
    """What a backend saw happen; `uuid` is the physical device's, empty when it is not known.

    An error of one MIG device names its GPU instance, and the compute instance when it is that one's alone.
    """

    kind: RawEventKind
    uuid: str = ""
    code: int = 0
    gpu_instance: int | None = None
    compute_instance: int | None = None


MEMORY_IN_USE: Final = "memory_occupied_mib"
"""The field of `catalog.metrics` for memory that programs have or the driver keeps."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Readings of one device or MIG device by names of `catalog.metrics`; what it lacks is absent.

    `values` are whole but for fields that are `double`, `texts` are those of labels, `links` values of each
    NVLink that is up, by its number, `peers` the status of NVLink to each other GPU, by its uuid (NVML:
    nvmlGpuP2PStatus_t).
    """

    uuid: str
    values: Mapping[str, int | float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[int, Mapping[str, int | float]] = field(default_factory=dict)
    peers: Mapping[str, int] = field(default_factory=dict)

    def whole(self, name: str) -> int | None:
        """The reading without a fraction; None where there is none."""
        value = self.values.get(name)
        return None if value is None else int(value)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that computes on a device, by its number on the machine; memory as far as it is told.

    `uuid` is the GPU's, `gpu_instance` the part of it. `utilization` is the percentage of the multiprocessors
    that it had since the last question, by readings of which the last was at `sampled_us` (since 1970); None
    is not told. `through_mps`: it is a client of an MPS server, which is listed, too.
    """

    uuid: str
    pid: int
    memory_mib: int | None = None
    gpu_instance: int | None = None
    utilization: float | None = None
    sampled_us: int = 0
    through_mps: bool = False
