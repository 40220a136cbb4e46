"""Which pods a DaemonSet makes and deletes next: pure, from nodes and pods.

Source: k8s.io/kubernetes/pkg/controller/daemon (v1.35), for the order and the arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tonnage.model.kubernetes.well_known import CONTROLLER_REVISION_HASH
from tonnage.twin.controllers.daemons.template import DaemonPlacement
from tonnage.twin.controllers.deployments.replica_sets import int_or_percent
from tonnage.twin.controllers.pod_state import available_in_s, is_ready
from tonnage.wire.objects import DaemonSet, Pod, WorkloadStatus


@dataclass(frozen=True, slots=True)
class Failed:
    """A pod that ended although it should run: `reason` and `message` of the Event about it."""

    pod: Pod
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class DaemonPlan:
    """Nodes that need a pod, pods that must go, and pods that ended and are to be replaced after a pause."""

    create: tuple[str, ...]
    delete: tuple[Pod, ...]
    failed: tuple[Failed, ...]


def node_of(pod: Pod) -> str:
    """The node that a daemon pod is on or made for, empty when it names none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Pods by node: those that are on it first, the oldest of them first."""
    nodes: dict[str, list[Pod]] = {}
    for pod in pods:
        nodes.setdefault(node_of(pod), []).append(pod)
    for there in nodes.values():
        if len(there) > 1:
            there.sort(
                key=lambda p: (not p.spec.node_name, p.metadata.creation_timestamp or "", p.metadata.name)
            )
    return nodes


def plan(
    daemon_set: DaemonSet,
    fits: Mapping[str, DaemonPlacement],
    placed: Mapping[str, list[Pod]],
    revision: str,
    now: datetime,
) -> DaemonPlan:
    """One step: a pod on every node that should have one, none elsewhere, and the update's share.

    `placed` are its pods `by_node`. `revision` is the value of the label `controller-revision-hash` that pods
    of the present template carry.
    """
    steps = [
        _on_node_step(daemon_set, name, fit, placed.get(name, []), revision) for name, fit in fits.items()
    ]
    update = _update(daemon_set, fits, placed, revision, now)
    orphaned = [
        pod for name, there in placed.items() if name not in fits for pod in there if not pod.spec.node_name
    ]
    delete = [pod for step in (*steps, update) for pod in step.delete] + orphaned
    unique = {pod.metadata.uid: pod for pod in delete if pod.metadata.deletion_timestamp is None}
    return DaemonPlan(
        tuple(name for step in (*steps, update) for name in step.create),
        tuple(unique.values()),
        tuple(failure for step in steps for failure in step.failed),
    )


def _on_node_step(
    daemon_set: DaemonSet, name: str, fit: DaemonPlacement, there: list[Pod], revision: str
) -> DaemonPlan:
    if not fit.may_stay:
        return DaemonPlan((), tuple(there), ())
    if not there:
        return DaemonPlan((name,) if fit.should_run else (), (), ())
    failed = tuple(failure for pod in there if (failure := _failure(pod)) is not None)
    living = [
        pod
        for pod in there
        if pod.status.phase not in ("Failed", "Succeeded") and pod.metadata.deletion_timestamp is None
    ]
    return DaemonPlan((), tuple(_surplus(daemon_set, living, revision)), failed)


def _failure(pod: Pod) -> Failed | None:
    if pod.metadata.deletion_timestamp is not None:
        return None
    where = f"{pod.metadata.namespace}/{pod.metadata.name} on node {node_of(pod)}, will try to"
    match pod.status.phase:
        case "Failed":
            return Failed(pod, "FailedDaemonPod", f"Found failed daemon pod {where} kill it")
        case "Succeeded":
            return Failed(pod, "SucceededDaemonPod", f"Found succeeded daemon pod {where} delete it")
        case _:
            return None


def _surplus(daemon_set: DaemonSet, living: list[Pod], revision: str) -> list[Pod]:
    """All but the oldest pod of a node; amid a surge the oldest of either revision may stay."""
    if len(living) <= 1:
        return []
    if _limit(daemon_set, "maxSurge", 1) == 0:
        return living[1:]
    staying_revisions: set[bool] = set()
    surplus = []
    for pod in living:
        updated = is_updated(pod, revision)
        if updated in staying_revisions:
            surplus.append(pod)
        staying_revisions.add(updated)
    return surplus


def is_updated(pod: Pod, revision: str) -> bool:
    """Whether the pod was made from the present template."""
    return pod.metadata.labels.get(CONTROLLER_REVISION_HASH) == revision


def _limit(daemon_set: DaemonSet, name: str, nodes: int) -> int:
    rolling = daemon_set.spec.update_strategy.get("rollingUpdate") or {}
    value = rolling.get(name, 1 if name == "maxUnavailable" else 0)
    return int_or_percent(value, nodes, round_up=True)


def _update(
    daemon_set: DaemonSet,
    fits: Mapping[str, DaemonPlacement],
    placed: Mapping[str, list[Pod]],
    revision: str,
    now: datetime,
) -> DaemonPlan:
    """The rolling update's part: old pods to delete within maxUnavailable, or new ones within maxSurge.

    Pods on nodes that should have none any more take part; the limits are of the nodes that should.
    """
    nothing = DaemonPlan((), (), ())
    if daemon_set.spec.update_strategy.get("type") == "OnDelete":
        return nothing
    if all(is_updated(pod, revision) for there in placed.values() for pod in there):
        return nothing
    running = [name for name, fit in fits.items() if fit.should_run]
    surge = _limit(daemon_set, "maxSurge", len(running))
    unavailable = _limit(daemon_set, "maxUnavailable", len(running))
    if surge == 0 and unavailable == 0:
        unavailable = 1
    names = [name for name, fit in fits.items() if fit.should_run or placed.get(name)]
    nodes = {name: _on_node(daemon_set, placed.get(name, []), revision, now) for name in names}
    if surge == 0:
        return DaemonPlan((), _replaceable(list(nodes.values()), unavailable), ())
    return _surging(nodes, frozenset(running), surge)


@dataclass(frozen=True, slots=True)
class _OnNode:
    """The newest pod of either revision on a node, and whether it is available."""

    new: Pod | None
    old: Pod | None
    new_available: bool
    old_available: bool

    @property
    def both(self) -> bool:
        return self.new is not None and self.old is not None


def _on_node(daemon_set: DaemonSet, pods: list[Pod], revision: str, now: datetime) -> _OnNode:
    new = old = None
    for pod in pods:
        if pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Failed", "Succeeded"):
            continue
        if is_updated(pod, revision):
            new = new or pod
        else:
            old = old or pod
    wait_s = daemon_set.spec.min_ready_seconds
    return _OnNode(
        new,
        old,
        new is not None and available_in_s(new, wait_s, now) == 0,
        old is not None and available_in_s(old, wait_s, now) == 0,
    )


def _replaceable(nodes: list[_OnNode], unavailable: int) -> tuple[Pod, ...]:
    """Old pods that are not available go at once; of the others as many as may still be missed."""
    missing = sum(1 for node in nodes if node.both or (node.old is None and not node.new_available))
    only_old = [(node.old, node.old_available) for node in nodes if node.old and not node.new]
    at_once = [pod for pod, available in only_old if not available]
    candidates = [pod for pod, available in only_old if available]
    return (*at_once, *candidates[: max(unavailable - missing, 0)])


def _surging(nodes: Mapping[str, _OnNode], running: Collection[str], surge: int) -> DaemonPlan:
    """New pods beside old ones on up to `surge` nodes; an old one goes once its successor is available.

    From a node that should have none any more it goes once that many others are available.
    """
    at_once: list[str] = []
    candidates: list[str] = []
    delete: list[Pod] = []
    strays: list[Pod] = []
    surging = 0
    for name, node in nodes.items():
        if node.old is None:
            continue
        if node.new is not None:
            if node.new_available:
                delete.append(node.old)
            surging += not node.new_available
        elif name not in running:
            (strays if node.old_available else delete).append(node.old)
        else:
            (candidates if node.old_available else at_once).append(name)
    available = sum(node.old_available if node.old else node.new_available for node in nodes.values())
    delete += strays[: max(available - len(running), 0)]
    return DaemonPlan((*at_once, *candidates[: max(surge - surging, 0)]), tuple(delete), ())


def status_of(
    daemon_set: DaemonSet,
    fits: Mapping[str, DaemonPlacement],
    placed: Mapping[str, list[Pod]],
    revision: str,
    now: datetime,
) -> tuple[WorkloadStatus, float | None]:
    """The status, and the seconds until a pod becomes available by time alone (None: none will)."""
    status = WorkloadStatus(
        observed_generation=daemon_set.metadata.generation,
        collision_count=daemon_set.status.collision_count,
        conditions=daemon_set.status.conditions,
    )
    coming: list[float] = []
    least_s = daemon_set.spec.min_ready_seconds
    for name, fit in fits.items():
        there = placed.get(name, [])
        if not fit.should_run:
            status.number_misscheduled += bool(there)
            continue
        status.desired_number_scheduled += 1
        if not there:
            continue
        status.current_number_scheduled += 1
        first = there[0]
        status.updated_number_scheduled += is_updated(first, revision)
        if is_ready(first):
            status.number_ready += 1
            status.number_available += available_in_s(first, least_s, now) == 0
        waits = (available_in_s(pod, least_s, now) for pod in there)
        coming += [wait_s for wait_s in waits if wait_s]
    status.number_unavailable = status.desired_number_scheduled - status.number_available
    return status, min(coming) if coming else None
