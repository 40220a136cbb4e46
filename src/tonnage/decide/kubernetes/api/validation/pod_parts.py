"""Ephemeral containers, and resizes of running pods.

Source: pkg/apis/core/validation (validateEphemeralContainers, ValidatePodEphemeralContainersUpdate,
ValidatePodResize), v1.35.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.api.go_values import difference, in_go
from tonnage.decide.kubernetes.api.pod_amounts import qos_class
from tonnage.decide.kubernetes.api.problems import duplicate, forbidden, invalid, not_found
from tonnage.decide.kubernetes.api.validation.containers import PodFacts, container_rules, image_rules
from tonnage.decide.kubernetes.api.validation.differences import changed_paths
from tonnage.decide.kubernetes.api.validation.fields import Found
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, mapping, mappings, text
from tonnage.model.well_known import MIRROR

_NOT_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
_FORBIDDEN: Final = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)
_NO_LEVEL: Final = (
    "resize of pods with pod-level resources is forbidden when "
    "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
)
_OWN: Final = ("cpu", "memory")


def ephemeral_containers(spec: JsonObject, path: str, facts: PodFacts) -> Found:
    """The ephemeral containers of a pod."""
    others = {text(one, "name") for key in ("containers", "initContainers") for one in mappings(spec, key)}
    seen = set(others)
    for index, container in enumerate(mappings(spec, "ephemeralContainers")):
        where, name = f"{path}[{index}]", text(container, "name")
        target = text(container, "targetContainerName")
        yield from container_rules(container, where, facts)
        yield from image_rules(container, where)
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
        if target and target not in others:
            yield not_found(f"{where}.targetContainerName", target)
        for key in _FORBIDDEN:
            if container.get(key) or (key in container and key != "resources"):
                yield forbidden(f"{where}.{key}", _NOT_EPHEMERAL)
        for position, mount in enumerate(mappings(container, "volumeMounts")):
            for key in ("subPath", "subPathExpr"):
                if text(mount, key):
                    yield forbidden(f"{where}.volumeMounts[{position}].{key}", _NOT_EPHEMERAL)


def ephemeral_kept(new: JsonObject, old: JsonObject) -> Found:
    """What has been added to a pod stays as it is."""
    path = "spec.ephemeralContainers"
    now = {text(one, "name"): one for one in mappings(new, "spec", "ephemeralContainers")}
    for before in mappings(old, "spec", "ephemeralContainers"):
        name = text(before, "name")
        if name not in now:
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n')
        elif changed_paths(now[name], before, path):
            shown = difference(*(in_go("EphemeralContainer", one) for one in (before, now[name])))
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n{shown}')


def static_pod(old: JsonObject, why: str) -> Found:
    """The refusal of what cannot be done to a pod of the node's own files."""
    if MIRROR in mapping(old, "metadata", "annotations"):
        yield forbidden("[]", why)


def resized(new: JsonObject, old: JsonObject) -> Found:
    """A resize changes nothing but the cpu and memory of containers that run."""
    spec, before = mapping(new, "spec"), mapping(old, "spec")
    said = text(old, "status", "qosClass")
    if said != qos_class(spec):
        yield invalid("spec", said, "Pod QOS Class may not change as a result of resizing")
    if not _supported(old):
        yield forbidden("spec", "Pod running on node without support for resize")
    if _level(spec) or _level(before):
        yield forbidden("[]", _NO_LEVEL)
        return
    moved = list(_moved(spec, before))
    yield from moved
    if moved:
        return
    for key in ("initContainers", "containers"):
        for index, (now, was) in enumerate(zip(mappings(spec, key), mappings(before, key), strict=True)):
            if key == "containers" or _sidecar(was):
                yield from _removed(now, was, f"spec.{key}[{index}].resources")
    yield from _others_kept(spec, before)


def _supported(pod: JsonObject) -> bool:
    running = (
        one for one in mappings(pod, "status", "containerStatuses") if "running" in mapping(one, "state")
    )
    first = next(running, None)
    return first is None or first.get("resources") is not None


def _level(spec: JsonObject) -> bool:
    return any(mapping(spec, "resources", side) for side in ("requests", "limits"))


def _sidecar(container: JsonObject) -> bool:
    return text(container, "restartPolicy") == "Always"


def _moved(spec: JsonObject, before: JsonObject) -> Found:
    for key in ("containers", "initContainers"):
        if len(items(spec, key)) != len(items(before, key)):
            yield forbidden(f"spec.{key}", f"{key} may not be added or removed on resize")
            continue
        pairs = zip(mappings(spec, key), mappings(before, key), strict=True)
        for index, (now, was) in enumerate(pairs):
            if text(now, "name") != text(was, "name"):
                words = f"{key} may not be renamed or reordered on resize"
                yield forbidden(f"spec.{key}[{index}].name", words)


def _removed(now: JsonObject, was: JsonObject, path: str) -> Found:
    for side in ("requests", "limits"):
        if mapping(was, "resources", side).keys() - mapping(now, "resources", side).keys():
            yield forbidden(f"{path}.{side}", f"resource {side} cannot be removed")


def _others_kept(spec: JsonObject, before: JsonObject) -> Found:
    for now, was in zip(mappings(spec, "containers"), mappings(before, "containers"), strict=True):
        if changed_paths(_without_own(now, was), was, ""):
            yield forbidden("spec", "only cpu and memory resources are mutable")
    pairs = zip(mappings(spec, "initContainers"), mappings(before, "initContainers"), strict=True)
    for now, was in pairs:
        if _sidecar(now):
            if changed_paths(_without_own(now, was), was, ""):
                yield forbidden("spec", "only cpu and memory resources for sidecar containers are mutable")
        elif changed_paths(now, was, ""):
            yield forbidden("spec", "resources for non-sidecar init containers are immutable")


def _without_own(now: JsonObject, was: JsonObject) -> JsonObject:
    """The new container with the cpu and memory of the old one."""
    resources: JsonObject = {}
    for side in ("requests", "limits"):
        amounts = _with_own(mapping(now, "resources", side), mapping(was, "resources", side))
        if amounts:
            resources[side] = amounts
    return {**now, "resources": resources}


def _with_own(amounts: Mapping[str, JsonValue], known: Mapping[str, JsonValue]) -> JsonObject:
    others: JsonObject = {name: amount for name, amount in amounts.items() if name not in _OWN}
    return {**others, **{name: known[name] for name in _OWN if name in known}}
