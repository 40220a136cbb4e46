"""Where a container finds the volumes of its pod: as folders and as devices.

Source: pkg/apis/core/validation (ValidateVolumeMounts, ValidateVolumeDevices), v1.35.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.api.problems import forbidden, invalid, not_found, required, unsupported
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors, one_of_if_set
from tonnage.decide.kubernetes.api.validation.file_paths import descending_path, no_backsteps
from tonnage.model.json import JsonObject
from tonnage.model.json_access import flag, mappings, text

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")
_CLAIMED: Final = ("persistentVolumeClaim", "ephemeral")


def mounts(container: JsonObject, path: str, volumes: Mapping[str, JsonObject]) -> FieldErrors:
    """`volumeMounts` and `volumeDevices` of a container, whose pod has these volumes."""
    volume_mounts, devices = mappings(container, "volumeMounts"), mappings(container, "volumeDevices")
    mounted = {text(entry, "name"): text(entry, "mountPath") for entry in volume_mounts}
    attached = {text(entry, "name"): text(entry, "devicePath") for entry in devices}
    privileged = flag(container, "securityContext", "privileged")
    yield from _mounts(volume_mounts, f"{path}.volumeMounts", volumes, attached, privileged=privileged)
    yield from _devices(devices, f"{path}.volumeDevices", volumes, mounted)


def _mounts(
    entries: list[JsonObject],
    path: str,
    volumes: Mapping[str, JsonObject],
    attached: Mapping[str, str],
    *,
    privileged: bool,
) -> FieldErrors:
    targets: set[str] = set()
    for index, mount in enumerate(entries):
        where, name, target = f"{path}[{index}]", text(mount, "name"), text(mount, "mountPath")
        if not name:
            yield required(f"{where}.name")
        if name not in volumes:
            yield not_found(f"{where}.name", name)
        if not target:
            yield required(f"{where}.mountPath")
        if target in targets:
            yield invalid(f"{where}.mountPath", target, "must be unique")
        targets.add(target)
        if name in attached:
            yield invalid(f"{where}.name", name, "must not already exist in volumeDevices")
        if target in attached.values():
            words = "must not already exist as a path in volumeDevices"
            yield invalid(f"{where}.mountPath", target, words)
        yield from _below(mount, path, where)
        yield from _propagation(mount, path, privileged=privileged)
        yield from _recursion(mount, f"{path}.recursiveReadOnly")


def _below(mount: JsonObject, path: str, where: str) -> FieldErrors:
    """A folder within the volume; the server names the list where its path is wrong."""
    yield from descending_path(text(mount, "subPath"), f"{path}.subPath")
    if not (expression := text(mount, "subPathExpr")):
        return
    if text(mount, "subPath"):
        yield invalid(f"{where}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
    yield from descending_path(expression, f"{path}.subPathExpr")


def _propagation(mount: JsonObject, path: str, *, privileged: bool) -> FieldErrors:
    how = text(mount, "mountPropagation")
    yield from one_of_if_set(mount, "mountPropagation", _PROPAGATIONS, path)
    if how == "Bidirectional" and not privileged:
        words = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(f"{path}.mountPropagation", words)


def _recursion(mount: JsonObject, path: str) -> FieldErrors:
    if mount.get("recursiveReadOnly") is None:
        return
    if (how := text(mount, "recursiveReadOnly")) not in _RECURSIVE:
        yield unsupported(path, how, _RECURSIVE)
    elif how != "Disabled":
        if not flag(mount, "readOnly"):
            yield forbidden(path, "may only be specified when readOnly is true")
        if text(mount, "mountPropagation") not in ("", "None"):
            yield forbidden(path, "may only be specified when mountPropagation is None or not specified")


def _devices(
    entries: list[JsonObject], path: str, volumes: Mapping[str, JsonObject], mounted: Mapping[str, str]
) -> FieldErrors:
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(entries):
        where, name, target = f"{path}[{index}]", text(device, "name"), text(device, "devicePath")
        if not name:
            yield required(f"{where}.name")
        if name in names:
            yield invalid(f"{where}.name", name, "must be unique")
        if name not in volumes:
            yield not_found(f"{where}.name", name)
        elif not any(volumes[name].get(key) is not None for key in _CLAIMED):
            words = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{where}.name", name, words)
        if not target:
            yield required(f"{where}.devicePath")
        if target in paths:
            yield invalid(f"{where}.devicePath", target, "must be unique")
        if list(no_backsteps(target, where)):
            yield invalid(f"{where}.devicePath", target, "can not contain backsteps ('..')")
        else:
            paths.add(target)
        if name in mounted:
            yield invalid(f"{where}.name", name, "must not already exist in volumeMounts")
        if target in mounted.values():
            words = "must not already exist as a path in volumeMounts"
            yield invalid(f"{where}.devicePath", target, words)
        if name:
            names.add(name)
