"""A cluster's way from a file to an answer: every file is read once, and parsed once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
import yaml

from tonnage.cli.main import run
from tonnage.decide.kubernetes.view import ClusterView, view_of
from tonnage.diagnose import cluster_view

_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: ml}
spec:
  containers:
  - {name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}
"""
_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a100-0"},
    "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "1"}},
}
_DAEMON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "daemon", "namespace": "kube-system"},
    "spec": {"nodeName": "a100-0", "containers": []},
}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("lint", "pod.yaml"), id="lint holds names and pods against a cluster"),
        pytest.param(("lint", "pod.yaml", "--fix", "--dry-run"), id="lint shows what it would repair"),
        pytest.param(("explain", "-f", "pod.yaml"), id="explain says what becomes of a manifest"),
        pytest.param(("simulate", "--add-workload", "pod.yaml"), id="simulate adds a workload"),
    ],
)
def test_every_file_is_read_and_parsed_once(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pod.yaml").write_text(_POD)
    Path("cluster.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [_NODE, _DAEMON]})
    )
    opened: Counter[str] = Counter()
    parsed: list[object] = []
    open_file: Callable[..., IO[Any]] = Path.open
    compose = yaml.compose_all

    def counting_open(path: Path, *arguments: Any, **named: Any) -> IO[Any]:
        opened[path.name] += 1
        return open_file(path, *arguments, **named)

    def counting_compose(*arguments: Any, **named: Any) -> object:
        parsed.append(arguments)
        return compose(*arguments, **named)

    monkeypatch.setattr(Path, "open", counting_open)
    monkeypatch.setattr(yaml, "compose_all", counting_compose)
    assert run([*words, "--snapshot", "cluster.json"], "tonnage") in (0, 1)
    assert capsys.readouterr().out
    assert (opened["pod.yaml"], opened["cluster.json"]) == (1, 1)
    assert len(parsed) == 1


def test_manifests_of_one_file_meet_one_cluster_that_is_made_ready_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [_NODE, _DAEMON]})
    )
    manifests = [_POD.replace("name: train,", f"name: train-{number},") for number in range(3)]
    alone = []
    for manifest in manifests:
        Path("pod.yaml").write_text(manifest)
        run(["explain", "-f", "pod.yaml", "--snapshot", "cluster.json", "-o", "json"], "tonnage")
        alone.append(json.loads(capsys.readouterr().out))
    Path("pod.yaml").write_text("---\n".join(manifests))
    views: list[object] = []

    def counting_view(*arguments: Any, **named: Any) -> ClusterView:
        views.append(arguments)
        return view_of(*arguments, **named)

    monkeypatch.setattr(cluster_view, "view_of", counting_view)
    run(["explain", "-f", "pod.yaml", "--snapshot", "cluster.json", "-o", "json"], "tonnage")
    first, *later = json.loads(capsys.readouterr().out)["items"]
    assert first == alone[0]
    assert [item["verdict"] for item in later] == ["NOT_NOW", "NOT_NOW"], "the first has the node's one GPU"
    assert len(views) == 2, "as the cluster is, and with what stands before the pods that wait"
