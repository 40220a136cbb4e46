"""Metrics of a cluster, out of its objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from tonnage.adapters.http.metrics_page import families_text
from tonnage.diagnose.cluster_view import Ground
from tonnage.diagnose.explain.explain import explain_waiting_pod
from tonnage.diagnose.monitoring import cluster_families as subject
from tonnage.diagnose.monitoring.cluster_families import cluster_families
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.verdict import Explanation
from tonnage.reading.documents import snapshot_from_documents

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
GPU: Final = "nvidia.com/gpu"
UNSCHEDULABLE: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
}
Body = dict[str, Any]


def node(name: str, capacity: int, allocatable: int, resource: str = GPU) -> Body:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    status = {
        "capacity": {**amounts, resource: str(capacity)},
        "allocatable": {**amounts, resource: str(allocatable)},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "Tesla-T4"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


def pod(name: str, *, created: str = "11:00", asks: int = 1, owner: str = "", **fields: Any) -> Body:
    limits = {"resources": {"limits": {GPU: str(asks)}}} if asks else {}
    meta: Body = {
        "name": name,
        "namespace": "ml",
        "uid": name,
        "creationTimestamp": f"2026-03-01T{created}:00Z",
    }
    if owner:
        meta["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": "o", "controller": True}
        ]
    spec = {"containers": [{"name": "c", "image": "x", **limits}], **fields.pop("spec", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE], **fields},
    }


def rows(*objects: Body) -> list[str]:
    """The samples of its page, without those of amounts that are 0."""
    snapshot = snapshot_from_documents(list(objects), server_version="1.35", now=NOW)
    text = families_text(cluster_families(snapshot))
    return [
        line.removeprefix("tonnage_cluster_").removesuffix(".0")
        for line in text.splitlines()
        if not line.startswith("#")
    ]


def family(name: str, *objects: Body) -> list[str]:
    return [row.removeprefix(name) for row in rows(*objects) if row.startswith(f"{name}{{")]


def test_a_pod_that_finds_no_room_waits_at_the_scheduler() -> None:
    holder = pod("holder", phase="Running", spec={"nodeName": "n1"})
    assert family("pending_pods", node("n1", 1, 1), holder, pod("waits")) == [
        '{code="insufficient-resource",layer="scheduler",namespace="ml",resource="nvidia.com/gpu"} 1'
    ]


def test_pods_of_one_owner_are_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(ground: Ground, one: Pod, *, with_remedies: bool) -> Explanation:
        asked.append(one.name)
        return explain_waiting_pod(ground, one, with_remedies=with_remedies)

    monkeypatch.setattr(subject, "explain_waiting_pod", counted)
    pods = [pod(f"p{number}", owner="train") for number in range(5)]
    (row,) = family("pending_pods", node("n1", 0, 0), *pods)
    assert row.endswith("} 5")
    assert len(asked) == 1


def test_more_groups_than_are_explained_are_counted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST_EXPLAINED", 2)
    workload_family = family("pending_pods", node("n1", 0, 0), *(pod(f"p{number}") for number in range(5)))
    assert sum(float(row.rpartition(" ")[2]) for row in workload_family) == 5
    assert any('code="not-explained",layer=""' in row for row in workload_family)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [pod("old", created="10:30"), pod("new", created="11:59")], ["5400"], id="the oldest one's"
        ),
        pytest.param([pod("bound", spec={"nodeName": "n1"})], [], id="a pod with a node waits for kubelet"),
        pytest.param([pod("cpu", asks=0)], [], id="a pod without a GPU is none of ours"),
        pytest.param([pod("done", phase="Succeeded")], [], id="a pod that has ended"),
        pytest.param([pod("ahead", created="12:01")], ["0"], id="created by a clock that is ahead"),
    ],
)
def test_queue_time_is_the_age_of_the_oldest_pod_without_a_node(
    objects: list[Body], expected: list[str]
) -> None:
    workload_family = family("queue_seconds", node("n1", 1, 1), *objects)
    assert [row.rpartition(" ")[2] for row in workload_family] == expected


def test_kub_2_a_device_that_failed_is_in_the_capacity_alone() -> None:
    shown_rows = rows(node("n1", 4, 3), pod("held", phase="Running", asks=2, spec={"nodeName": "n1"}))
    amounts = [row for row in shown_rows if row.startswith("resource_") and "info" not in row]
    assert amounts == [
        f'resource_capacity{{node="n1",resource="{GPU}"}} 4',
        f'resource_allocatable{{node="n1",resource="{GPU}"}} 3',
        f'resource_requested{{node="n1",resource="{GPU}"}} 2',
    ]


def test_quotas_are_those_of_devices() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "ml"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4", "pods": "10"}},
        "status": {
            "hard": {"requests.nvidia.com/gpu": "4", "pods": "10"},
            "used": {"requests.nvidia.com/gpu": "3"},
        },
    }
    labels = f'namespace="ml",quota="gpus",resource="{GPU}"'
    found = [row for row in rows(quota) if row.startswith("quota_")]
    assert found == [f"quota_used{{{labels}}} 3", f"quota_hard{{{labels}}} 4"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"reason": "TopologyAffinityError"}, 1, id="kubelet refused it"),
        pytest.param({}, 0, id="its containers failed"),
    ],
)
def test_pods_that_kubelet_refused(status: Body, expected: int) -> None:
    refused = pod("refused", phase="Failed", spec={"nodeName": "n1"}, **status)
    assert len(family("rejected_pods", node("n1", 4, 4), refused)) == expected


def test_a_resource_is_told_with_its_mode_and_product() -> None:
    (row,) = family("resource_info", node("n1", 4, 4))
    assert row == f'{{mode="exclusive",node="n1",product="Tesla-T4",resource="{GPU}"}} 1'
