"""What pretended devices read: what their file says, and what follows from the workloads on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from tonnage.documents.hardware import Hardware, HardwareDevice
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.metrics import fields_named
from tonnage.model.devices.health import RecoveryAction
from tonnage.model.devices.inventory import MEMORY_IN_USE, ComputeMode, Device, Sample
from tonnage.twin.devices.load.activity import LoadActivity
from tonnage.twin.devices.load.physics import BUS_RECEIVED, BUS_SENT, LINK_EACH_WAY, LoadTotals
from tonnage.twin.devices.load.readings import DeviceLoad

_UNEVENTFUL: Final = tuple(
    f"throttled_{why}_ns"
    for why in ("thermal", "sync_boost", "board_limit", "low_utilization", "reliability")
)
"""Counters of what never befalls a pretended device: no load makes one too hot, and its board is sound."""
_MOVED: Final = ("nvlink_sent", "nvlink_received")
_COUNTED: Final = frozenset(
    {"energy_mj", "throttled_power_ns", *(f"{way}_{unit}" for way in _MOVED for unit in ("kib", "bytes"))}
    | {*_UNEVENTFUL}
)
_MIB: Final = 1 << 20
_KB: Final = 1000
_WARMER_MEMORY_C: Final = 6
_GPM_SINCE: Final = 9.0
_NVLINK_5_SINCE: Final = 10.0
"""Its errors are other fields."""
_ROWS_SINCE: Final = 8.0
_TENSOR_PART: Final = 0.55
"""Of the time in which multiprocessors compute, where matrices are multiplied."""


def samples_of(
    hardware: Hardware,
    entry: HardwareDevice,
    device: Device,
    mode: ComputeMode,
    load: DeviceLoad,
    fields: Collection[str],
) -> Iterator[Sample]:
    """The device, then its MIG devices if a field is theirs. Raises Bug: there is no such field."""
    requested = fields_named([*fields])
    links = max(0, nvlinks_of(hardware, device.index) - entry.nvlinks_down)
    values = {**_readings(entry, device, load), **_states(entry, device), "compute_mode": int(mode)}
    values |= _traffic(device, load.whole, links)
    if links:
        values |= _link_errors(entry, device)
    if not _COUNTED.isdisjoint(fields) and (totals := load.totals()) is not None:
        values |= _counters(totals, links)
    values |= _identity(hardware, device)
    texts = {"driver_version": hardware.driver_version, "brand": _brand(device)}
    texts["pci_bus_id"] = device.pci_bus_id
    yield Sample(
        device.uuid,
        {name: values[name] for name in fields if name in values},
        {name: texts[name] for name in fields if name in texts},
        peers=_peers(hardware, entry, device.index) if any(field.peer for field in requested) else {},
    )
    if any(field.mig for field in requested):
        for part in device.migs:
            activity = load.parts.get(part.uuid, LoadActivity())
            own = {**_memory(part.memory_mib, activity.memory_mib), **_profile(device, activity)}
            yield Sample(part.uuid, {name: own[name] for name in fields if name in own})


def _identity(hardware: Hardware, device: Device) -> dict[str, int]:
    """What never changes of the device, in NVML's numbers."""
    major, minor = map(int, (device.compute_capability or "0.0").split("."))
    cuda, _, release = hardware.cuda_version.partition(".")
    return {
        "index": device.index,
        "compute_capability": major << 16 | minor,
        "cuda_version": int(cuda) * 1000 + int(release or 0) * 10,
        "gpm_supported": int(major >= _GPM_SINCE),
    }


def _brand(device: Device) -> str:
    """As drivers name it: older boards for servers are of the brand Tesla, later ones NVIDIA's own."""
    return "Tesla" if "Tesla" in device.product else "NVIDIA"


def _readings(entry: HardwareDevice, device: Device, load: DeviceLoad) -> dict[str, int | float]:
    """What changes all the time. The driver measures no utilisation of a divided device."""
    model, whole = gpu_models()[entry.model], load.whole
    limit_w = float(model.power_limit_w)
    used = min(device.memory_mib, entry.memory_used_mib + whole.memory_mib)
    utilization = {
        "utilization_percent": min(100, entry.utilization_percent + round(100 * whole.busy)),
        "memory_utilization_percent": round(100 * whole.memory),
        "encoder_percent": 0,
        "decoder_percent": 0,
    }
    return {
        **_memory(device.memory_mib, used),
        MEMORY_IN_USE: used,
        "temperature_c": load.physics.temperature_c,
        "power_w": round(load.physics.power_w, 3),
        "power_limit_w": limit_w,
        "enforced_power_limit_w": limit_w,
        "clock_sm_mhz": load.physics.sm_clock_mhz,
        "clock_memory_mhz": model.memory_clock_mhz,
        "clock_sm_most_mhz": model.sm_clock_mhz,
        "clock_memory_most_mhz": model.memory_clock_mhz,
        "clock_sm_application_mhz": model.sm_clock_mhz,
        "clock_memory_application_mhz": model.memory_clock_mhz,
        "clock_event_reasons": load.physics.clock_reasons,
        "performance_state": 0,
        "pcie_replays": 0,
        **({"memory_temperature_c": load.physics.temperature_c + _WARMER_MEMORY_C} if model.mig else {}),
        **({} if device.mig_enabled else {**utilization, **_bus(whole)}),
        **_profile(device, whole),
    }


def _profile(device: Device, activity: LoadActivity) -> dict[str, int | float]:
    """What GPM measures, on Hopper and later."""
    if float(device.compute_capability or 0) < _GPM_SINCE:
        return {}
    return {
        "graphics_active_ratio": round(activity.busy, 4),
        "sm_active_ratio": round(activity.active, 4),
        "sm_occupancy_ratio": round(activity.active / 2, 4),
        "tensor_active_ratio": round(activity.active * _TENSOR_PART, 4),
        "dram_active_ratio": round(activity.memory, 4),
    }


def _bus(activity: LoadActivity) -> dict[str, int]:
    """What the driver measures of the bus itself, on devices without GPM, too."""
    return {
        "pcie_sent_kb_per_s": round(activity.active * BUS_SENT / _KB),
        "pcie_received_kb_per_s": round(activity.active * BUS_RECEIVED / _KB),
    }


def _traffic(device: Device, activity: LoadActivity, links: int) -> dict[str, int | float]:
    """Bytes a second over bus and links in whole MiB, as GPM measures them of undivided devices."""
    if float(device.compute_capability or 0) < _GPM_SINCE or device.mig_enabled:
        return {}
    linked = round(activity.linked * links * LINK_EACH_WAY / _MIB) * _MIB
    return {
        "pcie_sent_bytes_per_s": round(activity.active * BUS_SENT / _MIB) * _MIB,
        "pcie_received_bytes_per_s": round(activity.active * BUS_RECEIVED / _MIB) * _MIB,
        **({"nvlink_sent_bytes_per_s": linked, "nvlink_received_bytes_per_s": linked} if links else {}),
    }


def _link_errors(entry: HardwareDevice, device: Device) -> dict[str, int | float]:
    """All errors that the file has are recoveries."""
    if float(device.compute_capability or 0) >= _NVLINK_5_SINCE:
        return {}
    return {
        "nvlink_crc_flit_errors": 0,
        "nvlink_crc_data_errors": 0,
        "nvlink_replay_errors": 0,
        "nvlink_recovery_errors": entry.nvlink_errors,
    }


def _counters(totals: LoadTotals, links: int) -> dict[str, int | float]:
    """What has been counted since the node booted."""
    moved_kib = round(totals.linked_s * links * LINK_EACH_WAY / 1024)
    return {
        "energy_mj": round(1000 * totals.energy_j),
        "throttled_power_ns": round(1e9 * totals.capped_s),
        **dict.fromkeys(_UNEVENTFUL, 0),
        **({f"{way}_kib": moved_kib for way in _MOVED} if links else {}),
        **({f"{way}_bytes": moved_kib << 10 for way in _MOVED} if links else {}),
    }


def _states(entry: HardwareDevice, device: Device) -> dict[str, int | float]:
    divisible = {} if device.mig_enabled is None else {"mig_mode": int(device.mig_enabled)}
    return {
        "ecc_corrected_volatile": 0,
        "ecc_corrected_aggregate": 0,
        "ecc_uncorrected_volatile": entry.ecc_uncorrected,
        "ecc_uncorrected_aggregate": entry.ecc_uncorrected,
        **_ecc_of_places(entry.ecc_uncorrected),
        "vgpu_licensed": 0,
        "memory_unrepairable": int(entry.row_remap == "failed"),
        **({"remapped_rows_uncorrected": 0, "remapped_rows_corrected": 0} if _remaps_rows(device) else {}),
        "row_remap_pending": int(entry.row_remap == "pending"),
        "row_remap_failed": int(entry.row_remap == "failed"),
        "recovery_action": int(RecoveryAction[entry.recovery_action.replace("-", "_").upper()]),
        **divisible,
    }


def _ecc_of_places(uncorrected: int) -> dict[str, int]:
    """All errors that the file has are of the device's memory."""
    return {
        f"ecc_{kind}_{since}_{place}": uncorrected if (kind, place) == ("uncorrected", "device") else 0
        for kind in ("corrected", "uncorrected")
        for since in ("volatile", "aggregate")
        for place in ("device", "sram")
    }


def nvlinks_of(hardware: Hardware, index: int) -> int:
    """NVLinks of one device when none is down."""
    if hardware.links:
        return sum(link.nvlinks for link in hardware.links if index in link.gpus)
    return next(gpu_models()[entry.model].nvswitch_links for entry, i in hardware.indexed() if i == index)


def _peers(hardware: Hardware, entry: HardwareDevice, index: int) -> dict[str, int]:
    """The status of NVLink to each other GPU that answers: 0, or 5 (NVML: NVML_P2P_STATUS_NOT_SUPPORTED)."""
    pairs = {frozenset(link.gpus) for link in hardware.links if link.nvlinks}
    up = nvlinks_of(hardware, index) > entry.nvlinks_down
    statuses: dict[str, int] = {}
    for other, place in hardware.indexed():
        if place == index or other.health in ("lost", "hung"):
            continue
        joined = not hardware.links or frozenset((index, place)) in pairs
        peer_up = nvlinks_of(hardware, place) > other.nvlinks_down
        statuses[other.uuid] = 0 if joined and up and peer_up else 5
    return statuses


def _remaps_rows(device: Device) -> bool:
    """Ampere and later do; older devices retire pages."""
    return float(device.compute_capability or 0) >= _ROWS_SINCE


def _memory(total_mib: int, used_mib: int) -> dict[str, int | float]:
    """Nothing is reserved."""
    return {
        "memory_total_mib": total_mib,
        "memory_used_mib": used_mib,
        "memory_free_mib": max(0, total_mib - used_mib),
        "memory_reserved_mib": 0,
        "memory_used_ratio": used_mib / total_mib,
    }
