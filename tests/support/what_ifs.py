"""Clusters to think changes of, and what came of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tonnage.diagnose.simulate.outcomes import SimulatedCluster
from tonnage.diagnose.simulate.what_if import what_if
from tonnage.model.changes import (
    Alternative,
    Change,
)
from tonnage.model.errors import ConfigError
from tonnage.model.kubernetes.cluster import (
    Container,
    Node,
    Owner,
    Pod,
    PodStatus,
    Snapshot,
)

GPU = "nvidia.com/gpu"

A100, T4, H100 = "NVIDIA-A100-SXM4-80GB", "Tesla-T4", "NVIDIA-H100-80GB-HBM3"

GIB = 1 << 30


def node(name: str, gpus: int = 4, product: str = A100, cpu: int = 64, **more: object) -> Node:
    amounts = {"cpu": 1000 * cpu, "memory": 512 * GIB, "pods": 110, GPU: gpus}
    labels = {"kubernetes.io/hostname": name}
    if product:
        labels |= {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(gpus)}
    base = Node(name, labels, allocatable=amounts, capacity=amounts)
    return replace(base, **more)  # type: ignore[arg-type]


def pod(
    name: str, amount: int = 1, resource: str = GPU, *, on: str = "", cpu: int = 1, **more: object
) -> Pod:
    asks = {"cpu": 1000 * cpu, "memory": GIB, **({resource: amount} if amount else {})}
    base = Pod(name, "ml", f"uid-{name}", containers=(Container("main", "app", asks, asks),), node_name=on)
    status = PodStatus("Running" if on else "Pending")
    return replace(base, **{"owner": Owner("Job", name.split("-", maxsplit=1)[0]), "status": status, **more})  # type: ignore[arg-type]


def tried(snapshot: Snapshot, *changes: Change) -> SimulatedCluster:
    return what_if(snapshot, [Alternative("after", changes)]).alternatives[0]


def problems(snapshot: Snapshot, *changes: Change) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        tried(snapshot, *changes)
    return [(problem.what, problem.remedy) for problem in caught.value.problems]


def waiting(outcome: SimulatedCluster) -> dict[str, int]:
    return {one.code: len(one.pods) for one in outcome.waiting}


def whereabouts(outcome: SimulatedCluster) -> dict[str, str | None]:
    return {fate.candidate.pod.name: fate.node for fate in outcome.fates}


FLEET = tuple(node(f"a100-{n}") for n in range(8))
