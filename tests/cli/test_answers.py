"""explain, status and version as a person meets them, on captured clusters. Covers SCH-1, ADM-1."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tonnage.cli.main import run
from tonnage.cli.terminal.tables import columns

CLUSTER = """\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Node
    metadata: {name: a100-0, labels: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB}}
    spec: {taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]}
    status:
      capacity: {cpu: "8", memory: 64Gi, pods: "110", nvidia.com/gpu: "4"}
      allocatable: {cpu: "8", memory: 64Gi, pods: "110", nvidia.com/gpu: "4"}
      conditions: [{type: Ready, status: "True"}]
  - apiVersion: v1
    kind: Pod
    metadata: {name: train, namespace: ml}
    spec:
      containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: "1"}}}]
    status: {phase: Pending}
"""
TOLERATING = """\
apiVersion: v1
kind: Pod
metadata: {name: good}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
HALF = TOLERATING.replace("gpu: 1}", "gpu: 0.5}").replace("good", "half")


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return str(path)


def test_a_waiting_pod_is_explained_and_refused_by_exit_status(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", "pod", "train", "-n", "ml", "--snapshot", cluster], "tonnage") == 1
    shown = capsys.readouterr().out
    assert "Pod ml/train: NEVER" in shown
    assert "nvidia.com/gpu=present:NoSchedule" in shown
    assert "\033[" not in shown


@pytest.mark.parametrize("words", [["pod", "train"], ["pod/train"], ["po", "train"]], ids=" ".join)
def test_a_pod_is_named_as_kubectl_names_it(
    cluster: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", *words, "-n", "ml", "-o", "json", "--snapshot", cluster], "tonnage") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["layer"]) == ("NEVER", "scheduler")
    assert answer["nodes"][0]["reasons"][0]["code"] == "taint-not-tolerated"


def test_the_version_chooses_the_words(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", "pod", "train", "-n", "ml", "-o", "json", "--snapshot", cluster, "--server-version"]
    said = {}
    for version in ("1.33", "1.35"):
        run([*words, version], "tonnage")
        said[version] = json.loads(capsys.readouterr().out)["upstream_message"]
    assert "untolerated taint {nvidia.com/gpu: present}" in said["1.33"]
    assert "untolerated taint(s)" in said["1.35"]


def test_all_pending_pods_are_explained_by_cause(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["explain", "--all-pending", "--snapshot", cluster]
    assert run(question, "tonnage") == 1
    assert "1 pod is pending, for one cause" in capsys.readouterr().out
    assert run([*question, "-o", "json"], "tonnage") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["pending"], answer["causes"][0]["names"]) == (1, ["ml/train"])
    assert run([*question, "-n", "default"], "tonnage") == 0
    assert "no pod is pending" in capsys.readouterr().out


def test_a_node_is_explained_and_named_as_kubectl_names_it(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", "node/a100-0", "--snapshot", cluster], "tonnage") == 0
    assert "Node a100-0: FITS, it has room" in capsys.readouterr().out


def test_a_manifest_that_fits_and_one_that_does_not(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.yaml").write_text(TOLERATING)
    (tmp_path / "both.yaml").write_text(f"{TOLERATING}---\n{HALF}")
    assert run(["explain", "-f", str(tmp_path / "good.yaml"), "--snapshot", cluster], "tonnage") == 0
    assert "FITS" in capsys.readouterr().out
    arguments = ["explain", "-f", str(tmp_path / "both.yaml"), "--snapshot", cluster, "-o", "yaml"]
    assert run(arguments, "tonnage") == 1
    good, half = yaml.safe_load(capsys.readouterr().out)["items"]
    assert good["verdict"] == "FITS"
    assert (half["verdict"], half["layer"], half["reasons"][0]["code"]) == (
        "NEVER",
        "admission",
        "resource-not-integer",
    )


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        pytest.param(["explain"], "give exactly one of TYPE NAME", id="nothing to explain"),
        pytest.param(["explain", "pod"], "give exactly one name: pod NAME", id="no name"),
        pytest.param(
            ["explain", "service", "x"],
            "service is no type that explain knows: pod, deployment",
            id="another kind",
        ),
        pytest.param(["explain", "node", "a100-1"], "use a100-0 if you meant that", id="a misspelt node"),
        pytest.param(["explain", "pod", "train", "--all-pending"], "give exactly one of", id="two questions"),
        pytest.param(["explain", "pod", "a", "b"], "give exactly one name: pod NAME", id="two names"),
        pytest.param(
            ["explain", "pod", "tran", "-n", "ml"], "use train if you meant that", id="a misspelt pod"
        ),
        pytest.param(["explain", "pod", "train"], "it is in ml: -n ml", id="another namespace"),
        pytest.param(
            ["explain", "pod", "train", "--server-version", "1.99"], "1.31 to 1.37", id="a future version"
        ),
        pytest.param(["explain", "pod", "train", "--server-version", "new"], "1.31 to 1.37", id="no version"),
        pytest.param(["explain", "-f", "/nowhere.yaml"], "/nowhere.yaml", id="no file"),
    ],
)
def test_wrong_questions_are_answered_with_exit_status_2(
    cluster: str, arguments: list[str], found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--snapshot", cluster], "tonnage") == 2
    assert found in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("broken.yaml", "a: [", "broken.yaml:2:1"),
        ("broken.json", "{", "not valid JSON"),
        ("empty.yaml", "", "no Kubernetes object"),
        ("wrong.yaml", "kind: Pod\napiVersion: v1\nspec: {nodeName: 7}\n", "nodeName"),
        ("list.json", "[]", "no Kubernetes object"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_an_unusable_snapshot_is_named(
    tmp_path: Path, name: str, content: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(content)
    assert run(["status", "--snapshot", str(tmp_path / name)], "tonnage") == 2
    shown = capsys.readouterr().err
    assert found in shown
    assert name in shown


def test_values_of_a_wrong_type_are_all_named_with_line_and_column(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.yaml"
    wrong = HALF.replace("gpu: 0.5}", "gpu: [1]}, claims: 7").replace("spec:\n", "spec:\n  nodeName: 7\n")
    quota = "{kind: ResourceQuota, apiVersion: v1, metadata: {name: q}, spec: {hard: 5}}"
    path.write_text(f"{TOLERATING}---\n{wrong}---\nkind: List\napiVersion: v1\nitems:\n- {quota}\n")
    assert run(["explain", "-f", str(path), "--snapshot", cluster, "-o", "json"], "tonnage") == 1
    items = json.loads(capsys.readouterr().out)["items"]
    places = {
        item["subject"]["name"]: [reason["message"].removeprefix(f"{path}:") for reason in item["reasons"]]
        for item in items
        if item["verdict"] == "NEVER"
    }
    assert places == {
        "half": [
            "12:13 spec.nodeName: a string is expected, but 7 without quotes is not one",
            "14:87 spec.containers[0].resources.claims: a list is expected, not 7",
            "14:73 spec.containers[0].resources.limits[\"nvidia.com/gpu\"]: '[1]' is not a quantity",
        ],
        "q": ["19:75 spec.hard: a mapping is expected, not 5"],
    }


@pytest.mark.parametrize("output", ["text", "wide", "json", "yaml"])
def test_the_fleet_in_every_format(cluster: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--snapshot", cluster, "-o", output], "tonnage") == 0
    shown = capsys.readouterr().out
    if output in ("json", "yaml"):
        (row,) = yaml.safe_load(shown)["items"]
        assert (row["node"], row["allocatable"], row["capacity"]) == ("a100-0", 4, 4)
    else:
        head, row = shown.splitlines()
        assert ("HOLDERS" in head) is (output == "wide")
        assert row.split()[:3] == ["a100-0", "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu"]


def test_a_device_that_is_gone_degrades_the_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    degraded = CLUSTER.replace(
        'allocatable: {cpu: "8", memory: 64Gi, pods: "110", nvidia.com/gpu: "4"}',
        ('allocatable: {cpu: "8", memory: 64Gi, pods: "110", nvidia.com/gpu: "3"}'),
    )
    (tmp_path / "cluster.yaml").write_text(degraded)
    assert run(["status", "--snapshot", str(tmp_path / "cluster.yaml")], "tonnage") == 1
    assert "3/4" in capsys.readouterr().out


def test_a_json_snapshot_is_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster.json").write_text(json.dumps(yaml.safe_load(CLUSTER)))
    assert run(["status", "--snapshot", str(tmp_path / "cluster.json"), "-o", "json"], "tonnage") == 0
    assert json.loads(capsys.readouterr().out)["items"][0]["node"] == "a100-0"


def test_no_cluster_at_all_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TONNAGE_STATE", str(tmp_path / "state"))
    assert run(["status"], "tonnage") == 3
    assert "tonnage up" in capsys.readouterr().err
    assert run(["version"], "tonnage") == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("tonnage ")
    assert "not reached" in captured.err


@pytest.mark.parametrize("words", ["status", "controller --dry-run --once"])
def test_a_cluster_that_does_not_answer_is_exit_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {"token": "secret"}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    assert run([*words.split(), "--kubeconfig", str(tmp_path / "kubeconfig")], "tonnage") == 3
    shown = capsys.readouterr().err
    assert "127.0.0.1:1" in shown
    assert "secret" not in shown


def test_the_client_version_asks_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--client", "-o", "json"], "tonnage") == 0
    assert json.loads(capsys.readouterr().out)["server"] is None


def test_wrong_agent_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["node", "--standalone", "--node-name", "No Name", "--devices", "magic", "--config-map", "x"]
    assert run(arguments, "tonnage") == 2
    shown = capsys.readouterr().err
    assert all(flag in shown for flag in ("--node-name", "--devices", "--config-map"))


def test_a_table_has_no_blanks_at_line_ends() -> None:
    assert columns(["A", "BB"], [["long", "x"], ["s", ""]]) == "A      BB\nlong   x\ns"


MISSPELT = TOLERATING.replace("containers:", "contaners:")


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        pytest.param(
            MISSPELT, ":6:3 spec.contaners\n  remedy: use containers if you meant that", id="a misspelt field"
        ),
        pytest.param(
            "kind: List\napiVersion: v1\nitems: [{kind: Pod, apiVersion: v1, spec: {nodeSelektor: {}}}]",
            "items[0].spec.nodeSelektor\n  remedy: use nodeSelector if you meant that",
            id="a misspelt field in a List",
        ),
        pytest.param(TOLERATING.replace("v1", "v2"), "write apiVersion: v1", id="a version nobody serves"),
        pytest.param(TOLERATING.replace("apiVersion: v1\n", ""), "apiVersion\n  remedy", id="no version"),
        pytest.param(TOLERATING.replace("name: c,", "name: c, name: d,"), "duplicate key", id="a key twice"),
    ],
)
def test_a_manifest_that_the_server_would_refuse_is_refused_with_its_line(
    cluster: str, manifest: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.yaml").write_text(manifest)
    assert run(["explain", "-f", str(tmp_path / "pod.yaml"), "--snapshot", cluster], "tonnage") == 2
    assert found in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(
            b"[" * 100_000 + b"]" * 100_000, "nested deeper than 200 levels", id="a hundred thousand brackets"
        ),
        pytest.param(b'{"kind": "List", "kind": "Pod"}', "duplicate key kind", id="a key twice"),
        pytest.param(b'{"kind": }', ":1:10", id="broken JSON is placed"),
        pytest.param(b"\xff\xfe\x00", "the file is not UTF-8", id="no text"),
        pytest.param(b"", "no Kubernetes object in it", id="nothing"),
    ],
)
def test_a_hostile_snapshot_is_one_error(
    content: bytes, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.json").write_bytes(content)
    assert run(["status", "--snapshot", str(tmp_path / "cluster.json")], "tonnage") == 2
    assert found in capsys.readouterr().err


def test_a_manifest_and_a_snapshot_can_come_from_stdin(cluster: str, tonnage: Path) -> None:
    for arguments, text in (
        (["explain", "-f", "-", "--snapshot", cluster], TOLERATING),
        (["explain", "pod", "train", "-n", "ml", "--snapshot", "-"], CLUSTER),
    ):
        command = [str(tonnage), *arguments]
        asked = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
        assert asked.returncode in (0, 1), asked.stderr
        assert asked.stdout.startswith("Pod ")


WORKLOAD = """\
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "8", pods: "9"}}}
  - apiVersion: v1
    kind: ResourceQuota
    metadata: {name: q, namespace: ml}
    spec: {hard: {pods: "0"}}
  - apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: cache, namespace: ml}
    spec: {replicas: 2, template: {spec: {containers: [{name: c, image: x}]}}}
  - apiVersion: batch/v1
    kind: CronJob
    metadata: {name: nightly, namespace: ml}
    spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: c, image: x}]}}}}}
"""


@pytest.mark.parametrize(
    "words",
    [["statefulset", "cache"], ["sts/cache"], ["statefulsets.apps", "cache"], ["STS", "cache"]],
    ids=" ".join,
)
def test_a_workload_is_named_as_kubectl_names_it(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """ADM-10: there is no pod that could be asked."""
    path = tmp_path / "cluster.yaml"
    path.write_text(WORKLOAD)
    assert run(["explain", *words, "-n", "ml", "-o", "json", "--snapshot", str(path)], "tonnage") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["subject"] == {"kind": "StatefulSet", "namespace": "ml", "name": "cache"}
    assert (answer["verdict"], answer["layer"]) == ("NEVER", "quota")
    assert answer["message"].startswith("2 of 2 pods do not exist: ")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        pytest.param(["cj", "nightly", "-n", "ml"], 0, "it has created none yet", id="nothing against it"),
        pytest.param(["sts", "cash", "-n", "ml"], 2, "use cache if you meant that", id="a misspelt one"),
        pytest.param(["sts", "cache"], 2, "it is in ml: -n ml", id="another namespace"),
        pytest.param(["sts"], 2, "give exactly one name: statefulset NAME", id="no name"),
    ],
)
def test_workloads_are_found_or_told_where_they_are(
    tmp_path: Path, words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(WORKLOAD)
    assert run(["explain", *words, "--snapshot", str(path)], "tonnage") == status
    shown = capsys.readouterr()
    assert said in shown.out + shown.err
