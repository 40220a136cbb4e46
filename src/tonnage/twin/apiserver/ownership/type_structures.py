"""What server-side apply must know of a type: what is owned whole, and what tells list elements apart.

Source: k8s.io/kube-openapi (pkg/schemaconv), sigs.k8s.io/structured-merge-diff v6 (schema), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.custom.structural import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
)
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, mapping, text, texts
from tonnage.wire.schema import Field, Schema

ATOMIC: Final = "atomic"
SET: Final = "set"
MAP: Final = "map"
_STRING: Final = "string"
_NUMERIC: Final = "numeric"
_BOOLEAN: Final = "boolean"
_UNTYPED: Final = "untyped"
_SCALARS: Final = {
    "string": _STRING,
    "bytes": _STRING,
    "duration": _STRING,
    "bool": _BOOLEAN,
    "int32": _NUMERIC,
    "int64": _NUMERIC,
    "float64": _NUMERIC,
}
_SCHEMAS: Final = ("schema-or-array", "schema-or-bool", "schema-or-strings")
_TYPE_META: Final = ("apiVersion", "kind")


class Shape:
    """A type: a scalar, a list or a map, or (where nothing is said) whichever the value is.

    `scalar` is empty where no scalar may stand. A map has `fields`, an `element` for other keys, or both.
    """

    __slots__ = ("element", "fields", "firm", "items", "keys", "listed", "loose", "mapped", "scalar", "whole")

    def __init__(self, scalar: str = "") -> None:
        self.scalar = scalar
        self.mapped = False
        self.whole = False
        """A map that is owned as one."""
        self.fields: dict[str, Shape] = {}
        self.element: Shape | None = None
        self.listed = ""
        """`atomic`, `set`, `map`, or empty: no list may stand here."""
        self.items: Shape | None = None
        self.keys: tuple[tuple[str, JsonValue], ...] = ()
        """Key fields with what counts where one is left out (None: nothing does)."""
        self.firm = True
        """Nothing inside is of a type that is not said: what compares as equal in Python is equal."""
        self.loose = False
        """More than one of scalar, list and map may stand here."""

    def field(self, name: str) -> Shape | None:
        """The type of a field or of another key."""
        return self.fields.get(name) or self.element


def _any(whole: bool) -> Shape:
    shape = Shape(_UNTYPED)
    shape.loose = shape.mapped = True
    shape.listed = ATOMIC
    shape.whole = whole
    return shape


def untyped() -> Shape:
    """Anything, owned whole."""
    shape = _any(whole=True)
    shape.items = shape.element = shape
    return shape


def deduced() -> Shape:
    """Anything; maps are owned key by key, lists whole."""
    shape = _any(whole=False)
    shape.items, shape.element = untyped(), shape
    return shape


class BuiltIn:
    """Shapes of built-in types, made when they are first asked for."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._types: dict[str, Shape] = {}
        self.untyped = untyped()
        self.deduced = deduced()

    def type(self, name: str) -> Shape:
        """The shape of an ObjectType, such as `core/v1.Pod`."""
        if name in self._types:
            return self._types[name]
        shape = self._types[name] = Shape()
        described = self._schema.types[name]
        shape.mapped, shape.whole = True, described.atomic
        extension = name.startswith("apiextensions/")
        for row in described.fields.values():
            shape.fields[row.name] = self._of(row.type, row, extension=extension)
        return shape

    def _of(self, word: str, row: Field, *, extension: bool) -> Shape:
        if word == "array" or word.startswith("array:"):
            return self._list(word, row, extension=extension)
        if word == "map":
            shape = Shape()
            shape.mapped, shape.whole = True, row.list_type == ATOMIC
            shape.element = self._of(row.item, row, extension=extension)
            return shape
        if word == "object":
            shape = self.type(row.ref)
            list_type = row.list_type if row.type == "object" else ""
            if not list_type or (list_type == ATOMIC) == shape.whole:
                return shape
            return _regarded(shape, whole=list_type == ATOMIC)
        if word == "raw":
            return self.deduced if extension else self.untyped
        return self.deduced if word in _SCHEMAS else Shape(_SCALARS.get(word, _UNTYPED))

    def _list(self, word: str, row: Field, *, extension: bool) -> Shape:
        shape = Shape()
        own = row.type == "array" and word == "array"
        inner = row.item if own else word.partition(":")[2]
        shape.items = self._of(inner, row, extension=extension) if inner else self.untyped
        shape.listed, names = _relation(row) if own else (ATOMIC, ())
        shape.keys = tuple((name, self._key_default(row.ref, name)) for name in names)
        return shape

    def _key_default(self, ref: str, name: str) -> JsonValue:
        described = self._schema.types.get(ref)
        field = described.fields.get(name) if described else None
        if field is None:
            return None
        if field.default is not None:
            default: JsonValue = field.default
            return default
        zero: JsonValue = "" if field.type == "string" else 0
        return zero if field.keep and not field.pointer else None


def _regarded(shape: Shape, *, whole: bool) -> Shape:
    """The same map where a field says otherwise than its type how it is owned."""
    other = Shape()
    other.mapped, other.whole = True, whole
    other.fields, other.element = shape.fields, shape.element
    return other


def _relation(row: Field) -> tuple[str, tuple[str, ...]]:
    """What kind of list a field is, and the names of its key fields."""
    if row.list_type:
        return row.list_type, row.map_keys
    if "merge" in row.patch_strategy:
        return (MAP, (row.merge_key,)) if row.merge_key else (SET, ())
    return ATOMIC, ()


class Custom:
    """Shapes of custom kinds out of their schemas."""

    def __init__(self, built_in: BuiltIn) -> None:
        self._built_in = built_in

    def kind(self, schema: JsonObject) -> Shape:
        """The shape of a whole object of a custom kind."""
        return self._of(schema, preserve=False, whole=True)

    def _of(self, schema: JsonObject, *, preserve: bool, whole: bool = False) -> Shape:
        shape = self._made(schema, preserve=preserve, whole=whole)
        held = [
            *shape.fields.values(),
            *(inner for inner in (shape.element, shape.items) if inner is not None),
        ]
        shape.firm = not shape.loose and all(inner.firm and not inner.loose for inner in held)
        return shape

    def _made(self, schema: JsonObject, *, preserve: bool, whole: bool) -> Shape:
        preserve = preserve or flag(schema, PRESERVE)
        kind = "" if flag(schema, INT_OR_STRING) else text(schema, "type")
        match kind:
            case "object":
                shape = Shape()
                self._map(shape, schema, preserve=preserve, whole=whole)
            case "array":
                shape = Shape()
                self._list(shape, schema, preserve=preserve)
            case "integer" | "number":
                shape = Shape(_NUMERIC)
            case "boolean":
                shape = Shape(_BOOLEAN)
            case "string":
                shape = Shape(_STRING if text(schema, "format") in ("", "byte") else _UNTYPED)
            case _:
                shape = Shape(_UNTYPED)
                shape.loose = True
                self._map(shape, schema, preserve=preserve, whole=False)
                self._list(shape, schema, preserve=preserve)
        return shape

    def _map(self, shape: Shape, schema: JsonObject, *, preserve: bool, whole: bool) -> None:
        shape.mapped, shape.whole = True, text(schema, MAP_TYPE) == ATOMIC
        for name, described in mapping(schema, "properties").items():
            if isinstance(described, dict):
                shape.fields[name] = self._of(described, preserve=preserve)
        if whole or flag(schema, EMBEDDED):
            for name in _TYPE_META:
                shape.fields[name] = Shape(_STRING)
            shape.fields["metadata"] = self._built_in.type("meta/v1.ObjectMeta")
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            shape.element = self._of(extra, preserve=preserve)
        elif extra is True or (extra is None and (preserve or not shape.fields)):
            shape.element = self._built_in.deduced

    def _list(self, shape: Shape, schema: JsonObject, *, preserve: bool) -> None:
        shape.listed = text(schema, LIST_TYPE) or ATOMIC
        held = schema.get("items")
        shape.items = self._of(held, preserve=preserve) if isinstance(held, dict) else self._built_in.untyped
        if shape.listed == MAP:
            properties = mapping(schema, "items", "properties")
            shape.keys = tuple(
                (name, mapping(properties, name).get("default")) for name in texts(schema, LIST_KEYS)
            )
