"""OPR-5 on a genuine node: Tonnage's chart with a values file for NVIDIA's, until nothing is left of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.installed_agent import DRIVER_ROOT, GPU, gpu_pod
from support.operated_node import OperatedNode, operated_node
from support.page_shell import ROOT
from tonnage.model.catalog.nvidia_kinds import DEFINITIONS

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

VALUES: Final = ROOT / "tests" / "data" / "values-of-nvidias-chart.yaml"
HERE: Final = "With a values file of NVIDIA's chart"
NAMESPACE: Final = "gpu-operator"
SHARED: Final = 4
"""As many pods as the file has share the node's one GPU."""
LAYOUT: Final = {"nvidia.com/mig.config": "all-disabled"}
"""What the file asks for as the layout of nodes that have none, which stays on GPUs."""
KINDS: Final = (
    *("nodes", "namespaces", "nodegpustatuses", *DEFINITIONS),
    *("daemonsets", "deployments", "pods", "jobs", "configmaps", "services", "runtimeclasses"),
    *("clusterroles", "clusterrolebindings", "roles", "rolebindings", "serviceaccounts"),
)


def test_a_values_file_for_nvidias_chart_from_installation_to_the_end(
    cluster: GenuineCluster, agent_version: str, tmp_path: Path
) -> None:
    """The policy gets ready and a pod has a GPU; nothing of it stays, and nothing is held by a finalizer."""
    values = tmp_path / "gpu-operator-values.yaml"
    shutil.copy(VALUES, values)
    site = {"nvidiaDriverRoot": DRIVER_ROOT}
    with operated_node(cluster, agent_version, site=site, files=[values]) as operated:
        before = _named(cluster, "clusterroles,clusterrolebindings,runtimeclasses")
        operated.shell.follow(HERE)
        _is_operated(operated)
        _has_a_gpu(cluster)
        assert {f"{NAMESPACE}/time-slicing-config"} <= _named(cluster, "configmaps")
        operated.uninstall(NAMESPACE)
        assert operated.marks() == LAYOUT
        until(lambda: not cluster.get("daemonsets,jobs,pods,deployments", "-n", NAMESPACE))
        assert _all(cluster, "clusterpolicies") == []
        assert _named(cluster, "clusterroles,clusterrolebindings,runtimeclasses") == before
        assert [found for kind in KINDS for found in _held(cluster, kind)] == []
        cluster.kubectl("label", "node", NODE_NAME, *(f"{label}-" for label in LAYOUT))


def _is_operated(operated: OperatedNode) -> None:
    """The node is ready by the policy that the chart has written, and validated by a pod with a device."""
    operated.until_condition("Ready", "all 1 GPU nodes are ready")
    until(lambda: operated.cluster.allocatable(GPU) == SHARED)
    operated.until_condition("Ready", "all 1 GPU nodes are ready")
    until(lambda: "workload" in operated.passed())
    assert operated.passed() == ["driver", "runtime", "plugin", "workload"]
    until(lambda: LAYOUT.items() <= operated.marks().items())
    assert "toolkit.version" in operated.condition("tonnage.dev/FieldsWithoutEffect")
    labels = operated.node_metadata()["labels"]
    assert labels["nvidia.com/gpu.product"].endswith("-SHARED")
    assert labels["nvidia.com/gpu.replicas"] == str(SHARED)


def _has_a_gpu(cluster: GenuineCluster) -> None:
    cluster.apply(gpu_pod("user"))
    until(lambda: cluster.phase("user") == "Running")
    assert "/dev/nvidia0" in cluster.inside("user", "ls", "/dev/nvidia0")
    cluster.kubectl("delete", "pod", "user", "--now")


def _named(cluster: GenuineCluster, kinds: str) -> set[str]:
    """Namespace and name of each object."""
    metadata = [found["metadata"] for found in _all(cluster, kinds)]
    return {f"{each.get('namespace', '')}/{each['name']}" for each in metadata}


def _all(cluster: GenuineCluster, kinds: str) -> list[Any]:
    return list(cluster.get(kinds, "-A").get("items", []))


def _held(cluster: GenuineCluster, kind: str) -> list[str]:
    """Objects that a finalizer would keep, or keeps: Kubernetes' own of namespaces stand in their spec."""
    return [
        f"{kind} {found['metadata']['name']}"
        for found in _all(cluster, kind)
        if found["metadata"].get("finalizers") or found["metadata"].get("deletionTimestamp")
    ]
