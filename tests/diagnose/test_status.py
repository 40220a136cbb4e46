from __future__ import annotations

from typing import Any

from tonnage.adapters.reading_documents import snapshot_from_documents
from tonnage.diagnose.status import FleetRow, fleet

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
Body = dict[str, Any]


def node(name: str, capacity: Body, allocatable: Body | None = None, **labels: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "Tesla-T4"} | labels},
        "status": {"capacity": capacity, "allocatable": capacity if allocatable is None else allocatable},
    }


def pod(name: str, on: str, resource: str, amount: int) -> Body:
    container = {"name": "c", "resources": {"limits": {resource: amount}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


def agent(name: str, *devices: Body) -> Body:
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": name},
        "status": {"devices": list(devices)},
    }


def rows(*objects: Body) -> list[FleetRow]:
    return list(fleet(snapshot_from_documents([{"kind": "List", "items": list(objects)}])))


def test_an_exclusive_node_with_two_of_four_held() -> None:
    [row] = rows(node("a", {"cpu": "8", GPU: "4"}), pod("p", "a", GPU, 2), pod("q", "a", "cpu", 1))
    assert (row.node, row.resource, row.product, row.mode) == ("a", GPU, "Tesla-T4", "exclusive")
    assert (row.allocatable, row.capacity, row.allocated) == (4, 4, 2)
    assert (row.advertised, row.used_mib, row.health) == (None, None, "healthy")
    assert row.holders == (("ml/p", 2),)
    assert row.in_order


def test_a_shared_resource_by_the_agents_word() -> None:
    device = {"uuid": "GPU-1", "index": 0, "product": "Tesla T4", "resource": SHARED, "replicas": 4}
    device |= {"memoryMiB": 15360, "memoryUsedMiB": 4000, "health": "Healthy"}
    [row] = rows(node("a", {SHARED: "4"}), agent("a", device))
    assert (row.mode, row.advertised, row.used_mib, row.memory_mib) == ("time-sliced", 4, 4000, 15360)
    assert [d.uuid for d in row.devices] == ["GPU-1"]


def test_kub_2_an_unhealthy_device_shows_as_allocatable_below_capacity() -> None:
    """KUB-2: Capacity 4, Allocatable 3."""
    ill = {"uuid": "GPU-3", "resource": GPU, "health": "Unhealthy", "reason": "Xid 79"}
    [row] = rows(node("a", {GPU: "4"}, {GPU: "3"}), agent("a", ill))
    assert row.health == "1 of 1 unhealthy: Xid 79"
    assert not row.in_order
    [bare] = rows(node("a", {GPU: "4"}, {GPU: "3"}))
    assert bare.health == "1 of 4 not allocatable"


def test_devices_that_nobody_advertises_have_a_row_and_cpu_nodes_none() -> None:
    [row] = rows(
        node("a", {"cpu": "8"}), agent("a", {"uuid": "GPU-1", "resource": GPU}), node("b", {"cpu": "8"})
    )
    assert (row.resource, row.allocatable, row.health) == (GPU, 0, "not advertised")
