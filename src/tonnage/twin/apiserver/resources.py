"""The resources that the server serves: built-in kinds from the schema table, custom kinds as defined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import msgspec

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.feature_gates import DEFAULT_GATES, FeatureGates
from tonnage.twin.apiserver.object_store import Resource
from tonnage.wire.schema import KindRow, Schema, Subresource

_STORED_AS: Final[dict[Resource, Resource]] = {("events.k8s.io", "events"): ("", "events")}
"""Kinds that are another one under a second name."""
_STORED_IN: Final = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "apiextensions.k8s.io/v1beta1",
    ("autoscaling", "HorizontalPodAutoscaler"): "autoscaling/v2",
    ("events.k8s.io", "Event"): "v1",
    ("storage.k8s.io", "VolumeAttributesClass"): "storage.k8s.io/v1beta1",
}
"""Kinds that a genuine server keeps in another version than it serves."""


@dataclass(frozen=True, slots=True)
class CustomVersion:
    """What a CustomResourceDefinition says of one version. `schema` is its openAPIV3Schema.

    `storage_schema` is that of the version in which objects are kept; what was written before `revision`
    may not fit that. `terminating`: the definition is deleted, and nothing new is made.
    """

    definition: str
    storage_api_version: str
    schema: JsonObject
    columns: tuple[JsonObject, ...] = ()
    scale: JsonObject | None = None
    selectable: tuple[str, ...] = ()
    deprecation: str = ""
    terminating: bool = False
    storage_schema: JsonObject = field(default_factory=dict)
    revision: int = 0


@dataclass(frozen=True)
class ServedResource:
    """A resource in one version: what discovery lists and requests are routed to."""

    row: KindRow
    list_kind: str
    custom: CustomVersion | None = None
    subresources: frozenset[str] = field(default_factory=frozenset)
    gates: FeatureGates = DEFAULT_GATES

    @cached_property
    def key(self) -> Resource:
        """Where the store keeps its objects; the same for all versions and names."""
        return _STORED_AS.get((self.row.group, self.row.plural), (self.row.group, self.row.plural))

    @cached_property
    def stored_version(self) -> str:
        """The API version in which a genuine server keeps its objects."""
        if self.custom is not None:
            return self.custom.storage_api_version
        row = self.row
        return _STORED_IN.get((row.group, row.kind), row.api_version)

    @cached_property
    def has_status(self) -> bool:
        """Whether status is written apart from the rest."""
        return "status" in self.subresources


COMPONENTS: Final[Resource] = ("", "componentstatuses")
"""Parts of the control plane, of which a genuine server keeps nothing: they have no version."""
BINDINGS: Final[Resource] = ("", "bindings")
"""The older way to bind pods; nothing is kept there."""
REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Groups whose objects are answered at once and kept nowhere."""
_NOT_SERVED: Final = (("", "pods", "resize"),)
"""Subresources that a genuine server has beside."""


def built_in(schema: Schema, gates: FeatureGates = DEFAULT_GATES) -> Iterator[ServedResource]:
    """The kinds of the table that the server serves."""
    for row in schema.kinds:
        is_served = "list" in row.verbs or row.group in REVIEWS or (row.group, row.plural) == BINDINGS
        if not is_served:
            continue
        parts = tuple(
            part for part in row.subresources if (row.group, row.plural, part.name) not in _NOT_SERVED
        )
        served = msgspec.structs.replace(row, subresources=parts)
        yield ServedResource(served, f"{row.kind}List", None, frozenset(part.name for part in parts), gates)


class Registry:
    """Resources by group, version and plural. Custom ones come and go."""

    def __init__(self, schema: Schema, gates: FeatureGates = DEFAULT_GATES) -> None:
        self.schema = schema
        self._served: dict[tuple[str, str, str], ServedResource] = {}
        self._kinds: dict[tuple[str, str, str], ServedResource] = {}
        for served in built_in(schema, gates):
            self._add(served)

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """The resource at a path, or None."""
        return self._served.get((group, version, plural))

    def builds_in(self, group: str) -> bool:
        """Whether the server itself brings kinds of this group."""
        return any(row.group == group for row in self.schema.kinds)

    def find_kind(self, group: str, version: str, kind: str) -> ServedResource | None:
        """The resource of a kind, or None."""
        return self._kinds.get((group, version, kind))

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(self._served.values())

    def replace_custom(self, definition: str, served: list[ServedResource]) -> None:
        """Serve these versions of a custom kind, and no others of its definition."""
        for table in (self._served, self._kinds):
            for path, old in list(table.items()):
                if old.custom is not None and old.custom.definition == definition:
                    del table[path]
        for version in served:
            self._add(version)

    def group_versions(self) -> dict[str, dict[str, list[ServedResource]]]:
        """Resources by group and version, in the order of serving, the core group first."""
        groups: dict[str, dict[str, list[ServedResource]]] = {"": {}}
        for served in self:
            groups.setdefault(served.row.group, {}).setdefault(served.row.version, []).append(served)
        return groups

    def _add(self, served: ServedResource) -> None:
        row = served.row
        self._served[row.group, row.version, row.plural] = served
        self._kinds[row.group, row.version, row.kind] = served


def internal_package(group: str) -> str:
    """The Go package of a group's own types, which messages name.

    >>> internal_package("rbac.authorization.k8s.io"), internal_package("")
    ('rbac', 'core')
    """
    return "core" if group in ("", "events.k8s.io") else group.partition(".")[0]


def scale_subresource() -> Subresource:
    """The subresource that a custom kind with `scale` has."""
    return Subresource("scale", "autoscaling", "v1", "Scale", ("get", "patch", "update"))


def status_subresource(row: KindRow) -> Subresource:
    """The subresource that a custom kind with `status` has."""
    return Subresource("status", row.group, row.version, row.kind, ("get", "patch", "update"))
