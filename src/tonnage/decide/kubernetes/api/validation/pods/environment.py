"""Environment of a container: names, and where values come from."""

from __future__ import annotations

import re
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.pod_containers import every_container
from tonnage.decide.kubernetes.api.problems import complaints, invalid, not_found, required, unsupported
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.decide.kubernetes.api.validation.file_paths import no_backsteps
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, mapping, mappings, text
from tonnage.model.kubernetes.quantity import canonical_quantity, parse_quantity

_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELD_PATHS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_KNOWN_LABELS: Final = (
    *_FIELD_PATHS,
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
)
_RESOURCE_PATHS: Final = tuple(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_UNITS: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def environment(variables: list[JsonObject], path: str) -> FieldErrors:
    """`env`: a name, and a value or one source."""
    for index, variable in enumerate(variables):
        where, name = f"{path}[{index}]", text(variable, "name")
        if not name:
            yield required(f"{where}.name")
        else:
            yield from complaints(f"{where}.name", name, names.environment_name(name))
        if variable.get("valueFrom") is not None:
            source = mapping(variable, "valueFrom")
            yield from _source(source, text(variable, "value"), f"{where}.valueFrom")


def _source(source: JsonObject, value: str, path: str) -> FieldErrors:
    set_keys = [key for key in _SOURCES if source.get(key) is not None]
    for key in set_keys:
        reference, where = mapping(source, key), f"{path}.{key}"
        if key == "fieldRef":
            yield from field_reference(reference, where)
        elif key == "resourceFieldRef":
            yield from resource_reference(reference, where)
        elif key == "fileKeyRef":
            yield from _file_reference(reference, where)
        else:
            yield from _key_reference(reference, where)
    if not set_keys:
        # The last one is behind a gate that is open in 1.35.
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(path, "", f"must specify one of: {listed}")
    elif value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(set_keys) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def field_reference(reference: JsonObject, path: str, allowed: tuple[str, ...] = _FIELD_PATHS) -> FieldErrors:
    """A field of the pod itself, named by its path."""
    field_path = text(reference, "fieldPath")
    if field_path == "spec.host":  # as clients of old call it
        field_path = "spec.nodeName"
    version = text(reference, "apiVersion")
    unconverted = "error converting fieldPath:"
    if not version:
        yield required(f"{path}.apiVersion")
    elif not field_path:
        yield required(f"{path}.fieldPath")
    elif version != "v1":
        words = f"{unconverted} unsupported pod version: {version}"
        yield invalid(f"{path}.fieldPath", field_path, words)
    elif match := re.fullmatch(r"(.*?)\['(.*)'\]", field_path):
        base, subscript = match[1], match[2]
        if base == "metadata.annotations":
            yield from complaints(path, subscript.lower(), names.qualified_name(subscript.lower()))
        elif base == "metadata.labels":
            yield from complaints(path, subscript, names.qualified_name(subscript))
        else:
            words = f"{unconverted} field label does not support subscript: {field_path}"
            yield invalid(f"{path}.fieldPath", field_path, words)
    elif field_path not in _KNOWN_LABELS:
        words = f"{unconverted} field label not supported: {field_path}"
        yield invalid(f"{path}.fieldPath", field_path, words)
    elif field_path not in allowed:
        yield unsupported(f"{path}.fieldPath", field_path, sorted(allowed))


def resource_reference(reference: JsonObject, path: str, *, names_container: bool = False) -> FieldErrors:
    """An amount that a container asks for; who is no container himself must name one."""
    resource = text(reference, "resource")
    is_known = resource in _RESOURCE_PATHS or re.match(r"(limits|requests)\.hugepages-", resource)
    if names_container and not text(reference, "containerName"):
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif not is_known:
        yield unsupported(f"{path}.resource", resource, _RESOURCE_PATHS)
    divisor = text(reference, "divisor") or "0"
    if not is_known or parse_quantity(divisor) == 0:
        return
    kind = resource.partition(".")[2]
    allowed = ("1m", "1") if kind == "cpu" else _UNITS
    if canonical_quantity(divisor) not in allowed:
        shown = {"ephemeral-storage": "local ephemeral storage"}.get(kind, kind)
        shown = "hugepages" if kind.startswith("hugepages-") else shown
        listed = "1m and 1" if kind == "cpu" else ", ".join(_UNITS)
        words = f"only divisor's values {listed} are supported with the {shown} resource"
        yield invalid(f"{path}.divisor", resource, words)


def _key_reference(reference: JsonObject, path: str) -> FieldErrors:
    name, key = text(reference, "name"), text(reference, "key")
    yield from complaints(f"{path}.name", name, names.dns_subdomain(name))
    if not key:
        yield required(f"{path}.key")
    else:
        yield from complaints(f"{path}.key", key, names.config_key(key))


def _file_reference(reference: JsonObject, path: str) -> FieldErrors:
    """A line of a file that an init container has written."""
    key, volume, file = (text(reference, name) for name in ("key", "volumeName", "path"))
    if not key:
        yield required(f"{path}.key")
    else:
        yield from complaints(f"{path}.key", key, names.environment_name(key))
    if not volume:
        yield required(f"{path}.volumeName")
    else:
        yield from complaints(f"{path}.volumeName", volume, names.dns_label(volume))
    if not file:
        yield required(f"{path}.path")
    else:
        yield from no_backsteps(file, f"{path}.path")


def file_volumes(spec: JsonObject, path: str) -> FieldErrors:
    """Files with variables lie in volumes that are empty when the pod begins."""
    volumes = {text(volume, "name"): volume for volume in mappings(spec, "volumes")}
    for container, where in every_container(spec, path):
        for index, variable in enumerate(mappings(container, "env")):
            if at(variable, "valueFrom", "fileKeyRef") is None:
                continue
            name = text(variable, "valueFrom", "fileKeyRef", "volumeName")
            place = f"{where}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                yield not_found(place, name)
            elif volumes[name].get("emptyDir") is None:
                yield invalid(place, name, "referenced volume must be of type emptyDir")


def environment_from(sources: list[JsonObject], path: str) -> FieldErrors:
    """`envFrom`: all keys of a ConfigMap or a Secret."""
    for index, source in enumerate(sources):
        where, prefix = f"{path}[{index}]", text(source, "prefix")
        if prefix:
            yield from complaints(f"{where}.prefix", prefix, names.environment_name(prefix))
        set_keys = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        for key in set_keys:
            name = text(source, key, "name")
            if not name:
                yield required(f"{where}.{key}.name")
            else:
                yield from complaints(f"{where}.{key}.name", name, names.dns_subdomain(name))
        if not set_keys:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(set_keys) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")
