"""Pods that name their node: the scheduler's rules do not count, the kubelet's do."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.diagnose.explain.explain import explain, explain_manifest, find_pod
from tonnage.model.layer import Layer
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents

GPU = "nvidia.com/gpu"
KEEP_OUT = {"key": "team", "value": "x", "effect": "NoSchedule"}
THROW_OUT = {"key": "sick", "value": "", "effect": "NoExecute"}
Body = dict[str, Any]


def node(**spec: Any) -> Body:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", GPU: "4"}
    labels = {"kubernetes.io/hostname": "n1", "tier": "gold"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": labels},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name: str = "p", gpus: int = 1, *, status: Body | None = None, **spec: Any) -> Body:
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: str(gpus)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"u-{name}"},
        "spec": {"containers": [container], "nodeName": "n1", **spec},
        "status": status or {},
    }


def runs(name: str, gpus: int, **spec: Any) -> Body:
    began = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    return pod(name, gpus, status=began, **spec)


def judged(asked: Body, *there: Body) -> Explanation:
    (manifest,) = manifests_from_documents([asked])
    return explain_manifest(manifest, snapshot_from_documents(list(there)))


@pytest.mark.parametrize(
    ("spec", "about"),
    [({"taints": [KEEP_OUT]}, "a taint of the scheduler's"), ({"unschedulable": True}, "a cordon")],
)
def test_what_only_the_scheduler_heeds_keeps_no_pod_from_the_node_that_it_names(
    spec: Body, about: str
) -> None:
    judgement = judged(pod(), node(**spec))
    assert (judgement.verdict, judgement.message) == (
        Verdict.FITS,
        "n1, which spec.nodeName names, takes it",
    ), about


@pytest.mark.parametrize(
    ("asked", "there", "message", "verdict"),
    [
        pytest.param(
            pod(gpus=9),
            [node()],
            f"(OutOf{GPU}): asks for 9 {GPU}, the node has 4",
            Verdict.NEVER,
            id="more than the node has",
        ),
        pytest.param(
            pod(gpus=3),
            [node(), runs("other", 2)],
            f"(OutOf{GPU}): asks for 3 {GPU}, 2 of 4 are free",
            Verdict.NOT_NOW,
            id="more than is free",
        ),
        pytest.param(
            pod(nodeSelector={"tier": "silver"}),
            [node()],
            "(NodeAffinity): its node selector or affinity excludes the node",
            Verdict.NEVER,
            id="another node's label",
        ),
        pytest.param(
            pod(),
            [node(taints=[THROW_OUT])],
            "(TaintToleration): it does not tolerate sick:NoExecute",
            Verdict.NEVER,
            id="a taint that throws pods out",
        ),
    ],
)
def test_the_kubelet_fails_what_it_cannot_take(
    asked: Body, there: list[Body], message: str, verdict: Verdict
) -> None:
    judgement = judged(asked, *there)
    assert (judgement.message, judgement.verdict) == (f"the kubelet of n1 rejects it {message}", verdict)
    assert judgement.layer is Layer.KUBELET
    assert judgement.remedies[0].patch == {"spec": {"nodeName": None}}


def test_devices_that_the_node_does_not_know_are_left_out_by_its_kubelet() -> None:
    new_pod = pod()
    new_pod["spec"]["containers"][0]["resources"]["limits"] = {"amd.com/gpu": "1"}
    judgement = judged(new_pod, node())
    assert judgement.message == "n1 does not know amd.com/gpu: its kubelet starts the pod without it"
    assert (judgement.verdict, judgement.layer) == (Verdict.NEVER, Layer.PLUGIN)


def test_a_node_that_is_not_there_starts_nothing() -> None:
    judgement = judged(pod(nodeName="n9"), node())
    assert (judgement.verdict, judgement.message) == (
        Verdict.NEVER,
        "spec.nodeName names n9, a node that does not exist: no kubelet will start it",
    )


@pytest.mark.parametrize(
    ("gpus", "there", "verdict"),
    [
        pytest.param(9, [], Verdict.NEVER, id="more than the node has"),
        pytest.param(3, [runs("other", 2)], Verdict.NOT_NOW, id="more than is free"),
        pytest.param(3, [pod("other", 2)], Verdict.FITS, id="the other one may be failed instead"),
    ],
)
def test_a_bound_pod_that_its_kubelet_has_not_looked_at(
    gpus: int, there: list[Body], verdict: Verdict
) -> None:
    snapshot = snapshot_from_documents([node(), pod(gpus=gpus), *there])
    found = find_pod(snapshot, "ml", "p")
    assert found is not None
    assert explain(found, snapshot).verdict is verdict
