"""Workloads: pods that never came to be, and those that did. Events are quoted, never needed. ADM-10."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.diagnose.explain.text import explanation_lines
from tonnage.diagnose.explain.workloads.missing_pods import explain_workload, find_workload
from tonnage.diagnose.explain.workloads.pods import family_of
from tonnage.model.kubernetes.workloads import WorkloadKey
from tonnage.model.layer import Layer
from tonnage.model.reasons.gpu.allocation import SharedRequestTooLarge
from tonnage.model.reasons.pod.admission import WebhookDenied, WebhookUnreachable
from tonnage.model.reasons.pod.workloads import (
    WorkloadDeadline,
    WorkloadEnded,
    WorkloadInOrder,
    WorkloadNotActedOn,
    WorkloadPaused,
    WorkloadPodsRefused,
    WorkloadWantsNone,
)
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.documents import manifest_of, snapshot_from_documents

Body = dict[str, Any]
GPU = "nvidia.com/gpu"
NODE: Body = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-1"},
    "status": {"allocatable": {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: "2"}},
}
TEMPLATE: Body = {
    "metadata": {"labels": {"app": "w"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}]},
}


def made(kind: str, *, status: Body | None = None, owner: str = "", name: str = "w", **spec: Any) -> Body:
    group = "batch/v1" if "Job" in kind else "apps/v1"
    meta: Body = {"name": name, "namespace": "ml", "uid": f"uid-{name}"}
    if owner:
        above, _, called = owner.partition("/")
        meta["ownerReferences"] = [{"kind": above, "name": called, "controller": True}]
    body = {"template": TEMPLATE, **spec}
    if kind == "CronJob":
        body = {"schedule": "@daily", "jobTemplate": {"spec": {"template": TEMPLATE}}, **spec}
    return {"apiVersion": group, "kind": kind, "metadata": meta, "spec": body, "status": status or {}}


def pod(
    name: str, owner: str, *, phase: str = "Running", on: str = "gpu-1", status: Body | None = None
) -> Body:
    above, _, called = owner.partition("/")
    reference = {"kind": above, "name": called, "controller": True}
    meta = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "ownerReferences": [reference]}
    spec = {**TEMPLATE["spec"], **({"nodeName": on} if on else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": phase, **(status or {})},
    }


def event(message: str, about: str = "ReplicaSet/w-1") -> Body:
    kind, _, name = about.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": kind, "namespace": "ml", "name": name},
        "reason": "FailedCreate",
        "message": f"Error creating: {message}",
    }


def explained(kind: str, *objects: Body, name: str = "w") -> Explanation:
    snapshot = snapshot_from_documents([{"kind": "List", "items": [NODE, *objects]}])
    workload = find_workload(snapshot, WorkloadKey(kind, "ml", name))
    assert workload is not None
    return explain_workload(workload, manifest_of(workload, snapshot.priority_classes), snapshot)


FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}


@pytest.mark.parametrize(
    ("workload", "verdict", "code", "says"),
    [
        pytest.param(
            made("Job", suspend=True), Verdict.NOT_NOW, WorkloadPaused.code, '"suspend":false', id="held"
        ),
        pytest.param(
            made("CronJob", suspend=True), Verdict.NOT_NOW, WorkloadPaused.code, "suspended", id="cron"
        ),
        pytest.param(
            made("Deployment", paused=True),
            Verdict.NOT_NOW,
            WorkloadPaused.code,
            "kubectl rollout resume deployment/w -n ml",
            id="paused",
        ),
        pytest.param(
            made("StatefulSet", replicas=0), Verdict.NEVER, WorkloadWantsNone.code, "--replicas=1", id="zero"
        ),
        pytest.param(
            made("Job", parallelism=0), Verdict.NEVER, WorkloadWantsNone.code, "parallelism is 0", id="none"
        ),
        pytest.param(
            made("DaemonSet", status={"desiredNumberScheduled": 0}),
            Verdict.NEVER,
            WorkloadWantsNone.code,
            "no node matches its pods",
            id="no node is meant",
        ),
        pytest.param(
            made("Job", status={"conditions": [FAILED]}),
            Verdict.NEVER,
            WorkloadEnded.code,
            "it has failed (BackoffLimitExceeded): too often",
            id="failed too often",
        ),
        pytest.param(
            made("Job"), Verdict.UNKNOWN, WorkloadNotActedOn.code, "check that kube-controller-manager runs",
            id="idle"
        ),
        pytest.param(
            made("Deployment", status={"conditions": [LATE]}),
            Verdict.UNKNOWN,
            WorkloadDeadline.code,
            "no progress for 600 seconds",
            id="late",
        ),
    ],
)  # fmt: skip
def test_a_workload_says_itself_why_it_makes_no_pods(
    workload: Body, verdict: Verdict, code: str, says: str
) -> None:
    explanation = explained(workload["kind"], workload)
    assert explanation.verdict is verdict
    assert code in {reason.code for reason in explanation.reasons}
    assert says in "\n".join(explanation_lines(explanation))


def test_a_job_that_is_done_is_well() -> None:
    done = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    explanation = explained("Job", made("Job", status=done), pod("w-x", "Job/w", phase="Succeeded"))
    assert (explanation.verdict, explanation.message) == (Verdict.ENDED, "completed: 1 pods succeeded")


def test_pods_that_are_alike_are_told_together_the_worst_first() -> None:
    owner = "ReplicaSet/w-1"
    waiting = [pod(f"w-1-{n}", owner, phase="Pending", on="") for n in "cde"]
    explanation = explained(
        "Deployment",
        made("Deployment", replicas=5),
        made("ReplicaSet", name="w-1", owner="Deployment/w", replicas=5),
        pod("w-1-a", owner),
        pod("w-1-b", owner),
        *waiting,
    )
    assert [(g.explanation.verdict, g.names) for g in explanation.pods] == [
        (Verdict.NOT_NOW, ("w-1-c", "w-1-d", "w-1-e")),
        (Verdict.RUNNING, ("w-1-a", "w-1-b")),
    ]
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.SCHEDULER)
    assert explanation.message.startswith("2 of 5 pods have a place; 3 of 5 pods: ")
    assert explanation.message.endswith("; even if it were empty, the cluster would have room for 2 of 5")
    assert [remedy.action for remedy in explanation.remedies][-1] == "ask for 2 replicas, not 5"
    assert explanation.remedies[-1].patch == {"spec": {"replicas": 2}}
    assert explanation.to_json()["pods"][0]["count"] == 3  # type: ignore[index,call-overload]
    assert "w-1-a, w-1-b: RUNNING, each on its node" in "\n".join(explanation_lines(explanation))


def test_a_stateful_set_waits_for_the_pod_before() -> None:
    status = {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
    first = pod("w-0", "StatefulSet/w", status=status)
    explanation = explained("StatefulSet", made("StatefulSet", replicas=3), first)
    assert WorkloadInOrder.code in {reason.code for reason in explanation.reasons}
    assert "only when w-0 is ready (1 of 3 exist)" in explanation.message
    at_once = made("StatefulSet", replicas=3, podManagementPolicy="Parallel")
    other = explained("StatefulSet", at_once, first)
    assert WorkloadInOrder.code not in {reason.code for reason in other.reasons}
    assert "2 of 3 pods do not exist" in other.message


DENIED = 'admission webhook "w.example" denied the request: no'


@pytest.mark.parametrize(
    ("text", "code", "layer"),
    [
        (DENIED, WebhookDenied.code, Layer.ADMISSION),
        ('admission webhook "w.example" denied the request without explanation', WebhookDenied.code, None),
        (
            (
                'Internal error occurred: failed calling webhook "w.example": failed to call webhook: Post '
                '"https://w.p.svc:443/?timeout=10s": context deadline exceeded'
            ),
            WebhookUnreachable.code,
            Layer.ADMISSION,
        ),
        (
            'pods "w-1-x" is forbidden: exceeded quota: q, requested: pods=1',
            WorkloadPodsRefused.code,
            Layer.QUOTA,
        ),
    ],
    ids=["denied", "denied without a word", "not reached", "a quota that has room by now"],
)
def test_what_only_the_server_knew_is_quoted(text: str, code: str, layer: Layer | None) -> None:
    objects = (made("Deployment"), made("ReplicaSet", name="w-1", owner="Deployment/w"))
    assert WorkloadNotActedOn.code in {reason.code for reason in explained("Deployment", *objects).reasons}
    explanation = explained("Deployment", *objects, event(text))
    assert (explanation.verdict, explanation.upstream_message) == (Verdict.NOT_NOW, text)
    assert code in {reason.code for reason in explanation.reasons}
    assert layer in (None, explanation.layer)


def test_what_is_foreseen_is_told_in_the_words_that_were_said() -> None:
    """The name of the pod that was refused is only there."""
    full = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "ml"},
        "spec": {"hard": {"pods": "0"}},
    }
    objects = (made("Deployment"), made("ReplicaSet", name="w-1", owner="Deployment/w"), full)
    foreseen = (
        'pods "w-1-…" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0'
    )
    said = foreseen.replace("…", "x7f2p")
    assert explained("Deployment", *objects).upstream_message == foreseen
    assert explained("Deployment", *objects, event(said)).upstream_message == said
    assert explained("Deployment", *objects, event(DENIED)).upstream_message == foreseen


def test_adm_5_what_kubelet_will_refuse_is_told_before_the_pods_are_there() -> None:
    """ADM-5: two of a shared resource of which a container may have one."""
    shared = {"name": f"{GPU}.shared", "failRequestsGreaterThanOne": True, "allocatable": 8}
    device = {"uuid": "GPU-1", "index": 0, "health": "Healthy", "resource": f"{GPU}.shared", "replicas": 8}
    report = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": "gpu-2"},
        "status": {"resources": [shared], "devices": [device]},
    }
    node = {
        **NODE,
        "metadata": {"name": "gpu-2"},
        "status": {"allocatable": {"cpu": "9", "memory": "1Ti", "pods": "9", f"{GPU}.shared": "8"}},
    }
    two = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {f"{GPU}.shared": "2"}}}]}
    explanation = explained("Deployment", made("Deployment", template={"spec": two}), node, report)
    assert SharedRequestTooLarge.code in {reason.code for reason in explanation.reasons}
    assert "once they exist, NEVER: " in explanation.message
    one = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {f"{GPU}.shared": "1"}}}]}
    other = explained("Deployment", made("Deployment", template={"spec": one}), node, report)
    assert SharedRequestTooLarge.code not in {reason.code for reason in other.reasons}
    assert "once they exist" not in other.message


def test_owners_that_own_each_other_end() -> None:
    objects: list[Any] = [
        made("ReplicaSet", name="a", owner="Deployment/w"),
        made("Deployment", owner="ReplicaSet/a"),
        made("ReplicaSet", name="self", owner="ReplicaSet/self"),
    ]
    snapshot = snapshot_from_documents([{"kind": "List", "items": objects}])
    workload = find_workload(snapshot, WorkloadKey("Deployment", "ml", "w"))
    assert workload is not None
    assert [pod.key.name for pod in family_of(workload, snapshot).everyone] == ["w", "a"]
    assert explained("ReplicaSet", *objects, name="self").verdict is Verdict.UNKNOWN


def test_a_cron_job_is_told_by_its_newest_job() -> None:
    objects = (
        made("CronJob"),
        made("Job", name="w-1", owner="CronJob/w"),
        pod("w-1-x", "Job/w-1", phase="Pending", on=""),
        pod("w-1-y", "Job/w-1"),
        pod("w-1-z", "Job/w-1"),
    )
    explanation = explained("CronJob", *objects)
    assert (explanation.verdict, explanation.layer) == (Verdict.NOT_NOW, Layer.SCHEDULER)
    assert explanation.message.startswith("pod w-1-x: ")
    assert (
        explained("CronJob", made("CronJob")).message == "nothing prevents its pods; it has created none yet"
    )


def _at_quota(asked: str, hard: str, *others: Body) -> Explanation:
    """A Deployment of two pods, one of which a quota keeps out."""
    limits = {"limits": {GPU: asked}}
    template = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": "i", "resources": limits}]}}
    quota: Body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "ml"}}
    quota["spec"] = {"hard": {f"requests.{GPU}": hard}}
    first = pod("w-1-a", "ReplicaSet/w-1", phase="Pending", on="")
    first["spec"] = template["spec"]
    return explained(
        "Deployment",
        made("Deployment", replicas=2, template=template),
        made("ReplicaSet", name="w-1", owner="Deployment/w", replicas=2, template=template),
        first,
        quota,
        *others,
    )


def test_adm_10_no_pod_of_its_own_is_to_end_for_a_pod_that_a_quota_keeps_out() -> None:
    """It would be made again. Pods of others are another matter."""
    raised = "raise it: kubectl patch resourcequota q -n ml"
    explanation = _at_quota("1", "1")
    assert "1 of 2 pods do not exist: the API server refuses its pods: the quota q" in explanation.message
    assert [remedy.action[: len(raised)] for remedy in explanation.remedies] == [raised]
    other = pod("x", "Job/x")
    explanation = _at_quota("1", "2", other)
    assert [remedy.action.split(",")[0] for remedy in explanation.remedies][:1] == ["wait for x to end"]


def test_adm_10_what_helps_the_pods_that_are_there_comes_before_what_is_not_enough() -> None:
    explanation = _at_quota("4", "4")
    assert explanation.verdict is Verdict.NEVER
    smaller, *weak = explanation.remedies
    assert (smaller.action, smaller.effect) == (f"ask for 2 {GPU}", "for the pods that exist: fits gpu-1")
    resources = {"limits": {GPU: "2"}}
    inner = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    assert smaller.patch == {"spec": {"template": inner}}
    assert [remedy.action.split(":")[0] for remedy in weak] == ["raise it"]
    assert weak[0].effect.startswith(
        "not enough by itself: the API server accepts the pod; NEVER: node gpu-1"
    )


def test_a_daemon_set_without_nodes_names_what_keeps_it_from_each() -> None:
    """By name, labels and taints as its controller does; what every daemon tolerates keeps none out."""
    taints: list[Body] = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "team", "value": "ml", "effect": "NoSchedule"},
    ]
    tainted: Body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}
    tainted |= {"spec": {"unschedulable": True, "taints": taints}}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"g": "x"}}}
    tainted["metadata"]["labels"] = {"g": "x"}
    explanation = explained(
        "DaemonSet", tainted, made("DaemonSet", status={"desiredNumberScheduled": 0}, template=template)
    )
    assert explanation.message == (
        "no node matches its pods: b: taint team=ml:NoSchedule is not tolerated; "
        "gpu-1: wants g=x, the node lacks that label"
    )
    assert (explanation.remedies[0].action, explanation.remedies[0].effect) == (
        "tolerate the taint team=ml:NoSchedule",
        "a pod is created for b",
    )


def test_a_job_that_failed_is_applied_again_after_it_is_deleted() -> None:
    """To delete it alone makes nothing again."""
    explanation = explained("Job", made("Job", status={"conditions": [FAILED]}))
    assert "and apply its manifest again" in explanation.remedies[0].action
