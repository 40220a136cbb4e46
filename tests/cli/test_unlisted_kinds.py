"""A list of nodes alone, or of pods alone: what the others would tell is unknown, and never 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tonnage.cli.main import run

Body = dict[str, Any]
GPU = "nvidia.com/gpu"
AMOUNTS = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: "4"}
NODE: Body = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {
        "allocatable": AMOUNTS,
        "capacity": AMOUNTS,
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def pod(name: str, **spec: Any) -> Body:
    container = {"name": "c", "image": "x", "resources": {"limits": {GPU: "2"}}}
    metadata = {"name": name, "namespace": "ml"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
        "status": {"phase": "Running" if spec else "Pending"},
    }


LISTS = {"nodes": [NODE], "pods": [pod("w"), pod("r", nodeName="n1")], "both": [NODE, pod("w")]}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, items in LISTS.items():
        Path(f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    Path("pod.yaml").write_text(json.dumps(pod("p")))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "listed", "status", "shown"),
    [
        ("explain -f pod.yaml", "nodes", 1, "Tonnage cannot tell what the nodes have free"),
        ("explain -f pod.yaml", "pods", 1, "Tonnage cannot tell where it could run"),
        ("explain -f pod.yaml", "both", 0, "fits n1"),
        ("explain pod w -n ml", "nodes", 3, "pod w was not read"),
        ("explain --all-pending", "nodes", 3, "the list of pods was not read"),
        ("explain --all-pending", "pods", 1, "objects of kind Node were not read: Tonnage cannot tell where"),
        ("explain node n1", "nodes", 1, "Tonnage does not know what the node has free"),
        ("explain node n1", "both", 0, "4 of 4 nvidia.com/gpu free"),
        ("explain node n1", "pods", 3, "node n1 was not read"),
        ("topo", "pods", 1, "UNKNOWN"),
        ("topo n1", "pods", 1, "UNKNOWN"),
        ("simulate --cordon n1", "pods", 3, "the fleet was not read"),
        ("simulate --drain n1", "nodes", 1, "Tonnage does not know what is allocated and free"),
        ("simulate --add-workload pod.yaml", "nodes", 1, "1 pod UNKNOWN"),
        ("mig plan --node n1 --layout all-balanced", "pods", 2, "the file has no NodeGPUStatus"),
        ("lint pod.yaml", "pods", 0, "not read: Node."),
        ("status", "nodes", 0, "no Pod was seen"),
    ],
)
@pytest.mark.usefixtures("asked")
def test_no_command_answers_what_it_cannot_know(
    words: str, listed: str, status: int, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words.split(), "--snapshot", f"{listed}.json"], "tonnage") == status
    said = capsys.readouterr()
    assert shown in said.out + said.err


@pytest.mark.usefixtures("asked")
def test_a_simulation_without_pods_has_no_figures_of_what_they_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["simulate", "--cordon", "n1", "-o", "json"]
    run([*words, "--snapshot", "nodes.json"], "tonnage")
    before = json.loads(capsys.readouterr().out)["before"]
    assert (before["pods"]["placed"], before["pods"]["pending"]) == (None, None)
    assert {(entry["allocated"], entry["free"]) for entry in before["resources"]} == {(None, None)}
    run([*words, "--snapshot", "both.json"], "tonnage")
    before = json.loads(capsys.readouterr().out)["before"]
    assert (before["pods"]["placed"], before["resources"][2]["allocated"]) == (1, 2)


@pytest.mark.usefixtures("asked")
def test_a_cause_does_not_put_it_for_letters_of_other_words(capsys: pytest.CaptureFixture[str]) -> None:
    run(["explain", "--all-pending", "--snapshot", "pods.json"], "tonnage")
    assert "were not read" in capsys.readouterr().out


def test_of_pods_alone_neither_mode_nor_health_is_told(
    asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """GPUs of which nothing was read were `exclusive` and `healthy`."""
    assert run(["status", "--snapshot", "pods.json"], "tonnage") == 0
    headings, row, *_ = (line.split() for line in capsys.readouterr().out.splitlines())
    shown = dict(zip(headings, row, strict=True))
    assert (shown["MODE"], shown["ALLOCATED"], shown["HEALTH"]) == ("-", "2", "-")
    run(["status", "--snapshot", "pods.json", "-o", "json"], "tonnage")
    [first] = json.loads(capsys.readouterr().out)["items"]
    assert (first["mode"], first["health"], first["replicas"]) == ("-", "-", None)
