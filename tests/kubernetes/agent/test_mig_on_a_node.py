"""MIG devices under a real kubelet: resources come and go with them, and their pods run on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.installed_agent import GPU, InstalledAgent, gpu_pod
from support.nvml.state import FakeMig

pytestmark = [pytest.mark.kubernetes, pytest.mark.node, pytest.mark.usefixtures("tidy")]

SMALL, LARGE = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
PARTS = (
    FakeMig("1g", 0, gi=7, uuid="MIG-one"),
    FakeMig("1g", 1, gi=8, uuid="MIG-two"),
    FakeMig("3g", 4, gi=2),
)


@pytest.fixture(autouse=True)
def _whole_again(agent: InstalledAgent) -> Iterator[None]:
    yield
    agent.driver.divide(1, enabled=False)


def strategy(name: str) -> str:
    return json.dumps({"version": "v1", "flags": {"migStrategy": name}})


def condition(cluster: GenuineCluster, kind: str) -> Any:
    found = cluster.get("node", NODE_NAME)["status"]["conditions"]
    return next((each for each in found if each["type"] == kind), {})


def test_parts_are_given_and_resources_come_and_go(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    agent.driver.divide(1, *PARTS)
    assert agent.configure(strategy("mixed")) == ""
    until(lambda: [cluster.allocatable(name) for name in (GPU, SMALL, LARGE)] == [1, 2, 1])
    cluster.apply(gpu_pod("part", resource=SMALL))
    cluster.kubectl("wait", "pod/part", "--for=condition=Ready", "--timeout=180s")
    seen = cluster.inside("part", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip()
    assert seen in ("MIG-one", "MIG-two")

    assert agent.configure(strategy("none")) == ""  # the whole is not given while a part of it is held
    until(lambda: [cluster.allocatable(name) for name in (GPU, SMALL, LARGE)] == [1, 0, 0])
    assert cluster.get("pod", "part")["status"]["phase"] == "Running"
    cluster.kubectl("delete", "pod", "part", "--now")
    until(lambda: cluster.allocatable(GPU) == 2)

    assert agent.configure(strategy("mixed")) == ""
    until(lambda: cluster.allocatable(LARGE) == 1)
    agent.driver.divide(1, *PARTS[:2])
    until(lambda: [cluster.allocatable(name) for name in (GPU, SMALL, LARGE)] == [1, 2, 0])


def test_an_odd_gpu_is_withheld_alone_and_the_node_says_what_it_runs(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    agent.driver.divide(1, *PARTS)
    assert agent.configure(strategy("single")) == ""
    until(lambda: cluster.allocatable(GPU) == 1)
    until(lambda: any("more than one MIG device type" in text for text in agent.status()["problems"]))
    until(lambda: condition(cluster, "GPUConfigApplied").get("status") == "True")
    error = agent.configure(strategy("some"))
    assert "unknown MIG strategy: some" in error
    until(lambda: "unknown MIG strategy: some" in condition(cluster, "GPUConfigApplied").get("message", ""))
    assert condition(cluster, "GPUConfigApplied")["reason"] == "ConfigRefused"
    assert cluster.allocatable(GPU) == 1
