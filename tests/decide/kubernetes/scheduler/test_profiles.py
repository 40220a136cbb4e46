"""Pods decided by the profile that their schedulerName names: single cases; chance asks a genuine one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tonnage.decide.kubernetes.scheduler.sampling import sample_size
from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.decide.kubernetes.scheduler.scores.resources_fit import shaped
from tonnage.model.kubernetes.cluster import (
    Container,
    Node,
    Owner,
    Pod,
    PodStatus,
    Snapshot,
    WorkloadSelector,
)
from tonnage.model.kubernetes.scheduler_profile import (
    AddedAffinity,
    DefaultSpread,
    FitRating,
    SchedulerProfile,
    Strategy,
)
from tonnage.model.kubernetes.selectors import LabelSelector, NodeSelectorTerm, Requirement, Taint

GPU = "nvidia.com/gpu"
TWO = tuple(
    Node(name, {"kubernetes.io/hostname": name, "pool": name},
         allocatable={"cpu": 8000, "memory": 2**36, "pods": 9, GPU: 8})
    for name in "ab"
)  # fmt: skip


def pod(name: str, gpus: int, on: str = "", **fields: object) -> Pod:
    status = PodStatus("Running" if on else "Pending")
    whole = Pod(name, containers=(Container("c", "i", {GPU: gpus}),), node_name=on, status=status)
    return replace(whole, **fields)  # type: ignore[arg-type]


def cluster(profile: SchedulerProfile, *pods: Pod, nodes: tuple[Node, ...] = TWO) -> Snapshot:
    return Snapshot(nodes, pods, schedulers={profile.name: profile})


@pytest.mark.parametrize(("strategy", "chosen"), [(Strategy.LEAST, "b"), (Strategy.MOST, "a")])
def test_gpus_are_packed_or_spread(strategy: Strategy, chosen: str) -> None:
    profile = SchedulerProfile(fit=FitRating(strategy, ((GPU, 1),)))
    decision = schedule(pod("p", 2), cluster(profile, pod("old", 4, "a")))
    assert decision.chosen == chosen
    rated = {"a": 25, "b": 75} if strategy is Strategy.LEAST else {"a": 75, "b": 25}
    assert {name: row["NodeResourcesFit"] for name, row in decision.scores.items()} == rated


def test_a_shape_may_fall_as_well_as_rise_and_is_cut_toward_nothing() -> None:
    shape = ((10, 1), (40, 9), (95, 3))
    assert [shaped(shape, share) for share in (0, 10, 11, 40, 41, 95, 100)] == [10, 10, 12, 90, 89, 30, 30]


def test_only_pods_of_its_name_go_by_a_profile() -> None:
    packing = SchedulerProfile("packing", fit=FitRating(Strategy.MOST, ((GPU, 1),)))
    snapshot = cluster(packing, pod("old", 4, "a"))
    assert schedule(pod("p", 2, scheduler_name="packing"), snapshot).chosen == "a"
    scores = schedule(pod("p", 2), snapshot).scores
    assert scores["a"]["NodeResourcesFit"] == scores["b"]["NodeResourcesFit"]


def test_plugins_that_are_off_neither_refuse_nor_rate() -> None:
    tainted = replace(TWO[0], taints=(Taint("k", "", "NoSchedule"),))
    lean = SchedulerProfile(filters=("NodeResourcesFit",), weights={"ImageLocality": 5}, preempts=False)
    decision = schedule(pod("p", 1), cluster(lean, nodes=(tainted, TWO[1])))
    assert decision.feasible == ("a", "b")
    assert decision.scores["a"] == {"ImageLocality": 0, "total": 0}
    none = replace(lean, weights={})
    assert schedule(pod("p", 1), cluster(none)).scores["a"] == {"total": 0}
    low = pod("old", 8, "a", priority=-1)
    refused = schedule(pod("p", 8), cluster(lean, low, nodes=TWO[:1]))
    assert refused.message == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate"
    )
    assert refused.nominated is None


def test_affinity_that_the_scheduler_adds_comes_before_the_pods_own() -> None:
    term = NodeSelectorTerm((Requirement("pool", "In", ("b",)),))
    profile = SchedulerProfile(affinity=AddedAffinity((term,), ((3, term),)))
    decision = schedule(pod("p", 1), cluster(profile))
    assert decision.feasible == ("b",)
    assert decision.refusals["a"][0].texts == ("node(s) didn't match scheduler-enforced node affinity",)
    liked = SchedulerProfile(affinity=AddedAffinity(None, ((3, term),)))
    scores = schedule(pod("p", 1), cluster(liked)).scores
    assert [scores[name]["NodeAffinity"] for name in "ab"] == [0, 200]


def test_default_constraints_of_a_list_may_refuse() -> None:
    profile = SchedulerProfile(spread=(DefaultSpread("kubernetes.io/hostname", 1, hard=True),))
    labels = {"app": "x"}
    workload = WorkloadSelector(
        "ReplicaSet", "default", "set", LabelSelector((Requirement("app", "In", ("x",)),))
    )
    old = pod("old", 1, "a", labels=labels)
    own = pod("p", 1, labels=labels, owner=Owner("ReplicaSet", "set"))
    snapshot = replace(cluster(profile, old), selectors=(workload,))
    assert schedule(own, snapshot).feasible == ("b",)
    assert schedule(own, replace(snapshot, schedulers={})).feasible == ("a", "b")


def test_resources_that_a_profile_leaves_to_others_are_not_counted() -> None:
    for ignored in (GPU, "nvidia.com/*"):
        assert schedule(pod("p", 99), cluster(SchedulerProfile(ignored=(ignored,)))).feasible == ("a", "b")


def test_what_nobody_here_knows_of_a_profile_leaves_the_answer_open() -> None:
    assert schedule(pod("p", 1), cluster(SchedulerProfile(unknown=("plugin X",)))).unmodelled == ("plugin X",)


def test_a_percentage_is_kept_above_a_hundred_nodes() -> None:
    assert [sample_size(nodes, 30) for nodes in (50, 300, 1000)] == [50, 100, 300]
