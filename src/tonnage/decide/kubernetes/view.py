"""A snapshot as the scheduler looks at it: every node, its pods and what they take. Forks are cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final, TypeAlias

from tonnage.decide.kubernetes.claims.allocator import Allocator
from tonnage.decide.kubernetes.claims.supply import Supply, gates_of, gates_shown, supply_of, tainted
from tonnage.decide.kubernetes.requests import pod_requests, scored_requests
from tonnage.decide.kubernetes.versions import SchedulerRelease, profile_for
from tonnage.model.kubernetes.cluster import Node, Pod, Requests, Snapshot
from tonnage.model.kubernetes.scheduler_profile import SchedulerProfile
from tonnage.model.kubernetes.selectors import Labels

_REGION: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONE: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")

PodSums: TypeAlias = tuple[Requests, int, int]
"""What a pod asks, and CPU (milli) and memory (bytes) as scores count what already runs."""
Ask: TypeAlias = Callable[[Pod], PodSums]
_DEFAULT: Final = SchedulerProfile()


def asked_by(pod: Pod, *, by_pod: bool = False) -> PodSums:
    """What a pod asks; `by_pod` as `pod_requests` has it."""
    return pod_requests(pod, by_pod=by_pod), *scored_requests(pod, pod_level=True, by_pod=by_pod)


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, the pods that hold something on it, and the sums of what they ask.

    `amounts`: what each of the pods asks, in their order. `asking`: how many of them ask for a resource.
    `least_priority`: of its pods; None when it has none. `anti_affinity_pods`: those that require it.
    """

    node: Node
    pods: tuple[Pod, ...] = ()
    amounts: tuple[Requests, ...] = ()
    requested: Requests = field(default_factory=dict)
    scored_cpu: int = 0
    scored_memory: int = 0
    asking: Requests = field(default_factory=dict)
    least_priority: int | None = None
    anti_affinity_pods: tuple[Pod, ...] = ()
    by_pod: bool = False
    """How pods count that are being resized (`pod_requests`)."""
    origin: NodeView | None = None
    """The node as the cycle found it, where pods are thought away or to it."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def plus(self, pods: Iterable[Pod], ask: Ask | None = None) -> NodeView:
        """The same node with more pods on it; `ask` answers as `asked_by` does."""
        more = tuple(pods)
        requested, asking, least = dict(self.requested), dict(self.asking), self.least_priority
        cpu, memory = self.scored_cpu, self.scored_memory
        all_amounts: list[Requests] = []
        for pod in more:
            amounts, pod_cpu, pod_memory = ask(pod) if ask else asked_by(pod, by_pod=self.by_pod)
            all_amounts.append(amounts)
            for name, amount in amounts.items():
                requested[name] = requested.get(name, 0) + amount
                if amount > 0:
                    asking[name] = asking.get(name, 0) + 1
            cpu, memory = cpu + pod_cpu, memory + pod_memory
            least = pod.priority if least is None or pod.priority < least else least
        return NodeView(
            self.node,
            self.pods + more,
            (*self.amounts, *all_amounts),
            requested,
            cpu,
            memory,
            asking,
            least,
            (*self.anti_affinity_pods, *(pod for pod in more if pod.affinity.anti)),
            self.by_pod,
            self.origin,
        )

    def without(self, pods: Iterable[Pod]) -> NodeView:
        """The same node after `pods` have gone."""
        gone = {pod.key for pod in pods}
        return NodeView(self.node, by_pod=self.by_pod, origin=self.origin).plus(
            pod for pod in self.pods if pod.key not in gone
        )

    def since(self, origin: NodeView) -> NodeView:
        """The same node, as what `origin` becomes in thought."""
        return replace(self, origin=origin.origin or origin)


@dataclass(frozen=True, slots=True)
class _Replaced(Mapping[str, NodeView]):
    """Nodes of which a few are others, without a copy of them all; `fresh` may not have new names."""

    nodes: Mapping[str, NodeView]
    fresh: Mapping[str, NodeView]

    @staticmethod
    def over(nodes: Mapping[str, NodeView], node: NodeView) -> Mapping[str, NodeView]:
        """The nodes with one replaced, or added."""
        if node.name not in nodes:
            return {**nodes, node.name: node}
        if isinstance(nodes, _Replaced):
            return _Replaced(nodes.nodes, {**nodes.fresh, node.name: node})
        return _Replaced(nodes, {node.name: node})

    def __getitem__(self, name: str) -> NodeView:
        fresh = self.fresh.get(name)
        return self.nodes[name] if fresh is None else fresh

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All nodes by name, in name order; `nominated` are waiting pods for which a node is being cleared."""

    nodes: Mapping[str, NodeView]
    nominated: Mapping[str, tuple[Pod, ...]]
    snapshot: Snapshot
    profile: SchedulerRelease
    has_anti_affinity: bool = True
    """Whether some pod may want to be away from others."""
    allocator: Allocator = field(default_factory=lambda: Allocator(supply_of((), (), (), gates_of(35))))
    """Devices for resource claims."""
    asking_order: tuple[str, ...] = ()
    """Names in the order in which the scheduler asks nodes."""

    @property
    def supply(self) -> Supply:
        """What resource slices offer, and what of it claims have."""
        return self.allocator.supply

    def with_node(self, node: NodeView) -> ClusterView:
        """The same cluster with one node replaced."""
        return replace(
            self,
            nodes=_Replaced.over(self.nodes, node),
            has_anti_affinity=self.has_anti_affinity or bool(node.anti_affinity_pods),
        )

    def settings(self, pod: Pod) -> SchedulerProfile:
        """The profile of the scheduler that places the pod; the default one where none is known."""
        return self.snapshot.schedulers.get(pod.scheduler_name, _DEFAULT)

    def guests(self, node: str, pod: Pod) -> list[Pod]:
        """Pods for which the node is being cleared, that come before this one or with it.

        A scheduler knows only of those that it places itself.
        """
        own = self.snapshot.schedulers
        return [
            other
            for other in self.nominated.get(node, ())
            if other.priority >= pod.priority
            and other.key != pod.key
            and (
                other.scheduler_name == pod.scheduler_name
                or (other.scheduler_name in own and pod.scheduler_name in own)
            )
        ]

    def namespace_labels(self, namespace: str) -> Labels:
        """Labels of a namespace; empty when it is not known."""
        return self.snapshot.namespaces.get(namespace, {})


def allocator_of(snapshot: Snapshot, profile: SchedulerRelease) -> Allocator:
    """What gives devices to claims, and what of them is taken."""
    gates = gates_shown(profile.minor, snapshot.slices, snapshot.device_classes, snapshot.claims)
    slices = tainted(snapshot.slices, snapshot.taint_rules, gates)
    return Allocator(supply_of(slices, snapshot.device_classes, snapshot.claims, gates))


def view_of(snapshot: Snapshot, *, version: str = "") -> ClusterView:
    """The view of a snapshot. Finished pods hold nothing; terminating ones still do.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    profile = profile_for(version or snapshot.server_version)
    if not profile.counts_whole_pods and any(pod.pod_requests or pod.pod_limits for pod in snapshot.pods):
        snapshot = replace(snapshot, pods=tuple(as_kept(pod, profile) for pod in snapshot.pods))
    by_node: dict[str, list[Pod]] = {node.name: [] for node in snapshot.nodes}
    nominated: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.finished:
            continue
        if pod.node_name in by_node:
            by_node[pod.node_name].append(pod)
        elif not pod.node_name and pod.status.nominated_node:
            nominated.setdefault(pod.status.nominated_node, []).append(pod)
    nodes = sorted(snapshot.nodes, key=lambda node: node.name)
    by_pod = profile.resizes_by_pod
    ask = _asked_once(by_pod=by_pod)
    views = {node.name: NodeView(node, by_pod=by_pod).plus(by_node[node.name], ask) for node in nodes}
    has_anti_affinity = any(node.anti_affinity_pods for node in views.values())
    waiting = {name: tuple(pods) for name, pods in nominated.items()}
    return ClusterView(
        views,
        waiting,
        snapshot,
        profile,
        has_anti_affinity,
        allocator_of(snapshot, profile),
        asking_order(nodes),
    )


def as_kept(pod: Pod, profile: SchedulerRelease) -> Pod:
    """The pod as the API server of a release keeps it: without `spec.resources` where it drops that.

    Source: feature gate PodLevelResources (1.32 alpha, off; 1.34 beta, on).
    """
    if profile.counts_whole_pods or not (pod.pod_requests or pod.pod_limits):
        return pod
    return replace(pod, pod_requests={}, pod_limits={})


def asking_order(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Node names in turns over their zones; zones and nodes in the order given.

    Source: kube-scheduler 1.35 backend/cache/node_tree.go.
    """
    zones: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        zone = _first(node.labels, _REGION), _first(node.labels, _ZONE)
        zones.setdefault(zone, []).append(node.name)
    turns = zip_longest(*zones.values())
    return tuple(name for turn in turns for name in turn if name is not None)


def _first(labels: Labels, keys: tuple[str, str]) -> str:
    return labels.get(keys[0], labels.get(keys[1], ""))


def _asked_once(*, by_pod: bool) -> Ask:
    """As `asked_by`, for pods that all stay alive meanwhile: those that share their containers are told once.

    What is told is shared, too, so that a hundred thousand pods of few workloads have few amounts.
    """
    cache: dict[tuple[int, ...], PodSums] = {}

    def ask(pod: Pod) -> PodSums:
        if pod.status.resized or pod.status.cannot_resize:
            return asked_by(pod, by_pod=by_pod)
        key = id(pod.containers), id(pod.init_containers), id(pod.pod_requests), id(pod.overhead)
        cached = cache.get(key)
        if cached is None:
            cached = cache[key] = asked_by(pod)
        return cached

    return ask
