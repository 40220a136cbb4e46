"""Clusters as an API server would give them, and what is explained of them."""

from __future__ import annotations

import copy
from typing import Any

from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.diagnose.explain.explain import explain, explain_manifest, find_pod
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.verdict import Explanation
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents

Body = dict[str, Any]

A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"

PRODUCT = "nvidia.com/gpu.product"

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}

MERGED_BY = {"containers": "name", "initContainers": "name", "topologySpreadConstraints": "topologyKey"}


def node(name: str, product: str = "", *, devices: Body | None = None, taints: Any = (), **spec: Any) -> Body:
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", **(devices or {})}
    labels = {"kubernetes.io/hostname": name}
    if product:
        labels |= {"nvidia.com/gpu.present": "true", PRODUCT: product, "nvidia.com/cuda.driver.major": "550"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": dict(amounts), "capacity": dict(amounts)},
    }


def pod(name: str, needs: Body | None = None, *, on: str = "", **spec: Any) -> Body:
    limits = {GPU: "1"} if needs is None else needs
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "main", "image": "cuda", "resources": {"limits": limits}}],
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


def requiring(*products: str) -> Body:
    expression = {"key": PRODUCT, "operator": "In", "values": list(products)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def cluster(*objects: Body) -> Snapshot:
    return snapshot_from_documents([{"kind": "List", "items": list(objects)}], server_version="1.35")


def explained(name: str, *objects: Body, version: str = "") -> Explanation:
    snapshot = cluster(*objects)
    found = find_pod(snapshot, "ml", name)
    assert found is not None
    return explain(found, snapshot, version=version)


def explained_manifest(manifest: Body, *objects: Body) -> Explanation:
    snapshot = cluster(*objects)
    [made] = manifests_from_documents([manifest], classes=snapshot.priority_classes)
    return explain_manifest(made, snapshot)


def patched(manifest: Body, patch: Body) -> Body:
    """A strategic merge patch applied as the API server would, as far as remedies use it."""

    def merge(into: Body, part: Body) -> None:
        for key, value in part.items():
            if value is None:
                into.pop(key, None)
            elif key in MERGED_BY:
                name = MERGED_BY[key]
                for item in value:
                    merge(next(c for c in into[key] if c[name] == item[name]), item)
            elif isinstance(value, dict) and isinstance(into.get(key), dict):
                merge(into[key], value)
            else:
                into[key] = copy.deepcopy(value)

    result = copy.deepcopy(manifest)
    merge(result, patch)
    return result


def places(manifest: Body, *objects: Body) -> str | None:
    [made] = manifests_from_documents([manifest])
    return schedule(made.pod, cluster(*objects)).chosen


def assert_remedy_works(explanation: Explanation, manifest: Body, *objects: Body) -> None:
    remedy = next(r for r in explanation.remedies if r.patch)
    assert places(patched(manifest, remedy.patch), *objects) is not None


def reasons_of(explanation: Explanation, name: str) -> list[str]:
    [found] = [n for n in explanation.nodes if n.node == name]
    return [reason.code for reason in found.reasons]


def six_nodes() -> tuple[Body, ...]:
    """SCH-2: one tainted A100 node with room, five H100 nodes of which four are full and one is cordoned."""
    full = [node(f"h100-{i}", H100, devices={GPU: "1"}) for i in range(4)]
    holders = [pod(f"busy-{i}", on=f"h100-{i}") for i in range(4)]
    tainted = node("a100-0", A100, devices={GPU: "8"}, taints=[TAINT])
    return (tainted, node("cpu-0"), *full, *holders)
