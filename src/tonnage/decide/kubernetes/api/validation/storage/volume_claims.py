"""PersistentVolumeClaims: what they ask for, and what an update keeps.

Source: pkg/apis/core/validation (ValidatePersistentVolumeClaim..., v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.go_values import difference, in_go
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import complaints, forbidden, invalid, required, unsupported
from tonnage.decide.kubernetes.api.validation.fields import (
    IMMUTABLE,
    FieldErrors,
    label_selector,
    one_of_if_set,
    unchanged,
)
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, copied, items, mapping, put, text, texts
from tonnage.model.kubernetes.quantity import canonical_quantity, parse_quantity
from tonnage.model.kubernetes.well_known import OLD_STORAGE_CLASS

NOT_POSITIVE: Final = "must be greater than zero"
_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE: Final = "ReadWriteOncePod"
_VOLUME_MODES: Final = ("Block", "Filesystem")
_STORAGE: Final = ("spec", "resources", "requests", "storage")
_IMMUTABLE_SPEC: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims\n"
)


def access_modes(spec: JsonObject, path: str) -> FieldErrors:
    """How a volume or a claim may be mounted; one for a single pod has no other way."""
    modes = texts(spec, "accessModes")
    for mode in modes:
        if mode not in _MODES:
            yield unsupported(f"{path}.accessModes", mode, _MODES)
    if _ALONE in modes and any(mode in _MODES and mode != _ALONE for mode in modes):
        yield forbidden(f"{path}.accessModes", f"may not use {_ALONE} with other access modes")


def class_and_mode(spec: JsonObject, path: str) -> FieldErrors:
    """The storage class of a volume or a claim, and whether it is a file system."""
    if name := text(spec, "storageClassName"):
        yield from complaints(f"{path}.storageClassName", name, names.dns_subdomain(name))
    yield from one_of_if_set(spec, "volumeMode", _VOLUME_MODES, path)


def claim(obj: JsonObject) -> FieldErrors:
    """A new PersistentVolumeClaim."""
    yield from claim_spec(mapping(obj, "spec"), "spec")


def claim_spec(spec: JsonObject, path: str, *, groups: bool = True) -> FieldErrors:
    """What a claim asks for; `groups` tells whether groups of data sources are looked at."""
    if not items(spec, "accessModes"):
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from label_selector(mapping(spec, "selector"), f"{path}.selector")
    yield from access_modes(spec, path)
    requested, where = at(spec, "resources", "requests", "storage"), f"{path}.resources[storage]"
    if requested is None:
        yield required(where)
    elif parse_quantity(str(requested)) <= 0:
        yield invalid(where, canonical_quantity(str(requested)), NOT_POSITIVE)
    yield from class_and_mode(spec, path)
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for key, data_source in (("dataSource", source), ("dataSourceRef", reference)):
        if isinstance(data_source, dict):
            yield from _data_source(data_source, f"{path}.{key}", groups=groups)
    if source is not None and reference is not None:
        yield from _agreeing(mapping(source), mapping(reference), path)
    if name := text(spec, "volumeAttributesClassName"):
        yield from complaints(f"{path}.volumeAttributesClassName", name, names.dns_subdomain(name))


def _data_source(source: JsonObject, path: str, *, groups: bool) -> FieldErrors:
    kind, group = text(source, "kind"), text(source, "apiGroup")
    for key in ("name", "kind"):
        if not text(source, key):
            yield required(f"{path}.{key}")
    if not group and kind != "PersistentVolumeClaim":
        words = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield invalid(path, kind, words)
    if group and groups:
        yield from complaints(f"{path}.apiGroup", group, names.dns_subdomain(group))
    if namespace := text(source, "namespace"):
        yield from complaints(f"{path}.namespace", namespace, names.dns_label(namespace))


def _agreeing(source: JsonObject, reference: JsonObject, path: str) -> FieldErrors:
    """Both ways to name where the data comes from."""
    if text(reference, "namespace"):
        words = "may not be specified when dataSourceRef.namespace is specified"
    elif any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
        words = "must match dataSourceRef"
    else:
        return
    yield invalid(path, {}, words)  # The value is the path of a field, which shows nothing of itself.


def claim_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed PersistentVolumeClaim: all but its size stays, and even that until it is bound.

    The server looks at the new one twice.
    """
    spec, before = (copied(mapping(version, "spec")) for version in (new, old))
    sourced = any(at(before, key, "apiGroup") is not None for key in ("dataSource", "dataSourceRef"))
    yield from claim_spec(spec, "spec", groups=not sourced)
    yield from claim_spec(spec, "spec", groups=not sourced)
    if not text(before, "volumeName"):
        before["volumeName"] = spec.get("volumeName")
    yield from _kept_class(new, old, spec)
    if text(new, "status", "phase") == "Bound":
        put(spec, at(old, *_STORAGE), *_STORAGE[1:])
        spec["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    shown, was = (in_go("PersistentVolumeClaimSpec", version) for version in (spec, before))
    if not same_json(shown, was):
        yield forbidden("spec", _IMMUTABLE_SPEC + difference(was, shown))
    yield from _shrunk(new, old)
    yield from unchanged(at(new, "spec", "volumeMode"), at(old, "spec", "volumeMode"), "volumeMode")
    yield from _kept_attributes(new, old)


def _kept_class(new: JsonObject, old: JsonObject, spec: JsonObject) -> FieldErrors:
    """A class may be named once, where there was none or but an annotation; `spec` then goes as unchanged."""
    name, was = at(new, "spec", "storageClassName"), at(old, "spec", "storageClassName")
    annotated, before = (at(version, "metadata", "annotations", OLD_STORAGE_CLASS) for version in (new, old))
    named = name is not None and was is None
    if named and before is not None and name == before and annotated in (None, before):
        spec["storageClassName"] = None
        return
    if (annotated or "") != (before or ""):
        yield invalid(f"metadata.annotations.{OLD_STORAGE_CLASS}", annotated or "", IMMUTABLE)
    if named and (before is None or name == before):
        spec["storageClassName"] = None


def _shrunk(new: JsonObject, old: JsonObject) -> FieldErrors:
    size, was = (parse_quantity(str(at(version, *_STORAGE) or "0")) for version in (new, old))
    has = parse_quantity(str(at(old, "status", "capacity", "storage") or "0"))
    if size < was and size <= has:
        yield forbidden(".".join(_STORAGE), "field can not be less than status.capacity")


def _kept_attributes(new: JsonObject, old: JsonObject) -> FieldErrors:
    key = "volumeAttributesClassName"
    name, was = at(new, "spec", key), at(old, "spec", key)
    applied = at(old, "status", "currentVolumeAttributesClassName") is not None
    if name != was and applied and not name:
        described = "nil" if name is None else "empty string"
        words = f"update to {described} is forbidden when status.currentVolumeAttributesClassName is not nil"
        yield forbidden(f"spec.{key}", words)
