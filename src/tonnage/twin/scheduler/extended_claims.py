"""The claim that a scheduler makes for extended resources that a class stands for, and what the pod is told.

Source: kube-scheduler 1.35, dynamicresources/extendeddynamicresources.go.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.claims.extended_resources import asked_by
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.model.kubernetes.well_known import DEVICE_PROTECTION
from tonnage.wire import claims as w
from tonnage.wire.kinds import POD, RESOURCE_CLAIM

_MARK: Final = "resource.kubernetes.io/extended-resource-claim"


def body_of(pod: Pod, claim: ResourceClaim) -> JsonObject:
    """The object to make of a claim that only the scheduler knows."""
    owner: JsonObject = {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "name": pod.name,
        "uid": pod.uid,
        "controller": True,
    }
    requests: list[JsonValue] = [
        {
            "name": request.name,
            "exactly": {
                "deviceClassName": request.device_class,
                "allocationMode": request.mode,
                "count": request.count,
            },
        }
        for request in claim.requests
    ]
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.kind,
        "metadata": {
            "generateName": f"{pod.name}-extended-resources-",
            "annotations": {_MARK: "true"},
            "finalizers": [DEVICE_PROTECTION],
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }


def pod_status(pod: Pod, claim: ResourceClaim) -> JsonObject:
    """What the pod's status says of the claim once it is made: which request is for which container."""
    mappings: list[JsonValue] = []
    for request in claim.requests:
        container, resource = asked_by(pod, request)
        mappings.append({"containerName": container, "resourceName": resource, "requestName": request.name})
    return {"extendedResourceClaimStatus": {"resourceClaimName": claim.name, "requestMappings": mappings}}


def is_made_for(pod: Pod, claim: w.ResourceClaim) -> bool:
    """Whether a scheduler made the claim for what the pod asks by count."""
    return _MARK in claim.metadata.annotations and any(
        owner.uid == pod.uid for owner in claim.metadata.owner_references
    )
