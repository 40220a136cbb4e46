"""CustomResourceDefinitions put in force: names accepted, versions served, instances removed at the end.

Source: apiextensions-apiserver (pkg/controller/{establish,status,finalizer}, v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.adapters.ports import Clock
from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.access import at, copied, flag, mapping, mappings, put, text, texts
from tonnage.twin.apiserver.pipeline import timestamp
from tonnage.twin.apiserver.resources import (
    CustomVersion,
    Registry,
    Served,
    scale_subresource,
    status_subresource,
)
from tonnage.twin.apiserver.store import Resource, Store, Stored
from tonnage.wire.schema import KindRow, Subresource

DEFINITION: Final[Resource] = ("apiextensions.k8s.io", "customresourcedefinitions")
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class Definitions:
    """What the definitions in the store mean for the server."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    def settle(self, name: str) -> None:
        """Bring the served kinds and the definition's status in line with its spec; end what is deleted."""
        stored = self._store.get(DEFINITION, ("", name))
        if stored is None:
            self._registry.replace_custom(name, [])
            return
        if text(stored.object, "metadata", "deletionTimestamp"):
            self._remove_instances(stored.object)
            self._registry.replace_custom(name, [])
            self._let_go(stored)
            return
        taken = self._taken_names(stored.object)
        if not taken:
            self._registry.replace_custom(name, list(versions_of(stored.object)))
        self._write_status(stored, taken)

    def settle_all(self) -> None:
        """Put every stored definition in force, as after a start on kept state."""
        for stored in self._store.list(DEFINITION):
            self.settle(text(stored.object, "metadata", "name"))

    def _taken_names(self, definition: JsonObject) -> str:
        """Why the names cannot be accepted; empty when they can."""
        name, group = text(definition, "metadata", "name"), text(definition, "spec", "group")
        wanted = mapping(definition, "spec", "names")
        others = [
            served
            for served in self._registry
            if served.row.group == group and (served.custom is None or served.custom.definition != name)
        ]
        for served in others:
            row = served.row
            if text(wanted, "kind") in (row.kind, served.list_kind):
                return f'"{text(wanted, "kind")}" is already in use'
            used = {row.plural, row.singular, *row.short_names}
            for one in [text(wanted, "plural"), text(wanted, "singular"), *texts(wanted, "shortNames")]:
                if one in used:
                    return f'"{one}" is already in use'
        return ""

    def _write_status(self, stored: Stored, taken: str) -> None:
        obj = copied(stored.object)
        status = mapping(obj, "status")
        obj["status"] = status
        old = {text(one, "type"): one for one in mappings(status, "conditions")}
        accepted = (
            ("False", "KindConflict", taken) if taken else ("True", "NoConflicts", "no conflicts found")
        )
        established = (
            ("False", "NotAccepted", "not all names are accepted")
            if taken
            else ("True", "InitialNamesAccepted", "the initial names have been accepted")
        )
        now = timestamp(self._clock.now())
        status["conditions"] = [
            _condition("NamesAccepted", accepted, old, now),
            _condition("Established", established, old, now),
        ]
        names = mapping(obj, "spec", "names")
        status["acceptedNames"] = {} if taken else copied(names)
        storage = [text(one, "name") for one in mappings(obj, "spec", "versions") if flag(one, "storage")]
        known = texts(status, "storedVersions")
        status["storedVersions"] = [*known, *(one for one in storage if one not in known)]
        if obj != stored.object:
            name = text(obj, "metadata", "name")
            self._store.update(DEFINITION, ("", name), obj, read=stored)

    def _remove_instances(self, definition: JsonObject) -> None:
        resource = (text(definition, "spec", "group"), text(definition, "spec", "names", "plural"))
        for stored in self._store.list(resource):
            metadata = mapping(stored.object, "metadata")
            key = (text(metadata, "namespace"), text(metadata, "name"))
            self._store.delete(resource, key, read=stored)

    def _let_go(self, stored: Stored) -> None:
        obj = copied(stored.object)
        rest = [one for one in texts(obj, "metadata", "finalizers") if one != CLEANUP]
        put(obj, list[JsonValue](rest), "metadata", "finalizers")
        key = ("", text(obj, "metadata", "name"))
        if rest:
            self._store.update(DEFINITION, key, obj, read=stored)
        else:
            self._store.delete(DEFINITION, key, read=stored, last=obj)


def versions_of(definition: JsonObject) -> Iterator[Served]:
    """The resources that a definition serves, the storage version included only if it is served."""
    spec = mapping(definition, "spec")
    group = text(spec, "group")
    versions = mappings(spec, "versions")
    storage = next((text(one, "name") for one in versions if flag(one, "storage")), "")
    for version in sorted(versions, key=lambda one: version_priority(text(one, "name")), reverse=True):
        if not flag(version, "served"):
            continue
        row = _row(spec, text(version, "name"), mapping(version, "subresources"))
        custom = CustomVersion(
            definition=text(definition, "metadata", "name"),
            storage_api_version=f"{group}/{storage}",
            schema=mapping(version, "schema", "openAPIV3Schema"),
            columns=tuple(mappings(version, "additionalPrinterColumns")),
            scale=mapping(version, "subresources", "scale") or None,
            selectable=tuple(
                text(one, "jsonPath").removeprefix(".") for one in mappings(version, "selectableFields")
            ),
            deprecation=_deprecation(version, group, row.kind),
        )
        list_kind = text(spec, "names", "listKind") or f"{row.kind}List"
        yield Served(row, list_kind, custom, frozenset(one.name for one in row.subresources))


def _row(spec: JsonObject, version: str, wanted: JsonObject) -> KindRow:
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
    found: list[Subresource] = []
    if "status" in wanted:
        found.append(status_subresource(row))
    if "scale" in wanted:
        found.append(scale_subresource())
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    return KindRow(**{**fields, "subresources": tuple(found)})


def _deprecation(version: JsonObject, group: str, kind: str) -> str:
    if not flag(version, "deprecated"):
        return ""
    said = at(version, "deprecationWarning")
    return said if isinstance(said, str) else f"{group}/{text(version, 'name')} {kind} is deprecated"


def _condition(name: str, said: tuple[str, str, str], old: dict[str, JsonObject], now: str) -> JsonObject:
    status, reason, message = said
    before = old.get(name, {})
    since = text(before, "lastTransitionTime") if text(before, "status") == status else ""
    return {
        "type": name,
        "status": status,
        "lastTransitionTime": since or now,
        "reason": reason,
        "message": message,
    }


def version_priority(name: str) -> tuple[int, int, int, str]:
    """Sort key of API versions, greatest is preferred: v2 over v1 over v1beta2 over v1alpha1 over others.

    >>> max(["v1beta1", "v1", "v2alpha1"], key=version_priority)
    'v1'
    """
    digits, stability, minor = name.removeprefix("v"), 3, 0
    for rank, word in ((2, "beta"), (1, "alpha")):
        major, found, after = digits.partition(word)
        if found:
            digits, stability = major, rank
            minor = int(after) if after.isdecimal() else 0
            break
    if not name.startswith("v") or not digits.isdecimal():
        return 0, 0, 0, name
    return stability, int(digits), minor, name
