"""What breaks the schema of a custom object; what an update leaves may stay as it was.

Source: k8s.io/apiextensions-apiserver apiserver/validation (ratcheting.go), registry/customresource
(strategy.go, status_strategy.go), v1.35.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.api.custom.embedded import schema_of
from tonnage.decide.kubernetes.api.custom.structural import LIST_KEYS
from tonnage.decide.kubernetes.api.custom.validation import (
    doubled_elements,
    embedded_problems,
    shape_problems,
    validate_custom,
)
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import Errors, FieldError, FieldErrorType
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, mappings, texts

BLOCKING: Final = (
    FieldErrorType.REQUIRED,
    FieldErrorType.TOO_LONG,
    FieldErrorType.TOO_MANY,
    FieldErrorType.TYPE_INVALID,
    FieldErrorType.NOT_SUPPORTED,
)
"""Faults after which no rule in CEL is asked."""
UNCHECKED: Final = FieldError(
    FieldErrorType.INVALID,
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation",
)
"""Faults of a schema with which no rule is asked."""
_PARTS: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def schema_problems_of(
    schema: JsonObject, obj: JsonObject, old: JsonObject | None, *, status: bool
) -> Errors:
    """Everything in an object that breaks its schema, its rules in CEL aside.

    Of a write of its `status` only that is looked at, which messages do not name then.
    """
    if old is None:
        return validate_custom(schema, obj)
    if status:
        problems = _status_problems(schema, obj.get("status"), old.get("status")) if "status" in obj else ()
    else:
        body = {key: value for key, value in obj.items() if key != "metadata"}
        problems = unchanged_left_out(shape_problems(body, schema), schema, obj, old)
        problems += embedded_problems(body, schema)
    return problems if doubled_elements(old, schema) else problems + doubled_elements(obj, schema)


def _status_problems(schema: JsonObject, new: JsonValue, old: JsonValue) -> Errors:
    described = mapping(schema, "properties", "status")
    errors = shape_problems(new, described)
    if isinstance(new, dict) and isinstance(old, dict):
        errors = unchanged_left_out(errors, described, new, old)
    return tuple(replace(error, field=_below("status", error.field)) for error in errors)


def _below(path: str, inner: str) -> str:
    return path if inner in ("", "<nil>") else f"{path}.{inner}"


def unchanged_left_out(errors: Errors, schema: JsonObject, obj: JsonObject, old: JsonObject | None) -> Errors:
    """The errors without those of values that an update leaves as they were."""
    if old is None or not errors:
        return errors
    return tuple(error for error in errors if not _stayed(error, schema, obj, old))


def _stayed(error: FieldError, schema: JsonObject, new: JsonValue, old: JsonValue) -> bool:
    steps = _PARTS.findall(error.field)
    if error.field == "<nil>" or "".join(f".{n}" if n else f"[{i}]" for n, i in steps)[1:] != error.field:
        return False
    for name, index in steps[:-1] if error.type is FieldErrorType.REQUIRED else steps:
        if name and isinstance(new, dict) and isinstance(old, dict):
            if name not in new or name not in old:
                return False
            new, old, schema = new[name], old[name], schema_of(schema, name) or {}
        elif index and isinstance(new, list) and isinstance(old, list) and int(index) < len(new):
            element, keys = new[int(index)], texts(schema, LIST_KEYS)
            twin = [
                old_element
                for old_element in mappings({"list": old}, "list")
                if keys and _alike(old_element, element, keys)
            ]
            if not twin:
                return False
            new, old, schema = element, twin[0], mapping(schema, "items")
        else:
            return False
        if same_json(new, old):
            return True
    return False


def _alike(element: JsonObject, other: JsonValue, keys: list[str]) -> bool:
    return isinstance(other, dict) and all(element.get(key) == other.get(key) for key in keys)
