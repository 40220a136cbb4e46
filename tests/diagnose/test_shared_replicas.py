"""Replicas are not GPUs: on a node that shares its GPUs under the plain name, by labels and by an agent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tonnage.diagnose.explain.explain import explain
from tonnage.diagnose.fleet.totals import totals_of
from tonnage.diagnose.simulate.node_gpus import gpus_of_node, offer_of
from tonnage.diagnose.status import fleet
from tonnage.diagnose.topo.text import best_lines
from tonnage.diagnose.topo.topology import fleet_topology
from tonnage.model.errors import Problem
from tonnage.model.kubernetes.cluster import Container, Node, Pod, Snapshot
from tonnage.model.kubernetes.selectors import Taint
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus
from tonnage.model.reasons.gpu.allocation import SharedRequestTooLarge
from tonnage.model.reasons.pod.pods import ReplicasNotDevices
from tonnage.model.verdict import Explanation, Verdict

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
ROOM = {"cpu": 64_000, "memory": 256 << 30, "pods": 110, "ephemeral-storage": 1 << 40}


def node(name: str, amounts: dict[str, int], gpus: int, replicas: int, product: str) -> Node:
    labels = {
        "nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.product": product, "kubernetes.io/hostname": name,
    }  # fmt: skip
    return Node(name, allocatable={**ROOM, **amounts}, capacity={**ROOM, **amounts}, labels=labels)


A10 = node("a10", {GPU: 5}, 1, 5, "NVIDIA-A10-SHARED")
L4S = node("l4s", {GPU: 6}, 2, 3, "NVIDIA-L4-SHARED")
WHOLE = node("whole", {GPU: 4}, 4, 1, "NVIDIA-L40S")
RENAMED = node("renamed", {SHARED: 8}, 2, 4, "NVIDIA-L40S")
AGENT = GpuStatus("bare", (GpuDevice("GPU-a", "NVIDIA A10", 0, GPU, 5),), replicas={GPU: 5})
BARE = replace(A10, name="bare", labels={"kubernetes.io/hostname": "bare"})


def pod(count: int, resource: str = GPU, containers: int = 1) -> Pod:
    asking = Container("c", requests={resource: count}, limits={resource: count})
    every = tuple(replace(asking, name=f"c{number}") for number in range(containers))
    return Pod("train", "ml", containers=every)


def explained(asking: Pod, *nodes: Node, gpu: tuple[GpuStatus, ...] = ()) -> Explanation:
    snapshot = Snapshot(nodes=nodes, pods=(asking,), gpu={status.node: status for status in gpu})
    return explain(asking, snapshot)


def warnings(answer: Explanation) -> list[str]:
    return [reason.message for reason in answer.reasons if isinstance(reason, ReplicasNotDevices)]


@pytest.mark.parametrize(
    ("asking", "nodes", "words"),
    [
        (pod(5), (A10,), ["on a10, 5 nvidia.com/gpu are replicas of one GPU"]),
        (pod(2), (L4S,), ["on l4s, 2 nvidia.com/gpu may be replicas of one GPU"]),
        (pod(4), (L4S,), ["on l4s, 4 nvidia.com/gpu are replicas of 2 GPUs"]),
        (pod(1, containers=2), (A10,), ["on a10, 2 nvidia.com/gpu are replicas of one GPU"]),
        (pod(2, SHARED), (RENAMED,), [f"on renamed, 2 {SHARED} may be replicas of one GPU"]),
        (pod(3), (A10, WHOLE), ["on a10, 3 nvidia.com/gpu are replicas of one GPU"]),
        (pod(1), (A10, L4S), []),
        (pod(4), (WHOLE, RENAMED), []),
    ],
    ids=[
        "one GPU five times", "perhaps one", "two for certain", "two containers", "renamed",
        "one of two nodes", "one replica", "whole ones",
    ],
)  # fmt: skip
def test_a_pod_that_fits_hears_that_replicas_are_not_gpus(
    asking: Pod, nodes: tuple[Node, ...], words: list[str]
) -> None:
    answer = explained(asking, *nodes)
    assert answer.verdict is Verdict.FITS
    assert warnings(answer) == [f"{text}; replicas add no memory or compute" for text in words]


def test_the_agent_says_it_where_labels_do_not() -> None:
    assert warnings(explained(pod(5), BARE)) == []
    (text,) = warnings(explained(pod(5), BARE, gpu=(AGENT,)))
    assert text.startswith("on bare, 5 nvidia.com/gpu are replicas of one GPU")


def test_where_a_container_may_have_one_that_is_the_reason() -> None:
    strict = replace(AGENT, single_requests=frozenset({GPU}))
    codes = {type(reason) for reason in explained(pod(2), BARE, gpu=(strict,)).reasons}
    assert SharedRequestTooLarge in codes
    assert ReplicasNotDevices not in codes


def test_too_large_a_request_is_not_answered_with_replicas() -> None:
    answer = explained(pod(8), A10, RENAMED)
    assert answer.verdict is Verdict.NEVER
    assert warnings(answer) == [
        "on a10, 5 nvidia.com/gpu are replicas of one GPU; replicas add no memory or compute"
    ]
    assert [remedy for remedy in answer.remedies if remedy.patch] == []


def test_a_remedy_that_leads_to_replicas_says_so_and_one_to_gpus_does_not() -> None:
    wanted = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    selecting = replace(pod(3), node_selector=wanted)
    effects = {remedy.effect for remedy in explained(selecting, A10).remedies}
    assert effects == {"fits a10, where 3 nvidia.com/gpu are replicas of one GPU"}
    assert {remedy.effect for remedy in explained(selecting, WHOLE).remedies} == {"fits whole"}


def test_fewer_whole_gpus_are_offered_where_no_replicas_can_be_chosen_instead() -> None:
    first = explained(pod(8), A10, WHOLE).remedies[0]
    assert first.action.startswith(f"ask for 4 {GPU}; and select nodes whose GPUs are not shared")
    assert first.effect == "fits whole (all of these are needed)"
    spec = first.patch["spec"]
    assert isinstance(spec, dict)
    assert spec["nodeSelector"] == {"nvidia.com/gpu.replicas": "1"}
    assert explained(pod(8), RENAMED, WHOLE).remedies[0].action == f"ask for 4 {GPU}"


def test_one_replica_is_no_answer_to_several_gpus_either() -> None:
    single = node("single", {GPU: 1}, 1, 1, "NVIDIA-L4")
    actions = [remedy.action for remedy in explained(pod(20), A10, single).remedies]
    assert actions == [
        (
            f'select nodes whose GPUs are not shared (nodeSelector {GPU}.replicas: "1"), or ask for 1 where a'
            " share of a GPU is enough"
        )
    ]


def test_one_of_a_misspelt_name_is_called_the_share_that_it_is() -> None:
    (remedy,) = explained(pod(1, "nvidia.com/gpus"), A10).remedies
    assert remedy.action.endswith(": a share of a GPU instead of a whole one")


def test_status_counts_devices_beside_replicas() -> None:
    rows = fleet(Snapshot(nodes=(A10, BARE, L4S, RENAMED, WHOLE), gpu={"bare": AGENT}))
    assert [(row.node, row.mode, row.replicas, row.device_count) for row in rows] == [
        ("a10", "time-sliced", 5, 1),
        ("bare", "time-sliced", 5, 1),
        ("l4s", "time-sliced", 3, 2),
        ("renamed", "time-sliced", 4, 2),
        ("whole", "exclusive", 1, 4),
    ]


def test_a_total_of_replicas_says_how_many_gpus_are_behind_it() -> None:
    pods = (Pod("d", "kube-system", node_name="a10"),)
    rows = fleet(Snapshot(nodes=(A10, WHOLE, RENAMED), pods=pods))
    words = {total.resource: total.words for total in totals_of(rows)}
    assert words == {
        GPU: f"{GPU}: 2 nodes, 9 of 9 allocatable (on 5 GPUs), 0 allocated, 9 free",
        SHARED: f"{SHARED}: 1 node, 8 of 8 allocatable (on 2 GPUs), 0 allocated, 8 free",
    }
    (total,) = totals_of(fleet(Snapshot(nodes=(WHOLE,), pods=pods)))
    assert total.words == f"{GPU}: 1 node, 4 of 4 allocatable, 0 allocated, 4 free"


def running(on: Node, count: int, name: str = "other") -> Pod:
    return replace(pod(count), name=name, node_name=on.name, uid=name)


def test_a_busy_node_s_line_says_what_its_replicas_are() -> None:
    snapshot = Snapshot(nodes=(A10,), pods=(asking := pod(3), running(A10, 4)))
    (node_class,) = explain(asking, snapshot).classes
    [reason] = node_class.first.reasons
    assert reason.message == (
        f"asks 3 {GPU}, 1 free (4 of 5 used; 5 {GPU} are replicas of one GPU); held by other"
    )


def test_what_leads_to_gpus_stands_before_what_leads_to_replicas() -> None:
    closed = replace(WHOLE, taints=(Taint("team", "b", "NoSchedule"),))
    asking = pod(3)
    pods = (asking, running(A10, 4), running(closed, 2, "train-2"))
    first, second = explain(asking, Snapshot(nodes=(A10, closed), pods=pods)).remedies
    assert first.effect == "fits whole (all of these are needed)"
    assert second.effect == f"fits a10, where 3 {GPU} are replicas of one GPU"


def test_whom_to_wait_for_on_shared_nodes_is_said_with_what_that_gives() -> None:
    twin = replace(A10, name="twin")
    asking = pod(3)
    pods = (asking, running(A10, 4), running(twin, 4, "another"))
    (remedy,) = explain(asking, Snapshot(nodes=(A10, twin), pods=pods)).remedies
    assert remedy.effect == f"fits the node that they leave, where 3 {GPU} are replicas of one GPU"


def test_a_what_if_starts_from_the_sharing_that_labels_tell() -> None:
    for there, resource in ((L4S, GPU), (RENAMED, SHARED)):
        gpus = gpus_of_node(there, None)
        assert not isinstance(gpus, Problem)
        assert len(gpus.devices) == 2
        amount = there.capacity[resource]
        assert offer_of(gpus).amounts[resource] == (amount, amount)  # type: ignore[index]


def test_topology_says_that_pods_get_replicas() -> None:
    (topology,) = fleet_topology(Snapshot(nodes=(BARE,), gpu={"bare": AGENT})).nodes
    assert list(best_lines(topology)) == [
        "nvidia.com/gpu counts replicas, 5 of each GPU: pods get replicas, not sets of GPUs"
    ]
