"""NodeShouldRunDaemonPod: where a DaemonSet's pods belong, and what a pod for one node looks like.

Source: k8s.io/kubernetes/pkg/controller/daemon (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from tonnage.decide.kubernetes.matching import untolerated
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.well_known import CONTROLLER_REVISION_HASH
from tonnage.twin.controllers.label_selection import node_matches
from tonnage.wire.objects import DaemonSet, Node, PodSpec, Toleration

GENERATION_LABEL: Final = "pod-template-generation"
_EVERYWHERE: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


@dataclass(frozen=True, slots=True)
class DaemonPlacement:
    """Whether a node should get a pod, and whether one that is there may stay."""

    should_run: bool
    may_stay: bool


def tolerations_of(spec: PodSpec) -> list[Toleration]:
    """The template's tolerations and those that every daemon pod has."""
    present = {
        (t.key, t.effect) for t in spec.tolerations if t.operator == "Exists" and t.toleration_seconds is None
    }
    required = (*_EVERYWHERE, _HOST_NETWORK) if spec.host_network else _EVERYWHERE
    added = [
        Toleration(key=key, operator="Exists", effect=effect)
        for key, effect in required
        if (key, effect) not in present
    ]
    return [*spec.tolerations, *added]


class Placements:
    """Where the pods of a DaemonSet may be. A node is judged again once it has changed."""

    def __init__(self, daemon_set: DaemonSet) -> None:
        self.generation = daemon_set.metadata.generation
        self._spec = template_spec(daemon_set)
        self._tolerations = tolerations_of(self._spec)
        self._judged: dict[str, tuple[Node, DaemonPlacement]] = {}

    def on_all(self, nodes: Iterable[Node]) -> dict[str, DaemonPlacement]:
        """What `on` says of each of all nodes that there are."""
        fits = {node.metadata.name: (node, self.on(node)) for node in nodes}
        self._judged = fits
        return {name: fit for name, (_, fit) in fits.items()}

    def on(self, node: Node) -> DaemonPlacement:
        """What the node's name, labels and taints say; resources are the scheduler's business."""
        judged = self._judged.get(node.metadata.name)
        if judged is None or judged[0] is not node:
            judged = self._judged[node.metadata.name] = node, self._judge(node)
        return judged[1]

    def _judge(self, node: Node) -> DaemonPlacement:
        spec, name = self._spec, node.metadata.name
        if spec.node_name and spec.node_name != name:
            return DaemonPlacement(False, False)
        if not node_matches(name, node.metadata.labels, spec.node_selector, spec.affinity):
            return DaemonPlacement(False, False)
        if untolerated(node.spec.taints, self._tolerations, ("NoExecute",)):
            return DaemonPlacement(False, False)
        return DaemonPlacement(not untolerated(node.spec.taints, self._tolerations, ("NoSchedule",)), True)


def template_spec(daemon_set: DaemonSet) -> PodSpec:
    """The pod template's spec, as far as placement needs it."""
    return msgspec.convert(daemon_set.spec.template.get("spec") or {}, PodSpec)


def pod_template(daemon_set: DaemonSet, node: str, revision: str) -> JsonObject:
    """The template of a pod for one node: bound to it by node affinity, tolerating what daemons tolerate."""
    template = daemon_set.spec.template
    metadata: JsonObject = template.get("metadata") or {}
    spec: JsonObject = dict(template.get("spec") or {})
    template_labels = metadata.get("labels")
    labels: JsonObject = {
        **(template_labels if isinstance(template_labels, dict) else {}),
        CONTROLLER_REVISION_HASH: revision,
        GENERATION_LABEL: str(daemon_set.metadata.generation),
    }
    spec["affinity"] = _affinity_for(spec.get("affinity"), node)
    tolerations: list[JsonValue] = msgspec.to_builtins(tolerations_of(template_spec(daemon_set)))
    spec["tolerations"] = tolerations
    return {"metadata": {**metadata, "labels": labels}, "spec": spec}


def _affinity_for(affinity: JsonValue, node: str) -> JsonObject:
    fields_of_affinity = dict(affinity) if isinstance(affinity, dict) else {}
    inner = fields_of_affinity.get("nodeAffinity")
    node_affinity: JsonObject = dict(inner) if isinstance(inner, dict) else {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = required.get("nodeSelectorTerms") if isinstance(required, dict) else None
    fields: list[JsonValue] = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    bound: list[JsonValue] = [
        {**term, "matchFields": fields}
        for term in (terms if isinstance(terms, list) else [{}])
        if isinstance(term, dict)
    ]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": bound}
    return {**fields_of_affinity, "nodeAffinity": node_affinity}
