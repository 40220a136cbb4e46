"""Objects that come in the same files as manifests, and bear on their pods: the cluster with them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from tonnage.model.errors import ConfigError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.reading.documents import OF_CLAIMS, at_places, placed_objects, snapshot_from_documents
from tonnage.wire import kinds
from tonnage.wire.kinds import Kind

_ADDED: Final[Mapping[str, Kind[Any]]] = {
    kind.kind: kind
    for kind in (
        kinds.NAMESPACE,
        kinds.PRIORITY_CLASS,
        kinds.RESOURCE_QUOTA,
        kinds.LIMIT_RANGE,
        kinds.RUNTIME_CLASS,
        kinds.SERVICE_ACCOUNT,
        kinds.DISRUPTION_BUDGET,
        kinds.RESOURCE_CLAIM,
        kinds.RESOURCE_CLAIM_TEMPLATE,
        kinds.DEVICE_CLASS,
        kinds.VOLUME_CLAIM,
        kinds.PERSISTENT_VOLUME,
        kinds.STORAGE_CLASS,
    )
}


def with_objects_in(documents: Iterable[JsonValue], snapshot: Snapshot, *, namespace: str) -> Snapshot:
    """The cluster as if the objects beside the manifests were there: quotas, classes, claims and the like.

    A new object stands for an old one of its name. Service accounts and runtime classes count where the
    cluster's are known, since otherwise they would pass for all that there are.

    Raises:
        ConfigError: one of them cannot be read.
    """
    placed = [(where, obj) for where, obj in placed_objects(documents) if obj.get("kind") in _ADDED]
    if not placed:
        return snapshot
    try:
        added = snapshot_from_documents([_spaced(obj, namespace) for _, obj in placed])
    except ConfigError as error:
        raise at_places(error, [where for where, _ in placed]) from None
    accounts, handlers = snapshot.service_accounts, snapshot.runtime_classes
    if accounts or "ServiceAccount" in snapshot.complete:
        accounts |= added.service_accounts
    if handlers or "RuntimeClass" in snapshot.complete:
        handlers = _replaced(handlers, added.runtime_classes)
    return replace(
        snapshot,
        namespaces={**snapshot.namespaces, **added.namespaces},
        service_accounts=accounts,
        runtime_classes=handlers,
        priority_classes=_replaced(snapshot.priority_classes, added.priority_classes),
        quotas=_replaced(snapshot.quotas, added.quotas),
        limit_ranges=_replaced(snapshot.limit_ranges, added.limit_ranges),
        budgets=_replaced(snapshot.budgets, added.budgets),
        claims=_replaced(snapshot.claims, added.claims),
        claim_templates=_replaced(snapshot.claim_templates, added.claim_templates),
        device_classes=_replaced(snapshot.device_classes, added.device_classes),
        volume_claims=_replaced(snapshot.volume_claims, added.volume_claims),
        volumes=_replaced(snapshot.volumes, added.volumes),
        storage_classes=_replaced(snapshot.storage_classes, added.storage_classes),
    )


def with_readable_claims(objects: Iterable[JsonValue], snapshot: Snapshot, *, namespace: str) -> Snapshot:
    """The same with namespaces, claims, templates and device classes alone, those that can be read."""
    for obj in objects:
        if isinstance(obj, dict) and obj.get("kind") in (*OF_CLAIMS, "Namespace"):
            with suppress(ConfigError):
                snapshot = with_objects_in([obj], snapshot, namespace=namespace)
    return snapshot


def _spaced(obj: JsonObject, namespace: str) -> JsonObject:
    """The object in the namespace that kubectl would give it."""
    metadata = obj.get("metadata")
    named = isinstance(metadata, dict) and not metadata.get("namespace")
    if not named or not _ADDED[str(obj["kind"])].namespaced or not isinstance(metadata, dict):
        return obj
    return {**obj, "metadata": {**metadata, "namespace": namespace}}


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_HasName)


def _replaced(old: tuple[_T, ...], new: tuple[_T, ...]) -> tuple[_T, ...]:
    """The old ones and the new; a new one stands for an old one of its name and namespace."""

    def key(obj: _T) -> tuple[str, str]:
        return str(getattr(obj, "namespace", "")), obj.name

    names = {key(obj) for obj in new}
    return (*(obj for obj in old if key(obj) not in names), *new) if new else old
