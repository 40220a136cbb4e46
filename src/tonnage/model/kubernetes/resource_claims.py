"""Dynamic resources: devices that drivers publish in slices, classes of them, and claims that ask for them.

One shape for all versions of `resource.k8s.io`, the one of v1. Quantities are exact.

Source: the Kubernetes API, resource.k8s.io v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

from tonnage.model.errors import Problem
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Taint, Toleration

BETA_VERSIONS: Final = ("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2")
ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
"""Of namespaces whose claims may have devices that others use: `true`."""
DEVICES_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
"""What quotas put after a class's name, to count the devices of claims."""
CLASS_RESOURCE: Final = "deviceclass.resource.kubernetes.io/"
"""What every class is called as an extended resource, before its name."""


class ClaimDeviceId(NamedTuple):
    """A device's identity in the cluster, written `driver/pool/device`."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class SemanticVersion:
    """A semantic version as an attribute's value."""

    text: str


Attribute: TypeAlias = bool | int | str | SemanticVersion | None
"""An attribute's value; None is one of a kind that schedulers of these releases do not read."""

Quantities: TypeAlias = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """What a claim may take of a device's capacity. `values` ascend; a range goes from `least` in steps."""

    default: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    least: Fraction | None = None
    most: Fraction | None = None
    step: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """An amount of something in a device."""

    value: Fraction
    policy: RequestPolicy | None = None


@dataclass(frozen=True, slots=True)
class NodeScope:
    """The nodes from which devices can be reached: one by name, all, or those that a selector takes."""

    name: str = ""
    everywhere: bool = False
    selector: tuple[NodeSelectorTerm, ...] | None = None


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """A device in a slice. `consumes` is what it takes of shared counters: set, counter, amount.

    `shareable`: several claims may have parts of it at once. `scope` counts only in slices with scopes by
    device. Names of attributes and capacities are as published, with or without a domain.
    """

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    consumes: Mapping[str, Quantities] = field(default_factory=dict)
    shareable: bool = False
    waits_for: tuple[str, ...] = ()
    """Conditions that must come true before a pod is bound to it."""
    scope: NodeScope = NodeScope()


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Devices of one driver in one pool, or the counters that devices of the pool share.

    `scope` None: nothing in it is known here, so nobody can use the slice.
    """

    name: str
    driver: str
    pool: str
    generation: int = 1
    slices: int = 1
    """How many slices the pool has in this generation."""
    scope: NodeScope | None = None
    scope_by_device: bool = False
    devices: tuple[SliceDevice, ...] = ()
    counters: Mapping[str, Quantities] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def id_of(self, device: SliceDevice) -> ClaimDeviceId:
        """The identity of one of its devices."""
        return ClaimDeviceId(self.driver, self.pool, device.name)


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A taint for devices chosen by driver, pool and name, where None is any; not `chooses`: for none."""

    taint: Taint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    chooses: bool = True


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A class by name; a device is of it when all its CEL selectors hold. `created`: seconds since 1970."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    created: float = 0.0
    problems: tuple[Problem, ...] = ()


class Mode(StrEnum):
    """How many devices a request wants."""

    EXACT = "ExactCount"
    ALL = "All"


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request, or one of the `alternatives` of a request, of which the first that can be had is taken.

    `capacity` None: the request names none. A request without class and alternatives is of no known kind.
    """

    name: str
    device_class: str = ""
    mode: str = Mode.EXACT
    count: int = 1
    admin: bool = False
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    capacity: Quantities | None = None
    alternatives: tuple[DeviceRequest, ...] = ()
    complete: bool = True
    """False: neither `exactly` nor `firstAvailable` is set."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """All devices of the requests (none named: of all) must have the attribute alike, or each another value.

    An empty `attribute` is a constraint of a kind that nobody here knows.
    """

    attribute: str
    distinct: bool = False
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device that a claim has. `request` is `r` or `r/alternative`; `share`: it is a part of one."""

    request: str
    id: ClaimDeviceId
    admin: bool = False
    share: str = ""
    consumed: Quantities = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """What a claim has been given, and the nodes that can reach it; `nodes` None: all can."""

    devices: tuple[AllocatedDevice, ...] = ()
    nodes: tuple[NodeSelectorTerm, ...] | None = None


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who has reserved a claim."""

    uid: str
    name: str = ""
    resource: str = "pods"


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim. `owner` is the uid of its controller. `in_flight`: its allocation is still being written."""

    namespace: str
    name: str
    uid: str = ""
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    allocation: ClaimAllocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    owner: str = ""
    terminating: bool = False
    problems: tuple[Problem, ...] = ()
    in_flight: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name)."""
        return self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClaimTemplate:
    """What a claim that is made for a pod will ask."""

    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A pod's entry for a claim: one by name, or one made from a template, `made` once it is.

    `skipped`: the cluster has decided that this entry needs no claim.
    """

    name: str
    claim: str = ""
    template: str = ""
    made: str = ""
    skipped: bool = False
