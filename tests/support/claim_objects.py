"""Nodes, slices, classes, claims and pods of a driver, in few words, and a pod explained among them."""

from __future__ import annotations

from typing import Any

from tonnage.diagnose.explain.explain import explain, find_pod
from tonnage.model.verdict import Explanation
from tonnage.reading.documents import (
    snapshot_from_documents,
)

DRIVER = "gpu.example.com"
Body = dict[str, Any]


def node(name: str) -> Body:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": amounts},
    }


def dynamic(kind: str, name: str, spec: Body, version: str = "v1", **more: Any) -> Body:
    metadata = {"name": name, **({"namespace": "ml"} if kind.startswith("ResourceClaim") else {})}
    return {
        "apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec, **more
    }  # fmt: skip


def device(name: str, memory: int = 80, **attributes: Any) -> Body:
    found = {"memoryGiB": {"int": memory}, **{key: {"string": value} for key, value in attributes.items()}}
    return {"name": name, "attributes": found, "capacity": {"memory": {"value": f"{memory}Gi"}}}


def resource_slice(on: str, *devices: Body, count: int = 1) -> Body:
    pool = {"name": on, "generation": 1, "resourceSliceCount": count}
    return dynamic(
        "ResourceSlice", f"s-{on}", {"driver": DRIVER, "nodeName": on, "pool": pool, "devices": [*devices]}
    )


def device_class(name: str, *expressions: str) -> Body:
    return dynamic("DeviceClass", name, {"selectors": [{"cel": {"expression": e}} for e in expressions]})


def claim(name: str, *, held: str = "", by: str = "", constraints: Any = (), **exactly: Any) -> Body:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}
    body = dynamic("ResourceClaim", name, {"devices": {"requests": [request], "constraints": [*constraints]}})
    if held:
        on, _, which = held.partition("/")
        result = {"request": "gpu", "driver": DRIVER, "pool": on, "device": which}
        only = {"key": "metadata.name", "operator": "In", "values": [on]}
        body["status"] = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
            },
            "reservedFor": [{"resource": "pods", "name": by, "uid": f"uid-{by}"}] if by else [],
        }
    return body


def pod(*claims: str, **spec: Any) -> Body:
    entries = [{"name": f"c{i}", "resourceClaimName": name} for i, name in enumerate(claims)]
    body = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": entries, **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ml", "uid": "uid-p"},
        "spec": body,
    }


ANY = device_class("gpu", f"device.driver == '{DRIVER}'")


def explained(*objects: Body, version: str = "1.35") -> Explanation:
    snapshot = snapshot_from_documents([*objects], server_version=version)
    waiting = find_pod(snapshot, "ml", "p")
    assert waiting is not None
    return explain(waiting, snapshot)


def replicas_with_claims(count: int, devices: int) -> list[Any]:
    """A Deployment of three pods, each with a claim for so many devices."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": devices}}
    template = dynamic("ResourceClaimTemplate", "t", {"spec": {"devices": {"requests": [request]}}})
    claims = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}
    spec = {"containers": [{"name": "c", "image": "x"}], **claims}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ml"},
        "spec": {"replicas": count, "template": {"spec": spec}},
    }
    return [template, ANY, body]
