"""What components say in their own words, by `catalog/messages.toml`, and doctor finds by itself, too."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeReason, Symptom, reason


@reason
class DeviceUnregistered(Symptom, NodeReason):
    code: ClassVar[str] = "device-unregistered"
    alias: ClassVar[str] = "plugin-not-registered"
    node_layer: ClassVar[NodeLayer] = NodeLayer.PLUGIN
    layer: Layer = Layer.PLUGIN
    resource: str | None = None
    resources: tuple[str, ...] | None = None


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


@reason
class ImageNeedsNewerDriver(Symptom, NodeReason):
    code: ClassVar[str] = "image-needs-newer-driver"
    node_layer: ClassVar[NodeLayer] = NodeLayer.WORKLOAD
    layer: Layer = Layer.APPLICATION
    trailing: ClassVar[tuple[str, ...]] = ("container", "driver")
    cuda: str | None = None
    driver: str | None = None


@reason
class LibraryVersionMismatch(Symptom, NodeReason):
    code: ClassVar[str] = "library-version-mismatch"
    node_layer: ClassVar[NodeLayer] = NodeLayer.LIBRARIES
    layer: Layer = Layer.DRIVER
    library: str | None = None
    version: str | None = None
    loaded: str | None = None


@reason
class RuntimeHandlerMissing(Symptom, NodeReason):
    code: ClassVar[str] = "runtime-handler-missing"
    alias: ClassVar[str] = "runtime-class-without-handler"
    node_layer: ClassVar[NodeLayer] = NodeLayer.RUNTIME
    layer: Layer = Layer.RUNTIME
    handler: str | None = None
    handlers: tuple[str, ...] | None = None
    runtime_class: str | None = None


@reason
class ToolkitLdconfigMissing(Symptom, NodeReason):
    code: ClassVar[str] = "toolkit-ldconfig-missing"
    node_layer: ClassVar[NodeLayer] = NodeLayer.RUNTIME
    layer: Layer = Layer.RUNTIME
    path: str | None = None


REASONS: Final[tuple[type[Symptom], ...]] = (
    DeviceUnregistered,
    DriverNotLoaded,
    GpuLost,
    ImageNeedsNewerDriver,
    LibraryVersionMismatch,
    RuntimeHandlerMissing,
    ToolkitLdconfigMissing,
)
