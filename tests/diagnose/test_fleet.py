"""What status says beside its rows: labels that are wrong, what was not seen, totals, words for troubles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tonnage.diagnose.fleet.totals import totals_of
from tonnage.diagnose.fleet.troubles import device_word
from tonnage.diagnose.status import FleetRow, fleet
from tonnage.diagnose.unseen_kinds import unseen_kinds
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.reading.documents import snapshot_from_documents

GPU = "nvidia.com/gpu"
Body = dict[str, Any]


def node(name: str, gpus: int, **labels: str) -> Body:
    amounts = {"cpu": "8", GPU: str(gpus)}
    metadata = {"name": name, "labels": {f"nvidia.com/gpu.{key}": text for key, text in labels.items()}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def report(name: str, *products: str, memory_mib: int = 15360, reason: str = "") -> Body:
    devices = [
        {
            "uuid": f"GPU-{index}",
            "index": index,
            "product": product,
            "memoryMiB": memory_mib,
            "resource": GPU,
            "health": "Unhealthy" if reason and not index else "Healthy",
            "reason": reason if not index else "",
        }
        for index, product in enumerate(products)
    ]
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": name},
        "status": {"devices": devices},
    }


def pod(name: str, on: str, amount: int, namespace: str = "ml") -> Body:
    container = {"name": "c", "resources": {"limits": {GPU: amount}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


def cluster(*objects: Body) -> Snapshot:
    return snapshot_from_documents([{"kind": "List", "items": list(objects)}])


def only_row(*objects: Body) -> FleetRow:
    (row,) = fleet(cluster(*objects))
    return row


def test_a_falsified_product_label_is_not_believed() -> None:
    row = only_row(node("a", 1, product="NVIDIA-H100-80GB-HBM3"), report("a", "Tesla T4"), pod("p", "a", 1))
    assert (row.product, row.state, row.in_order) == ("Tesla T4", "label differs", False)
    assert row.health == ("label nvidia.com/gpu.product says NVIDIA-H100-80GB-HBM3, the agent reads Tesla T4")


@pytest.mark.parametrize(
    ("labels", "products", "differs"),
    [
        pytest.param({"product": "Tesla-T4"}, ["Tesla T4"], False, id="the product itself"),
        pytest.param({"product": "Tesla-T4-SHARED"}, ["Tesla T4"], False, id="a shared product"),
        pytest.param(
            {"product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "count": "7", "memory": "4864"},
            ["NVIDIA A100-SXM4-40GB"],
            False,
            id="MIG devices under the name of whole GPUs have another count and memory",
        ),
        pytest.param({"product": "Tesla-T4"}, ["Tesla T4", "NVIDIA L4"], False, id="one of two products"),
        pytest.param({"product": "Tesla-T40"}, ["Tesla T4"], True, id="a longer name"),
        pytest.param({"product": "Tesla-T4", "count": "2"}, ["Tesla T4"], True, id="another count"),
        pytest.param({"product": "Tesla-T4", "memory": "81920"}, ["Tesla T4"], True, id="another memory"),
        pytest.param({"product": "Tesla-T4", "memory": "15359"}, ["Tesla T4"], False, id="rounded memory"),
        pytest.param({"product": "Tesla-T4", "count": "x"}, ["Tesla T4"], False, id="a count of no number"),
        pytest.param({}, ["Tesla T4"], False, id="no label"),
    ],
)
def test_labels_are_held_against_what_the_agent_reads(
    labels: dict[str, str], products: list[str], differs: bool
) -> None:
    row = only_row(node("a", len(products), **labels), report("a", *products), pod("p", "a", 1))
    assert [trouble.word for trouble in row.troubles] == (["label differs"] if differs else [])


def test_without_an_agent_the_label_is_all_there_is() -> None:
    row = only_row(node("a", 1, product="Tesla-T4"), pod("p", "a", 1))
    assert (row.product, row.in_order) == ("Tesla-T4", True)


def test_of_nodes_alone_it_is_not_known_what_is_allocated() -> None:
    snapshot = cluster(node("a", 4))
    (row,) = fleet(snapshot)
    assert unseen_kinds(snapshot) == ("Pod",)
    assert (row.allocated, row.holders) == (None, None)
    assert (row.to_json()["allocated"], row.to_json()["holders"]) == (None, None)
    assert (row.allocatable, row.capacity, row.in_order) == (4, 4, True)
    (total,) = totals_of([row])
    assert (total.allocatable, total.allocated, total.free) == (4, None, None)
    assert total.words == "nvidia.com/gpu: 1 node, 4 of 4 allocatable"


def test_of_pods_alone_it_is_known_who_holds_what_and_no_more() -> None:
    snapshot = cluster(pod("p", "a", 2), pod("q", "a", 1), pod("r", "b", 1))
    first, second = fleet(snapshot)
    assert unseen_kinds(snapshot) == ("Node",)
    assert (first.node, first.allocated, first.holders) == ("a", 3, (("ml/p", 2), ("ml/q", 1)))
    assert (first.allocatable, first.capacity, first.advertised, first.product) == (None, None, None, "")
    assert (first.in_order, second.node) == (True, "b")


def test_a_pod_on_a_node_that_has_no_gpu_makes_no_row_of_it() -> None:
    bare = node("a", 0)
    bare["status"]["capacity"] = bare["status"]["allocatable"] = {}
    assert fleet(cluster(bare, pod("p", "a", 1))) == ()


def test_a_kind_that_was_refused_is_not_seen_though_others_are() -> None:
    nodes = cluster(node("a", 4), pod("p", "a", 1))
    assert unseen_kinds(nodes) == ()
    refused = snapshot_from_documents([{"kind": "List", "items": [node("a", 4)]}])
    assert unseen_kinds(Snapshot(nodes=refused.nodes, complete=frozenset({"Node", "Pod"}))) == ()
    assert unseen_kinds(replace(refused, missing=frozenset(), scopes={"Pod": "ml"})) == ("Pod",)
    missing = Snapshot(nodes=refused.nodes, complete=frozenset({"Node"}), missing=frozenset({"Pod"}))
    assert [row.allocated for row in fleet(missing)] == [None]


def test_totals_are_of_one_resource_each() -> None:
    shared = node("b", 0)
    shared["status"]["capacity"] = shared["status"]["allocatable"] = {"nvidia.com/gpu.shared": "8"}
    rows = fleet(cluster(node("a", 4), node("c", 2), shared, pod("p", "a", 3)))
    assert [total.words for total in totals_of(rows)] == [
        "nvidia.com/gpu: 2 nodes, 6 of 6 allocatable, 3 allocated, 3 free",
        "nvidia.com/gpu.shared: 1 node, 8 of 8 allocatable, 0 allocated, 8 free",
    ]


def test_a_node_with_more_allocated_than_is_allocatable_takes_nothing_from_others() -> None:
    ill = node("b", 4)
    ill["status"]["allocatable"] = {"nvidia.com/gpu": "2"}
    (total,) = totals_of(fleet(cluster(node("a", 4), ill, pod("p", "b", 4))))
    assert (total.allocatable, total.allocated, total.free) == (6, 4, 4)
    assert total.words.startswith("nvidia.com/gpu: 2 nodes, 6 of 8 allocatable, 4 allocated, 4 free")


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("Xid 79: GPU has fallen off the bus; needs a reboot of the node", "1 lost"),
        ("GPU is lost", "1 lost"),
        ("Xid 95: uncontained ECC error; needs a reset of the GPU", "1 needs reset"),
        ("held back", "1 unhealthy"),
    ],
)
def test_a_device_has_one_short_word_and_its_reason_beside_it(reason: str, word: str) -> None:
    row = only_row(node("a", 2), report("a", "Tesla T4", "Tesla T4", reason=reason), pod("p", "a", 1))
    assert (row.state, row.devices[0].state) == (word, device_word(reason))
    assert reason in row.health


def test_a_refused_configuration_is_two_words() -> None:
    refused = report("a", "Tesla T4")
    refused["status"]["config"] = {"source": "cm[default]", "error": "cm[broken]:4 replicas"}
    assert only_row(node("a", 1), refused, pod("p", "a", 1)).state == "config refused"


def test_of_a_namespace_a_row_counts_what_its_pods_hold() -> None:
    row = only_row(node("a", 4), pod("p", "a", 2), pod("q", "a", 1, namespace="web"))
    own = row.held_in("web")
    assert (own.allocated, own.holders, own.allocatable) == (1, (("web/q", 1),), 4)
