"""How long a cluster of 8 nodes takes to come up, and how long the inference lab takes, on either engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tonnage.cli.kubectl import kubectl_binary

TONNAGE = str(Path(sys.executable).with_name("tonnage"))
NODES = 8
LIMIT_S = 60.0


def measure(rounds: int) -> dict[str, list[float]]:
    """Wall seconds from the start of the `tonnage up` process."""
    return measure_engine("twin", rounds)


def measure_engine(engine: str, rounds: int) -> dict[str, list[float]]:
    """The same for `twin` or `kubernetes`; the memory is that of all its processes."""
    figures: dict[str, list[float]] = {
        f"up, {NODES} nodes: kubectl get nodes answers, s (wanted: under 1.5)": [],
        f"up, {NODES} nodes: all Ready, GPUs advertised, s (wanted: under 3)": [],
        "up: resident memory of the whole cluster, MB": [],
        "lab inference-sharing on a running cluster, s (wanted: under 30)": [],
    }
    answers, ready, memory, lab = figures.values()
    for _ in range(rounds):
        with cluster(engine, NODES) as (process, started, environment):
            answers.append(_until(lambda: len(_nodes(environment)) == NODES) - started)
            ready.append(_until(lambda: all(map(_is_ready, _nodes(environment)))) - started)
            memory.append(_resident_mb(process.pid))
            begun = time.perf_counter()
            subprocess.run(
                [TONNAGE, "lab", "run", "inference-sharing"],
                env=environment,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            lab.append(time.perf_counter() - begun)
    return figures


@contextmanager
def cluster(engine: str, nodes: int) -> Iterator[tuple[subprocess.Popen[bytes], float, dict[str, str]]]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    environment = os.environ | {"TONNAGE_STATE": str(folder), "KUBECONFIG": str(folder / "kubeconfig")}
    started = time.perf_counter()
    process = subprocess.Popen(
        [TONNAGE, "up", "--engine", engine, "--nodes", str(nodes)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process, started, environment
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _until(condition: Callable[[], bool]) -> float:
    deadline = time.perf_counter() + LIMIT_S
    while time.perf_counter() < deadline:
        if condition():
            return time.perf_counter()
    raise TimeoutError(f"not within {LIMIT_S} s")


def _nodes(environment: dict[str, str]) -> list[dict[str, dict[str, object]]]:
    if not Path(environment["KUBECONFIG"]).exists():
        time.sleep(0.02)
        return []
    command = [str(kubectl_binary("1.35")), "get", "nodes", "-o", "json"]
    answer = subprocess.run(command, env=environment, capture_output=True, check=False)
    items: list[dict[str, dict[str, object]]] = (
        json.loads(answer.stdout)["items"] if answer.returncode == 0 else []
    )
    return items


def _is_ready(node: dict[str, dict[str, object]]) -> bool:
    conditions = node["status"].get("conditions", [])
    labels = node["metadata"].get("labels", {})
    allocatable = node["status"].get("allocatable", {})
    if not isinstance(conditions, list) or not isinstance(labels, dict) or not isinstance(allocatable, dict):
        return False
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    wants_gpus = labels.get("nvidia.com/gpu.present") == "true"
    return ready and (
        not wants_gpus or any(int(v) for k, v in allocatable.items() if k.startswith("nvidia.com/"))
    )


def _resident_mb(pid: int) -> float:
    """Of a process and all below it. Pages that they share, of which there are few, count twice."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024 + sum(_resident_mb(int(child)) for child in below)
    raise ValueError("no VmRSS")
