"""What is wrong with the driver's libraries on the host."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason
from tonnage.model.severity import Severity


@reason
class LibraryReason(NodeFault):
    """What lies with the driver's libraries."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.LIBRARIES
    layer: Layer = Layer.DRIVER


@reason
class DriverRefuses(LibraryReason):
    """Everything is in its place, but the driver answers with an error."""

    code: ClassVar[str] = "driver-refuses"
    advice: ClassVar[str] = "run `nvidia-smi`; read the kernel's log"
    error: str


@reason
class LibraryMissing(LibraryReason):
    """The driver's NVML or CUDA library is missing."""

    code: ClassVar[str] = "library-missing"
    advice: ClassVar[str] = "install it"
    library: str


@reason
class LibraryNotCached(LibraryReason):
    """The loader's cache does not have a library that is there."""

    code: ClassVar[str] = "library-not-cached"
    advice: ClassVar[str] = "`ldconfig`"
    severity: ClassVar[Severity] = Severity.WARNING
    libraries: tuple[str, ...]


REASONS: Final[tuple[type[NodeReason], ...]] = (
    DriverRefuses,
    LibraryMissing,
    LibraryNotCached,
)
