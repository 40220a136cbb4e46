"""Where labels of the node go: on the Node itself, or by way of node feature discovery."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from tonnage.loop.performer import Performer
from tonnage.model.actions.cluster import CreateNodeFeature, PatchNode, ReplaceNodeFeature
from tonnage.model.actions.labels import WriteLabels
from tonnage.model.actions.subjects import node_feature_subject
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.names import AGENTS_LABELS
from tonnage.model.node.plugin_settings import FeatureSettings, LabelPlace
from tonnage.ports.kubernetes import KubernetesReader
from tonnage.wire.kinds import NODE, NODE_FEATURE, POD
from tonnage.wire.objects import NodeFeature

if TYPE_CHECKING:
    from tonnage.agent.context import AgentContext
    from tonnage.agent.options import AgentOptions

FEATURES: Final = "nvidia-features-for-"
"""Before a node's name in the name of its NodeFeature, as GPU feature discovery has it."""
_NODE_OF: Final = "nfd.node.kubernetes.io/node-name"
_MOST_OWNED: Final = 4096


class LabelSink(Protocol):
    """Where labels are published for the node."""

    async def show(self, labels: Mapping[str, str]) -> None:
        """Publish these, and no more what was published before. It may be asked for what is so already.

        Raises ClusterError, HardwareError.
        """
        ...


@dataclass(frozen=True, slots=True)
class FeatureFile:
    """A file in the folder in which node feature discovery looks; an empty name: standard output."""

    performer: Performer
    file: str

    async def show(self, labels: Mapping[str, str]) -> None:
        """Have these in it. Raises HardwareError."""
        await self.performer.perform(WriteLabels(self.file, tuple(sorted(labels.items()))))


class NodeLabels:
    """Labels of the Node. Only those that it wrote itself are taken away again.

    One that stood there before with the same value stays its author's: a label that brings the agent to the
    node must not leave with the hardware, or the agent could not tell of its return.
    """

    def __init__(self, api: KubernetesReader, node: str, performer: Performer) -> None:
        self._api = api
        self._node = node
        self._performer = performer

    async def show(self, labels: Mapping[str, str]) -> None:
        """Have these on the Node. Raises ClusterError."""
        nodes = await self._api.list(NODE, field_selector=f"metadata.name={self._node}")
        if not nodes.items:
            raise ApiError(404, "NotFound", f'nodes "{self._node}" not found')
        meta = nodes.items[0].metadata
        noted = meta.annotations.get(AGENTS_LABELS, "")
        owned = {key for key in noted.split(",")[:_MOST_OWNED] if key in meta.labels}
        own_keys = {key for key, value in labels.items() if key in owned or meta.labels.get(key) != value}
        changes: dict[str, JsonValue] = dict.fromkeys(sorted(owned - set(labels)))
        changes |= {key: labels[key] for key in sorted(own_keys) if meta.labels.get(key) != labels[key]}
        note = ",".join(sorted(own_keys))
        if not changes and note == noted:
            return
        metadata: JsonObject = {"annotations": {AGENTS_LABELS: note or None}}
        if changes:
            metadata["labels"] = changes
        await self._performer.perform(PatchNode(self._node, {"metadata": metadata}))


class NodeFeatureObject:
    """A NodeFeature; node feature discovery makes labels of it.

    Where `pod` names the agent's own pod, in the same namespace, the object goes with the DaemonSet, or
    whatever else owns that pod; and with the pod, if nothing does.
    """

    def __init__(
        self, api: KubernetesReader, node: str, namespace: str, performer: Performer, *, pod: str = ""
    ) -> None:
        self._api = api
        self._node = node
        self._namespace = namespace
        self._performer = performer
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
        feature, sight = await self._performer.look(
            node_feature_subject(self._namespace, name), self._feature(name)
        )
        if feature is None:
            if labels:
                await self._performer.perform(CreateNodeFeature(self._namespace, body), sight)
            return
        meta = feature.metadata
        same = feature.spec.get("labels", {}) == dict(labels) and meta.labels.get(_NODE_OF) == self._node
        owned = {owner.uid for owner in meta.owner_references}
        if same and (not self._owner or self._owner["uid"] in owned):
            return
        metadata["resourceVersion"] = meta.resource_version
        metadata["labels"] = {**meta.labels, _NODE_OF: self._node}
        await self._performer.perform(ReplaceNodeFeature(self._namespace, body), sight)

    async def _feature(self, name: str) -> NodeFeature | None:
        try:
            return await self._api.get(NODE_FEATURE, name, namespace=self._namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    async def _owner_of_pod(self) -> JsonObject:
        """Who takes the object along when it goes; empty if nobody is known. Raises ClusterError."""
        if not self._pod:
            return {}
        pods = await self._api.list(
            POD, namespace=self._namespace, field_selector=f"metadata.name={self._pod}"
        )
        if not pods.items:
            return {}
        meta = pods.items[0].metadata
        for owner in meta.owner_references:
            if owner.controller:
                return _reference(owner.api_version, owner.kind, owner.name, owner.uid)
        return _reference("v1", "Pod", meta.name, meta.uid)


def _reference(version: str, kind: str, name: str, uid: str) -> JsonObject:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid}


def sinks_of(options: AgentOptions, context: AgentContext) -> Callable[[FeatureSettings], LabelSink] | None:
    """Where labels go under a configuration; None for nowhere."""
    if options.labels == LabelPlace.FILE:
        return lambda settings: FeatureFile(context.performer, settings.output_file)
    api = context.api
    if options.labels == LabelPlace.NONE or api is None:
        return None
    if options.labels == LabelPlace.DIRECT:
        on_node = NodeLabels(api, options.node_name, context.performer)
        return lambda _: on_node
    namespace = options.namespace or options.config_map.partition("/")[0]
    in_object = NodeFeatureObject(api, options.node_name, namespace, context.performer, pod=options.pod_name)
    return lambda _: in_object
