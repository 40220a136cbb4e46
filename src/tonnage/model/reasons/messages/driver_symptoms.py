"""What the driver, CUDA and images say in their own words, by `catalog/messages.toml`."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.reasons.reason import Symptom, reason


@reason
class VersionSymptom(Symptom):
    """Where the image's versions and the node's decide."""

    driver: str | None = None
    cuda: str | None = None
    trailing: ClassVar[tuple[str, ...]] = ("container", "driver", "cuda")


class CudaCompatMismatch(VersionSymptom):
    code: ClassVar[str] = "cuda-compat-mismatch"


class CudaDeviceBusy(Symptom):
    code: ClassVar[str] = "cuda-device-busy"


class CudaDriverTooOld(VersionSymptom):
    code: ClassVar[str] = "cuda-driver-too-old"


class CudaNoDevice(Symptom):
    code: ClassVar[str] = "cuda-no-device"


class CudaNoKernelImage(VersionSymptom):
    code: ClassVar[str] = "cuda-no-kernel-image"


class CudaNotInitialized(Symptom):
    code: ClassVar[str] = "cuda-not-initialized"


@reason
class CudaOutOfMemory(Symptom):
    code: ClassVar[str] = "cuda-out-of-memory"
    trailing: ClassVar[tuple[str, ...]] = ("container", "neighbours")
    neighbours: tuple[str, ...] | None = None


class CudaProgramError(Symptom):
    code: ClassVar[str] = "cuda-program-error"


class CudaPtxTooNew(VersionSymptom):
    code: ClassVar[str] = "cuda-ptx-too-new"


class CudaSystemError(Symptom):
    code: ClassVar[str] = "cuda-system-error"


class DriverLibraryMissing(Symptom):
    code: ClassVar[str] = "driver-library-missing"


class DriverNotAnswering(Symptom):
    code: ClassVar[str] = "driver-not-answering"


class GpuMemoryError(Symptom):
    code: ClassVar[str] = "gpu-memory-error"


class GpuNeedsReset(Symptom):
    code: ClassVar[str] = "gpu-needs-reset"


class GpuPowerCable(Symptom):
    code: ClassVar[str] = "gpu-power-cable"


@reason
class GpuXid(Symptom):
    code: ClassVar[str] = "gpu-xid"
    device: str | None = None
    xid: str | None = None


@reason
class ImageNeedsOtherGpu(Symptom):
    code: ClassVar[str] = "image-needs-other-gpu"
    trailing: ClassVar[tuple[str, ...]] = ("container", "driver", "cuda")
    condition: str | None = None
    driver: str | None = None
    cuda: str | None = None


class InforomCorrupted(Symptom):
    code: ClassVar[str] = "inforom-corrupted"


class MpsNotServing(Symptom):
    code: ClassVar[str] = "mps-not-serving"


class NoDevicesFound(Symptom):
    code: ClassVar[str] = "no-devices-found"


class NvmlNotSupported(Symptom):
    code: ClassVar[str] = "nvml-not-supported"


class NvmlPermission(Symptom):
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
    GpuMemoryError,
    GpuNeedsReset,
    GpuPowerCable,
    GpuXid,
    ImageNeedsOtherGpu,
    InforomCorrupted,
    MpsNotServing,
    NoDevicesFound,
    NvmlNotSupported,
    NvmlPermission,
)
