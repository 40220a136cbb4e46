"""Which remedies are offered, in which order, and what they say."""

from __future__ import annotations

import pytest

from support.remedy_scenes import GPU, Body, actions, node, patched, pod
from tonnage.decide.kubernetes.api.patches.strategic_merge import strategic_merge
from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.diagnose.explain.explain import explain_manifest
from tonnage.diagnose.explain.text import explanation_lines
from tonnage.model.reasons.gpu.devices import DeviceUnhealthy
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents
from tonnage.wire.schema import load_schema


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
    new_node = node("mine", 1, resource=shared)
    new_node["metadata"]["labels"] = {"pool": "serving"}
    asking = pod("p", 1, resource=shared)
    asking["spec"]["nodeSelector"] = {"pool": "serving"}
    wait, change = actions(asking, new_node, node("whole", 4), pod("holder", 1, on="mine", resource=shared))
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
    plan_actions = actions(pod("p", 9), node("a", 4), node("b", 8, taints=[taint]))
    assert plan_actions == [
        "ask for 4 nvidia.com/gpu",
        "tolerate the taint dedicated:NoSchedule; and ask for 8 nvidia.com/gpu",
    ]


def test_a_share_is_offered_for_one_gpu_never_for_several() -> None:
    shared = "nvidia.com/gpu.shared"
    assert actions(pod("p", 1), node("a", 4, resource=shared)) == [
        f"ask for {shared} instead of {GPU}: a share of a GPU instead of a whole one"
    ]
    assert not any("instead of" in action for action in actions(pod("p", 2), node("a", 4, resource=shared)))


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


def test_cpu_and_memory_beyond_every_node_are_offered_as_much_as_the_largest_has() -> None:
    for resource, asked, most, told in (
        ("cpu", "80", "64", "request 64 cpu, which is free, not 80"),
        ("memory", "2Ti", str(2**40), "request 1024Gi memory, which is free, not 2048Gi"),
    ):
        new_pod = pod("p", 1)
        new_pod["spec"]["containers"][0]["resources"]["requests"] = {resource: asked}
        small = node("b", 4)
        small["status"] = {part: {**small["status"][part], resource: "10"} for part in small["status"]}
        snapshot = snapshot_from_documents([node("a", 4), small])
        [read] = manifests_from_documents([new_pod])
        first = explain_manifest(read, snapshot).remedies[0]
        assert (first.action, first.effect) == (told, "fits a")
        asking = [{"name": "c", "resources": {"requests": {resource: most}}}]
        assert first.patch == {"spec": {"containers": asking}}
        [changed] = manifests_from_documents([patched(new_pod, first.patch)])
        assert schedule(changed.pod, snapshot).chosen == "a"


def test_what_is_free_is_never_less_than_none() -> None:
    """A node that is kept for a nominated pod while its victim ends has more asked of it than it has."""
    going, nominated, wanted = pod("x", 4, on="a"), pod("n", 4), pod("p", 2)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    nominated["spec"]["priority"] = 100
    nominated["status"] = {"phase": "Pending", "nominatedNodeName": "a"}
    [read] = manifests_from_documents([wanted])
    explanation = explain_manifest(read, snapshot_from_documents([node("a", 4), going, nominated]))
    text = "\n".join(explanation_lines(explanation))
    assert "asks 2 nvidia.com/gpu, none free (8 of 4 taken)" in text


def test_sch_6_a_label_of_nobody_is_tried_before_it_is_offered() -> None:
    """With what else is needed; where another thing stays in the way it is not offered at all."""
    new_pod = pod("p", 9)
    new_pod["spec"]["nodeSelector"] = {"team": "ml"}
    assert actions(new_pod, node("a", 4)) == [
        "label the nodes that are meant: kubectl label node a team=ml; and ask for 4 nvidia.com/gpu"
    ]
    assert actions(new_pod, node("a", 16)) == ["label the nodes that are meant: kubectl label node a team=ml"]
    assert not any("label" in action for action in actions(new_pod, node("a", 0)))


@pytest.mark.parametrize(
    ("operator", "value", "message"),
    [
        ("Gt", "7", "label the nodes that are meant: kubectl label node a x=8"),
        ("Lt", "7", "label the nodes that are meant: kubectl label node a x=6"),
        ("Gt", "abc", "correct the value"),
    ],
)
def test_sch_6_a_comparison_is_answered_by_a_label_only_where_one_can_match(
    operator: str, value: str, message: str
) -> None:
    new_pod = pod("p", 1)
    required = {"matchExpressions": [{"key": "x", "operator": operator, "values": [value]}]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [required]}}
    new_pod["spec"]["affinity"] = {"nodeAffinity": terms}
    assert actions(new_pod, node("a", 4)) == [message]
