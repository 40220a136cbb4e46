"""PersistentVolumes: size, access, source, and what an update keeps.

Source: pkg/apis/core/validation (ValidatePersistentVolume, v1.35).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.go_values import difference, in_go
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import complaints, forbidden, invalid, required, unsupported
from tonnage.decide.kubernetes.api.validation.fields import IMMUTABLE, FieldErrors, unchanged
from tonnage.decide.kubernetes.api.validation.pods.placement import node_selector
from tonnage.decide.kubernetes.api.validation.storage.volume_claims import (
    NOT_POSITIVE,
    access_modes,
    class_and_mode,
)
from tonnage.decide.kubernetes.api.validation.storage.volume_sources import (
    host_path,
    local_path,
    network_path,
    plugged_in,
)
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, copied, drop, items, mapping, mappings, text
from tonnage.model.kubernetes.quantity import canonical_quantity, parse_quantity

_SOURCES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte",
    "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk",
    "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
"""What may store a volume, in the order in which the server looks."""
_IN_GO: Final = frozenset(key.lower() for key in _SOURCES)
_RULES: Final[dict[str, Callable[[JsonObject, str], FieldErrors]]] = {
    "hostPath": host_path,
    "nfs": network_path,
    "local": local_path,
    "csi": plugged_in,
}
_LABELS_NOW: Final = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
}
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_IMMUTABLE_SOURCE: Final = "spec.persistentvolumesource is immutable after creation\n"


def volume(obj: JsonObject) -> FieldErrors:
    """A PersistentVolume."""
    spec = mapping(obj, "spec")
    yield from _modes(spec, "spec")
    yield from _capacity(mapping(spec, "capacity"))
    policy = text(spec, "persistentVolumeReclaimPolicy")
    if policy and policy not in _RECLAIM:
        yield unsupported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM)
    affinity = spec.get("nodeAffinity")
    if isinstance(affinity, dict):
        if isinstance(required_nodes := affinity.get("required"), dict):
            yield from node_selector(required_nodes, "spec.nodeAffinity.required")
        else:
            yield required("spec.nodeAffinity.required", "must specify required node constraints")
    yield from _source(spec, "spec")
    yield from class_and_mode(spec, "spec")
    yield from _attributes_class(spec, "spec")


def _modes(spec: JsonObject, path: str) -> FieldErrors:
    if not items(spec, "accessModes"):
        yield required(f"{path}.accessModes")
    yield from access_modes(spec, path)


def _capacity(amounts: JsonObject) -> FieldErrors:
    path = "spec.capacity"
    if not amounts:
        yield required(path)
    if amounts.keys() != {"storage"}:
        yield unsupported(path, dict(amounts) or None, ("storage",))
    for name, quantity in sorted(amounts.items()):
        amount = parse_quantity(str(quantity))
        if amount < 0:
            yield invalid(f"{path}[{name}]", int(amount), "must be a valid resource quantity")
        if amount <= 0:
            yield invalid(f"{path}[{name}]", canonical_quantity(str(quantity)), NOT_POSITIVE)


def _source(spec: JsonObject, path: str) -> FieldErrors:
    """The one source that a volume has; of a FlexVolume the server does not ask whether it is alone."""
    checked = False
    for key in _SOURCES:
        if spec.get(key) is None:
            continue
        if checked and key != "flexVolume":
            shown = "cephFS" if key == "cephfs" else key
            yield forbidden(f"{path}.{shown}", "may not specify more than 1 volume type")
            continue
        checked = True
        if rule := _RULES.get(key):
            yield from rule(mapping(spec, key), f"{path}.{key}")
        if key == "local" and spec.get("nodeAffinity") is None:
            yield required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    if not checked:
        yield required(path, "must specify a volume type")
    policy, root = text(spec, "persistentVolumeReclaimPolicy"), text(spec, "hostPath", "path")
    if policy == "Recycle" and root and posixpath.normpath(root) in ("/", "//"):
        words = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden(f"{path}.persistentVolumeReclaimPolicy", words)


def _attributes_class(spec: JsonObject, path: str) -> FieldErrors:
    name = spec.get("volumeAttributesClassName")
    if name == "":
        yield required(f"{path}.volumeAttributesClassName", "an empty string is disallowed")
    elif isinstance(name, str):
        yield from complaints(f"{path}.volumeAttributesClassName", name, names.dns_subdomain(name))
    if name is not None and spec.get("csi") is None:
        yield required(f"{path}.csi", "has to be specified when using volumeAttributesClassName")


def volume_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed PersistentVolume: what stores it stays. The server looks at the new one twice."""
    yield from volume(new)
    yield from volume(new)
    source, was = (_source_of(mapping(version, "spec")) for version in (new, old))
    if at(was, "csi") is not None and at(was, "csi", "controllerExpandSecretRef") is None:
        source = copied(source)
        drop(source, "csi", "controllerExpandSecretRef")
    if not same_json(source, was):
        shown = difference(_source_in_go(was), _source_in_go(source))
        yield forbidden("spec.persistentvolumesource", _IMMUTABLE_SOURCE + shown)
    yield from unchanged(at(new, "spec", "volumeMode"), at(old, "spec", "volumeMode"), "volumeMode")
    affinity, before = at(new, "spec", "nodeAffinity"), at(old, "spec", "nodeAffinity")
    if before is not None and not same_json(affinity, _renewed(before, affinity)):
        now = None if affinity is None else in_go("VolumeNodeAffinity", mapping(affinity))
        yield invalid("nodeAffinity", now, f"{IMMUTABLE}, except for updating from beta label to GA")
    key = "volumeAttributesClassName"
    if at(old, "spec", key) is not None and at(new, "spec", key) is None:
        yield forbidden(f"spec.{key}", "update from non-nil value to nil is forbidden")


def _renewed(before: JsonValue, affinity: JsonValue) -> JsonValue:
    """Which nodes reached a volume, with its labels of old called as they are now where the new one does."""
    renewed, path = copied(mapping(before)), ("required", "nodeSelectorTerms")
    for term, now in zip(mappings(renewed, *path), mappings(affinity, *path), strict=False):
        for key in ("matchExpressions", "matchFields"):
            for requirement, other in zip(mappings(term, key), mappings(now, key), strict=False):
                # To the server what has no other name is called nothing at all.
                if _LABELS_NOW.get(text(requirement, "key"), "") == text(other, "key"):
                    requirement["key"] = text(other, "key")
    return renewed


def _source_of(spec: JsonObject) -> JsonObject:
    return {key: spec[key] for key in _SOURCES if spec.get(key) is not None}


def _source_in_go(source: JsonObject) -> JsonObject:
    shown = in_go("PersistentVolumeSpec", source)
    return {name: value for name, value in shown.items() if name.lower() in _IN_GO}
