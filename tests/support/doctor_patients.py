"""Nodes made sick in ways that doctor knows, and what is found then."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from support.sick_node import (
    CONTAINERD,
    SickNode,
)
from tonnage.diagnose.doctor.examine import examine
from tonnage.diagnose.doctor.finding import DoctorReport, NodeFinding
from tonnage.model.devices.inventory import MigDevice
from tonnage.model.layer import NodeLayer
from tonnage.model.reasons.reason import NodeReason

Sicken = Callable[[SickNode], object]

CRI = 'plugins."io.containerd.cri.v1.runtime"'

TOOLKIT = "etc/nvidia-container-runtime/config.toml"

SPEC = "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"


def mig(node: SickNode, *, nodes: bool) -> None:
    """The first GPU is divided; its part needs two capabilities."""
    part = MigDevice("MIG-1", 0, "1g.5gb", 1, 0, 4864)
    assert node.inventory is not None
    first, second = node.inventory.devices
    divided = replace(first, mig_enabled=True, migs=(part,))
    node.inventory = replace(node.inventory, devices=(divided, second))
    node.put(
        "proc/driver/nvidia-caps/mig-minors",
        "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n",
    )
    node.put("proc/devices", "Character devices:\n195 nvidia\n505 nvidia-uvm\n511 nvidia-caps\n")
    for number in (12, 13):
        if nodes:
            node.node(f"dev/nvidia-caps/nvidia-cap{number}", 511, number)
    node.configure("version: v1\nflags: {migStrategy: mixed, plugin: {deviceListStrategy: [cdi-cri]}}\n")


def handler(node: SickNode, program: str) -> SickNode:
    text = f'{CONTAINERD}[{CRI}.containerd.runtimes.nvidia.options]\nBinaryName = "{program}"\n'
    node.put("etc/containerd/config.toml", text)
    return node


def toolkit(node: SickNode, text: str) -> SickNode:
    node.put(TOOLKIT, text)
    node.put("sbin/ldconfig", "")
    return node


def runtime_class(node: SickNode, *, used: bool) -> None:
    pod = {
        "metadata": {"name": "a"},
        "spec": {"nodeName": "node", "runtimeClassName": "nvidia"},
        "status": {},
    }
    node.seen_by_cluster(*([pod] if used else []))
    assert node.cluster is not None
    node.cluster = replace(node.cluster, runtime_classes={"nvidia": "nvidia", "kata": "kata"})


def found(report: DoctorReport, code: type[NodeReason]) -> NodeFinding:
    return next(finding for finding in report.findings if isinstance(finding.reason, code))


async def assert_found(
    node: SickNode, sicken: Sicken, code: type[NodeReason], layer: NodeLayer, words: str
) -> None:
    """With a place and a remedy, once the node is sick."""
    sicken(node)
    finding = found(examine(await node.facts()), code)
    assert (finding.reason.node_layer, words in finding.reason.message) == (layer, True), finding
    assert finding.place
    assert finding.reason.remedy
    assert finding.reason.subject == "Node node"
    json.dumps(finding.reason.facts)
