"""What applying does to values: a configuration laid over an object, fields taken out, fields named.

Source: sigs.k8s.io/structured-merge-diff v6 (typed/merge.go, remove.go, tofieldset.go, reconcile_schema.go).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.ownership.comparison import element_of
from tonnage.twin.apiserver.ownership.fieldsets import (
    EMPTY,
    SELF,
    FieldSet,
    inside,
    is_member,
    node,
)
from tonnage.twin.apiserver.ownership.type_structures import ATOMIC, Shape, untyped

_UNKNOWN: Final = untyped()


def merge(shape: Shape, live: JsonValue, config: JsonValue) -> JsonValue:
    """The object with what the configuration says; nothing is taken out. Raises BadElementError."""
    if isinstance(config, list) and shape.listed:
        if shape.listed == ATOMIC or (not config and not live):
            return config
        return _lists(shape, live if isinstance(live, list) else [], config) or None
    if shape.mapped and (config is None or isinstance(config, dict)):
        live_map, config_map = live if isinstance(live, dict) else {}, config or {}
        return config if shape.whole or not (live_map or config_map) else _maps(shape, live_map, config_map)
    if config is None and isinstance(live, list) and shape.listed and shape.listed != ATOMIC and live:
        return live
    return config


def _maps(shape: Shape, live: JsonObject, config: JsonObject) -> JsonObject:
    merged = dict(live)
    for key, value in config.items():
        inner = shape.field(key) or _UNKNOWN
        merged[key] = merge(inner, live.get(key), value)
    return merged


def _lists(shape: Shape, live: list[JsonValue], config: list[JsonValue]) -> list[JsonValue]:
    """Elements of both: the configuration's in its order, the object's others where they stood before."""
    theirs = [(element_of(shape, value), value) for value in live]
    ours = [(element_of(shape, value), value) for value in config]
    live_elements: dict[str, JsonValue] = {}
    for key, value in theirs:
        # Elements that stand more than once merge with nothing.
        live_elements[key] = None if key in live_elements else value
    config_elements = dict(ours)
    items = shape.items or _UNKNOWN
    merged: list[JsonValue] = []
    for key, value in _woven(theirs, ours):
        merged.append(
            merge(items, live_elements.get(key), config_elements[key]) if key in config_elements else value
        )
    return merged


def _woven(
    theirs: list[tuple[str, JsonValue]], ours: list[tuple[str, JsonValue]]
) -> Iterator[tuple[str, JsonValue]]:
    """Both lists as one, each of our elements once."""
    live, own_keys = {key for key, _ in theirs}, {key for key, _ in ours}
    shared = iter([key for key, _ in ours if key in live])
    due = next(shared, None)  # of those that both have the next one of ours, whose order wins
    done: set[str] = set()
    left = right = 0
    while left < len(theirs) or right < len(ours):
        if left < len(theirs) and right < len(ours):
            key = theirs[left][0]
            if key == ours[right][0]:
                done.add(key)
                yield theirs[left]
                left, right = left + 1, right + 1
                due = next(shared, None)
                continue
            if key in own_keys and due is not None and due != key:
                # One of ours, but not its turn.
                left += 1
                continue
        if left < len(theirs):
            key = theirs[left][0]
            if key not in own_keys:
                yield theirs[left]
                left += 1
                continue
            if key in done:
                left += 1
        if right < len(ours):
            key = ours[right][0]
            done.add(key)
            yield ours[right]
            right += 1
            if due == key:
                due = next(shared, None)


def taken_out(shape: Shape, value: JsonValue, fields: FieldSet) -> JsonValue:
    """The value without the fields of a set; None where nothing is left."""
    if isinstance(value, dict):
        if shape.whole or not value:
            return None
        remaining: JsonObject = {}
        for key, inner in value.items():
            inner_fields = fields.get(f"f:{key}")
            if inner_fields is None:
                remaining[key] = inner
            elif not is_member(inner_fields):
                remaining[key] = taken_out(shape.field(key) or _UNKNOWN, inner, inner_fields)
        return remaining or None
    if isinstance(value, list):
        if shape.listed == ATOMIC or not value:
            return None
        return list(_left(shape, value, fields)) or None
    return value


def _left(shape: Shape, values: list[JsonValue], fields: FieldSet) -> Iterator[JsonValue]:
    for value in values:
        inner_fields = fields.get(element_of(shape, value))
        if inner_fields is None:
            yield value
        elif not is_member(inner_fields):
            yield taken_out(shape.items or _UNKNOWN, value, inner_fields)


def named_fields(shape: Shape, value: JsonValue) -> FieldSet:
    """The fields that a configuration names: leaves, list elements, map keys. Raises BadElementError."""
    return _inside(shape, value)[1]


def _inside(shape: Shape, value: JsonValue) -> tuple[bool, FieldSet]:
    """Whether a value counts as a field itself, and what of its inside does."""
    if isinstance(value, dict):
        return (True, {}) if shape.whole else (False, _of_map(shape, value))
    if isinstance(value, list):
        return (True, {}) if shape.listed == ATOMIC else (False, _of_list(shape, value))
    if value is None and not shape.loose:
        return shape.whole or shape.listed == ATOMIC or bool(shape.scalar), {}
    return True, {}


def _of_map(shape: Shape, value: JsonObject) -> FieldSet:
    members: FieldSet = {}
    for key, inner in value.items():
        member, held = _inside(shape.field(key) or _UNKNOWN, inner)
        bare = inner is None or inner == {}
        stands = node(member or bare or key not in shape.fields, held)
        if stands is not None:
            members[f"f:{key}"] = stands
    return members


def _of_list(shape: Shape, values: list[JsonValue]) -> FieldSet:
    members: FieldSet = {}
    keys = [element_of(shape, value) for value in values]
    for key, value in zip(keys, values, strict=True):
        held = _inside(shape.items or _UNKNOWN, value)[1] if keys.count(key) == 1 else EMPTY
        members[key] = node(True, held) or EMPTY
    return members


def with_named(shape: Shape | None, fields: FieldSet) -> FieldSet:
    """The set with every declared field on the way to its members."""
    named: FieldSet = {}
    for key, inner_fields in fields.items():
        if key == SELF or not inner_fields:
            named[key] = inner_fields
            continue
        inner, declared = _under(shape, key)
        held = with_named(inner, inside(inner_fields))
        named[key] = node(is_member(inner_fields) or declared, held) or EMPTY
    return named


def _under(shape: Shape | None, key: str) -> tuple[Shape | None, bool]:
    """The type under a path element, and whether it is a declared field."""
    if shape is None:
        return None, False
    if key.startswith("f:"):
        declared = shape.fields.get(key[2:])
        return declared or shape.element, declared is not None
    return (shape.items, False) if key.startswith("k:") else (None, False)


def reconciled(shape: Shape | None, fields: FieldSet) -> FieldSet:
    """A set written under another schema: what is owned whole now has no fields inside of it."""
    changed: FieldSet | None = None
    for key, inner_fields in fields.items():
        if not inner_fields or key == SELF:
            continue
        inner, _ = _under(shape, key)
        if inner is None or inner.loose:
            continue
        whole = inner.whole if inner.mapped else inner.listed == ATOMIC
        left = EMPTY if whole and inside(inner_fields) else _reconciled_inside(inner, inner_fields)
        if left is not inner_fields:
            changed = dict(fields) if changed is None else changed
            changed[key] = left
    return fields if changed is None else changed


def _reconciled_inside(shape: Shape, fields: FieldSet) -> FieldSet:
    held = inside(fields)
    left = reconciled(shape, held)
    return fields if left is held or left == held else node(is_member(fields), left) or EMPTY
