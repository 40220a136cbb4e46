"""Kinds that describe the cluster: nodes, namespaces, configuration, quotas, priorities, leases."""

from __future__ import annotations

import base64
import re
from operator import ne
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.encoding.body import UNREAD, BodyError, parse_json
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    duplicate,
    forbidden,
    internal,
    invalid,
    quoted,
    required,
    too_long,
)
from tonnage.decide.kubernetes.api.validation.fields import (
    PREEMPTION,
    FieldErrors,
    one_of,
    standard_finalizer,
    taints,
    unchanged,
)
from tonnage.decide.kubernetes.api.validation.network.addresses import legacy_range, parsed_range
from tonnage.decide.kubernetes.api.validation.resources import amount
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, flag, items, mapping, mappings, number, text, texts
from tonnage.model.names import SYSTEM_PRIORITIES

LARGEST_DATA: Final = 1024 * 1024
"""Bytes that all values of a ConfigMap or Secret may take."""
_HIGHEST_PRIORITY: Final = 1_000_000_000
_IMMUTABLE_DATA: Final = "field is immutable when `immutable` is set"
_FEATURE: Final = "[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*"
_FEATURE_WORDS: Final = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature "
    "or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_REDACTED: Final = "<secret contents redacted>"
_SECRET_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""Keys that a Secret of a type must have."""


def node(obj: JsonObject) -> FieldErrors:
    """A Node; the server names taints by a path under metadata."""
    yield from taints(mappings(obj, "spec", "taints"), "metadata.taints")
    yield from _node_resources(obj)
    swap = at(obj, "status", "nodeInfo", "swap", "capacity")
    if isinstance(swap, int) and swap <= 0:
        yield invalid("metadata.nodeSwapStatus.capacity", swap, "must be greater than zero")
    yield from _pod_ranges(obj)


def _node_resources(obj: JsonObject) -> FieldErrors:
    for key in ("capacity", "allocatable"):
        for name, quantity in sorted(mapping(obj, "status", key).items()):
            yield from amount(name, str(quantity), f"status.{key}.{name}")


def _pod_ranges(obj: JsonObject) -> FieldErrors:
    """Addresses that pods of a node get, of each family one range."""
    path, ranges = "spec.podCIDRs", texts(obj, "spec", "podCIDRs")
    for index, shown in enumerate(ranges):
        yield from legacy_range(shown, f"{path}[{index}]")
    if len(ranges) < 2:
        return
    bad = next((index for index, shown in enumerate(ranges) if parsed_range(shown) is None), None)
    if bad is not None:
        detail = f"invalid CIDR[{bad}]: <nil> (invalid CIDR address: {ranges[bad]})"
        why = f"invalid PodCIDRs. failed to check with dual stack with error:{detail}"
        yield internal(path, why)
    families = {network.version for network in map(parsed_range, ranges) if network is not None}
    if bad is not None or len(families) < 2 or len(ranges) > 2:
        yield invalid(path, list(ranges), "may specify no more than one CIDR for each IP family")


def node_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed Node, which is checked like a new one, too."""
    yield from node(new)
    yield from node_status_update(new, old)


def node_status_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """What a Node is said to be: its pod network and its provider's id stay once they are set."""
    yield from _node_resources(new)
    addresses: list[JsonObject] = []
    for index, address in enumerate(mappings(new, "status", "addresses")):
        if address in addresses:
            shown: JsonObject = {"Type": text(address, "type"), "Address": text(address, "address")}
            yield duplicate(f"status.addresses[{index}]", shown)
        addresses.append(address)
    before, ranges = items(old, "spec", "podCIDRs"), items(new, "spec", "podCIDRs")
    changed = 1 if len(before) != len(ranges) else sum(map(ne, before, ranges))
    for _ in range(changed if before else 0):
        yield forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    provider = text(old, "spec", "providerID")
    if provider and provider != text(new, "spec", "providerID"):
        yield forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
    yield from taints(mappings(new, "spec", "taints"), "metadata.taints")
    yield from _features(texts(new, "status", "declaredFeatures"), "status.declaredFeatures")
    if text(new, "spec", "externalID") != text(old, "spec", "externalID"):
        yield forbidden("spec.externalID", "may not be updated")


def _features(features: list[str], path: str) -> FieldErrors:
    """What a node can do, in order."""
    for index, name in enumerate(features):
        if not re.fullmatch(_FEATURE, name):
            yield invalid(f"{path}[{index}]", name, f"invalid feature name {quoted(name)}: {_FEATURE_WORDS}")
        for following in features[index + 1 : index + 2]:
            if following == name:
                yield duplicate(f"{path}[{index + 1}]", following)
            elif following < name:
                yield invalid(f"{path}[{index + 1}]", following, "list must be sorted alphabetically")


def namespace(obj: JsonObject) -> FieldErrors:
    """A Namespace's finalizers."""
    for name in texts(obj, "spec", "finalizers"):
        yield from complaints("spec.finalizers", name, names.qualified_name(name))
        yield from standard_finalizer(name, "spec.finalizers")


def namespace_finalizers(new: JsonObject, _old: JsonObject) -> FieldErrors:
    """What a Namespace still waits for, as its `finalize` is told."""
    for index, name in enumerate(texts(new, "spec", "finalizers")):
        yield from complaints(f"spec.finalizers[{index}]", name, names.qualified_name(name))
        yield from standard_finalizer(name, f"spec.finalizers[{index}]")


def namespace_status_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A Namespace's phase, which follows from its deletion."""
    phase = text(new, "status", "phase")
    deleted = bool(mapping(new, "metadata").get("deletionTimestamp"))
    if not deleted and phase != "Active":
        yield invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")
    if deleted and phase != "Terminating":
        yield invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")


def config_map(obj: JsonObject) -> FieldErrors:
    """A ConfigMap's keys and size."""
    values, binary = mapping(obj, "data"), mapping(obj, "binaryData")
    for key in sorted(values):
        yield from complaints(f"data[{key}]", key, names.config_key(key))
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in sorted(binary):
        yield from complaints(f"binaryData[{key}]", key, names.config_key(key))
    size = sum(len(str(value).encode()) for value in values.values()) + sum(
        map(_decoded_size, binary.values())
    )
    if size > LARGEST_DATA:
        yield too_long("[]", LARGEST_DATA)  # So the server names the object itself.


def _decoded_size(value: object) -> int:
    return len(base64.b64decode(str(value)))


def immutable_data(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A ConfigMap or Secret that says that it never changes."""
    if not flag(old, "immutable"):
        return
    if not flag(new, "immutable"):
        yield forbidden("immutable", _IMMUTABLE_DATA)
    for key in ("data", "binaryData"):
        if mapping(new, key) != mapping(old, key):
            yield forbidden(key, _IMMUTABLE_DATA)


def config_map_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed ConfigMap."""
    yield from immutable_data(new, old)
    yield from config_map(new)


def secret(obj: JsonObject) -> FieldErrors:
    """A Secret's keys and size, and the keys that its type demands."""
    values, kind = mapping(obj, "data"), text(obj, "type")
    for key in sorted(values):
        yield from complaints(f"data[{key}]", key, names.config_key(key))
    if sum(map(_decoded_size, values.values())) > LARGEST_DATA:
        yield too_long("data", LARGEST_DATA)
    account = "kubernetes.io/service-account.name"
    if kind == "kubernetes.io/service-account-token" and not text(obj, "metadata", "annotations", account):
        yield required(f"metadata.annotations[{account}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & values.keys():
        yield required("data[username]")
        yield required("data[password]")
    for key in _SECRET_KEYS.get(kind, ()):
        if not values.get(key) and (key not in values or kind == "kubernetes.io/ssh-auth"):
            yield required(f"data[{key}]")
        elif kind in ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson"):
            yield from _is_json(str(values[key]), f"data[{key}]")


def _is_json(encoded: str, path: str) -> FieldErrors:
    """The content of a Secret that is a JSON object; the refusal does not show it."""
    try:
        value = parse_json(base64.b64decode(encoded))
    except BodyError as error:
        yield invalid(path, _REDACTED, str(error).removeprefix(UNREAD))
        return
    if not isinstance(value, dict | None):
        kind = {bool: "bool", str: "string", list: "array"}.get(type(value), "number")
        words = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        yield invalid(path, _REDACTED, words)


def secret_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed Secret; its type stays."""
    yield from unchanged(text(new, "type"), text(old, "type"), "type")
    yield from immutable_data(new, old)
    yield from secret(new)


def priority_class(obj: JsonObject) -> FieldErrors:
    """A PriorityClass: its value below the system's."""
    name, value = text(obj, "metadata", "name"), number(obj, "value")
    if name.startswith("system-"):
        if reason := _not_system(name, value, flag(obj, "globalDefault")):
            words = "priority class names with 'system-' prefix are reserved for system use only. error: "
            yield forbidden("metadata.name", words + reason)
    elif value > _HIGHEST_PRIORITY:
        words = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        yield forbidden("value", words)
    if obj.get("preemptionPolicy") is not None:
        yield from one_of(text(obj, "preemptionPolicy"), PREEMPTION, "preemptionPolicy")


def _not_system(name: str, value: int, is_default: bool) -> str:
    """Why a class is none of the system's own; empty if it is one."""
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def priority_class_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed PriorityClass: value and policy stay."""
    if number(new, "value") != number(old, "value"):
        yield forbidden("value", "may not be changed in an update.")
    yield from unchanged(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")


def lease(obj: JsonObject) -> FieldErrors:
    """A Lease's numbers."""
    spec = mapping(obj, "spec")
    if (
        spec.get("leaseDurationSeconds") is not None
        and (seconds := number(spec, "leaseDurationSeconds")) <= 0
    ):
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if (transitions := number(spec, "leaseTransitions")) < 0:
        yield invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
