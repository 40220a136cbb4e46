"""Kinds of the storage API: classes, drivers, what drivers say of nodes, attachments.

Source: pkg/apis/storage/validation (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.quantity import parse_quantity
from tonnage.twin.apiserver.access import at, mapping, mappings, number, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.go_values import in_go
from tonnage.twin.apiserver.objects.patch import same_json
from tonnage.twin.apiserver.objects.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from tonnage.twin.apiserver.objects.validation.fields import (
    IMMUTABLE,
    INT32,
    NEGATIVE,
    Found,
    in_range,
    label_selector,
    nonnegative,
    one_of_if_set,
    unchanged,
)
from tonnage.twin.apiserver.objects.validation.stored_volumes import inline_volume
from tonnage.twin.apiserver.objects.validation.volume_sources import driver_name

_RECLAIM: Final = ("Delete", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_LIVES: Final = ("Persistent", "Ephemeral")
_MOST_PARAMETERS: Final = 512
_LARGEST_PARAMETERS: Final = 256 * 1024
_LONGEST_NODE_ID: Final = 192
_LONGEST_MESSAGE: Final = 1024
_SHORTEST_TOKEN_S: Final = 600
_LONGEST_TOKEN_S: Final = 1 << 32
_SHORTEST_PERIOD_S: Final = 10
_ONE_OF_TWO: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def storage_class(obj: JsonObject) -> Found:
    """A StorageClass."""
    yield from _provisioner(text(obj, "provisioner"), "provisioner")
    yield from _parameters(mapping(obj, "parameters"))
    for key, supported in (("reclaimPolicy", _RECLAIM), ("volumeBindingMode", _BINDING)):
        if (value := text(obj, key)) not in supported and (value or key == "volumeBindingMode"):
            yield unsupported(key, value, supported)
    yield from _topologies(mappings(obj, "allowedTopologies"))


def _provisioner(name: str, path: str) -> Found:
    if not name:
        yield required(path)
    else:
        yield from complaints(path, name.lower(), names.qualified_name(name.lower()))


def _parameters(found: JsonObject) -> Found:
    if len(found) > _MOST_PARAMETERS:
        yield too_long("parameters", _MOST_PARAMETERS)
        return
    if "" in found:
        yield invalid("parameters", "", "field can not be empty.")
    if (
        sum(len(key.encode()) + len(str(value).encode()) for key, value in found.items())
        > _LARGEST_PARAMETERS
    ):
        yield too_long("parameters", _LARGEST_PARAMETERS)


def _topologies(terms: list[JsonObject]) -> Found:
    # The server begins with as many empty ones as there are.
    known: list[dict[str, set[str]]] = [{} for _ in terms]
    for index, term in enumerate(terms):
        path, wanted = f"allowedTopologies[{index}].matchLabelExpressions", dict[str, set[str]]()
        for place, one in enumerate(mappings(term, "matchLabelExpressions")):
            where, key, values = f"{path}[{place}]", text(one, "key"), texts(one, "values")
            if not values:
                yield required(f"{where}.values")
            for position, value in enumerate(values):
                if value in values[:position]:
                    yield duplicate(f"{where}.values[{position}]", value)
            yield from complaints(f"{where}.key", key, names.qualified_name(key))
            if key in wanted:
                yield duplicate(f"{where}.key", key)
            wanted[key] = set(values)
        yield from [duplicate(path, "")] * known.count(wanted)
        known.append(wanted)


def storage_class_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed StorageClass: what it makes stays."""
    yield from storage_class(new)
    for key in ("parameters", "provisioner", "reclaimPolicy"):
        if (new.get(key) or None) != (old.get(key) or None):
            yield forbidden(key, f"updates to {key} are forbidden.")
    yield from unchanged(new.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")


def attributes_class(obj: JsonObject) -> Found:
    """A VolumeAttributesClass."""
    yield from _provisioner(text(obj, "driverName"), "driverName")
    yield from _parameters(mapping(obj, "parameters"))
    if not mapping(obj, "parameters"):
        yield required("parameters", "must contain at least one key/value pair")


def attributes_class_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed VolumeAttributesClass: nothing but its metadata changes."""
    for key in ("driverName", "parameters"):
        if new.get(key) != old.get(key):
            yield forbidden(key, f"updates to {key} are forbidden.")
    yield from attributes_class(new)


def driver(obj: JsonObject) -> Found:
    """A CSIDriver."""
    spec = mapping(obj, "spec")
    yield from one_of_if_set(spec, "fsGroupPolicy", _GROUP_POLICIES, "spec")
    tokens = mappings(spec, "tokenRequests")
    yield from _tokens(tokens)
    for life in texts(spec, "volumeLifecycleModes"):
        if life not in _LIVES:
            yield unsupported("spec.volumeLifecycleModes", life, _LIVES)
    period = number(spec, "nodeAllocatableUpdatePeriodSeconds", default=_SHORTEST_PERIOD_S)
    if period < _SHORTEST_PERIOD_S:
        words = "must be greater than or equal to 10 seconds"
        yield invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, words)
    if (secrets := spec.get("serviceAccountTokenInSecrets")) is not None and not tokens:
        words = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield invalid("spec.serviceAccountTokenInSecrets", secrets, words)


def _tokens(tokens: list[JsonObject]) -> Found:
    seen: set[str] = set()
    for index, token in enumerate(tokens):
        path, audience = f"spec.tokenRequests[{index}]", text(token, "audience")
        if audience in seen:
            yield duplicate(f"{path}.audience", audience)
            continue
        seen.add(audience)
        seconds, where = number(token, "expirationSeconds", default=_SHORTEST_TOKEN_S), "expirationSeconds"
        if seconds < _SHORTEST_TOKEN_S:
            yield invalid(f"{path}.{where}", seconds, "may not specify a duration less than 10 minutes")
        if seconds > _LONGEST_TOKEN_S:
            yield invalid(f"{path}.{where}", seconds, "may not specify a duration larger than 2^32 seconds")


def driver_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed CSIDriver: whether it attaches and how long its volumes live stays."""
    yield from driver(new)
    for key, path in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes",) * 2):
        yield from unchanged(at(new, "spec", key), at(old, "spec", key), f"spec.{path}")


def node_drivers(obj: JsonObject) -> Found:
    """A CSINode."""
    seen: set[str] = set()
    for index, one in enumerate(mappings(obj, "spec", "drivers")):
        path, name, node = f"spec.drivers[{index}]", text(one, "name"), text(one, "nodeID")
        yield from driver_name(name, f"{path}.name")
        if not node:
            yield required(f"{path}.nodeID")
        if len(node.encode()) > _LONGEST_NODE_ID:
            yield invalid(f"{path}.nodeID", node, f"must be {_LONGEST_NODE_ID} characters or less")
        yield from nonnegative(mapping(one, "allocatable"), "count", f"{path}.allocatable")
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
        keys = texts(one, "topologyKeys")
        for place, key in enumerate(keys):
            if not key:
                yield required(path)
            if key in keys[:place]:
                yield duplicate(path, key)
            yield from complaints(path, key, names.qualified_name(key))


def node_drivers_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed CSINode: a driver may come and go and say how much it takes, but stays what it is."""
    yield from node_drivers(new)
    kept = (("Name", "name"), ("NodeID", "nodeID"), ("TopologyKeys", "topologyKeys"))
    for was in mappings(old, "spec", "drivers"):
        for one in mappings(new, "spec", "drivers"):
            same = all((one.get(key) or None) == (was.get(key) or None) for _, key in kept)
            if text(one, "name") == text(was, "name") and not same:
                shown: JsonObject = {name: one.get(key) for name, key in kept}
                yield invalid("spec.drivers", {**shown, "Allocatable": None}, IMMUTABLE)


def capacity(obj: JsonObject) -> Found:
    """A CSIStorageCapacity."""
    yield from label_selector(mapping(obj, "nodeTopology"), "nodeTopology")
    name = text(obj, "storageClassName")
    yield from complaints("storageClassName", name, names.dns_subdomain(name))
    if (size := obj.get("capacity")) is not None and parse_quantity(str(size)) < 0:
        yield invalid("capacity", str(size), NEGATIVE)


def capacity_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed CSIStorageCapacity: what it is about stays."""
    yield from capacity(new)
    for key in ("nodeTopology", "storageClassName"):
        yield from unchanged(new.get(key), old.get(key), key)


def attachment(obj: JsonObject) -> Found:
    """A new VolumeAttachment."""
    yield from _attachment(obj)
    yield from driver_name(text(obj, "spec", "attacher"), "spec.attacher")
    if isinstance(name := at(obj, "spec", "source", "persistentVolumeName"), str):
        yield from complaints("spec.source.persistentVolumeName", name, names.dns_subdomain(name))


def _attachment(obj: JsonObject) -> Found:
    spec = mapping(obj, "spec")
    if not text(spec, "attacher"):
        yield required("spec.attacher")
    inline, name = (at(spec, "source", key) for key in ("inlineVolumeSpec", "persistentVolumeName"))
    if inline is None and name is None:
        yield required("spec.source", _ONE_OF_TWO)
    elif inline is not None and name is not None:
        yield forbidden("spec.source", _ONE_OF_TWO)
    elif name == "":
        yield required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")
    elif isinstance(inline, dict):
        yield from inline_volume(inline, "spec.source.inlineVolumeSpec")
    node = text(spec, "nodeName")
    yield from complaints("spec.nodeName", node, names.dns_subdomain(node))
    for key in ("attachError", "detachError"):
        path, code = f"status.{key}", at(obj, "status", key, "errorCode")
        if len(text(obj, "status", key, "message").encode()) > _LONGEST_MESSAGE:
            yield too_long(f"{path}.message", _LARGEST_PARAMETERS)
        if isinstance(code, int):
            yield from complaints(f"{path}.errorCode", code, in_range(code, 0, INT32))


def attachment_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed VolumeAttachment: only its status changes."""
    yield from _attachment(new)
    if not same_json(mapping(new, "spec"), mapping(old, "spec")):
        spec = mapping(new, "spec")
        inline = at(spec, "source", "inlineVolumeSpec")
        source: JsonObject = {
            "PersistentVolumeName": at(spec, "source", "persistentVolumeName"),
            "InlineVolumeSpec": None if inline is None else in_go("PersistentVolumeSpec", mapping(inline)),
        }
        shown: JsonObject = {"Attacher": text(spec, "attacher"), "Source": source}
        yield invalid("spec", {**shown, "NodeName": text(spec, "nodeName")}, IMMUTABLE)
