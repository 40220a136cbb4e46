"""Clusters of which a part is missing: nothing that points nowhere breaks an answer."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tonnage.diagnose.explain.explain import explain
from tonnage.diagnose.explain.text import explanation_lines
from tonnage.diagnose.status import fleet
from tonnage.diagnose.topo.text import comparison_lines, matrix_lines
from tonnage.diagnose.topo.topology import comparison, fleet_topology, node_json
from tonnage.reading.documents import snapshot_from_documents

Body = dict[str, Any]
GPU = "nvidia.com/gpu"
AMOUNTS = {"cpu": "8", "memory": "64Gi", "pods": "10", GPU: "4"}


def obj(kind: str, name: str, api_version: str = "v1", namespace: str = "", **parts: Any) -> Body:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **parts}


def pod(name: str, on: str = "", **spec: Any) -> Body:
    container = {"name": "c", "resources": {"limits": {GPU: "2"}}}
    whole = {"containers": [container], **({"nodeName": on} if on else {}), **spec}
    made = obj("Pod", name, namespace="ml", spec=whole, status={"phase": "Running" if on else "Pending"})
    owner = {"kind": "Pod", "name": name, "controller": True}  # its own owner
    made["metadata"] |= {"labels": {"app": "x"}, "ownerReferences": [owner]}
    return made


def report(node: str, *pods: str) -> Body:
    devices = [
        {
            "uuid": f"GPU-{node}-{i}",
            "index": i,
            "resource": GPU,
            "links": [{"peers": [i ^ 1, 77], "nvlinks": 4, "path": "PIX"}],
            "holders": [
                {"namespace": "ml", "pod": name, "resource": GPU, "ids": [f"GPU-{node}-{i}"]} for name in pods
            ],
        }
        for i in range(4)
    ]
    status = {"devices": devices, "resources": [{"name": GPU, "replicas": 1}]}
    return obj("NodeGPUStatus", node, "tonnage.dev/v1alpha1", status=status)


TERM = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}, "namespaceSelector": {}}
SPREAD = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
ALL = [
    obj("Node", "a", status={"allocatable": AMOUNTS, "capacity": AMOUNTS}),
    obj("Node", "b", status={"allocatable": AMOUNTS, "capacity": AMOUNTS}),
    obj("Namespace", "ml"),
    obj("PriorityClass", "high", "scheduling.k8s.io/v1", value=7),
    obj("ResourceQuota", "q", namespace="ml", spec={"hard": {f"requests.{GPU}": "1"}}),
    obj("PodDisruptionBudget", "pdb", "policy/v1", namespace="ml", spec={"selector": {}}),
    report("a", "runs", "gone"),
    report("c", "gone"),
    pod("runs", "a"),
    pod("lost", "nowhere"),
    pod("waits", priorityClassName="high", affinity={"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}),
    pod("spreads", topologySpreadConstraints=[SPREAD], priorityClassName="unheard-of"),
    pod("nominated") | {"status": {"phase": "Pending", "nominatedNodeName": "nowhere"}},
]  # fmt: skip


@given(st.lists(st.sampled_from(ALL), unique_by=id, min_size=1))
def test_whatever_is_left_of_a_cluster_is_answered_from(kept: list[Body]) -> None:
    items: list[Any] = kept
    snapshot = snapshot_from_documents([{"kind": "List", "items": items}])
    for pod in snapshot.pods:
        answer = explain(pod, snapshot)
        assert answer.to_json()["subject"] == {"kind": "Pod", "namespace": "ml", "name": pod.name}
        assert explanation_lines(answer)
    assert len(fleet(snapshot)) <= len(kept)
    for topology in fleet_topology(snapshot).nodes:
        compared = comparison(topology, (0, 2))
        assert [*matrix_lines(topology), *comparison_lines(compared)]
        assert node_json(topology, compared)["node"] == topology.node
