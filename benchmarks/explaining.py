"""Why a pod is Pending among many nodes and pods: asked by classes of nodes, and node by node."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from tonnage.diagnose.explain import explain_on
from tonnage.diagnose.ground import Ground, ground_of
from tonnage.diagnose.render import explanation_lines
from tonnage.model.cluster import Container, Node, Pod, PodStatus, Snapshot
from tonnage.model.selectors import Taint, Toleration

NODES = 10_000
PODS = 100_000
_GPU = "nvidia.com/gpu"
_GIB = 1024**3
_TOLERATES = (Toleration(_GPU, "Exists"),)


def measure(rounds: int) -> dict[str, list[float]]:
    """Milliseconds of CPU; the ground (view and columns) is made before."""
    snapshot = _cluster()
    pod = Pod("new", "ml", containers=(_container(8),), tolerations=_TOLERATES, node_selector={"gpu": "A100"})
    start = time.process_time()
    ground = ground_of(snapshot)
    made = 1000 * (time.process_time() - start)
    plain = Ground(ground.view)
    told = f"a pod that {NODES} nodes with {PODS} pods refuse, ms of CPU:"
    explanation = explain_on(ground, pod)
    return {
        f"{told} view and columns made once": [made],
        f"{told} verdict and classes": [_ms(lambda: _classes(ground, pod)) for _ in range(rounds)],
        f"{told} with remedies, as text": [
            _ms(lambda: explanation_lines(explain_on(ground, pod))) for _ in range(rounds)
        ],
        f"{told} every node as JSON": [_ms(lambda: json.dumps(explanation.to_json())) for _ in range(rounds)],
        f"{told} the same node by node, as text": [_ms(lambda: explanation_lines(explain_on(plain, pod)))],
    }


def _classes(ground: Ground, pod: Pod) -> None:
    _, _, classes = ground.decide(pod)
    assert classes()


def _ms(deed: Callable[[], object]) -> float:
    start = time.process_time()
    deed()
    return 1000 * (time.process_time() - start)


def _cluster() -> Snapshot:
    nodes = tuple(
        Node(
            f"gpu-{number:05d}",
            {"kubernetes.io/hostname": f"gpu-{number:05d}", "gpu": "A100" if number % 2 else "H100"},
            taints=(Taint(_GPU, "", "NoSchedule"),),
            allocatable={"cpu": 128_000, "memory": 1024 * _GIB, "pods": 110, _GPU: 8},
            capacity={"cpu": 128_000, "memory": 1024 * _GIB, "pods": 110, _GPU: 8},
        )
        for number in range(NODES)
    )
    pods = tuple(
        Pod(
            f"pod-{number}",
            "ml",
            f"{number}",
            {"app": f"app-{number % 20}"},
            node_name=nodes[number % NODES].name,
            containers=(_container(1 if number < 4 * NODES else 0),),
            tolerations=_TOLERATES,
            status=PodStatus("Running"),
        )
        for number in range(PODS)
    )
    return Snapshot(nodes, pods)


def _container(gpus: int) -> Container:
    asks = {"cpu": 500, "memory": _GIB, **({_GPU: gpus} if gpus else {})}
    return Container("main", "train:v1", asks, asks)
