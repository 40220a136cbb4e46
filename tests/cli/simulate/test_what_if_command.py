"""`tonnage simulate` itself: flags and files, its table and JSON, exit statuses, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tonnage.cli.simulate.command import command
from tonnage.model.errors import ConfigError

POD = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: app, resources: {limits: {nvidia.com/gpu: 4}}}]
"""


def obj(kind: str, name: str, **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, **parts.pop("metadata", {})},
        **parts,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "4"}
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "4"}
    status = {"allocatable": amounts, "capacity": amounts}
    nodes = [obj("Node", f"a100-{n}", metadata={"labels": labels}, status=status) for n in range(2)]
    container = {"name": "main", "image": "app", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "chat-5d8f",
        "uid": "u",
        "controller": True,
    }
    meta = {"namespace": "ml", "ownerReferences": [owner], "labels": {"pod-template-hash": "5d8f"}}
    spec = {"nodeName": "a100-0", "containers": [container]}
    pods = [
        obj("Pod", f"chat-5d8f-{n}", metadata=meta, spec=spec, status={"phase": "Running"}) for n in range(3)
    ]
    items = {"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}
    (tmp_path / "cluster.json").write_text(json.dumps(items))
    (tmp_path / "train.yaml").write_text(POD)
    return tmp_path


def simulate(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        command, [*arguments, "--snapshot", str(folder / "cluster.json")], standalone_mode=False
    )


def answer(folder: Path, *arguments: str) -> dict[str, Any]:
    result = simulate(folder, *arguments, "-o", "json")
    assert result.exception is None, result.exception
    told = json.loads(result.output)
    assert isinstance(told, dict)
    return told


def pods(outcome: dict[str, Any]) -> tuple[int, int]:
    return outcome["pods"]["placed"], outcome["pods"]["pending"]


def test_flags_are_one_alternative(folder: Path) -> None:
    told = answer(folder, "--set-mig", "a100-1=all-1g.10gb", "--add-workload", str(folder / "train.yaml"))
    (after,) = told["alternatives"]
    assert after["name"] == "after"
    assert after["changes"][0] == "MIG layout all-1g.10gb on a100-1"
    assert pods(told["before"]) == (3, 0)
    assert pods(after) == (3, 2)
    assert after["pending"][0]["names"] == ["default/train-new-0", "default/train-new-1"]


def test_a_file_sets_alternatives_side_by_side_each_after_the_flags(folder: Path) -> None:
    file = folder / "c.yaml"
    file.write_text(
        "alternatives:\n"
        "- {name: as-is}\n"
        "- {name: more, changes: [{addNodes: {count: 1, like: a100-1}}]}\n"
        "- {name: fewer, changes: [{scale: {namespace: ml, name: chat, replicas: 0}}]}\n"
    )
    told = answer(folder, "-f", str(file), "--add-workload", str(folder / "train.yaml"))
    assert {one["name"]: pods(one) for one in told["alternatives"]} == {
        "as-is": (4, 1),
        "more": (5, 0),
        "fewer": (2, 0),
    }
    text = simulate(folder, "-f", str(file))
    assert text.return_value == 0
    assert text.output.splitlines()[0].split() == ["before", "as-is", "more", "fewer"]


def test_a_workload_in_a_file_lies_beside_it(folder: Path) -> None:
    file = folder / "c.yaml"
    file.write_text("alternatives: [{name: a, changes: [{addWorkload: {file: train.yaml}}]}]")
    assert pods(answer(folder, "-f", str(file))["alternatives"][0]) == (4, 1)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        pytest.param(["--cordon", "a100-1"], 0, id="nobody is the worse"),
        pytest.param(["--drain", "a100-0"], 0, id="who was evicted has a place"),
        pytest.param(["--remove-nodes", "*"], 1, id="nobody has a place"),
        pytest.param(["--scale", "ml/deploy/chat=9"], 1, id="one of the added waits"),
        pytest.param(["--scale", "chat=8", "-n", "ml"], 0, id="all of the added have a place"),
        pytest.param(["--set-sharing", "a100-*=2,rename"], 1, id="who asks for the old name waits"),
        pytest.param(["--replay"], 0, id="all find a place again"),
        pytest.param(["--add-nodes", "1=H100-80x8,cpu=96,memory=1Ti"], 0, id="more nodes"),
        pytest.param(["--add-nodes", "2=a100-0", "--uncordon", "a100-*"], 0, id="more alike"),
    ],
)
def test_the_exit_status_says_whether_somebody_is_the_worse(
    folder: Path, arguments: list[str], status: int
) -> None:
    result = simulate(folder, *arguments)
    assert result.exception is None
    assert result.return_value == status


def test_everything_that_is_wrong_with_flags_and_files_is_told_at_once(folder: Path) -> None:
    file = folder / "c.yaml"
    file.write_text("alternatives:\n- {name: a, changes: [{drian: {nodes: x}}]}\n")
    wrong = ["--set-mig", "a100-0", "--set-sharing", "a=b", "--add-nodes", "x=y", "--scale", "a/b/c/d=1"]
    wrong += ["--drain", "", "--add-workload", "a.yaml=x", "--set-sharing", "a=2,renamed", "-f", str(file)]
    result = simulate(folder, *wrong)
    assert isinstance(result.exception, ConfigError)
    told = [(problem.what, problem.where) for problem in result.exception.problems]
    assert len(told) == 8
    assert all(where.startswith("--") for _, where in told[:-1])
    assert told[-1] == ("unknown field drian", f"{file}:2:24 alternatives[0].changes[0].drian")
    assert all(problem.remedy for problem in result.exception.problems)


def test_problems_of_manifests_and_of_changes_have_their_places(folder: Path) -> None:
    (folder / "bad.yaml").write_text(POD.replace("restartPolicy", "restartPolice"))
    files = ["--add-workload", str(folder / "bad.yaml"), "--add-workload", str(folder / "none.yaml")]
    result = simulate(folder, *files)
    assert isinstance(result.exception, ConfigError)
    assert [problem.what for problem in result.exception.problems] == [
        "unknown field restartPolice",
        "cannot read the file",
    ]
    result = simulate(folder, "--set-mig", "a100-*=4g.40gb:2", "--drain", "b*")
    assert isinstance(result.exception, ConfigError)
    assert [problem.where for problem in result.exception.problems] == [
        "--set-mig a100-*=4g.40gb:2",
        "--drain b*",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "no change given", id="no change"),
        pytest.param(["--drain", "x", "trace", "a", "b"], "trace takes its options after", id="before trace"),
    ],
)
def test_wrong_usage(folder: Path, arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert said in result.output
