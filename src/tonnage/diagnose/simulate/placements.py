"""A changed cluster on which pods are placed, one after the other, as the scheduler places them.

On columns where pods allow it (`decide.kubernetes.scheduler.fleet`), else node by node, as often as a bound
permits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from tonnage.decide.kubernetes.claims.extended_resources import backed_by_classes
from tonnage.decide.kubernetes.scheduler.fleet.engine import FleetEngine, turns_of
from tonnage.decide.kubernetes.scheduler.fleet.fleet import Fleet, conflicts, fleet_of
from tonnage.decide.kubernetes.scheduler.fleet.occupants import occupants_of
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision, schedule_on
from tonnage.decide.kubernetes.view import ClusterView, NodeView, allocator_of
from tonnage.diagnose.simulate.changed_cluster import Fork
from tonnage.diagnose.simulate.claims import give_devices, snapshot_after
from tonnage.diagnose.simulate.pod_shapes import group_of, stays_refused
from tonnage.model.kubernetes.cluster import Pod

MOST_JUDGED: Final = 2_000_000
"""Pairs of a pod and a node that are judged one by one; what is left then is not known."""
_TOO_MANY: Final = f"too many pods have to be tried node by node (more than {MOST_JUDGED} pairs of the two)"
_MOST_SHAPES: Final = 48
"""Shapes of pods that the columns remember; each takes about half a MB on 10,000 nodes."""
DEFAULT_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a pod went; `victims` had to go for it. `unknown` says what keeps the answer from being known."""

    node: str | None = None
    victims: tuple[Pod, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class Scene:
    """Nodes with what they hold, as view and as columns; `come` are placed pods that the view lacks yet."""

    view: ClusterView
    nodes: dict[str, NodeView]
    fleet: Fleet
    least_priority: int | None
    come: dict[str, list[Pod]] = field(default_factory=dict)
    left: int = MOST_JUDGED
    refused: set[Hashable] = field(default_factory=set)
    """Groups of pods that found no room, which pods that come cannot make."""
    shunned: bool = field(init=False)
    """Some pod wants to be away from others, so that labels tell pods apart."""

    def __post_init__(self) -> None:
        self.shunned = self.view.has_anti_affinity

    def place(self, pod: Pod) -> Placed:
        """Put a pod where the scheduler would, if anywhere."""
        group = group_of(pod, shunned=self.shunned)
        if group in self.refused:
            return Placed()
        placed = self._placed(pod)
        if placed.victims:
            self.refused.clear()
        elif placed.node is None and not placed.unknown and self._stays(pod):
            self.refused.add(group)
        return placed

    def place_on(self, pod: Pod, name: str) -> Placed:
        """Put a pod that is for one node there, if it fits: a DaemonSet's."""
        if pod.scheduler_name not in (DEFAULT_SCHEDULER, *self.view.snapshot.schedulers):
            return Placed(unknown=(f"it is placed by {pod.scheduler_name}",))
        come = self.come.pop(name, ())
        if come:
            self.nodes[name] = self.nodes[name].plus(replace(other, node_name=name) for other in come)
        return self._decided(pod, schedule_on(pod, replace(self.view, nodes={name: self.nodes[name]})))

    def node_before(self, pod: Pod, name: str) -> NodeView:
        """A node without the pod that was placed there last."""
        return self.nodes[name].plus(other for other in self.come.get(name, ()) if other.key != pod.key)

    def withdraw(self, pod: Pod, name: str) -> None:
        """Take back the pod that was placed last: its kubelet does not let it in."""
        self.settled()
        self.nodes[name] = self.nodes[name].without((pod,))
        self.fleet = fleet_of(self.settled())

    def _stays(self, pod: Pod) -> bool:
        """Whether what refuses a pod refuses its group; under a profile more may tell pods apart."""
        return stays_refused(pod) and self.view.settings(pod).is_default

    def _placed(self, pod: Pod) -> Placed:
        if pod.scheduler_name not in (DEFAULT_SCHEDULER, *self.view.snapshot.schedulers):
            return Placed(unknown=(f"it is placed by {pod.scheduler_name}",))
        if pod.gates:
            return Placed()
        if not self._on_columns(pod):
            return self._one_by_one(pod)
        self.fleet.forget(_MOST_SHAPES)
        node = self.fleet.choose(pod)
        if node is not None:
            return self._allocated(pod, node)
        lower = self.least_priority is not None and self.least_priority < pod.priority
        return self._one_by_one(pod, on_columns=True) if lower and pod.may_preempt else Placed()

    def engine(self, marks: Sequence[int] = ()) -> FleetEngine:
        """The columns as an engine, once the scene is settled; `marks` as `FleetEngine.marks`."""
        occupants = occupants_of(self.fleet.columns, self.nodes)
        numbers = np.array(marks or [0] * len(self.nodes), np.int64)
        return FleetEngine(self.fleet, occupants, numbers, turns_of(self.fleet))

    @property
    def pods(self) -> int:
        """How many pods have a node."""
        return sum(len(n.pods) for n in self.nodes.values()) + sum(map(len, self.come.values()))

    def settled(self) -> ClusterView:
        """The view with every pod that was placed."""
        for name, pods in self.come.items():
            self.nodes[name] = self.nodes[name].plus(replace(pod, node_name=name) for pod in pods)
        self.come.clear()
        has_anti_affinity = any(node.anti_affinity_pods for node in self.nodes.values())
        self.view = replace(self.view, nodes=self.nodes, has_anti_affinity=has_anti_affinity)
        return self.view

    def _on_columns(self, pod: Pod) -> bool:
        """Whether the columns know everything that bears on the pod."""
        if pod.volumes or pod.disks or pod.unmodelled or conflicts(pod):
            return False
        if not self.view.settings(pod).is_default or not self.fleet.claim_columns.decide(pod):
            return False
        if self.view.snapshot.namespaces:
            return True
        terms = (*pod.affinity.pods, *pod.affinity.anti)
        return not self.shunned and all(term.namespace_selector is None for term in terms)

    def _one_by_one(self, pod: Pod, *, on_columns: bool = False) -> Placed:
        if self.left < len(self.nodes):
            return Placed(unknown=(_TOO_MANY,))
        self.left -= len(self.nodes)
        view = self.settled()
        return self._decided(pod, schedule_on(pod, view, engine=self.engine() if on_columns else None))

    def _decided(self, pod: Pod, decision: SchedulingDecision) -> Placed:
        if decision.unmodelled:
            return Placed(unknown=decision.unmodelled)
        if decision.chosen is not None:
            return self._allocated(pod, decision.chosen)
        return self._preempted(pod, decision) if decision.nominated and decision.victims else Placed()

    def _allocated(self, pod: Pod, node: str) -> Placed:
        """The pod with the devices of its claims."""
        if pod.claims or backed_by_classes(pod, self.view.supply):
            unknown = give_devices(pod, self.nodes[node].node, self.view.allocator)
            if unknown:
                return Placed(unknown=(unknown,))
        self._holds(node, pod)
        self.fleet.put(pod, node)
        return Placed(node)

    def _preempted(self, pod: Pod, decision: SchedulingDecision) -> Placed:
        name = decision.nominated or ""
        for involved in (pod, *decision.victims):
            if involved.claims or backed_by_classes(involved, self.view.supply):
                message = (
                    f"it would preempt pods, and {involved.namespace}/{involved.name} has resource claims"
                )
                return Placed(unknown=(message,))
        self.nodes[name] = self.nodes[name].without(decision.victims)
        self._holds(name, pod)
        self.fleet = fleet_of(self.settled())
        return Placed(name, decision.victims)

    def _holds(self, node: str, pod: Pod) -> None:
        self.come.setdefault(node, []).append(pod)
        if pod.affinity.anti and not self.shunned:
            self.shunned = True
            self.refused.clear()
        least = self.least_priority
        self.least_priority = pod.priority if least is None else min(least, pod.priority)


def scene_of(fork: Fork) -> Scene:
    """The scene of a fork. Waiting pods hold nothing, and no node is being cleared for any of them."""
    base = fork.base
    nodes: dict[str, NodeView] = {}
    for name in sorted(fork.names()):
        if name not in fork.nodes and name not in fork.held:
            nodes[name] = base.nodes[name]
        elif name in fork.held:
            nodes[name] = NodeView(fork.node(name)).plus(fork.held[name])
        else:
            nodes[name] = replace(base.nodes[name], node=fork.node(name))
    snapshot = base.snapshot
    if snapshot.slices or snapshot.claims or snapshot.claim_templates:
        snapshot = snapshot_after(fork)
    allocator = allocator_of(snapshot, base.profile)
    gpu = snapshot.gpu
    if fork.nodes:
        gpu = {name: status for name, status in gpu.items() if name not in fork.nodes}
    snapshot = replace(snapshot, nodes=tuple(n.node for n in nodes.values()), gpu=gpu)
    view = ClusterView(
        nodes, {}, snapshot, base.profile, any(n.anti_affinity_pods for n in nodes.values()), allocator
    )
    return Scene(view, nodes, fleet_of(view), _least(nodes.values()))


def _least(nodes: Iterable[NodeView]) -> int | None:
    priorities = [node.least_priority for node in nodes if node.least_priority is not None]
    return min(priorities, default=None)
