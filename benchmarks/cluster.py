"""How long a cluster of 8 nodes takes to come up, and how long the inference lab takes, on either engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tonnage.cli.locations.kubectl import kubectl_binary

TONNAGE = str(Path(sys.executable).with_name("tonnage"))
NODES = 8
LIMIT_S = 60.0


def measure(rounds: int) -> dict[str, list[float]]:
    """Wall seconds from the start of the `tonnage up` process."""
    return measure_engine("twin", rounds)


def measure_engine(engine: str, rounds: int) -> dict[str, list[float]]:
    """The same for `twin` or `kubernetes`; the memory is that of all its processes."""
    figures: dict[str, list[float]] = {
        f"up, {NODES} nodes: kubectl's first answer, s (wanted: under 1.0)": [],
        f"up, {NODES} nodes: kubectl lists them, s": [],
        f"up, {NODES} nodes: all Ready, GPUs advertised, s (wanted: under 3)": [],
        "up: resident memory of the whole cluster, MB (wanted: at most 122)": [],
        "lab inference-sharing on a running cluster, s (wanted: under 30)": [],
    }
    answer, listed, ready, memory, lab = figures.values()
    for _ in range(rounds):
        with cluster(engine, NODES) as (process, started, environment):
            answer.append(wait_for_answer(environment) - started)
            listed.append(wait_for_nodes(environment) - started)
            ready.append(wait_for_readiness(environment) - started)
            memory.append(resident_mb(process.pid))
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
def cluster(
    engine: str,
    nodes: int,
    *,
    program: Sequence[str] = (TONNAGE,),
    errors: int | IO[bytes] = subprocess.DEVNULL,
) -> Iterator[tuple[subprocess.Popen[bytes], float, dict[str, str]]]:
    """The process of `tonnage up`, when it was started, and the environment of its clients."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    environment = os.environ | {"TONNAGE_STATE": str(folder), "KUBECONFIG": str(folder / "kubeconfig")}
    started = time.perf_counter()
    process = subprocess.Popen(
        [*program, "up", "--engine", engine, "--nodes", str(nodes)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )
    try:
        yield process, started, environment
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_answer(environment: dict[str, str]) -> float:
    """When the API server first answered kubectl."""
    return _until(lambda: _nodes(environment) is not None)


def wait_for_nodes(environment: dict[str, str]) -> float:
    """When kubectl listed all nodes."""
    return _until(lambda: len(_nodes(environment) or ()) == NODES)


def wait_for_readiness(environment: dict[str, str]) -> float:
    """When all nodes that kubectl listed were Ready and those with GPUs offered them."""
    return _until(lambda: _all_ready(_nodes(environment) or []))


def _until(condition: Callable[[], bool]) -> float:
    deadline = time.perf_counter() + LIMIT_S
    while time.perf_counter() < deadline:
        if condition():
            return time.perf_counter()
    raise TimeoutError(f"not within {LIMIT_S} s")


def _nodes(environment: dict[str, str]) -> list[dict[str, dict[str, object]]] | None:
    """As kubectl lists them; None while there is no answer."""
    if not Path(environment["KUBECONFIG"]).exists():
        time.sleep(0.02)
        return None
    command = [str(kubectl_binary("1.35")), "get", "nodes", "-o", "json"]
    answer = subprocess.run(command, env=environment, capture_output=True, check=False)
    if answer.returncode:
        return None
    items: list[dict[str, dict[str, object]]] = json.loads(answer.stdout)["items"]
    return items


def _all_ready(nodes: list[dict[str, dict[str, object]]]) -> bool:
    return bool(nodes) and all(map(_is_ready, nodes))


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


def resident_mb(pid: int) -> float:
    """Of a process and all below it. Pages that they share, of which there are few, count twice."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024 + sum(resident_mb(int(child)) for child in below)
    raise ValueError("no VmRSS")
