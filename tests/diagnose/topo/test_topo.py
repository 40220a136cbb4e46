"""TOP-1 to TOP-3: families of nodes, a set beside the best, and a slow job whose cause is its placement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.topologies import bridged_pairs, devices, dgx1, nvswitch, pci_only
from tonnage.agent.status.device import links_of
from tonnage.decide.node.preference.device_sets import board_of
from tonnage.diagnose.explain.explain import explain, find_pod
from tonnage.diagnose.topo.families import FamilyKind, family_of
from tonnage.diagnose.topo.text import best_lines, comparison_lines, matrix_lines
from tonnage.diagnose.topo.topology import comparison, fleet_topology, node_json, topology_of_board
from tonnage.model.devices.inventory import Inventory
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.layer import Layer
from tonnage.model.reasons.gpu.devices import LinksBelowBest
from tonnage.model.reasons.pod.pods import LinksBelowFamily, LinksUndecided
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.documents import snapshot_from_documents

Body = dict[str, Any]
GPU = "nvidia.com/gpu"
A100, L40S = "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"


def objects(
    name: str, inventory: Inventory, product: str, held: dict[str, list[int]] | None = None
) -> list[Body]:
    """A node, what its agent publishes of it, and the running pods that hold GPUs of it, by index."""
    links = links_of(inventory.devices, inventory.links)
    holders: dict[int, list[Body]] = {}
    for pod, indices in (held or {}).items():
        for index in indices:
            uuid = inventory.devices[index].uuid
            holder = {"resource": GPU, "ids": [uuid], "namespace": "ml", "pod": pod, "container": "c"}
            holders.setdefault(index, []).append(holder)
    published = [
        {
            "uuid": device.uuid, "index": device.index, "product": product.replace("-", " "),
            "computeCapability": device.compute_capability, "numaNode": device.numa_node, "health": "Healthy",
            "resource": GPU, "replicas": 1, "holders": holders.get(device.index, []),
            "links": [link.model_dump(by_alias=True) for link in links[device.uuid]],
        }
        for device in inventory.devices
    ]  # fmt: skip
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: str(len(published))}
    node = {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }  # fmt: skip
    status = {
        "apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGPUStatus", "metadata": {"name": name},
        "status": {"devices": published, "resources": [{"name": GPU, "replicas": 1}]},
    }  # fmt: skip
    return [node, status, *(_pod(pod, name, len(indices)) for pod, indices in (held or {}).items())]


def _pod(name: str, node: str, count: int) -> Body:
    container = {"name": "c", "resources": {"limits": {GPU: str(count)}}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ml"},
        "spec": {"nodeName": node, "containers": [container]}, "status": {"phase": "Running"},
    }  # fmt: skip


def cluster(*parts: list[Body]) -> Snapshot:
    items: list[Any] = [entry for part in parts for entry in part]
    return snapshot_from_documents([{"kind": "List", "items": items}], server_version="1.35")


def explained(name: str, snapshot: Snapshot) -> Explanation:
    pod = find_pod(snapshot, "ml", name)
    assert pod is not None
    return explain(pod, snapshot)


@pytest.mark.parametrize(
    ("inventory", "kind", "message"),
    [
        (nvswitch(8, "8.0", 12), FamilyKind.NVSWITCH, "NVSwitch, 12 NVLinks each"),
        (dgx1(), FamilyKind.NVLINK_GROUPS, "NVLink within 0-1-2-3-4-5-6-7"),
        (bridged_pairs(), FamilyKind.NVLINK_GROUPS, "NVLink within 0-1, 2-3"),
        (bridged_pairs(2), FamilyKind.NVLINK, "NVLink between all"),
        (pci_only(), FamilyKind.PCI, "PCIe only"),
        (Inventory(devices(1)), FamilyKind.ALONE, "one GPU"),
        (Inventory(), FamilyKind.ALONE, "one GPU"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else None,
)
def test_a_family_is_told_in_a_few_words(inventory: Inventory, kind: FamilyKind, message: str) -> None:
    family = family_of(board_of(inventory.devices, inventory.links))
    assert (family.kind, family.summary) == (kind, message)


def test_amds_machines_are_families_of_their_own() -> None:
    for source, kind in ((bridged_pairs(2), FamilyKind.XGMI), (bridged_pairs(), FamilyKind.XGMI_GROUPS)):
        amd = tuple(replace(device, product="AMD Instinct MI250X") for device in source.devices)
        assert family_of(board_of(amd, source.links)).kind is kind


def test_top_1_what_the_agent_publishes_is_drawn_as_the_driver_stated_it() -> None:
    """TOP-1: read, drawn, labelled."""
    inventory = nvswitch(4, "8.0", 12)
    (node,) = fleet_topology(cluster(objects("hgx-0", inventory, A100, {"train": [1, 2]}))).nodes
    assert node.board.ways == board_of(inventory.devices, inventory.links).ways
    lines = list(matrix_lines(node))
    assert lines[0].split()[:6] == ["GPU0", "GPU1", "GPU2", "GPU3", "NUMA", "PCI"]
    assert lines[2].split() == ["GPU1", "NV12", "X", "NV12", "NV12", "0", "-", GPU, "ml/train"]
    assert "NV12 = 12 NVLinks side by side (their number, not a distance)" in lines
    body: Any = node_json(node)
    assert body["gb_s"][0][1] == 240.0
    assert body["best"]["2"]["slowest"] == {"pair": [0, 1], "link": "NV12", "gb_s": 240.0}


@pytest.mark.parametrize("gpus", [4, 8, 16])
def test_a_matrix_fits_sixty_columns(gpus: int) -> None:
    (node,) = fleet_topology(cluster(objects("hgx-0", nvswitch(gpus, "8.0", 12), A100, {"train": [1]}))).nodes
    wide, narrow = [*matrix_lines(node)], [*matrix_lines(node, 60)]
    legend = len([line for line in wide if " = " in line])
    assert max(map(len, narrow[:-legend])) <= 60 < max(map(len, wide[:-legend]))
    assert "GPU1: NUMA 0, PCI -" in narrow
    assert f"  {GPU}, held by ml/train" in narrow
    assert sum(line.split().count("NV12") for line in narrow[:-legend]) == gpus * (gpus - 1)


def test_top_1_families_that_differ_are_not_one_pool() -> None:
    """TOP-1: one resource name, two ways of being joined."""
    fast, slow = nvswitch(4, "8.0", 12), bridged_pairs()
    topology = fleet_topology(cluster(objects("a", fast, A100), objects("b", slow, A100)))
    (note,) = topology.notes
    assert "a (NVSwitch, 12 NVLinks each); b (NVLink within 0-1, 2-3)" in note
    assert "label them by their links" in note
    other = fleet_topology(cluster(objects("a", fast, A100), objects("b", slow, L40S)))
    assert "the product label tells them apart" in other.notes[0]
    alike = fleet_topology(cluster(objects("a", fast, A100), objects("b", fast, A100)))
    assert alike.notes == ()
    single = fleet_topology(cluster(objects("a", fast, A100), objects("b", Inventory(devices(1)), L40S)))
    assert single.notes == ()


def test_a_node_whose_agent_is_silent_is_named() -> None:
    node, _ = objects("dark", nvswitch(4), A100)
    fleet = fleet_topology(cluster([node], objects("a", nvswitch(4), A100)))
    assert (fleet.silent, [n.node for n in fleet.nodes]) == (("dark",), ["a"])


def test_top_1_what_contradicts_itself_is_said_and_not_drawn() -> None:
    """A status without a node, an index of two GPUs, links that one end alone has."""
    ghost, twice, uneven = (objects(name, bridged_pairs(), A100) for name in ("ghost", "twice", "uneven"))
    twice[1]["status"]["devices"][1]["index"] = 0
    uneven[1]["status"]["devices"][1]["links"] = []
    good = objects("good", bridged_pairs(), A100)
    fleet = fleet_topology(cluster(ghost[1:], twice, uneven, good))
    assert [node.node for node in fleet.nodes] == ["good", "twice", "uneven"]
    assert [row.index for row in fleet.nodes[1].rows] == [2, 3]
    unknown, unsure = (
        "Tonnage cannot tell which one is meant, so they are left out",
        "their row in the table may be wrong",
    )
    assert [note for note in fleet.notes if "not one pool" not in note] == [
        f"twice: its NodeGPUStatus has several GPUs of index 0: {unknown}",
        f"uneven: the two GPUs of 0-1 disagree about the links between them: {unsure}",
        "NodeGPUStatus of ghost: the node does not exist, so it is left out",
    ]


def test_a_chosen_set_is_held_against_the_best_and_what_is_free() -> None:
    snapshot = cluster(objects("b", bridged_pairs(), A100, {"other": [0]}))
    (node,) = fleet_topology(snapshot).nodes
    split = comparison(node, (1, 2))
    assert not split.is_best
    assert split.best is not None
    assert split.best_free is not None
    assert (split.best.indices, split.best_free.indices) == ((0, 1), (2, 3))
    told = list(comparison_lines(split))
    assert told[0] == "chosen: GPU 1, 2: slowest pair 1-2 over SYS, 6 GB/s; NUMA nodes 0, 1"
    assert told[1].endswith("(40.0 times as fast)")
    assert comparison(node, (2, 3)).is_best
    body: Any = node_json(node, split)
    assert body["set"]["is_best"] is False


def ill(parts: list[Body], *indices: int, reason: str = "GPU is lost") -> list[Body]:
    """The same node, some of whose GPUs its agent calls unhealthy."""
    for index in indices:
        parts[1]["status"]["devices"][index] |= {"health": "Unhealthy", "reason": reason}
    return parts


def test_no_recommended_set_has_a_gpu_that_is_lost() -> None:
    (node,) = fleet_topology(cluster(ill(objects("b", bridged_pairs(), A100), 1))).nodes
    body: Any = node_json(node)
    assert body["best"]["2"]["gpus"] == [2, 3]
    assert "4" not in body["best"]
    assert body["left_out"] == [{"index": 1, "reason": "GPU is lost"}]
    assert list(best_lines(node)) == [
        "best 2: GPU 2, 3: slowest pair 2-3 over NV12, 240 GB/s; NUMA node 1",
        "best 4: none, 3 of 4 GPUs are healthy",
        "left out: GPU 1 (GPU is lost)",
    ]
    worn = ill(objects("b", bridged_pairs(), A100), 1, 3)
    assert "SYS" in fleet_topology(cluster(worn)).nodes[0].fastest_pair


def test_no_recommended_set_has_a_gpu_that_is_divided_by_mig() -> None:
    parts = objects("b", bridged_pairs(), A100)
    part = {"uuid": "MIG-0", "profile": "3g.40gb", "resource": "nvidia.com/mig-3g.40gb", "health": "Healthy"}
    parts[1]["status"]["devices"][0] |= {"migDevices": [part]}
    (node,) = fleet_topology(cluster(parts)).nodes
    assert list(best_lines(node)) == [
        "best 2: GPU 2, 3: slowest pair 2-3 over NV12, 240 GB/s; NUMA node 1",
        "best 4: none, 3 of 4 GPUs are healthy and whole",
        "left out: GPU 0 (divided by MIG)",
    ]
    assert not comparison(node, (0, 1)).is_best


def test_a_gpu_that_is_divided_by_mig_is_not_called_unhealthy() -> None:
    parts = ill(objects("b", bridged_pairs(), A100), 1)
    part = {"uuid": "MIG-0", "profile": "3g.40gb", "resource": "nvidia.com/mig-3g.40gb", "health": "Healthy"}
    parts[1]["status"]["devices"][0] |= {"migDevices": [part]}
    (node,) = fleet_topology(cluster(parts)).nodes
    body: Any = node_json(node, comparison(node, (0, 1, 2)))
    assert (body["set"]["unhealthy"], body["set"]["divided"]) == ([1], [0])
    assert [row["divided"] for row in body["gpus"]] == [True, False, False, False]
    lines = [line for line in matrix_lines(node) if line.startswith("GPU")]
    assert [line.split("   ")[-1].strip() for line in lines] == ["divided by MIG", "unhealthy", "-", "-"]
    narrow = [line.strip() for line in matrix_lines(node, 40)]
    assert "nvidia.com/gpu, divided by MIG" in narrow


def test_a_chosen_set_with_a_gpu_that_is_lost_is_not_the_best() -> None:
    (node,) = fleet_topology(cluster(ill(objects("b", bridged_pairs(), A100), 1))).nodes
    pair, all_four = comparison(node, (0, 1)), comparison(node, (0, 1, 2, 3))
    assert (pair.is_best, all_four.is_best) == (False, False)
    assert list(comparison_lines(pair))[1:] == [
        "no pod can get it: GPU 1 (GPU is lost)",
        "best:   GPU 2, 3: slowest pair 2-3 over NV12, 240 GB/s; NUMA node 1",
        "the best set is free now",
    ]
    assert list(comparison_lines(all_four))[1:] == [
        "no pod can get it: GPU 1 (GPU is lost)",
        "too few GPUs of this node can be used for a set of its size",
    ]


def test_a_better_set_is_not_one_that_has_an_unhealthy_gpu() -> None:
    held = {"train": [0, 1, 2, 4], "other": [3]}
    whole = explained("train", cluster(objects("a", pci_only(), L40S, held)))
    assert [reason.code for reason in whole.reasons] == [LinksBelowBest.code]
    better = explained("train", cluster(ill(objects("a", pci_only(), L40S, held), 3, 5, reason="Xid 79")))
    assert better.reasons == ()
    third = explained("train", cluster(ill(objects("a", pci_only(), L40S, held), 7, reason="Xid 79")))
    assert third.reasons[0].message.endswith("; left out: GPU 7 (Xid 79)")


def test_nodes_with_too_few_healthy_gpus_are_no_faster_choice() -> None:
    slow, fast = objects("slow", pci_only(), L40S), objects("fast", nvswitch(4, "8.0", 12), A100)
    here = objects("slow", pci_only(), L40S, {"train": [0, 1, 2, 3]})
    ills = ill(objects("fast", nvswitch(4, "8.0", 12), A100), 2)
    assert LinksUndecided.code in {r.code for r in explained("new", cluster(slow, fast, waiting(4))).reasons}
    for objs, name in (((slow, ills, waiting(4)), "new"), ((here, ills), "train")):
        codes = {r.code for r in explained(name, cluster(*objs)).reasons}
        assert not codes & {LinksUndecided.code, LinksBelowFamily.code}


def test_top_2_four_gpus_with_the_best_links_and_one_numa_node() -> None:
    """TOP-2: explain says that nothing better was to be had."""
    answer = explained("train", cluster(objects("a", nvswitch(8, "8.0", 12), A100, {"train": [4, 5, 6, 7]})))
    assert (answer.verdict, answer.reasons) == (Verdict.RUNNING, ())
    assert "no 4 GPUs of the node have better links (NV12, NUMA node 1)" in answer.message
    links: Any = answer.placement.links
    assert links["numa_nodes"] == [1]
    assert links["slowest"] == links["best"]["slowest"] | {"pair": [4, 5]}


def test_top_2_four_gpus_that_are_not_the_best_four() -> None:
    """TOP-2: explain compares with the best possible, and says who has it."""
    held = {"train": [0, 1, 2, 4], "other": [3]}
    answer = explained("train", cluster(objects("a", pci_only(), L40S, held)))
    (reason,) = answer.reasons
    assert (reason.code, reason.layer, answer.verdict) == (LinksBelowBest.code, Layer.PLUGIN, Verdict.RUNNING)
    best: Any = reason.facts["best"]
    assert best["gpus"] == [0, 1, 2, 3]
    assert "slowest pair 0-4 over SYS, 6 GB/s" in reason.message
    assert "once ml/other no longer holds some of them" in reason.remedy
    assert answer.remedies[0].effect == "its slowest pair is 1.6 times as fast"


def test_top_3_the_slow_job_after_a_move_to_a_general_pool() -> None:
    """TOP-3: the placement is shown to be the cause, before any advice on tuning, with the way back."""
    general = objects("general-0", pci_only(), L40S, {"train": [0, 1, 2, 3]})
    answer = explained("train", cluster(general, objects("hgx-0", nvswitch(8, "8.0", 12), A100)))
    (reason,) = answer.reasons
    assert (reason.code, reason.layer) == (LinksBelowFamily.code, Layer.SCHEDULER)
    assert "PCIe only" in reason.message
    assert "hgx-0 (NVSwitch, 12 NVLinks each)" in reason.message
    assert "9.9 GB/s over NODE, there it has 240 GB/s over NV12" in reason.message
    assert "check this placement before the program, NCCL or the batch size" in reason.message
    (remedy,) = answer.remedies
    assert remedy.patch == {"spec": {"nodeSelector": {"nvidia.com/gpu.product": A100}}}
    assert remedy.effect == "its slowest pair is 24.2 times as fast"


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        pytest.param([("b", nvswitch(2, "8.0", 12), A100)], [], id="too few GPUs there"),
        pytest.param([("b", pci_only(), A100)], [], id="another node that is as slow"),
        pytest.param(
            [("b", nvswitch(8, "8.0", 12), L40S)], [LinksBelowFamily.code], id="a product that says nothing"
        ),
    ],
)
def test_elsewhere_counts_only_what_the_pod_could_use(
    nodes: list[tuple[str, Inventory, str]], names: list[str]
) -> None:
    here = objects("general-0", pci_only(), L40S, {"train": [0, 1, 2, 3]})
    answer = explained("train", cluster(here, *(objects(*node) for node in nodes)))
    assert [reason.code for reason in answer.reasons] == names
    assert all(remedy.patch == {} and "label nodes" in remedy.action for remedy in answer.remedies)


def waiting(count: int, **spec: Any) -> list[Body]:
    pod = _pod("new", "", count)
    pod["spec"] |= spec
    return [{**pod, "status": {"phase": "Pending"}}]


def test_top_2_before_it_runs_a_pod_is_told_that_the_node_decides() -> None:
    """TOP-1, TOP-2: the default scheduler does not look at links; who asks for several GPUs hears of it."""
    nodes = objects("general-0", pci_only(), L40S), objects("hgx-0", nvswitch(8, "8.0", 12), A100)
    answer = explained("new", cluster(*nodes, waiting(4)))
    (reason,) = [r for r in answer.reasons if r.code == LinksUndecided.code]
    assert answer.verdict is Verdict.FITS
    assert reason.message.endswith(
        "hgx-0 (NVSwitch, 12 NVLinks each, 240 GB/s over NV12); general-0 (PCIe only, 9.9 GB/s over NODE)"
    )
    chosen = {"nodeSelector": {"nvidia.com/gpu.product": A100}}
    for objs in (
        (*nodes, waiting(4, **chosen)),
        (*nodes, waiting(1)),
        (nodes[0], waiting(4)),
        (*nodes, waiting(9)),
    ):
        assert LinksUndecided.code not in {r.code for r in explained("new", cluster(*objs)).reasons}


def test_one_gpu_and_replicas_have_no_links_to_compare() -> None:
    single = explained("train", cluster(objects("a", pci_only(), L40S, {"train": [0]})))
    shared = objects("a", pci_only(), L40S, {"train": [0, 7]})
    for device in shared[1]["status"]["devices"]:
        for holder in device["holders"]:
            holder["ids"] = [f"{device['uuid']}::0"]
    for answer in (single, explained("train", cluster(shared))):
        assert (answer.placement.links, answer.reasons) == (None, ())


def test_hostile_links_draw_something() -> None:
    odd: JsonObject = {"peers": [0, 0, 99, -1, True, "x"], "nvlinks": -5, "path": "WARP", "switches": 1}
    node, status = objects("a", nvswitch(3), A100)
    for device in status["status"]["devices"]:
        device |= {"links": [odd, 7, {}]}
    (found,) = fleet_topology(cluster([node, status])).nodes
    assert len(list(matrix_lines(found))) >= 4
    assert node_json(found)["node"] == "a"
    assert (
        len(fleet_topology(cluster([node, {**status, "status": {"devices": [{}] * 9}}])).nodes[0].rows) == 0
    )


def test_this_machine_needs_no_cluster() -> None:
    inventory = bridged_pairs()
    topology = topology_of_board("here", board_of(inventory.devices, inventory.links))
    assert topology.free == (0, 1, 2, 3)
    assert topology.fastest_pair == "NV12, 240 GB/s"
