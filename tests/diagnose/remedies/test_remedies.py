"""Every remedy that is offered works: applied as the API server would, over all recorded refusals."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tonnage.decide.kubernetes.api.patches.strategic_merge import strategic_merge
from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.diagnose.explain.explain import explain, explain_manifest
from tonnage.diagnose.explain.text import explanation_lines
from tonnage.model.kubernetes.cluster import PriorityClass, Snapshot
from tonnage.model.reasons.gpu.devices import DeviceUnhealthy
from tonnage.model.verdict import Verdict
from tonnage.reading.cluster import snapshot_from
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents
from tonnage.wire import objects as w
from tonnage.wire.schema import load_schema

Body = dict[str, Any]
_FILE: Final = Path(__file__).parents[2] / "data" / "kube-scheduler-1.35.4-fuzz-700.json.gz"
GPU = "nvidia.com/gpu"


@cache
def refused() -> dict[str, tuple[Body, Snapshot]]:
    """Pending pods (as manifests) that the real scheduler refused, with their clusters."""
    found: dict[str, tuple[Body, Snapshot]] = {}
    with gzip.open(_FILE) as file:
        for case in json.load(file)["cases"]:
            scenario = case["scenario"]
            pod = scenario["pending"][0]
            if "node" in case["expect"] or pod["spec"].get("resourceClaims"):
                continue
            objects: list[w.Object] = [msgspec.convert(node, w.Node) for node in scenario["nodes"]]
            objects += [msgspec.convert(other, w.Pod) for other in scenario["pods"]]
            classes = [w.PriorityClass(metadata=w.ObjectMeta(name=f"p{n}"), value=n) for n in (50, 5000)]
            manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"], "spec": pod["spec"]}
            found[scenario["name"]] = manifest, snapshot_from([*objects, *classes], server_version="1.35.4")
    return found


def patched(manifest: Body, patch: Body) -> Body:
    """The manifest as a person would send it: its priority is for admission to fill in."""
    bare = {**manifest, "spec": {k: v for k, v in manifest["spec"].items() if k != "priority"}}
    kept = manifest if "priorityClassName" not in patch["spec"] else bare
    return {**manifest, **strategic_merge(load_schema(), "core/v1.Pod", kept, patch)}


def of_a_class(manifest: Body, snapshot: Snapshot) -> tuple[Body, Snapshot]:
    """Pods recorded of a scheduler alone have priorities that the API server does not take."""
    own = ("priority", "preemptionPolicy", "priorityClassName")
    spec = {key: value for key, value in manifest["spec"].items() if key not in own}
    may_preempt = manifest["spec"].get("preemptionPolicy") != "Never"
    made = PriorityClass("made", manifest["spec"].get("priority", 0), may_preempt=may_preempt)
    there = replace(snapshot, priority_classes=(*snapshot.priority_classes, made))
    return {**manifest, "spec": {**spec, "priorityClassName": made.name}}, there


@pytest.mark.parametrize("part", range(8))
def test_every_patch_offered_for_a_recorded_refusal_places_the_pod(part: int) -> None:
    offered = 0
    for one in list(refused().values())[part::8]:
        manifest, snapshot = of_a_class(*one)
        [read] = manifests_from_documents([manifest], classes=snapshot.priority_classes)
        explanation = explain_manifest(read, snapshot)
        assert explanation.verdict is not Verdict.FITS
        assert len(explanation.remedies) == len({r.action for r in explanation.remedies})
        edits = [
            json.dumps(r.patch, sort_keys=True)
            for r in explanation.remedies
            if r.patch and "wait" not in r.action
        ]
        assert len(edits) == len(set(edits))
        assert all(len(line) < 1200 for line in explanation_lines(explanation))
        for remedy in explanation.remedies:
            if not remedy.patch or any(
                told in remedy.action for told in ("wait for", "uncordon", "kubectl label")
            ):
                continue
            [changed] = manifests_from_documents(
                [patched(manifest, remedy.patch)], classes=snapshot.priority_classes
            )
            decision = schedule(changed.pod, snapshot)
            assert decision.chosen or decision.nominated, (manifest, remedy)
            assert str(decision.chosen or decision.nominated) in remedy.effect
            offered += 1
    assert offered > 3


def node(name: str, gpus: int, *, resource: str = GPU, taints: Any = ()) -> Body:
    amounts = {"cpu": "64", "memory": "1Ti", "pods": "110", resource: gpus}
    status = {"allocatable": amounts, "capacity": amounts}
    spec = {"taints": [*taints]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": status}


def pod(name: str, gpus: int, *, on: str = "", resource: str = GPU) -> Body:
    container = {"name": "c", "image": "i", "resources": {"limits": {resource: gpus}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def actions(manifest: Body, *objects: Body) -> list[str]:
    snapshot = snapshot_from_documents([{"kind": "List", "items": [*objects]}])
    [read] = manifests_from_documents([manifest])
    return [remedy.action for remedy in explain_manifest(read, snapshot).remedies]


def test_a_repair_comes_before_what_the_pod_gives_up() -> None:
    closed, small = node("closed", 8), node("small", 4)
    closed["spec"]["unschedulable"] = True
    assert actions(pod("p", 8), closed, small) == [
        "uncordon closed: kubectl uncordon closed",
        "ask for 4 nvidia.com/gpu",
    ]
    broken = node("broken", 8)
    broken["status"] |= {"allocatable": {**broken["status"]["allocatable"], GPU: 7}}
    repair, less = actions(pod("p", 8), broken)
    assert repair.startswith("repair on broken ")
    assert less == "ask for 7 nvidia.com/gpu"


def test_waiting_comes_before_several_changes_that_give_something_up() -> None:
    shared = "nvidia.com/gpu.shared"
    mine = node("mine", 1, resource=shared)
    mine["metadata"]["labels"] = {"pool": "serving"}
    asking = pod("p", 1, resource=shared)
    asking["spec"]["nodeSelector"] = {"pool": "serving"}
    wait, change = actions(asking, mine, node("whole", 4), pod("holder", 1, on="mine", resource=shared))
    assert wait == "wait for holder on mine to end, or end it"
    assert change.startswith("label the nodes that are meant: ")
    assert "; and ask for nvidia.com/gpu" in change


def test_of_requests_that_would_do_the_largest_is_offered() -> None:
    assert actions(pod("p", 8), node("four", 4), node("five", 5)) == ["ask for 5 nvidia.com/gpu"]


def test_a_trainer_of_four_gpus_is_not_offered_one() -> None:
    assert not any(action.startswith("ask for 1") for action in actions(pod("p", 4), node("one", 1)))
    assert actions(pod("p", 2), node("one", 1)) == ["ask for 1 nvidia.com/gpu"]


def test_devices_of_a_node_that_refuses_the_pod_anyway_are_not_its_trouble() -> None:
    broken = node("broken", 8, taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}])
    broken["status"] |= {"allocatable": {**broken["status"]["allocatable"], GPU: 7}}
    snapshot = snapshot_from_documents([{"kind": "List", "items": [broken, node("full", 4)]}])
    [read] = manifests_from_documents([pod("p", 8)])
    explanation = explain_manifest(read, snapshot)
    assert DeviceUnhealthy.code not in {reason.code for reason in explanation.reasons}
    assert not any(remedy.action.startswith("repair") for remedy in explanation.remedies)


def test_a_change_that_is_not_needed_is_left_out() -> None:
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    found = actions(pod("p", 9), node("a", 4), node("b", 8, taints=[taint]))
    assert found == [
        "ask for 4 nvidia.com/gpu",
        "tolerate the taint dedicated:NoSchedule; and ask for 8 nvidia.com/gpu",
    ]


def test_waiting_says_how_many_of_which() -> None:
    running = [pod(f"one-{i}", 1, on="a") for i in range(4)]
    assert actions(pod("p", 2), node("a", 4), *running) == [
        "wait for 2 of one-0, one-1, one-2, one-3 on a to end, or end them"
    ]
    assert actions(pod("p", 4), node("a", 4), pod("x", 1, on="a"), pod("y", 3, on="a")) == [
        "wait for all of y, x on a to end, or end them"
    ]


def test_a_share_is_offered_for_one_gpu_never_for_several() -> None:
    shared = "nvidia.com/gpu.shared"
    assert actions(pod("p", 1), node("a", 4, resource=shared)) == [
        f"ask for {shared} instead of {GPU}: a share of a GPU instead of a whole one"
    ]
    assert not any("instead of" in action for action in actions(pod("p", 2), node("a", 4, resource=shared)))


def test_sch_10_several_victims_are_waited_for_once() -> None:
    """SCH-10: those of the node that will be cleared; no other node's pods need end by hand."""
    lesser = [pod(f"{on}-{n}", 1, on=on) for on in "ab" for n in (1, 2)]
    manifest = pod("p", 2)
    manifest["spec"]["priority"] = 100
    [read] = manifests_from_documents([manifest])
    found = explain_manifest(read, snapshot_from_documents([node("a", 2), node("b", 2), *lesser]))
    [wait] = [remedy for remedy in found.remedies if remedy.action.startswith("wait")]
    on = found.placement.nominated
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
    ("allowed", "told"), [(0, ", which breaks the disruption budget keep"), (1, ""), (-1, "")]
)
def test_sch_10_a_disruption_budget_that_preemption_breaks_is_named(allowed: int, told: str) -> None:
    """SCH-10: as it will be broken, and by a higher priority; one that allows it, or is of others, is not."""
    low, manifest = pod("low", 4, on="a"), pod("p", 4)
    low["metadata"]["labels"] = {"app": "web" if allowed >= 0 else "other"}
    budget = guarded(max(0, allowed))
    low["metadata"]["namespace"] = manifest["metadata"]["namespace"] = budget["metadata"]["namespace"]
    high: Body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    snapshot = snapshot_from_documents([node("a", 4), low, budget, {**high, "value": 100}])
    [read] = manifests_from_documents([manifest])
    effects = [r.effect for r in explain_manifest(read, snapshot).remedies if "priority class" in r.action]
    assert effects == [f"fits a after evicting low{told}"]
    manifest["spec"]["priorityClassName"] = "high"
    [read] = manifests_from_documents([manifest], classes=snapshot.priority_classes)
    found = explain_manifest(read, snapshot)
    assert found.message == f"a will be cleared for it: low of lower priority must end{told}"
    assert found.reasons[0].facts["budgets"] == (["ml/keep"] if told else [])


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


def test_a_whole_gpu_is_offered_for_a_part_never_a_part_for_a_whole() -> None:
    part = "nvidia.com/mig-1g.10gb"
    assert actions(pod("p", 1, resource=part), node("a", 4))[0] == (
        f"ask for {GPU} instead of {part}: a whole GPU instead of a part"
    )
    assert not any("instead of" in action for action in actions(pod("p", 1), node("a", 7, resource=part)))


def test_a_workloads_patch_is_one_of_its_template() -> None:
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    snapshot = snapshot_from_documents([node("a", 1, taints=[taint])])
    deployment: Body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    deployment["spec"] = {"template": {"spec": pod("p", 1)["spec"]}}
    [read] = manifests_from_documents([deployment])
    [remedy] = explain_manifest(read, snapshot).remedies
    changed = strategic_merge(load_schema(), "apps/v1.Deployment", deployment, remedy.patch)
    [again] = manifests_from_documents([{**deployment, **changed}])
    assert schedule(again.pod, snapshot).chosen == "a"


def labelled(name: str, product: str, gpus: int = 4) -> Body:
    made = node(name, gpus)
    made["metadata"]["labels"] = {"nvidia.com/gpu.product": product}
    return made


def test_waits_that_differ_only_in_whom_and_for_which_product_are_one_remedy() -> None:
    """At scale the same words would come again for every product and every node."""
    wanted = pod("p", 2)
    wanted["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "A"}
    objects = [labelled("b", "B"), pod("x", 4, on="b"), labelled("c", "C"), pod("y", 4, on="c")]
    snapshot = snapshot_from_documents(objects)
    [read] = manifests_from_documents([wanted])
    [remedy] = explain_manifest(read, snapshot).remedies
    accept, _, wait = remedy.action.partition("; and ")
    assert accept == "accept nvidia.com/gpu.product: A or B or C"
    assert wait == "wait for these to end, or end them: x on b; or y on c"
    [changed] = manifests_from_documents([patched(wanted, remedy.patch)])
    for other in ("x", "y"):
        left = snapshot_from_documents([one for one in objects if one["metadata"]["name"] != other])
        assert schedule(changed.pod, left).chosen == {"x": "b", "y": "c"}[other]


def test_a_plan_that_changes_more_and_waits_all_the_same_is_left_out() -> None:
    taint = {"key": "team", "effect": "NoSchedule"}
    objects = [node("a", 4), pod("x", 4, on="a"), node("b", 4, taints=[taint]), pod("y", 4, on="b")]
    assert actions(pod("p", 2), *objects) == [
        "wait for x on a to end, or end it",
        "tolerate the taint team:NoSchedule; and wait for y on b to end, or end it",
    ]
    objects[0]["spec"]["taints"] = [taint]
    objects[2]["spec"]["taints"].append({"key": "more", "effect": "NoSchedule"})
    assert actions(pod("p", 2), *objects) == [
        "tolerate the taint team:NoSchedule; and wait for x on a to end, or end it"
    ]


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
    found = actions(pod("p", 4), node("c", 4), endless, node("b", 4), limited, node("a", 4), leaving)
    x = "x (it ends by 2026-01-01 00:00 UTC, being deleted) on a"
    y = "y (it ends by 2026-01-01 01:00 UTC, activeDeadlineSeconds) on b"
    assert found == [f"wait for these to end, or end them: {x}; or {y}; or z on c"]


def test_cpu_and_memory_beyond_every_node_are_offered_as_much_as_the_largest_has() -> None:
    for resource, asked, most, told in (
        ("cpu", "80", "64", "request 64 cpu, which is free, not 80"),
        ("memory", "2Ti", str(2**40), "request 1024Gi memory, which is free, not 2048Gi"),
    ):
        wanted = pod("p", 1)
        wanted["spec"]["containers"][0]["resources"]["requests"] = {resource: asked}
        small = node("b", 4)
        small["status"] = {part: {**small["status"][part], resource: "10"} for part in small["status"]}
        snapshot = snapshot_from_documents([node("a", 4), small])
        [read] = manifests_from_documents([wanted])
        first = explain_manifest(read, snapshot).remedies[0]
        assert (first.action, first.effect) == (told, "fits a")
        asking = [{"name": "c", "resources": {"requests": {resource: most}}}]
        assert first.patch == {"spec": {"containers": asking}}
        [changed] = manifests_from_documents([patched(wanted, first.patch)])
        assert schedule(changed.pod, snapshot).chosen == "a"


@pytest.mark.parametrize(
    ("hour", "said"),
    [
        (1, "it ends by 2026-01-01 02:00 UTC, activeDeadlineSeconds"),
        (3, "it was to end by 2026-01-01 02:00 UTC, activeDeadlineSeconds, and has not"),
    ],
)
def test_what_should_have_ended_is_told_as_late(hour: int, said: str) -> None:
    held = pod("x", 4, on="a")
    held["spec"]["activeDeadlineSeconds"] = 7200
    held["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    now = datetime(2026, 1, 1, hour, tzinfo=UTC)
    [read] = manifests_from_documents([pod("p", 4)])
    [told] = explain_manifest(read, snapshot_from_documents([node("a", 4), held], now=now)).remedies
    assert told.action == f"wait for x ({said}) on a to end, or end it"


def test_what_is_free_is_never_less_than_none() -> None:
    """A node that is kept for a nominated pod while its victim ends has more asked of it than it has."""
    going, nominated, wanted = pod("x", 4, on="a"), pod("n", 4), pod("p", 2)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    nominated["spec"]["priority"] = 100
    nominated["status"] = {"phase": "Pending", "nominatedNodeName": "a"}
    [read] = manifests_from_documents([wanted])
    found = explain_manifest(read, snapshot_from_documents([node("a", 4), going, nominated]))
    text = "\n".join(explanation_lines(found))
    assert "asks 2 nvidia.com/gpu, none free (8 of 4 spoken for)" in text


def test_sch_6_a_label_of_nobody_is_tried_before_it_is_offered() -> None:
    """With what else is needed; where another thing stays in the way it is not offered at all."""
    wanted = pod("p", 9)
    wanted["spec"]["nodeSelector"] = {"team": "ml"}
    assert actions(wanted, node("a", 4)) == [
        "label the nodes that are meant: kubectl label node a team=ml; and ask for 4 nvidia.com/gpu"
    ]
    assert actions(wanted, node("a", 16)) == ["label the nodes that are meant: kubectl label node a team=ml"]
    assert not any("label" in told for told in actions(wanted, node("a", 0)))


@pytest.mark.parametrize(
    ("operator", "value", "told"),
    [
        ("Gt", "7", "label the nodes that are meant: kubectl label node a x=8"),
        ("Lt", "7", "label the nodes that are meant: kubectl label node a x=6"),
        ("Gt", "abc", "correct the value"),
    ],
)
def test_sch_6_a_comparison_is_answered_by_a_label_only_where_one_can_match(
    operator: str, value: str, told: str
) -> None:
    wanted = pod("p", 1)
    required = {"matchExpressions": [{"key": "x", "operator": operator, "values": [value]}]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [required]}}
    wanted["spec"]["affinity"] = {"nodeAffinity": terms}
    assert actions(wanted, node("a", 4)) == [told]


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
    [told] = actions(pod("p", 4), node("a", 2), node("b", 4), lasting, kept("j", 4, "b", "Job", "j"))
    assert told == "wait for j on b to end, or end it"
