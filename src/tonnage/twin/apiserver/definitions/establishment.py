"""CustomResourceDefinitions put in force: names accepted, versions served, instances removed at the end.

Source: apiextensions-apiserver (pkg/controller/{establish,status,finalizer}, v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, copied, flag, mapping, mappings, number, put, text, texts
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.whole_numbers import whole_number
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.definitions.status import is_established, names_status, with_condition
from tonnage.twin.apiserver.object_store import ObjectStore, Stored
from tonnage.twin.apiserver.ownership.field_manager import FieldOwnership, put_entries
from tonnage.twin.apiserver.requests import ApiRequest, Options
from tonnage.twin.apiserver.resource_names import DEFINITION
from tonnage.twin.apiserver.resources import (
    CustomVersion,
    Registry,
    ServedResource,
    scale_subresource,
    status_subresource,
)
from tonnage.wire.schema import KindRow, Subresource

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_EVER: Final = 1 << 63
"""What is written in one of several versions lacks the defaults of that in which it is kept."""


class Definitions:
    """What the definitions in the store mean for the server."""

    def __init__(
        self,
        store: ObjectStore,
        registry: Registry,
        clock: Clock,
        ownership: FieldOwnership,
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._ownership = ownership

    def settle(self, name: str) -> None:
        """Bring served kinds and statuses in line with a definition, also others' that wait for its names."""
        waiting = [name]
        while waiting:
            definition_name = waiting.pop(0)
            if self._settle(definition_name):
                group = definition_name.partition(".")[2]
                others = self._of_group(group)
                waiting += [other for other in others if other not in (definition_name, *waiting)]

    def settle_all(self) -> None:
        """Put every stored definition in force, as after a start on kept state."""
        for stored in self._store.list(DEFINITION):
            self.settle(text(stored.object, "metadata", "name"))

    def _settle(self, name: str) -> bool:
        """Whether its names have changed, for which others may wait."""
        stored = self._store.get(DEFINITION, ("", name))
        if stored is None:
            self._registry.replace_custom(name, [])
            return True
        if text(stored.object, "metadata", "deletionTimestamp"):
            self._end(stored)
            freed = self._store.get(DEFINITION, ("", name)) is None
            self._serve(name)
            return freed
        status = names_status(stored.object, self._accepted(text(stored.object, "spec", "group")))
        if status is not None:
            self._write(stored, status)
        self._serve(name)
        return status is not None

    def _serve(self, name: str) -> None:
        stored = self._store.get(DEFINITION, ("", name))
        served = list(versions_of(stored.object)) if stored is not None else []
        self._registry.replace_custom(name, served)

    def _of_group(self, group: str) -> list[str]:
        return [
            text(stored.object, "metadata", "name")
            for stored in self._store.list(DEFINITION)
            if text(stored.object, "spec", "group") == group
        ]

    def _accepted(self, group: str) -> list[JsonObject]:
        """The names that definitions of a group have been given."""
        return [
            mapping(stored.object, "status", "acceptedNames")
            for stored in self._store.list(DEFINITION)
            if text(stored.object, "spec", "group") == group
        ]

    def _write(self, stored: Stored, status: JsonObject, finalizers: list[str] | None = None) -> Stored:
        """Store a definition's new status, as the server itself. Moments of conditions are filled in."""
        obj = copied(stored.object)
        before = {text(condition, "type"): condition for condition in mappings(obj, "status", "conditions")}
        conditions: list[JsonValue] = [
            self._dated(condition, before) for condition in mappings(status, "conditions")
        ]
        obj["status"] = {**mapping(obj, "status"), **status, "conditions": conditions}
        if finalizers is not None:
            put(obj, list[JsonValue](finalizers), "metadata", "finalizers")
        served = self._registry.find(DEFINITION[0], "v1", DEFINITION[1])
        assert served is not None
        name = text(obj, "metadata", "name")
        options = Options(field_manager="kube-apiserver")
        request = ApiRequest("update", served, "", name, "status", options)
        put_entries(obj, self._ownership.updated(request, obj, stored.object, None))
        return self._store.update(DEFINITION, ("", name), obj, read=stored)

    def _dated(self, condition: JsonObject, before: dict[str, JsonObject]) -> JsonObject:
        old = before.get(text(condition, "type"), {})
        same = text(old, "status") == text(condition, "status")
        since = text(old, "lastTransitionTime") if same else ""
        kind, status = text(condition, "type"), text(condition, "status")
        now = since or timestamp(self._clock.now())
        return {"type": kind, "status": status, "lastTransitionTime": now, **_condition_facts(condition)}

    def _end(self, stored: Stored) -> None:
        """Remove the instances of a deleted definition; once there are none, let it go."""
        obj = stored.object
        finalizers = [finalizer for finalizer in texts(obj, "metadata", "finalizers") if finalizer != CLEANUP]
        if CLEANUP in texts(obj, "metadata", "finalizers"):
            if not is_established(obj):
                condition = ("False", "NeverEstablished", "resource was never established")
            elif self._instances_left(obj):
                condition = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
                finalizers.append(CLEANUP)
            else:
                condition = ("False", "InstanceDeletionCompleted", "removed all instances")
            stored = self._write(
                stored, {"conditions": with_condition(obj, "Terminating", condition)}, finalizers
            )
        if not finalizers:
            name = text(obj, "metadata", "name")
            self._store.delete(DEFINITION, ("", name), read=stored, last=copied(stored.object))

    def _instances_left(self, definition: JsonObject) -> bool:
        """Whether somebody still waits for an instance; those for whom nobody does are gone."""
        resource = (text(definition, "spec", "group"), text(definition, "spec", "names", "plural"))
        left = False
        for stored in self._store.list(resource):
            metadata = mapping(stored.object, "metadata")
            key = (text(metadata, "namespace"), text(metadata, "name"))
            if not texts(metadata, "finalizers"):
                self._store.delete(resource, key, read=stored)
                continue
            left = True
            if not text(metadata, "deletionTimestamp"):
                obj = copied(stored.object)
                put(obj, timestamp(self._clock.now()), "metadata", "deletionTimestamp")
                put(obj, 0, "metadata", "deletionGracePeriodSeconds")
                put(obj, number(metadata, "generation") + 1, "metadata", "generation")
                self._store.update(resource, key, obj, read=stored)
        return left


def _condition_facts(condition: JsonObject) -> JsonObject:
    return {key: value for key, value in condition.items() if key not in ("type", "status")}


def versions_of(definition: JsonObject) -> Iterator[ServedResource]:
    """The resources that a definition serves, under the names that it was given."""
    if not is_established(definition):
        return
    spec = {**mapping(definition, "spec"), "names": mapping(definition, "status", "acceptedNames")}
    group = text(spec, "group")
    versions = mappings(spec, "versions")
    stored = next((entry for entry in versions if flag(entry, "storage")), {})
    written = int(text(definition, "metadata", "resourceVersion") or 0)
    for version in sorted(versions, key=lambda entry: version_priority(text(entry, "name")), reverse=True):
        if not flag(version, "served"):
            continue
        row = _row(spec, text(version, "name"), mapping(version, "subresources"))
        custom = CustomVersion(
            definition=text(definition, "metadata", "name"),
            storage_api_version=f"{group}/{text(stored, 'name')}",
            schema=mapping(version, "schema", "openAPIV3Schema"),
            columns=tuple(mappings(version, "additionalPrinterColumns")),
            scale=mapping(version, "subresources", "scale") or None,
            selectable=tuple(
                text(entry, "jsonPath").removeprefix(".") for entry in mappings(version, "selectableFields")
            ),
            deprecation=_deprecation(version, spec),
            terminating=bool(text(definition, "metadata", "deletionTimestamp")),
            storage_schema=mapping(stored, "schema", "openAPIV3Schema"),
            revision=_EVER if len(versions) > 1 else written,
        )
        list_kind = text(spec, "names", "listKind") or f"{row.kind}List"
        yield ServedResource(row, list_kind, custom, frozenset(entry.name for entry in row.subresources))


def _row(spec: JsonObject, version: str, declared: JsonObject) -> KindRow:
    names = mapping(spec, "names")
    row = KindRow(
        group=text(spec, "group"),
        version=version,
        kind=text(names, "kind"),
        plural=text(names, "plural"),
        singular=text(names, "singular") or text(names, "kind").lower(),
        namespaced=text(spec, "scope") == "Namespaced",
        verbs=_VERBS,
        type="",
        short_names=tuple(texts(names, "shortNames")),
        categories=tuple(texts(names, "categories")),
    )
    parts: list[Subresource] = []
    if "status" in declared:
        parts.append(status_subresource(row))
    if "scale" in declared:
        parts.append(scale_subresource())
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    return KindRow(**{**fields, "subresources": tuple(parts)})


def _deprecation(version: JsonObject, spec: JsonObject) -> str:
    """What clients of a version are warned of: the definition's words, or where to go instead."""
    if not flag(version, "deprecated"):
        return ""
    warning = at(version, "deprecationWarning")
    if isinstance(warning, str):
        return warning
    group, kind, own = text(spec, "group"), text(spec, "names", "kind"), text(version, "name")
    better = [
        text(other, "name")
        for other in mappings(spec, "versions")
        if flag(other, "served")
        and not flag(other, "deprecated")
        and version_priority(text(other, "name")) > version_priority(own)
    ]
    instead = f"; use {group}/{max(better, key=version_priority)} {kind}" if better else ""
    return f"{group}/{own} {kind} is deprecated{instead}"


def version_priority(name: str) -> tuple[int, int, int, str]:
    """Sort key of API versions, greatest is preferred: v2 over v1 over v1beta2 over v1alpha1 over others.

    >>> max(["v1beta1", "v1", "v2alpha1"], key=version_priority)
    'v1'
    """
    digits, stability, minor = name.removeprefix("v"), 3, 0
    for rank, word in ((2, "beta"), (1, "alpha")):
        major, matched, after = digits.partition(word)
        if matched:
            digits, stability = major, rank
            minor = whole_number(after) or 0
            break
    number = whole_number(digits)
    if not name.startswith("v") or number is None:
        return 0, 0, 0, name
    return stability, number, minor, name
