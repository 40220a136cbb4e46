"""How a node's devices are offered, who holds them, and what a container gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tonnage.model.devices.health import HealthPolicy
from tonnage.model.names import ResourceName
from tonnage.model.node.plugin_settings import (
    CdiSettings,
    ExtraDevice,
    FeatureSettings,
    ImexSettings,
    MigStrategy,
    NamePattern,
    SharingKind,
)
from tonnage.model.reasons.reason import Reason

ALL: Final = "all"
"""Selects every GPU for claims."""


class DeviceListStrategy(StrEnum):
    """How a container is told its devices; strategies may be combined.

    AUTO: alone, and only until it is settled what it comes to on the node. Nothing is answered by it.
    """

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_ANNOTATIONS = "cdi-annotations"
    CDI_CRI = "cdi-cri"
    AUTO = "auto"


class DeviceIdStrategy(StrEnum):
    """Whether a container is told uuids or indices."""

    UUID = "uuid"
    INDEX = "index"


class SharedPolicy(StrEnum):
    """Preferred replicas: DISTRIBUTED of the device with the fewest taken, PACKED with the most.

    SPREAD: two of one device for a container only when no other device has one free, then the fewest taken.
    SPREAD_STRICT: never two of one device; the request is refused instead.
    """

    DISTRIBUTED = "distributed"
    PACKED = "packed"
    SPREAD = "spread"
    SPREAD_STRICT = "spread-strict"


@dataclass(frozen=True, slots=True)
class SharedResource:
    """Replace devices of `name` by `replicas` each, offered as `offered_as`.

    `devices` selects: None all; an int the first that many; a tuple of indices (`0`, of a MIG device `0:1`)
    and uuids, as text.
    """

    name: ResourceName
    offered_as: ResourceName
    replicas: int
    devices: int | tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """What the device-plugin configuration decides; the default is every device exclusive.

    `gpu_names` and `mig_names` name devices, the first that fits; those that none fits keep NVIDIA's name.
    `driver_root` is the driver's root folder on the host, `dev_root` the one whose `/dev` has its nodes.
    `fail_on_init_error`: an agent that cannot read its devices at start ends.
    `claimed` selects the GPUs that are offered as claims and under no resource: indices and uuids, or `ALL`;
    `partitioned`: with MIG devices that are made for claims. `claim_shares`: several claims may have parts
    of a GPU, so many, or as many as its memory is asked for (`memory`) or as there are (`unlimited`).
    `remarks` are things that were overlooked because the reader was told to be lenient.
    """

    shared: tuple[SharedResource, ...] = ()
    fail_requests_greater_than_one: bool = False
    device_list: tuple[DeviceListStrategy, ...] = (DeviceListStrategy.ENVVAR,)
    device_id: DeviceIdStrategy = DeviceIdStrategy.UUID
    shared_policy: SharedPolicy = SharedPolicy.DISTRIBUTED
    sharing_kind: SharingKind = SharingKind.TIME_SLICING
    mig_strategy: MigStrategy = MigStrategy.NONE
    gpu_names: tuple[NamePattern, ...] = ()
    mig_names: tuple[NamePattern, ...] = ()
    pass_device_specs: bool = False
    driver_root: str = "/"
    dev_root: str = "/"
    extras: tuple[ExtraDevice, ...] = ()
    cdi: CdiSettings = field(default_factory=CdiSettings)
    imex: ImexSettings = field(default_factory=ImexSettings)
    mps_root: str = ""
    features: FeatureSettings = field(default_factory=FeatureSettings)
    health: HealthPolicy = field(default_factory=HealthPolicy)
    fail_on_init_error: bool = False
    claimed: tuple[str, ...] = ()
    partitioned: bool = False
    claim_shares: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSlot:
    """One thing that a container can be given: a device, or a replica of it, under its id.

    `part_of` is the uuid of the physical device, when `uuid` is a part of it (MIG).
    """

    id: str
    uuid: str
    healthy: bool = True
    reason: str = ""
    numa_node: int | None = None
    part_of: str = ""


@dataclass(frozen=True, slots=True)
class PlannedResource:
    """A resource and its slots in device order. `replicas` is 1 for exclusive devices.

    `distinct`: a container never gets two replicas of one device.
    """

    name: ResourceName
    slots: tuple[DeviceSlot, ...]
    replicas: int = 1
    single_request: bool = False
    distinct: bool = False
    by_id: Mapping[str, DeviceSlot] = field(init=False, repr=False, compare=False)
    first_slots: tuple[DeviceSlot, ...] = field(init=False, repr=False, compare=False)
    """The first slot of each device."""

    def __post_init__(self) -> None:
        first = {slot.uuid: slot for slot in reversed(self.slots)}
        object.__setattr__(self, "by_id", {slot.id: slot for slot in self.slots})
        object.__setattr__(self, "first_slots", tuple(reversed(first.values())))

    @property
    def shared(self) -> bool:
        """Whether several containers may get the same device."""
        return self.replicas > 1


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device node on the host, and where a container has it."""

    host_path: str
    container_path: str


@dataclass(frozen=True, slots=True)
class Access:
    """How containers get at a node's devices.

    `index_of` has every device's index as it is asked for (`3`, of a MIG device `3:1`), `nodes_of` its nodes,
    both by uuid. `common` nodes are for every container, and so are `channels`: IMEX channels that are there.
    """

    index_of: Mapping[str, str] = field(default_factory=dict)
    nodes_of: Mapping[str, tuple[DeviceSpec, ...]] = field(default_factory=dict)
    common: tuple[DeviceSpec, ...] = ()
    channels: Mapping[int, DeviceSpec] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """How a node's devices are offered under a configuration; every device is in one resource at most.

    `refusals`: devices that are in none, and what else cannot be as it is configured. `whole_of` is the
    physical device of every MIG device, by uuid, whether it is offered or not.
    """

    resources: tuple[PlannedResource, ...] = ()
    refusals: tuple[Reason, ...] = ()
    whole_of: Mapping[str, str] = field(default_factory=dict)
    access: Access = field(default_factory=Access)

    def resource(self, name: str) -> PlannedResource | None:
        """The resource of that name, or None."""
        return next((resource for resource in self.resources if resource.name == name), None)


@dataclass(frozen=True, slots=True)
class Advertisement:
    """What kubelet is told about one resource: its slots with their health as others hold them now."""

    resource: ResourceName
    slots: tuple[DeviceSlot, ...] = ()


class HoldKind(StrEnum):
    """By what a device was given out: kubelet's device plugin, or a ResourceClaim that was prepared."""

    DEVICE_PLUGIN = "device-plugin"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class Hold:
    """Devices that a container has. `pod` may be a uid, or empty when only the allocation is known.

    `resource` is the name under which they were given out: of a claim its own, `namespace/name`. Then `ids`
    are uuids. `forgotten`: kubelet has lost the books that said so, and would give them out again.
    """

    resource: str
    ids: tuple[str, ...]
    namespace: str = ""
    pod: str = ""
    container: str = ""
    forgotten: bool = False
    kind: HoldKind = HoldKind.DEVICE_PLUGIN


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices given to one container: the ids that kubelet chose and the devices behind them, in order."""

    resource: ResourceName
    ids: tuple[str, ...]
    uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mount:
    """A host path in a container."""

    host_path: str
    container_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Injection:
    """What a container gets with its devices."""

    env: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    nodes: tuple[DeviceSpec, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
