"""Sets of fields, and their algebra, in the very form in which objects carry them (FieldsV1).

A set is a tree of dicts. A key is a path element: `f:` a field's name, `k:` the key fields of an element in
a list, `v:` a value in a set, `i:` an index. Under it stands what of its inside is in the set; `{}` means the
field alone, and `.` among others means the field as well as the others. Nobody changes a tree in place.

Source: sigs.k8s.io/structured-merge-diff v6 (fieldpath/set.go, element.go, serialize.go).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias, cast

from tonnage.model.json import JsonObject, JsonValue, parsed_json

FieldSet: TypeAlias = "dict[str, FieldSet]"
SELF: Final = "."
EMPTY: Final[FieldSet] = {}
_RANKS: Final = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}
_PLAIN: Final = ("f:", ".")
_SHORT: Final = 256
_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def node(member: bool, inside: FieldSet) -> FieldSet | None:
    """What stands under a key; None if the key is not to stand at all."""
    if not inside:
        return EMPTY if member else None
    return {SELF: EMPTY, **inside} if member else inside


def is_member(fields: FieldSet) -> bool:
    """Whether the field itself is in the set."""
    return not fields or SELF in fields


def inside(fields: FieldSet) -> FieldSet:
    """What of the field's inside is in the set."""
    return {key: value for key, value in fields.items() if key != SELF} if SELF in fields else fields


def union(fields: FieldSet, other: FieldSet) -> FieldSet:
    """Everything of both.

    >>> union({"f:a": {}}, {"f:a": {"f:b": {}}})
    {'f:a': {'.': {}, 'f:b': {}}}
    """
    if not other or fields is other:
        return fields
    if not fields:
        return other
    joined = dict(fields)
    for key, theirs in other.items():
        ours = joined.get(key)
        if ours is None:
            joined[key] = theirs
        elif ours != theirs:
            merged = node(is_member(ours) or is_member(theirs), union(inside(ours), inside(theirs)))
            joined[key] = EMPTY if merged is None else merged
    return joined


def difference(fields: FieldSet, other: FieldSet) -> FieldSet:
    """What is in one and not in the other; `fields` itself where they share nothing.

    >>> difference({"f:a": {".": {}, "f:b": {}}}, {"f:a": {}})
    {'f:a': {'f:b': {}}}
    """
    return _less(
        fields,
        other,
        lambda ours, theirs: node(
            is_member(ours) and not is_member(theirs), difference(inside(ours), inside(theirs))
        ),
    )


def without(fields: FieldSet, other: FieldSet) -> FieldSet:
    """What is in one, less every field of the other with all that is inside of it.

    >>> without({"f:status": {"f:phase": {}}, "f:spec": {}}, {"f:status": {}})
    {'f:spec': {}}
    """
    return _less(
        fields,
        other,
        lambda ours, theirs: (
            None if is_member(theirs) else node(is_member(ours), without(inside(ours), theirs))
        ),
    )


def _less(
    fields: FieldSet, other: FieldSet, left_of: Callable[[FieldSet, FieldSet], FieldSet | None]
) -> FieldSet:
    """What `left_of` leaves under the keys that both have, beside the others of one."""
    remaining: FieldSet | None = None
    for key in fields.keys() & other.keys():
        left = left_of(fields[key], other[key])
        if left == fields[key]:
            continue
        if remaining is None:
            remaining = dict(fields)
        if left is None:
            del remaining[key]
        else:
            remaining[key] = left
    return fields if remaining is None else remaining


def intersection(fields: FieldSet, other: FieldSet) -> FieldSet:
    """What is in both."""
    shared: FieldSet = {}
    for key in fields.keys() & other.keys():
        ours, theirs = fields[key], other[key]
        left = node(is_member(ours) and is_member(theirs), intersection(inside(ours), inside(theirs)))
        if left is not None:
            shared[key] = left
    return shared


def has(fields: FieldSet, *path: str) -> bool:
    """Whether the field at a path of elements is in the set."""
    inner: FieldSet | None = fields
    for key in path:
        inner = None if inner is None else inner.get(key)
    return inner is not None and is_member(inner)


def ordered(fields: FieldSet) -> FieldSet:
    """The set as it is written: names in order, then keys, values and indices."""
    keys = list(fields)
    if len(keys) > 1:
        if all(key.startswith(_PLAIN) for key in keys):
            keys.sort()
        else:
            keys.sort(key=_rank)
    return {key: ordered(fields[key]) if fields[key] else EMPTY for key in keys}


def paths(fields: FieldSet) -> Iterator[tuple[str, ...]]:
    """Every field of the set, the ones on a level before those inside of them."""
    keys = list(ordered(fields))
    for key in keys:
        if key != SELF and is_member(fields[key]):
            yield (key,)
    for key in keys:
        if key != SELF:
            for path in paths(inside(fields[key])):
                yield (key, *path)


def path_text(path: tuple[str, ...]) -> str:
    """A path as messages have it.

    >>> path_text(("f:spec", 'k:{"name":"main"}', "f:image"))
    '.spec[name="main"].image'
    """
    return "".join(_element_text(key) for key in path)


def _element_text(key: str) -> str:
    kind, rest = key[0], key[2:]
    match kind:
        case "f":
            return f".{rest}"
        case "k":
            fields = _fields(rest)
            return f"[{','.join(f'{name}={_value_text(value)}' for name, value in fields.items())}]"
        case "v":
            return f"[={_value_text(parsed_json(rest))}]"
        case _:
            return f"[{rest}]"


def _fields(text: str) -> JsonObject:
    """Key fields of an element that was read before."""
    return cast(JsonObject, parsed_json(text))


def _value_text(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=8192)
def _rank(key: str) -> tuple[int, object]:
    """Where a path element stands among its like."""
    match key[0]:
        case "k":
            return 2, [(name, value_rank(value)) for name, value in _fields(key[2:]).items()]
        case "v":
            return 3, value_rank(parsed_json(key[2:]))
        case "i":
            return 4, int(key[2:])
        case other:
            return _RANKS.get(other, 5), key


def value_rank(value: JsonValue) -> tuple[int, object]:
    """The order of scalars: numbers, strings, truth values, the rest."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, (int, float)):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return 3, json.dumps(value, sort_keys=True)


def key_element(names: tuple[str, ...], values: tuple[JsonValue, ...]) -> str:
    """The path element of a list's element with these key fields.

    >>> key_element(("protocol", "containerPort"), ("TCP", 80))
    'k:{"containerPort":80,"protocol":"TCP"}'
    """
    if all(type(value) is str and len(value) <= _SHORT for value in values):
        return _usual_element(names, values)
    return _key_element(names, values)


def _key_element(names: tuple[str, ...], values: tuple[JsonValue, ...]) -> str:
    pairs = dict(sorted(zip(names, values, strict=True)))
    return f"k:{_written(pairs)}"


@lru_cache(maxsize=8192)
def _usual_element(names: tuple[str, ...], values: tuple[JsonValue, ...]) -> str:
    # Strings alone: 1, 1.0 and true would be one key of the cache.
    return _key_element(names, values)


def value_element(value: JsonValue) -> str:
    """The path element of a value in a set."""
    return f"v:{_written(value)}"


def _written(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


MOST_DEEP: Final = 400


def read_fields(value: JsonValue, depth: int = 0) -> FieldSet:
    """The set that a client wrote; elements of kinds that nobody knows are passed over.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, dict) or depth > MOST_DEEP:
        raise ValueError("fieldsV1 is not a tree of objects")
    fields: FieldSet = {}
    for key, inner in value.items():
        if key == SELF:
            fields[SELF] = EMPTY
            continue
        element = _read_element(key)
        if element is None:
            continue
        held = read_fields(inner, depth + 1)
        fields[element] = union_nodes(fields[element], held) if element in fields else held
    return {} if set(fields) == {SELF} else fields


def union_nodes(fields: FieldSet, other: FieldSet) -> FieldSet:
    """What stands under one key in two sets, together."""
    return union({"f:": fields}, {"f:": other})["f:"]


def _read_element(key: str) -> str | None:
    if len(key) < 2 or key[1] != ":":
        raise ValueError(f"{key!r} is no path element")
    kind, rest = key[0], key[2:]
    match kind:
        case "f":
            return key
        case "v":
            return value_element(parsed_json(rest))
        case "k":
            fields = parsed_json(rest)
            if not isinstance(fields, dict):
                raise ValueError(f"{key!r} names no key fields")
            return key_element(tuple(fields), tuple(fields.values()))
        case "i":
            return f"i:{int(rest)}"
        case _:
            return None
