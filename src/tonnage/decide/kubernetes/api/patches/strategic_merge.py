"""Strategic merge patch, driven by the merge keys and strategies of the schema table.

Source: k8s.io/apimachinery (util/strategicpatch, util/mergepatch).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from tonnage.decide.kubernetes.api.encoding.body import copy_json
from tonnage.decide.kubernetes.api.go_text import go_map, go_type, go_value
from tonnage.decide.kubernetes.api.patches.json_patches import PatchError, identity, same_json
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mappings
from tonnage.wire.schema import Field, Schema

DIRECTIVE: Final = "$patch"
RETAIN: Final = "$retainKeys"
DELETE_PREFIX: Final = "$deleteFromPrimitiveList/"
ORDER_PREFIX: Final = "$setElementOrder/"
_Key = Callable[[JsonValue], JsonValue]


def strategic_merge(schema: Schema, type_name: str, original: JsonObject, patch: JsonObject) -> JsonObject:
    """The object of that type after the patch; neither is changed.

    Raises:
        PatchError: 400 for a directive or list that is malformed, 422 for a field that the type lacks.
    """
    return _merge_object(schema, type_name, original, patch)


def _merge_object(schema: Schema, type_name: str, original: JsonObject, patch: JsonObject) -> JsonObject:
    """Merge by the fields of a type; with no type (maps, raw JSON) every key merges as a map's."""
    if DIRECTIVE in patch:
        return _directed(patch)
    merged_object = _retained(original, patch)
    orders: dict[str, list[JsonValue]] = {}
    deletions: JsonObject = {}
    plain: JsonObject = {}
    for key, value in patch.items():
        if key.startswith(ORDER_PREFIX):
            orders[key.removeprefix(ORDER_PREFIX)] = _slice(value)
        elif key.startswith(DELETE_PREFIX):
            deletions[key.removeprefix(DELETE_PREFIX)] = value
        elif key != RETAIN:
            plain[key] = value
    for key, order in orders.items():
        patch_list = _slice(plain.pop(key)) if key in plain else None
        _merge_ordered(schema, type_name, merged_object, key, (patch_list, order))
    for key, value in plain.items():
        if value is None:
            merged_object.pop(key, None)
        elif (merged := _merge_value(schema, type_name, key, merged_object.get(key), value)) is not None:
            merged_object[key] = merged
        else:
            merged_object.pop(key, None)
    for key, gone in deletions.items():
        _delete_from(merged_object, key, gone)
    return merged_object


def _delete_from(merged_object: JsonObject, key: str, gone: JsonValue) -> None:
    """Take elements from a list of scalars; null takes the whole list, what is no list nothing."""
    if gone is None:
        merged_object.pop(key, None)
    elif isinstance(current := merged_object.get(key), list) and isinstance(gone, list):
        places = _places(gone)
        merged_object[key] = [element for element in current if identity(element) not in places]


def _directed(patch: JsonObject) -> JsonObject:
    """What `$patch` says of a whole object."""
    match patch[DIRECTIVE]:
        case "replace":
            return {key: copy_json(value) for key, value in patch.items() if key != DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise _unknown_directive(other, patch)


def _retained(original: JsonObject, patch: JsonObject) -> JsonObject:
    """The original without what `$retainKeys` does not name."""
    if RETAIN not in patch:
        return dict(original)
    retained = patch[RETAIN]
    if not isinstance(retained, list):
        raise PatchError("invalid patch format of retainKeys", code=400)
    for key, value in patch.items():
        if key == RETAIN or value is None or key.startswith((ORDER_PREFIX, DELETE_PREFIX)):
            continue
        if key not in retained:
            raise PatchError("invalid patch format of retainKeys", code=400)
    return {key: value for key, value in original.items() if key in retained}


def _merge_value(schema: Schema, type_name: str, key: str, current: JsonValue, value: JsonValue) -> JsonValue:
    """The value of one field after the patch; None if nothing is left of it."""
    if isinstance(current, dict) and isinstance(value, dict):
        row = _field(schema, type_name, key)
        if row is not None and "replace" in row.patch_strategy:
            return copy_json(value)
        return _merge_object(schema, row.ref if row and row.type == "object" else "", current, value)
    if isinstance(current, list) and isinstance(value, list):
        row = _field(schema, type_name, key)
        if row is not None and "merge" in row.patch_strategy:
            return _merge_list(schema, row, current, value)
        return copy_json(value)
    return _fresh(value)


def _field(schema: Schema, type_name: str, key: str) -> Field | None:
    """The table's row of a field, None in a map."""
    if not type_name:
        return None
    row = schema.types[type_name].fields.get(key)
    if row is None:
        struct = type_name.rsplit(".", 1)[-1]
        text = f'unable to find api field in struct {struct} for the json field "{key}"'
        raise PatchError(text, message=text)
    return row


def _fresh(value: JsonValue) -> JsonValue:
    """A value that meets nothing to merge with: without nulls and without what `$patch` is said of."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return None
        fields = {key: _fresh(inner) for key, inner in value.items()}
        return {key: inner for key, inner in fields.items() if inner is not None}
    if isinstance(value, list):
        return [inner for inner in map(_fresh, value) if inner is not None]
    return value


def _merge_list(schema: Schema, row: Field, current: list[JsonValue], patch: list[JsonValue]) -> JsonValue:
    if not current and not patch:
        return current
    _check_elements(current, patch)
    if not isinstance((current or patch)[0], dict):
        places, fresh = _places(current), dict[Hashable, JsonValue]()
        for element in patch:
            fresh.setdefault(identity(element), element)
        added = [element for key, element in fresh.items() if key not in places]
        return _ordered([*current, *added], patch, current, "")
    merged, base = _merge_elements(schema, row, current, patch)
    return _ordered(merged, patch, base, row.merge_key)


def _merge_elements(
    schema: Schema, row: Field, current: list[JsonValue], patch: list[JsonValue]
) -> tuple[list[JsonValue], list[JsonValue]]:
    """Objects merged by the merge key; and what was there before, with `$patch: delete` done."""
    if not row.merge_key:
        raise PatchError(f"cannot merge lists without merge key for {row.name}", code=500)
    gone: set[Hashable] = set()
    additions: list[JsonObject] = []
    replace = False
    for element in patch:
        assert isinstance(element, dict)
        match element.get(DIRECTIVE):
            case None:
                additions.append(element)
            case "delete":
                gone.add(identity(_key_of(element, row.merge_key)))
            case "replace":
                replace = True
            case "merge":
                raise PatchError("merging lists cannot yet be specified in the patch", code=500)
            case other:
                raise _unknown_directive(other, element)
    if replace:
        return [copy_json(element) for element in additions], []
    base = [
        old for old in current if not (isinstance(old, dict) and identity(old.get(row.merge_key)) in gone)
    ]
    return _with_additions(schema, row, base, additions), base


def _with_additions(
    schema: Schema, row: Field, base: list[JsonValue], additions: list[JsonObject]
) -> list[JsonValue]:
    merged = list(base)
    places = _keyed_places(base, row.merge_key)
    for element in additions:
        key = identity(_key_of(element, row.merge_key))
        place = places.setdefault(key, len(merged))
        if place == len(merged):
            merged.append(copy_json(element))
            continue
        old = merged[place]
        assert isinstance(old, dict)
        merged[place] = _merge_object(schema, row.ref, old, element)
    return merged


def _merge_ordered(
    schema: Schema,
    type_name: str,
    merged_object: JsonObject,
    key: str,
    patch_and_order: tuple[list[JsonValue] | None, list[JsonValue]],
) -> None:
    """Merge a list and put it into the order that `$setElementOrder` gives."""
    patch, order = patch_and_order
    row = _field(schema, type_name, key)
    if row is None:
        return
    current = _slice(merged_object[key]) if key in merged_object else None
    if patch is not None:
        _check_order(patch, order, row.merge_key)
    if current is None and patch is None:
        return
    before = list(current or [])
    if current is None:
        merged: JsonValue = _fresh(patch)
    elif patch is None:
        merged = current
    else:
        merged = _merge_value(schema, type_name, key, current, patch)
        if row.merge_key and "merge" in row.patch_strategy:
            before = _left_behind(current, patch, row.merge_key)
    _check_elements(before, patch or [])
    merged_object[key] = _ordered(_slice(merged), order, before, row.merge_key)


def _left_behind(current: list[JsonValue], patch: list[JsonValue], merge_key: str) -> list[JsonValue]:
    """What upstream leaves: it deletes in place, and puts new elements where old ones were.

    It tells where the server's own elements stand. Source: deleteMatchingEntries, mergeSlice.
    """
    left, size, replaced = list(current), len(current), False
    additions: list[JsonObject] = []
    places = _keyed_places(left, merge_key)
    for element in mappings(patch):
        match element.get(DIRECTIVE):
            case "delete":
                key = identity(element.get(merge_key))
                while (place := places.get(key, -1)) >= 0:
                    left[place : size - 1] = left[place + 1 : size]
                    size -= 1
                    places = _keyed_places(left[:size], merge_key)
            case "replace":
                replaced = True
            case _:
                additions.append(element)
    for element in additions:
        key = identity(element.get(merge_key))
        if not replaced and places.setdefault(key, size) == size:
            left[size : size + 1] = [element]
            size += 1
    return left[: len(current)]


def _check_order(patch: list[JsonValue], order: list[JsonValue], merge_key: str) -> None:
    """Refuse a patch list whose order is not that of the order list."""
    if not patch or not order:
        return
    rest = iter(order)
    for element in patch:
        if isinstance(element, dict) and DIRECTIVE in element:
            continue
        name = _required_key(element, merge_key)
        if not any(same_json(name, _required_key(place, merge_key)) for place in rest):
            text = f"{go_value(patch)}\n doesn't match $setElementOrder list:\n{go_value(order)}\n"
            raise PatchError(f"The order in patch list:\n{text}", code=500)


def _ordered(
    merged: list[JsonValue], order: list[JsonValue], before: list[JsonValue], merge_key: str
) -> list[JsonValue]:
    """Elements that `order` names in its order, the server's own in theirs, woven as they stood before."""
    places = _places([_value_of(element, merge_key) for element in order])
    server = _places([_value_of(element, merge_key) for element in before])
    last = len(before)
    keyed = [(identity(_value_of(element, merge_key)), element) for element in merged]
    ours = deque(sorted((pair for pair in keyed if pair[0] in places), key=lambda pair: places[pair[0]]))
    rest = (pair for pair in keyed if pair[0] not in places)
    theirs = deque(sorted(rest, key=lambda pair: server.get(pair[0], last)))
    woven: list[JsonValue] = []
    while ours and theirs:
        left, right = server.get(theirs[0][0], last), server.get(ours[0][0], last)
        takes_theirs = left < right < last
        woven.append((theirs if takes_theirs else ours).popleft()[1])
    return [*woven, *(element for _, element in [*theirs, *ours])]


def _places(values: list[JsonValue]) -> dict[Hashable, int]:
    """The first position of each value."""
    return {identity(value): len(values) - 1 - back for back, value in enumerate(reversed(values))}


def _keyed_places(items: list[JsonValue], merge_key: str) -> dict[Hashable, int]:
    """The first position of an object with each value of the merge key."""
    places: dict[Hashable, int] = {}
    for index, element in enumerate(items):
        if isinstance(element, dict) and merge_key in element:
            places.setdefault(identity(element[merge_key]), index)
    return places


def _value_of(element: JsonValue, merge_key: str) -> JsonValue:
    """The merge key's value of an object, or the scalar itself."""
    return element.get(merge_key) if isinstance(element, dict) else element


def _key_of(element: JsonObject, merge_key: str) -> JsonValue:
    if merge_key not in element:
        raise PatchError(f"map: {go_map(element)} does not contain declared merge key: {merge_key}", code=500)
    return element[merge_key]


def _required_key(element: JsonValue, merge_key: str) -> JsonValue:
    """As `_value_of`, of a list whose elements must have the merge key."""
    if not merge_key:
        return element
    if not isinstance(element, dict):
        raise _wrong_type("map[string]interface {}", element)
    return _key_of(element, merge_key)


def _slice(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise _wrong_type("[]interface {}", value)
    return value


def _wrong_type(expected: str, value: JsonValue) -> PatchError:
    return PatchError(f"expected a {expected}, but received a {go_type(value)}", code=500)


def _unknown_directive(value: JsonValue, element: JsonObject) -> PatchError:
    shown = value if isinstance(value, str) else f"%!s({go_type(value)}={go_value(value)})"
    return PatchError(f"unknown patch type: {shown} in map: {go_map(element)}", code=500)


def _check_elements(current: list[JsonValue], patch: list[JsonValue]) -> None:
    """Refuse lists whose elements are of several types, lists of lists, and two without elements."""
    types = [go_type(element) for element in (*current, *patch)]
    if not types:
        raise PatchError("no elements in any of the given slices", code=500)
    if types[0] == "[]interface {}":
        text = "lists of lists are not supported"
        raise PatchError(text, message=text)
    if len(set(types)) > 1:
        shown = go_value([current, patch])
        raise PatchError(f"list element types are not identical: {shown}", code=500)
