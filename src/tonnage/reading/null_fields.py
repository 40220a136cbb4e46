"""Fields that are null: to Kubernetes they are absent, and Go writes an empty list that way now and then."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tonnage.model.json import JsonValue

T = TypeVar("T")


def converted(value: JsonValue, kind: type[T]) -> T:
    """The value as a wire object. Only one that does not fit is looked through for nulls.

    Raises msgspec.ValidationError when it does not fit without them either.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(value), kind)


def without_nulls(value: JsonValue) -> JsonValue:
    """The same JSON, fields that are null left out.

    >>> without_nulls({"taints": None, "images": [{"names": None, "sizeBytes": 1}]})
    {'images': [{'sizeBytes': 1}]}
    """
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    return value
