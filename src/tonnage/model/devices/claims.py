"""Devices as a driver for ResourceClaims (DRA) publishes and prepares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tonnage.model.devices.inventory import TimeSlice
from tonnage.model.devices.mps import MpsDaemon

DRIVER: Final = "gpu.nvidia.com"
"""The name of NVIDIA's driver, whose classes, attributes and configurations manifests are written for."""
CDI_CLAIM_KIND: Final = f"k8s.{DRIVER}/claim"


class ClaimRef(NamedTuple):
    """A claim as kubelet names it."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device under the name that claims know, with what its slice says of it: attributes by their kind.

    `unfit` says why it is not published: then no claim can get it.
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


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device that a claim has on this node. `request` is the claim's, without an alternative's name.

    `admin`: with access as an administrator, beside whoever holds it.
    """

    request: str
    pool: str
    device: str
    uuid: str
    admin: bool = False


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
