"""Calls of NVML whose answer is written into a structure of a version, or means more than it says."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from tonnage.adapters.vendors.nvml_reading import optional


class _License:
    """Whether any feature of a vGPU is licensed."""

    def __init__(self, *, licensed: bool) -> None:
        self.featureState = int(licensed)


def _license(nvml: ModuleType, handle: Any) -> _License:
    """DCGM says 0 of a GPU that needs no licence."""
    try:
        features = nvml.nvmlDeviceGetGridLicensableFeatures(handle)
    except nvml.NVMLError_NotSupported:
        return _License(licensed=False)
    count = min(features.licensableFeaturesCount, len(features.gridLicensableFeatures))
    return _License(licensed=any(features.gridLicensableFeatures[i].featureState > 0 for i in range(count)))


def _sram(nvml: ModuleType, handle: Any) -> Any:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return status


class _Fabric:
    """State and health; an error is said of a complete fabric alone."""

    def __init__(self, nvml: ModuleType, fabric: Any) -> None:
        self.state = fabric.state
        self.status = fabric.status if fabric.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED else None
        self.healthSummary = getattr(fabric, "healthSummary", None)


def _fabric(nvml: ModuleType, handle: Any) -> _Fabric:
    fabric = nvml.c_nvmlGpuFabricInfo_v3_t()
    try:
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(fabric))
    except nvml.NVMLError_ArgumentVersionMismatch:
        fabric = nvml.c_nvmlGpuFabricInfo_v2_t()
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(fabric))
    return _Fabric(nvml, fabric)


class _Memory:
    """Bytes, and what is used of those that are not reserved."""

    def __init__(self, memory: Any, reserved: int | None) -> None:
        self.total, self.free, self.used, self.reserved = memory.total, memory.free, memory.used, reserved
        usable = memory.total - (reserved or 0)
        self.ratio = memory.used / usable if usable > 0 else None


def _memory(nvml: ModuleType, handle: Any) -> _Memory:
    """Drivers before 510 count what they reserve as used; it is not known then."""
    memory = optional(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    if memory is None:
        return _Memory(nvml.nvmlDeviceGetMemoryInfo(handle), None)
    return _Memory(memory, memory.reserved)


ANSWERS: Final[Mapping[str, Callable[[ModuleType, Any], Any]]] = {
    "nvmlDeviceGetGridLicensableFeatures": _license,
    "nvmlDeviceGetSramEccErrorStatus": _sram,
    "nvmlDeviceGetGpuFabricInfoV": _fabric,
    "nvmlDeviceGetMemoryInfo_v2": _memory,
}
"""Calls whose answer is written into a structure of a version."""
