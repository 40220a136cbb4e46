"""Which devices may get new containers: out at once when something is wrong, back when it has been well.

Every look at the devices moves the state on; what it says is put over the inventory that is offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonnage.decide.node.health.faults import (
    DAY_S,
    MOST,
    DeviceFault,
    HealthState,
    with_fault,
    with_sighting,
    worst,
)
from tonnage.decide.node.health.readings import (
    HANGS,
    RESET_BETWEEN,
    SIGNALS,
    UNREADABLE,
    Sign,
    next_baseline,
    signs_of,
    was_reset,
)
from tonnage.decide.node.health.xids import classed_fault, is_xid
from tonnage.model.devices.health import FaultClass, HealthPolicy
from tonnage.model.devices.inventory import Device, Inventory, MigDevice, Vitals

_STEADY_MOST_S: Final = 600.0
_RECOVER_MOST_S: Final = 3600.0
_DOUBLINGS: Final = 10

CALM_S: Final = 10.0
"""Seconds between looks when nothing is the matter."""
_SOON_S: Final = 1.0
_LATELY_S: Final = 2.0
_FRESH_S: Final = 60.0


def state_after_scan(
    state: HealthState, scanned: Inventory, policy: HealthPolicy, *, now: float
) -> HealthState:
    """The state after a look at the devices: new faults, and those that are over are gone."""
    reborn = bool(state.incarnation and scanned.incarnation) and state.incarnation != scanned.incarnation
    state = replace(state, incarnation=scanned.incarnation or state.incarnation)
    if reborn:
        state = _reborn(state)
    state = _under(state, policy)
    vitals_by_uuid = {vitals.uuid: vitals for vitals in scanned.vitals}
    baselines = {baseline.device: baseline for baseline in state.baselines}
    signs_by_uuid: dict[str, tuple[Sign, ...]] = {}
    resets: set[str] = set()
    for device in scanned.devices:
        vitals = vitals_by_uuid.get(device.uuid, Vitals(device.uuid))
        before = baselines.pop(device.uuid, None)
        signs_by_uuid[device.uuid] = signs_of(device, vitals, before, scanned, policy, now=now)
        if device.healthy and was_reset(vitals, before):
            resets.add(device.uuid)
        baselines[device.uuid] = next_baseline(vitals, before, reborn=reborn, now=now)
    state = replace(state, baselines=tuple(baselines.values())[-MOST:])
    # Old faults age before new signs are noted: for a new one this look is not the first of doing well.
    devices = {device.uuid: device for device in scanned.devices}
    state = _aged(state, devices, signs_by_uuid, resets, policy, now)
    for uuid, signs in signs_by_uuid.items():
        for sign in signs:
            state = _noted(state, uuid, sign, now)
    state = replace(state, faults=tuple(_awaiting_reset(fault, signs_by_uuid) for fault in state.faults))
    recent = tuple(sighting for sighting in state.sightings if now - sighting.last <= DAY_S)
    return replace(state, sightings=recent)


def offered_inventory(scanned: Inventory, state: HealthState) -> Inventory:
    """The inventory as it is offered: faulty devices unhealthy with all their MIG devices, no vitals."""
    faults: dict[str, tuple[DeviceFault, ...]] = {}
    for fault in state.faults:
        faults[fault.subject] = (*faults.get(fault.subject, ()), fault)
    devices = tuple(_judged(device, faults) for device in scanned.devices)
    return replace(scanned, devices=devices, vitals=())


def unreadable(last: Inventory, reason: str) -> Inventory:
    """What is left of the last inventory when no device can be read: nothing may be given out."""
    devices = tuple(_broken(device, reason) for device in last.devices)
    return replace(last, devices=devices, problems=(reason,))


def next_look_s(state: HealthState, policy: HealthPolicy, *, now: float) -> float:
    """Seconds until the next look: soon when a fault began or is about to be over."""
    pause = CALM_S
    for fault in state.faults:
        if fault.well_since is not None and curable(fault):
            left = fault.well_since + wait_s(fault, policy) - now
            pause = min(pause, max(left, _SOON_S))
        elif fault.cause in (HANGS, UNREADABLE) and now - fault.since < _FRESH_S:
            pause = min(pause, _LATELY_S)
    return pause


def curable(fault: DeviceFault) -> bool:
    """Whether doing well ends it. Others end with the driver, or with the device."""
    return fault.needs is not FaultClass.REPLACE and (fault.lasting or fault.needs is FaultClass.RESET)


def wait_s(fault: DeviceFault, policy: HealthPolicy) -> float:
    """How long the device must do well; twice as long for each time within a day, up to a bound."""
    steady = fault.lasting or fault.away
    first, most = (policy.steady_s, _STEADY_MOST_S) if steady else (policy.recover_after_s, _RECOVER_MOST_S)
    return min(first * float(1 << min(fault.times - 1, _DOUBLINGS)), max(first, most))


def _reborn(state: HealthState) -> HealthState:
    """The node booted or the driver was loaded anew: only what asks for another device stays.

    Counters of the driver begin at zero, so that what they have counted by now is news.
    """
    faults = tuple(fault for fault in state.faults if fault.needs is FaultClass.REPLACE)
    baselines = tuple(replace(baseline, uncorrected=0, nvlink_errors=None) for baseline in state.baselines)
    return replace(state, faults=faults, baselines=baselines)


def _under(state: HealthState, policy: HealthPolicy) -> HealthState:
    """The faults that count under this policy: a site may think again about what has happened already."""
    faults: list[DeviceFault] = []
    for fault in state.faults:
        xid = classed_fault(fault, policy)
        if xid is not None:
            faults.append(xid)
        elif not is_xid(fault) and SIGNALS.get(fault.cause) in (None, *policy.signals):
            faults.append(fault)
    return replace(state, faults=tuple(faults))


def _aged(
    state: HealthState,
    devices: Mapping[str, Device],
    signs_by_uuid: Mapping[str, tuple[Sign, ...]],
    resets: set[str],
    policy: HealthPolicy,
    now: float,
) -> HealthState:
    """The faults after this look, without those that are over."""
    faults: list[DeviceFault] = []
    for before in state.faults:
        device = devices.get(before.device)
        gone = device is None or (device.healthy and _part_is_gone(before, device))
        lasting = {sign.cause for sign in signs_by_uuid.get(before.device, ()) if sign.lasting}
        away = not before.lasting and (before.away or gone or before.device in resets)
        well = not gone and (before.cause not in lasting if before.lasting else not lasting)
        since = (now if before.well_since is None else before.well_since) if well else None
        fault = replace(before, away=away, well_since=since)
        over = since is not None and now - since >= wait_s(fault, policy)
        forgotten = gone and now - fault.since > DAY_S and fault.needs is FaultClass.RESET
        if not (over and curable(fault)) and not forgotten:
            faults.append(fault)
    return replace(state, faults=tuple(faults))


def _awaiting_reset(fault: DeviceFault, signs_by_uuid: Mapping[str, tuple[Sign, ...]]) -> DeviceFault:
    """The fault; if its device now shows what a reset alone ends, the end of that will tell of one."""
    lasting = {sign.cause for sign in signs_by_uuid.get(fault.device, ()) if sign.lasting}
    return fault if fault.lasting or lasting.isdisjoint(RESET_BETWEEN) else replace(fault, away=True)


def _part_is_gone(fault: DeviceFault, device: Device) -> bool:
    """A MIG device that was destroyed, or cannot be read."""
    return fault.subject != device.uuid and all(mig.uuid != fault.subject for mig in device.migs)


def _noted(state: HealthState, uuid: str, sign: Sign, now: float) -> HealthState:
    """The state with what a look has shown. A lasting sign that is known already is not another one."""
    for fault in state.faults:
        if sign.lasting and (fault.subject, fault.cause) == (uuid, sign.cause):
            return with_fault(state, replace(fault, reason=sign.reason, needs=sign.needs))
    state, times = with_sighting(state, uuid, sign.cause, now)
    fault = DeviceFault(uuid, uuid, sign.cause, sign.reason, sign.needs, now, sign.lasting, times=times)
    return with_fault(state, fault)


def _judged(device: Device, faults: Mapping[str, tuple[DeviceFault, ...]]) -> Device:
    fault = worst(faults.get(device.uuid, ()))
    if fault is not None:
        return _broken(device, _fault_text(fault))
    if not device.healthy:  # the scan is newer than the state, which has not counted it yet
        return _broken(device, device.reason)
    return replace(device, migs=tuple(_judged_part(mig, faults) for mig in device.migs))


def _judged_part(mig: MigDevice, faults: Mapping[str, tuple[DeviceFault, ...]]) -> MigDevice:
    fault = worst(faults.get(mig.uuid, ()))
    return mig if fault is None else replace(mig, healthy=False, reason=_fault_text(fault))


def _broken(device: Device, reason: str) -> Device:
    migs = tuple(replace(mig, healthy=False, reason=reason) for mig in device.migs)
    return replace(device, healthy=False, reason=reason, migs=migs)


def _fault_text(fault: DeviceFault) -> str:
    return (
        f"{fault.reason} (over, being watched)"
        if fault.lasting and fault.well_since is not None
        else fault.reason
    )
