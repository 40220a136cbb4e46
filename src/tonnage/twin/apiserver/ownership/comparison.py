"""What a write changed: which fields it removed, which it altered and which it added.

Source: sigs.k8s.io/structured-merge-diff v6 (typed/compare.go, helpers.go).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping
from tonnage.twin.apiserver.ownership.fieldsets import (
    EMPTY,
    SELF,
    FieldSet,
    key_element,
    union,
    value_element,
    without,
)
from tonnage.twin.apiserver.ownership.type_structures import ATOMIC, MAP, Shape, untyped

_UNKNOWN: Final = untyped()
"""Of a field that the type has not."""
_Three: TypeAlias = "tuple[FieldSet | None, FieldSet | None, FieldSet | None]"
_ALTERED: Final[_Three] = (None, EMPTY, None)


@dataclass(frozen=True, slots=True)
class Change:
    """Fields by what became of them."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    @property
    def written(self) -> FieldSet:
        """What the writer set."""
        return union(self.modified, self.added)

    @property
    def touched(self) -> FieldSet:
        """What no longer is as anybody else left it."""
        return union(self.written, self.removed)

    def less(self, ignored: FieldSet) -> Change:
        """The same without fields that do not count here."""
        if not ignored:
            return self
        return Change(
            without(self.removed, ignored), without(self.modified, ignored), without(self.added, ignored)
        )


class BadElementError(ValueError):
    """A list's element that cannot be told from the others."""


def compare(shape: Shape, old: JsonObject, new: JsonObject) -> Change:
    """What has changed from one object to another of that shape. Raises BadElementError."""
    removed, modified, added = _maps(shape, old, new)
    return Change(removed or {}, modified or {}, added or {})


def _both(shape: Shape, old: JsonValue, new: JsonValue) -> _Three | None:
    """Of a value that stood before and stands now."""
    if old is new:
        return None
    if shape.loose:
        return _loose(shape, old, new)
    if old == new and (shape.firm or same_json(old, new)):
        return None
    if shape.mapped:
        before, after = mapping(old), mapping(new)
        return _ALTERED if shape.whole or not (before or after) else _maps(shape, before, after)
    if shape.listed and shape.listed != ATOMIC:
        was, now = _listing(old), _listing(new)
        return _ALTERED if not (was or now) else _lists(shape, was, now)
    return _ALTERED


def _loose(shape: Shape, old: JsonValue, new: JsonValue) -> _Three | None:
    """Where scalars, lists and maps may take each other's place."""
    if same_json(old, new):
        return None
    changes: _Three = (None, None, None)
    for kind in dict.fromkeys((_kind(old), _kind(new))):
        if kind == "map" and not shape.whole and (mapping(old) or mapping(new)):
            changes = _joined(changes, _maps(shape, mapping(old), mapping(new)))
        elif kind == "list" and shape.listed != ATOMIC and (_listing(old) or _listing(new)):
            changes = _joined(changes, _lists(shape, _listing(old), _listing(new)))
        else:
            changes = _joined(changes, _ALTERED)
    return changes


def _joined(changes: _Three, other: _Three) -> _Three:
    removed, modified, added = (
        right if left is None else left if right is None else union(left, right)
        for left, right in zip(changes, other, strict=True)
    )
    return removed, modified, added


def _kind(value: JsonValue) -> str:
    # Nothing at all passes for a map, as in the library.
    return "map" if value is None or isinstance(value, dict) else "list" if isinstance(value, list) else ""


def _listing(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _maps(shape: Shape, old: JsonObject, new: JsonObject) -> _Three:
    removed: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    fields, element = shape.fields, shape.element or _UNKNOWN
    for key, value in old.items():
        if key in new:
            new_value = new[key]
            if new_value is value:
                continue
            three = _both(fields.get(key) or element, value, new_value)
            if three is not None:
                _put(removed, modified, added, f"f:{key}", three)
        else:
            removed[f"f:{key}"] = everything(fields.get(key) or element, value)
    for key, value in new.items():
        if key not in old:
            added[f"f:{key}"] = everything(fields.get(key) or element, value)
    return removed or None, modified or None, added or None


def _put(removed: FieldSet, modified: FieldSet, added: FieldSet, key: str, three: _Three) -> None:
    for whole, part in zip((removed, modified, added), three, strict=True):
        if part is not None:
            whole[key] = union({key: whole[key]}, {key: part})[key] if key in whole else part


def _lists(shape: Shape, old: list[JsonValue], new: list[JsonValue]) -> _Three:
    removed: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    before, after = _by_element(shape, old), _by_element(shape, new)
    items = shape.items or _UNKNOWN
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key, []), after.get(key, [])
        if len(was) > 1 and len(now) > 1:
            if was != now:
                modified[key] = EMPTY
            continue
        if len(was) == 1 and len(now) == 1:
            three = _both(items, was[0], now[0])
            if three is not None:
                _put(removed, modified, added, key, three)
            continue
        # Elements that stand more than once are one field, whatever is in them.
        if was:
            removed[key] = EMPTY if len(was) > 1 else everything(items, was[0])
        if now:
            added[key] = EMPTY if len(now) > 1 else everything(items, now[0])
    return removed or None, modified or None, added or None


def _by_element(shape: Shape, values: list[JsonValue]) -> dict[str, list[JsonValue]]:
    by_element: dict[str, list[JsonValue]] = {}
    for value in values:
        by_element.setdefault(element_of(shape, value), []).append(value)
    return by_element


def element_of(shape: Shape, value: JsonValue) -> str:
    """The path element of a list's element. Raises BadElementError."""
    if shape.listed == MAP:
        return _keyed(shape, value)
    if isinstance(value, dict):
        raise BadElementError("associative list without keys has an element that's a map type")
    if isinstance(value, list):
        raise BadElementError("not supported: associative list with lists as elements")
    if value is None:
        raise BadElementError("associative list without keys has an element that's an explicit null")
    return value_element(value)


def _keyed(shape: Shape, value: JsonValue) -> str:
    if value is None:
        raise BadElementError("associative list with keys may not have a null element")
    if not isinstance(value, dict):
        raise BadElementError("associative list with keys may not have non-map elements")
    names: list[str] = []
    values: list[JsonValue] = []
    for name, default in shape.keys:
        key_value = value.get(name, default)
        if key_value is not None or name in value:
            names.append(name)
            values.append(key_value)
    if not names:
        key_names = " ".join(f'"{name}"' for name, _ in shape.keys)
        raise BadElementError(
            f"associative list with keys has an element that omits all key fields [{key_names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(tuple(names), tuple(values))


def everything(shape: Shape, value: JsonValue) -> FieldSet:
    """A value that is new, or gone, with all that is inside of it, as it stands under its key."""
    if isinstance(value, dict):
        if not value or shape.whole or not shape.mapped:
            return EMPTY
        fields, element = shape.fields, shape.element or _UNKNOWN
        members: FieldSet = {SELF: EMPTY}
        for key, inner in value.items():
            if isinstance(inner, (dict, list)) and inner:
                members[f"f:{key}"] = everything(fields.get(key) or element, inner)
            else:
                members[f"f:{key}"] = EMPTY
        return members
    if isinstance(value, list) and value and shape.listed and shape.listed != ATOMIC:
        items = shape.items or _UNKNOWN
        return {
            SELF: EMPTY,
            **{
                key: EMPTY if len(elements) > 1 else everything(items, elements[0])
                for key, elements in _by_element(shape, value).items()
            },
        }
    return EMPTY
