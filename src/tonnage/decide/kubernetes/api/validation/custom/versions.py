"""Versions of a custom kind: schemas, subresources, columns, fields to select by.

What all versions have alike is told as if the definition said it once, as upstream keeps it.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/{v1,validation}, v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.custom.field_paths import PathError, followed
from tonnage.decide.kubernetes.api.custom.go_schema import part_in_go
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import duplicate, invalid, required, too_many
from tonnage.decide.kubernetes.api.validation.custom.schemas import custom_schema
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, mapping, mappings, text

_SHARED: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""What versions may have alike, and its name upstream where they do."""
_GO_NAMES: Final = {
    "name": "Name", "served": "Served", "storage": "Storage", "deprecated": "Deprecated",
    "deprecationWarning": "DeprecationWarning", "schema": "Schema", "subresources": "Subresources",
    "additionalPrinterColumns": "AdditionalPrinterColumns", "selectableFields": "SelectableFields",
}  # fmt: skip
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE: Final = ("string", "boolean", "integer")
_MOST_SELECTABLE: Final = 8
_LONGEST_WARNING: Final = 256


def shared(versions: list[JsonObject]) -> frozenset[str]:
    """What all versions have alike, left out included."""
    first = versions[0] if versions else {}
    return frozenset(
        key
        for key in _SHARED
        if versions and all(same_json(at(version, key), at(first, key)) for version in versions)
    )


def each_version(spec: JsonObject) -> FieldErrors:
    """What stands at the versions themselves."""
    versions = mappings(spec, "versions")
    alike = shared(versions)
    for index, version in enumerate(versions):
        if at(version, "schema", "openAPIV3Schema") is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", text(version, "name")
        if wrong := names.dns_label_1035(name):
            yield invalid(f"{path}.name", name, ",".join(wrong))
        yield from _deprecation(version, f"{path}.deprecationWarning")
        yield from _parts(version, {key: f"{path}.{key}" for key in _SHARED if key not in alike})
    shown: list[JsonValue] = [_in_go(entry, alike) for entry in versions]
    if len({text(entry, "name") for entry in versions}) < len(versions):
        yield invalid("spec.versions", shown, "must contain unique version names")
    if sum(flag(entry, "storage") for entry in versions) != 1:
        words = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", None if at(spec, "versions") is None else shown, words)
    if text(versions[0] if versions else {}, "name") and (
        wrong := names.dns_label_1035(text(versions[0], "name"))
    ):
        yield invalid("spec.version", text(versions[0], "name"), ",".join(wrong))


def all_versions(versions: list[JsonObject]) -> FieldErrors:
    """What all versions have alike, once."""
    if versions:
        alike = shared(versions)
        yield from _parts(versions[0], {key: f"spec.{_SHARED[key]}" for key in _SHARED if key in alike})


def _in_go(version: JsonObject, alike: frozenset[str]) -> JsonObject:
    empty: JsonObject = {"name": "", "served": False, "storage": False, "deprecated": False}
    return {
        written: None if key in alike else part_in_go(key, version.get(key, empty.get(key)))
        for key, written in _GO_NAMES.items()
    }


def _parts(version: JsonObject, paths: dict[str, str]) -> FieldErrors:
    """The parts of a version that are told at these places."""
    schema = mapping(version, "schema", "openAPIV3Schema")
    if "schema" in paths and at(version, "schema", "openAPIV3Schema") is not None:
        status = "status" in mapping(version, "subresources")
        yield from custom_schema(schema, f"{paths['schema']}.openAPIV3Schema", status=status)
    if "subresources" in paths and "scale" in mapping(version, "subresources"):
        yield from _scale(mapping(version, "subresources", "scale"), f"{paths['subresources']}.scale")
    if "additionalPrinterColumns" in paths:
        where = paths["additionalPrinterColumns"]
        for index, column in enumerate(mappings(version, "additionalPrinterColumns")):
            yield from _column(column, f"{where}[{index}]")
    if "selectableFields" in paths:
        yield from _selectable(mappings(version, "selectableFields"), schema, paths["selectableFields"])


def _deprecation(version: JsonObject, path: str) -> FieldErrors:
    warning = at(version, "deprecationWarning")
    if not isinstance(warning, str):
        return
    if not flag(version, "deprecated"):
        yield invalid(path, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > _LONGEST_WARNING:
        yield invalid(path, warning, f"must be <= {_LONGEST_WARNING} characters long")
    if not warning:
        yield invalid(path, warning, "must not be an empty string")
    for index, letter in enumerate(warning):
        if not letter.isprintable():
            words = "must only contain printable UTF-8 characters; non-printable character found at index"
            yield invalid(path, warning, f"{words} {len(warning[:index].encode())}")
            break


def _scale(scale: JsonObject, path: str) -> FieldErrors:
    for key, roots, words in (
        ("specReplicasPath", (".spec.",), ".spec"),
        ("statusReplicasPath", (".status.",), ".status"),
        ("labelSelectorPath", (".spec.", ".status."), "either .spec or .status"),
    ):
        written = text(scale, key)
        if not written:
            if key != "labelSelectorPath":
                yield required(f"{path}.{key}")
        elif not written.startswith("."):
            yield invalid(f"{path}.{key}", written, "must be a simple json path starting with .")
        elif not written.startswith(roots):
            yield invalid(f"{path}.{key}", written, f"should be a json path under {words}")


def _column(column: JsonObject, path: str) -> FieldErrors:
    kind, form, where = text(column, "type"), text(column, "format"), text(column, "jsonPath")
    if not text(column, "name"):
        yield required(f"{path}.name")
    words = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield required(f"{path}.type", words)
    elif kind not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", kind, words)
    if form and form not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not where:
        yield required(f"{path}.JSONPath")
    elif not where.startswith("."):
        yield invalid(f"{path}.JSONPath", where, "must be a simple json path starting with .")


def _selectable(fields: list[JsonObject], schema: JsonObject, path: str) -> FieldErrors:
    seen_paths: set[tuple[str, ...]] = set()
    for index, field in enumerate(fields):
        where, written = f"{path}[{index}].jsonPath", text(field, "jsonPath")
        if not written:
            yield required(where)
            continue
        try:
            steps, ending = followed(written, schema, arrays=False)
        except PathError as error:
            yield invalid(where, written, f"is an invalid path: {error}")
            continue
        if steps[0] == "metadata":
            yield invalid(where, written, "must not point to fields in metadata")
        if text(ending, "type") not in _SELECTABLE:
            words = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings "
                "with formats are allowed."
            )
            yield invalid(where, written, words)
        if steps in seen_paths:
            yield duplicate(where, written)
        seen_paths.add(steps)
    if len(seen_paths) > _MOST_SELECTABLE:
        yield too_many(path, len(seen_paths), _MOST_SELECTABLE)
