"""What a device's own readings say against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.decide.node.health.faults import Baseline
from tonnage.decide.node.health.xids import NEEDS
from tonnage.model.devices.health import FaultClass, HealthPolicy, RecoveryAction, Signal
from tonnage.model.devices.inventory import Device, Inventory, Vitals
from tonnage.model.devices.links import NVSWITCH

UNREADABLE: Final = "unreadable"
HANGS: Final = "hangs"
RESET_BETWEEN: Final = frozenset({UNREADABLE, "recovery-action", "row-remap-pending"})
"""What ends by a reset alone: once it is over, there was one. A device that only hung may go on as it was."""
SIGNALS: Final = {
    "ecc": Signal.ECC,
    "row-remap-failure": Signal.REMAP_FAILURE,
    "row-remap-pending": Signal.REMAP_PENDING,
    "recovery-action": Signal.RECOVERY_ACTION,
    "nvlink-down": Signal.NVLINK,
    "nvlink-errors": Signal.NVLINK,
}
"""By what a device is judged for each cause; causes that are not here always count."""
_ERRORS_PER_S: Final = 100
"""Source: DCGM's limit for CRC errors of NVLinks."""
_RATE_OVER_S: Final = 1.0

_RESET, _REBOOT, _REPLACE = FaultClass.RESET, FaultClass.REBOOT, FaultClass.REPLACE
_ACTIONS: Final[Mapping[int, tuple[str, FaultClass]]] = {
    RecoveryAction.GPU_RESET: ("a reset of the GPU", _RESET),
    RecoveryAction.NODE_REBOOT: ("a reboot of the node", _REBOOT),
    RecoveryAction.DRAIN_P2P: ("an end of its peer-to-peer traffic", _RESET),
    RecoveryAction.DRAIN_AND_RESET: ("a drain and a reset of the GPU", _RESET),
    RecoveryAction.RECOVER_IMEX_DOMAIN: ("a recovery of the IMEX domain", _RESET),
    RecoveryAction.BUS_RESET: ("a reset of its bus", _RESET),
    RecoveryAction.SYSTEM_REBOOT: ("a reboot of the system", _REBOOT),
}


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that speaks against a device; `lasting` ones are so now, the others happened since."""

    cause: str
    reason: str
    needs: FaultClass
    lasting: bool = True


def signs_of(
    device: Device,
    vitals: Vitals,
    before: Baseline | None,
    inventory: Inventory,
    policy: HealthPolicy,
    *,
    now: float,
) -> tuple[Sign, ...]:
    """Everything that counts under the policy. A device that cannot be read says nothing else."""
    if not device.healthy:
        cause = HANGS if vitals.hangs else UNREADABLE
        return (Sign(cause, device.reason or "the GPU cannot be read", _RESET),)
    signs = (*_memory(vitals, before), *_action(vitals), *_links(device, vitals, before, inventory, now))
    return tuple(sign for sign in signs if SIGNALS[sign.cause] in policy.signals)


def _memory(vitals: Vitals, before: Baseline | None) -> Iterator[Sign]:
    if vitals.remap_failed:
        reason = f"row remapping failed; {NEEDS[_REPLACE]}"
        yield Sign("row-remap-failure", reason, _REPLACE)
    if vitals.remap_pending:
        reason = f"a row remapping is pending; {NEEDS[_RESET]}"
        yield Sign("row-remap-pending", reason, _RESET)
    more = _more(vitals.uncorrected_errors, before.uncorrected if before else None)
    if more > 0:
        text = f"{more} uncorrectable ECC error{'s' * (more > 1)}; {NEEDS[_RESET]}"
        yield Sign("ecc", text, _RESET, lasting=False)


def _action(vitals: Vitals) -> Iterator[Sign]:
    action = vitals.recovery_action
    if action:  # 0 is none
        action_text, needs = _ACTIONS.get(action, (f"recovery action {action}", _RESET))
        yield Sign("recovery-action", f"the driver asks for {action_text}", needs)


def _links(
    device: Device, vitals: Vitals, before: Baseline | None, inventory: Inventory, now: float
) -> Iterator[Sign]:
    """Links that went down, where the other end is no GPU whose fault it may be; and a flood of errors.

    A divided device has no use for links, and may have none.
    """
    if before is None or device.mig_enabled:
        return
    up, most = vitals.nvlinks_up, before.nvlinks
    if up is not None and most is not None and up < most and _only_switches(device.uuid, inventory):
        reason = f"{up} of {most} NVLinks are up; {NEEDS[_RESET]}"
        yield Sign("nvlink-down", reason, _RESET)
    more, seconds = _more(vitals.nvlink_errors, before.nvlink_errors), now - before.at
    if seconds >= _RATE_OVER_S and more / seconds >= _ERRORS_PER_S:
        reason = f"{more / seconds:.0f} NVLink errors a second; {NEEDS[_RESET]}"
        yield Sign("nvlink-errors", reason, _RESET, lasting=False)


def _only_switches(uuid: str, inventory: Inventory) -> bool:
    targets = {link.target for link in inventory.links if link.source == uuid and link.nvlinks}
    return targets == {NVSWITCH}


def was_reset(vitals: Vitals, before: Baseline | None) -> bool:
    """Whether its count of errors began anew."""
    return _more(vitals.uncorrected_errors, before.uncorrected if before else None) < 0


def next_baseline(vitals: Vitals, before: Baseline | None, *, reborn: bool, now: float) -> Baseline:
    """What to hold the next look against. What the device does not tell now stays as it was.

    `reborn`: counters began at zero since. A rate is not taken over less than a second.
    """
    old = before or Baseline(vitals.uuid, now)
    uncorrected = old.uncorrected if vitals.uncorrected_errors is None else vitals.uncorrected_errors
    ups = [count for count in (vitals.nvlinks_up, old.nvlinks) if count is not None]
    errors, at = old.nvlink_errors, old.at
    if errors is None or reborn or now - at >= _RATE_OVER_S:
        errors, at = vitals.nvlink_errors, now
    return Baseline(vitals.uuid, at, uncorrected, max(ups, default=None), errors)


def _more(count: int | None, before: int | None) -> int:
    """The difference; 0 where there is nothing to compare."""
    return 0 if count is None or before is None else count - before
