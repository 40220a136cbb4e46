"""Changes of a node's devices: what `DeviceBackend.apply` does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from tonnage.model.actions.retry import LooksFirst, Retry
from tonnage.model.actions.subjects import MIG_LAYOUT
from tonnage.model.devices.inventory import ComputeMode, TimeSlice
from tonnage.model.mig.layouts import GpuInstance


@dataclass(frozen=True, slots=True)
class SetComputeMode:
    """A step on a physical device. The mode lasts until the driver is loaded anew."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    uuid: str
    mode: ComputeMode


@dataclass(frozen=True, slots=True)
class SetTimeSlice:
    """How long processes take turns on a physical device. It lasts until the driver is loaded anew."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    uuid: str
    interval: TimeSlice


class _LayoutStep(LooksFirst):
    __slots__ = ()

    @property
    def subject(self) -> str:
        """The layout that the step was decided from."""
        return MIG_LAYOUT


@dataclass(frozen=True, slots=True)
class SetMigMode(_LayoutStep):
    """Turn MIG on or off; some GPUs need a reset before it is so."""

    uuid: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class ResetGpu(_LayoutStep):
    """Have the mode that waits for a reset take effect. The `others` are on its board and reset with it."""

    uuid: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DestroyComputeInstance(_LayoutStep):
    """Only if the GPU instance is still this one."""

    uuid: str
    instance: GpuInstance
    compute: int


@dataclass(frozen=True, slots=True)
class DestroyGpuInstance(_LayoutStep):
    """Only if it is still this one."""

    uuid: str
    instance: GpuInstance


@dataclass(frozen=True, slots=True)
class CreateGpuInstance(_LayoutStep):
    """Make one at that memory slice."""

    uuid: str
    profile: str
    start: int


@dataclass(frozen=True, slots=True)
class CreateComputeInstance(_LayoutStep):
    """Make one of so many slices, if the GPU instance is still this one."""

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
DeviceAction: TypeAlias = MigStep | SetComputeMode | SetTimeSlice
