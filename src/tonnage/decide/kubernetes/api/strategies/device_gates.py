"""Fields about devices that a server of this version takes only with a feature gate, and drops without.

The gates are DRADeviceTaints, DRAPartitionableDevices, DRAConsumableCapacity, DRADeviceBindingConditions and
DRAExtendedResource, all off in 1.35.

Source: PrepareForCreate of pkg/registry/resource/*/strategy.go, pkg/api/resourceclaimspec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import drop, mapping, mappings

_OF_SLICE: Final = ("sharedCounters", "perDeviceNodeSelection")
_OF_DEVICE: Final = (
    "allNodes",
    "allowMultipleAllocations",
    "bindingConditions",
    "bindingFailureConditions",
    "bindsToNode",
    "consumesCounters",
    "nodeName",
    "nodeSelector",
    "taints",
)
_OF_REQUEST: Final = ("capacity", "tolerations")
_OF_RESULT: Final = ("bindingConditions", "bindingFailureConditions", "consumedCapacity", "shareID")


def _class(obj: JsonObject) -> None:
    drop(obj, "spec", "extendedResourceName")


def _claim(obj: JsonObject) -> None:
    _drop_gated_requests(mapping(obj, "spec", "devices"))
    for device_result in mappings(obj, "status", "allocation", "devices", "results"):
        _without(device_result, _OF_RESULT)
    for device in mappings(obj, "status", "devices"):
        drop(device, "shareID")


def _template(obj: JsonObject) -> None:
    _drop_gated_requests(mapping(obj, "spec", "spec", "devices"))


def _slice(obj: JsonObject) -> None:
    _without(mapping(obj, "spec"), _OF_SLICE)
    for device in mappings(obj, "spec", "devices"):
        _without(device, _OF_DEVICE)
        for capacity in mapping(device, "capacity").values():
            drop(mapping(capacity), "requestPolicy")


def _drop_gated_requests(devices: JsonObject) -> None:
    for request in mappings(devices, "requests"):
        for part in (mapping(request, "exactly"), *mappings(request, "firstAvailable")):
            _without(part, _OF_REQUEST)
    for constraint in mappings(devices, "constraints"):
        drop(constraint, "distinctAttribute")


def _without(obj: JsonObject, keys: tuple[str, ...]) -> None:
    for key in keys:
        obj.pop(key, None)


DEVICE_GATES: Final[dict[tuple[str, str], Callable[[JsonObject], None]]] = {
    ("resource.k8s.io", "deviceclasses"): _class,
    ("resource.k8s.io", "resourceclaims"): _claim,
    ("resource.k8s.io", "resourceclaimtemplates"): _template,
    ("resource.k8s.io", "resourceslices"): _slice,
}
"""What drops the fields of an object, by its resource."""


def forget_freed_devices(obj: JsonObject, old: JsonObject) -> None:
    """Drop what drivers have said of devices that a claim has no more."""
    held = [_device(entry) for entry in mappings(obj, "status", "allocation", "devices", "results")]
    had = [_device(entry) for entry in mappings(old, "status", "allocation", "devices", "results")]
    statuses = mappings(obj, "status", "devices")
    remaining = [entry for entry in statuses if _device(entry) in held or _device(entry) not in had]
    if len(remaining) < len(statuses) or not statuses:
        drop(obj, "status", "devices")
        if remaining:
            mapping(obj, "status")["devices"] = list(remaining)


def _device(entry: JsonObject) -> tuple[object, ...]:
    return tuple(entry.get(key) for key in ("driver", "pool", "device"))
