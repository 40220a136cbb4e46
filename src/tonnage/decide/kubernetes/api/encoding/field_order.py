"""The order in which an object's fields are told: a built-in kind's as Go's struct has them, else by name.

Source: Go's encoding/json, which writes structs in the order of their fields and maps in that of their keys.
"""

from __future__ import annotations

from tonnage.model.json import JsonObject, JsonValue
from tonnage.wire.schema import Field, Schema

_Plan = dict[str, tuple[int, Field | None]]
"""The fields of a type by name: each with its place, and itself if there is an order inside of it."""


class ObjectShapes:
    """Puts objects in order; what is in order already is not made anew."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._plans: dict[str, _Plan] = {}

    def shaped(self, obj: JsonObject, type_name: str = "") -> JsonObject:
        """The object in the order of its kind, or of that type where it is of no kind that is kept."""
        if type_name:
            return self._struct(type_name, obj)
        group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
        row = self._schema.kind(group, version, str(obj.get("kind", "")))
        return self._struct(row.type, obj) if row is not None else in_order_of_names(obj)

    def metadata(self, metadata: JsonObject) -> JsonObject:
        """The metadata of any object in the order in which they are told alone."""
        return self._struct("meta/v1.ObjectMeta", metadata)

    def _struct(self, type_name: str, obj: JsonObject) -> JsonObject:
        plan = self._plans.get(type_name) or self._plan(type_name)
        last, straight = -1, True
        changed: JsonObject = {}
        for key, value in obj.items():
            place, row = plan.get(key) or (len(plan), None)
            straight = straight and place > last
            last = place
            if row is not None and value:
                inner = self._value(row, value)
                if inner is not value:
                    changed[key] = inner
        if straight:
            return {**obj, **changed} if changed else obj
        merged = {**obj, **changed}
        return {**{name: merged[name] for name in plan if name in merged}, **merged}

    def _plan(self, type_name: str) -> _Plan:
        rows = self._schema.types[type_name].fields.values()
        held = ("object", "array", "map")
        plan: _Plan = {
            row.name: (place, row if row.type == "map" or (row.type in held and row.ref) else None)
            for place, row in enumerate(rows)
        }
        self._plans[type_name] = plan
        return plan

    def _value(self, row: Field, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            shaped = [self._element(row, element) for element in value]
            return value if all(map(_same, shaped, value)) else shaped
        if not isinstance(value, dict):
            return value
        if row.type == "object":
            return self._struct(row.ref, value)
        names = sorted(value)
        inner = {name: self._element(row, value[name]) for name in names} if row.item == "object" else value
        straight = names == list(value) and all(map(_same, inner.values(), value.values()))
        return value if straight else {name: inner[name] for name in names}

    def _element(self, row: Field, value: JsonValue) -> JsonValue:
        return self._struct(row.ref, value) if isinstance(value, dict) and row.ref else value


def _same(value: JsonValue, other: JsonValue) -> bool:
    return value is other


def in_order_of_names(obj: JsonObject) -> JsonObject:
    """The object with its fields, and those of all that is in it, by their names.

    >>> in_order_of_names({"b": [{"d": 1, "c": 2}], "a": 0})
    {'a': 0, 'b': [{'c': 2, 'd': 1}]}
    """
    return {name: _sorted(obj[name]) for name in sorted(obj)}


def _sorted(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return in_order_of_names(value)
    return [_sorted(element) for element in value] if isinstance(value, list) else value
