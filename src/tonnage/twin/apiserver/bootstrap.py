"""The objects that every cluster has from its first moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tonnage.adapters.ports import Clock
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.admission import PRIORITY_CLASS
from tonnage.twin.apiserver.pipeline import timestamp
from tonnage.twin.apiserver.store import Resource, Store
from tonnage.twin.apiserver.strategies import NAMESPACE

_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_CLASSES: Final = (
    ("system-cluster-critical", 2_000_000_000, "Used for system critical pods."),
    ("system-node-critical", 2_000_001_000, "Used for system critical pods that must stay on their node."),
)


def bootstrap(store: Store, clock: Clock, uid: Callable[[], str]) -> None:
    """Create what is missing."""
    now = timestamp(clock.now())
    for resource, obj, extra in _objects():
        metadata: JsonObject = {**extra, "uid": uid(), "creationTimestamp": now}
        key = ("", str(extra["name"]))
        if store.get(resource, key) is None:
            store.create(resource, key, {**obj, "metadata": metadata})


def _objects() -> Iterator[tuple[Resource, JsonObject, JsonObject]]:
    for name in _NAMESPACES:
        head: JsonObject = {"apiVersion": "v1", "kind": "Namespace"}
        yield (
            NAMESPACE,
            {**head, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
            {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        )
    for name, value, description in _CLASSES:
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        yield (
            PRIORITY_CLASS,
            {
                **head,
                "value": value,
                "preemptionPolicy": "PreemptLowerPriority",
                "description": description,
            },
            {"name": name, "generation": 1},
        )
