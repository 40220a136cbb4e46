"""PersistentVolumes: size, access, source, and what an update keeps.

Source: pkg/apis/core/validation (ValidatePersistentVolume, v1.35).
"""

from __future__ import annotations

import posixpath
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.quantity import canonical_quantity, parse_quantity
from tonnage.twin.apiserver.access import at, copied, drop, items, mapping, mappings, text
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.go_values import difference
from tonnage.twin.apiserver.objects.patch import same_json
from tonnage.twin.apiserver.objects.problems import complaints, forbidden, invalid, required, unsupported
from tonnage.twin.apiserver.objects.validation.fields import IMMUTABLE, Found, unchanged
from tonnage.twin.apiserver.objects.validation.placement import node_selector
from tonnage.twin.apiserver.objects.validation.volume_claims import (
    NOT_POSITIVE,
    access_modes,
    class_and_mode,
    versioned,
)
from tonnage.twin.apiserver.objects.validation.volume_sources import (
    SOURCES,
    host_path,
    local_path,
    network_path,
    plugged_in,
    source_in_go,
)

_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_IMMUTABLE_SOURCE: Final = "spec.persistentvolumesource is immutable after creation\n"


def volume(obj: JsonObject) -> Found:
    """A PersistentVolume."""
    spec = mapping(obj, "spec")
    if not items(spec, "accessModes"):
        yield required("spec.accessModes")
    yield from access_modes(spec, "spec")
    yield from _capacity(mapping(spec, "capacity"))
    policy = text(spec, "persistentVolumeReclaimPolicy")
    if policy and policy not in _RECLAIM:
        yield unsupported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM)
    affinity = spec.get("nodeAffinity")
    if isinstance(affinity, dict):
        if isinstance(wanted := affinity.get("required"), dict):
            yield from node_selector(wanted, "spec.nodeAffinity.required")
        else:
            yield required("spec.nodeAffinity.required", "must specify required node constraints")
    yield from _source(spec)
    path = text(spec, "hostPath", "path")
    if policy == "Recycle" and path and posixpath.normpath(path) == "/":
        words = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden("spec.persistentVolumeReclaimPolicy", words)
    yield from class_and_mode(spec, "spec")
    name = spec.get("volumeAttributesClassName")
    if name == "":
        yield required("spec.volumeAttributesClassName", "an empty string is disallowed")
    elif isinstance(name, str):
        yield from complaints("spec.volumeAttributesClassName", name, names.dns_subdomain(name))
    if name is not None and spec.get("csi") is None:
        yield required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _capacity(found: JsonObject) -> Found:
    path = "spec.capacity"
    if not found:
        yield required(path)
    if found.keys() != {"storage"}:
        yield unsupported(path, dict(found) or None, ("storage",))
    for name, quantity in sorted(found.items()):
        amount = parse_quantity(str(quantity))
        if amount < 0:
            yield invalid(f"{path}[{name}]", int(amount), "must be a valid resource quantity")
        if amount <= 0:
            yield invalid(f"{path}[{name}]", canonical_quantity(str(quantity)), NOT_POSITIVE)


def _source(spec: JsonObject) -> Found:
    given = [key for key in SOURCES if spec.get(key) is not None]
    if not given:
        yield required("spec", "must specify a volume type")
    for key in given[1:]:
        yield forbidden(f"spec.{key}", "may not specify more than 1 volume type")
    checks = {"hostPath": host_path, "nfs": network_path, "local": local_path, "csi": plugged_in}
    for key in given[:1]:
        if key in checks:
            yield from checks[key](mapping(spec, key), f"spec.{key}")
        if key == "local" and spec.get("nodeAffinity") is None:
            yield required("spec.nodeAffinity", "Local volume requires node affinity")


def volume_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed PersistentVolume: what stores it stays. The server looks at the new one twice."""
    yield from volume(new)
    yield from volume(new)
    source, was = (_source_of(mapping(one, "spec")) for one in (new, old))
    if at(was, "csi") is not None and at(was, "csi", "controllerExpandSecretRef") is None:
        source = copied(source)
        drop(source, "csi", "controllerExpandSecretRef")
    if not same_json(source, was):
        shown = difference(source_in_go(was), source_in_go(source))
        yield forbidden("spec.persistentvolumesource", _IMMUTABLE_SOURCE + shown)
    yield from unchanged(at(new, "spec", "volumeMode"), at(old, "spec", "volumeMode"), "volumeMode")
    affinity, before = at(new, "spec", "nodeAffinity"), at(old, "spec", "nodeAffinity")
    if before is not None and not same_json(affinity, before):
        now = None if affinity is None else _affinity_in_go(affinity)
        yield invalid("nodeAffinity", now, f"{IMMUTABLE}, except for updating from beta label to GA")
    key = "volumeAttributesClassName"
    if at(old, "spec", key) is not None and at(new, "spec", key) is None:
        yield forbidden(f"spec.{key}", "update from non-nil value to nil is forbidden")


def _source_of(spec: JsonObject) -> JsonObject:
    return {key: spec[key] for key in SOURCES if spec.get(key) is not None}


def volume_status(new: JsonObject, _old: JsonObject) -> Found:
    """The status of a PersistentVolume, which must say of which version it is."""
    yield from versioned(new)


def _affinity_in_go(affinity: JsonValue) -> JsonObject:
    """Which nodes reach a volume, as refusals show it."""

    def wanted(term: JsonObject, key: str) -> list[JsonValue] | None:
        found = mappings(term, key)
        fields = ("key", "operator", "values")
        return [{name.capitalize(): one.get(name) for name in fields} for one in found] or None

    terms: list[JsonValue] = [
        {"MatchExpressions": wanted(term, "matchExpressions"), "MatchFields": wanted(term, "matchFields")}
        for term in mappings(affinity, "required", "nodeSelectorTerms")
    ]
    return {"Required": {"NodeSelectorTerms": terms}}
