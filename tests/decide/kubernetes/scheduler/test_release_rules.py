"""What a release decides otherwise than the one before, and what only chance had found: single cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tonnage.decide.kubernetes.requests import pod_requests
from tonnage.decide.kubernetes.scheduler.filtering import first_refusal
from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.decide.kubernetes.view import view_of
from tonnage.diagnose.cluster_view import ground_of
from tonnage.diagnose.explain.explain import explain_waiting_pod
from tonnage.model.kubernetes.cluster import (
    Affinity,
    Container,
    HeldAmounts,
    Node,
    Owner,
    Pod,
    PodStatus,
    PodTerm,
    Snapshot,
    SpreadConstraint,
    WorkloadSelector,
)
from tonnage.model.kubernetes.selectors import LabelSelector, Requirement
from tonnage.model.verdict import Verdict

HOST = "kubernetes.io/hostname"
EVERY = LabelSelector()


def node(name: str, cpu: int = 8000, pods: int = 110) -> Node:
    amounts = {"cpu": cpu, "memory": 2**36, "pods": pods}
    return Node(name, {HOST: name}, allocatable=amounts, capacity=amounts)


def pod(name: str, cpu: int = 0, on: str = "", priority: int = 0) -> Pod:
    container = Container("c", "i", {"cpu": cpu} if cpu else {})
    status = PodStatus("Running" if on else "Pending")
    return Pod(name, containers=(container,), node_name=on, priority=priority, status=status)


@pytest.mark.parametrize(
    ("version", "feasible"), [("1.33", ()), ("1.34", ("a",)), ("1.36", ("a",)), ("1.37", ())]
)
def test_some_releases_reach_every_namespace_by_a_label_that_is_not_there(
    version: str, feasible: tuple[str, ...]
) -> None:
    others = LabelSelector((Requirement("team", "NotIn", ("a",)),))
    seeking = Affinity(pods=(PodTerm(HOST, EVERY, namespace_selector=others),))
    spaces = {"default": {"team": "a"}}
    snapshot = Snapshot((node("a"),), (pod("old", on="a"),), namespaces=spaces)
    assert schedule(replace(pod("p"), affinity=seeking), snapshot, version=version).feasible == feasible


@pytest.mark.parametrize(("version", "counts"), [("1.31", False), ("1.33", False), ("1.34", True)])
@pytest.mark.parametrize("nodes", [1, 70], ids=["node by node", "by columns"])
def test_what_a_pod_asks_as_a_whole_counts_from_1_34_on(version: str, counts: bool, nodes: int) -> None:
    whole = replace(pod("p", 1000), pod_requests={"cpu": 5000}, pod_limits={"cpu": 5000})
    names = tuple(f"n{place:02}" for place in range(nodes))
    empty = Snapshot(tuple(node(name, 4000) for name in names))
    half = replace(whole, pod_requests={"cpu": 4000}, status=PodStatus("Running"))
    full = replace(empty, pods=tuple(replace(half, name=f"of-{name}", node_name=name) for name in names))
    for asking, snapshot in ((whole, empty), (pod("q", 3000), full)):
        assert bool(schedule(asking, snapshot, version=version).feasible) is not counts
        ground = ground_of(snapshot, version=version)
        assert (ground.engine is None) is (nodes == 1)
        assert bool(ground.decision(asking).feasible) is not counts
        verdict = Verdict.NEVER if asking is whole else Verdict.NOT_NOW
        assert explain_waiting_pod(ground, asking).verdict is (verdict if counts else Verdict.FITS)


@pytest.mark.parametrize(("version", "balanced"), [("1.35", 62), ("1.36", 56), ("1.37", 56)])
def test_from_1_36_on_the_change_of_the_balance_is_rated(version: str, balanced: int) -> None:
    nodes = (node("a", 4000), node("b", 4000))
    decision = schedule(pod("p", 3000), Snapshot(nodes), version=version)
    assert decision.scores["a"]["NodeResourcesBalancedAllocation"] == balanced
    assert ("VolumeBinding" in decision.scores["a"]) == (version == "1.37")


def test_1_37_says_where_room_is_made_and_how_many_must_go() -> None:
    snapshot = Snapshot((node("a", 1000),), (pod("old", 1000, on="a"),))
    said = {v: schedule(pod("p", 1000, priority=9), snapshot, version=v).message for v in ("1.36", "1.37")}
    assert said["1.36"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert said["1.37"] == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on "
        "node a, preempting 1 victims"
    )


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_pods_of_every_kind_of_set_are_spread_by_default(kind: str) -> None:
    selector = LabelSelector((Requirement("app", "In", ("x",)),))
    workloads = (WorkloadSelector(kind, "default", "set", selector),)
    old = replace(pod("old", on="a"), labels={"app": "x"})
    snapshot = Snapshot((node("a"), node("b")), (old,), selectors=workloads)
    own = replace(pod("p"), labels={"app": "x"}, owner=Owner(kind, "set"))
    scores = schedule(own, snapshot).scores
    assert [scores[name]["PodTopologySpread"] for name in "ab"] == [132, 200]


@pytest.mark.parametrize(
    ("held", "hopeless", "by_container", "by_pod"),
    [
        pytest.param((HeldAmounts("a", {"cpu": 3}, {"cpu": 2}),), False, 4, 4, id="what was promised"),
        pytest.param((HeldAmounts("a", None, {"cpu": 5}),), False, 6, 6, id="what is in force"),
        pytest.param((HeldAmounts("a", {"cpu": 3}),), False, 2, 4, id="a promise with nothing in force"),
        pytest.param((HeldAmounts("a", {"cpu": 0}, {"cpu": 0}),), True, 1, 1, id="a hopeless wish"),
        pytest.param(
            (HeldAmounts("a", {"cpu": 3}, {"cpu": 1}), HeldAmounts("b", {"cpu": 1}, {"cpu": 4})),
            False, 7, 5, id="the most of each, or of the sums",
        ),
    ],
)  # fmt: skip
def test_a_pod_that_is_resized_counts_with_the_most(
    held: tuple[HeldAmounts, ...], hopeless: bool, by_container: int, by_pod: int
) -> None:
    status = PodStatus("Running", resized=held, cannot_resize=hopeless)
    both = Pod(
        "p", containers=(Container("a", "", {"cpu": 1}), Container("b", "", {"cpu": 1})), status=status
    )
    assert pod_requests(both)["cpu"] == by_container
    assert pod_requests(both, by_pod=True)["cpu"] == by_pod


def test_pods_thought_away_count_off_a_spread_that_never_counted_them() -> None:
    leaving = replace(pod("old", 1000, on="a"), labels={"app": "x"})
    leaving = replace(leaving, status=PodStatus("Running", terminating=True))
    constraint = SpreadConstraint(HOST, 1, hard=True, selector=LabelSelector((Requirement("app", "Exists"),)))
    own = replace(pod("p", 1000, priority=9), labels={"app": "x"}, spread=(constraint,))
    view = view_of(Snapshot((node("a", 1000), node("b", 0)), (leaving,)))
    emptied = view.nodes["a"].without(view.nodes["a"].pods)
    assert first_refusal(own, emptied, view.with_node(emptied)) is None
    # -1 there, so that the emptiest domain has -1: one more on the other node would be two too many.
    thought = emptied.since(view.nodes["a"])
    refusal = first_refusal(replace(own, containers=()), view.nodes["b"], view.with_node(thought))
    assert refusal is not None
    assert refusal.plugin == "PodTopologySpread"


def test_of_nodes_that_cost_the_same_any_may_be_cleared() -> None:
    nodes = tuple(node(f"n{i:03}", 1000) for i in range(3))
    snapshot = Snapshot(nodes, tuple(pod(f"old-{n.name}", 1000, on=n.name) for n in nodes))
    decision = schedule(pod("p", 1000, priority=9), snapshot)
    assert decision.equals == ("n000", "n001", "n002")
    assert decision.nominated == "n000"


def test_of_many_nodes_that_could_be_cleared_any_stretch_may_be_looked_at() -> None:
    nodes = tuple(node(f"n{i:03}", 1000) for i in range(130))
    old = tuple(pod(f"old-{n.name}", 1000, on=n.name, priority=int(n.name[1:])) for n in nodes)
    decision = schedule(pod("p", 1000, priority=999), Snapshot(nodes, old))
    assert decision.nominated == "n000"
    assert set(decision.equals) == {f"n{i:03}" for i in range(31)}  # the least of any 100 in a row
