"""`explain -f` of several files and of folders, which are created together."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.cli.main import run
from tonnage.model.errors import ApiError, ConfigError
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.reading.documents import in_files
from tonnage.reading.manifests import added_manifests
from tonnage.wire.kinds import Kind

GPU = "nvidia.com/gpu"
CLUSTER = str(Path(__file__).parents[2] / "golden/clusters/contention.12.jsonl.gz")


def pod(name: str, gpus: int = 1) -> dict[str, Any]:
    limits = {"limits": {GPU: gpus}}
    spec = {"containers": [{"name": "c", "image": "x", "resources": limits}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def quota(gpus: object) -> dict[str, Any]:
    hard = {"hard": {f"requests.{GPU}": gpus}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": hard}


def node(gpus: int) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: str(gpus)}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": status}


def daemon() -> dict[str, Any]:
    """A pod that holds no GPU: every cluster has some."""
    spec = {"nodeName": "a", "containers": [{"name": "c", "image": "x"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "d", "namespace": "kube-system"},
        "spec": spec,
    }


def written(path: Path, *objects: dict[str, Any]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node(2), daemon()]}))
    return ["explain", "--snapshot", str(cluster), "-o", "json"]


def test_pods_of_several_files_take_each_other_s_room(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (written(tmp_path / f"{name}.yaml", pod(name, 2)) for name in ("one", "two"))
    assert run([*asked, "-f", first, "-f", second], "tonnage") == 1
    answers = json.loads(capsys.readouterr().out)["items"]
    assert [answer["verdict"] for answer in answers] == ["FITS", "NOT_NOW"]


def test_a_quota_of_another_file_counts(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = written(tmp_path / "pod.yaml", pod("p"))
    assert run([*asked, "-f", written(tmp_path / "quota.yaml", quota("0")), "-f", first], "tonnage") == 1
    assert json.loads(capsys.readouterr().out)["layer"] == "quota"


@pytest.mark.parametrize(
    ("options", "subjects"),
    [
        pytest.param((), ["default/outer"], id="a folder without its subfolders, as kubectl has it"),
        pytest.param(("-R",), ["default/inner", "default/outer"], id="a folder with its subfolders"),
    ],
)
def test_folders_are_read(
    options: tuple[str, ...],
    subjects: list[str],
    asked: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written(tmp_path / "f" / "pod.yaml", pod("outer"))
    written(tmp_path / "f" / "deeper" / "pod.yml", pod("inner"))
    assert run([*asked, "-f", str(tmp_path / "f"), *options], "tonnage") == 0
    answer = json.loads(capsys.readouterr().out)
    pods = [entry["subject"] for entry in answer.get("items", [answer])]
    assert sorted(f"{one['namespace']}/{one['name']}" for one in pods) == subjects


def test_a_file_that_is_missing_is_named(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "absent.yaml")
    assert run([*asked, "-f", written(tmp_path / "p.yaml", pod("p")), "-f", absent], "tonnage") == 2
    assert f"where: {absent}" in capsys.readouterr().err


@pytest.mark.parametrize("listed", [False, True], ids=["alone", "in a List"])
def test_an_object_beside_the_pods_is_found_where_it_stands(listed: bool) -> None:
    bad = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ""}}
    documents: list[Any] = [pod("p"), {"kind": "List", "items": [pod("q"), bad]} if listed else bad]
    with pytest.raises(ConfigError) as caught:
        added_manifests(documents, Snapshot(), "ml")
    [problem] = in_files(caught.value, [("good.yaml", 1), ("bad.yaml", 1)]).problems
    assert problem.where == f"bad.yaml [0]{'.items[1]' if listed else ''}.metadata.name"


def test_stdin_is_one_of_the_files_and_not_the_snapshot_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "-f", "-", "--snapshot", "-"], "tonnage") == 2
    assert "stdin cannot be both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("amount", "remedy"),
    [
        pytest.param(
            "nvidia.com/gpu: one", "write a whole number: how many devices", id="devices are counted"
        ),
        pytest.param(
            "memory: 4 GB", "write a number, with a suffix such as m, k, Mi or Gi", id="memory has a unit"
        ),
    ],
)
def test_an_amount_that_is_no_quantity_has_line_and_column(
    asked: list[str], tmp_path: Path, amount: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(
        "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec:\n  containers:\n"
        f"  - name: c\n    image: x\n    resources: {{limits: {{{amount}}}}}\n"
    )
    assert run([*asked, "-f", str(path)], "tonnage") == 1
    (reason,) = json.loads(capsys.readouterr().out)["reasons"]
    column = len("    resources: {limits: {") + amount.index(": ") + 3
    assert reason["message"].startswith(f"{path}:8:{column} spec.containers[0].resources.limits")
    assert remedy in reason["remedy"]


@pytest.mark.parametrize(
    ("namespace", "remedy"),
    [
        pytest.param("ml-team", "kubectl create namespace ml-team", id="one that may be created"),
        pytest.param("ML_Team", "correct the namespace: its name has lower-case", id="one that may not"),
    ],
)
def test_a_namespace_that_cannot_exist_is_not_to_be_created(
    tmp_path: Path, namespace: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    body = pod("a")
    body["metadata"]["namespace"] = namespace
    path = written(tmp_path / "pod.yaml", body)
    run(["explain", "-f", path, "--snapshot", CLUSTER, "-o", "json"], "tonnage")
    assert json.loads(capsys.readouterr().out)["remedies"][0]["action"].startswith(remedy)


def test_no_answer_shows_a_regular_expression(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "quota.yaml", quota("x"))
    assert run([*asked, "-f", path], "tonnage") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["reasons"][0]["message"].startswith(f"{path}:7:30 spec.hard")
    assert "expression" in answer["upstream_message"]


def test_an_object_of_a_kind_defined_in_the_files_is_judged_by_its_definition(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = {"size": {"type": "integer", "maximum": 8}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": size}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 9},
    }
    defined = written(tmp_path / "crd.yaml", definition)
    files = ["-f", written(tmp_path / "w.yaml", widget, pod("p"))]
    assert run([*asked, *files], "tonnage") == 0
    capsys.readouterr()
    assert run([*asked, *files, "-f", defined], "tonnage") == 1
    first, _ = json.loads(capsys.readouterr().out)["items"]
    assert first["upstream_message"] == (
        'Widget.example.com "w" is invalid: spec.size: Invalid value: 9: '
        "spec.size in body should be less than or equal to 8"
    )


def test_a_rule_about_the_whole_object_names_no_field(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec: dict[str, Any] = {"draDriver": {}}
    cluster = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "GPUCluster",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    assert run([*asked, "-f", written(tmp_path / "c.yaml", cluster)], "tonnage") == 1
    answer = json.loads(capsys.readouterr().out)
    assert "<nil>" in answer["upstream_message"]
    assert "<nil>" not in json.dumps([answer["message"], answer["reasons"], answer["remedies"]])


def trainer(workers: int) -> dict[str, Any]:
    roles = {
        role: {"replicas": count, "template": {"spec": pod("x")["spec"]}}
        for role, count in (("Master", 1), ("Worker", workers))
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train"},
        "spec": {"pytorchReplicaSpecs": roles},
    }


def test_every_pod_of_a_custom_kind_is_placed_beside_the_others_of_its_object(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*asked, "-f", written(tmp_path / "t.yaml", trainer(2))], "tonnage") == 1
    master, worker = json.loads(capsys.readouterr().out)["items"]
    assert (master["subject"]["part"], master["verdict"]) == ("Master", "FITS")
    assert worker["subject"] == {
        "kind": "PyTorchJob",
        "namespace": "default",
        "name": "train",
        "part": "Worker",
    }
    assert worker["verdict"] == "NEVER"  # both GPUs of an empty cluster do not do for three pods
    assert worker["replicas"] == {"desired": 2, "fit": 1, "nodes": {"a": 1}}
    assert "1 of 2" in worker["message"]
    assert [remedy["action"] for remedy in worker["remedies"]] == ["add a node like a"]
    assert run([*asked, "-f", written(tmp_path / "t.yaml", trainer(1))], "tonnage") == 0


@pytest.mark.parametrize(
    ("jobs", "at_once", "verdict"),
    [(5, 1, "NOT_NOW"), (1, 5, "NEVER")],
    ids=["five Jobs", "five pods of one"],
)
def test_pods_of_a_jobset_that_need_each_other_never_fit_and_others_wait(
    jobs: int,
    at_once: int,
    verdict: str,
    asked: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = {"parallelism": at_once, "template": {"spec": pod("x")["spec"]}}
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "sweep"},
        "spec": {"replicatedJobs": [{"name": "try", "replicas": jobs, "template": {"spec": job}}]},
    }
    assert run([*asked, "-f", written(tmp_path / "j.yaml", body)], "tonnage") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["replicas"]["fit"]) == (verdict, 2)


def test_a_kind_that_nobody_knows_is_unknown_beside_what_fits(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = {"template": {"spec": pod("x")["spec"]}}
    fleet = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": template}
    file = written(tmp_path / "f.yaml", pod("p"), fleet)
    assert run([*asked, "-f", file], "tonnage") == 1
    fits, unknown = json.loads(capsys.readouterr().out)["items"]
    assert (fits["verdict"], unknown["verdict"]) == ("FITS", "UNKNOWN")
    assert unknown["message"] == "Tonnage does not know how many pods this kind makes"


class _OneNamespace:
    """An API server that lets only namespace ml be read."""

    server_ahead_s, namespace = 0.0, "default"

    async def get_raw(self, _path: str) -> object:
        return {"gitVersion": "v1.35.0"}

    async def read_all(self, kind: Kind[Any], _read: object, *, namespace: str | None) -> list[object]:
        if kind.namespaced and namespace == "ml":
            return []
        raise ApiError(403, "Forbidden", f"{kind.plural} is forbidden")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        pytest.param([], "ml", id="the manifest's own"),
        pytest.param(["-n", "ml"], "", id="the one that is given, where it has none"),
        pytest.param(["-n", "web"], "ml", id="the manifest's own before the one that is given"),
    ],
)
def test_who_may_read_one_namespace_is_answered_for_the_manifests_own(
    words: list[str],
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @asynccontextmanager
    async def connected(_: object) -> AsyncIterator[_OneNamespace]:
        yield _OneNamespace()

    monkeypatch.setattr("tonnage.cli.explain.command.connected", connected)
    train = pod("train")
    train["metadata"] |= {"namespace": place} if place else {}
    assert run(["explain", "-f", written(tmp_path / "train.yaml", train), *words], "tonnage") == 1
    shown = capsys.readouterr()
    assert "Pod ml/train: UNKNOWN" in shown.out
    assert "Read in namespace ml only: " in shown.err
