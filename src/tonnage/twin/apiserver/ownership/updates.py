"""How ownership of fields moves: with every write, and with server-side apply.

Source: sigs.k8s.io/structured-merge-diff v6 (merge/update.go), k8s.io/apimachinery
(util/managedfields/internal), v1.35.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping
from tonnage.twin.apiserver.ownership.comparison import Change, compare
from tonnage.twin.apiserver.ownership.fieldsets import (
    FieldSet,
    difference,
    intersection,
    paths,
    union,
    without,
)
from tonnage.twin.apiserver.ownership.managed_fields import APPLY, UPDATE, Manager, Managers, Owned, capped
from tonnage.twin.apiserver.ownership.merge import merge, named_fields, reconciled, taken_out, with_named
from tonnage.twin.apiserver.ownership.type_structures import Shape

BEFORE_FIRST_APPLY: Final = "before-first-apply"
_STRIPPED_META: Final = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
STRIPPED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}, **{f"f:{name}": {} for name in _STRIPPED_META}},
}
"""Fields of every object that nobody ever owns, as a set."""


@dataclass(frozen=True, slots=True)
class KindVersion:
    """A kind in one version: its type, how objects look in it, and which fields no request there sets."""

    name: str
    shape: Shape
    ignored: FieldSet
    convert: Callable[[JsonObject], JsonObject]
    settled: bool = True
    """The type never changes while objects live."""


Versions = Callable[[str], KindVersion | None]
"""The kind in a version; None where it is not served in it (any more)."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes an object, in which version, through which subresource and when."""

    name: str
    version: KindVersion
    subresource: str
    now: str

    def manager(self, operation: str) -> Manager:
        version = "" if operation == APPLY else self.version.name
        return Manager(self.name or "unknown", operation, version, self.subresource)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that somebody else owns."""

    manager: Manager
    path: tuple[str, ...]


class ConflictsError(Exception):
    """Fields that an applier may take only by force."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying came to. `object` is None where it changed nothing."""

    object: JsonObject | None
    managers: Managers


def updated(
    live: JsonObject, new: JsonObject, managers: Managers, writer: Writer, versions: Versions
) -> Managers:
    """The managers once a writer has made `new` of `live`. Raises BadElementError."""
    managers = _reconciled(managers, versions)
    changes = _Changes(live, new, writer.version, versions)
    change = changes.own
    left: Managers = {}
    for manager, owned in managers.items():
        theirs = changes.of(owned.api_version)
        if theirs is None:
            continue
        fields = difference(owned.fields, theirs.touched)
        if fields:
            left[manager] = owned.left(fields)
    written = difference(change.written, STRIPPED)
    if written:
        manager = writer.manager(UPDATE)
        before = left.get(manager)
        fields = union(written, before.fields) if before else written
        left[manager] = Owned(fields, writer.version.name, writer.now)
    return capped(left)


def applied(
    live: JsonObject,
    config: JsonObject,
    managers: Managers,
    writer: Writer,
    versions: Versions,
    *,
    force: bool,
) -> Applied:
    """The object and its managers once a configuration is applied.

    Raises:
        ConflictsError: others own fields that it would change.
        BadElementError: a list has an element that cannot be told from others.
    """
    version, manager = writer.version, writer.manager(APPLY)
    managers = _reconciled(managers, versions)
    merged = merge(version.shape, live, config)
    assert isinstance(merged, dict)
    fields = without(named_fields(version.shape, config), version.ignored)
    last = managers.get(manager)
    now = {**managers, manager: Owned(fields, version.name, last.time if last else "")}
    # Before conflicts are looked for: fields that go are changes, too.
    if last is not None and last.fields:
        merged = _pruned(merged, now, manager, last, versions)
    now = _with_takeover(_Changes(live, merged, version, versions), now, manager, force=force)
    if manager in now:
        remaining = difference(now[manager].fields, STRIPPED)
        if remaining:
            now[manager] = now[manager].left(remaining)
        else:
            del now[manager]
    if merged == live:
        return Applied(None, now)
    if manager in now:
        now[manager] = now[manager].since(writer.now)
    return Applied(merged, now)


def _with_takeover(changes: _Changes, managers: Managers, taker: Manager, *, force: bool) -> Managers:
    """The managers once the taker has what others lose by a change. Raises ConflictsError."""
    left: Managers = {}
    conflicts: list[Conflict] = []
    for manager, owned in managers.items():
        if manager == taker:
            if owned.fields:
                left[manager] = owned
            continue
        theirs = changes.of(owned.api_version)
        if theirs is None:
            continue
        lost = intersection(owned.fields, theirs.written)
        conflicts += (Conflict(manager, path) for path in paths(lost))
        fields = difference(difference(owned.fields, lost), theirs.removed)
        if fields:
            left[manager] = owned.left(fields)
    if conflicts and not force:
        raise ConflictsError(conflicts)
    return left


def _pruned(
    merged: JsonObject, managers: Managers, applier: Manager, last: Owned, versions: Versions
) -> JsonObject:
    """The object without what the applier named last time and no longer does, unless somebody owns it."""
    version = versions(last.api_version)
    if version is None:
        return merged
    whole = version.convert(merged)
    pruned = mapping(taken_out(version.shape, whole, with_named(version.shape, last.fields)))
    held: dict[str, FieldSet] = {}
    for owned in managers.values():
        held[owned.api_version] = union(held.get(owned.api_version, {}), owned.fields)
    # The version that was pruned comes first.
    for name in sorted(held, key=lambda name: name != last.api_version):
        other = versions(name)
        if other is not None:
            whole, pruned = other.convert(whole), other.convert(pruned)
            pruned = _with_owned(other.shape, whole, pruned, held[name])
    whole, pruned = version.convert(whole), version.convert(pruned)
    shape = version.shape
    gone = difference(_fields_of(shape, whole), _fields_of(shape, pruned))
    remaining = mapping(taken_out(shape, whole, intersection(gone, with_named(shape, last.fields))))
    target = versions(managers[applier].api_version)
    return remaining if target is None else target.convert(remaining)


def _with_owned(shape: Shape, whole: JsonObject, pruned: JsonObject, owned: FieldSet) -> JsonObject:
    """What was pruned, with those of its fields that somebody owns back in."""
    remaining = union(_fields_of(shape, pruned), with_named(shape, owned))
    return mapping(taken_out(shape, whole, difference(_fields_of(shape, whole), remaining)))


def _fields_of(shape: Shape, value: JsonObject) -> FieldSet:
    return with_named(shape, named_fields(shape, value))


def _reconciled(managers: Managers, versions: Versions) -> Managers:
    """The managers' sets as the types of now have them; versions that are no longer served fall away."""
    reconciled_managers: Managers = {}
    for manager, owned in managers.items():
        version = versions(owned.api_version)
        if version is None:
            continue
        fields = owned.fields if version.settled else reconciled(version.shape, owned.fields)
        reconciled_managers[manager] = owned.left(fields)
    return reconciled_managers


class _Changes:
    """One change as each version sees it."""

    def __init__(self, live: JsonObject, new: JsonObject, version: KindVersion, versions: Versions) -> None:
        self._live, self._new = live, new
        self._versions = versions
        self.own = compare(version.shape, live, new).less(version.ignored)
        self._by_version: dict[str, Change | None] = {version.name: self.own}

    def of(self, name: str) -> Change | None:
        """The change in a version; None where the kind is not served in it."""
        if name not in self._by_version:
            version = self._versions(name)
            self._by_version[name] = None if version is None else self._in(version)
        return self._by_version[name]

    def _in(self, version: KindVersion) -> Change:
        live, new = version.convert(self._live), version.convert(self._new)
        return compare(version.shape, live, new).less(version.ignored)
