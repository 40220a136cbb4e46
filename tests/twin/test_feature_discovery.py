"""Nodes of the twin carry the labels that feature discovery gives them, before an agent and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.adapters.machine import MachineFiles
from tonnage.adapters.machine import pcie_roots as root_complexes
from tonnage.documents.hardware import Hardware, HardwareDevice
from tonnage.documents.scenario import parse_scenario
from tonnage.model.node.plugin_settings import FeatureSettings
from tonnage.twin.feature_discovery import install_machine, pcie_roots, pretended_machine
from tonnage.twin.machines import light_nodes_of, machines_of

FLEET = """
name: labels
groups:
- {name: t4, gpu: {model: T4, count: 2}}
- {name: quiet, gpu: {model: T4, count: 2}, config: renamed}
- {name: loud, gpu: {model: T4, count: 2}, config: plain}
- {name: cut, gpu: {model: A100-40, mig: [3g.20gb, 1g.5gb, 1g.5gb]}, config: mixed}
- {name: alike, gpu: {model: A100-40, mig: [1g.5gb, 1g.5gb]}, config: single}
- {name: own, gpu: {model: T4}, labels: {nvidia.com/gpu.machine: DGX-1}}
- {name: cpu}
- {name: light, light: true, gpu: {model: H100-80, count: 8}}
- {name: parts, light: true, gpu: {model: A100-40, count: 2, mig: [1g.5gb+me, 1g.5gb]}}
configs:
  renamed:
    version: v1
    sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}
  plain: {version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}}
  mixed: {version: v1, flags: {migStrategy: mixed}}
  single: {version: v1, flags: {migStrategy: single}}
"""
SCENARIO = parse_scenario(FLEET, source="fleet")
LABELS = {
    **{machine.spec.name: machine.spec.labels for machine in machines_of(SCENARIO)},
    **{node.spec.name: node.spec.labels for node in light_nodes_of(SCENARIO)},
}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(
            "t4-0",
            {
                "nvidia.com/gpu.replicas": "1",
                "nvidia.com/gpu.sharing-strategy": "none",
                "nvidia.com/gpu.machine": "Tonnage-twin",
                "nvidia.com/gpu.mode": "compute",
                "nvidia.com/cuda.driver.major": "570",
                "nvidia.com/cuda.runtime.major": "12",
                "feature.node.kubernetes.io/pci-10de.present": "true",
            },
            id="exclusive GPUs are one replica each",
        ),
        pytest.param(
            "quiet-0",
            {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "Tesla-T4"},
            id="a renamed resource leaves the product as it is",
        ),
        pytest.param(
            "loud-0",
            {
                "nvidia.com/gpu.replicas": "10",
                "nvidia.com/gpu.product": "Tesla-T4-SHARED",
                "nvidia.com/gpu.sharing-strategy": "time-slicing",
            },
            id="a GPU shared under its own name is a SHARED product",
        ),
        pytest.param(
            "cut-0",
            {
                "nvidia.com/mig.strategy": "mixed",
                "nvidia.com/mig-1g.5gb.count": "2",
                "nvidia.com/mig-3g.20gb.slices.gi": "3",
                "nvidia.com/gpu.replicas": "0",
            },
            id="the mixed strategy has labels of each profile",
        ),
        pytest.param(
            "alike-0",
            {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.count": "2"},
            id="the single strategy has MIG devices in the place of GPUs",
        ),
        pytest.param("own-0", {"nvidia.com/gpu.machine": "DGX-1"}, id="a label of the scenario wins"),
        pytest.param(
            "cpu-0", {"feature.node.kubernetes.io/kernel-version.major": "6"}, id="a node without GPUs"
        ),
        pytest.param(
            "light-0",
            {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.count": "8", "nvidia.com/mig.capable": "true"},
            id="a light node, on which no agent runs",
        ),
        pytest.param(
            "parts-0",
            {"nvidia.com/mig-1g.5gb.me.count": "2", "nvidia.com/mig.strategy": "mixed"},
            id="a light node that is divided",
        ),
    ],
)
def test_a_node_is_labelled_from_the_start(node: str, expected: dict[str, str]) -> None:
    assert expected.items() <= LABELS[node].items()


def test_a_node_without_gpus_has_no_label_of_any() -> None:
    assert not [key for key in LABELS["cpu-0"] if key.startswith("nvidia.com/") or "10de" in key]


def test_the_agent_reads_the_machine_that_is_pretended(tmp_path: Path) -> None:
    (node, *_) = machines_of(SCENARIO)
    machine = pretended_machine(node.hardware, node.spec.kernel_version)
    install_machine(tmp_path, machine)
    assert MachineFiles(tmp_path).now(FeatureSettings().machine_type_file) == machine


def test_the_agent_reads_the_root_complexes_that_are_pretended(tmp_path: Path) -> None:
    """One for each NUMA node: `matchAttribute: resource.kubernetes.io/pcieRoot` can be met."""
    hardware = Hardware(
        devices=tuple(
            HardwareDevice(uuid=f"GPU-{index}", model="A100-80", numa=index // 2) for index in range(4)
        )
    )
    machine = pretended_machine(hardware, "6.1")
    install_machine(tmp_path, machine, pcie_roots(hardware))
    addresses = [device.address for device in machine.pci or ()]
    published = root_complexes(tmp_path, addresses)
    assert [published[address] for address in addresses] == ["pci0000:00"] * 2 + ["pci0000:10"] * 2
    assert MachineFiles(tmp_path).now(FeatureSettings().machine_type_file).pci == machine.pci
