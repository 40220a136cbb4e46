"""Who owns the number of replicas, as the scale subresource sees it and back.

Source: k8s.io/apimachinery (util/managedfields/scalehandler.go), v1.35.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, number, text
from tonnage.twin.apiserver.ownership.configurations import (
    AppliedConfiguration,
    apply_to,
    check_fit,
    check_kind,
)
from tonnage.twin.apiserver.ownership.fieldsets import FieldSet, difference, has
from tonnage.twin.apiserver.ownership.managed_fields import (
    APPLY,
    Manager,
    Managers,
    Owned,
    read_entries,
    written_entries,
)
from tonnage.twin.apiserver.ownership.updates import BEFORE_FIRST_APPLY, KindVersion, Writer, updated
from tonnage.twin.apiserver.statuses import StatusError

SCALE_VERSION: Final = "autoscaling/v1"
_REPLICAS: Final[FieldSet] = {"f:spec": {"f:replicas": {}}}
_REPLICAS_PATH: Final = ("f:spec", "f:replicas")
_EMPTY: Final[JsonObject] = {
    "kind": "Scale",
    "apiVersion": SCALE_VERSION,
    "metadata": {},
    "spec": {},
    "status": {"replicas": 0},
}
_SUBRESOURCE: Final = "scale"
Paths = Mapping[str, Sequence[str]]
"""Where replicas stand in each version of the kind, empty for a version that has no scale."""


@dataclass(frozen=True, slots=True)
class Rescaling:
    """A change of the scale of one object. `scale` is its Scale before."""

    obj: JsonObject
    scale: JsonObject
    version: KindVersion
    paths: Paths

    def updated(self, name: str, now: str, replicas: int) -> list[JsonValue]:
        """The object's entries once a writer has set the replicas."""
        parent = self._parent()
        inner = into_scale(parent, self.paths)
        if inner:
            # No replicas are left out of a Scale, and nobody owns what is not there.
            new: JsonObject = {**self.scale, "spec": {"replicas": replicas} if replicas else {}}
            inner = updated(self.scale, new, inner, self._writer(name, now), self._versions)
        return self._entries(parent, inner)

    def applied(self, application: AppliedConfiguration, name: str, now: str, *, custom: bool) -> int:
        """The replicas once a Scale is applied; `application` then has the entries. Raises ApiError."""
        check_kind(application.config, SCALE_VERSION, "Scale")
        check_fit(application.config, self.version.shape)
        parent = self._parent()
        inner = into_scale(parent, self.paths)
        if not inner:
            first = self._writer(BEFORE_FIRST_APPLY, now)
            inner = updated(_EMPTY, self.scale, {}, first, self._versions)
        outcome = apply_to(self.scale, application, inner, self._writer(name, now), self._versions)
        if custom and outcome.object is not None:
            raise _no_scale(application.config)
        application.entries = self._entries(parent, outcome.managers)
        return number(self.scale if outcome.object is None else outcome.object, "spec", "replicas")

    def _parent(self) -> Managers:
        return read_entries(items(self.obj, "metadata", "managedFields"), trusted=True)

    def _entries(self, parent: Managers, inner: Managers) -> list[JsonValue]:
        return written_entries(out_of_scale(parent, inner, self.paths, text(self.obj, "apiVersion")))

    def _writer(self, name: str, now: str) -> Writer:
        return Writer(name, self.version, _SUBRESOURCE, now)

    def _versions(self, name: str) -> KindVersion | None:
        return self.version if name == SCALE_VERSION else None


def into_scale(managers: Managers, paths: Paths) -> Managers:
    """The managers that own an object's replicas, as managers of its Scale."""
    scale_managers: Managers = {}
    for manager, owned in managers.items():
        path = paths.get(owned.api_version)
        if path and has(owned.fields, *path):
            scale_managers[_speaking(manager, SCALE_VERSION)] = Owned(_REPLICAS, SCALE_VERSION, owned.time)
    return scale_managers


def out_of_scale(parent: Managers, scale: Managers, paths: Paths, version: str) -> Managers:
    """The managers of an object once those of its Scale are these; versions nobody knows fall away.

    As upstream has it, who gets the replicas through the Scale is told without a time.
    """
    left = dict(scale)
    managers: Managers = {}
    for manager, owned in parent.items():
        path = paths.get(owned.api_version)
        if path is None:
            continue
        if not path or not has(owned.fields, *path):
            managers[manager] = owned
        elif manager in left:
            managers[manager] = owned
            del left[manager]
        else:
            fields = difference(owned.fields, _only(path))
            if fields:
                managers[manager] = owned.left(fields)
    for manager, owned in left.items():
        if has(owned.fields, *_REPLICAS_PATH):
            time = parent[manager].time if manager in parent else ""
            managers[manager] = Owned(_only(paths.get(version, ())), version, time)
    return managers


def _speaking(manager: Manager, version: str) -> Manager:
    manager_version = "" if manager.operation == APPLY else version
    return Manager(manager.name, manager.operation, manager_version, manager.subresource)


def _only(path: Sequence[str]) -> FieldSet:
    fields: FieldSet = {}
    for element in reversed(path):
        fields = {element: fields}
    return fields


def _no_scale(config: JsonObject) -> StatusError:
    """500: upstream cannot store an applied Scale of a custom kind."""
    metadata = config.get("metadata")
    about = f"{text(metadata, 'namespace')}/{text(metadata, 'name')}; {SCALE_VERSION}, Kind=Scale"
    return StatusError(
        500,
        "",
        f"failed to convert new object ({about}) to proper version: "
        f"request to convert CR to an invalid group/version: {SCALE_VERSION}",
    )
