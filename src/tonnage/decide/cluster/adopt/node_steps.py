"""The next step of a node that is adopted, or released: from what the cluster shows, never from a journal.

NVIDIA's plugin leaves before the agent registers. kubelet marks a resource unhealthy when any plugin of that
name disconnects, also one whose place another had taken, and later releases refuse a second plugin. The write
that takes NVIDIA's pods off lets the agent take their place: it asks kubelet until these pods have ended and
kubelet has none of their devices, and registers then. The node is cordoned until kubelet has the agent's: no
pod is bound to a node that would refuse it, and pods that run keep their devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, TypeAlias

from tonnage.model.adoption import NOTE, PAUSED, AdoptionFacts, AdoptionNote, note_from
from tonnage.model.json import JsonObject
from tonnage.model.name_lists import listed
from tonnage.model.operands import ADOPTED, DEPLOY
from tonnage.model.reasons.cluster.adoption import (
    AdoptionNoteUnreadable,
    AdoptionReason,
    AgentDoesNotWait,
    AgentWithoutDevices,
    PluginNotOfOperator,
)

_PLUGIN: Final = f"{DEPLOY}device-plugin"
_MOST_NAMED: Final = 4
_RESTS: Final = "Tonnage's agent offers the devices"
_UNKNOWN_UUIDS: Final = (
    "names and counts alone were compared, since the UUIDs of NVIDIA's plugin were not noted"
)
_SETTLES: Final = timedelta(seconds=15)
"""Then the agent has seen its Node, and kubelet, which does every 10 s, has written what is offered."""


@dataclass(frozen=True, slots=True)
class ChangeNode:
    """Merge the patch into the Node, if it still is as it was seen; `why` is what that is for."""

    patch: JsonObject = field(repr=False)
    why: str


@dataclass(frozen=True, slots=True)
class AwaitNode:
    """Something must happen at the node first. `begun`: adoption or release has changed it."""

    why: str
    begun: bool


@dataclass(frozen=True, slots=True)
class RefuseNode:
    """The node is not begun, and waiting does not help."""

    reason: AdoptionReason

    @property
    def why(self) -> str:
        """The reason in words, without what to do."""
        return self.reason.message

    def __str__(self) -> str:
        return f"{self.reason.message}; {self.reason.remedy}"


@dataclass(frozen=True, slots=True)
class NodeAtRest:
    """There is nothing to do."""

    why: str


AdoptionStep: TypeAlias = ChangeNode | AwaitNode | RefuseNode | NodeAtRest


def refuse(cause: type[AdoptionReason], facts: AdoptionFacts, message: str, remedy: str) -> RefuseNode:
    """The step of a node with which nothing is done for this cause."""
    return RefuseNode(cause(subject=f"Node {facts.node}", message=message, remedy=remedy))


def next_adoption(facts: AdoptionFacts) -> AdoptionStep:
    """What brings the node closer to Tonnage's agent."""
    note = note_from(facts.note)
    if note is None:
        return _begin(facts)
    labels = _labels(note.labels)
    if any(facts.labels.get(key) != value for key, value in labels.items()):
        if _settles(note, facts):  # what an agent that withdraws has reported is not what it does next
            return AwaitNode("Tonnage's agent withdraws the devices", begun=True)
        return _change(facts, "take NVIDIA's pods off again", labels=labels)
    if facts.plugin_pods:
        return AwaitNode(f"NVIDIA's pods end: {', '.join(facts.plugin_pods)}", begun=True)
    if note.proven:
        return NodeAtRest(_RESTS if note.devices else f"{_RESTS}; {_UNKNOWN_UUIDS}")
    if (differs := _difference(note, facts)) != "":
        return AwaitNode(differs, begun=True)
    return _change(
        *(facts, "devices are as before: finish" if note.devices else f"{_UNKNOWN_UUIDS}: finish"),
        note=replace(note, proven=True, cordoned=False),
        cordon=False if note.cordoned else None,
    )


def next_release(facts: AdoptionFacts) -> AdoptionStep:
    """What brings the node closer to NVIDIA's operands."""
    note = note_from(facts.note)
    if note is None:
        return NodeAtRest("not adopted")
    if ADOPTED in facts.labels:
        cordoned = note.cordoned or not facts.cordoned
        return _change(
            *(facts, "have Tonnage's agent withdraw the devices"),
            labels={ADOPTED: None},
            note=replace(note, proven=False, cordoned=cordoned, withdrawn=facts.moment),
            cordon=True if cordoned else None,
        )
    if any(facts.labels.get(key) == PAUSED for key in note.labels):
        if _settles(note, facts) or _still_offered(note, facts):
            return AwaitNode("Tonnage's agent withdraws the devices", begun=True)
        before: JsonObject = dict(note.labels)
        return _change(facts, "let NVIDIA's pods come back", labels=before)
    if not facts.plugin_ready:
        return AwaitNode("NVIDIA's device plugin is not ready", begun=True)
    missing = sorted(name for name in note.allocatable if not facts.allocatable.get(name))
    if missing:
        return AwaitNode(f"the node does not offer {', '.join(missing)} yet", begun=True)
    cordon = False if note.cordoned else None
    return _change(facts, "devices are NVIDIA's again: finish", remove_note=True, cordon=cordon)


def _begin(facts: AdoptionFacts) -> AdoptionStep:
    """The first write, once nothing stands against it."""
    if facts.note:
        remedy = f"restore the labels {DEPLOY}* by hand, then: kubectl annotate node {facts.node} {NOTE}-"
        return refuse(AdoptionNoteUnreadable, facts, f"the annotation {NOTE} cannot be read", remedy)
    if facts.labels.get(ADOPTED) == "true" and not facts.plugin_pods:
        return NodeAtRest(_RESTS)
    return _unready_agent(facts) or _begin_beside(facts)


def _unready_agent(facts: AdoptionFacts) -> AdoptionStep | None:
    """What stands against the first write at the agent; None: it stands ready, and does not serve."""
    agent = facts.agent
    if agent is not None and not agent.waits:
        message = "Tonnage's agent does not wait there, so it offers devices beside NVIDIA's plugin"
        remedy = "helm upgrade tonnage ... --reuse-values --set adoption.enabled=true"
        return refuse(AgentDoesNotWait, facts, message, remedy)
    if agent is None or not agent.ready:
        return AwaitNode("Tonnage's agent is not ready", begun=False)
    if facts.report_devices is None:
        return AwaitNode("Tonnage's agent has not reported", begun=False)
    if not facts.report_devices:
        remedy = f"tonnage explain node {facts.node}"
        return refuse(AgentWithoutDevices, facts, "Tonnage's agent sees no device", remedy)
    if facts.served:
        return AwaitNode("Tonnage's agent has not withdrawn its devices yet", begun=False)
    return None


def _begin_beside(facts: AdoptionFacts) -> AdoptionStep:
    """The first write, once NVIDIA's plugin serves the devices that the agent would."""
    if not facts.plugin_ready:
        return AwaitNode("NVIDIA's device plugin is not ready", begun=False)
    offered = {name: count for name, count in facts.allocatable.items() if count}
    if not offered:
        return AwaitNode("NVIDIA's device plugin offers no device", begun=False)
    parts = facts.agent.parts if facts.agent is not None else ()
    keys = (f"{DEPLOY}{part}" for part in sorted(parts))
    labels = {key: "true" for key in keys if facts.labels.get(key) == "true"}  # others' values stay
    if facts.labels.get(_PLUGIN, "").startswith("paused-"):
        return AwaitNode(f"{_PLUGIN} is {facts.labels[_PLUGIN]}: another change is under way", begun=False)
    if _PLUGIN not in labels:
        lacks = f"the node lacks the label {_PLUGIN}=true"
        message = f"{lacks}, so NVIDIA's operator does not run the plugin there"
        return refuse(PluginNotOfOperator, facts, message, PluginNotOfOperator.advice)
    if {name for name, _ in facts.listed} != set(offered):
        message = "Tonnage's agent has not reported which devices of NVIDIA's plugin kubelet has"
        return AwaitNode(message, begun=False)
    if differs := _other_devices(facts.listed, facts.offers):
        return AwaitNode(differs, begun=False)
    note = AdoptionNote(
        *(labels, offered, not facts.cordoned),
        devices=_by_resource(facts.listed),
        namespace=facts.plugin_namespace,
    )
    cordon = True if note.cordoned else None
    why = "cordon, and have Tonnage's agent take the place of NVIDIA's pods"
    return _change(facts, why, labels=_labels(labels), note=note, cordon=cordon)


def _labels(before: Mapping[str, str]) -> JsonObject:
    """What takes NVIDIA's pods off, and lets the agent register once they have left."""
    return {**dict.fromkeys(before, PAUSED), ADOPTED: "true"}


def _settles(note: AdoptionNote, facts: AdoptionFacts) -> bool:
    """Whether the agent may not have noticed yet that it was to withdraw, or kubelet that it did."""
    return note.withdrawn is not None and facts.moment - note.withdrawn < _SETTLES


def _still_offered(note: AdoptionNote, facts: AdoptionFacts) -> str:
    """What the plugin that leaves still offers, so that nothing of it is mistaken for the next one's."""
    return ", ".join(sorted(name for name in note.allocatable if facts.allocatable.get(name)))


def _difference(note: AdoptionNote, facts: AdoptionFacts) -> str:
    """How what the node offers differs from before; empty: it does not.

    The Node may still show what NVIDIA's plugin offered, so the agent's own amounts count beside it.
    """
    if not facts.served:
        return "Tonnage's agent does not offer the devices yet"
    if facts.served != note.allocatable:
        words = _words(facts.served), _words(note.allocatable)
        return f"Tonnage's agent offers {words[0]}, where NVIDIA's plugin offered {words[1]}"
    before = {(name, uuid) for name, uuids in note.devices.items() for uuid in uuids}
    if before and (differs := _other_devices(before, facts.offers)):
        return differs
    if facts.listed != facts.offers:
        return "kubelet does not have the devices of Tonnage's agent yet"
    offered = {name: count for name, count in facts.allocatable.items() if count}
    if offered != note.allocatable:
        return f"the node offers {_words(offered)}, where NVIDIA's plugin offered {_words(note.allocatable)}"
    return ""


def _other_devices(theirs: Set[tuple[str, str]], ours: Set[tuple[str, str]]) -> str:
    """Which devices one plugin offers and the other does not; empty: they are the same ones."""
    parts = [
        f"{whose} offers {listed([f'{uuid} as {name}' for name, uuid in sorted(devices)], _MOST_NAMED)}"
        for whose, devices in (
            ("NVIDIA's plugin alone", theirs - ours),
            ("Tonnage's agent alone", ours - theirs),
        )
        if devices
    ]
    return "; ".join(parts)


def _by_resource(devices: Set[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    names = sorted({name for name, _ in devices})
    return {name: tuple(sorted(uuid for other, uuid in devices if other == name)) for name in names}


def _words(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(amounts.items())) or "nothing"


def _change(
    facts: AdoptionFacts,
    why: str,
    *,
    labels: JsonObject | None = None,
    note: AdoptionNote | None = None,
    remove_note: bool = False,
    cordon: bool | None = None,
) -> ChangeNode:
    """One write. With the version that was judged, so that nobody's change in between is undone."""
    metadata: JsonObject = {"resourceVersion": facts.version}
    if labels:
        metadata["labels"] = labels
    if note is not None or remove_note:
        metadata["annotations"] = {NOTE: None if note is None else note.to_text()}
    patch: JsonObject = {"metadata": metadata}
    if cordon is not None:
        patch["spec"] = {"unschedulable": cordon or None}
    return ChangeNode(patch, why)
