"""The labels that a pod has from its node: zone and region, so that a container can be told them.

Source: plugin/pkg/admission/podtopologylabels (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, put, text
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import NODE, POD

_COPIED: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def topology_labels(store: ObjectStore, node: str) -> JsonObject:
    """Labels of a node that its pods get; none of a node that is not there."""
    stored = store.get(NODE, ("", node)) if node else None
    labels = mapping(stored.object, "metadata", "labels") if stored is not None else {}
    return {key: labels[key] for key in _COPIED if key in labels}


class TopologyLabels:
    """An admission plugin for pods that are made with a node. Bindings see to the others."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Copy the node's labels over the pod's own ones."""
        if request.resource != POD or obj is None or old is not None or request.subresource:
            return
        if copied := topology_labels(self._store, text(obj, "spec", "nodeName")):
            put(obj, {**mapping(obj, "metadata", "labels"), **copied}, "metadata", "labels")
