"""Volumes of a pod: one source each, with its rules.

Source: pkg/apis/core/validation (ValidateVolumes, validateVolumeSource), v1.35.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import (
    FieldError,
    complaints,
    duplicate,
    forbidden,
    invalid,
    quoted,
    required,
)
from tonnage.decide.kubernetes.api.validation.fields import PULL_POLICIES, FieldErrors, one_of
from tonnage.decide.kubernetes.api.validation.file_paths import file_path
from tonnage.decide.kubernetes.api.validation.metadata import template_metadata
from tonnage.decide.kubernetes.api.validation.pods.environment import field_reference, resource_reference
from tonnage.decide.kubernetes.api.validation.storage.volume_claims import claim_spec
from tonnage.decide.kubernetes.api.validation.storage.volume_sources import (
    driver_name,
    host_path,
    network_path,
)
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, mappings, number, text
from tonnage.model.kubernetes.quantity import parse_quantity

Volumes = dict[str, JsonObject]
"""Good volumes by name."""
_SOURCES: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI",
    "fc", "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
"""What a volume may come from, in the order in which the server looks."""
_MODE_WORDS: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_PROJECTED: Final = ("secret", "configMap", "downwardAPI", "serviceAccountToken")
_SHORTEST_TOKEN_S: Final = 600
_DOWNWARD: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)


def volumes(entries: list[JsonObject], path: str, pod: str | None) -> tuple[list[FieldError], Volumes]:
    """What is wrong with the volumes of a pod with a name, or of a template, and those that may be used.

    What is wrong with a volume has no part in what others may be called.
    """
    errors: list[FieldError] = []
    good: Volumes = {}
    made = {f"{pod}-{text(entry, 'name')}" for entry in entries if pod and entry.get("ephemeral") is not None}
    for index, volume in enumerate(entries):
        where, name = f"{path}[{index}]", text(volume, "name")
        wrong = [*_source(volume, where, pod), *_name(name, good, f"{where}.name")]
        errors += wrong
        if not wrong:
            good[name] = volume
        claim = text(volume, "persistentVolumeClaim", "claimName")
        if claim in made:
            words = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{where}.persistentVolumeClaim.claimName", claim, words))
    return errors, good


def _name(name: str, good: Volumes, path: str) -> FieldErrors:
    if not name:
        yield required(path)
    else:
        yield from complaints(path, name, names.dns_label(name))
    if name in good:
        yield duplicate(path, name)


def _source(volume: JsonObject, path: str, pod: str | None) -> FieldErrors:
    set_keys = [key for key in _SOURCES if volume.get(key) is not None]
    if not set_keys:
        yield required(path, "must specify a volume type")
    for key in set_keys:
        if key == set_keys[0]:
            yield from _only_source(key, volume, path, pod)
        else:
            shown = _MORE_PLACES.get(key, key)
            yield forbidden(f"{path}.{shown}", "may not specify more than 1 volume type")


def _only_source(key: str, volume: JsonObject, path: str, pod: str | None) -> FieldErrors:
    source, where = mapping(volume, key), f"{path}.{key}"
    if key == "image" and pod is not None and not text(source, "reference"):
        yield required(f"{where}.reference")
    if rule := _RULES.get(key):
        yield from rule(source, where)
    if key == "ephemeral" and pod and (name := text(volume, "name")):
        claim = f"{pod}-{name}"
        for wrong in names.dns_subdomain(claim):
            yield invalid(f"{path}.name", name, f"PVC name {quoted(claim)}: {wrong}")


def _empty(source: JsonObject, path: str) -> FieldErrors:
    if parse_quantity(text(source, "sizeLimit") or "0") < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _claimed(source: JsonObject, path: str) -> FieldErrors:
    if not text(source, "claimName"):
        yield required(f"{path}.claimName")


def _plugged_in(source: JsonObject, path: str) -> FieldErrors:
    """A volume that a CSI driver makes for one pod."""
    yield from driver_name(text(source, "driver"), f"{path}.driver")
    if isinstance(source.get("nodePublishSecretRef"), dict):
        if name := text(source, "nodePublishSecretRef", "name"):
            yield from complaints(f"{path}.name", name, names.dns_subdomain(name))
        else:
            yield required(f"{path}.nodePublishSecretRef.name")


def _ephemeral(source: JsonObject, path: str) -> FieldErrors:
    """A volume whose claim is made for the pod and goes with it."""
    template, where = source.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate"
    if not isinstance(template, dict):
        yield required(where)
        return
    yield from template_metadata(mapping(template, "metadata"), f"{where}.metadata")
    yield from claim_spec(mapping(template, "spec"), f"{where}.spec")


def _image(source: JsonObject, path: str) -> FieldErrors:
    """The files of an image."""
    yield from one_of(text(source, "pullPolicy"), PULL_POLICIES, f"{path}.pullPolicy")


def _projected(volume: JsonObject, path: str) -> FieldErrors:
    """Sources of one volume; no two files lie in one place."""
    yield from _mode(volume.get("defaultMode"), f"{path}.defaultMode")
    targets: set[str] = set()
    for index, source in enumerate(mappings(volume, "sources")):
        set_keys = [key for key in _PROJECTED if source.get(key) is not None]
        for key in set_keys:
            part, where = mapping(source, key), f"{path}.sources[{index}].{key}"
            if key in ("secret", "configMap"):
                yield from _keyed(part, where, name_key="name")
            elif key == "downwardAPI":
                yield from _downward(part, where)
            elif key == "serviceAccountToken":
                yield from _token(part, path, where)
            for file in mappings(part, "items"):
                target = text(file, "path")
                if target and target in targets:
                    shown = target if key == "downwardAPI" else text(part, "name")
                    yield invalid(path, shown, "conflicting duplicate paths")
                targets.add(target)
        if len(set_keys) > 1:
            words = "may not specify more than 1 volume type per source"
            yield forbidden(f"{path}.sources[{index}]", words)


def _token(source: JsonObject, path: str, where: str) -> FieldErrors:
    """A service account's token; the server names the volume where its path is wrong."""
    seconds = number(source, "expirationSeconds")
    if seconds < _SHORTEST_TOKEN_S:
        yield invalid(
            f"{where}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
    if seconds > 1 << 32:
        words = "may not specify a duration larger than 2^32 seconds"
        yield invalid(f"{where}.expirationSeconds", seconds, words)
    if not text(source, "path"):
        yield required(f"{path}.path")
    else:
        yield from file_path(text(source, "path"), f"{path}.path")


def _keyed(source: JsonObject, path: str, *, name_key: str) -> FieldErrors:
    """A ConfigMap or Secret, and the files that its keys become."""
    if not text(source, name_key):
        yield required(f"{path}.{name_key}")
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    for index, file in enumerate(mappings(source, "items")):
        where = f"{path}.items[{index}]"
        for key in ("key", "path"):
            if not text(file, key):
                yield required(f"{where}.{key}")
        yield from file_path(text(file, "path"), f"{where}.path")
        yield from _mode(file.get("mode"), f"{where}.mode")


def _downward(source: JsonObject, path: str) -> FieldErrors:
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    for file in mappings(source, "items"):
        yield from _described(file, path)


def _described(file: JsonObject, path: str) -> FieldErrors:
    """A file with a field of the pod; the server names the volume, not the item."""
    if not text(file, "path"):
        yield required(f"{path}.path")
    yield from file_path(text(file, "path"), f"{path}.path")
    field, amount = file.get("fieldRef"), file.get("resourceFieldRef")
    if field is not None:
        yield from field_reference(mapping(file, "fieldRef"), f"{path}.fieldRef", _DOWNWARD)
        if amount is not None:
            words = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(path, "resource", words)
    elif amount is not None:
        reference = mapping(file, "resourceFieldRef")
        yield from resource_reference(reference, f"{path}.resourceFieldRef", names_container=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _mode(file.get("mode"), f"{path}.mode")


def _mode(value: JsonValue, path: str) -> FieldErrors:
    if isinstance(value, int) and not 0 <= value <= 0o777:
        yield invalid(path, value, _MODE_WORDS)


_RULES: Final[dict[str, Callable[[JsonObject, str], FieldErrors]]] = {
    "emptyDir": _empty,
    "hostPath": host_path,
    "secret": partial(_keyed, name_key="secretName"),
    "nfs": network_path,
    "persistentVolumeClaim": _claimed,
    "downwardAPI": _downward,
    "configMap": partial(_keyed, name_key="name"),
    "projected": _projected,
    "csi": _plugged_in,
    "ephemeral": _ephemeral,
    "image": _image,
}
"""What is checked of a source; of what storage vendors once brought in, nothing is."""
_MORE_PLACES: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources that the server calls otherwise where there are two."""
