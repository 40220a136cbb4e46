"""Calls of NVML whose answer is written into a structure of a version, or means more than it says."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final
from uuid import UUID

from tonnage.adapters.vendors.nvml_reading import optional

_UNKNOWN_PLACE: Final = 0xFF


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
    """State and health; an error, the clique and the cluster are said of a complete fabric alone."""

    def __init__(self, nvml: ModuleType, fabric: Any) -> None:
        complete = fabric.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED
        self.state = fabric.state
        self.status = fabric.status if complete else None
        self.cliqueId = fabric.cliqueId if complete else None
        self.clusterUuid = str(UUID(bytes=bytes(fabric.clusterUuid))) if complete else None
        self.healthMask = fabric.healthMask
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


class _Platform:
    """Where the GPU stands in a rack; what the driver does not know there is all ones, and None here."""

    def __init__(self, raw: bytes) -> None:
        guid, serial, places = raw[4:20], raw[20:36], raw[36:41]
        self.ibGuid = f"0x{int.from_bytes(guid[:8], sys.byteorder):016x}"
        blank = not serial[0] or serial == b"\xff" * len(serial)
        self.chassisSerialNumber = None if blank else serial.split(b"\0")[0].decode("ascii", "replace")
        self.slotNumber, self.trayIndex, self.hostId, self.peerType, self.moduleId = (
            None if place == _UNKNOWN_PLACE else place for place in places
        )


def _platform(nvml: ModuleType, handle: Any) -> _Platform:
    """By bytes: the bindings end its texts at the first zero."""
    platform = nvml.c_nvmlPlatformInfo_v2_t()
    nvml.nvmlDeviceGetPlatformInfo(handle, ctypes.byref(platform))
    return _Platform(bytes(platform))


def _inforom(nvml: ModuleType, handle: Any) -> int:
    """Whether it is sound; that it is not is an answer, too."""
    try:
        nvml.nvmlDeviceValidateInforom(handle)
    except nvml.NVMLError_CorruptedInforom:
        return 0
    return 1


ANSWERS: Final[Mapping[str, Callable[[ModuleType, Any], Any]]] = {
    "nvmlDeviceGetGridLicensableFeatures": _license,
    "nvmlDeviceGetSramEccErrorStatus": _sram,
    "nvmlDeviceGetGpuFabricInfoV": _fabric,
    "nvmlDeviceGetMemoryInfo_v2": _memory,
    "nvmlDeviceGetPlatformInfo": _platform,
    "nvmlDeviceValidateInforom": _inforom,
}
"""Calls whose answer is written into a structure of a version."""
