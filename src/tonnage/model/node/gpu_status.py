"""What a node's agent publishes beyond core objects (`NodeGPUStatus`), as the thinking rooms read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tonnage.model.devices.links import PciLevel
from tonnage.model.node.software import NodeSoftware
from tonnage.model.validation import NodeValidation

SILENT_AFTER: Final = timedelta(minutes=3)
"""An agent is silent after three heartbeats that did not come."""


@dataclass(frozen=True, slots=True)
class DeviceHolder:
    """A container that holds a device: the ids (or replica ids) that it got under a resource name."""

    namespace: str
    pod: str
    container: str
    resource: str
    ids: tuple[str, ...]

    @property
    def of_claim(self) -> bool:
        """Whether it has it by a claim: `resource` is the claim's namespace, which has no dot, and name.

        >>> DeviceHolder("ml", "p", "c", "ml/one", ()).of_claim
        True
        >>> DeviceHolder("ml", "p", "c", "nvidia.com/gpu", ()).of_claim
        False
        """
        return "." not in self.resource.partition("/")[0]


@dataclass(frozen=True, slots=True)
class DeviceLinks:
    """How a device reaches some others, all alike: those with the indices `peers`, or the board's NVSwitches.

    `nvlinks` are active NVLinks to each; `level` is None where the driver does not say.
    """

    peers: tuple[int, ...] = ()
    switches: bool = False
    nvlinks: int = 0
    level: PciLevel | None = None


@dataclass(frozen=True, slots=True)
class DevicePart:
    """A MIG device of a device; its holders stand with the device."""

    uuid: str
    profile: str = ""
    resource: str = ""
    healthy: bool = True
    reason: str = ""
    start: int | None = None
    """The memory slice at which it begins; None: not told."""
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One device as its node's agent reports it. `used_mib` None: not known; `replicas` 1: exclusive."""

    uuid: str
    product: str = ""
    index: int | None = None
    resource: str = ""
    replicas: int = 1
    memory_mib: int = 0
    used_mib: int | None = None
    healthy: bool = True
    reason: str = ""
    holders: tuple[DeviceHolder, ...] = ()
    compute_capability: str = ""
    pci_bus_id: str = ""
    numa_node: int | None = None
    links: tuple[DeviceLinks, ...] = ()
    parts: tuple[DevicePart, ...] = ()
    mig_enabled: bool = False
    fabric: str = ""
    """What Fabric Manager has made of its NVSwitches, in a word of `FABRIC_STATES`; empty without any."""

    @property
    def in_mig_mode(self) -> bool:
        """Whether its MIG devices are given out, and it is not."""
        return self.mig_enabled or bool(self.parts)


@dataclass(frozen=True, slots=True)
class ClaimReport:
    """What a node offers as claims (DRA). `why` no claim is served, and `unfit` why one of them has no
    device, by the device's name; `names` has it by uuid, `unmade` those that are made with a claim."""

    driver: str
    names: Mapping[str, str] = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    unmade: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of all."""
        return (*self.names.values(), *self.unmade)

    @property
    def fault(self) -> str:
        """Why no claim can have any of them; empty: one can, as far as it is known."""
        whys = dict.fromkeys(self.unfit.get(name, "") for name in self.devices)
        return self.why or ("; ".join(whys) if all(whys) else "")


@dataclass(frozen=True, slots=True)
class GpuStatus:
    """A node's devices and how they are offered."""

    node: str
    devices: tuple[GpuDevice, ...] = ()
    heartbeat: datetime | None = None
    """When the agent last looked, by the API server's clock; None where an older agent does not say."""
    problems: tuple[str, ...] = ()
    """What the agent complains about, a configuration that it refuses among them."""
    replicas: Mapping[str, int] = field(default_factory=dict)
    """Replicas of one device by resource name; 1 is exclusive."""
    offered: Mapping[str, int] = field(default_factory=dict)
    """What the agent offers by resource name, MIG devices and replicas each counted."""
    single_requests: frozenset[str] = frozenset()
    """Resources of which a container may ask one at most (`failRequestsGreaterThanOne`)."""
    mps: Mapping[str, str] = field(default_factory=dict)
    """Resources that are shared through MPS, and why their daemon does not serve; empty when it does."""
    software: NodeSoftware = field(default_factory=NodeSoftware)
    """Its kubelet and container runtime; unknown where an older agent does not say."""
    free: Mapping[str, int] = field(default_factory=dict)
    """Healthy devices that no container holds, by resource name."""
    validation: NodeValidation = field(default_factory=NodeValidation)
    """What the cluster controller found, in its own field."""
    config: str = ""
    """The device-plugin configuration that runs there, as the agent names it."""
    driver: str = ""
    """The driver's version."""
    cuda: str = ""
    """The newest CUDA that the driver runs."""
    claims: ClaimReport | None = None
    """What it offers as claims; None: nothing."""
    fabric_waits_since: datetime | None = None
    """Since when its agent has seen GPUs wait for Fabric Manager; None: none does, or it does not say."""
