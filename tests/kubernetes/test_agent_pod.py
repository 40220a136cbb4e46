"""The agent as the pod that the chart makes, on a real kubelet."""

from __future__ import annotations

import pytest

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME
from support.installed_agent import GPU, InstalledAgent

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]


def test_the_agent_registers_over_the_real_socket(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    status = cluster.get("node", NODE_NAME)["status"]
    assert (status["capacity"][GPU], status["allocatable"][GPU]) == ("2", "2")
