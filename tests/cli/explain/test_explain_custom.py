"""`tonnage explain jobset/NAME`: a custom workload by its name, as the cluster has it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from tonnage.cli.explain.custom import explain_custom_target, read_custom
from tonnage.cli.explain.targets import target_of
from tonnage.cli.main import run
from tonnage.model.errors import ApiError, ClusterError, ConfigError
from tonnage.model.json import JsonObject
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.custom_types import CUSTOM_TYPES, custom_type
from tonnage.reading.documents import snapshot_from_documents

Body = dict[str, Any]
GPU = "nvidia.com/gpu"


def spec(gpus: int) -> Body:
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: gpus}}}
    return {"restartPolicy": "Never", "containers": [container]}


def node(name: str, gpus: int) -> Body:
    amounts = {"cpu": "64", "memory": "1Ti", "pods": "110", GPU: str(gpus)}
    status = {"allocatable": amounts, "capacity": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(
    name: str, gpus: int, *, on: str = "", phase: str = "", owner: tuple[str, str] = ("", ""), **labels: str
) -> Body:
    """A pod; labels have `__` for what Python's names cannot have."""
    owners = [{"apiVersion": "x/v1", "kind": owner[0], "name": owner[1], "uid": "u", "controller": True}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            **({"ownerReferences": owners} if owner[0] else {}),
        },
        "spec": {**spec(gpus), **({"nodeName": on} if on else {})},
        "status": {"phase": phase or ("Running" if on else "Pending")},
    }


def of_job(end: str, gpus: int, **fields: str) -> Body:
    return pod(f"llm-w-0-{end}", gpus, owner=("Job", "llm-w-0"), **fields)


def jobset(**fields: Any) -> Body:
    inner = {"parallelism": 2, "completions": 2, "template": {"spec": spec(4)}}
    jobs = [{"name": "w", "replicas": 1, "template": {"spec": inner}}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "llm", "namespace": "ml"},
        "spec": {"replicatedJobs": jobs, **fields.pop("spec", {})},
        **fields,
    }


def in_turn(*, told: bool = True, **counts: int) -> Body:
    """A JobSet whose trainer waits for the end of its two Jobs that prepare. `counts`: the controller's."""
    inner = {"parallelism": 1, "template": {"spec": spec(1)}}
    after = [{"name": "prepare", "status": "Complete"}]
    jobs = [
        {"name": "prepare", "replicas": 2, "template": {"spec": inner}},
        {"name": "train", "replicas": 1, "template": {"spec": inner}, "dependsOn": after},
    ]
    status = {"replicatedJobsStatus": [{"name": "prepare", **counts}]} if told else {}
    return jobset(spec={"replicatedJobs": jobs}, status=status)


def answer(named: str, *objects: Body, body: tuple[Body, ...] = ()) -> Explanation:
    kind, name = target_of((named,))
    custom = custom_type(kind)
    assert custom is not None
    return explain_custom_target(custom, name, body, snapshot_from_documents(objects), "ml", "1.35")


JOB: Body = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "llm-w-0",
        "namespace": "ml",
        "ownerReferences": [
            {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "llm", "uid": "u",
             "controller": True}
        ],
    },
    "spec": {"parallelism": 2, "completions": 2, "template": {"spec": spec(4)}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "body", "verdict", "told"),
    [
        pytest.param([], jobset(), Verdict.UNKNOWN, "2 of 2 pods do not exist", id="nothing was made"),
        pytest.param(
            [JOB, of_job("a", 4, on="a"), of_job("b", 4)],
            jobset(),
            Verdict.NOT_NOW,
            "1 of 2 pods has a place; pod llm-w-0-b: node",
            id="one of its Job's pods waits",
        ),
        pytest.param(
            [JOB, *(of_job(end, 2, on="a") for end in "ab")],
            jobset(),
            Verdict.RUNNING,
            "2 of 2 pods have a place",
            id="all run",
        ),
        pytest.param(
            [JOB, *(of_job(end, 2, on="a", phase="Succeeded") for end in "ab")],
            jobset(),
            Verdict.ENDED,
            "2 of 2 pods have ended",
            id="pods that have ended are not missing",
        ),
        pytest.param(
            [],
            jobset(status={"conditions": [{"type": "Completed", "status": "True"}]}),
            Verdict.ENDED,
            "it has ended",
            id="it is complete, and its pods were cleaned up",
        ),
        pytest.param(
            [], jobset(spec={"suspend": True}), Verdict.NOT_NOW, "it is suspended", id="it is suspended"
        ),
        pytest.param(
            [],
            in_turn(told=False),
            Verdict.UNKNOWN,
            "the pods of train come once those of prepare have ended",
            id="a Job waits for another of which the controller says nothing",
        ),
        pytest.param(
            [],
            in_turn(succeeded=1, active=1),
            Verdict.UNKNOWN,
            "train waits for prepare to end: 1 of 2 Jobs succeeded, 1 active, 0 failed",
            id="a Job waits for another, and no pod is there",
        ),
        pytest.param(
            [JOB, of_job("a", 1, on="a")],
            in_turn(succeeded=1, active=1),
            Verdict.RUNNING,
            "1 of 1 pods have a place; train waits for prepare to end: 1 of 2 Jobs succeeded",
            id="a Job waits for another, which runs",
        ),
        pytest.param(
            [JOB, *(of_job(end, 1, on="a", phase="Succeeded") for end in "ab")],
            in_turn(succeeded=2),
            Verdict.UNKNOWN,
            "1 of 1 pods do not exist",
            id="what it waited for has ended",
        ),
        pytest.param(
            [pod("other", 1, on="a")],
            jobset(spec={"replicatedJobs": [{"name": "w", "replicas": "two"}]}),
            Verdict.UNKNOWN,
            "replicas is not a whole number",
            id="its number of pods cannot be read",
        ),
    ],
)
def test_a_jobset_is_explained_by_its_pods_and_its_spec(
    objects: list[Body], body: Body, verdict: Verdict, told: str
) -> None:
    explanation = answer("jobset/llm", node("a", 4), *objects, body=(body,))
    assert (explanation.verdict, explanation.subject.kind) == (verdict, "JobSet")
    assert told in explanation.message
    assert not any(remedy.patch for remedy in explanation.remedies)


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        pytest.param(in_turn(active=2), "explain it again once prepare has ended", id="it runs"),
        pytest.param(in_turn(failed=1), "repair prepare, of which a Job failed", id="it failed"),
    ],
)
def test_what_to_do_about_a_job_that_waits_for_another(body: Body, remedy: str) -> None:
    explanation = answer("jobset/llm", node("a", 4), body=(body,))
    assert [told.action for told in explanation.remedies] == [remedy]


def test_pods_are_also_found_by_the_labels_that_the_controller_gives() -> None:
    """The workers of a LeaderWorkerSet are of StatefulSets that its leaders own."""
    body = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": spec(1)}}},
    }
    pods = [pod(f"chat-0{end}", 1, on="a") for end in ("", "-1")]
    for one in pods:
        one["metadata"]["labels"] = {"leaderworkerset.sigs.k8s.io/name": "chat"}
    explanation = answer("lws/chat", node("a", 4), *pods, body=(body,))
    assert (explanation.verdict, explanation.message) == (Verdict.RUNNING, "2 of 2 pods have a place")


def test_a_ray_job_has_the_pods_of_the_cluster_that_its_status_names() -> None:
    body = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "fit", "namespace": "ml"},
        "spec": {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": spec(1)}}}},
        "status": {"rayClusterName": "fit-x"},
    }
    mine, other = pod("fit-x-head", 1, on="a"), pod("else-head", 1, on="a")
    mine["metadata"]["labels"], other["metadata"]["labels"] = (
        {"ray.io/cluster": "fit-x"},
        {"ray.io/cluster": "else"},
    )
    explanation = answer("rayjob/fit", node("a", 4), mine, other, body=(body,))
    assert (explanation.verdict, explanation.message) == (Verdict.RUNNING, "1 of 1 pods have a place")


def test_of_a_snapshot_the_pods_alone_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.json"
    items = [node("a", 4), pod("fit-worker-0", 8, owner=("PyTorchJob", "fit"))]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run(["explain", "pytorchjob/fit", "-n", "ml", "--snapshot", str(file)], "tonnage") == 1
    assert "PyTorchJob ml/fit: NEVER" in capsys.readouterr().out
    assert run(["explain", "pytorchjob/nope", "-n", "ml", "--snapshot", str(file)], "tonnage") == 2
    assert 'pytorchjob "nope" not found' in capsys.readouterr().err


def test_every_name_means_one_kind_and_none_of_kubernetes_own() -> None:
    names = [name for custom in CUSTOM_TYPES for name in custom.names]
    assert len(names) == len(set(names))
    assert target_of(("job", "x")) == ("Job", "x")
    assert target_of(("sts/x",)) == ("StatefulSet", "x")
    assert target_of(("vcjob", "x")) == ("Job.batch.volcano.sh", "x")
    assert target_of(("JobSets.jobset.x-k8s.io", "x")) == ("JobSet.jobset.x-k8s.io", "x")


class _Server:
    """Answers of an API server by path."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    async def get_raw(self, path: str) -> JsonObject:
        found = self.answers.get(path, 404)
        if isinstance(found, int):
            raise ApiError(found, "Forbidden" if found == 403 else "NotFound", "no")
        return cast(JsonObject, found)


def asked(named: str, answers: dict[str, Any]) -> tuple[JsonObject, ...]:
    kind, name = target_of((named,))
    custom = custom_type(kind)
    assert custom is not None
    return asyncio.run(read_custom(cast(Any, _Server(answers)), custom, name, "ml"))


GROUP = {"preferredVersion": {"version": "v1alpha1"}}
BASE = "/apis/trainer.kubeflow.org/v1alpha1"


def test_a_trainjob_is_read_with_its_runtime() -> None:
    job = {"kind": "TrainJob", "spec": {"runtimeRef": {"name": "torch"}}}
    answers = {
        "/apis/trainer.kubeflow.org": GROUP,
        f"{BASE}/namespaces/ml/trainjobs/x": job,
        f"{BASE}/clustertrainingruntimes/torch": {"kind": "ClusterTrainingRuntime"},
    }
    assert [obj["kind"] for obj in asked("trainjob/x", answers)] == ["TrainJob", "ClusterTrainingRuntime"]
    assert asked("trainjob/y", answers) == ()
    assert asked("jobset/y", answers) == ()


def test_a_custom_workload_that_may_not_be_read_names_the_right() -> None:
    answers = {"/apis/jobset.x-k8s.io": GROUP, "/apis/jobset.x-k8s.io/v1alpha1/namespaces/ml/jobsets/x": 403}
    with pytest.raises(ClusterError, match=r"get jobsets\.jobset\.x-k8s\.io"):
        asked("jobset/x", answers)


def test_a_custom_workload_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(ConfigError, match='jobset "llm" not found'):
        answer("jobset/llm", node("a", 4))
