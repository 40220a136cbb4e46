"""Which devices may get new containers, given what their driver reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonnage.model.devices import Inventory, RawEvent, RawEventKind

APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Errors that a program causes and that leave the device usable. Source: NVIDIA/k8s-device-plugin v0.20."""

Marks = Mapping[str, str]
"""Why a device must not be used, by uuid."""


def marked(marks: Marks, event: RawEvent, inventory: Inventory) -> Marks:
    """The marks after an event. One that names no device is charged to every device."""
    if event.kind is not RawEventKind.XID or event.code in APPLICATION_XIDS:
        return marks
    struck = (event.uuid,) if event.uuid else tuple(device.uuid for device in inventory.devices)
    return {**dict.fromkeys(struck, f"Xid {event.code}"), **marks}


def judged(scanned: Inventory, marks: Marks) -> tuple[Inventory, Marks]:
    """The inventory with marked devices unhealthy, and the marks of devices that are still there.

    A device that left and came back (a reset, an exchange) starts with no mark.
    """
    present = {device.uuid for device in scanned.devices}
    kept = {uuid: reason for uuid, reason in marks.items() if uuid in present}
    devices = tuple(
        replace(device, healthy=False, reason=kept[device.uuid])
        if device.healthy and device.uuid in kept
        else device
        for device in scanned.devices
    )
    return replace(scanned, devices=devices), kept


def unreadable(last: Inventory, reason: str) -> Inventory:
    """What is left of the last inventory when the devices cannot be read: nothing may be given out."""
    devices = tuple(replace(device, healthy=False, reason=reason) for device in last.devices)
    return replace(last, devices=devices, problems=(reason,))
