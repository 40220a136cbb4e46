"""Answers about 10,000 nodes and 100,000 pods, each the first that a fresh process gives, beside its bar."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.snapshot import NODES, PODS, write_cluster

MOST_ROUNDS = 3
_ASK = """
import json, resource, sys, time

def took(deed):
    wall, cpu = time.perf_counter(), time.process_time()
    found = deed()
    return found, time.perf_counter() - wall, time.process_time() - cpu

def ready():
    from pathlib import Path
    from tonnage.adapters.snapshots.objects import collector_paused
    from tonnage.cli.cluster import read_snapshot
    from tonnage.diagnose.explain.explain import explain_waiting_pod
    from tonnage.diagnose.cluster_view import ground_of
    with collector_paused(kept=True):  # as `tonnage explain` does, to its end
        return ground_of(read_snapshot(Path(sys.argv[1])))

ground, wall, cpu = took(ready)
if sys.argv[2] != "load":
    from dataclasses import replace
    from tonnage.diagnose.explain.explain import explain_waiting_pod
    from tonnage.model.kubernetes.cluster import Container, Pod
    from tonnage.model.kubernetes.selectors import Toleration
    asks = {"cpu": 95_500, "memory": 2**30, "nvidia.com/gpu": 8}
    pod = Pod(
        "new", "team-1", containers=(Container("main", "registry.example/team/image-1:v1", asks, asks),),
        tolerations=(Toleration("nvidia.com/gpu", "Exists"),),
        node_selector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
    )
    urgent = replace(pod, priority=1000)
match sys.argv[2]:
    case "verdict":
        found, wall, cpu = took(lambda: explain_waiting_pod(ground, pod, trying=False))
        assert len(found.nodes) == len(ground.view.nodes) and not found.remedies
    case "remedies":
        found, wall, cpu = took(lambda: explain_waiting_pod(ground, pod))
        assert found.remedies
    case "preemption":
        found, wall, cpu = took(lambda: ground.decision(urgent))
        assert found.victims
    case "ten" | "both":
        from tonnage.diagnose import remedies
        tried = []
        least = remedies._least
        remedies._least = lambda *asked: (tried.append(asked), least(*asked))[1]
        remedies._MOST_TRIALS = 10 if sys.argv[2] == "ten" else remedies._MOST_TRIALS
        found, wall, cpu = took(lambda: explain_waiting_pod(ground, urgent))
        assert found.placement.victims and found.remedies
        assert len(tried) == (10 if sys.argv[2] == "ten" else 24)
    case "json":
        import msgspec
        answer = explain_waiting_pod(ground, pod, trying=False)
        found, wall, cpu = took(lambda: msgspec.json.encode(answer.to_json()))
print(json.dumps([wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
_QUESTIONS = {
    "load": ("file to ready, s", 4, 1),
    "verdict": ("verdict and grouped reasons, ms", 10, 1000),
    "json": ("the JSON of all nodes, ms", 150, 1000),
    "preemption": ("whom it would preempt, ms", 50, 1000),
    "ten": ("verdict, preemption and ten remedies tried, ms", 50, 1000),
    "both": ("verdict, preemption and all 24 remedies tried, ms", 50, 1000),
}
"""What is asked, the bar, and how many of its unit a second has."""


def measure(rounds: int) -> dict[str, list[float]]:
    """Wall and CPU of each question, and the most memory that any of them took."""
    figures: dict[str, list[float]] = {}
    peak: list[float] = []
    folder = Path(tempfile.mkdtemp(prefix="tn-"))
    try:
        path = folder / "cluster.jsonl.gz"
        write_cluster(path, NODES, PODS)
        for name, (told, bar, unit) in _QUESTIONS.items():
            answers = [_asked(path, name) for _ in range(min(rounds, MOST_ROUNDS))]
            figures[f"{told} (wanted: under {bar})"] = [unit * wall for wall, _, _ in answers]
            figures["  of CPU" + f" ({name})"] = [unit * cpu for _, cpu, _ in answers]
            peak += [mb for _, _, mb in answers]
    finally:
        shutil.rmtree(folder)
    figures["peak memory of any of these, MB (wanted: under 700)"] = [max(peak)]
    return figures


def _asked(path: Path, name: str) -> tuple[float, float, float]:
    command = [sys.executable, "-c", _ASK, str(path), name]
    wall, cpu, mb = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return wall, cpu, mb
