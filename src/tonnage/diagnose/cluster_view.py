"""A cluster made ready for questions: its view and, where it is large, its columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tonnage.decide.kubernetes.kubelet.admission import mark_of
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision, schedule_on
from tonnage.decide.kubernetes.view import ClusterView, view_of
from tonnage.diagnose.explain.nodes.closed_nodes import at_work
from tonnage.diagnose.explain.nodes.verdicts import NodeVerdicts, classed, each_alone
from tonnage.diagnose.notable_nodes import NotableNodes, notable_nodes_of
from tonnage.diagnose.rules.devices.not_advertised import layer_of
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.names import PRODUCT_LABEL
from tonnage.model.node.device_counts import device_count
from tonnage.model.verdict import NodeClass

if TYPE_CHECKING:
    from tonnage.decide.kubernetes.scheduler.fleet.engine import FleetEngine

LARGE: Final = 64
"""From so many nodes on, nodes that look alike are asked once."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What many questions about one cluster share."""

    view: ClusterView
    remarkable: NotableNodes
    engine: FleetEngine | None = None

    def decide(
        self, pod: Pod
    ) -> tuple[SchedulingDecision, NodeVerdicts, Callable[[], tuple[NodeClass, ...]]]:
        """The decision, every node's verdict, and how to come by the classes of nodes."""
        engine = self._engine_for(pod)
        if engine is None:
            verdicts = NodeVerdicts(pod, self.view)
            decision = schedule_on(pod, self.view, thorough=True)
            return decision, verdicts, lambda: self._of_claims(pod, verdicts) or each_alone(verdicts)
        names = engine.fleet.columns.by_row
        verdicts = NodeVerdicts(
            pod,
            self.view,
            lambda: (names[r].tolist() for r in engine.the_same(pod)),
            engine.kind_of_devices(pod),
        )

        def classes() -> tuple[NodeClass, ...]:
            return classed(verdicts, names, engine.alike(pod), engine.asking)

        return schedule_on(pod, self.view, engine=engine), verdicts, classes

    def _of_claims(self, pod: Pod, verdicts: NodeVerdicts) -> tuple[NodeClass, ...]:
        """Classes of nodes for a pod whose claims fail the allocator or cannot be judged on some.

        Empty where nodes must be asked one by one.
        """
        engine = self.engine
        if engine is None or not engine.can_tell_apart(pod):
            return ()
        return classed(verdicts, engine.fleet.columns.by_row, engine.alike(pod), engine.asking)

    def decision(self, pod: Pod) -> SchedulingDecision:
        """What the scheduler does with a pod here."""
        return schedule_on(pod, self.view, engine=self._engine_for(pod), scored=False)

    def chosen(self, pod: Pod, view: ClusterView) -> str | None:
        """Where the scheduler puts a pod; `view` is this one or a changed one."""
        engine = self._engine_for(pod) if view is self.view else None
        return schedule_on(pod, view, engine=engine, scored=False).chosen

    def _engine_for(self, pod: Pod) -> FleetEngine | None:
        return self.engine if self.engine is not None and self.engine.can_decide(pod) else None


def ground_of(snapshot: Snapshot, *, version: str = "", large: int = LARGE) -> Ground:
    """The ground of a snapshot; from `large` nodes on with columns, where numpy is installed.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    view = view_of(snapshot, version=version)
    if len(view.nodes) < large:
        return Ground(view, notable_nodes_of(view))
    try:
        from tonnage.decide.kubernetes.scheduler.fleet.engine import engine_of
    except ModuleNotFoundError:  # the agent's image leaves it out
        return Ground(view, notable_nodes_of(view))
    return Ground(
        view, notable_nodes_of(view), engine_of(view, marks_of(view), _states_of(view), (PRODUCT_LABEL,))
    )


@dataclass(slots=True)
class SharedGround:
    """A cluster as it is, made ready at the first question about it, for all manifests that meet it."""

    snapshot: Snapshot
    version: str
    ground: Ground | None = None

    def of(self, snapshot: Snapshot) -> Ground:
        """The ground of a snapshot: this one's, or that of another, which is made for it alone."""
        if snapshot is not self.snapshot:
            return ground_of(snapshot, version=self.version)
        if self.ground is None:
            self.ground = ground_of(snapshot, version=self.version)
        return self.ground


@dataclass(slots=True)
class Grounds:
    """The cluster made ready once, also for clusters that differ only in what the API server asks about.

    A large one also where pods have ended meanwhile: with them still there, at worst too little is promised.
    """

    shared: SharedGround
    ready: Ground | None = None

    def of(self, snapshot: Snapshot) -> Ground:
        """The ground of a snapshot."""
        if self.ready is None:
            self.ready = self.shared.of(snapshot)
            return self.ready
        earlier = self.ready.view.snapshot
        changed = _differ(_grounds(earlier), _grounds(snapshot))
        if self.ready.engine is None:
            changed = changed or _differ((earlier.pods, earlier.claims), (snapshot.pods, snapshot.claims))
        return self.shared.of(snapshot) if changed else self.ready


def _grounds(snapshot: Snapshot) -> tuple[object, ...]:
    """Parts of a snapshot that say where a pod may run, whatever the pods there."""
    devices = (snapshot.slices, snapshot.device_classes, snapshot.gpu)
    return snapshot.nodes, *devices, snapshot.volume_claims, snapshot.missing


def _differ(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return any(left is not right for left, right in zip(some, others, strict=True))


def _states_of(view: ClusterView) -> tuple[int, ...]:
    """A number for what a node says about itself when it is closed."""
    numbers: dict[object, int] = {}
    states = (
        (node.node.problem_conditions, node.node.cordon, at_work(node.node)) for node in view.nodes.values()
    )
    return tuple(numbers.setdefault(state, len(numbers)) for state in states)


def marks_of(view: ClusterView) -> tuple[int, ...]:
    """A number for what a node offers and what its labels and agent say of its GPUs; unread nodes alone."""
    numbers: dict[object, int] = {}
    marks: list[int] = []
    for name, node in view.nodes.items():
        key: object = name
        if not node.node.problems and not any(pod.problems for pod in node.pods):
            offered = tuple(
                sorted(n for n, amount in node.node.allocatable.items() if amount > 0 and "/" in n)
            )
            status = view.snapshot.gpu.get(name)
            counts = tuple(device_count(node.node, resource, status) for resource in offered)
            shared = tuple(count for count in counts if count.shared)
            key = offered, layer_of(node.node, status), mark_of(status, node), shared
        marks.append(numbers.setdefault(key, len(numbers)))
    return tuple(marks)
