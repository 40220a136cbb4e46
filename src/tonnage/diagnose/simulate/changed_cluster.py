"""A cluster that is being changed: its nodes, what they hold, and the pods that have to find a place."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from tonnage.decide.kubernetes.requests import pod_requests
from tonnage.decide.kubernetes.view import ClusterView, as_kept
from tonnage.diagnose.simulate.node_gpus import NodeGpus, OfferedResources
from tonnage.diagnose.simulate.quotas import Purse
from tonnage.model.errors import Problem
from tonnage.model.kubernetes.cluster import Node, Pod, PodStatus, Requests
from tonnage.model.reasons.reason import Reason

_STAYS_WITH_NODE: Final = ("DaemonSet", "Node")
"""Owners whose pods come and go with their node: no drain evicts them."""


class Origin(StrEnum):
    """Why a pod looks for a place."""

    PENDING = "pending"
    REPLAYED = "replayed"
    DISPLACED = "displaced"
    ADDED = "added"


class DisplacementCause(StrEnum):
    """What displaced a pod."""

    DRAINED = "drained"
    REMOVED = "removed"
    REPARTITIONED = "repartitioned"
    RESHARED = "reshared"
    PREEMPTED = "preempted"


_ORDER: Final = list(Origin)
_NEW: Final = PodStatus()


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that looks for a place. `node` and `cause` are where it ran before, and why no longer."""

    pod: Pod
    origin: Origin
    node: str = ""
    cause: DisplacementCause | None = None

    @property
    def asked_for(self) -> bool:
        """Whether it ran before, or was added."""
        return bool(self.node) or self.origin is Origin.ADDED


@dataclass(slots=True)
class Memory:
    """What was worked out before, for all alternatives: thousands of nodes are alike."""

    node_gpus: dict[Hashable, NodeGpus | Problem] = field(default_factory=dict)
    """By what a node says of its GPUs."""
    changed: dict[Hashable, NodeGpus | Problem] = field(default_factory=dict)
    """By the identity of a node's GPUs and what is done to them."""
    offers: dict[int, tuple[NodeGpus, OfferedResources]] = field(default_factory=dict)
    """By the identity of a node's GPUs, which are kept alive."""


@dataclass(slots=True)
class Fork:
    """The cluster of `base` under change. Only nodes that differ are in `nodes` and `held`.

    `queue` has pods without a place, `lost` those that nobody makes anew, `left` those that ended with what
    they belonged to. `in_order`: pods are placed in order of creation, whatever their priority.
    """

    base: ClusterView
    memory: Memory
    nodes: dict[str, Node | None] = field(default_factory=dict)
    held: dict[str, tuple[Pod, ...]] = field(default_factory=dict)
    node_gpus: dict[str, NodeGpus] = field(default_factory=dict)
    queue: list[WaitingPod] = field(default_factory=list)
    lost: list[WaitingPod] = field(default_factory=list)
    left: list[Pod] = field(default_factory=list)
    copied: dict[str, str] = field(default_factory=dict)
    """By added node, the one it is like."""
    in_order: bool = False
    refused: list[tuple[WaitingPod, Reason]] = field(default_factory=list)
    """Added pods that the API server does not let in."""
    purse: Purse = field(init=False)
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.purse = Purse(self.base.snapshot, self.base.profile.minor)

    def names(self) -> list[str]:
        """Names of the nodes that there are."""
        gone = {name for name, node in self.nodes.items() if node is None}
        return [*(n for n in self.base.nodes if n not in gone), *(n for n in self.nodes if self.is_new(n))]

    def is_new(self, name: str) -> bool:
        """Whether a node was added, and is still there."""
        return name not in self.base.nodes and self.nodes.get(name) is not None

    def node(self, name: str) -> Node:
        """A node as it now is."""
        node = self.nodes.get(name)
        return node if node is not None else self.base.nodes[name].node

    def pods_on(self, name: str) -> tuple[Pod, ...]:
        """What a node now holds."""
        if name in self.held:
            return self.held[name]
        view = self.base.nodes.get(name)
        return view.pods if view is not None else ()

    def asked_on(self, name: str) -> tuple[tuple[Pod, Requests], ...]:
        """What a node holds, with what each pod asks."""
        view = self.base.nodes.get(name)
        if name not in self.held and view is not None:
            return tuple(zip(view.pods, view.amounts, strict=True))
        return tuple((pod, pod_requests(pod)) for pod in self.pods_on(name))

    def displace(self, name: str, pods: Iterable[Pod], cause: DisplacementCause) -> None:
        """Take pods off a node; who has a controller is made anew, the others are lost."""
        leaving = {pod.key: pod for pod in pods}
        if not leaving:
            return
        self.held[name] = tuple(pod for pod in self.pods_on(name) if pod.key not in leaving)
        for pod in leaving.values():
            candidate = WaitingPod(pod if pod.owner is None else fresh(pod), Origin.DISPLACED, name, cause)
            (self.lost if pod.owner is None else self.queue).append(candidate)

    def end(self, pods: Iterable[Pod]) -> None:
        """Pods end for good, wherever they are."""
        by_node: dict[str, set[tuple[str, str]]] = {}
        ended = list(pods)
        for pod in ended:
            by_node.setdefault(pod.node_name, set()).add(pod.key)
        for name, keys in by_node.items():
            if name in self.base.nodes or name in self.nodes:
                self.held[name] = tuple(pod for pod in self.pods_on(name) if pod.key not in keys)
        keys = {pod.key for pod in ended}
        self.queue = [candidate for candidate in self.queue if candidate.pod.key not in keys]
        self.left += ended
        for pod in ended:
            self.purse.free(pod)

    def add(self, pods: Iterable[Pod]) -> None:
        """New pods, as far as they are let in."""
        for pod in (as_kept(pod, self.base.profile) for pod in pods):
            candidate, reason = WaitingPod(pod, Origin.ADDED), self.purse.refusal(pod)
            if reason is None:
                self.queue.append(candidate)
            else:
                self.refused.append((candidate, reason))

    def turn(self, candidate: WaitingPod) -> tuple[int, int, float, str, str]:
        """The scheduler's order: by priority, then by age; what is made anew comes after what waits."""
        pod = candidate.pod
        age = pod.created.timestamp() if pod.created is not None else 0.0
        place = 0 if candidate.origin is Origin.REPLAYED else _ORDER.index(candidate.origin)
        return 0 if self.in_order else -pod.priority, place, age, pod.namespace, pod.name


def stays_with_node(pod: Pod) -> bool:
    """Whether a pod comes and goes with its node: of a DaemonSet, or kubelet's own."""
    return pod.owner is not None and pod.owner.kind in _STAYS_WITH_NODE


def fresh(pod: Pod) -> Pod:
    """The pod as its controller makes it anew."""
    return replace(pod, node_name="", status=_NEW)


def fork_of(base: ClusterView, memory: Memory) -> Fork:
    """The cluster as it is, with the pods that wait."""
    fork = Fork(base, memory)
    fork.queue = [
        WaitingPod(replace(pod, status=replace(pod.status, nominated_node="")), Origin.PENDING)
        for pod in base.snapshot.pods
        if not pod.node_name and not pod.finished and not pod.status.terminating
    ]
    return fork
