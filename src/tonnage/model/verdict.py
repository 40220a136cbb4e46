"""Verdicts and reasons: why a pod is where it is, or is not, as values. Text is rendered last."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import overload

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason


class Verdict(StrEnum):
    """What may be hoped for; of a pod that is well and has a node, that it runs or has ended."""

    ENDED = "ENDED"
    RUNNING = "RUNNING"
    FITS = "FITS"
    NOT_NOW = "NOT_NOW"
    """Something must end, be freed or be repaired first."""
    NEVER = "NEVER"
    """This manifest on this cluster: one of the two must be changed."""
    UNKNOWN = "UNKNOWN"
    """Something needed for the answer is missing, and is named."""

    @property
    def good(self) -> bool:
        """Whether nothing is in the way."""
        return self in (Verdict.FITS, Verdict.RUNNING, Verdict.ENDED)


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something to do, what it brings, and where one exists a strategic merge patch of the manifest.

    `changed`: the pod, or else the cluster, as it would be then, for a trial with all pods of a workload.
    """

    action: str
    effect: str
    patch: JsonObject = field(default_factory=dict)
    changed: Pod | Snapshot | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> JsonObject:
        """The remedy under the keys of the verdict's contract."""
        return {"action": self.action, "effect": self.effect, "patch": self.patch}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the pod is or would go. `scores` only where two nodes or more are feasible."""

    node: str | None = None
    scores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    nominated: str | None = None
    victims: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    """Nodes that may be chosen where `node` is not sure: equals, or the best of a part that is looked at."""
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Device ids by resource, when the node's agent says which; of claims by `resourceclaims/NAME`."""
    links: JsonObject | None = None
    """How its GPUs are joined, beside the best set of as many there; None for fewer than two whole ones."""

    def to_json(self) -> JsonObject:
        """The placement under the keys of the verdict's contract."""
        scores: dict[str, JsonValue] = {node: dict(row) for node, row in self.scores.items()}
        body: JsonObject = {
            "node": self.node,
            "scores": scores,
            "nominated": self.nominated,
            "victims": list(self.victims),
        }
        if self.candidates:
            body["candidates"] = list(self.candidates)
        if self.devices:
            devices: dict[str, JsonValue] = {name: list(ids) for name, ids in self.devices.items()}
            body["devices"] = devices
        if self.links is not None:
            body["links"] = self.links
        return body


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One node's answer with its reasons; the first not hidden is the one the scheduler gives."""

    node: str
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()

    def to_json(self) -> JsonObject:
        """The node's entry under the keys of the verdict's contract."""
        return {
            "node": self.node,
            "verdict": self.verdict.value,
            "reasons": [reason.to_json() for reason in self.reasons],
        }


class NodeList(Sequence[NodeVerdict]):
    """Nodes' answers that are made when they are looked at."""

    @abstractmethod
    def at(self, place: int) -> NodeVerdict:
        """The answer of one node, by its place among them."""

    @overload
    def __getitem__(self, index: int) -> NodeVerdict: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NodeVerdict]: ...
    def __getitem__(self, index: int | slice) -> NodeVerdict | Sequence[NodeVerdict]:
        if isinstance(index, slice):
            return [self.at(place) for place in range(len(self))[index]]
        return self.at(range(len(self))[index])

    def to_json(self) -> list[JsonValue]:
        """An entry a node, under the keys of the verdict's contract."""
        return [node.to_json() for node in self]


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds a resource on several nodes: the first pods as `namespace/name`, and how many in all."""

    resource: str
    pods: tuple[str, ...]
    total: int


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that answer alike. `first` is the answer of the first; the others differ in names and amounts.

    The first have the most free of what is short.

    Of each class, and of all classes that say the same together, the least and the most amounts are among
    those told. `held` only where there are several members.
    """

    first: NodeVerdict
    members: tuple[str, ...]
    held: tuple[Holding, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What was asked about. `part`: of an object with several pod templates, what it calls one."""

    kind: str
    namespace: str
    name: str
    part: str = ""

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}" + (f" ({self.part})" if self.part else "")

    def to_json(self) -> JsonObject:
        """As `-o json` has it."""
        body: JsonObject = {"kind": self.kind, "namespace": self.namespace, "name": self.name}
        return {**body, "part": self.part} if self.part else body


_MOST_PODS = 100


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods of a workload by name, and what is told of the first; `more` are alike and not named."""

    names: tuple[str, ...]
    explanation: Explanation
    more: int = 0

    @property
    def count(self) -> int:
        """How many pods they are."""
        return len(self.names) + self.more


@dataclass(frozen=True, slots=True)
class PodCounts:
    """How many pods a manifest asks for at a time, how many fit, and how many of them on each node."""

    desired: int
    fit: int
    nodes: Mapping[str, int]

    def to_json(self) -> JsonObject:
        """As `-o json` has it."""
        return {"desired": self.desired, "fit": self.fit, "nodes": dict(self.nodes)}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer. `layer` is the layer that refuses; None when nothing does.

    `nodes` has an entry a node, in name order, perhaps made only when it is looked at; `classes` has them all
    grouped by what they answer.
    """

    subject: Subject
    verdict: Verdict
    layer: Layer | None
    phase: str
    needs: Mapping[str, int]
    message: str
    upstream_message: str = ""
    nodes: Sequence[NodeVerdict] = ()
    classes: tuple[NodeClass, ...] = ()
    placement: Placement = Placement()
    reasons: tuple[Reason, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    pods: tuple[PodGroup, ...] = ()
    """Of a workload: its pods, those that are told alike together, the worst first."""
    counts: PodCounts | None = None
    """Of a manifest of several pods."""

    def to_json(self) -> JsonObject:
        """The verdict's contract: every key always present; a workload's pods under `pods`."""
        body = self._to_json()
        if self.counts is not None:
            body["replicas"] = self.counts.to_json()
        if self.pods:
            body["pods"] = [
                {
                    "count": group.count,
                    "names": list(group.names[:_MOST_PODS]),
                    **group.explanation._to_json(),
                }
                for group in self.pods
            ]
        return body

    def _to_json(self) -> JsonObject:
        nodes = self.nodes
        return {
            "subject": self.subject.to_json(),
            "verdict": self.verdict.value,
            "layer": self.layer.value if self.layer else None,
            "phase": self.phase,
            "needs": dict(self.needs),
            "message": self.message,
            "upstream_message": self.upstream_message,
            "nodes": nodes.to_json() if isinstance(nodes, NodeList) else [node.to_json() for node in nodes],
            "placement": self.placement.to_json(),
            "reasons": [reason.to_json() for reason in self.reasons],
            "remedies": [remedy.to_json() for remedy in self.remedies],
        }
