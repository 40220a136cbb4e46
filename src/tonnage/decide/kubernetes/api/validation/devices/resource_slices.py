"""ResourceSlices: what devices a driver says there are.

Source: k8s.io/kubernetes pkg/apis/resource/validation (ValidateResourceSlice), 1.35.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.go_values import in_go
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    invalid,
    required,
    too_long,
)
from tonnage.decide.kubernetes.api.validation.devices.driver_names import (
    attribute_name,
    each_element,
    label,
    pool_name,
)
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors, unchanged
from tonnage.decide.kubernetes.api.validation.pods.placement import node_selector
from tonnage.decide.kubernetes.api.validation.storage.volume_sources import driver_name
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, items, mapping, mappings, number, text

_MOST_DEVICES: Final = 128
_MOST_FACTS: Final = 32
_LONGEST_VALUE: Final = 64
_LONGEST_KEY: Final = 63 + 1 + 32
_WHERE: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_ONE_VALUE: Final = "exactly one value must be specified"
_VALUES: Final = (
    ("IntValue", "int"),
    ("BoolValue", "bool"),
    ("StringValue", "string"),
    ("VersionValue", "version"),
)
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_BEFORE: Final = r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD: Final = r"[0-9a-zA-Z-]+"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_BEFORE}(\.{_BEFORE})*)?(\+{_BUILD}(\.{_BUILD})*)?"
)


def resource_slice(obj: JsonObject) -> FieldErrors:
    """A ResourceSlice."""
    spec = mapping(obj, "spec")
    yield from _origin(spec)
    yield from _contents(spec)


def resource_slice_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed ResourceSlice, which stays one of its pool, driver and node."""
    spec, before = mapping(new, "spec"), mapping(old, "spec")
    yield from _origin(spec)
    for path in (("pool", "name"), ("driver",), ("nodeName",)):
        yield from unchanged(at(spec, *path), at(before, *path), ".".join(("spec", *path)))
    yield from _contents(spec)


def _origin(spec: JsonObject) -> FieldErrors:
    """Whose slice it is, and of which pool."""
    yield from driver_name(text(spec, "driver"), "spec.driver")
    yield from _pool(mapping(spec, "pool"))


def _pool(pool: JsonObject) -> FieldErrors:
    yield from pool_name(text(pool, "name"), "spec.pool.name")
    if (count := number(pool, "resourceSliceCount")) <= 0:
        yield invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if (generation := number(pool, "generation")) < 0:
        yield invalid("spec.pool.generation", generation, "must be greater than or equal to zero")


def _contents(spec: JsonObject) -> FieldErrors:
    """Where the devices are, and which."""
    places: list[str] = []
    if (node := spec.get("nodeName")) is not None:
        if node:
            places.append("`nodeName`")
            yield from complaints("spec.nodeName", node, names.dns_subdomain(str(node)))
        else:
            yield invalid("spec.nodeName", node, "must be either unset or set to a non-empty string")
    if isinstance(selector := spec.get("nodeSelector"), dict):
        places.append("`nodeSelector`")
        yield from _selector(selector)
    if (everywhere := spec.get("allNodes")) is not None:
        if everywhere:
            places.append("`allNodes`")
        else:
            yield invalid("spec.allNodes", everywhere, "must be either unset or set to true")
    if not places:
        yield required("spec", _WHERE)
    elif len(places) > 1:
        yield invalid("spec", f"{{{', '.join(places)}}}", f"{_WHERE}, but multiple fields are set")
    if spec.get("sharedCounters") and spec.get("devices"):
        yield invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    yield from each_element(
        mappings(spec, "devices"), _MOST_DEVICES, "spec.devices", _device, lambda device: text(device, "name")
    )


def _selector(selector: JsonObject) -> FieldErrors:
    path = "spec.nodeSelector"
    yield from node_selector(selector, path)
    terms = items(selector, "nodeSelectorTerms")
    if len(terms) != 1:
        shown = [in_go("NodeSelectorTerm", term) for term in mappings(selector, "nodeSelectorTerms")]
        words = "must have exactly one node selector term"
        yield invalid(f"{path}.nodeSelectorTerms", list(shown) or None, words)


def _device(device: JsonObject, path: str) -> FieldErrors:
    yield from label(text(device, "name"), f"{path}.name")
    attributes, capacity = mapping(device, "attributes"), mapping(device, "capacity")
    if (count := len(attributes) + len(capacity)) > _MOST_FACTS:
        words = f"the total number of attributes and capacities must not exceed {_MOST_FACTS}"
        yield invalid(path, count, words)
    for key, facts in (("attributes", attributes), ("capacity", capacity)):
        for name, fact in sorted(facts.items()):
            where = f"{path}.{key}[{_shortened(name)}]"
            yield from attribute_name(name, where)
            if key == "attributes":
                yield from _attribute(mapping(fact), where)


def _shortened(name: str) -> str:
    if len(name) <= _LONGEST_KEY:
        return name
    rest = _LONGEST_KEY - 3
    return f"{name[: (rest + 1) // 2]}...{name[-(rest // 2) :]}"


def _attribute(attribute: JsonObject, path: str) -> FieldErrors:
    set_values = [key for _, key in _VALUES if attribute.get(key) is not None]
    if len(text(attribute, "string").encode()) > _LONGEST_VALUE:
        yield too_long(f"{path}.string", _LONGEST_VALUE)
    if "version" in set_values:
        version = text(attribute, "version")
        if not _VERSION.fullmatch(version):
            words = "must be a string compatible with semver.org spec 2.0.0"
            yield invalid(f"{path}.version", version, words)
        if len(version.encode()) > _LONGEST_VALUE:
            yield too_long(f"{path}.version", _LONGEST_VALUE)
    if not set_values:
        yield invalid(path, "", _ONE_VALUE)
    elif len(set_values) > 1:
        shown: dict[str, JsonValue] = {name: attribute.get(key) for name, key in _VALUES}
        yield invalid(path, shown, _ONE_VALUE)
