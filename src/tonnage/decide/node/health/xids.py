"""What an Xid means for scheduling: the catalogue's word, the site's, and whom it concerns."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.decide.node.health.faults import DeviceFault, HealthState, with_fault, with_sighting
from tonnage.model.catalog.xids import xids
from tonnage.model.devices.health import SEVERITY, FaultClass, HealthPolicy, Signal
from tonnage.model.devices.inventory import Device, Inventory, RawEvent, RawEventKind

UNLISTED: Final = FaultClass.RESET
"""A newer driver's error: not given out, and again after a time in which nothing more happened."""

_PREFIX: Final = "xid-"

NEEDS: Final = {
    FaultClass.RESET: "needs a reset",
    FaultClass.REBOOT: "needs a reboot of the node",
    FaultClass.REPLACE: "needs inspection or replacement",
}


def state_after_event(
    state: HealthState, event: RawEvent, inventory: Inventory, policy: HealthPolicy, *, now: float
) -> HealthState:
    """The state after an Xid. An error of a device that is not known says nothing about any that is.

    The look that follows every event shows what became of that device.
    """
    device = next((device for device in inventory.devices if device.uuid == event.uuid), None)
    if event.kind is not RawEventKind.XID or device is None:
        return state
    first_class, repeated_class = classes_of(event.code, policy)
    if repeated_class.harmless:
        return state
    cause = f"{_PREFIX}{event.code}"
    state, times = with_sighting(state, device.uuid, cause, now)
    if (first_class if times == 1 else repeated_class).harmless:
        return state
    for subject in _subjects(device, event):
        # What it needs, and the reason, are the policy's words for the cause: `classed_fault` puts them in.
        fault = DeviceFault(subject, device.uuid, cause, "", FaultClass.RESET, now, times=times)
        state = with_fault(state, classed_fault(fault, policy) or fault)
    return state


def is_xid(fault: DeviceFault) -> bool:
    """Whether an Xid made the fault."""
    return fault.cause.startswith(_PREFIX)


def classed_fault(fault: DeviceFault, policy: HealthPolicy) -> DeviceFault | None:
    """An Xid's fault as this policy classes it; None when it is harmless under it, or no Xid's."""
    number = fault.cause.removeprefix(_PREFIX)
    if not is_xid(fault) or not number.isdecimal():
        return None
    code = int(number)
    needs = classes_of(code, policy)[fault.times > 1]
    if needs.harmless:
        return None
    xid = xids().get(code)
    name = f"Xid {code}: {xid.name}" if xid else f"Xid {code}"
    return replace(fault, needs=needs, reason=f"{name}; {NEEDS[needs]}")


def classes_of(code: int, policy: HealthPolicy) -> tuple[FaultClass, FaultClass]:
    """What the error asks for the first time, and when it comes again within a day; never less.

    >>> [each.value for each in classes_of(109, HealthPolicy())]
    ['application', 'reset']
    """
    if code in policy.xids:
        return policy.xids[code], policy.xids[code]
    if Signal.XID not in policy.signals:
        return FaultClass.INFORMATION, FaultClass.INFORMATION
    xid = xids().get(code)
    first, again = (xid.fault_class, xid.again) if xid else (UNLISTED, UNLISTED)
    if policy.every_xid and first.harmless:
        first = FaultClass.RESET
    return first, max(first, again, key=SEVERITY.__getitem__)


def _subjects(device: Device, event: RawEvent) -> tuple[str, ...]:
    """The MIG devices that the event names, else the device itself."""
    mig_devices = tuple(
        mig.uuid
        for mig in device.migs
        if mig.gpu_instance == event.gpu_instance and event.compute_instance in (None, mig.compute_instance)
    )
    return mig_devices or (device.uuid,)
