"""Pods of custom kinds: which templates, how many of each, what they are called."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.reading.custom_workloads import why_undetermined
from tonnage.reading.documents import manifests_from_documents

Body = dict[str, Any]
TEMPLATE: Body = {"spec": {"containers": [{"name": "node", "image": "i"}]}}


def made(version: str, kind: str, **spec: Any) -> Body:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}


def job(name: str, replicas: int = 1, **spec: Any) -> Body:
    return {"name": name, "replicas": replicas, "template": {"spec": {"template": TEMPLATE, **spec}}}


def roles(**counts: int | None) -> Body:
    return {
        role: {"template": TEMPLATE, **({} if count is None else {"replicas": count})}
        for role, count in counts.items()
    }


def pods_of(*objects: Body) -> list[tuple[str, int, str]]:
    """Part, number of pods and the last pod's name of each template."""
    manifests = manifests_from_documents(objects, may_be_none=True)
    return [
        (sets.part, manifest.replicas, sets.name(max(0, manifest.replicas - 1)))
        for manifest in manifests
        if (sets := manifest.pod_set) is not None
    ]


RAY: Body = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [
        {"groupName": "gpu", "replicas": 3, "maxReplicas": 2, "numOfHosts": 4, "template": TEMPLATE},
        {"groupName": "idle", "replicas": 3, "suspend": True, "template": TEMPLATE},
        {"groupName": "least", "minReplicas": 1, "template": TEMPLATE},
    ],
}
RAY_PODS = [("head", 1, "w-head-new-0"), ("gpu", 8, "w-gpu-worker-new-7"),
            ("idle", 0, "w-idle-worker-new-0"), ("least", 1, "w-least-worker-new-0")]  # fmt: skip
RUNTIME: Body = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch"},
    "spec": {
        "mlPolicy": {"numNodes": 2},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {
                                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
                            },
                            "spec": {"template": TEMPLATE},
                        },
                    }
                ]
            }
        },
    },
}

CASES = [
    pytest.param(
        made("jobset.x-k8s.io/v1alpha2", "JobSet",
             replicatedJobs=[job("driver"), job("workers", 2, parallelism=4, completions=3)]),
        [("driver", 1, "w-driver-new-0"), ("workers", 6, "w-workers-1-2-new")],
        id="a JobSet has replicas times parallelism, and no more than completions",
    ),
    pytest.param(
        made("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs=roles(Master=None, Worker=3)),
        [("Master", 1, "w-master-0"), ("Worker", 3, "w-worker-2")],
        id="a PyTorchJob has a template for each role, one pod where it does not say",
    ),
    pytest.param(
        made("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs=roles(Launcher=None, Worker=None)),
        [("Launcher", 1, "w-launcher-0"), ("Worker", 0, "w-worker-0")],
        id="an MPIJob has no workers that it does not ask for",
    ),
    pytest.param(made("ray.io/v1", "RayCluster", **RAY), RAY_PODS, id="a RayCluster keeps within bounds"),
    pytest.param(made("ray.io/v1", "RayJob", rayClusterSpec=RAY), RAY_PODS, id="a RayJob makes its cluster"),
    pytest.param(
        made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", replicas=2,
             leaderWorkerTemplate={"size": 3, "workerTemplate": TEMPLATE}),
        [("leader", 2, "w-1"), ("worker", 4, "w-1-2")],
        id="a LeaderWorkerSet has a leader and size - 1 workers a group",
    ),
    pytest.param(
        made("batch.volcano.sh/v1alpha1", "Job", tasks=[{"name": "w", "replicas": 2, "template": TEMPLATE}]),
        [("w", 2, "w-w-1")],
        id="a Job of Volcano is none of batch/v1",
    ),
    pytest.param(
        made("argoproj.io/v1alpha1", "Rollout", replicas=3, template=TEMPLATE),
        [("", 3, "w-new-2")],
        id="a Rollout is scaled as a Deployment is",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "pods"), CASES)
def test_templates_and_their_numbers(body: Body, pods: list[tuple[str, int, str]]) -> None:
    assert pods_of(body) == pods
    assert why_undetermined(body, [body]) == ("", "")


def test_a_train_job_takes_numbers_and_resources_into_the_template_of_its_runtime() -> None:
    trainer = {"numNodes": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}
    body = made("trainer.kubeflow.org/v1alpha1", "TrainJob", runtimeRef={"name": "torch"}, trainer=trainer)
    [manifest] = manifests_from_documents([body, RUNTIME])
    assert manifest.replicas == 4
    assert manifest.pod.containers[0].limits["nvidia.com/gpu"] == 8


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (made("example.com/v1", "Fleet", template=TEMPLATE), "how many pods this kind makes"),
        (made("argoproj.io/v1alpha1", "Workflow", templates=[]), "its steps decide"),
        (
            made("trainer.kubeflow.org/v1alpha1", "TrainJob", runtimeRef={"name": "t"}),
            "ClusterTrainingRuntime t, which is not among the files",
        ),
        (
            made("kubeflow.org/v1", "TFJob", tfReplicaSpecs={"PS": {"replicas": "two"}}),
            "spec.tfReplicaSpecs.PS.replicas is not a whole number from 0 to 2147483647",
        ),
        (
            made("argoproj.io/v1alpha1", "Rollout", replicas=10**400, template=TEMPLATE),
            "spec.replicas is not a whole number",
        ),
        (
            made("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[
                job("a"), {**job("b"), "dependsOn": [{"name": "a", "status": "Complete"}]}]),
            "the pods of b come once those of a have ended",
        ),
    ],
    ids=["a kind nobody knows", "a workflow", "a runtime elsewhere", "a word", "too many", "in turn"],
)  # fmt: skip
def test_what_nobody_can_count_is_said(body: Body, why: str) -> None:
    assert why in why_undetermined(body, [body])[0]
    assert pods_of(body) == []
