"""The last step of a node that was adopted: nothing of the handover is left on it, and no way back."""

from __future__ import annotations

from typing import Final

from tonnage.decide.cluster.adopt.node_steps import (
    AdoptionStep,
    AwaitNode,
    ChangeNode,
    RefuseNode,
    refuse,
)
from tonnage.model.adoption import NOTE, PAUSED, AdoptionFacts, note_from
from tonnage.model.json import JsonObject
from tonnage.model.operands import ADOPTED
from tonnage.model.reasons.cluster.adoption import AgentStillWaits, NodeNotAdopted, OperatorPodsLeft

_UPGRADE: Final = "helm upgrade tonnage ... --reuse-values --set adoption.enabled=false"


def next_finish(facts: AdoptionFacts) -> AdoptionStep:
    """Take labels and note away once the node's agent serves without them."""
    note = note_from(facts.note)
    if note is None:
        return refuse(NodeNotAdopted, facts, "not adopted", f"tonnage operator adopt --node {facts.node}")
    if facts.labels.get(ADOPTED) != "true" or not note.proven:
        return refuse(NodeNotAdopted, facts, "not adopted yet", f"tonnage operator adopt --node {facts.node}")
    if facts.plugin_pods:
        return RefuseNode(
            OperatorPodsLeft(
                subject=f"Node {facts.node}",
                message=f"NVIDIA's pods are there: {', '.join(facts.plugin_pods)}",
                remedy="helm uninstall gpu-operator",
                pods=tuple(facts.plugin_pods),
            )
        )
    if facts.agent is not None and facts.agent.waits:
        message = "Tonnage's agent waits for the label, and would withdraw its devices"
        return refuse(AgentStillWaits, facts, message, _UPGRADE)
    if facts.agent is None or not facts.agent.ready:
        return AwaitNode("Tonnage's agent is not ready", begun=True)
    paused = {key: None for key in note.labels if facts.labels.get(key) == PAUSED}
    labels: JsonObject = {ADOPTED: None, **paused}
    metadata: JsonObject = {
        "resourceVersion": facts.version,
        "labels": labels,
        "annotations": {NOTE: None},
    }
    return ChangeNode({"metadata": metadata}, "take labels and note away")
