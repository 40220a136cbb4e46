"""What containers use of devices: the words of the exporter's `tonnage_pod_gpu_*`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Certainty(StrEnum):
    """How a container's part of a device is known (label `attribution`).

    EXACT: it alone has the device. PROCESS: by what its processes use. EVEN: the device's, divided.
    """

    EXACT = "exact"
    PROCESS = "process"
    EVEN = "even"


class UsageCounter(StrEnum):
    """What is counted up, in whole GPUs: a MIG device counts as its part of the GPU.

    SECONDS: how long a container has had a device, or its share of one. COMPUTE: how long it computed.
    """

    SECONDS = "seconds"
    COMPUTE = "compute_seconds"
    ENERGY = "energy_joules"


@dataclass(frozen=True, slots=True, order=True)
class DeviceUser:
    """A container and a device that it has, by GPU and, of MIG devices, GPU instance and profile.

    `resource` is that of the device plugin, `claim` the ResourceClaim by `namespace/name`: one of them.
    """

    namespace: str
    pod: str
    container: str
    uuid: str
    gpu_instance: str = ""
    profile: str = ""
    resource: str = ""
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number, and how it is known."""

    value: float
    certainty: Certainty


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What a container used of a device since the reading before; None is what nobody knows.

    `seconds`, `compute` and `energy` are for counters. `ratio` is the part of the device's time in which it
    computed (0 to 1), `memory` its bytes now.
    """

    user: DeviceUser
    seconds: Amount | None = None
    compute: Amount | None = None
    energy: Amount | None = None
    ratio: Amount | None = None
    memory: Amount | None = None
