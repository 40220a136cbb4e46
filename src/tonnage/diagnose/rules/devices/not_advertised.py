"""SCH-3: a device that no node offers is no matter of capacity; the layer below the scheduler is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.claims.extended_resources import backed_by_classes
from tonnage.decide.kubernetes.claims.supply import classes_by_resource
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.case import Case, device_needs, is_offered
from tonnage.diagnose.related_resources import class_remedy, misspelt, related_names
from tonnage.model.devices.claims import DRIVER
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.kubernetes.feature_gates import EXTENDED
from tonnage.model.kubernetes.resource_claims import CLASS_RESOURCE
from tonnage.model.layer import Layer
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.model.reasons.pod.claims import DeviceClassMissing
from tonnage.model.reasons.pod.scheduling import ResourceNotAdvertised
from tonnage.model.reasons.reason import Reason

_VENDOR: Final = "nvidia.com"
_PRESENT: Final = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
"""Labels that say a GPU sits in the node, set by the operator and by node feature discovery."""
_DRIVER: Final = ("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver-version.major")
"""Labels that GPU feature discovery can set only with a working driver."""


def reasons(case: Case) -> Iterator[Reason]:
    """A reason for every device resource that the pod needs and no node offers under any name."""
    if not case.view.nodes:
        return
    by_class = backed_by_classes(case.pod, case.view.supply)
    for name in device_needs(case.pod):
        if name in by_class or is_offered(case.view, name):
            continue
        missing = name.removeprefix(CLASS_RESOURCE) if name.startswith(CLASS_RESOURCE) else ""
        if (
            missing
            and missing not in case.view.supply.classes
            and "DeviceClass" not in case.view.snapshot.missing
        ):
            yield _class_missing(name, missing, case.view)
        elif not related_names(name, case.view):
            yield _reason(name, case.view)


def claims_alone(resource: str, node: Node, view: ClusterView) -> bool:
    """Whether the node offers GPUs of the resource's vendor as claims, and none by a plugin."""
    slices = view.supply.by_node.get(node.name, ())
    return _is_vendors(resource) and not _works(node) and any(part.driver == DRIVER for part in slices)


def _class_missing(resource: str, name: str, view: ClusterView) -> Reason:
    return DeviceClassMissing(
        subject=f"Resource {resource}",
        message=f"{resource} stands for the DeviceClass {name}, which does not exist",
        remedy=class_remedy(name, view.supply.classes),
        source="DeviceClasses",
        claims=(),
    )


def layer_for(resource: str, node: Node, status: GpuStatus | None) -> Layer | None:
    """The layer to look at on a node that should offer this resource; None when nothing says that it should.

    Labels and status are of NVIDIA's devices. A node that offers any of them has a plugin that works.
    """
    return layer_of(node, status) if _is_vendors(resource) and not _works(node) else None


def _is_vendors(resource: str) -> bool:
    return resource.startswith(f"{_VENDOR}/")


def _works(node: Node) -> bool:
    """Whether a plugin offers any of the vendor's devices there."""
    return any(amount > 0 and _is_vendors(name) for name, amount in node.allocatable.items())


def layer_of(node: Node, status: GpuStatus | None) -> Layer | None:
    """The layer to look at on a node that offers none of its devices; None when nothing says it has any."""
    if status is not None and status.devices and not any(device.healthy for device in status.devices):
        return Layer.HARDWARE
    present = any(node.labels.get(label) == "true" for label in _PRESENT)
    if status is not None and status.devices:
        return Layer.PLUGIN
    if not present:
        return None
    return Layer.PLUGIN if any(label in node.labels for label in _DRIVER) else Layer.DRIVER


def _reason(resource: str, view: ClusterView) -> Reason:
    with_capacity = [name for name, node in view.nodes.items() if node.node.capacity.get(resource, 0) > 0]
    layers = {
        name: layer
        for name, node in view.nodes.items()
        if (layer := layer_for(resource, node.node, view.snapshot.gpu.get(name))) is not None
    }
    # Where nodes differ, the layer where the least is missing.
    order = (Layer.PLUGIN, Layer.DRIVER, Layer.HARDWARE)
    layer = next((layer for layer in order if layer in layers.values()), None)
    claiming = sorted(name for name, node in view.nodes.items() if claims_alone(resource, node.node, view))
    meant = "" if layers else misspelt(resource, sorted(_offered(view)))
    remedy = ""
    device_class = classes_by_resource(view.supply.classes.values()).get(resource, "")
    if device_class:
        message = f"the DeviceClass {device_class} stands for it only with the gate {EXTENDED}"
        gate = f"turn on {EXTENDED} (on since 1.36)"
        layer, remedy = Layer.SCHEDULER, f"claim devices of class {device_class} by resourceClaims, or {gate}"
    elif with_capacity:
        message = (
            f"nodes with capacity but nothing allocatable: {listed(with_capacity)} "
            "(devices unhealthy, or the plugin is gone)"
        )
    elif claiming and not meant and layers.keys() <= set(claiming):
        message = f"nodes offer their GPUs as claims instead: {listed(claiming)}"
        layer, remedy = Layer.PLUGIN, CLAIM_INSTEAD
    elif layers:
        message = f"nodes that have a GPU by their labels, but offer none: {listed(sorted(layers))}"
    elif meant:
        message = f"nodes offer {meant}, which may be what you mean"
        layer, remedy = Layer.SCHEDULER, f"ask for {meant}"
    else:
        message = "no node is known to have such a device"
    return ResourceNotAdvertised(
        subject=f"Resource {resource}",
        message=f"no node advertises {resource}; {message}",
        remedy=remedy or _REMEDIES[layer],
        source="Node status.allocatable and labels",
        layer=layer or Layer.PLUGIN,
        lasting=not with_capacity,
        resource=resource,
        nodes_with_gpu=tuple(sorted({*layers, *claiming})),
        nodes_with_capacity=tuple(with_capacity),
        meant=meant or None,
    )


def _offered(view: ClusterView) -> set[str]:
    return {name for node in view.nodes.values() for name, n in node.node.allocatable.items() if n > 0}


CLAIM_INSTEAD: Final = "claim them instead of counting: tonnage migrate dra FILE shows how"
"""What to do where GPUs are offered as claims alone."""
_REMEDIES: Final = {
    Layer.PLUGIN: "check that the device plugin's pod on those nodes is ready, and read its log; "
    "tonnage doctor there names the fault",
    Layer.DRIVER: "check the driver's pod or package on those nodes, where no driver answers; "
    "tonnage doctor there names the fault",
    Layer.HARDWARE: "read the health reasons in the nodes' NodeGPUStatus (tonnage status): every device is "
    "reported unhealthy",
    None: "add nodes with such devices, or install the device plugin on those that have them",
}
