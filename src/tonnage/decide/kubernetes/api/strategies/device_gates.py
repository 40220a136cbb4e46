"""Fields about devices that a server takes only with a feature gate, and drops without.

Source: PrepareForCreate of pkg/registry/resource/*/strategy.go, pkg/api/resourceclaimspec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import drop, mapping, mappings
from tonnage.model.kubernetes.feature_gates import (
    CONDITIONS,
    EXTENDED,
    PARTITIONS,
    SHARES,
    TAINTS,
    FeatureGates,
)

_OF_SLICE: Final = {"sharedCounters": PARTITIONS, "perDeviceNodeSelection": PARTITIONS}
_OF_DEVICE: Final = {
    "allNodes": PARTITIONS,
    "allowMultipleAllocations": SHARES,
    "bindingConditions": CONDITIONS,
    "bindingFailureConditions": CONDITIONS,
    "bindsToNode": CONDITIONS,
    "consumesCounters": PARTITIONS,
    "nodeName": PARTITIONS,
    "nodeSelector": PARTITIONS,
    "taints": TAINTS,
}
_OF_REQUEST: Final = {"capacity": SHARES, "tolerations": TAINTS}
_OF_RESULT: Final = {
    "bindingConditions": CONDITIONS,
    "bindingFailureConditions": CONDITIONS,
    "consumedCapacity": SHARES,
    "shareID": SHARES,
}


def _class(obj: JsonObject, gates: FeatureGates) -> None:
    if not gates.has(EXTENDED):
        drop(obj, "spec", "extendedResourceName")


def _claim(obj: JsonObject, gates: FeatureGates) -> None:
    _drop_gated_requests(mapping(obj, "spec", "devices"), gates)
    for device_result in mappings(obj, "status", "allocation", "devices", "results"):
        _without(device_result, _OF_RESULT, gates)
    for device in mappings(obj, "status", "devices"):
        _without(device, {"shareID": SHARES}, gates)


def _template(obj: JsonObject, gates: FeatureGates) -> None:
    _drop_gated_requests(mapping(obj, "spec", "spec", "devices"), gates)


def _slice(obj: JsonObject, gates: FeatureGates) -> None:
    _without(mapping(obj, "spec"), _OF_SLICE, gates)
    for device in mappings(obj, "spec", "devices"):
        _without(device, _OF_DEVICE, gates)
        for capacity in mapping(device, "capacity").values():
            _without(mapping(capacity), {"requestPolicy": SHARES}, gates)


def _drop_gated_requests(devices: JsonObject, gates: FeatureGates) -> None:
    for request in mappings(devices, "requests"):
        for part in (mapping(request, "exactly"), *mappings(request, "firstAvailable")):
            _without(part, _OF_REQUEST, gates)
    for constraint in mappings(devices, "constraints"):
        _without(constraint, {"distinctAttribute": SHARES}, gates)


def _without(obj: JsonObject, gate_of: Mapping[str, str], gates: FeatureGates) -> None:
    """Drop the fields whose gates are off."""
    for key, gate in gate_of.items():
        if not gates.has(gate):
            obj.pop(key, None)


DEVICE_GATES: Final[dict[tuple[str, str], Callable[[JsonObject, FeatureGates], None]]] = {
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
