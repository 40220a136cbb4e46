"""Nodes and pods of whose remedies tests ask."""

from __future__ import annotations

from typing import Any

from tonnage.decide.kubernetes.api.patches.strategic_merge import strategic_merge
from tonnage.diagnose.explain.explain import explain_manifest
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents
from tonnage.wire.schema import load_schema

Body = dict[str, Any]

GPU = "nvidia.com/gpu"


def patched(manifest: Body, patch: Body) -> Body:
    """The manifest as a person would send it: its priority is for admission to fill in."""
    bare = {**manifest, "spec": {k: v for k, v in manifest["spec"].items() if k != "priority"}}
    kept = manifest if "priorityClassName" not in patch["spec"] else bare
    return {**manifest, **strategic_merge(load_schema(), "core/v1.Pod", kept, patch)}


def node(name: str, gpus: int, *, resource: str = GPU, taints: Any = ()) -> Body:
    amounts = {"cpu": "64", "memory": "1Ti", "pods": "110", resource: gpus}
    status = {"allocatable": amounts, "capacity": amounts}
    spec = {"taints": [*taints]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": status}


def pod(name: str, gpus: int, *, on: str = "", resource: str = GPU) -> Body:
    container = {"name": "c", "image": "i", "resources": {"limits": {resource: gpus}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def actions(manifest: Body, *objects: Body) -> list[str]:
    snapshot = snapshot_from_documents([{"kind": "List", "items": [*objects]}])
    [read] = manifests_from_documents([manifest])
    return [remedy.action for remedy in explain_manifest(read, snapshot).remedies]
