"""What the API server's own rules refuse of an object, or warn about, where no other rule says it better."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.field_help import field_help, kind_help
from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, at_path, is_variable, pods_of
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.pods.fields import faults, written_path
from tonnage.documents.yaml.reader import Path, field_path
from tonnage.model.json import JsonValue
from tonnage.model.kubernetes.name_words import without_pattern
from tonnage.model.reasons.lint.manifests import ApiWarning, ObjectUnreadable
from tonnage.model.reasons.pod.admission import ObjectRefused

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_FIELD: Final = re.compile(r"[a-z]\w*(?:\.\w+|\[[^\]]*\])+")
_GO_FIELD: Final = re.compile(r"Go struct field \w+\.([\w.]+) of type")
_POD_MAKERS: Final = ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
_DIRECTIVES: Final = ("$patch", "$retainKeys", "$setElementOrder", "$deleteFromPrimitiveList")
_MISSING: Final = "Required value"
_WHY: Final = "the API server refuses the object"


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on an object that is new to the server; a patch of one is none."""
    yield from _half_typed(manifest)
    if inputs.server is None or not manifest.kind or _has_directive(manifest.value):
        return
    answer = inputs.server(manifest.value, manifest.namespace)
    if answer is None:
        return
    if answer.message and not answer.faults and not _holds_variable(manifest.value):
        message = answer.message.partition(": ")[2] or answer.message
        path = (*manifest.path, *_go_path(manifest.value, message))
        yield Draft(ObjectUnreadable(message=message, remedy=kind_help(manifest.kind)), path, _WHY)
    pod_faults, sketch = _pod_faults(manifest), _is_sketch(manifest)
    for fault in answer.faults or answer.later:
        path = _path(manifest.value, fault.field)
        message = fault.words
        if message in pod_faults or _holds_variable(at_path(manifest.value, path)):
            continue
        written = _written(manifest.value, path)
        if sketch and written != path:
            continue
        path = path if fault.text.startswith(_MISSING) else written
        remedy = field_help(manifest.kind, fault.field)
        message = without_pattern(message)
        reason = ObjectRefused(subject=manifest.subject, message=message, remedy=remedy, field=fault.field)
        yield Draft(reason, (*manifest.path, *path), _WHY)
    for warning in answer.warnings:
        field, separator, _ = warning.partition(": ")
        path = _path(manifest.value, field) if separator and _FIELD.fullmatch(field) else ()
        yield Draft(ApiWarning(message=warning, warning=warning), (*manifest.path, *path))


def _half_typed(manifest: ManifestObject) -> Iterator[Draft]:
    """An object with metadata that says only one of apiVersion and kind."""
    whole = bool(manifest.kind) == bool(manifest.api_version)
    if whole or not isinstance(manifest.value.get("metadata"), dict):
        return
    missing = "kind" if manifest.api_version else "apiVersion"
    remedy = "write both; kubectl api-resources lists them"
    reason = ObjectUnreadable(message=f"{missing} is missing", remedy=remedy)
    yield Draft(reason, manifest.path, f"kubectl refuses it: {missing} not set")


def _pod_faults(manifest: ManifestObject) -> set[str]:
    """What other rules say of pods' specs, in the server's words."""
    nothing: tuple[()] = ()
    is_pod = manifest.kind == "Pod"
    return {
        f"{field_path(site.path[len(manifest.path) :])}{written_path(fault.path)}: {fault.text}"
        for site in pods_of(manifest)
        for fault in faults(site.spec, lambda _: nothing, is_pod=is_pod)
    }


def _is_sketch(manifest: ManifestObject) -> bool:
    """Whether a pod is only outlined, as in a patch: there are no containers, or they lack their images."""
    containers = [container for site in pods_of(manifest) for _, container in site.containers()]
    if not containers:
        return manifest.kind in _POD_MAKERS
    return any("image" not in container for container in containers)


def _path(value: JsonValue, field: str) -> Path:
    """The path of a field as the server names it."""
    path: list[str | int] = []
    for match in _STEP.finditer(field):
        inner, name = match.groups()
        step: str | int = name if inner is None else inner
        if inner is not None and inner.isdigit() and isinstance(value, list):
            step = int(inner)
        path.append(step)
        value = at_path(value, (step,))
    return tuple(path)


def _written(value: JsonValue, path: Path) -> Path:
    """As much of a path as is written; the server also judges what it has filled in itself."""
    while path and at_path(value, path) is None:
        path = path[:-1]
    return path


def _go_path(value: JsonValue, message: str) -> Path:
    """Where the decoder stopped: it names fields without the places in lists, so the first will do."""
    match = _GO_FIELD.search(message)
    path: list[str | int] = []
    for name in match[1].split(".") if match else ():
        if isinstance(value, list):
            places = [
                index for index, element in enumerate(value) if isinstance(element, dict) and name in element
            ]
            path += places[:1]
            value = value[places[0]] if places else None
        if isinstance(value, dict) and name in value:
            path.append(name)
            value = value[name]
    return tuple(path)


def _has_directive(value: JsonValue) -> bool:
    """Whether it is a strategic merge patch by its own words."""
    if isinstance(value, dict):
        return any(key.startswith(_DIRECTIVES) or _has_directive(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(_has_directive, value))


def _holds_variable(value: JsonValue) -> bool:
    """Whether somebody has yet to fill in something of it."""
    if isinstance(value, dict):
        return any(map(_holds_variable, value.values()))
    return any(map(_holds_variable, value)) if isinstance(value, list) else is_variable(value)
