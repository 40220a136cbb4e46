"""`tonnage topo` as a person meets it: on a captured cluster and on a machine of pretended devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tonnage.cli.main import run

DEVICES = """\
devices:
- {uuid: GPU-a, model: L40S, numa: 0}
- {uuid: GPU-b, model: L40S, numa: 0}
- {uuid: GPU-c, model: L40S, numa: 1}
- {uuid: GPU-d, model: L40S, numa: 1, health: lost}
"""


def status(name: str, links: str) -> str:
    devices = ", ".join(
        f"{{uuid: GPU-{name}-{i}, index: {i}, product: NVIDIA A100, computeCapability: '8.0', "
        f"numaNode: {i // 2}, health: Healthy, resource: nvidia.com/gpu, replicas: 1, links: [{links}]}}"
        for i in range(4)
    )
    return (
        f"- apiVersion: v1\n  kind: Node\n  metadata: {{name: {name}}}\n"
        f"  status: {{capacity: {{nvidia.com/gpu: '4'}}}}\n"
        f"- apiVersion: tonnage.dev/v1alpha1\n  kind: NodeGPUStatus\n  metadata: {{name: {name}}}\n"
        f"  status: {{devices: [{devices}]}}\n"
    )


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    switched = status("hgx", "{peers: [], switches: true, nvlinks: 12}")
    dark = (
        "- {apiVersion: v1, kind: Node, metadata: {name: dark}, status: {capacity: {nvidia.com/gpu: '4'}}}\n"
    )
    path.write_text(f"apiVersion: v1\nkind: List\nitems:\n{switched}{status('pcie', '')}{dark}")
    return str(path)


def test_top_1_the_fleet_in_lines_with_what_is_not_one_pool(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """TOP-1."""
    assert run(["topo", "--snapshot", cluster], "tonnage") == 0
    shown = capsys.readouterr().out
    assert "hgx    4      NVIDIA A100   NVSwitch, 12 NVLinks each   0, 1   NV12, 240 GB/s" in shown
    assert "not one pool: hgx (NVSwitch, 12 NVLinks each); pcie (PCIe only)" in shown
    assert "no agent reports: dark" in shown


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_the_same_for_programs(cluster: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topo", "--snapshot", cluster, "-o", output], "tonnage") == 0
    answer = yaml.safe_load(capsys.readouterr().out)
    assert [item["family"]["kind"] for item in answer["items"]] == ["nvswitch", "pci"]
    assert (answer["unknown"], len(answer["notes"])) == (["dark"], 1)


def test_a_set_that_is_not_the_best_is_told_by_the_exit_status(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["topo", "pcie", "--gpus", "1,2", "--snapshot", cluster], "tonnage") == 1
    shown = capsys.readouterr().out
    assert "chosen: GPU 1, 2: slowest pair 1-2 over SYS, 6 GB/s" in shown
    assert "best:   GPU 0, 1" in shown
    assert run(["topo", "pcie", "--gpus", "2, 3", "--snapshot", cluster, "-o", "json"], "tonnage") == 0
    assert json.loads(capsys.readouterr().out)["set"]["is_best"] is True


def test_this_machine_without_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "devices.yaml"
    path.write_text(DEVICES)
    assert run(["topo", "--devices", f"scenario:{path}"], "tonnage") == 0
    shown = capsys.readouterr().out
    assert "4 × NVIDIA L40S, PCIe only" in shown
    assert "GPU3   SYS    SYS    NODE   X      1      00000000:04:00.0   -          unhealthy" in shown


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        pytest.param(["hgz"], 2, "use hgx if you meant that", id="a misspelt node"),
        pytest.param(["darc"], 2, "use dark if you meant that", id="a misspelt node without agent"),
        pytest.param(["x"], 2, "nodes with GPUs: hgx, pcie, dark", id="a node that is none of them"),
        pytest.param(["dark"], 2, "no agent of Tonnage reports", id="a node without agent"),
        pytest.param(["hgx", "--gpus", "0,x"], 2, "give indices", id="no indices"),
        pytest.param(["hgx", "--gpus", "0,9"], 2, "GPU 9 does not exist", id="an index that is not there"),
        pytest.param(["--gpus", "0,1"], 2, "needs a node", id="GPUs of no node"),
        pytest.param(["--devices", "lspci"], 2, "nvml or scenario:FILE", id="another source"),
        pytest.param(["--devices", "scenario:"], 2, "lacks a file name", id="no file"),
        pytest.param(["--devices", "scenario:/nowhere"], 3, "cannot be read", id="a file that is not there"),
    ],
)
def test_wrong_questions_are_answered(
    cluster: str, arguments: list[str], status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["topo", *arguments, "--snapshot", cluster], "tonnage") == status
    assert told in capsys.readouterr().err


OTHER_VENDOR = """\
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {{name: {node}-other-{generation}}}
  spec:
    driver: gpu.example.com
    nodeName: {node}
    pool: {{name: {node}, generation: {generation}, resourceSliceCount: 1}}
    devices: [{{name: card-0}}, {{name: {last}}}]
"""


def test_devices_of_other_vendors_that_are_claimed_are_named_and_have_no_links(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(cluster).open("a") as file:
        file.write(OTHER_VENDOR.format(node="hgx", generation=1, last="card-9"))
        file.write(OTHER_VENDOR.format(node="hgx", generation=2, last="card-1"))
        file.write("- {apiVersion: v1, kind: Node, metadata: {name: other}}\n")
        file.write(OTHER_VENDOR.format(node="other", generation=1, last="card-1"))
    assert run(["topo", "hgx", "--snapshot", cluster], "tonnage") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        "also offered as claims, by drivers that report no links: "
        "gpu.example.com/card-0, gpu.example.com/card-1"
    )
    assert run(["topo", "hgx", "--snapshot", cluster, "-o", "json"], "tonnage") == 0
    others = json.loads(capsys.readouterr().out)["other_devices"]
    assert others == ["gpu.example.com/card-0", "gpu.example.com/card-1"]
    assert run(["topo", "pcie", "--snapshot", cluster], "tonnage") == 0
    assert "offered as claims" not in capsys.readouterr().out
    assert run(["topo", "other", "--snapshot", cluster], "tonnage") == 2
    assert "drivers that report no links: gpu.example.com/card-0" in capsys.readouterr().err
