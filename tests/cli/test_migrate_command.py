"""`tonnage migrate dra`: what it prints and writes, and when it exits with 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tonnage.cli.main import run

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: ml}
spec:
  nodeSelector: {nvidia.com/gpu.product: Tesla-T4}
  containers:
  - name: main   # the only one
    resources: {limits: {nvidia.com/gpu: 1}}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ml}
spec:
  template:
    spec:
      containers:
      - name: main
        resources: {limits: {nvidia.com/gpu: 1}}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A node with a T4, and the classes of the driver."""
    amounts = {"nvidia.com/gpu": "1"}
    labels = {"nvidia.com/gpu.product": "Tesla-T4"}
    device = {"uuid": "GPU-0", "index": 0, "product": "Tesla T4", "resource": "nvidia.com/gpu"}
    selector = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
    items: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "t4-0", "labels": labels},
            "status": {"capacity": amounts, "allocatable": amounts},
        },
        {
            "apiVersion": "tonnage.dev/v1alpha1",
            "kind": "NodeGPUStatus",
            "metadata": {"name": "t4-0"},
            "status": {"devices": [device]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.nvidia.com"},
            "spec": {"selectors": [selector]},
        },
    ]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return path


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "train.yaml"
    path.write_text(POD)
    return path


def test_the_diff_and_the_devices_that_match_are_shown(
    manifest: Path, cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["migrate", "dra", str(manifest), "--snapshot", str(cluster), "--diff"], "tonnage") == 0
    out = capsys.readouterr().out
    assert "Pod ml/train: claims 1 of class gpu-tesla-t4, by the template train-gpu" in out
    assert "the same 1 device matches, on t4-0" in out
    assert "\n-  nodeSelector: {nvidia.com/gpu.product: Tesla-T4}\n" in out
    assert "\n   - name: main   # the only one\n" in out
    assert manifest.read_text() == POD


def test_the_file_is_changed_on_request_and_then_asks_for_nothing_more(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["migrate", "dra", str(manifest), "--no-cluster", "--write"], "tonnage") == 0
    assert manifest.read_text().startswith("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\n")
    assert run(["lint", str(manifest)], "tonnage") == 0
    capsys.readouterr()
    for form in ("text", "patch"):
        assert run(["migrate", "dra", str(manifest), "--no-cluster", "-o", form], "tonnage") == 1
        assert "No manifest asks for GPUs by number." in capsys.readouterr().err


def test_json_has_objects_a_patch_and_the_devices(
    manifest: Path, cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["migrate", "dra", str(manifest), "--snapshot", str(cluster), "-o", "json"], "tonnage")
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert [body["kind"] for body in item["objects"]] == ["DeviceClass", "ResourceClaimTemplate"]
    assert {"op": "remove", "path": "/spec/nodeSelector"} in item["patch"]
    assert item["devices"]["proven"] is True
    assert item["devices"]["same"] == ["t4-0/gpu-0"]


def test_patches_are_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(f"{DEPLOYMENT}---\n{POD}")
    assert run(["migrate", "dra", str(path), "--no-cluster", "-o", "patch"], "tonnage") == 0
    out = capsys.readouterr().out
    assert "kubectl apply -f - <<'EOF'\napiVersion: resource.k8s.io/v1\n" in out
    assert 'kubectl patch deployment.apps/web -n ml --type=json -p \'[{"op": "add"' in out
    assert "# Pod ml/train: a pod cannot be changed" in out


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        pytest.param(POD.replace("Tesla-T4", "Tesla-V9"), 1, "no device of the cluster", id="none matches"),
        pytest.param(POD.replace("gpu: 1", "gpu.shared: 1"), 1, "stays as it is", id="a share"),
        pytest.param("a: [", 2, "", id="no YAML"),
    ],
)
def test_what_is_not_as_it_was_has_a_status(
    content: str, status: int, words: str, manifest: Path, cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest.write_text(content)
    assert run(["migrate", "dra", str(manifest), "--snapshot", str(cluster)], "tonnage") == status
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--write"], ["--snapshot", "-"]])
def test_stdin_is_used_once_and_not_written(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", "dra", "-", *options], "tonnage") == 2
    assert "stdin" in capsys.readouterr().err
