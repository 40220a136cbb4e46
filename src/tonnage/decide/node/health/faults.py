"""What is remembered of devices that did not do well. Times are seconds of one monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tonnage.model.devices.health import SEVERITY, FaultClass

DAY_S: Final = 86_400.0
_SAME_S: Final = 1.0
"""What comes twice within a second was heard twice: NVML and the kernel's log say the same."""
MOST: Final = 512
"""Of each kind of memory; the oldest is forgotten first. A node has 16 devices, perhaps 128 with parts."""


@dataclass(frozen=True, slots=True)
class DeviceFault:
    """Something wrong with `subject`: a device, or one MIG device of it. `cause` is one word for its kind.

    `lasting` faults are seen at every look for as long as they are so; others happened once. `well_since`
    is None while the device does not do well. `away`: since it happened the device was gone or unreadable,
    or asked for a reset; doing well after that, it has had one. `times` counts such faults within a day.
    """

    subject: str
    device: str
    cause: str
    reason: str
    needs: FaultClass
    since: float
    lasting: bool = False
    well_since: float | None = None
    away: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True)
class FaultSighting:
    """How often something happened to a device, no pause longer than a day; `last` is when."""

    device: str
    cause: str
    times: int
    last: float


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a device's counters said at the look before; `nvlinks` is the most that were ever active."""

    device: str
    at: float
    uncorrected: int | None = None
    nvlinks: int | None = None
    nvlink_errors: int | None = None


@dataclass(frozen=True, slots=True)
class HealthState:
    """All that is remembered; survives a restart of the agent."""

    faults: tuple[DeviceFault, ...] = ()
    sightings: tuple[FaultSighting, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    incarnation: str = ""


def with_sighting(state: HealthState, device: str, cause: str, now: float) -> tuple[HealthState, int]:
    """The state with one more sighting, and how many there were, each within a day of the one before."""
    before = next(
        (sighting for sighting in state.sightings if (sighting.device, sighting.cause) == (device, cause)),
        None,
    )
    times = 1
    if before is not None and now - before.last <= DAY_S:
        times = before.times + (now - before.last > _SAME_S)
    others = tuple(sighting for sighting in state.sightings if sighting is not before)
    return replace(state, sightings=(*others, FaultSighting(device, cause, times, now))[-MOST:]), times


def with_fault(state: HealthState, fault: DeviceFault) -> HealthState:
    """The state with the fault, in the place of the same one from before."""
    repeated = any(_same(earlier, fault) for earlier in state.faults)
    faults = tuple(fault if _same(earlier, fault) else earlier for earlier in state.faults)
    return replace(state, faults=faults if repeated else (*faults, fault)[-MOST:])


def interrupted(state: HealthState) -> HealthState:
    """The state when nothing could be looked at for a while: how devices did then is not known."""
    return replace(state, faults=tuple(replace(fault, well_since=None) for fault in state.faults))


def worst(faults: tuple[DeviceFault, ...]) -> DeviceFault | None:
    """What asks for most; of those alike, the one that was there first."""
    return max(faults, key=lambda fault: (SEVERITY[fault.needs], -fault.since), default=None)


def _same(fault: DeviceFault, other: DeviceFault) -> bool:
    return (fault.subject, fault.cause) == (other.subject, other.cause)
