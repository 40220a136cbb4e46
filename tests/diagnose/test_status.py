from __future__ import annotations

from typing import Any

from tonnage.diagnose.status import FleetRow, fleet
from tonnage.reading.documents import snapshot_from_documents

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


def test_mig_devices_are_counted_not_the_gpus_that_they_are_part_of() -> None:
    """SCH-7."""
    small = "nvidia.com/mig-1g.10gb"
    status = agent("a", *({"uuid": f"GPU-{i}", "resource": small, "replicas": 1} for i in range(2)))
    status["status"]["resources"] = [{"name": small, "devices": 14, "capacity": 14, "replicas": 1}]
    [row] = rows(node("a", {GPU: "0", small: "14"}), status)
    assert (row.resource, row.mode, row.advertised, row.capacity) == (small, "mig", 14, 14)


def test_tel_8_mig_devices_under_the_name_of_whole_gpus_are_no_whole_gpus() -> None:
    product: dict[str, Any] = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}
    [row, other] = rows(
        node("a", {GPU: "7", "example.com/fpga": "1"}, **product), pod("p", "a", "example.com/fpga", 1)
    )
    assert {row.resource: row.mode, other.resource: other.mode} == {
        GPU: "mig",
        "example.com/fpga": "exclusive",
    }


def test_a_shared_resource_by_the_agents_word() -> None:
    device = {"uuid": "GPU-1", "index": 0, "product": "Tesla T4", "resource": SHARED, "replicas": 4}
    device |= {"memoryMiB": 15360, "memoryUsedMiB": 4000, "health": "Healthy"}
    [row] = rows(node("a", {SHARED: "4"}), agent("a", device))
    assert (row.mode, row.advertised, row.used_mib, row.memory_mib) == ("time-sliced", 4, 4000, 15360)
    assert [d.uuid for d in row.devices] == ["GPU-1"]


def test_shr_4_a_resource_whose_mps_daemon_does_not_serve_says_so() -> None:
    device = {"uuid": "GPU-1", "resource": SHARED, "replicas": 8, "health": "Healthy"}
    seen = []
    for mps in ({"ready": True}, {"ready": False, "reason": "signal 9"}, None):
        resource = {"name": SHARED, "sharing": "mps"} | ({"mps": mps} if mps else {})
        status = agent("a", device)
        status["status"]["resources"] = [resource]
        [row] = rows(node("a", {SHARED: "8"}), status)
        seen.append((row.mode, row.health))
    assert seen == [
        ("mps", "healthy"),
        ("mps", "MPS daemon does not serve: signal 9"),
        ("mps", "MPS daemon does not serve: not started yet"),
    ]


def test_kub_2_an_unhealthy_device_shows_as_allocatable_below_capacity() -> None:
    """KUB-2: Capacity 4, Allocatable 3."""
    ill = {"uuid": "GPU-3", "resource": GPU, "health": "Unhealthy", "reason": "Xid 79"}
    [row] = rows(node("a", {GPU: "4"}, {GPU: "3"}), agent("a", ill))
    assert row.health == "1 of 1 unhealthy: Xid 79"
    assert not row.in_order
    dated = node("a", {GPU: "4"}, {GPU: "3"})
    dated["status"]["conditions"] = [
        {"type": "GPUsHealthy", "status": "False", "lastTransitionTime": "2026-01-01T09:30:00Z"}
    ]
    [row] = rows(dated, agent("a", {**ill, "index": 3}))
    assert row.health == "1 of 1 unhealthy: Xid 79 (GPU 3; since 2026-01-01 09:30 UTC)"
    [bare] = rows(node("a", {GPU: "4"}, {GPU: "3"}))
    assert bare.health == "1 of 4 not allocatable"


def test_devices_that_nobody_advertises_have_a_row_and_cpu_nodes_none() -> None:
    [row] = rows(
        node("a", {"cpu": "8"}), agent("a", {"uuid": "GPU-1", "resource": GPU}), node("b", {"cpu": "8"})
    )
    assert (row.resource, row.allocatable, row.health) == (GPU, 0, "not advertised")


def test_a_former_name_is_no_trouble_and_goes_when_nobody_holds_it() -> None:
    """Right after a renaming configuration kubelet still lists the old name: capacity 1, allocatable 0."""
    renamed = node("a", {GPU: "1", SHARED: "4"}, {GPU: "0", SHARED: "4"})
    report = agent("a", {"uuid": "GPU-1", "resource": SHARED, "replicas": 4})
    [row] = rows(renamed, report)
    assert (row.resource, row.in_order) == (SHARED, True)
    former, current = rows(renamed, report, pod("p", "a", GPU, 1))
    assert (former.resource, former.allocated, former.in_order) == (GPU, 1, False)
    assert former.health == "offered under another name now, still held under this one"
    assert current.in_order
    assert [row.in_order for row in rows(renamed)] == [False, True]


def test_a_dead_agent_shows_as_nothing_allocatable() -> None:
    report = agent("a", {"uuid": "GPU-1", "resource": GPU}, {"uuid": "GPU-2", "resource": GPU})
    [row] = rows(node("a", {GPU: "2"}, {GPU: "0"}), report)
    assert (row.health, row.in_order) == ("2 of 2 not allocatable", False)


def test_devices_that_are_not_offered_at_all_are_not_in_order() -> None:
    [row] = rows(node("a", {"cpu": "8"}), agent("a", {"uuid": "GPU-1", "resource": GPU}))
    assert (row.health, row.in_order) == ("not advertised", False)


def test_a_refused_configuration_is_a_trouble_of_its_node() -> None:
    report = agent("a", {"uuid": "GPU-1", "resource": GPU})
    report["status"]["config"] = {"source": "cm[default]", "error": "cm[broken]:4 replicas\n  remedy: 2"}
    [row] = rows(node("a", {GPU: "1"}), report)
    assert row.health == "configuration refused, cm[default] kept: cm[broken]:4 replicas"
    assert not row.in_order


def test_a_node_whose_workload_failed_is_not_in_order() -> None:
    report = agent("a", {"uuid": "GPU-1", "product": "Tesla T4", "resource": GPU, "health": "Healthy"})
    stage = {"stage": "workload", "outcome": "failed", "message": "vectorAdd failed: cuInit: 999"}
    report["status"]["validation"] = {"stages": [stage, {"stage": "of tomorrow", "outcome": "passed"}]}
    [row] = rows(node("a", {GPU: "1"}), report)
    assert row.state == "not validated"
    assert row.health == "a pod could not use a device: vectorAdd failed: cuInit: 999"
    stage["outcome"] = "passed"
    [row] = rows(node("a", {GPU: "1"}), report)
    assert row.in_order


def test_a_cordon_is_told_and_is_no_trouble_but_a_node_that_is_not_ready_is() -> None:
    cordoned = node("a", {GPU: "1"}) | {"spec": {"unschedulable": True}}
    gone = node("b", {GPU: "1"})
    gone["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    shown_rows = rows(cordoned, gone)
    assert [row.health for row in shown_rows] == ["healthy (cordoned)", "node not ready"]
    assert [row.in_order for row in shown_rows] == [True, False]
