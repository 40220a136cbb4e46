"""Pods placed on many nodes, all of them judged and rated for each pod: on columns, and node by node.

The plain engine, which decides one pod node by node, is the other side; it places few, so that it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tonnage.decide.kubernetes.scheduler.fleet.fleet import fleet_of
from tonnage.decide.kubernetes.scheduler.scheduling import schedule_on
from tonnage.decide.kubernetes.view import ClusterView, view_of
from tonnage.model.kubernetes.cluster import Container, Node, Owner, Pod, Snapshot, WorkloadSelector
from tonnage.model.kubernetes.selectors import LabelSelector, Requirement, Taint, Toleration

NODES = 10_000
PODS = 10_000
PLAIN_PODS = 5
SHAPES = 20
_GPU = "nvidia.com/gpu"
_GIB = 1024**3


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds for all pods, and milliseconds a pod beside the plain engine's."""
    found: dict[str, list[float]] = {}
    for told, owned, bar in (("bare", False, 2), ("of ReplicaSets, spread by default", True, 8)):
        view = view_of(_cluster(owned=owned))
        fast = [_seconds(lambda: _on_columns(view, owned=owned)) for _ in range(rounds)]  # noqa: B023
        slow = _seconds(lambda: _node_by_node(view, owned=owned))  # noqa: B023
        found[f"{PODS} GPU pods ({told}) placed, s of CPU (wanted: under {bar})"] = fast
        found[f"  a pod on columns ({told}), ms"] = [1000 * seconds / PODS for seconds in fast]
        found[f"  a pod node by node ({told}), ms"] = [1000 * slow / PLAIN_PODS]
    return found


def _on_columns(view: ClusterView, *, owned: bool) -> None:
    fleet = fleet_of(view)
    placed = [fleet.place(_pod(number, owned=owned)) for number in range(PODS)]
    assert all(placed)


def _node_by_node(view: ClusterView, *, owned: bool) -> None:
    for number in range(PLAIN_PODS):
        pod = _pod(number, owned=owned)
        chosen = schedule_on(pod, view).chosen
        assert chosen is not None
        view = view.with_node(view.nodes[chosen].plus([pod]))


def _seconds(deed: Callable[[], None]) -> float:
    start = time.process_time()
    deed()
    return time.process_time() - start


def _cluster(*, owned: bool) -> Snapshot:
    nodes = tuple(
        Node(
            f"gpu-{number:05d}",
            {
                "kubernetes.io/hostname": f"gpu-{number:05d}",
                "topology.kubernetes.io/zone": f"zone-{number % 5}",
            },
            taints=(Taint(_GPU, "", "NoSchedule"),),
            allocatable={"cpu": 128_000, "memory": 1024 * _GIB, "pods": 110, _GPU: 8},
        )
        for number in range(NODES)
    )
    sets = tuple(
        WorkloadSelector(
            "ReplicaSet", "ml", f"set-{n}", LabelSelector((Requirement("app", "In", (f"app-{n}",)),))
        )
        for n in range(SHAPES)
    )
    return Snapshot(nodes, selectors=sets if owned else ())


def _pod(number: int, *, owned: bool) -> Pod:
    shape = number % SHAPES
    asks = {"cpu": 1000 * (1 + shape % 7), "memory": (1 + shape) * 4 * _GIB, _GPU: 1 + shape % 4}
    return Pod(
        f"pod-{number}",
        "ml",
        f"{number}",
        {"app": f"app-{shape}"},
        owner=Owner("ReplicaSet", f"set-{shape}") if owned else None,
        containers=(Container("main", "train:v1", asks),),
        tolerations=(Toleration(_GPU, "Exists"),),
    )
