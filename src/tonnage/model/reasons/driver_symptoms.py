"""What the driver, CUDA and images say in their own words, by `catalog/messages.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from tonnage.model.reasons.reason import Symptom


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class VersionSymptom(Symptom):
    """Where the image's versions and the node's decide."""

    driver: str | None = None
    cuda: str | None = None
    trailing: ClassVar[tuple[str, ...]] = ("container", "driver", "cuda")


class CudaCompatMismatch(VersionSymptom):
    __slots__ = ()
    code: ClassVar[str] = "cuda-compat-mismatch"


class CudaDeviceBusy(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "cuda-device-busy"


class CudaDriverTooOld(VersionSymptom):
    __slots__ = ()
    code: ClassVar[str] = "cuda-driver-too-old"


class CudaNoDevice(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "cuda-no-device"


class CudaNoKernelImage(VersionSymptom):
    __slots__ = ()
    code: ClassVar[str] = "cuda-no-kernel-image"


class CudaNotInitialized(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "cuda-not-initialized"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CudaOutOfMemory(Symptom):
    code: ClassVar[str] = "cuda-out-of-memory"
    trailing: ClassVar[tuple[str, ...]] = ("container", "neighbours")
    neighbours: tuple[str, ...] | None = None


class CudaProgramError(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "cuda-program-error"


class CudaPtxTooNew(VersionSymptom):
    __slots__ = ()
    code: ClassVar[str] = "cuda-ptx-too-new"


class CudaSystemError(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "cuda-system-error"


class DriverLibraryMissing(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "driver-library-missing"


class DriverNotAnswering(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "driver-not-answering"


class DriverNotLoaded(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "driver-not-loaded"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GpuLost(Symptom):
    code: ClassVar[str] = "gpu-lost"
    device: str | None = None


class GpuMemoryError(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "gpu-memory-error"


class GpuNeedsReset(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "gpu-needs-reset"


class GpuPowerCable(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "gpu-power-cable"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GpuXid(Symptom):
    code: ClassVar[str] = "gpu-xid"
    device: str | None = None
    xid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ImageNeedsNewerDriver(Symptom):
    code: ClassVar[str] = "image-needs-newer-driver"
    trailing: ClassVar[tuple[str, ...]] = ("container", "driver")
    cuda: str | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ImageNeedsOtherGpu(Symptom):
    code: ClassVar[str] = "image-needs-other-gpu"
    trailing: ClassVar[tuple[str, ...]] = ("container", "driver", "cuda")
    condition: str | None = None
    driver: str | None = None
    cuda: str | None = None


class InforomCorrupted(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "inforom-corrupted"


class LibraryVersionMismatch(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "library-version-mismatch"


class MpsNotServing(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "mps-not-serving"


class NoDevicesFound(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "no-devices-found"


class NvmlNotSupported(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "nvml-not-supported"


class NvmlPermission(Symptom):
    __slots__ = ()
    code: ClassVar[str] = "nvml-permission"


REASONS: Final[tuple[type[Symptom], ...]] = (
    CudaCompatMismatch,
    CudaDeviceBusy,
    CudaDriverTooOld,
    CudaNoDevice,
    CudaNoKernelImage,
    CudaNotInitialized,
    CudaOutOfMemory,
    CudaProgramError,
    CudaPtxTooNew,
    CudaSystemError,
    DriverLibraryMissing,
    DriverNotAnswering,
    DriverNotLoaded,
    GpuLost,
    GpuMemoryError,
    GpuNeedsReset,
    GpuPowerCable,
    GpuXid,
    ImageNeedsNewerDriver,
    ImageNeedsOtherGpu,
    InforomCorrupted,
    LibraryVersionMismatch,
    MpsNotServing,
    NoDevicesFound,
    NvmlNotSupported,
    NvmlPermission,
)
