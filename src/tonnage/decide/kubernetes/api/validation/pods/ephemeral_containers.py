"""Ephemeral containers.

Source: pkg/apis/core/validation (validateEphemeralContainers, ValidatePodEphemeralContainersUpdate), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.go_values import difference, in_go
from tonnage.decide.kubernetes.api.problems import duplicate, forbidden, not_found
from tonnage.decide.kubernetes.api.validation.differences import changed_paths
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.decide.kubernetes.api.validation.pods.containers import (
    ContainerPodFacts,
    container_rules,
    image_rules,
)
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, text
from tonnage.model.kubernetes.well_known import MIRROR

_NOT_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
_FORBIDDEN: Final = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)


def ephemeral_containers(spec: JsonObject, path: str, facts: ContainerPodFacts) -> FieldErrors:
    """The ephemeral containers of a pod."""
    others = {
        text(entry, "name") for key in ("containers", "initContainers") for entry in mappings(spec, key)
    }
    seen_names = set(others)
    for index, container in enumerate(mappings(spec, "ephemeralContainers")):
        where, name = f"{path}[{index}]", text(container, "name")
        target = text(container, "targetContainerName")
        yield from container_rules(container, where, facts)
        yield from image_rules(container, where)
        if name in seen_names:
            yield duplicate(f"{where}.name", name)
        seen_names.add(name)
        if target and target not in others:
            yield not_found(f"{where}.targetContainerName", target)
        for key in _FORBIDDEN:
            if container.get(key) or (key in container and key != "resources"):
                yield forbidden(f"{where}.{key}", _NOT_EPHEMERAL)
        for position, mount in enumerate(mappings(container, "volumeMounts")):
            for key in ("subPath", "subPathExpr"):
                if text(mount, key):
                    yield forbidden(f"{where}.volumeMounts[{position}].{key}", _NOT_EPHEMERAL)


def ephemeral_kept(new: JsonObject, old: JsonObject) -> FieldErrors:
    """What has been added to a pod stays as it is."""
    path = "spec.ephemeralContainers"
    now = {text(container, "name"): container for container in mappings(new, "spec", "ephemeralContainers")}
    for before in mappings(old, "spec", "ephemeralContainers"):
        name = text(before, "name")
        if name not in now:
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n')
        elif changed_paths(now[name], before, path):
            shown = difference(*(in_go("EphemeralContainer", container) for container in (before, now[name])))
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n{shown}')


def is_mirror_pod(pod: JsonObject) -> bool:
    """Whether it stands for a static pod, which a node runs out of its own files."""
    return MIRROR in mapping(pod, "metadata", "annotations")
