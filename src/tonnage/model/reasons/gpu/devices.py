"""What keeps devices of a node from a pod, though the scheduler may know nothing of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.facts import (
    GpuSet,
)
from tonnage.model.reasons.reason import NodeReason, Reason, reason


@reason
class PluginReason(Reason):
    """What lies in how a node's devices are shared and advertised."""

    layer: Layer = Layer.PLUGIN


@reason
class DeviceUnhealthy(Reason):
    """Unhealthy devices take the room on a node, or a running pod holds one; the reason names which, since
    when and why.
    """

    code: ClassVar[str] = "device-unhealthy"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "do what their reasons ask for"
    layer: Layer = Layer.HARDWARE
    lasting: bool = False
    resource: str | None = None
    capacity: int | None = None
    missing: int | None = None
    devices: tuple[str, ...]


@reason
class GpuConfigRefused(PluginReason, NodeReason):
    """The agent of a node refuses the device-plugin configuration it was given and keeps the last good
    one."""

    code: ClassVar[str] = "gpu-config-refused"
    alias: ClassVar[str] = "gpu-config-not-applied"
    node_layer: ClassVar[NodeLayer] = NodeLayer.PLUGIN
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "correct the configuration"
    problem: str


@reason
class LinksBelowBest(PluginReason):
    """A running pod's GPUs have slower links than others of its node; both sets are named."""

    code: ClassVar[str] = "links-below-best"
    advice: ClassVar[str] = "start it again when the better set is free"
    lasting: bool = False
    node: str
    has: GpuSet
    best: GpuSet


@reason
class MigConfigFailed(PluginReason):
    """The MIG manager could not make a node's layout; the pods that use its GPUs are named."""

    code: ClassVar[str] = "mig-config-failed"
    is_note: ClassVar[bool] = True
    advice: ClassVar[str] = "drain the node and set the label again"
    lasting: bool = False
    config: str
    using: tuple[str, ...]


@reason
class ResourceRenamed(PluginReason):
    """Nodes offer the device under another name: shared, or as MIG profiles."""

    code: ClassVar[str] = "resource-renamed"
    leads: ClassVar[bool] = True
    advice: ClassVar[str] = "ask for that name"
    resource: str
    advertised: Mapping[str, tuple[str, ...]]


REASONS: Final[tuple[type[Reason], ...]] = (
    DeviceUnhealthy,
    GpuConfigRefused,
    LinksBelowBest,
    MigConfigFailed,
    ResourceRenamed,
)
