"""Changes of a node's devices: what `DeviceBackend.apply` does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from tonnage.model.actions.retry import Retry
from tonnage.model.devices.inventory import ComputeMode
from tonnage.model.mig.layouts import GpuInstance


@dataclass(frozen=True, slots=True)
class SetComputeMode:
    """A step on a physical device. The mode lasts until the driver is loaded anew."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    uuid: str
    mode: ComputeMode


@dataclass(frozen=True, slots=True)
class SetMigMode:
    """Turn MIG on or off; some GPUs need a reset before it is so."""

    retry: ClassVar[Retry] = Retry.LOOK_FIRST

    uuid: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class ResetGpu:
    """Have the mode that waits for a reset take effect. The `others` are on its board and reset with it."""

    retry: ClassVar[Retry] = Retry.LOOK_FIRST

    uuid: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DestroyComputeInstance:
    """Only if the GPU instance is still this one."""

    retry: ClassVar[Retry] = Retry.LOOK_FIRST

    uuid: str
    instance: GpuInstance
    compute: int


@dataclass(frozen=True, slots=True)
class DestroyGpuInstance:
    """Only if it is still this one."""

    retry: ClassVar[Retry] = Retry.LOOK_FIRST

    uuid: str
    instance: GpuInstance


@dataclass(frozen=True, slots=True)
class CreateGpuInstance:
    """Make one at that memory slice."""

    retry: ClassVar[Retry] = Retry.LOOK_FIRST

    uuid: str
    profile: str
    start: int


@dataclass(frozen=True, slots=True)
class CreateComputeInstance:
    """Make one of so many slices, if the GPU instance is still this one."""

    retry: ClassVar[Retry] = Retry.LOOK_FIRST

    uuid: str
    instance: GpuInstance
    slices: int


MigStep: TypeAlias = (
    SetMigMode
    | ResetGpu
    | DestroyComputeInstance
    | DestroyGpuInstance
    | CreateGpuInstance
    | CreateComputeInstance
)
DeviceAction: TypeAlias = MigStep | SetComputeMode
