"""What the driver, CUDA and images say in their own words, by `catalog/messages.toml`."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeReason, Symptom, reason


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


@reason
class DriverNotLoaded(Symptom, NodeReason):
    code: ClassVar[str] = "driver-not-loaded"
    node_layer: ClassVar[NodeLayer] = NodeLayer.DRIVER
    layer: Layer = Layer.DRIVER
    module: str | None = None


@reason
class GpuLost(Symptom, NodeReason):
    code: ClassVar[str] = "gpu-lost"
    alias: ClassVar[str] = "gpu-off-the-bus"
    node_layer: ClassVar[NodeLayer] = NodeLayer.HARDWARE
    layer: Layer = Layer.HARDWARE
    device: str | None = None


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
class ImageNeedsNewerDriver(Symptom, NodeReason):
    code: ClassVar[str] = "image-needs-newer-driver"
    node_layer: ClassVar[NodeLayer] = NodeLayer.WORKLOAD
    layer: Layer = Layer.APPLICATION
    trailing: ClassVar[tuple[str, ...]] = ("container", "driver")
    cuda: str | None = None
    driver: str | None = None


@reason
class ImageNeedsOtherGpu(Symptom):
    code: ClassVar[str] = "image-needs-other-gpu"
    trailing: ClassVar[tuple[str, ...]] = ("container", "driver", "cuda")
    condition: str | None = None
    driver: str | None = None
    cuda: str | None = None


class InforomCorrupted(Symptom):
    code: ClassVar[str] = "inforom-corrupted"


@reason
class LibraryVersionMismatch(Symptom, NodeReason):
    code: ClassVar[str] = "library-version-mismatch"
    node_layer: ClassVar[NodeLayer] = NodeLayer.LIBRARIES
    layer: Layer = Layer.DRIVER
    library: str | None = None
    version: str | None = None
    loaded: str | None = None


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
