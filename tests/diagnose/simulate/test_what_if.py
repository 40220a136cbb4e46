"""What-if: nodes changed, and pods placed again; SCH-7, SCH-11, MIG-5, POL-4."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.what_ifs import FLEET, GIB, GPU, H100, T4, node, pod, problems, tried, waiting, whereabouts
from tonnage.diagnose.simulate.outcomes import SimulatedCluster
from tonnage.diagnose.simulate.what_if import what_if
from tonnage.model.changes import (
    AddNodes,
    Alternative,
    CordonNode,
    Drain,
    NodeSelection,
    RemoveNodes,
    SetMig,
    SetSharing,
)
from tonnage.model.kubernetes.cluster import (
    DisruptionBudget,
    Owner,
    PodStatus,
    Snapshot,
)
from tonnage.model.kubernetes.selectors import LabelSelector, Requirement, Taint
from tonnage.model.node.gpu_status import DeviceHolder, GpuDevice, GpuStatus

SMALL = "nvidia.com/mig-1g.10gb"


def free(outcome: SimulatedCluster, resource: str = GPU) -> int:
    figures = outcome.resource(resource)
    return figures.free if figures else 0


def allocatable(outcome: SimulatedCluster, resource: str) -> int:
    figures = outcome.resource(resource)
    return figures.allocatable if figures else 0


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
    after = tried(snapshot, SetMig(NodeSelection("a100-*"), "all-1g.10gb"))
    assert allocatable(after, SMALL) == 14
    assert allocatable(after, GPU) == 0
    assert waiting(after) == {"resource-renamed": 1}
    routed = tried(
        replace(snapshot, nodes=(*snapshot.nodes, node("h100-0", 1, H100))),
        SetMig(NodeSelection("a100-*"), "all-1g.10gb"),
    )
    assert whereabouts(routed) == {"train-0": "h100-0"}


def test_mig_5_a_t4_is_refused_with_the_alternatives() -> None:
    fleet = (node("t4-0", 1, T4), node("v100-0", 1, "Tesla-V100-SXM2-16GB"), node("x-0", 1, "NVIDIA-X"))
    snapshot = Snapshot((*fleet, node("a100-0")))
    faults = problems(
        snapshot, *(SetMig(NodeSelection(name), "all-1g.10gb") for name in ("t4-0", "v100-0", "x-0"))
    )
    assert [what for what, _ in faults] == [
        "Tesla T4 cannot be divided by MIG (node t4-0)",
        "Tesla-V100-SXM2-16GB cannot be divided by MIG (node v100-0)",
        "Tonnage does not know whether NVIDIA-X can be divided by MIG (node x-0)",
    ]
    assert all("A100 80GB" in remedy for _, remedy in faults)
    assert "time-slicing" in faults[0][1]
    assert "lgip" in faults[2][1]


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
            (
                SetMig(NodeSelection("h100-*"), "all-1g.10gb"),
                SetSharing(NodeSelection("t4-*"), 8, rename=True),
            ),
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
    after = tried(snapshot, SetMig(NodeSelection("a100-0"), "all-balanced"))
    assert whereabouts(after) == {"a-0": "a100-1"}
    (moved,) = [fate.to_json() for fate in after.of(displaced=True)]
    told = {"pod": "ml/a-0", "from": "a100-0", "cause": "repartitioned", "node": "a100-1"}
    assert moved == {**told, "code": None, "lost": False}
    bare = tried(snapshot, SetMig(NodeSelection("a100-1"), "all-balanced"))
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
    change = SetMig(NodeSelection("a100-0"), "3g:2", devices=(1, 2))
    after = tried(snapshot, change)
    assert whereabouts(after) == {"job-1": "a100-1", "job-2": "a100-1"}
    assert (allocatable(after, "nvidia.com/mig-3g.40gb"), allocatable(after, GPU)) == (4, 6)
    ((fault, remedy),) = problems(replace(snapshot, gpu={}), change)
    assert fault == "Tonnage cannot tell which pod holds which GPU (node a100-0)"
    assert "NodeGPUStatus" in remedy


def test_a_layout_that_is_there_already_moves_nobody() -> None:
    snapshot = Snapshot(FLEET[:1])
    there = DIVIDED
    runs = pod("s-0", 1, SMALL, on="a100-0")
    after = tried(replace(snapshot, nodes=(there,), pods=(runs,)), SetMig(NodeSelection("*"), "all-1g.10gb"))
    assert (after.placed, len(after.fates)) == (1, 0)
    back = tried(replace(snapshot, nodes=(there,), pods=(runs,)), SetMig(NodeSelection("*"), "all-disabled"))
    assert allocatable(back, GPU) == 4
    assert waiting(back) == {"resource-renamed": 1}


def test_the_strategy_single_offers_parts_under_the_name_of_whole_gpus() -> None:
    after = tried(Snapshot(FLEET[:1]), SetMig(NodeSelection("*"), "all-1g.10gb", strategy="single"))
    assert (allocatable(after, GPU), allocatable(after, SMALL)) == (28, 0)


def test_labels_follow_the_layout_so_that_selectors_see_it() -> None:
    wants = pod("s-0", 1, node_selector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED"})
    after = tried(Snapshot(FLEET[:1], (wants,)), SetSharing(NodeSelection("*"), 4))
    assert whereabouts(after) == {"s-0": "a100-0"}
    assert allocatable(after, GPU) == 16


def test_sharing_under_another_name_moves_who_asked_for_the_old_one() -> None:
    runs = pod("a-0", 1, on="t4-0")
    snapshot = Snapshot((node("t4-0", 1, T4),), (runs,))
    kept = tried(snapshot, SetSharing(NodeSelection("t4-*"), 4))
    assert (kept.placed, free(kept), len(kept.fates)) == (1, 3, 0)
    renamed = tried(snapshot, SetSharing(NodeSelection("t4-*"), 4, rename=True))
    assert waiting(renamed) == {"resource-renamed": 1}
    assert free(renamed, "nvidia.com/gpu.shared") == 4
    back = tried(
        snapshot, SetSharing(NodeSelection("t4-*"), 4, rename=True), SetSharing(NodeSelection("t4-*"), 1)
    )
    assert allocatable(back, GPU) == 1


def test_gpus_that_nobody_names_are_not_guessed() -> None:
    ((fault, remedy),) = problems(Snapshot((node("n-0", 2, ""),)), SetMig(NodeSelection("*"), "all-1g.10gb"))
    assert fault == "Tonnage does not know which GPUs it has (node n-0)"
    assert "nvidia.com/gpu.product" in remedy


def test_a_divided_node_is_not_shared_by_guess() -> None:
    ((fault, _),) = problems(Snapshot((DIVIDED,)), SetSharing(NodeSelection("*"), 2))
    assert "does not know the layout of each" in fault


def test_a_drain_spares_what_belongs_to_the_node_and_loses_what_belongs_to_nobody() -> None:
    pods = (
        pod("agent-0", 0, on="a100-0", owner=Owner("DaemonSet", "agent")),
        pod("static-0", 0, on="a100-0", owner=Owner("Node", "a100-0")),
        pod("job-0", 1, on="a100-0"),
        pod("bare-0", 1, on="a100-0", owner=None),
    )
    after = tried(Snapshot(FLEET[:2], pods), Drain(NodeSelection("a100-0")))
    assert whereabouts(after) == {"job-0": "a100-1", "bare-0": None}
    assert [fate.name for fate in after.fates if fate.lost] == ["ml/bare-0"]
    assert after.placed == 3
    removed = tried(Snapshot(FLEET[:2], pods), RemoveNodes(NodeSelection("a100-0")))
    assert (removed.nodes, removed.placed) == (1, 1)


def test_a_condition_of_the_cluster_as_it_was_is_no_reason_in_another() -> None:
    words = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    old = replace(PodStatus("Pending"), unschedulable_reason="Unschedulable", unschedulable_message=words)
    simulation = what_if(
        Snapshot(FLEET[:1], (pod("big-0", 8, status=old),)),
        [Alternative("after", (AddNodes(2, "a100-0"),))],
    )
    assert waiting(simulation.before) == waiting(simulation.alternatives[0]) == {"resource-too-large": 1}


def test_a_drain_says_whose_budget_makes_it_wait() -> None:
    selector = LabelSelector((Requirement("app", "In", ("job",)),))
    pods = tuple(pod(f"job-{n}", 1, on="a100-0", labels={"app": "job"}) for n in range(3))
    snapshot = Snapshot(FLEET[:2], pods, budgets=(DisruptionBudget("ml", "keep", selector, 1),))
    (note,) = tried(snapshot, Drain(NodeSelection("a100-0"))).notes
    assert note.startswith("the budget ml/keep lets 1 of 3 pods go at once")


@pytest.mark.parametrize("change", [Drain(NodeSelection("a100-0")), CordonNode(NodeSelection("a100-0"))])
def test_no_remedy_takes_back_what_is_tried(change: Drain | CordonNode) -> None:
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
    after = tried(snapshot, CordonNode(NodeSelection("a100-0")))
    assert waiting(after) == {"node-unschedulable": 1}
    figures = after.resource(GPU)
    assert figures is not None
    assert (figures.free, figures.cordoned) == (0, 3)
    assert [(one.cause, one.amount) for one in figures.stranded or ()] == [("cordon", 3)]
    undone = tried(
        snapshot, CordonNode(NodeSelection("a100-0")), CordonNode(NodeSelection("a100-0"), undo=True)
    )
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
    after = tried(
        Snapshot((), (pod("big-0", 8),)), change, SetMig(NodeSelection("h100*"), "7g:1", devices=(0,))
    )
    assert (allocatable(after, GPU), allocatable(after, "nvidia.com/mig-7g.80gb")) == (7, 1)
    unsized = AddNodes(1, product="H100-80", gpus=8)
    unheard = AddNodes(1, product="H1", gpus=8, amounts=change.amounts)
    ((what, remedy), (unknown, known)) = problems(Snapshot(FLEET[:1]), unsized, unheard)
    assert what == "Tonnage does not know how much cpu and memory a node with H100-80 has"
    assert "cpu: 96" in remedy
    assert unknown == "H1 is not in the catalogue"
    assert "H100-80" in known
