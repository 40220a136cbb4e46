"""ADM-5, SHR-2: replicas of one device are not GPUs: told of running pods and of nodes that are too small."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.diagnose.cluster_view import ground_of
from tonnage.diagnose.explain.explain import explain, find_pod
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.reasons.pod.pods import ReplicasNotDevices
from tonnage.model.reasons.pod.scheduling import ResourceTooLarge
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.documents import snapshot_from_documents

GPU = "nvidia.com/gpu"
Body = dict[str, Any]


def node(name: str, amount: int, **labels: str) -> Body:
    amounts = {GPU: str(amount), "pods": "110"}
    meta = {"name": name, "labels": {f"{GPU}.{key}": value for key, value in labels.items()}}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": meta,
        "status": {"capacity": amounts, "allocatable": amounts},
    }  # fmt: skip


def pod(name: str, amount: int, on: str = "") -> Body:
    container = {"name": "main", "resources": {"limits": {GPU: str(amount)}}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ml"},
        "spec": {"containers": [container], **({"nodeName": on} if on else {})},
        "status": {"phase": "Running" if on else "Pending"},
    }  # fmt: skip


def report(name: str, *devices: tuple[str, ...], replicas: int = 4) -> Body:
    """Each device by the ids of its replicas that pod `train` holds."""
    entries = [
        {
            "uuid": f"GPU-{number}", "index": number, "resource": GPU, "health": "Healthy",
            "replicas": replicas,
            "holders": [
                {"namespace": "ml", "pod": "train", "container": "main", "resource": GPU, "ids": [*ids]}
            ],
        }
        for number, ids in enumerate(devices)
    ]  # fmt: skip
    return {
        "apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGPUStatus", "metadata": {"name": name},
        "status": {"devices": entries},
    }  # fmt: skip


def cluster(*objects: Body) -> Snapshot:
    return snapshot_from_documents([{"kind": "List", "items": [*objects]}])


def explained(snapshot: Snapshot) -> Explanation:
    train = find_pod(snapshot, "ml", "train")
    assert train is not None
    return explain(train, snapshot)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        pytest.param(
            [node("a", 8), report("a", ("GPU-0::0", "GPU-0::1"))],
            ["on a, its 2 nvidia.com/gpu are replicas of one GPU; replicas add no memory or compute"],
            id="two replicas of one device",
        ),
        pytest.param(
            [node("a", 8), report("a", ("GPU-0::0",), ("GPU-1::3",))], [], id="of two devices they are two"
        ),
        pytest.param(
            [node("a", 8, replicas="8", product="Tesla-T4-SHARED")],
            ["on a, 2 nvidia.com/gpu are replicas of one GPU; replicas add no memory or compute"],
            id="without an agent the labels of the node tell",
        ),
        pytest.param(
            [node("a", 2), report("a", ("GPU-0",), ("GPU-1",), replicas=1)], [], id="what is not shared"
        ),
    ],
)
def test_a_running_pod_is_told_how_many_devices_it_has(objects: list[Body], words: list[str]) -> None:
    explanation = explained(cluster(*objects, pod("train", 2, on="a")))
    assert explanation.verdict is Verdict.RUNNING
    assert [r.message for r in explanation.reasons if isinstance(r, ReplicasNotDevices)] == words


SHARED_T4 = {"replicas": "10", "product": "Tesla-T4-SHARED"}


def test_a_node_that_is_too_small_says_how_many_devices_it_has() -> None:
    explanation = explained(cluster(node("a", 10, **SHARED_T4), pod("train", 16)))
    (reason,) = (r for verdict in explanation.nodes for r in verdict.reasons)
    assert isinstance(reason, ResourceTooLarge)
    assert reason.message.endswith("has 10 allocatable (10 nvidia.com/gpu are replicas of one GPU)")


def test_in_a_large_fleet_nodes_of_other_replicas_are_another_class() -> None:
    shared = [node(f"s{number}", 10, **SHARED_T4) for number in range(4)]
    snapshot = cluster(*shared, *(node(f"w{number}", 10) for number in range(4)), pod("train", 16))
    train = find_pod(snapshot, "ml", "train")
    assert train is not None
    _, verdicts, _ = ground_of(snapshot, large=2).decide(train)
    _, alone, _ = ground_of(snapshot).decide(train)
    assert verdicts.to_json() == alone.to_json()
