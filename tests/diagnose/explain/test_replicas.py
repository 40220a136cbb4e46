"""`explain -f` of whole workloads: every pod placed, beside the other objects of the file."""

from __future__ import annotations

from typing import Any

import pytest

from support.explanations import A100, GPU, H100, PRODUCT, Body, node, pod
from tonnage.diagnose.explain.replicas.answers import explain_together
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.documents import snapshot_from_documents
from tonnage.reading.manifests import added_manifests

EIGHT: Body = {GPU: "8"}
GROUPS = {"Job": "batch/v1", "CronJob": "batch/v1", "PriorityClass": "scheduling.k8s.io/v1"}


def workload(kind: str, name: str, gpus: int, *, pod_spec: Body | None = None, **spec: Any) -> Body:
    limits = {GPU: str(gpus)} if gpus else {}
    containers = [{"name": "main", "image": "cuda", "resources": {"limits": limits}}]
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": containers, **(pod_spec or {})},
    }
    body = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    if kind == "CronJob":
        body = {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template, **spec}}}
    return {
        "apiVersion": GROUPS.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": name, "namespace": "ml"},
        "spec": body,
    }


def quota(gpus: int, **status: Any) -> Body:
    hard = {f"requests.{GPU}": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "ml"},
        "spec": {"hard": hard},
        **({"status": {"hard": hard, **status}} if status else {}),
    }


def priority(name: str, value: int) -> Body:
    kind = "PriorityClass"
    return {"apiVersion": GROUPS[kind], "kind": kind, "metadata": {"name": name}, "value": value}


def explained(file: list[Body], *cluster: Body) -> list[Explanation]:
    manifests, snapshot = added_manifests(file, snapshot_from_documents(list(cluster)), "ml")
    return list(explain_together(manifests, snapshot))


ONE = node("h", H100, devices=EIGHT)


@pytest.mark.parametrize(
    ("body", "cluster", "verdict", "opening"),
    [
        pytest.param(
            workload("Deployment", "web", 8, replicas=2),
            [ONE],
            Verdict.NEVER,
            "1 of 2 pods fits; the second waits: ",
            id="two replicas of eight GPUs on one node of eight",
        ),
        pytest.param(
            workload("Deployment", "web", 8, replicas=2),
            [ONE, node("i", H100, devices=EIGHT)],
            Verdict.FITS,
            "both pods fit: 1 on h, 1 on i",
            id="two replicas on two nodes",
        ),
        pytest.param(
            workload("ReplicaSet", "web", 4, replicas=3),
            [ONE, node("i", H100, devices={GPU: "4"}), pod("other", {GPU: "4"}, on="i")],
            Verdict.NOT_NOW,
            "2 of 3 pods fit; the third waits: ",
            id="three replicas fit once another pod has ended",
        ),
        pytest.param(
            workload("Job", "train", 8, parallelism=2, completions=4),
            [ONE],
            Verdict.NOT_NOW,
            "1 of 2 pods fits; the second waits: ",
            id="a Job's second pod runs once the first has ended",
        ),
        pytest.param(
            workload("Job", "train", 4, parallelism=2, completions=4),
            [ONE],
            Verdict.FITS,
            "both pods that run at a time (of 4) fit: 2 on h",
            id="a Job of more completions than parallelism places what runs at a time",
        ),
        pytest.param(
            workload("CronJob", "nightly", 8, parallelism=2, completions=2),
            [ONE],
            Verdict.NOT_NOW,
            "1 of 2 pods fits; the second waits: ",
            id="a CronJob places the pods of one of its Jobs",
        ),
        pytest.param(
            workload("StatefulSet", "db", 8, replicas=3),
            [ONE],
            Verdict.NEVER,
            "1 of 3 pods fits; db-1 waits, and the next is created once it is ready: ",
            id="a StatefulSet makes its next pod once the one before is ready",
        ),
        pytest.param(
            workload("StatefulSet", "db", 8, replicas=3, podManagementPolicy="Parallel"),
            [ONE],
            Verdict.NEVER,
            "1 of 3 pods fits; the other 2 wait: ",
            id="a StatefulSet that makes all pods at once",
        ),
        pytest.param(
            workload("DaemonSet", "exporter", 8),
            [
                ONE,
                node("i", H100, devices=EIGHT),
                pod("other", on="i"),
                node("tainted", A100, taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}]),
            ],
            Verdict.NOT_NOW,
            "1 of 2 pods fits; the one for i waits: ",
            id="a DaemonSet wants each node whose taints it tolerates",
        ),
        pytest.param(
            workload("DaemonSet", "exporter", 1, pod_spec={"nodeSelector": {PRODUCT: A100}}),
            [ONE],
            Verdict.NEVER,
            "no node matches its pods: h: ",
            id="a DaemonSet that no node is for",
        ),
        pytest.param(
            workload("DaemonSet", "exporter", 1),
            [node("h", H100, devices=EIGHT, unschedulable=True)],
            Verdict.FITS,
            "fits: h",
            id="a DaemonSet runs on a cordoned node",
        ),
        pytest.param(
            workload("Deployment", "web", 8, replicas=0),
            [ONE],
            Verdict.FITS,
            "it asks for no pods",
            id="a Deployment of no replicas",
        ),
        pytest.param(
            workload("Deployment", "web", 16, replicas=2),
            [ONE],
            Verdict.NEVER,
            "none of the 2 pods fits: ",
            id="a Deployment of which no pod fits",
        ),
        pytest.param(
            workload("Deployment", "web", 8, replicas=10_000),
            [ONE],
            Verdict.NEVER,
            "1 of 10,000 pods fits; the other 9,999 wait: ",
            id="ten thousand replicas",
        ),
    ],
)
def test_every_pod_of_a_workload_is_placed(
    body: Body, cluster: list[Body], verdict: Verdict, opening: str
) -> None:
    [answer] = explained([body], *cluster)
    assert (answer.verdict, answer.message[: len(opening)]) == (verdict, opening)


def test_two_thousand_million_replicas_take_no_longer_than_two() -> None:
    [answer] = explained([workload("Deployment", "web", 8, replicas=2_000_000_000)], ONE)
    assert answer.counts is not None
    assert (answer.counts.desired, answer.counts.fit) == (2_000_000_000, 1)
    assert [group.count for group in answer.pods] == [1_999_999_999, 1]
    assert len(answer.pods[0].names) == 100


def test_the_json_counts_pods_and_says_where_they_go() -> None:
    [answer] = explained([workload("Deployment", "web", 8, replicas=3)], ONE)
    body = answer.to_json()
    assert body["replicas"] == {"desired": 3, "fit": 1, "nodes": {"h": 1}}
    groups = [(group["names"], group["verdict"]) for group in body["pods"]]  # type: ignore[call-overload, index, union-attr]
    assert groups == [(["web-new-1", "web-new-2"], "NOT_NOW"), (["web-new-0"], "FITS")]


def test_a_workload_that_asks_for_too_much_is_helped_by_nodes_or_by_asking_for_less() -> None:
    [answer] = explained([workload("Deployment", "web", 8, replicas=3)], ONE)
    assert [remedy.action for remedy in answer.remedies] == [
        "add 2 nodes like h",
        "ask for 1 replica, not 3",
    ]
    assert answer.remedies[1].patch == {"spec": {"replicas": 1}}


def test_a_job_waits_for_its_own_pods_and_a_deployment_does_not() -> None:
    [job] = explained([workload("Job", "train", 8, parallelism=2, completions=2)], ONE)
    assert [remedy.action for remedy in job.remedies] == ["wait for train-new-0 on h to end, or end it"]


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        pytest.param(("low", "high"), {"low": 0, "high": 1}, id="the higher priority comes first"),
        pytest.param(("first", "second"), {"first": 1, "second": 0}, id="equals come as they stand"),
    ],
)
def test_workloads_of_a_file_are_placed_as_the_scheduler_takes_them(
    names: tuple[str, str], taken: dict[str, int]
) -> None:
    classes = {"high": {"priorityClassName": "urgent"}}
    bodies = [workload("Deployment", name, 8, replicas=1, pod_spec=classes.get(name)) for name in names]
    answers = explained([*bodies, priority("urgent", 1000)], ONE)
    fits = {answer.subject.name: int(answer.verdict is Verdict.FITS) for answer in answers}
    assert fits == taken
    loser = next(answer for answer in answers if answer.verdict is not Verdict.FITS)
    assert loser.message.startswith("what comes before it leaves no room: ")


def test_a_bare_pod_takes_the_place_that_a_later_one_would_have() -> None:
    first, second = explained([pod("a", {GPU: "5"}), pod("b", {GPU: "5"})], ONE)
    assert (first.verdict, second.verdict) == (Verdict.FITS, Verdict.NOT_NOW)


def test_a_pod_that_needs_another_of_the_file_beside_it_fits() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    near: Body = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    answers = explained([workload("Deployment", "web", 4, replicas=1), pod("near", **near)], ONE)
    assert [answer.verdict for answer in answers] == [Verdict.FITS, Verdict.FITS]


@pytest.mark.parametrize(
    ("there", "opening"),
    [
        pytest.param([], "2 of 3 pods fit; the API server refuses the third: ", id="of the file itself"),
        pytest.param(
            [quota(100, used={f"requests.{GPU}": "0"})],
            "2 of 3 pods fit; the API server refuses the third: ",
            id="of the file instead of the cluster's",
        ),
    ],
)
def test_a_quota_is_used_up_on_the_way(there: list[Body], opening: str) -> None:
    body = workload("Deployment", "web", 2, replicas=3)
    [answer] = explained([quota(5), body], ONE, *there)
    assert (str(answer.layer), answer.message[: len(opening)]) == ("quota", opening)
    assert answer.verdict is Verdict.NEVER


def test_a_quota_of_the_cluster_counts_every_replica() -> None:
    body = workload("Deployment", "web", 2, replicas=3)
    [answer] = explained([body], ONE, quota(6, used={f"requests.{GPU}": "1"}))
    assert (str(answer.layer), answer.verdict) == ("quota", Verdict.NOT_NOW)
    assert answer.message.startswith("2 of 3 pods fit; the API server refuses the third: ")


def test_a_limit_range_of_the_file_fills_in_what_its_pods_ask() -> None:
    limits = [{"type": "Container", "default": {"cpu": "60"}, "defaultRequest": {"cpu": "60"}}]
    limit_range = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "cpus", "namespace": "ml"},
        "spec": {"limits": limits},
    }
    body = workload("Deployment", "web", 1, replicas=2)
    assert explained([body], ONE)[0].verdict is Verdict.FITS
    assert explained([limit_range, body], ONE)[0].message.startswith("1 of 2 pods fits; the second waits: ")


def test_pods_of_a_workload_that_is_applied_again_make_way() -> None:
    body = workload("Deployment", "web", 8, replicas=1)
    running = pod("web-5f-x", EIGHT, on="h")
    running["metadata"] |= {
        "labels": {"app": "web", "pod-template-hash": "5f"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5f", "uid": "r", "controller": True}
        ],
    }
    [again] = explained([body], ONE, running)
    assert (again.verdict, again.message) == (Verdict.FITS, "fits h")


def test_a_replica_that_others_must_go_for_does_not_fit_yet() -> None:
    body = workload("Deployment", "web", 4, replicas=2, pod_spec={"priorityClassName": "urgent"})
    [answer] = explained([body, priority("urgent", 1000)], ONE, pod("low", {GPU: "4"}, on="h", priority=0))
    assert answer.verdict is Verdict.NOT_NOW
    assert answer.message.startswith("1 of 2 pods fits; the second waits: ")
    assert answer.placement.victims == ("low",)


def effects(answer: Explanation) -> dict[str, str]:
    return {remedy.action: remedy.effect for remedy in answer.remedies}


def test_a_quota_is_raised_by_what_all_waiting_pods_need() -> None:
    body = workload("Deployment", "web", 1, replicas=5)
    [answer] = explained([body], ONE, quota(2, used={f"requests.{GPU}": "0"}))
    [(action, effect)] = [entry for entry in effects(answer).items() if entry[0].startswith("raise it")]
    assert f'"requests.{GPU}": "5"' in action
    assert effect.endswith("; all 5 pods fit")


def test_what_never_fits_is_not_blamed_on_what_comes_before_it() -> None:
    bodies = [workload("Job", "first", 1), workload("Job", "large", 9)]
    fits, never = explained(bodies, ONE)
    assert fits.verdict is Verdict.FITS
    assert never.message == f"node h does not take it: too small in {GPU}"


def test_a_taint_is_tolerated_by_all_pods_of_which_some_have_room() -> None:
    taint = {"key": "team", "value": "b", "effect": "NoSchedule"}
    [answer] = explained(
        [workload("Deployment", "web", 4, replicas=3)], node("h", H100, devices=EIGHT, taints=[taint])
    )
    assert effects(answer)["tolerate the taint team=b:NoSchedule"] == "fits h; 2 of 3 pods fit"


def test_asking_for_less_counts_what_other_manifests_of_the_files_take() -> None:
    first, second = workload("Job", "first", 4), workload("Deployment", "web", 10, replicas=3)
    answers = explained([first, second], node("h", H100, devices=EIGHT))
    assert effects(answers[1])["ask for 4 nvidia.com/gpu"] == "fits h; 1 of 3 pods fits"


def test_remedies_of_many_workloads_are_tried_with_one_pod_each() -> None:
    many = [workload("Deployment", f"web-{number}", 10, replicas=2) for number in range(40)]
    answers = explained(many, node("h", H100, devices=EIGHT))
    tried = "fits h; tried with one pod, as there are 40 workloads"
    assert {effects(answer)["ask for 8 nvidia.com/gpu"] for answer in answers} == {tried}
