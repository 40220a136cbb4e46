"""What is wrong with a device, what makes it usable again, and what a node takes seriously."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final


class FaultClass(StrEnum):
    """What an error asks for, mildest first. The first two leave the device usable."""

    INFORMATION = "information"
    APPLICATION = "application"
    RESET = "reset"
    REBOOT = "reboot"
    REPLACE = "replace"

    @property
    def harmless(self) -> bool:
        """Whether the device may still get new containers."""
        return self in (FaultClass.INFORMATION, FaultClass.APPLICATION)


SEVERITY: Final = {fault_class: place for place, fault_class in enumerate(FaultClass)}


class Signal(StrEnum):
    """What a device may be judged by. One that cannot be read or is lost is never usable."""

    XID = "xid"
    ECC = "ecc"
    REMAP_PENDING = "row-remap-pending"
    REMAP_FAILURE = "row-remap-failure"
    RECOVERY_ACTION = "recovery-action"
    NVLINK = "nvlink"


class RecoveryAction(IntEnum):
    """What the driver itself asks for. Source: nvmlDeviceGpuRecoveryAction_t (field 230)."""

    NONE = 0
    GPU_RESET = 1
    NODE_REBOOT = 2
    DRAIN_P2P = 3
    DRAIN_AND_RESET = 4
    RECOVER_IMEX_DOMAIN = 5
    BUS_RESET = 6
    SYSTEM_REBOOT = 7


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """What counts, and how long a device must do well before it is offered again.

    `xids` say otherwise than the catalogue, by number; they count even if `signals` has no XID. `every_xid`
    takes harmless ones for RESET. `steady_s` is for what a device shows by itself (it was lost, it hung) and
    after a reset, `recover_after_s` for an error after which no reset was seen.
    """

    signals: frozenset[Signal] = frozenset(Signal)
    xids: Mapping[int, FaultClass] = field(default_factory=dict)
    every_xid: bool = False
    steady_s: float = 5.0
    recover_after_s: float = 300.0


@dataclass(frozen=True, slots=True)
class SeenXid:
    """An Xid that a device reported, and when by the monotonic clock; `gpu_instance` where it names one."""

    uuid: str
    code: int
    seen_s: float
    gpu_instance: int | None = None
