"""Remedies that wait: for which pods, how many of them, and until when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from support.remedy_scenes import Body, actions, node, patched, pod
from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.diagnose.explain.explain import explain, explain_manifest
from tonnage.model.verdict import Verdict
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents


def test_waiting_says_how_many_of_which() -> None:
    running = [pod(f"one-{i}", 1, on="a") for i in range(4)]
    assert actions(pod("p", 2), node("a", 4), *running) == [
        "wait for 2 of one-0, one-1, one-2, one-3 on a to end, or end them"
    ]
    assert actions(pod("p", 4), node("a", 4), pod("x", 1, on="a"), pod("y", 3, on="a")) == [
        "wait for all of y, x on a to end, or end them"
    ]


def test_sch_10_several_victims_are_waited_for_once() -> None:
    """SCH-10: those of the node that will be cleared; no other node's pods need end by hand."""
    lesser = [pod(f"{on}-{n}", 1, on=on) for on in "ab" for n in (1, 2)]
    manifest = pod("p", 2)
    manifest["spec"]["priority"] = 100
    [read] = manifests_from_documents([manifest])
    explanation = explain_manifest(read, snapshot_from_documents([node("a", 2), node("b", 2), *lesser]))
    [wait] = [remedy for remedy in explanation.remedies if remedy.action.startswith("wait")]
    on = explanation.placement.nominated
    assert (wait.action, wait.effect) == (f"wait until {on}-1, {on}-2 have ended", f"fits {on}")


def guarded(allowed: int) -> Body:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "ml"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(
    ("allowed", "message"), [(0, ", which breaks the disruption budget keep"), (1, ""), (-1, "")]
)
def test_sch_10_a_disruption_budget_that_preemption_breaks_is_named(allowed: int, message: str) -> None:
    """SCH-10: as it will be broken, and by a higher priority; one that allows it, or is of others, is not."""
    low, manifest = pod("low", 4, on="a"), pod("p", 4)
    low["metadata"]["labels"] = {"app": "web" if allowed >= 0 else "other"}
    budget = guarded(max(0, allowed))
    low["metadata"]["namespace"] = manifest["metadata"]["namespace"] = budget["metadata"]["namespace"]
    high: Body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    snapshot = snapshot_from_documents([node("a", 4), low, budget, {**high, "value": 100}])
    [read] = manifests_from_documents([manifest])
    effects = [r.effect for r in explain_manifest(read, snapshot).remedies if "priority class" in r.action]
    assert effects == [f"fits a after evicting low{message}"]
    manifest["spec"]["priorityClassName"] = "high"
    [read] = manifests_from_documents([manifest], classes=snapshot.priority_classes)
    explanation = explain_manifest(read, snapshot)
    assert explanation.message == f"a will be cleared for it: low of lower priority must end{message}"
    assert explanation.reasons[0].facts["budgets"] == (["ml/keep"] if message else [])


def test_sch_10_a_preemption_under_way_is_waited_for_and_the_pods_own_victims_go_by_name() -> None:
    """SCH-10: before the victims are evicted, and while they end."""
    low, manifest = pod("low", 4, on="a"), pod("p", 4)
    manifest["spec"]["priorityClassName"] = "high"
    high: Body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    high["value"] = 100
    snapshot = snapshot_from_documents([node("a", 4), low, high])
    [read] = manifests_from_documents([manifest], classes=snapshot.priority_classes)
    before = explain_manifest(read, snapshot)
    assert before.message == "a will be cleared for it: low of lower priority must end"
    waits = [(r.action, r.effect) for r in before.remedies if r.action.startswith("wait")]
    assert waits == [("wait until low has ended", "fits a")], "once, not also as a node that pods must leave"
    assert (before.placement.nominated, before.placement.victims) == ("a", ("low",))
    low["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    low["status"] = {"phase": "Running", "conditions": [target]}
    manifest["status"] = {"phase": "Pending", "nominatedNodeName": "a"}
    after = snapshot_from_documents([node("a", 4), low, manifest, high])
    during = explain(after.pods[1], after)
    assert (during.verdict, during.placement.nominated) == (Verdict.NOT_NOW, "a")
    ends = "it ends by 2026-01-01 00:00 UTC, being deleted"
    assert during.message == f"a is being cleared for it: low ({ends}) of lower priority must end"
    assert during.upstream_message.endswith("due to a terminating pod on the nominated node.")


def labelled(name: str, product: str, gpus: int = 4) -> Body:
    made = node(name, gpus)
    made["metadata"]["labels"] = {"nvidia.com/gpu.product": product}
    return made


def test_waits_that_differ_only_in_whom_and_for_which_product_are_one_remedy() -> None:
    """At scale the same words would come again for every product and every node."""
    new_pod = pod("p", 2)
    new_pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "A"}
    objects = [labelled("b", "B"), pod("x", 4, on="b"), labelled("c", "C"), pod("y", 4, on="c")]
    snapshot = snapshot_from_documents(objects)
    [read] = manifests_from_documents([new_pod])
    [remedy] = explain_manifest(read, snapshot).remedies
    accept, _, wait = remedy.action.partition("; and ")
    assert accept == "accept nvidia.com/gpu.product: A or B or C"
    assert wait == "wait for these to end, or end them: x on b; or y on c"
    [changed] = manifests_from_documents([patched(new_pod, remedy.patch)])
    for other in ("x", "y"):
        left = snapshot_from_documents([one for one in objects if one["metadata"]["name"] != other])
        assert schedule(changed.pod, left).chosen == {"x": "b", "y": "c"}[other]


def test_a_jobs_deadline_says_until_when_its_pods_run() -> None:
    held = pod("x", 4, on="a")
    held["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "etl", "uid": "u", "controller": True}
    ]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "etl", "namespace": "default", "uid": "u"},
        "spec": {"activeDeadlineSeconds": 7200, "template": {}},
        "status": {"startTime": "2026-01-01T00:00:00Z"},
    }
    [action] = actions(pod("p", 4), node("a", 4), held, job)
    until = "it ends by 2026-01-01 02:00 UTC, activeDeadlineSeconds of its Job etl"
    assert action == f"wait for x ({until}) on a to end, or end it"


def test_what_ends_by_itself_comes_first_with_when() -> None:
    """SCH-10: who holds the GPUs, and until when."""
    leaving, limited, endless = (pod(name, 4, on=on) for name, on in (("x", "a"), ("y", "b"), ("z", "c")))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    limited["spec"]["activeDeadlineSeconds"] = 3600
    limited["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    plan_actions = actions(pod("p", 4), node("c", 4), endless, node("b", 4), limited, node("a", 4), leaving)
    x = "x (it ends by 2026-01-01 00:00 UTC, being deleted) on a"
    y = "y (it ends by 2026-01-01 01:00 UTC, activeDeadlineSeconds) on b"
    assert plan_actions == [f"wait for these to end, or end them: {x}; or {y}; or z on c"]


@pytest.mark.parametrize(
    ("hour", "words"),
    [
        (1, "it ends by 2026-01-01 02:00 UTC, activeDeadlineSeconds"),
        (3, "it was to end by 2026-01-01 02:00 UTC, activeDeadlineSeconds, and has not"),
    ],
)
def test_what_should_have_ended_is_told_as_late(hour: int, words: str) -> None:
    held = pod("x", 4, on="a")
    held["spec"]["activeDeadlineSeconds"] = 7200
    held["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    now = datetime(2026, 1, 1, hour, tzinfo=UTC)
    [read] = manifests_from_documents([pod("p", 4)])
    [told] = explain_manifest(read, snapshot_from_documents([node("a", 4), held], now=now)).remedies
    assert told.action == f"wait for x ({words}) on a to end, or end it"


def kept(name: str, gpus: int, on: str, kind: str, owner: str, **labels: str) -> Body:
    """A running pod that a workload keeps up."""
    made = pod(name, gpus, on=on)
    made["metadata"]["labels"] = {key.replace("_", "-"): value for key, value in labels.items()}
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
    ]
    return made


@pytest.mark.parametrize(
    ("holders", "action"),
    [
        pytest.param(
            [kept("web-5d-x", 4, "a", "ReplicaSet", "web-5d", pod_template_hash="5d")],
            "end web-5d-x on a (scale down Deployment web)",
            id="of a Deployment, which its ReplicaSet's name and the label give",
        ),
        pytest.param(
            [kept("web-5d-x", 4, "a", "ReplicaSet", "web-5d", rollouts_pod_template_hash="5d")],
            "end web-5d-x on a (scale down Rollout web)",
            id="of an Argo Rollout",
        ),
        pytest.param(
            [kept("web-x", 4, "a", "ReplicaSet", "web")],
            "end web-x on a (scale down ReplicaSet web)",
            id="of a ReplicaSet that nothing made",
        ),
        pytest.param(
            [kept("db-0", 4, "a", "StatefulSet", "db")],
            "end db-0 on a (scale down StatefulSet db)",
            id="of a StatefulSet",
        ),
        pytest.param(
            [kept("probe-x", 4, "a", "DaemonSet", "probe")],
            "end probe-x on a (keep DaemonSet probe off the node)",
            id="of a DaemonSet, which cannot be scaled",
        ),
        pytest.param(
            [kept("train-x", 4, "a", "Job", "train")],
            "wait for train-x on a to end, or end it",
            id="of a Job, which ends",
        ),
        pytest.param(
            [kept("db-0", 2, "a", "StatefulSet", "db"), pod("own", 2, on="a")],
            "end all of db-0, own on a (scale down StatefulSet db)",
            id="all must end, and one does not",
        ),
    ],
)
def test_nobody_waits_for_pods_that_their_workload_replaces(holders: list[Body], action: str) -> None:
    assert actions(pod("p", 4), node("a", 4), *holders) == [action]


def test_of_pods_that_hold_as_much_those_that_end_are_waited_for() -> None:
    lasting = kept("db-0", 2, "a", "StatefulSet", "db")
    assert actions(pod("p", 2), node("a", 4), lasting, pod("own", 2, on="a")) == [
        "wait for 1 of db-0, own on a to end, or end it (scale down StatefulSet db)"
    ]
    others = [kept("db-1", 4, "b", "StatefulSet", "db"), kept("web-0", 4, "a", "StatefulSet", "web")]
    assert actions(pod("p", 2), node("a", 4), node("b", 4), *others) == [
        "end these: db-1 on b (scale down StatefulSet db); or web-0 on a (scale down StatefulSet web)"
    ]
    lasting["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    [plan_action] = actions(pod("p", 4), node("a", 2), node("b", 4), lasting, kept("j", 4, "b", "Job", "j"))
    assert plan_action == "wait for j on b to end, or end it"
