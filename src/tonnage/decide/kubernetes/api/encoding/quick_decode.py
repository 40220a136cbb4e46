"""The usual body, decoded without keeping books on where one stands, which only messages need.

What is out of the ordinary (unknown or repeated fields, wrong types, unions) is left to `decode`, which says
it; of everything else both make the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.api.encoding import scalars
from tonnage.decide.kubernetes.api.encoding.decode import NEVER_IN_TEMPLATES, even_empty, zero_value
from tonnage.model.json import JsonObject, JsonValue
from tonnage.wire.schema import Field, Schema

_METADATA: Final = "meta/v1.ObjectMeta"


class _OddError(Exception):
    """Not for here."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """An object type: each field with its place in Go's order, and those that are always written."""

    fields: dict[str, tuple[int, Field]]
    required: tuple[Field, ...]
    counted: tuple[str, ...] = ()
    """Fields that may count even if they are empty."""


class QuickDecoder:
    """Makes of bodies what `decode` does with `stored`, or nothing."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._plans: dict[str, _Plan] = {}

    def read(self, type_name: str, body: JsonValue) -> JsonObject | None:
        """The object of that type; None where `decode` is to be asked."""
        try:
            return self._object(type_name, body)
        except (_OddError, scalars.WrongTypeError, ValueError):
            return None

    def _object(self, type_name: str, body: JsonValue) -> JsonObject:
        if type(body) is not dict:
            raise _OddError
        plan = self._plans.get(type_name) or self._plan(type_name)
        decoded: JsonObject = {}
        last, in_order = -1, True
        for key, sent in body.items():
            if key not in plan.fields:
                raise _OddError
            place, row = plan.fields[key]
            if sent is None:
                continue
            value = sent if type(sent) is str and row.type == "string" else self._value(row, sent)
            if row.type in ("array", "map") and not value:
                if key in plan.counted:
                    raise _OddError
                continue  # the database keeps protobuf, where an empty one is none
            if not value and not (row.pointer or row.keep):
                continue
            decoded[key] = value
            in_order = in_order and place > last
            last = place
        for row in plan.required:
            if row.name not in decoded:
                decoded[row.name] = zero_value(self._schema, row)
                in_order = False
        return decoded if in_order else {name: decoded[name] for name in plan.fields if name in decoded}

    def _plan(self, type_name: str) -> _Plan:
        rows = self._schema.types[type_name].fields
        fields = {name: (place, row) for place, (name, row) in enumerate(rows.items())}
        even_empty_fields = even_empty(type_name) or (NEVER_IN_TEMPLATES if type_name == _METADATA else ())
        always_written = tuple(row for row in rows.values() if row.keep)
        plan = self._plans[type_name] = _Plan(fields, always_written, even_empty_fields)
        return plan

    def _value(self, row: Field, value: JsonValue) -> JsonValue:
        match row.type:
            case "string":
                if not isinstance(value, str):
                    raise _OddError
                return value
            case "object":
                return self._object(row.ref, value)
            case "array":
                if not isinstance(value, list):
                    raise _OddError
                return [self._element(row, element) for element in value]
            case "map":
                if type(value) is not dict:
                    raise _OddError
                return {key: self._element(row, value[key]) for key in sorted(value)}
            case word:
                return _scalar(word, value)

    def _element(self, row: Field, value: JsonValue) -> JsonValue:
        if row.item == "object":
            return self._object(row.ref, value)
        if value is None:
            raise _OddError
        return _scalar(row.item, value)


def _scalar(word: str, value: JsonValue) -> JsonValue:
    read = scalars.READERS.get(word)
    if read is not None:
        return read(value)
    if word != "raw":
        raise _OddError
    return value
