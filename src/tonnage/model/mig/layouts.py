"""MIG: named layouts for a node's GPUs, the GPUs as they are, and the steps that change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from pathlib import PurePath

from tonnage.model.catalog.mig import MigProfile


@dataclass(frozen=True, slots=True)
class MigEntry:
    """What some GPUs shall be: those with the indices `devices` (None: all that can be divided).

    `filters` are PCI device ids, four hexadecimal digits, maybe `:` and a subsystem; none: of any product.
    Not `enabled`: whole GPUs.
    `where` is its place in the text.
    """

    devices: tuple[int, ...] | None
    enabled: bool
    counts: Mapping[str, int]
    filters: tuple[str, ...] = ()
    where: str = field(default="", compare=False)


MigConfigs = Mapping[str, tuple[MigEntry, ...]]
"""Layouts by name, as `nvidia.com/mig.config` chooses one."""


@dataclass(frozen=True, slots=True)
class MigOptions:
    """The ConfigMap of layouts (`NAMESPACE/NAME`), and what a change may do beside.

    `evict`: evict pods that are in the way; `cordon`: keep the node from new pods meanwhile. `pause`: take
    NVIDIA's operands off the node while the GPUs are changed. `host_root`: where the host's root folder is
    visible, to run hooks and stop services there; None: neither is done. `reboot`: restart the node where
    nothing less brings another MIG mode.
    """

    config_map: str
    evict: bool = False
    cordon: bool = False
    pause: bool = False
    host_root: PurePath | None = None
    reboot: bool = False


class MigWork(Enum):
    """What is being done for a layout: pods are asked to leave, or the GPUs are changed."""

    NONE = "none"
    EVICTING = "evicting"
    CHANGING = "changing"


class MigState(StrEnum):
    """How a node stands to its layout, as the label `nvidia.com/mig.config.state` says it."""

    PENDING = "pending"
    REBOOTING = "rebooting"
    SUCCESS = "success"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MigStanding:
    """How the node stands to the layout that it shall have; `reason` is empty after a plain success."""

    config: str
    state: MigState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ComputeInstance:
    """What containers use of a GPU instance: so many of its compute slices, under a uuid."""

    id: int
    slices: int
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A part of a GPU as its driver has it; `start` is its first memory slice. Its id lasts as long as it."""

    id: int
    profile: str
    start: int
    computes: tuple[ComputeInstance, ...] = ()

    @property
    def slices(self) -> tuple[int, ...]:
        """The sizes of its compute instances, sorted."""
        return tuple(sorted(compute.slices for compute in self.computes))


@dataclass(frozen=True, slots=True)
class DividedGpu:
    """A GPU that MIG can divide, as it is now. `pending` is the mode that its next reset brings.

    `users` are processes: the GPU instance that each uses (None: the GPU as a whole), and its number.
    `device` is its PCI device id, four hexadecimal digits in lower case, where it is told; `profiles` are
    those that its driver tells, without memory and `starts` while it does not tell those.
    """

    uuid: str
    index: int
    product: str
    enabled: bool
    pending: bool
    instances: tuple[GpuInstance, ...] = ()
    users: tuple[tuple[int | None, int], ...] = ()
    device: str = ""
    profiles: tuple[MigProfile, ...] = ()
