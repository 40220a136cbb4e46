"""One answer about a large cluster: `python -m benchmarks.scale_answers FILE QUESTION` prints what it cost.

A list in JSON: seconds, seconds of processor time, and the most memory of the process in MB.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tonnage.diagnose.cluster_view import Ground

T = TypeVar("T")
FEW_TRIALS, MOST_TRIALS = 10, 24


def main(file: Path, question: str) -> None:
    """Answer it on the cluster of a snapshot, and print what that cost."""
    ground, wall, cpu = _timed(lambda: _ready(file))
    if question != "load":
        wall, cpu = _answered(ground, question)
    print(json.dumps([wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def _ready(file: Path) -> Ground:
    from tonnage.adapters.snapshots.objects import collector_paused
    from tonnage.cli.cluster import read_snapshot
    from tonnage.diagnose.cluster_view import ground_of
    from tonnage.diagnose.explain import explain  # noqa: F401 - loaded with the cluster, as by `tonnage explain`

    with collector_paused(freeze=True):
        return ground_of(read_snapshot(file))


def _answered(ground: Ground, question: str) -> tuple[float, float]:
    from tonnage.diagnose.explain.explain import explain_waiting_pod
    from tonnage.diagnose.remedies import remedies
    from tonnage.model.kubernetes.cluster import Container, Pod
    from tonnage.model.kubernetes.selectors import Toleration

    requests = {"cpu": 95_500, "memory": 2**30, "nvidia.com/gpu": 8}
    pod = Pod(
        *("new", "team-1"),
        containers=(Container("main", "registry.example/team/image-1:v1", requests, requests),),
        tolerations=(Toleration("nvidia.com/gpu", "Exists"),),
        node_selector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
    )
    urgent = replace(pod, priority=1000)
    match question:
        case "verdict":
            explanation, *costs = _timed(lambda: explain_waiting_pod(ground, pod, with_remedies=False))
            assert len(explanation.nodes) == len(ground.view.nodes)
            assert not explanation.remedies
        case "json":
            import msgspec

            answer = explain_waiting_pod(ground, pod, with_remedies=False)
            _, *costs = _timed(lambda: msgspec.json.encode(answer.to_json()))
        case "preemption":
            decision, *costs = _timed(lambda: ground.decision(urgent))
            assert decision.victims
        case _:
            trials: list[object] = []
            least = remedies._least

            def counted(*plan_and_place: Any) -> Any:
                trials.append(plan_and_place)
                return least(*plan_and_place)

            remedies._least = counted  # type: ignore[assignment]
            if question == "ten":
                remedies._MOST_TRIALS = FEW_TRIALS  # type: ignore[misc]
            explanation, *costs = _timed(lambda: explain_waiting_pod(ground, urgent))
            assert explanation.placement.victims
            assert explanation.remedies
            assert len(trials) == (FEW_TRIALS if question == "ten" else MOST_TRIALS)
    wall, cpu = costs
    return wall, cpu


def _timed(answer: Callable[[], T]) -> tuple[T, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    answered = answer()
    return answered, time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
