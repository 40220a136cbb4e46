"""What pretended devices read: what their file says, and for the rest what an idle device would."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tonnage.documents.hardware import Hardware, HardwareDevice
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.metrics import fields_named
from tonnage.model.devices.health import RecoveryAction
from tonnage.model.devices.inventory import MEMORY_IN_USE, ComputeMode, Device, Sample


def samples_of(
    hardware: Hardware, entry: HardwareDevice, device: Device, mode: ComputeMode, fields: Collection[str]
) -> Iterator[Sample]:
    """The device, then its MIG devices if a field is theirs. Raises Bug: there is no such field."""
    requested = fields_named([*fields])
    values = {**_readings(entry, device), **_states(entry, device), "compute_mode": int(mode)}
    texts = {"driver_version": hardware.driver_version}
    yield Sample(
        device.uuid,
        {name: values[name] for name in fields if name in values},
        {name: texts[name] for name in fields if name in texts},
    )
    if any(field.mig for field in requested):
        for part in device.migs:
            own = _memory(part.memory_mib, 0)
            yield Sample(part.uuid, {name: own[name] for name in fields if name in own})


def _readings(entry: HardwareDevice, device: Device) -> dict[str, int | float]:
    """What changes all the time. The driver measures no utilisation of a divided device."""
    limit_w = float(gpu_models()[entry.model].power_limit_w)
    busy = {} if device.mig_enabled else {"utilization_percent": entry.utilization_percent}
    return {
        **_memory(device.memory_mib, entry.memory_used_mib),
        MEMORY_IN_USE: entry.memory_used_mib,
        "temperature_c": entry.temperature_c,
        "power_w": limit_w / 6,
        "power_limit_w": limit_w,
        "enforced_power_limit_w": limit_w,
        **busy,
    }


def _states(entry: HardwareDevice, device: Device) -> dict[str, int | float]:
    divisible = {} if device.mig_enabled is None else {"mig_mode": int(device.mig_enabled)}
    return {
        "ecc_uncorrected_volatile": entry.ecc_uncorrected,
        "row_remap_pending": int(entry.row_remap == "pending"),
        "row_remap_failed": int(entry.row_remap == "failed"),
        "recovery_action": int(RecoveryAction[entry.recovery_action.replace("-", "_").upper()]),
        **divisible,
    }


def _memory(total_mib: int, used_mib: int) -> dict[str, int | float]:
    """Nothing is reserved."""
    return {
        "memory_total_mib": total_mib,
        "memory_used_mib": used_mib,
        "memory_free_mib": max(0, total_mib - used_mib),
        "memory_reserved_mib": 0,
        "memory_used_ratio": used_mib / total_mib,
    }
