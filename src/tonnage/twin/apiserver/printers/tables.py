"""Objects as the tables that kubectl prints: upstream's columns per kind, a definition's for custom kinds.

Source: pkg/printers/internalversion and apiextensions' tableconvertor (v1.35).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from tonnage.decide.kubernetes.api.encoding.field_order import ObjectShapes
from tonnage.decide.kubernetes.api.encoding.scalars import read_time
from tonnage.decide.kubernetes.api.go_text import go_value
from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, mapping, text
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.printers.columns import (
    NAME,
    UNKNOWN,
    Column,
    Printer,
    age,
    age_column,
    created,
    name_of,
    since,
)
from tonnage.twin.apiserver.printers.jsonpath import JsonPath
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.statuses import bad_request

_GENERIC: Final = Printer((NAME, age_column()), lambda obj, now: [name_of(obj), age(obj, now)])
_PLAIN: Final = Printer((NAME, age_column("date")), _GENERIC.cells)
"""Of custom kinds without columns of their own."""


class Tables:
    """Makes tables; ages are by the server's clock."""

    def __init__(self, clock: Clock, shapes: ObjectShapes) -> None:
        self._clock = clock
        self._shapes = shapes
        self._built_in: Mapping[Resource, Printer] | None = None

    def table(
        self,
        served: ServedResource,
        objects: Sequence[JsonObject],
        metadata: JsonObject,
        include: str,
        version: str = "v1",
        *,
        scale: bool = False,
    ) -> JsonObject:
        """The Table object. `include` says what comes with a row: Object, Metadata or None.

        `scale`: the objects are the kind's Scale.
        """
        printer = _scale(served) if scale else self._printer(served)
        now = self._clock.now()
        rows: list[JsonValue] = [
            {"cells": printer.cells(obj, now), **self._beside(served, obj, include, version)}
            for obj in objects
        ]
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": metadata,
            "columnDefinitions": [column.definition() for column in printer.columns],
            # What says only when things were made is in Go a list that nobody has begun.
            "rows": rows or (None if printer.cells is created else []),
        }

    def partial(self, served: ServedResource, obj: JsonObject, version: str) -> JsonObject:
        """The object's metadata alone, as of that version of `meta.k8s.io`."""
        head: JsonObject = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
        metadata = mapping(obj, "metadata")
        return {**head, "metadata": metadata if served.custom is None else self._shapes.metadata(metadata)}

    def _beside(self, served: ServedResource, obj: JsonObject, include: str, version: str) -> JsonObject:
        match include:
            case "None":
                return {"object": None}
            case "Object":
                return {"object": obj}
            case _:
                return {"object": self.partial(served, obj, version)}

    def _printer(self, served: ServedResource) -> Printer:
        if served.custom is not None:
            return custom_printer(served.custom.columns)
        if self._built_in is None:
            from tonnage.twin.apiserver.printers.by_kind import PRINTERS

            self._built_in = PRINTERS
        return self._built_in.get(served.key, _GENERIC)


def _scale(served: ServedResource) -> Printer:
    from tonnage.twin.apiserver.printers.policies import CUSTOM_SCALE, SCALE

    return SCALE if served.custom is None else CUSTOM_SCALE


def check_include(include: str) -> None:
    """Refuse what cannot stand beside a row. Raises ApiError 400."""
    if include not in ("", "None", "Object", "Metadata"):
        message = f"Invalid value: {quoted(include)}: must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: includeObject: {message}")


def custom_printer(columns: Sequence[JsonObject]) -> Printer:
    """The table that a definition asks for."""
    if not columns:
        return _PLAIN
    shown = [
        Column(
            text(column, "name"),
            text(column, "type"),
            text(column, "format"),
            priority if isinstance(priority := at(column, "priority"), int) else 0,
            text(column, "description")
            or f"Custom resource definition column (in JSONPath format): {text(column, 'jsonPath')}",
        )
        for column in columns
    ]
    paths = [_path(text(column, "jsonPath")) for column in columns]

    def cells(obj: JsonObject, now: datetime) -> list[JsonValue]:
        values = (path.first(obj) if path else None for path in paths)
        return [
            name_of(obj),
            *(_cell(*pair, now) for pair in zip(shown, values, strict=True)),
        ]

    return Printer((NAME, *shown), cells)


def _path(written: str) -> JsonPath | None:
    """The path, or None: a column that cannot be read stays empty and takes no list with it."""
    try:
        return JsonPath.parse(written)
    except ValueError:
        return None


def _cell(column: Column, value: JsonValue, now: datetime) -> JsonValue:
    """The value if it is of the column's type, else nothing."""
    match column.type:
        case "date":
            return _since(value, now) if isinstance(value, str) else None
        case "integer" | "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value) if column.type == "integer" else value
        case "boolean" if isinstance(value, bool):
            return value
        case "integer" | "number" | "boolean":
            return None
        case _ if isinstance(value, dict | list | bool):
            return msgspec.json.encode(value, order="sorted").decode()
        case _:
            return None if value is None else go_value(value)


def _since(value: str, now: datetime) -> str:
    """How long ago a moment was; of what is none, that."""
    try:
        return since(str(read_time(value)), now) if value else UNKNOWN
    except ValueError:
        return "<invalid>"
