"""Devices that no node offers, where the nodes are fine: slips of the pen, other vendors, parts of GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.diagnose.explain.explain import explain, find_pod
from tonnage.model.layer import Layer
from tonnage.model.verdict import Explanation
from tonnage.reading.documents import snapshot_from_documents

GPU = "nvidia.com/gpu"


def asked(resource: str, *, labels: dict[str, str] | None = None, offered: int = 8) -> Explanation:
    """What is said of a pod that asks for one of a resource, where one node has GPUs."""
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: str(offered)}
    present = {"nvidia.com/gpu.present": "true", "nvidia.com/cuda.driver.major": "550"}
    container: dict[str, Any] = {"name": "c", "image": "i", "resources": {"limits": {resource: "1"}}}
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "gpu-1", "labels": {**present, **(labels or {})}},
            "status": {"allocatable": amounts, "capacity": {**amounts, GPU: "8"}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "ml", "uid": "u"},
            "spec": {"containers": [container]},
        },
    ]
    snapshot = snapshot_from_documents(documents)
    pod = find_pod(snapshot, "ml", "p")
    assert pod is not None
    return explain(pod, snapshot)


@pytest.mark.parametrize("slip", ["nvidia.com/gpus", "nvdia.com/gpu", "NVIDIA.com/gpu", "nvidia.com/gpuu"])
def test_a_slip_of_the_pen_is_told_as_one_and_the_right_name_was_tried(slip: str) -> None:
    said = asked(slip)
    assert (said.layer, f"nodes offer {GPU}, which may be what you mean" in said.message) == (
        Layer.SCHEDULER,
        True,
    )
    assert [(r.action, r.effect) for r in said.remedies] == [
        (f"ask for {GPU} instead of {slip}", "fits gpu-1")
    ]


@pytest.mark.parametrize("other", ["amd.com/gpu", "rdma/hca", "habana.ai/gaudi"])
def test_nobody_elses_plugin_is_blamed_for_another_vendors_device(other: str) -> None:
    said = asked(other)
    assert said.message == f"no node advertises {other}; no node is known to have such a device"
    assert all("by their labels" not in reason.message for reason in said.reasons)


def test_a_plugin_that_offers_nothing_is_blamed() -> None:
    said = asked("nvidia.com/gpuz", offered=0)
    assert "nodes that have a GPU by their labels, but offer none: gpu-1" in said.message


@pytest.mark.parametrize(("replicas", "what"), [("1", "a whole GPU"), ("4", "a share of a GPU")])
def test_instead_of_a_part_there_is_a_whole_gpu_or_a_share_of_one(replicas: str, what: str) -> None:
    said = asked("nvidia.com/mig-1g.10gb", labels={"nvidia.com/gpu.replicas": replicas})
    (remedy,) = said.remedies
    assert remedy.action == f"ask for {GPU} instead of nvidia.com/mig-1g.10gb: {what} instead of a part"
