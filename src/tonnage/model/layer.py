"""The layers in which a pod can be refused, and those of a node in finer parts."""

from __future__ import annotations

from enum import StrEnum


class Layer(StrEnum):
    """The layers in the order in which a pod meets them."""

    ADMISSION = "admission"
    QUOTA = "quota"
    SCHEDULER = "scheduler"
    KUBELET = "kubelet"
    PLUGIN = "plugin"
    RUNTIME = "runtime"
    DRIVER = "driver"
    HARDWARE = "hardware"
    APPLICATION = "application"


class NodeLayer(StrEnum):
    """The second level: what lies on a node between a GPU and a program, each on those before it."""

    HARDWARE = "hardware"
    DRIVER = "driver"
    DEVICE_NODES = "device-nodes"
    LIBRARIES = "libraries"
    RUNTIME = "runtime"
    CDI = "cdi"
    KUBELET = "kubelet"
    PLUGIN = "plugin"
    LABELS = "labels"
    WORKLOAD = "workload"

    @property
    def layer(self) -> Layer:
        """The layer of which it is a part. By a Node's labels the scheduler chooses.

        >>> NodeLayer.CDI.layer
        <Layer.RUNTIME: 'runtime'>
        """
        match self:
            case NodeLayer.HARDWARE:
                return Layer.HARDWARE
            case NodeLayer.DRIVER | NodeLayer.DEVICE_NODES | NodeLayer.LIBRARIES:
                return Layer.DRIVER
            case NodeLayer.RUNTIME | NodeLayer.CDI:
                return Layer.RUNTIME
            case NodeLayer.KUBELET:
                return Layer.KUBELET
            case NodeLayer.PLUGIN:
                return Layer.PLUGIN
            case NodeLayer.LABELS:
                return Layer.SCHEDULER
            case NodeLayer.WORKLOAD:
                return Layer.APPLICATION
