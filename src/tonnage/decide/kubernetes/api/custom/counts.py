"""What a custom object must keep to where it is scaled: its counts and its selector.

Source: k8s.io/apiextensions-apiserver pkg/registry/customresource (validator.go), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.api.problems import FieldError, invalid
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text

_MOST: Final = 2**31 - 1
_GO: Final = ((bool, "bool"), (int, "int64"), (float, "float64"), (str, "string"), (list, "[]interface {}"))


def scale_problems(scale: JsonObject, obj: JsonObject, *, status_only: bool) -> Iterator[FieldError]:
    """What is wrong at the places that the definition's scale subresource names."""
    if not status_only:
        yield from _count(text(scale, "specReplicasPath"), obj)
    yield from _count(text(scale, "statusReplicasPath"), obj)
    path = text(scale, "labelSelectorPath")
    _, wrong = _value_at(path, obj, str, "string") if path else (None, "")
    if wrong:
        yield invalid(path, "", wrong)


def _count(path: str, obj: JsonObject) -> Iterator[FieldError]:
    count, wrong = _value_at(path, obj, int, "int64")
    if wrong:
        yield invalid(path, 0, wrong)
    elif isinstance(count, int) and count < 0:
        yield invalid(path, count, "should be a non-negative integer")
    elif isinstance(count, int) and count > _MOST:
        yield invalid(path, count, f"should be less than or equal to {_MOST}")


def _value_at(path: str, obj: JsonObject, python_type: type, name: str) -> tuple[JsonValue, str]:
    """What stands at a path, None where nothing does, and why it cannot be read."""
    value: JsonValue = obj
    steps = path.removeprefix(".").split(".")
    for step in steps:
        if not isinstance(value, dict):
            return None, _strange(steps, value, "map[string]interface{}")
        if step not in value:
            return None, ""
        value = value[step]
    fits = isinstance(value, python_type) and not isinstance(value, bool)
    return (value, "") if fits else (None, _strange(steps, value, name))


def _strange(steps: list[str], value: JsonValue, expected: str) -> str:
    kind = next((name for sort, name in _GO if isinstance(value, sort)), "map[string]interface {}")
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, dict):
        shown = f"map[{' '.join(f'{key}:{inner}' for key, inner in sorted(value.items()))}]"
    if value is None:
        shown = kind = "<nil>"
    return f".{'.'.join(steps)} accessor error: {shown} is of the type {kind}, expected {expected}"
