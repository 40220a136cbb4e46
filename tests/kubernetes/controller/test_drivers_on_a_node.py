"""The page on drivers with a kubelet: containers like NVIDIA's are installed, upgraded and taken back.

What they lack is the kernel module: they mount a driver's files as NVIDIA's do, with a pretended GPU. The
labs driver-preflight and driver-upgrade have six nodes; here one is followed to the pod that uses its GPU.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from support.driver_images import CONTAINER_ROOT, driver_images
from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.installed_agent import GPU, gpu_pod
from support.made_machine import made_machine
from support.nvml.state import DriverState
from support.operated_node import ITS_GPU, NAMESPACES, OperatedNode, operated_node
from support.page_shell import ROOT, PageShell

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

OLD, NEW, BAD = "580.95.05", "595.91.07", "600.10.01"
WORDS: Final = "no kernel headers for this kernel"
POLICY: Final = ROOT / "labs" / "driver-upgrade" / "cluster-policy.yaml"
SITE: Final = {"nvidiaDriverRoot": CONTAINER_ROOT, "features": {"publish": "direct"}}
STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
UPGRADE: Final = "tonnage.dev/DriverUpgrade"


@dataclass(frozen=True, slots=True)
class Driven:
    """The node, and somebody who follows the page on drivers after that on installing."""

    operated: OperatedNode
    page: PageShell

    @property
    def cluster(self) -> GenuineCluster:
        return self.operated.cluster

    def until_runs(self, version: str) -> None:
        """The driver, by the agent's own report; the node offers its GPU, and is as it was otherwise."""

        def runs() -> bool:
            status = self.cluster.get("nodegpustatus", NODE_NAME).get("status", {})
            return status.get("driverVersion") == version and not status.get("problems")

        until(runs)
        until(lambda: self.cluster.allocatable(GPU) == 1)
        until(lambda: self.state() == "upgrade-done")
        assert not self.cluster.get("node", NODE_NAME)["spec"].get("unschedulable")
        self.operated.until_condition("Ready", "all 1 GPU nodes are ready")
        self.operated.until_condition(UPGRADE, "1 of 1 nodes run the driver that is asked for")

    def state(self) -> str:
        return str(self.operated.node_metadata()["labels"].get(STATE, ""))

    def until_served(self) -> None:
        """The Deployment's pod has the GPU."""
        until(lambda: self.cluster.get("deployment", "user")["status"].get("readyReplicas") == 1)


@pytest.fixture
def driven(cluster: GenuineCluster, agent_version: str, tmp_path: Path) -> Iterator[Driven]:
    """The node has no driver yet, and the images of three."""
    release = platform.freedesktop_os_release()
    states = {version: DriverState((ITS_GPU,), driver_version=version) for version in (OLD, NEW)}
    folder = tmp_path / "drivers"
    folder.mkdir()
    shutil.copy(POLICY, folder)
    with (
        made_machine(cluster.node) as machine,
        driver_images(cluster.node, {**states, BAD: WORDS}, f"{release['ID']}{release['VERSION_ID']}"),
        operated_node(cluster, agent_version, site=SITE) as operated,
    ):
        machine.plug(ITS_GPU)
        yield Driven(
            operated, PageShell("upgrade-drivers", folder, cluster.kubeconfig, values=json.dumps(SITE))
        )


def test_the_page_on_drivers_on_a_genuine_node(driven: Driven) -> None:
    """A pod that uses the GPU leaves for each change and comes back; a version that fails is taken back."""
    driven.operated.shell.follow("On a cluster")
    driven.page.follow("Upgrade drivers")
    planned = driven.page.follow("Before anything is rolled out", ends=(0, 1))  # 1: no driver, no agent
    assert "install on node" in planned
    driven.page.type("kubectl apply -f cluster-policy.yaml")
    driven.until_runs(OLD)
    driven.cluster.apply(_deployment())
    driven.until_served()
    driven.page.follow("Upgrade", ends=(0, 1))  # 1 while a node waits
    driven.until_runs(NEW)
    driven.until_served()
    version = json.dumps({"spec": {"driver": {"version": BAD}}})
    driven.page.type(f"kubectl patch clusterpolicy cluster-policy --type=merge -p '{version}'")
    driven.operated.until_condition(UPGRADE, f"{NODE_NAME}: upgrade-failed")
    driven.operated.until_condition(UPGRADE, WORDS)
    assert driven.cluster.get("node", NODE_NAME)["spec"]["unschedulable"] is True
    assert f"is back from nvcr.io/nvidia/driver:{BAD}" in driven.page.follow("When it fails")
    assert driven.page.left() == []
    driven.until_runs(NEW)
    driven.until_served()
    driven.cluster.kubectl("delete", "deployment", "user", "--cascade=foreground")
    driven.operated.uninstall(NAMESPACES[0])
    assert driven.operated.marks() == {}


def _deployment() -> Any:
    labels = {"app": "user"}
    template = {"metadata": {"labels": labels}, "spec": gpu_pod("user")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "user"}, "spec": spec}
