"""Storage classes; of the storage API's other kinds nothing is checked.

Source: pkg/apis/storage/validation (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.fields import (
    FieldErrors,
    unchanged,
)
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, text, texts

_RECLAIM: Final = ("Delete", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_MOST_PARAMETERS: Final = 512
_LARGEST_PARAMETERS: Final = 256 * 1024


def storage_class(obj: JsonObject) -> FieldErrors:
    """A StorageClass."""
    yield from _provisioner(text(obj, "provisioner"), "provisioner")
    yield from _parameters(mapping(obj, "parameters"))
    for key, supported in (("reclaimPolicy", _RECLAIM), ("volumeBindingMode", _BINDING)):
        if (value := text(obj, key)) not in supported and (value or key == "volumeBindingMode"):
            yield unsupported(key, value, supported)
    yield from _topologies(mappings(obj, "allowedTopologies"))


def _provisioner(name: str, path: str) -> FieldErrors:
    if not name:
        yield required(path)
    else:
        yield from complaints(path, name.lower(), names.qualified_name(name.lower()))


def _parameters(parameters: JsonObject) -> FieldErrors:
    if len(parameters) > _MOST_PARAMETERS:
        yield too_long("parameters", _MOST_PARAMETERS)
        return
    if "" in parameters:
        yield invalid("parameters", "", "field can not be empty.")
    if (
        sum(len(key.encode()) + len(str(value).encode()) for key, value in parameters.items())
        > _LARGEST_PARAMETERS
    ):
        yield too_long("parameters", _LARGEST_PARAMETERS)


def _topologies(terms: list[JsonObject]) -> FieldErrors:
    # The server begins with as many empty ones as there are.
    earlier: list[dict[str, set[str]]] = [{} for _ in terms]
    for index, term in enumerate(terms):
        path, values_by_key = f"allowedTopologies[{index}].matchLabelExpressions", dict[str, set[str]]()
        for place, expression in enumerate(mappings(term, "matchLabelExpressions")):
            where, key, values = f"{path}[{place}]", text(expression, "key"), texts(expression, "values")
            if not values:
                yield required(f"{where}.values")
            for position, value in enumerate(values):
                if value in values[:position]:
                    yield duplicate(f"{where}.values[{position}]", value)
            yield from complaints(f"{where}.key", key, names.qualified_name(key))
            if key in values_by_key:
                yield duplicate(f"{where}.key", key)
            values_by_key[key] = set(values)
        yield from [duplicate(path, "")] * earlier.count(values_by_key)
        earlier.append(values_by_key)


def storage_class_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed StorageClass: what it makes stays."""
    yield from storage_class(new)
    for key in ("parameters", "provisioner", "reclaimPolicy"):
        if (new.get(key) or None) != (old.get(key) or None):
            yield forbidden(key, f"updates to {key} are forbidden.")
    yield from unchanged(new.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")
