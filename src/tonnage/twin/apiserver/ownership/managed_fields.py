"""`metadata.managedFields` as values: who did what in which version, and which fields that left to them.

Source: k8s.io/apimachinery (util/managedfields/internal: managedfields.go, capmanagers.go), v1.35.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import msgspec

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text
from tonnage.twin.apiserver.ownership.fieldsets import FieldSet, ordered, read_fields, union

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MOST_UPDATERS: Final = 10
_USUAL: Final = 16 << 10
"""Bytes of a set that is kept for others like it."""
ANCIENT: Final = "ancient-changes"


@dataclass(frozen=True, slots=True)
class Manager:
    """Who writes, in which way. The version tells writers apart, not appliers (theirs is empty)."""

    name: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    @property
    def identifier(self) -> str:
        """By which messages order managers."""
        parts = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "subresource": self.subresource,
        }
        return json.dumps({key: value for key, value in parts.items() if value}, separators=(",", ":"))

    def __str__(self) -> str:
        shown = json.dumps(self.name, ensure_ascii=False)
        if self.subresource:
            shown = f'{shown} with subresource "{self.subresource}"'
        return f"{shown} using {self.api_version}" if self.operation == UPDATE else shown


@dataclass(frozen=True, slots=True)
class Owned:
    """What a manager owns: fields of a version, and when he last changed any (as objects write times)."""

    fields: FieldSet
    api_version: str
    time: str = ""
    entry: JsonObject | None = None
    """As the object carries it; None where it has changed since."""

    def left(self, fields: FieldSet) -> Owned:
        """The same manager with these fields."""
        return self if fields is self.fields else replace(self, fields=fields, entry=None)

    def since(self, time: str) -> Owned:
        """The same manager with fields changed at that time."""
        return self if time == self.time else replace(self, time=time, entry=None)


Managers = dict[Manager, Owned]


class MalformedError(ValueError):
    """Entries that cannot be read."""


def read_entries(entries: JsonValue, *, trusted: bool = False) -> Managers:
    """The managers of an object's `managedFields`. `trusted` ones were written by this module.

    Raises:
        MalformedError: they are no such entries.
    """
    managers: Managers = {}
    for entry in entries if isinstance(entries, list) else []:
        operation, version = text(entry, "operation"), text(entry, "apiVersion")
        if not isinstance(entry, dict) or operation not in (APPLY, UPDATE):
            raise MalformedError("operation must be `Apply` or `Update`")
        if not version:
            raise MalformedError("apiVersion must not be empty")
        if text(entry, "fieldsType") != "FieldsV1":
            raise MalformedError("fieldsType must be FieldsV1")
        manager = Manager(
            text(entry, "manager"),
            operation,
            "" if operation == APPLY else version,
            text(entry, "subresource"),
        )
        fields = _fields(entry, trusted=trusted)
        managers[manager] = Owned(fields, version, text(entry, "time"), entry if trusted else None)
    return managers


def _fields(entry: JsonObject, *, trusted: bool) -> FieldSet:
    fields = entry.get("fieldsV1")
    if trusted and isinstance(fields, dict):
        return fields  # type: ignore[return-value]
    try:
        return read_fields(fields if fields is not None else {})
    except (ValueError, RecursionError) as error:
        raise MalformedError(str(error)) from None


def written_entries(managers: Managers) -> list[JsonValue]:
    """The managers as objects carry them: appliers first, then the oldest first."""
    rows = sorted(
        managers.items(),
        key=lambda pair: (
            pair[0].operation,
            pair[1].time,
            pair[0].name,
            pair[1].api_version,
            pair[0].subresource,
        ),
    )
    return [_entry(manager, owned) for manager, owned in rows]


def _entry(manager: Manager, owned: Owned) -> JsonObject:
    if owned.entry is not None:
        return owned.entry
    entry: JsonObject = {}
    if manager.name:
        entry["manager"] = manager.name
    entry |= {"operation": manager.operation, "apiVersion": owned.api_version}
    if owned.time:
        entry["time"] = owned.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": _shared(owned.fields)}
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def _shared(fields: FieldSet) -> JsonObject:
    """The set in its order; equal sets are one in memory, since thousands of objects are owned alike."""
    encoded = msgspec.json.encode(fields)
    return _in_order(encoded) if len(encoded) <= _USUAL else _decoded(encoded)


def _decoded(encoded: bytes) -> JsonObject:
    return ordered(msgspec.json.decode(encoded))  # type: ignore[return-value]


_in_order = lru_cache(maxsize=4096)(_decoded)


def same_but_for_times(entries: Sequence[JsonValue], other: Sequence[JsonValue]) -> bool:
    """Whether nothing else than when it was written differs."""
    return len(entries) == len(other) and all(
        isinstance(left, dict)
        and isinstance(right, dict)
        and {**left, "time": None} == {**right, "time": None}
        for left, right in zip(entries, other, strict=True)
    )


def capped(managers: Managers) -> Managers:
    """The managers with the oldest writers of each version as one, where there are too many of them."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    excess = len(updaters) - MOST_UPDATERS
    if excess <= 0:
        return managers
    updaters.sort(key=lambda manager: (managers[manager].time, manager.identifier))
    merged = dict(managers)
    first: dict[str, Manager] = {}
    for manager in updaters:
        if excess <= 0:
            break
        owned = merged[manager]
        version = owned.api_version
        if version not in first:
            first[version] = manager
            continue
        bucket = Manager(ANCIENT, UPDATE, version)
        if bucket not in merged:
            merged[bucket] = merged.pop(first[version])
        del merged[manager]
        fields = union(owned.fields, merged[bucket].fields)
        merged[bucket] = replace(owned, fields=fields, entry=None)
        excess -= 1
    return merged
