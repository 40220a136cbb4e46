"""The genuine node by itself: real containers that come back after the power went."""

from __future__ import annotations

import pytest

from support.genuine_cluster import GenuineCluster
from support.genuine_node import until
from support.images import BUSYBOX

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]


def test_a_pod_runs_as_a_container_and_is_started_again_after_a_crash(cluster: GenuineCluster) -> None:
    container = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "Never"}
    cluster.apply({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "plain"}, "spec": {
        "containers": [{**container, "command": ["sh", "-c", "echo hello; sleep 1000"]}],
        "terminationGracePeriodSeconds": 0,
    }})  # fmt: skip
    until(lambda: cluster.kubectl("logs", "plain", check=False) == "hello\n")

    cluster.node.crash()
    cluster.node.boot()
    until(lambda: cluster.get("pod", "plain")["status"]["containerStatuses"][0]["restartCount"] >= 1)
    until(lambda: cluster.kubectl("exec", "plain", "--", "hostname", check=False) == "plain\n")
    cluster.kubectl("delete", "pod", "plain")
