"""Devices as a driver for ResourceClaims (DRA) publishes and prepares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tonnage.model.devices.inventory import TimeSlice
from tonnage.model.devices.mps import MpsDaemon

DRIVER: Final = "gpu.nvidia.com"
"""The name of NVIDIA's driver, whose classes, attributes and configurations manifests are written for."""
UNHEALTHY: Final = "tonnage.dev/unhealthy"
"""The key of the taint with which the agent publishes a device that is not healthy, until it is."""
OWN_CLASSES: Final = ("gpu.nvidia.com", "mig.nvidia.com")
"""Classes that the driver's chart makes."""
OTHER_CLASSES: Final[Mapping[str, str]] = {
    "vfio.gpu.nvidia.com": "Tonnage does not hand GPUs over to virtual machines",
    "imex.nvidia.com": "Tonnage does not serve compute domains",
    "compute-domain-daemon.nvidia.com": "Tonnage does not serve compute domains",
    "compute-domain-default-channel.nvidia.com": "Tonnage does not serve compute domains",
}
"""Classes of NVIDIA's charts whose devices Tonnage does not publish, and why."""
CDI_CLAIM_KIND: Final = f"k8s.{DRIVER}/claim"


class ClaimRef(NamedTuple):
    """A claim as kubelet names it."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Partition(NamedTuple):
    """A MIG device as it is made for a claim: of which GPU, of which profile, from which memory slice on."""

    gpu: str
    profile: str
    start: int
    size: int

    def overlaps(self, other: Partition) -> bool:
        """Whether no GPU has both.

        >>> Partition("GPU-a", "1g", 0, 1).overlaps(Partition("GPU-a", "2g", 0, 2))
        True
        """
        apart = self.start + self.size <= other.start or other.start + other.size <= self.start
        return self.gpu == other.gpu and not apart


class HealthReport(NamedTuple):
    """How a device is; `message` says why it is not healthy."""

    pool: str
    device: str
    healthy: bool
    message: str = ""


class ShareRule(NamedTuple):
    """How much of a capacity a claim has that asks for none, and what it may ask: `least`, or steps above."""

    default: str
    least: str
    step: str


class ClaimCounters(NamedTuple):
    """What the devices of a GPU share (a counter set): its amounts by name."""

    name: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device under the name that claims know, with what its slice says of it: attributes by their kind.

    `unfit` says why it is not published: then no claim can get it. `consumes` is what it takes of `counters`.
    One with a `partition` is made when a claim gets it, and has no uuid. One with `shares` is given to
    several claims at once, each with a part of these capacities.
    """

    name: str
    uuid: str
    texts: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    healthy: bool = True
    reason: str = ""
    unfit: str = ""
    counters: ClaimCounters | None = None
    consumes: Mapping[str, str] = field(default_factory=dict)
    partition: Partition | None = None
    shares: Mapping[str, ShareRule] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device that a claim has on this node. `request` is the claim's, without an alternative's name.

    `admin`: with access as an administrator, beside whoever holds it. One with a `partition` is made for the
    claim, and has no uuid before that. `share`: the claim has a part of it, of this ID.
    """

    request: str
    pool: str
    device: str
    uuid: str
    admin: bool = False
    partition: Partition | None = None
    share: str = ""


@dataclass(frozen=True, slots=True)
class SlicedDevice:
    """A GPU whose processes take turns of that length, while a claim has it."""

    uuid: str
    interval: TimeSlice


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A claim that was prepared, or is being: noted before anything is done for it.

    `consumers` are (uid, name) of the pods that had reserved it then. `boot` is the machine's boot in which
    it was prepared: neither its CDI spec nor a container outlives that. `slices` are GPUs whose time slice
    the claim set, `daemons` its MPS control daemons: both end with it.
    """

    claim: ClaimRef
    devices: tuple[PreparedDevice, ...] = ()
    consumers: tuple[tuple[str, str], ...] = ()
    boot: str = ""
    slices: tuple[SlicedDevice, ...] = ()
    daemons: tuple[MpsDaemon, ...] = ()
