"""What-if: nodes and workloads changed, pods placed again; SCH-7, SCH-11, MIG-5, POL-4."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.decide.cluster.packing.fragments import Fragments, typical_of
from tonnage.decide.cluster.packing.room import Room
from tonnage.diagnose.simulate.outcomes import Outcome, WhatIf
from tonnage.diagnose.simulate.text import paragraphs_of, rows_of
from tonnage.diagnose.simulate.trying import what_if
from tonnage.model.changes import (
    AddNodes,
    AddWorkload,
    Alternative,
    Change,
    Chosen,
    Cordon,
    Drain,
    RemoveNodes,
    Replay,
    Scale,
    SetMig,
    SetSharing,
)
from tonnage.model.cluster import (
    Affinity,
    Container,
    DisruptionBudget,
    Manifest,
    Node,
    Owner,
    Pod,
    PodStatus,
    PodTerm,
    PriorityClass,
    Quota,
    Snapshot,
    WrittenAmounts,
)
from tonnage.model.errors import ConfigError
from tonnage.model.gpu_status import DeviceHolder, GpuDevice, GpuStatus
from tonnage.model.resource_claims import (
    AllocatedDevice,
    Allocation,
    ClaimTemplate,
    Consumer,
    Device,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    NodeScope,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
)
from tonnage.model.selectors import LabelSelector, Requirement, Taint
from tonnage.model.trace import Job, Machine

GPU = "nvidia.com/gpu"
SMALL = "nvidia.com/mig-1g.10gb"
A100, T4, H100 = "NVIDIA-A100-SXM4-80GB", "Tesla-T4", "NVIDIA-H100-80GB-HBM3"
GIB = 1 << 30


def node(name: str, gpus: int = 4, product: str = A100, cpu: int = 64, **more: object) -> Node:
    amounts = {"cpu": 1000 * cpu, "memory": 512 * GIB, "pods": 110, GPU: gpus}
    labels = {"kubernetes.io/hostname": name}
    if product:
        labels |= {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(gpus)}
    base = Node(name, labels, allocatable=amounts, capacity=amounts)
    return replace(base, **more)  # type: ignore[arg-type]


def pod(
    name: str, amount: int = 1, resource: str = GPU, *, on: str = "", cpu: int = 1, **more: object
) -> Pod:
    asks = {"cpu": 1000 * cpu, "memory": GIB, **({resource: amount} if amount else {})}
    base = Pod(name, "ml", f"uid-{name}", containers=(Container("main", "app", asks, asks),), node_name=on)
    status = PodStatus("Running" if on else "Pending")
    return replace(base, **{"owner": Owner("Job", name.split("-", maxsplit=1)[0]), "status": status, **more})  # type: ignore[arg-type]


def tried(snapshot: Snapshot, *changes: Change) -> Outcome:
    return what_if(snapshot, [Alternative("after", changes)]).alternatives[0]


def problems(snapshot: Snapshot, *changes: Change) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        tried(snapshot, *changes)
    return [(problem.what, problem.remedy) for problem in caught.value.problems]


def free(outcome: Outcome, resource: str = GPU) -> int:
    found = outcome.resource(resource)
    return found.free if found else 0


def allocatable(outcome: Outcome, resource: str) -> int:
    found = outcome.resource(resource)
    return found.allocatable if found else 0


def waiting(outcome: Outcome) -> dict[str, int]:
    return {one.code: len(one.pods) for one in outcome.waiting}


def whereabouts(outcome: Outcome) -> dict[str, str | None]:
    return {fate.candidate.pod.name: fate.node for fate in outcome.fates}


FLEET = tuple(node(f"a100-{n}") for n in range(8))
_PARTS = {**FLEET[0].capacity, SMALL: 28, GPU: 0}
DIVIDED = replace(FLEET[0], capacity=_PARTS, allocatable=_PARTS)
CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def test_sch_11_thirty_six_wanted_thirty_two_there_four_wait() -> None:
    jobs = [pod(f"train-{n}", 4) for n in range(4)]
    jobs += [pod(f"inference-{n}") for n in range(12)] + [pod(f"notebook-{n}") for n in range(8)]
    pods = tuple(replace(one, priority=100 - n) for n, one in enumerate(jobs))
    answer = what_if(Snapshot(FLEET, pods), [Alternative("one-more", (AddNodes(1, like="a100-0"),))])
    figures = answer.before.resource(GPU)
    assert figures is not None
    assert (figures.capacity, figures.allocated, figures.free) == (32, 32, 0)
    assert answer.before.counts["pending"] == 4
    assert waiting(answer.before) == {"insufficient-resource": 4}
    assert answer.alternatives[0].counts["pending"] == 0
    assert not answer.worse


def test_sch_7_a_whole_gpu_job_after_the_node_went_all_1g() -> None:
    snapshot = Snapshot((node("a100-0", 2),), (pod("train-0", 1),))
    after = tried(snapshot, SetMig(Chosen("a100-*"), "all-1g.10gb"))
    assert allocatable(after, SMALL) == 14
    assert allocatable(after, GPU) == 0
    assert waiting(after) == {"resource-renamed": 1}
    routed = tried(
        replace(snapshot, nodes=(*snapshot.nodes, node("h100-0", 1, H100))),
        SetMig(Chosen("a100-*"), "all-1g.10gb"),
    )
    assert whereabouts(routed) == {"train-0": "h100-0"}


def test_mig_5_a_t4_is_refused_with_the_alternatives() -> None:
    fleet = (node("t4-0", 1, T4), node("v100-0", 1, "Tesla-V100-SXM2-16GB"), node("x-0", 1, "NVIDIA-X"))
    snapshot = Snapshot((*fleet, node("a100-0")))
    found = problems(snapshot, *(SetMig(Chosen(name), "all-1g.10gb") for name in ("t4-0", "v100-0", "x-0")))
    assert [what for what, _ in found] == [
        "Tesla T4 cannot be divided by MIG (node t4-0)",
        "Tesla-V100-SXM2-16GB cannot be divided by MIG (node v100-0)",
        "whether NVIDIA-X can be divided by MIG is not known here (node x-0)",
    ]
    assert all("A100 80GB" in remedy for _, remedy in found)
    assert "time-slicing" in found[0][1]
    assert "lgip" in found[2][1]


def test_pol_4_services_on_mig_notebooks_on_shared_t4s_training_on_whole_gpus() -> None:
    fleet = (node("h100-0", 2, H100), *(node(f"t4-{n}", 1, T4) for n in range(3)), node("a100-0"))
    pods = (
        *(pod(f"service-{n}", 1, SMALL) for n in range(4)),
        *(pod(f"notebook-{n}", 1, "nvidia.com/gpu.shared") for n in range(20)),
        pod("train-0", 4),
    )
    layouts = [
        Alternative("whole"),
        Alternative(
            "tiers",
            (SetMig(Chosen("h100-*"), "all-1g.10gb"), SetSharing(Chosen("t4-*"), 8, rename=True)),
        ),
    ]
    answer = what_if(Snapshot(fleet, pods), layouts)
    assert [outcome.counts["pending"] for outcome in answer.alternatives] == [24, 0]
    places = whereabouts(answer.alternatives[1])
    assert places["train-0"] == "a100-0"
    assert {places[f"service-{n}"] for n in range(4)} == {"h100-0"}
    assert {places[f"notebook-{n}"] for n in range(20)} == {"t4-0", "t4-1", "t4-2"}


def test_who_runs_on_a_gpu_that_is_divided_has_to_move() -> None:
    pods = (pod("a-0", 1, on="a100-0"), pod("b-0", 0, on="a100-0"), pod("c-0", 1, on="a100-1", owner=None))
    snapshot = Snapshot(FLEET[:2], pods)
    after = tried(snapshot, SetMig(Chosen("a100-0"), "all-balanced"))
    assert whereabouts(after) == {"a-0": "a100-1"}
    (moved,) = [fate.to_json() for fate in after.of(displaced=True)]
    told = {"pod": "ml/a-0", "from": "a100-0", "cause": "repartitioned", "node": "a100-1"}
    assert moved == {**told, "code": None, "lost": False}
    bare = tried(snapshot, SetMig(Chosen("a100-1"), "all-balanced"))
    assert [fate.name for fate in bare.fates if fate.lost] == ["ml/c-0"]
    assert bare.placed == 2


def test_some_gpus_of_a_node_are_divided_and_only_their_holders_move() -> None:
    devices = tuple(
        GpuDevice(
            f"GPU-{n}",
            "NVIDIA A100-SXM4-80GB",
            n,
            GPU,
            memory_mib=81920,
            holders=(DeviceHolder("ml", f"job-{n}", "main", GPU, (f"GPU-{n}",)),),
        )
        for n in range(4)
    )
    pods = tuple(pod(f"job-{n}", on="a100-0") for n in range(4))
    snapshot = Snapshot(FLEET[:2], pods, gpu={"a100-0": GpuStatus("a100-0", devices)})
    change = SetMig(Chosen("a100-0"), "3g:2", devices=(1, 2))
    after = tried(snapshot, change)
    assert whereabouts(after) == {"job-1": "a100-1", "job-2": "a100-1"}
    assert (allocatable(after, "nvidia.com/mig-3g.40gb"), allocatable(after, GPU)) == (4, 6)
    ((what, remedy),) = problems(replace(snapshot, gpu={}), change)
    assert what == "who holds which GPU is not known (node a100-0)"
    assert "NodeGPUStatus" in remedy


def test_a_layout_that_is_there_already_moves_nobody() -> None:
    snapshot = Snapshot(FLEET[:1])
    there = DIVIDED
    runs = pod("s-0", 1, SMALL, on="a100-0")
    after = tried(replace(snapshot, nodes=(there,), pods=(runs,)), SetMig(Chosen("*"), "all-1g.10gb"))
    assert (after.placed, len(after.fates)) == (1, 0)
    back = tried(replace(snapshot, nodes=(there,), pods=(runs,)), SetMig(Chosen("*"), "all-disabled"))
    assert allocatable(back, GPU) == 4
    assert waiting(back) == {"resource-renamed": 1}


def test_the_strategy_single_offers_parts_under_the_name_of_whole_gpus() -> None:
    after = tried(Snapshot(FLEET[:1]), SetMig(Chosen("*"), "all-1g.10gb", strategy="single"))
    assert (allocatable(after, GPU), allocatable(after, SMALL)) == (28, 0)


def test_labels_follow_the_layout_so_that_selectors_see_it() -> None:
    wants = pod("s-0", 1, node_selector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED"})
    after = tried(Snapshot(FLEET[:1], (wants,)), SetSharing(Chosen("*"), 4))
    assert whereabouts(after) == {"s-0": "a100-0"}
    assert allocatable(after, GPU) == 16


def test_sharing_under_another_name_moves_who_asked_for_the_old_one() -> None:
    runs = pod("a-0", 1, on="t4-0")
    snapshot = Snapshot((node("t4-0", 1, T4),), (runs,))
    kept = tried(snapshot, SetSharing(Chosen("t4-*"), 4))
    assert (kept.placed, free(kept), len(kept.fates)) == (1, 3, 0)
    renamed = tried(snapshot, SetSharing(Chosen("t4-*"), 4, rename=True))
    assert waiting(renamed) == {"resource-renamed": 1}
    assert free(renamed, "nvidia.com/gpu.shared") == 4
    back = tried(snapshot, SetSharing(Chosen("t4-*"), 4, rename=True), SetSharing(Chosen("t4-*"), 1))
    assert allocatable(back, GPU) == 1


def test_gpus_that_nobody_names_are_not_guessed() -> None:
    ((what, remedy),) = problems(Snapshot((node("n-0", 2, ""),)), SetMig(Chosen("*"), "all-1g.10gb"))
    assert what == "which GPUs it has is not known (node n-0)"
    assert "nvidia.com/gpu.product" in remedy


def test_a_divided_node_is_not_shared_by_guess() -> None:
    ((what, _),) = problems(Snapshot((DIVIDED,)), SetSharing(Chosen("*"), 2))
    assert "into what each of them is not known" in what


def test_a_drain_spares_what_belongs_to_the_node_and_loses_what_belongs_to_nobody() -> None:
    pods = (
        pod("agent-0", 0, on="a100-0", owner=Owner("DaemonSet", "agent")),
        pod("static-0", 0, on="a100-0", owner=Owner("Node", "a100-0")),
        pod("job-0", 1, on="a100-0"),
        pod("bare-0", 1, on="a100-0", owner=None),
    )
    after = tried(Snapshot(FLEET[:2], pods), Drain(Chosen("a100-0")))
    assert whereabouts(after) == {"job-0": "a100-1", "bare-0": None}
    assert [fate.name for fate in after.fates if fate.lost] == ["ml/bare-0"]
    assert after.placed == 3
    removed = tried(Snapshot(FLEET[:2], pods), RemoveNodes(Chosen("a100-0")))
    assert (removed.nodes, removed.placed) == (1, 1)


def test_a_condition_of_the_cluster_as_it_was_is_no_reason_in_another() -> None:
    words = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    old = replace(PodStatus("Pending"), unschedulable_reason="Unschedulable", unschedulable_message=words)
    asked = what_if(
        Snapshot(FLEET[:1], (pod("big-0", 8, status=old),)),
        [Alternative("after", (AddNodes(2, "a100-0"),))],
    )
    assert waiting(asked.before) == waiting(asked.alternatives[0]) == {"resource-too-large": 1}


def test_a_drain_says_whose_budget_makes_it_wait() -> None:
    selector = LabelSelector((Requirement("app", "In", ("job",)),))
    pods = tuple(pod(f"job-{n}", 1, on="a100-0", labels={"app": "job"}) for n in range(3))
    snapshot = Snapshot(FLEET[:2], pods, budgets=(DisruptionBudget("ml", "keep", selector, 1),))
    (note,) = tried(snapshot, Drain(Chosen("a100-0"))).notes
    assert note.startswith("the budget ml/keep lets 1 of 3 pods go at once")


@pytest.mark.parametrize("change", [Drain(Chosen("a100-0")), Cordon(Chosen("a100-0"))])
def test_no_remedy_takes_back_what_is_tried(change: Drain | Cordon) -> None:
    """Whether the node was closed before or not; another node that is closed may be opened."""
    for shut in (False, True):
        closed = replace(FLEET[0], unschedulable=shut)
        pods = (pod("a-0", 2), pod("w-0", 4, on="a100-1"))
        (waits,) = tried(Snapshot((closed, FLEET[1]), pods), change).waiting
        assert waits.remedy == "wait for w-0 on a100-1 to end, or end it"
    other = replace(FLEET[1], unschedulable=True)
    (waits,) = tried(Snapshot((FLEET[0], other), (pod("a-0", 2),)), change).waiting
    assert waits.remedy == "uncordon a100-1: kubectl uncordon a100-1"


def test_a_cordon_keeps_what_runs_and_strands_what_is_free() -> None:
    snapshot = Snapshot(FLEET[:1], (pod("a-0", 1, on="a100-0"), pod("b-0", 1)))
    after = tried(snapshot, Cordon(Chosen("a100-0")))
    assert waiting(after) == {"node-unschedulable": 1}
    figures = after.resource(GPU)
    assert figures is not None
    assert (figures.free, figures.cordoned) == (0, 3)
    assert [(one.cause, one.amount) for one in figures.stranded or ()] == [("cordon", 3)]
    undone = tried(snapshot, Cordon(Chosen("a100-0")), Cordon(Chosen("a100-0"), undo=True))
    assert whereabouts(undone) == {"b-0": "a100-0"}


def test_nodes_like_another_bring_its_daemons_and_not_its_cordon() -> None:
    daemon = pod("agent-0", 0, on="a100-0", cpu=2, owner=Owner("DaemonSet", "agent"))
    runs = pod("job-0", 4, on="a100-0")
    fleet = (replace(FLEET[0], unschedulable=True, taints=(CORDON,)),)
    after = tried(Snapshot(fleet, (daemon, runs, pod("new-0", 4))), AddNodes(2, like="a100-0"))
    assert after.nodes == 3
    assert after.placed == 5
    assert whereabouts(after) == {"new-0": "a100-0-new-0"}


def test_nodes_of_a_product_of_the_catalogue() -> None:
    change = AddNodes(1, product="h100-80", gpus=8, amounts={"cpu": 96000, "memory": GIB << 10})
    after = tried(Snapshot((), (pod("big-0", 8),)), change, SetMig(Chosen("h100*"), "7g:1", devices=(0,)))
    assert (allocatable(after, GPU), allocatable(after, "nvidia.com/mig-7g.80gb")) == (7, 1)
    unsized = AddNodes(1, product="H100-80", gpus=8)
    unheard = AddNodes(1, product="H1", gpus=8, amounts=change.amounts)
    ((what, remedy), (unknown, known)) = problems(Snapshot(FLEET[:1]), unsized, unheard)
    assert what == "how much cpu and memory a node with H100-80 has is not known"
    assert "cpu: 96" in remedy
    assert unknown == "H1 is not in the catalogue"
    assert "H100-80" in known


def test_a_workload_grows_shrinks_and_goes() -> None:
    hash_ = {"pod-template-hash": "5d8f"}
    pods = tuple(
        pod(f"chat-5d8f-{n}", 1, on="a100-0", labels=hash_, owner=Owner("ReplicaSet", "chat-5d8f"))
        for n in range(2)
    )
    snapshot = Snapshot(FLEET[:1], (*pods, pod("chat-5d8f-9", 3, labels=hash_, owner=pods[0].owner)))
    more = tried(snapshot, Scale("deployment", "ml", "chat", 5))
    assert (more.placed, more.counts["pending"]) == (4, 1)
    less = tried(snapshot, Scale("", "ml", "chat", 1))
    assert (less.placed, less.counts["pending"]) == (1, 0)
    assert tried(snapshot, Scale("rs", "ml", "chat-5d8f", 0)).placed == 0
    ((what, remedy),) = problems(snapshot, Scale("deployment", "ml", "chta", 3))
    assert what == "no pod of deployment chta in namespace ml"
    assert remedy == "did you mean chat?"


def test_a_manifest_that_the_api_refuses_is_a_problem() -> None:
    bad = replace(pod("x", 1), containers=(Container("main", "app", {GPU: 1}, {}, frozenset({GPU})),))
    unknown = replace(pod("y", 1), priority_class="hgih")
    snapshot = Snapshot(FLEET[:1], priority_classes=(PriorityClass("high", 10),))
    kinds = (("Job.batch", unknown), ("DaemonSet.apps", unknown), ("Pod", bad))
    manifests = tuple(Manifest(kind, "y", one, (WRITTEN,) if one is bad else ()) for kind, one in kinds)
    found = problems(snapshot, AddWorkload("a.yaml", None, manifests))
    assert [what for what, _ in found] == [
        "no priority class hgih",
        "how many pods a DaemonSet has hangs on the nodes",
        "nvidia.com/gpu stands under requests alone; a device needs a limit",
    ]
    assert found[0][1] == "did you mean high?"


def test_a_manifest_comes_as_often_as_it_says_or_as_it_is_told() -> None:
    manifest = Manifest("Deployment.apps", "web", pod("web", 1, owner=Owner("Deployment", "web")), replicas=3)
    snapshot = Snapshot(FLEET[:1])
    assert tried(snapshot, AddWorkload("web.yaml", None, (manifest,))).placed == 3
    six = tried(snapshot, AddWorkload("web.yaml", 6, (manifest,)))
    assert (six.placed, six.counts["pending"]) == (4, 2)
    assert six.changes == ("6 more pods of web.yaml",)


@pytest.mark.parametrize(("release", "placed"), [("1.33", 4), ("1.34", 1)])
def test_new_pods_count_by_their_containers_where_the_release_has_no_whole(release: str, placed: int) -> None:
    whole = replace(pod("web", 1, cpu=8), pod_requests={"cpu": 40_000})
    snapshot = Snapshot(FLEET[:1], server_version=release)
    added = AddWorkload("web.yaml", 4, (Manifest("Deployment.apps", "web", whole, replicas=4),))
    assert tried(snapshot, added).placed == placed


def test_pol_2_quotas_let_in_as_many_as_they_allow_and_fill_up_on_the_way() -> None:
    quota = Quota("ml", "gpus", {f"requests.{GPU}": "3", "pods": "10"}, {f"requests.{GPU}": "1", "pods": "1"})
    runs = pod("old-0", 1, on="a100-0", owner=Owner("Job", "old"))
    job = Manifest("Job.batch", "new", pod("new", 1, owner=Owner("Job", "new")), replicas=4)
    counted = replace(quota, counted=True)
    snapshot = Snapshot(FLEET[:2], (runs,), quotas=(counted,))
    added = AddWorkload("new.yaml", None, (job,))
    after = tried(snapshot, added)
    assert (after.placed, waiting(after)) == (3, {"quota-exceeded": 2})
    assert after.waiting[0].layer == "quota"
    assert tried(replace(snapshot, quotas=(replace(quota, used={}),)), added).placed == 3
    freed = tried(snapshot, Scale("job", "ml", "old", 0), added)
    assert (freed.placed, waiting(freed)) == (3, {"quota-exceeded": 1})
    grown = tried(snapshot, Scale("job", "ml", "old", 5))
    assert (grown.placed, waiting(grown)) == (3, {"quota-exceeded": 2})


def test_what_was_not_read_makes_every_place_unknown() -> None:
    snapshot = Snapshot(FLEET[:1], (pod("a-0", 1),), missing=frozenset({"Pod"}))
    outcome = tried(snapshot)
    assert outcome.counts["unknown"] == 1
    assert [*outcome.unknown] == ["objects of kind Pod were not read: what the nodes have free is not known"]


def test_a_replay_places_everything_in_order_of_creation() -> None:
    from datetime import UTC, datetime, timedelta

    start = datetime(2026, 1, 1, tzinfo=UTC)
    pods = tuple(
        pod(name, gpus, on=on, created=start + timedelta(hours=n), priority=n)
        for n, (name, gpus, on) in enumerate([("late-0", 4, ""), ("a-0", 2, "a100-0"), ("b-0", 2, "a100-1")])
    )
    snapshot = Snapshot(FLEET[:2], (*pods, pod("static-0", 0, on="a100-1", owner=Owner("Node", "a100-1"))))
    answer = what_if(snapshot, [Alternative("again", (Replay(),))])
    assert waiting(answer.before) == {"insufficient-resource": 1}
    places = whereabouts(answer.alternatives[0])
    assert answer.worse is False
    assert places["late-0"] == "a100-0"
    assert places["a-0"] == places["b-0"] == "a100-1"


def test_a_pod_of_higher_priority_takes_the_place_of_another_which_is_tried_again() -> None:
    pods = (pod("low-0", 4, on="a100-0"), pod("low-1", 4, on="a100-1"), pod("high-0", 4, priority=10))
    answer = what_if(Snapshot(FLEET[:2], pods), [Alternative("more", (AddNodes(1, like="a100-0"),))])
    assert answer.before.placed == 2
    (gone,) = answer.before.of(displaced=True)
    assert gone.to_json()["cause"] == "preempted"
    assert waiting(answer.before) == {"insufficient-resource": 1}
    assert answer.alternatives[0].counts["displaced"] == 0


def test_who_is_shunned_by_a_pod_that_came_says_nothing_of_others_like_it() -> None:
    shun = PodTerm("kubernetes.io/hostname", LabelSelector((Requirement("app", "In", ("noisy",)),)))
    pods = (
        pod("shy-0", 1, priority=3, affinity=Affinity(anti=(shun,))),
        pod("noisy-0", 1, priority=2, labels={"app": "noisy"}),
        pod("quiet-0", 1, priority=1, labels={"app": "quiet"}),
    )
    assert whereabouts(tried(Snapshot(FLEET[:1], pods))) == {
        "shy-0": "a100-0",
        "noisy-0": None,
        "quiet-0": "a100-0",
    }


def test_a_large_fleet_answers_as_a_small_one() -> None:
    fleet = tuple(node(f"a100-{n:02}", 2) for n in range(70))
    pods = [pod(f"low-{n}", 2, on=one.name) for n, one in enumerate(fleet)]
    pods += [pod(f"high-{n}", 2, priority=9) for n in range(3)] + [pod("wide-0", 3)]
    outcome = tried(Snapshot(fleet, tuple(pods)), Cordon(Chosen("a100-00")))
    assert outcome.placed == 70
    assert waiting(outcome) == {"insufficient-resource": 3, "resource-too-large": 1}
    assert {fate.node for fate in outcome.fates if fate.name.startswith("ml/high")} == {
        f"a100-0{n}" for n in (1, 2, 3)
    }


def test_stranded_gpus_are_told_by_what_keeps_pods_from_them() -> None:
    fleet = (
        node("cpu-0", 4, cpu=4),
        node("taint-0", 2, taints=(Taint("team", "x", "NoSchedule"),)),
        node("split-0", 4),
    )
    pods = (
        *(pod(f"one-{n}", 2, on="split-0", cpu=2) for n in range(1)),
        pod("eat-0", 2, on="cpu-0", cpu=3),
        *(pod(f"wait-{n}", 2, cpu=2) for n in range(2)),
    )
    outcome = tried(Snapshot(fleet, pods))
    figures = outcome.resource(GPU)
    assert figures is not None
    told = {one.cause: (one.amount, one.nodes) for one in figures.stranded or ()}
    assert told == {"cpu": (2, ("cpu-0",)), "taint": (2, ("taint-0",))}
    assert figures.stranded_amount == 4
    assert figures.split is not None
    assert figures.split.amount == 0
    odd = tried(Snapshot((node("odd-0", 3),), (pod("w-0", 2), pod("w-1", 2)))).resource(GPU)
    assert odd is not None
    assert odd.split is not None
    assert (odd.stranded_amount, odd.split.amount) == (0, 1)


def test_of_a_resource_that_no_pod_asks_for_nothing_is_said() -> None:
    figures = tried(Snapshot(FLEET[:1])).resource(GPU)
    assert figures is not None
    assert (figures.stranded, figures.fragmented_percent, figures.to_json()["stranded"]) == (None, None, None)


ASKED = st.lists(st.integers(1, 4), min_size=1, max_size=6)
HELD = st.lists(st.integers(0, 4), min_size=1, max_size=4)


@given(ASKED, HELD)
@settings(max_examples=25, deadline=None)
def test_fragmentation_is_the_measure_of_fgd(asks: list[int], held: list[int]) -> None:
    fleet = tuple(node(f"n-{n}") for n in range(len(held)))
    running = tuple(pod(f"r-{n}", g, on=f"n-{n}") for n, g in enumerate(held) if g)
    waits = tuple(pod(f"w-{n}", g, may_preempt=False, gates=()) for n, g in enumerate(asks))
    outcome = tried(Snapshot(fleet, (*running, *waits)))
    figures = outcome.resource(GPU)
    assert figures is not None
    jobs = [Job(1000, GIB, g, 1000) for n, g in enumerate([*asks, *filter(None, held)])]
    room = Room([Machine(f"m{n}", 64000, 512 * GIB, 4, "A100") for n in range(len(held))])
    left = {one.name: 4 for one in fleet}
    for one in running:
        left[one.node_name] -= one.containers[0].requests[GPU]
    for fate in outcome.fates:
        if fate.node:
            left[fate.node] -= fate.candidate.pod.containers[0].requests[GPU]
    gpu = np.array([[1000] * left[n.name] + [0] * (8 - left[n.name]) for n in fleet])
    typical = typical_of(jobs)
    if len(typical.shapes) < len({*asks, *filter(None, held)}):
        return  # which of equally frequent shapes are left out may differ
    wasted = Fragments(typical, room).of(gpu, np.full(len(fleet), 60000), np.zeros(len(fleet), np.intp)).sum()
    total = 1000 * sum(left.values())
    assert figures.fragmented_percent == pytest.approx(100 * wasted / total if total else 0.0)


def test_volumes_and_foreign_schedulers_are_unknown_and_say_so() -> None:
    pods = (pod("v-0", 1, unmodelled=("volume data",)), pod("k-0", 1, scheduler_name="kueue"))
    outcome = tried(Snapshot(FLEET[:1], pods))
    assert outcome.unknown == {"volume data": ("ml/v-0",), "it is placed by kueue": ("ml/k-0",)}
    assert outcome.counts["unknown"] == 2


def test_pods_on_nodes_that_are_not_there_and_kinds_that_were_not_read_are_told() -> None:
    snapshot = Snapshot(FLEET[:1], (pod("x-0", 1, on="gone"),), missing=frozenset({"ReplicaSet"}))
    assert tried(snapshot).notes == (
        "not read, and so not minded: ReplicaSet",
        "1 pod is on a node that is not there, and left out",
    )


WRITTEN = WrittenAmounts("main", "spec.containers[0].resources", {}, {GPU: "1"})
CLASS = DeviceClass("gpu", ("device.driver == 'gpu.nvidia.com'",))
ASKS = (DeviceRequest("gpu", "gpu"),)


def _with_claims(*held: str) -> Snapshot:
    """Two nodes with a device each that a driver publishes; pods with claims of a template run on `held`."""
    slices = tuple(
        ResourceSlice(n, "gpu.nvidia.com", n, scope=NodeScope(n), devices=(Device("gpu-0"),))
        for n in ("a100-0", "a100-1")
    )
    pods, claims = [], []
    for name in held:
        one = pod(f"job-{name}", 0, on=name, claims=(PodClaim("gpu", template="gpu", made=f"c-{name}"),))
        pods.append(one)
        device = AllocatedDevice("gpu", DeviceId("gpu.nvidia.com", name, "gpu-0"))
        claims.append(
            ResourceClaim("ml", f"c-{name}", requests=ASKS, allocation=Allocation((device,)),
                          reserved_for=(Consumer(one.uid, one.name),), owner=one.uid)
        )  # fmt: skip
    return Snapshot(
        FLEET[:2], tuple(pods), slices=slices, device_classes=(CLASS,), claims=tuple(claims),
        claim_templates=(ClaimTemplate("ml", "gpu", ASKS),), server_version="v1.35.0",
    )  # fmt: skip


def test_claims_move_with_their_pods_and_devices_go_with_their_nodes() -> None:
    moved = tried(_with_claims("a100-0"), RemoveNodes(Chosen("a100-0")))
    assert whereabouts(moved) == {"job-a100-0": "a100-1"}
    full = tried(_with_claims("a100-0", "a100-1"), RemoveNodes(Chosen("a100-0")))
    assert waiting(full) == {"claim-not-allocatable": 1}
    more = tried(_with_claims("a100-0", "a100-1"), AddNodes(1, like="a100-1"), RemoveNodes(Chosen("a100-0")))
    assert whereabouts(more) == {"job-a100-0": "a100-1-new-0"}


def test_two_new_pods_never_get_one_device() -> None:
    template = pod("new", 0, claims=(PodClaim("gpu", template="gpu"),))
    added = AddWorkload("w.yaml", 3, (Manifest("Job.batch", "new", template),))
    after = tried(_with_claims("a100-0"), added)
    assert sorted(filter(None, whereabouts(after).values())) == ["a100-1"]
    assert after.counts["pending"] == 2


def test_what_a_driver_publishes_for_gpus_set_otherwise_is_not_guessed() -> None:
    waits = _with_claims("a100-0")
    after = tried(waits, SetMig(Chosen("a100-1"), "all-1g.10gb"), Drain(Chosen("a100-0")))
    assert after.counts["unknown"] == 1
    assert "not derived here" in next(iter(after.unknown))


SIZES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=12)
CHANGES = st.lists(
    st.sampled_from(
        [
            Drain(Chosen("a100-0")),
            Cordon(Chosen("a100-1")),
            RemoveNodes(Chosen("a100-2")),
            AddNodes(1, like="a100-3"),
            SetMig(Chosen("a100-1"), "all-balanced"),
            SetSharing(Chosen("a100-0"), 2, rename=True),
            Replay(),
        ]
    ),
    max_size=3,
    unique_by=type,
)


@given(SIZES, CHANGES)
@settings(max_examples=25, deadline=None)
def test_no_pod_is_forgotten_and_no_device_given_twice(
    sizes: list[tuple[int, int]], changes: list[Change]
) -> None:
    held = dict.fromkeys(range(4), 4)
    pods = []
    for n, (gpus, place) in enumerate(sizes):
        fits = gpus <= held[place]
        held[place] -= gpus if fits else 0
        pods.append(pod(f"p-{n}", gpus, on=f"a100-{place}" if fits else ""))
    answer = what_if(Snapshot(FLEET[:4], tuple(pods)), [Alternative("after", tuple(changes))])
    for outcome in (answer.before, *answer.alternatives):
        told = outcome.placed + outcome.counts["pending"] + outcome.counts["lost"] + outcome.counts["unknown"]
        assert told == len(pods)
        for figures in outcome.resources:
            assert figures.allocated <= figures.allocatable
            assert figures.free + figures.cordoned == figures.allocatable - figures.allocated
            left = figures.stranded_amount
            if left is not None and figures.split is not None:
                assert 0 <= left + figures.split.amount <= figures.free + figures.cordoned


def test_the_text_has_a_column_an_alternative_and_says_who_waits_and_why() -> None:
    pods = (pod("train-0", 4, on="a100-0"), pod("train-1", 4, on="a100-1"))
    answer: WhatIf = what_if(
        Snapshot(FLEET[:2], pods),
        [Alternative("drain", (Drain(Chosen("a100-0")),)), Alternative("none")],
    )
    rows = {row[0].strip(): row[1:] for row in rows_of(answer)}
    assert rows[""] == ["before", "drain", "none"]
    assert rows["pods with a node"] == ["2", "1", "2"]
    assert rows["pods pending"] == ["0", "1", "0"]
    text = "\n".join(paragraphs_of(answer))
    assert "drain: drain a100-0" in text
    assert "1 pod waits: [scheduler]" in text
    assert "1 pod drained: ml/train-0 (a100-0 -> waits)" in text
    assert answer.worse


def test_json_has_the_same_keys_for_every_outcome() -> None:
    told = what_if(Snapshot(FLEET[:1], (pod("a-0", 8),)), [Alternative("x", (Replay(),))]).to_json()
    before, alternatives = told["before"], told["alternatives"]
    assert isinstance(before, dict)
    assert isinstance(alternatives, list)
    assert isinstance(alternatives[0], dict)
    assert list(before) == list(alternatives[0])
    assert before["pods"] == {"placed": 0, "pending": 1, "unknown": 0, "displaced": 0, "lost": 0}
