"""What is wrong with the GPUs that running containers have."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.facts import MIB
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason
from tonnage.model.severity import Severity


@reason
class ContainerReason(NodeFault):
    """What lies with a container that runs."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.WORKLOAD
    layer: Layer = Layer.APPLICATION
    lasting: bool = False


@reason
class ContainerWithForeignGpu(ContainerReason):
    """A container has the nodes of a GPU that it was not given."""

    code: ClassVar[str] = "container-with-foreign-gpu"
    advice: ClassVar[str] = "make another runtime the default, or use CDI"
    container: str
    paths: tuple[str, ...]


@reason
class ContainerWithoutGpu(ContainerReason):
    """A container lacks the nodes of a GPU that it was given."""

    code: ClassVar[str] = "container-without-gpu"
    advice: ClassVar[str] = "correct the runtime or CDI, then delete the pod"
    container: str
    paths: tuple[str, ...]


@reason
class CudaVisibleDevicesMismatch(ContainerReason):
    """`CUDA_VISIBLE_DEVICES` names what the container does not have."""

    code: ClassVar[str] = "cuda-visible-devices-mismatch"
    advice: ClassVar[str] = "remove it from the manifest"
    container: str
    value: str
    gpus: int


@reason
class GpuMemoryCrowded(ContainerReason):
    """A GPU's memory is nearly full, and several containers share it."""

    code: ClassVar[str] = "gpu-memory-crowded"
    advice: ClassVar[str] = "use fewer replicas, MIG or MPS"
    severity: ClassVar[Severity] = Severity.WARNING
    device: str
    used: Annotated[int, MIB]
    memory: Annotated[int, MIB]
    containers: tuple[str, ...]


@reason
class ImageWithoutCodeForGpu(ContainerReason):
    """An image's CUDA has no code for the GPU."""

    code: ClassVar[str] = "image-without-code-for-gpu"
    advice: ClassVar[str] = "use another image or another GPU"
    severity: ClassVar[Severity] = Severity.WARNING
    container: str
    cuda: str
    capability: str


@reason
class VisibleDevicesMismatch(ContainerReason):
    """`NVIDIA_VISIBLE_DEVICES` names other GPUs than were given."""

    code: ClassVar[str] = "visible-devices-mismatch"
    advice: ClassVar[str] = "remove it from the manifest"
    container: str
    devices: tuple[str, ...]
    given: tuple[str, ...]


REASONS: Final[tuple[type[NodeReason], ...]] = (
    ContainerWithForeignGpu,
    ContainerWithoutGpu,
    CudaVisibleDevicesMismatch,
    GpuMemoryCrowded,
    ImageWithoutCodeForGpu,
    VisibleDevicesMismatch,
)
