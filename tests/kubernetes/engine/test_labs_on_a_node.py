"""Labs that one node is enough for, steps unchanged, with a real kubelet and real containers under them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME
from support.images import busybox_archive
from support.installed_agent import InstalledAgent, installed_agent
from support.nvml.state import DriverState, FakeGpu

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

IMAGES = {
    "nvcr.io/nvidia/cuda:12.5.0-base-ubuntu22.04": ("sleep", "3600"),
    "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0": ("echo", "Test PASSED"),
}
"""Of the labs' workloads, each with what stands in for it: nothing here computes on a GPU."""


@pytest.fixture(scope="module")
def one_gpu(cluster: GenuineCluster, agent_version: str) -> Iterator[InstalledAgent]:
    """The agent with one GPU; the node has the label by which feature discovery counts."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        for name, command in IMAGES.items():
            busybox_archive(Path(folder), name=name, command=command)
            cluster.node.import_image(Path(folder, "busybox.tar"))
    with installed_agent(cluster, agent_version, state=DriverState((FakeGpu(0),))) as agent:
        agent.configure()  # makes the ConfigMap
        cluster.kubectl("label", "node", NODE_NAME, "nvidia.com/gpu.count=1")
        yield agent
        cluster.kubectl("label", "node", NODE_NAME, "nvidia.com/gpu.count-")


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize("name", ["admission", "time-slicing"])
def test_a_lab_passes_on_a_genuine_node(name: str, cluster: GenuineCluster) -> None:
    """ADM-1, ADM-2, ADM-3, SHR-1."""
    ended = cluster.tonnage("lab", "run", name, "-o", "json", "--yes")
    assert ended.stdout, ended.stderr
    report = json.loads(ended.stdout)
    steps = (*report["steps"], *report["cleanup"])
    assert [step for step in steps if not step["passed"] and not step["skipped"]] == []
    assert (ended.returncode, report["passed"]) == (0, True)
