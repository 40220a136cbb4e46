"""What-if: workloads changed, what is stranded then, and how it is told; POL-2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.what_ifs import FLEET, GIB, GPU, node, pod, problems, tried, waiting, whereabouts
from tonnage.decide.cluster.packing.fragments import Fragments, typical_of
from tonnage.decide.cluster.packing.free_room import Room
from tonnage.diagnose.simulate.outcomes import WhatIf
from tonnage.diagnose.simulate.text import paragraphs_of, rows_of
from tonnage.diagnose.simulate.what_if import what_if
from tonnage.model.changes import (
    AddNodes,
    AddWorkload,
    Alternative,
    Change,
    CordonNode,
    Drain,
    NodeSelection,
    RemoveNodes,
    Replay,
    ScaleWorkload,
    SetMig,
    SetSharing,
)
from tonnage.model.kubernetes.cluster import (
    Affinity,
    Container,
    Manifest,
    Owner,
    PodTerm,
    PriorityClass,
    Snapshot,
    WrittenAmounts,
)
from tonnage.model.kubernetes.policies import Quota
from tonnage.model.kubernetes.selectors import LabelSelector, Requirement, Taint
from tonnage.model.trace import TraceJob, TraceMachine

WRITTEN = WrittenAmounts("main", "spec.containers[0].resources", {}, {GPU: "1"})


def test_a_workload_grows_shrinks_and_goes() -> None:
    hash_ = {"pod-template-hash": "5d8f"}
    pods = tuple(
        pod(f"chat-5d8f-{n}", 1, on="a100-0", labels=hash_, owner=Owner("ReplicaSet", "chat-5d8f"))
        for n in range(2)
    )
    snapshot = Snapshot(FLEET[:1], (*pods, pod("chat-5d8f-9", 3, labels=hash_, owner=pods[0].owner)))
    more = tried(snapshot, ScaleWorkload("deployment", "ml", "chat", 5))
    assert (more.placed, more.counts["pending"]) == (4, 1)
    less = tried(snapshot, ScaleWorkload("", "ml", "chat", 1))
    assert (less.placed, less.counts["pending"]) == (1, 0)
    assert tried(snapshot, ScaleWorkload("rs", "ml", "chat-5d8f", 0)).placed == 0
    ((fault, remedy),) = problems(snapshot, ScaleWorkload("deployment", "ml", "chta", 3))
    assert fault == "deployment chta in namespace ml has no pods"
    assert remedy == "use chat if you meant that"


def test_a_manifest_that_the_api_refuses_is_a_problem() -> None:
    bad = replace(pod("x", 1), containers=(Container("main", "app", {GPU: 1}, {}, frozenset({GPU})),))
    unknown = replace(pod("y", 1), priority_class="hgih")
    snapshot = Snapshot(FLEET[:1], priority_classes=(PriorityClass("high", 10),))
    kinds = (("Job.batch", unknown), ("DaemonSet.apps", unknown), ("Pod", bad))
    manifests = tuple(Manifest(kind, "y", one, (WRITTEN,) if one is bad else ()) for kind, one in kinds)
    faults = problems(snapshot, AddWorkload("a.yaml", None, manifests))
    assert [what for what, _ in faults] == [
        "priority class hgih does not exist",
        "the number of a DaemonSet's pods depends on the nodes",
        "nvidia.com/gpu is set under requests only; a device needs a limit",
    ]
    assert faults[0][1] == "use high if you meant that"


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
    freed = tried(snapshot, ScaleWorkload("job", "ml", "old", 0), added)
    assert (freed.placed, waiting(freed)) == (3, {"quota-exceeded": 1})
    grown = tried(snapshot, ScaleWorkload("job", "ml", "old", 5))
    assert (grown.placed, waiting(grown)) == (3, {"quota-exceeded": 2})


def test_what_was_not_read_makes_every_place_unknown() -> None:
    snapshot = Snapshot(FLEET[:1], (pod("a-0", 1),), missing=frozenset({"Pod"}))
    outcome = tried(snapshot)
    assert outcome.counts["unknown"] == 1
    assert [*outcome.unknown] == [
        "objects of kind Pod were not read: Tonnage cannot tell what the nodes have free"
    ]


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
    outcome = tried(Snapshot(fleet, tuple(pods)), CordonNode(NodeSelection("a100-00")))
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
    jobs = [TraceJob(1000, GIB, g, 1000) for n, g in enumerate([*asks, *filter(None, held)])]
    room = Room([TraceMachine(f"m{n}", 64000, 512 * GIB, 4, "A100") for n in range(len(held))])
    left = {node.name: 4 for node in fleet}
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
        "not read, and so ignored: ReplicaSet",
        "1 pod is on a node that does not exist, and left out",
    )


SIZES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=12)

CHANGES = st.lists(
    st.sampled_from(
        [
            Drain(NodeSelection("a100-0")),
            CordonNode(NodeSelection("a100-1")),
            RemoveNodes(NodeSelection("a100-2")),
            AddNodes(1, like="a100-3"),
            SetMig(NodeSelection("a100-1"), "all-balanced"),
            SetSharing(NodeSelection("a100-0"), 2, rename=True),
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
        [Alternative("drain", (Drain(NodeSelection("a100-0")),)), Alternative("none")],
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


@pytest.mark.parametrize(
    ("change", "worse"),
    [
        (Drain(NodeSelection()), True),
        (RemoveNodes(NodeSelection()), True),
        (SetSharing(NodeSelection(), 2), True),
        (CordonNode(NodeSelection()), False),
    ],
    ids=["a drain", "a node less", "sharing", "a cordon"],
)
def test_where_pods_are_not_seen_what_may_displace_them_is_no_success(change: Change, worse: bool) -> None:
    snapshot = Snapshot(FLEET[:1], missing=frozenset({"Pod"}))
    assert what_if(snapshot, (Alternative("x", (change,)),)).worse is worse
