"""OPR-3 with a kubelet: a node of which nobody says what hardware it has gets a GPU, and loses it again.

The lab node-joins has this on pretended nodes. Here the PCI bus is made, as containers see it.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.installed_agent import DRIVER_ROOT, GPU
from support.made_machine import made_machine
from support.operated_node import ITS_GPU, NAMESPACES, PCI, OperatedNode, operated_node
from support.page_shell import ROOT

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

PRESENT: Final = "nvidia.com/gpu.present"
PROBED: Final = "tonnage.dev/pci-10de.present"
PLUGIN: Final = "nvidia.com/gpu.deploy.device-plugin"
POLICY: Final = ROOT / "labs" / "node-joins" / "cluster-policy.yaml"
SITE: Final = {"nvidiaDriverRoot": DRIVER_ROOT, "features": {"publish": "direct"}}


def test_a_node_gets_a_gpu_and_loses_it(cluster: GenuineCluster, agent_version: str) -> None:
    """Each time it is off meanwhile, and its bus is looked at once in each boot. It is cleaned up by hand."""
    try:
        with (
            made_machine(cluster.node) as machine,
            operated_node(cluster, agent_version, site=SITE, files=[POLICY]) as operated,
        ):
            cluster.kubectl("label", "node", NODE_NAME, f"{PRESENT}-", f"{PCI}-")
            operated.shell.follow("On a cluster")
            operated.shell.type("kubectl apply -f cluster-policy.yaml")
            _has_none(operated)
            cluster.node.crash()
            machine.plug(ITS_GPU)
            cluster.node.boot()
            _is_ready(operated)
            cluster.node.crash()
            machine.pull(ITS_GPU)
            operated.driver.pull(ITS_GPU.slot)
            cluster.node.boot()
            _has_none(operated)
            operated.shell.type(f"helm uninstall tonnage --namespace {NAMESPACES[0]} --wait --no-hooks")
            operated.shell.follow("Uninstall")
            assert operated.marks() == {}
    finally:
        cluster.kubectl("label", "node", NODE_NAME, f"{PRESENT}=true", "--overwrite")


def _has_none(operated: OperatedNode) -> None:
    """It was looked at in this boot, and has neither operands nor an agent."""

    def is_seen() -> bool:
        labels = _labels(operated)
        deployed = [key for key in labels if key.startswith("nvidia.com/gpu.deploy.")]
        return labels.get(PROBED) == "false" and labels.get(PRESENT) != "true" and not deployed

    until(is_seen)
    operated.until_condition("Ready", "no node has a GPU yet")
    where = ("-n", NAMESPACES[0], "-l", "app.kubernetes.io/name=tonnage-agent")
    until(lambda: not operated.cluster.get("pods", *where).get("items"))


def _is_ready(operated: OperatedNode) -> None:
    """By the labels that the probe's answer leads to, until a pod has used the device."""
    until(lambda: _labels(operated).get(PRESENT) == "true")
    until(lambda: operated.cluster.allocatable(GPU) == 1)
    until(lambda: _labels(operated).get(PCI) == "true" and _labels(operated).get(PLUGIN) == "true")
    operated.until_condition("Ready", "all 1 GPU nodes are ready")
    until(lambda: "workload" in operated.passed())


def _labels(operated: OperatedNode) -> Any:
    return operated.node_metadata()["labels"]
