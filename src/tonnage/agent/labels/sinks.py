"""Labels to the Kubernetes API: on the Node itself, or by way of node feature discovery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.loop.performer import Performer
from tonnage.model.actions.node import PatchNode
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import NODE, NODE_FEATURE, POD

OWNED: Final = "tonnage.dev/labels"
"""Annotation of a Node: the keys of labels that its agent wrote, with commas between."""
FEATURES: Final = "nvidia-features-for-"
"""Before a node's name in the name of its NodeFeature, as GPU feature discovery has it."""
_NODE_OF: Final = "nfd.node.kubernetes.io/node-name"
_MOST_OWNED: Final = 4096


class NodeLabels:
    """Labels of the Node. Only those that it wrote itself are taken away again.

    One that stood there before with the same value stays its author's: a label that brings the agent to the
    node must not leave with the hardware, or the agent could not tell of its return.
    """

    def __init__(self, api: KubernetesApi, node: str, performer: Performer) -> None:
        self._api = api
        self._node = node
        self._performer = performer

    async def show(self, labels: Mapping[str, str]) -> None:
        """Have these on the Node. Raises ClusterError."""
        found = await self._api.list(NODE, field_selector=f"metadata.name={self._node}")
        if not found.items:
            raise ApiError(404, "NotFound", f'nodes "{self._node}" not found')
        meta = found.items[0].metadata
        noted = meta.annotations.get(OWNED, "")
        owned = {key for key in noted.split(",")[:_MOST_OWNED] if key in meta.labels}
        mine = {key for key, value in labels.items() if key in owned or meta.labels.get(key) != value}
        changes: dict[str, JsonValue] = dict.fromkeys(sorted(owned - set(labels)))
        changes |= {key: labels[key] for key in sorted(mine) if meta.labels.get(key) != labels[key]}
        note = ",".join(sorted(mine))
        if not changes and note == noted:
            return
        metadata: JsonObject = {"annotations": {OWNED: note or None}}
        if changes:
            metadata["labels"] = changes
        await self._performer.perform(PatchNode(self._node, {"metadata": metadata}))


class NodeFeatureObject:
    """A NodeFeature; node feature discovery makes labels of it.

    Where `pod` names the agent's own pod, in the same namespace, the object goes with the DaemonSet, or
    whatever else owns that pod; and with the pod, if nothing does.
    """

    def __init__(self, api: KubernetesApi, node: str, namespace: str, *, pod: str = "") -> None:
        self._api = api
        self._node = node
        self._namespace = namespace
        self._pod = pod
        self._owner: JsonObject = {}

    async def show(self, labels: Mapping[str, str]) -> None:
        """Have these in the object, which is made when there is something to say. Raises ClusterError."""
        name = FEATURES + self._node
        spec: JsonObject = {"features": {}, "labels": dict(labels)}
        self._owner = self._owner or await self._owner_of_pod()
        metadata: JsonObject = {
            "name": name,
            "namespace": self._namespace,
            "labels": {_NODE_OF: self._node},
        }
        if self._owner:
            metadata["ownerReferences"] = [self._owner]
        body: JsonObject = {
            "apiVersion": NODE_FEATURE.api_version,
            "kind": NODE_FEATURE.kind,
            "metadata": metadata,
            "spec": spec,
        }
        try:
            found = await self._api.get(NODE_FEATURE, name, namespace=self._namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            if labels:
                await self._api.create(NODE_FEATURE, body, namespace=self._namespace)
            return
        meta = found.metadata
        same = found.spec.get("labels", {}) == dict(labels) and meta.labels.get(_NODE_OF) == self._node
        owned = {owner.uid for owner in meta.owner_references}
        if same and (not self._owner or self._owner["uid"] in owned):
            return
        metadata["resourceVersion"] = meta.resource_version
        metadata["labels"] = {**meta.labels, _NODE_OF: self._node}
        await self._api.replace(NODE_FEATURE, body, namespace=self._namespace)

    async def _owner_of_pod(self) -> JsonObject:
        """Who takes the object along when it goes; empty if nobody is known. Raises ClusterError."""
        if not self._pod:
            return {}
        found = await self._api.list(
            POD, namespace=self._namespace, field_selector=f"metadata.name={self._pod}"
        )
        if not found.items:
            return {}
        meta = found.items[0].metadata
        for owner in meta.owner_references:
            if owner.controller:
                return _reference(owner.api_version, owner.kind, owner.name, owner.uid)
        return _reference("v1", "Pod", meta.name, meta.uid)


def _reference(version: str, kind: str, name: str, uid: str) -> JsonObject:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid}
