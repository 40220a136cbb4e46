"""Whether a configuration fits its type, and what the server says where it does not.

Source: sigs.k8s.io/structured-merge-diff v6 (typed/validate.go, helpers.go).
"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.decide.kubernetes.api.go_text import go_type, go_value
from tonnage.model.json import JsonValue
from tonnage.twin.apiserver.ownership.comparison import BadElementError, element_of
from tonnage.twin.apiserver.ownership.fieldsets import path_text
from tonnage.twin.apiserver.ownership.type_structures import ATOMIC, Shape


def faults(shape: Shape, value: JsonValue) -> str:
    """Everything that is wrong, as one text; empty where nothing is."""
    errors = list(_value(shape, value))
    if len(errors) < 2:
        return "".join(errors)
    return "\n".join(("errors:", *(f"  {error}" for error in errors)))


def _value(shape: Shape, value: JsonValue) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, dict) and shape.mapped:
        for key, inner in value.items():
            field_shape = shape.field(key)
            if field_shape is None:
                yield f".{key}: field not declared in schema"
                # What stands beside it is not looked at.
                return
            yield from _prefixed(f".{key}", _value(field_shape, inner))
    elif isinstance(value, list) and shape.listed:
        yield from _list(shape, value)
    elif shape.loose and not isinstance(value, (dict, list)):
        yield from _scalar(shape.scalar, value)
    elif shape.mapped:
        yield f"expected map, got {_shown(value)}"
    elif shape.scalar:
        yield from _scalar(shape.scalar, value)
    else:
        yield f"expected list, got {_shown(value)}"


def _prefixed(prefix: str, errors: Iterator[str]) -> Iterator[str]:
    for error in errors:
        yield f"{prefix}{error}" if error.startswith((".", "[")) else f"{prefix}: {error}"


def _list(shape: Shape, values: list[JsonValue]) -> Iterator[str]:
    keys: set[str] = set()
    for index, value in enumerate(values):
        where = f"[{index}]"
        if shape.listed != ATOMIC:
            try:
                key = element_of(shape, value)
            except BadElementError as error:
                yield f"element {index}: {error}"
                return
            where = path_text((key,))
            if key in keys:
                yield f"duplicate entries for key {where}"
            keys.add(key)
        if shape.items is not None:
            yield from _prefixed(where, _value(shape.items, value))


def _scalar(kind: str, value: JsonValue) -> Iterator[str]:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match kind:
        case "numeric" if not number:
            yield f"expected numeric (int or float), got {go_type(value)}"
        case "string" if not isinstance(value, str):
            yield f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        case "boolean" if not isinstance(value, bool):
            yield f"expected boolean, got {_shown(value)}"
        case _ if isinstance(value, (dict, list)):
            yield f"expected any scalar, got {_shown(value)}"


def _shown(value: JsonValue) -> str:
    return f"&{{{go_value(value)}}}"


def _go_syntax(value: JsonValue) -> str:
    """A value as Go writes it in its own syntax."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case list():
            return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
        case dict():
            inner = ", ".join(f'"{key}":{_go_syntax(value[key])}' for key in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case _:
            return str(value)
