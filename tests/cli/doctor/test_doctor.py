"""`tonnage doctor` as a person runs it: what is printed, in what form, with which exit status."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from support.sick_node import PLUGINS, SickNode
from tonnage.cli.doctor.command import LAYERS
from tonnage.cli.main import run
from tonnage.model.layer import NodeLayer

FILES = [f"--layer={name}" for name in LAYERS if name not in ("device-nodes", "labels")]
"""Nodes of a test's node are files, and nobody has its Node object."""


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[SickNode]:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "NODE_NAME", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    monkeypatch.setenv("HOME", str(folder))
    with ExitStack() as ends:
        yield SickNode(folder, ends)
    shutil.rmtree(folder)


def doctor(node: SickNode, *words: str) -> int:
    return run(["doctor", "--root", str(node.root), "--devices", "none", *words], "tonnage")


def test_the_layers_of_the_option_are_those_that_are_judged() -> None:
    assert list(NodeLayer) == list(LAYERS)


def test_a_healthy_node_fits_on_a_screen_and_is_done_at_once(
    node: SickNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.put("etc/hostname", "gpu-1\n")
    assert doctor(node, *FILES) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gpu-1: healthy"
    assert len(lines) < 24
    assert lines[2].split() == ["LAYER", "STATE", "WHAT"]
    assert {line.split()[1] for line in lines[3:]} == {"ok"}


def test_the_first_failing_layer_comes_first_with_its_remedy_and_others_say_why_they_are_not_judged(
    node: SickNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.unload()
    node.gpu(1, driver="nouveau")
    node.remove(f"{PLUGINS}/nvidia-gpu.sock")
    assert doctor(node, *FILES, "--node-name", "gpu-1") == 1
    said = capsys.readouterr().out
    assert said.startswith(
        "gpu-1: the driver layer fails first; 1 more finding below\n\n✗ driver: nouveau is bound"
    )
    assert "    do    printf 'blacklist nouveau" in said
    assert said.index("[nouveau-bound]") < said.index("[plugin-not-registered]")
    assert "libraries   not judged   because the driver is not loaded\n" in said


def test_a_warning_of_an_earlier_layer_does_not_hide_the_first_that_fails(
    node: SickNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.kernel("6.8.0-60-generic", headers=False, module=False)
    node.remove(f"{PLUGINS}/nvidia-gpu.sock")
    assert doctor(node, *FILES) == 1
    said = capsys.readouterr().out
    assert "the plugin layer fails first" in said
    assert said.index("[plugin-not-registered]") < said.index("[next-kernel-without-driver]")


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_scripts_get_every_field(node: SickNode, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    node.remove(f"{PLUGINS}/nvidia-gpu.sock")
    assert doctor(node, "-o", output, "--node-name", "gpu-1") == 1
    text = capsys.readouterr().out
    answer = json.loads(text) if output == "json" else yaml.safe_load(text)
    assert (answer["node"], answer["healthy"]) == ("gpu-1", False)
    assert [layer["layer"] for layer in answer["layers"]] == list(LAYERS)
    assert all(set(layer) == {"layer", "state", "summary", "because"} for layer in answer["layers"])
    keys = {"code", "layer", "severity", "what", "where", "why", "remedy"}
    assert all(set(finding) == keys for finding in answer["findings"])
    assert "plugin-not-registered" in [finding["code"] for finding in answer["findings"]]


def test_one_layer_alone_decides_the_exit_status(node: SickNode, capsys: pytest.CaptureFixture[str]) -> None:
    node.remove(f"{PLUGINS}/nvidia-gpu.sock")
    assert doctor(node, "--layer", "plugin") == 1
    assert doctor(node, "--layer", "driver", "--layer", "hardware") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "hardware   ok      2 NVIDIA GPUs",
        "driver     ok      nvidia 580.105.08, kernel 6.8.0-51-generic",
    ]


def test_notes_are_counted_shown_on_demand_and_no_fault(
    node: SickNode, capsys: pytest.CaptureFixture[str]
) -> None:
    cri = 'plugins."io.containerd.cri.v1.runtime".containerd'
    node.put("usr/bin/nvidia-container-runtime", "#!")
    node.put(
        "etc/containerd/conf.d/99-nvidia.toml",
        f'version = 3\n[{cri}]\ndefault_runtime_name = "nvidia"\n'
        f'[{cri}.runtimes.nvidia.options]\nBinaryName = "/usr/bin/nvidia-container-runtime"\n',
    )
    assert doctor(node, *FILES) == 0
    assert "1 note not shown: -v" in capsys.readouterr().out
    assert doctor(node, *FILES, "-v") == 0
    said = capsys.readouterr().out
    assert "· runtime: NVIDIA's runtime is the default (nvidia)  [nvidia-runtime-default]" in said
    assert "where /etc/containerd/conf.d/99-nvidia.toml:3\n" in said


def test_labels_come_from_a_captured_cluster(
    node: SickNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {
        "nvidia.com/gpu.product": "Tesla-V100",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.memory": "15360",
    }
    objects = {"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "gpu-1", "labels": labels}}]}
    (tmp_path / "cluster.json").write_text(json.dumps(objects))
    (tmp_path / "hardware.yaml").write_text(
        "devices:\n- {uuid: GPU-0, model: T4}\n- {uuid: GPU-1, model: T4}\n"
    )
    words = ["--snapshot", str(tmp_path / "cluster.json"), "--node-name", "gpu-1", "--layer", "labels"]
    assert (
        run(
            ["doctor", "--root", str(node.root), "--devices", f"scenario:{tmp_path}/hardware.yaml", *words],
            "t",
        )
        == 1
    )
    said = capsys.readouterr().out
    assert "nvidia.com/gpu.product=Tesla-V100, it is Tesla-T4" in said
    assert "nvidia.com/gpu.count" not in said


def test_pods_that_nobody_listed_are_not_judged(
    node: SickNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--snapshot",
        str(tmp_path / "c.json"),
        "--node-name",
        "gpu-1",
        "--layer",
        "plugin",
        "-o",
        "json",
    ]
    own = {"kind": "Node", "metadata": {"name": "gpu-1"}}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "other"}}
    states = {}
    for name, objects in {"nodes alone": [own], "both": [own, pod]}.items():
        (tmp_path / "c.json").write_text(json.dumps({"kind": "List", "items": objects}))
        doctor(node, *words)
        [layer] = json.loads(capsys.readouterr().out)["layers"]
        states[name] = (layer["state"], layer["because"])
    assert states == {
        "nodes alone": ("unknown", "which pods kubelet refused: the file has no Pod"),
        "both": ("ok", ""),
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--devices", "amd"], "unknown devices 'amd'"),
        (["--devices", "scenario:/nowhere"], "file not found: /nowhere"),
        (["--agent-address", "here"], "not an address"),
        (["--layer", "tea"], "'tea' is not one of"),
        (["--root", "/nowhere"], "folder not found: /nowhere"),
        (["--node", "a100-0"], "not a node of the embedded cluster: a100-0"),
    ],
)
def test_what_cannot_be_looked_at_is_wrong_usage(
    node: SickNode,
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TONNAGE_STATE", str(node.root / "state"))
    assert run(["doctor", *words], "tonnage") == 2
    assert said in capsys.readouterr().err


def test_nothing_steers_the_terminal(node: SickNode, capsys: pytest.CaptureFixture[str]) -> None:
    node.put("proc/sys/kernel/osrelease", "6.8\x1b[2J\n")
    node.put("var/run/cdi/nvidia\x1b[2J.json", "{")
    assert doctor(node, *FILES) == 1
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_a_file_whose_name_is_no_text_is_told_all_the_same(
    node: SickNode, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node.put("var/run/cdi/x")
    (node.root / "var/run/cdi/x").rename(os.fsdecode(bytes(node.root / "var/run/cdi") + b"/\xff\xfe.json"))
    assert doctor(node, *FILES, "-o", output) == 1
    said = capsys.readouterr().out
    assert "cdi-spec-invalid" in said
    assert said.encode()


def test_a_defect_of_ours_hides_no_other_layer(
    node: SickNode, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("tonnage.adapters.node_facts.gather.cdi_facts", broken)
    assert doctor(node, *FILES) == 0
    said = capsys.readouterr().out
    assert "because a bug in Tonnage; report it: KeyError: 'x'" in said
    assert "kubelet     ok" in said


def test_the_working_folder_is_not_touched(node: SickNode) -> None:
    before = {file: file.lstat().st_mtime_ns for file in node.root.rglob("*")}
    doctor(node)
    assert {file: file.lstat().st_mtime_ns for file in node.root.rglob("*")} == before
