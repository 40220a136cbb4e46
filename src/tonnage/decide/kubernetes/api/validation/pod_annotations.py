"""Annotations of pods that mean something: mirrors, costs, and what fields have taken the place of.

Source: pkg/apis/core/validation (ValidatePodSpecificAnnotations and …AnnotationUpdates), v1.35.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.decide.kubernetes.api.pod_containers import every_container
from tonnage.decide.kubernetes.api.problems import forbidden, invalid, quoted
from tonnage.decide.kubernetes.api.validation.fields import Found, tolerations
from tonnage.decide.kubernetes.api.validation.file_paths import descending_path
from tonnage.decide.kubernetes.api.validation.security import APP_ARMOR_OF, SECCOMP_OF, SECCOMP_OF_POD
from tonnage.model.json import JsonObject, parsed_json
from tonnage.model.json_access import mapping, text
from tonnage.model.well_known import DELETION_COST, MIRROR

_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
_GOOD_COST: Final = re.compile("-?[1-9][0-9]*|0")
_INT32: Final = (-(1 << 31), (1 << 31) - 1)
_PROFILES: Final = ("runtime/default", "docker/default", "unconfined")


def pod_annotations(annotations: JsonObject, spec: JsonObject, path: str) -> Found:
    """Annotations of a pod, or of the template of one."""
    if not annotations:
        return
    if MIRROR in annotations and not text(spec, "nodeName"):
        words = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"{path}[{MIRROR}]", annotations[MIRROR], words)
    yield from _tolerations(text(annotations, _TOLERATIONS), path)
    cost = annotations.get(DELETION_COST)
    if cost is not None and not _is_cost(str(cost)):
        yield invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")
    for key in sorted(annotations, key=lambda key: key != SECCOMP_OF_POD):
        if key == SECCOMP_OF_POD or key.startswith(SECCOMP_OF):
            yield from _seccomp(str(annotations[key]), f"{path}.{key}")
    known = {text(one, "name") for one, _ in every_container(spec, "")}
    for key, value in annotations.items():
        if key.startswith(APP_ARMOR_OF):
            yield from _app_armor(key, str(value), known, f"{path}[{key}]")


def _tolerations(said: str, path: str) -> Found:
    if not said:
        return
    try:
        found = parsed_json(said)
    except ValueError:
        words = f"invalid character {said[0]!r} looking for beginning of value"
        yield invalid(path, _TOLERATIONS, words)
        return
    if isinstance(found, list):
        yield from tolerations([one for one in found if isinstance(one, dict)], f"{path}.{_TOLERATIONS}")


def _is_cost(said: str) -> bool:
    return _GOOD_COST.fullmatch(said) is not None and _INT32[0] <= int(said) <= _INT32[1]


def _seccomp(said: str, path: str) -> Found:
    if said.startswith("localhost/"):
        yield from descending_path(said.removeprefix("localhost/"), path)
    elif said not in _PROFILES:
        yield invalid(path, said, "must be a valid seccomp profile")


def _app_armor(key: str, said: str, known: set[str], path: str) -> Found:
    if (name := key.removeprefix(APP_ARMOR_OF)) not in known:
        yield invalid(path, name, "container not found")
    if said not in ("", "runtime/default", "unconfined") and not said.startswith("localhost/"):
        yield invalid(path, said, f"invalid AppArmor profile name: {quoted(said)}")


def annotations_kept(new: JsonObject, old: JsonObject) -> Found:
    """Annotations of a changed pod: some stay what they were at birth, all are checked again."""
    now, before = (mapping(one, "metadata", "annotations") for one in (new, old))
    for known, others, verb in ((before, now, "remove or update"), (now, before, "add")):
        for key, value in known.items():
            if key in others and (verb == "add" or others[key] == value):
                continue
            if key.startswith(APP_ARMOR_OF):
                yield forbidden(f"metadata.annotations[{key}]", f"may not {verb} AppArmor annotations")
            if key == MIRROR:
                yield forbidden(f"metadata.annotations[{key}]", f"may not {verb} mirror pod annotation")
    yield from pod_annotations(now, mapping(new, "spec"), "metadata.annotations")
