"""Filling in what nobody said.

Three sources, applied from the outside in: `RULES` (a function for a type where the value depends on others),
`DEFAULTS` (a field's constant), and the `default` of the schema table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tonnage.decide.kubernetes.api.defaults.constants import DEFAULTS
from tonnage.decide.kubernetes.api.defaults.rules import RULES
from tonnage.decide.kubernetes.api.encoding.body import copy_json
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.quantity import round_up_milli
from tonnage.wire.schema import Field, KindRow, Schema


def apply_defaults(schema: Schema, kind_row: KindRow, obj: JsonObject) -> JsonObject:
    """The decoded object of that kind with its defaults; the given one is not changed."""
    completed = copy_json(obj)
    assert isinstance(completed, dict)
    Defaults(schema).fill(kind_row.type, completed)
    return completed


@dataclass(frozen=True, slots=True)
class _Plan:
    """What there is to fill in to objects of a type, and in which fields to go on."""

    rule: Callable[[JsonObject], None] | None
    constants: tuple[tuple[Field, JsonValue], ...]
    amounts: tuple[str, ...]
    inside: tuple[Field, ...]
    order: tuple[str, ...]


class Defaults:
    """The defaults of all types; where a type has none, also inside of it, nothing is looked at."""

    def __init__(self, schema: Schema) -> None:
        self._types = schema.types
        self._plans: dict[str, _Plan] = {}
        self._has: dict[str, bool] = {}

    def fill(self, type_name: str, obj: JsonObject) -> None:
        """Give a decoded object of the type its defaults."""
        plan = self._plans.get(type_name) or self._plan(type_name)
        if plan.rule is not None:
            plan.rule(obj)
        size = len(obj)
        for row, default in plan.constants:
            if _unset(row, obj.get(row.name)):
                obj[row.name] = copy_json(default)
        for name in plan.amounts:
            amounts = obj.get(name)
            if isinstance(amounts, dict):
                for key, amount in amounts.items():
                    amounts[key] = round_up_milli(str(amount))
        for row in plan.inside:
            self._inside(row, obj.get(row.name))
        if plan.rule is not None or len(obj) > size:
            _put_in_order(plan.order, obj)

    def _inside(self, row: Field, value: JsonValue) -> None:
        held: Iterable[JsonValue] = ()
        if row.type == "object":
            held = (value,)
        elif isinstance(value, (dict, list)):
            held = value.values() if isinstance(value, dict) else value
        for inner in held:
            if isinstance(inner, dict):
                self.fill(row.ref, inner)

    def _plan(self, type_name: str) -> _Plan:
        rows = self._types[type_name].fields.values()
        inside = tuple(row for row in rows if row.ref in self._types and self._anything(row.ref))
        amounts = tuple(row.name for row in rows if _holds_amounts(row))
        order = tuple(self._types[type_name].fields)
        rule = RULES.get(type_name)
        plan = self._plans[type_name] = _Plan(rule, self._constants(type_name), amounts, inside, order)
        return plan

    def _constants(self, type_name: str) -> tuple[tuple[Field, JsonValue], ...]:
        table = DEFAULTS.get(type_name, {})
        rows = self._types[type_name].fields.items()
        defaults = ((row, table.get(name, row.default)) for name, row in rows)
        return tuple(
            (row, default)
            for row, default in defaults
            if default is not None and (row.pointer or row.keep or default)
        )

    def _anything(self, type_name: str) -> bool:
        """Whether there is something to fill in to a type or inside of it."""
        visited: set[str] = set()
        has_defaults = self._search(type_name, visited)
        if not has_defaults:
            self._has |= dict.fromkeys(visited, False)
        return has_defaults

    def _search(self, type_name: str, visited: set[str]) -> bool:
        cached = self._has.get(type_name)
        if cached is not None or type_name in visited:
            return bool(cached)
        visited.add(type_name)
        rows = self._types[type_name].fields.values()
        has_defaults = (
            type_name in RULES
            or bool(self._constants(type_name))
            or any(map(_holds_amounts, rows))
            or any(self._search(row.ref, visited) for row in rows if row.ref in self._types)
        )
        if has_defaults:
            self._has[type_name] = True
        return has_defaults


def _holds_amounts(row: Field) -> bool:
    return row.go == "v1.ResourceList"


def _unset(row: Field, value: JsonValue) -> bool:
    return value is None or (not row.pointer and value in ("", 0, [], {}) and row.type != "object")


def _put_in_order(order: Iterable[str], obj: JsonObject) -> None:
    """Put the fields into Go's order again."""
    ordered = {name: obj[name] for name in order if name in obj}
    obj.clear()
    obj.update(ordered)
