"""What scheduler and controllers write on claims for volumes and for devices, and read there of each other.

Source: pkg/controller/volume/persistentvolume, pkg/controller/resourceclaim of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject
from tonnage.wire.claims import PersistentVolume, PersistentVolumeClaim, ResourceClaim
from tonnage.wire.kinds import VOLUME_CLAIM

BOUND: Final = "pv.kubernetes.io/bind-completed"
BY_US: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROTECTION: Final = "resource.kubernetes.io/delete-protection"
"""The finalizer of a claim that has devices."""


def reservation(volume: PersistentVolume, claim: PersistentVolumeClaim) -> JsonObject | None:
    """The patch that gives a volume to a claim, if it is as it was seen; None when it has it."""
    ref, meta = volume.spec.get("claimRef") or {}, claim.metadata
    if ref.get("uid") == meta.uid:
        return None
    whole: JsonObject = {
        "apiVersion": VOLUME_CLAIM.api_version,
        "kind": VOLUME_CLAIM.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    notes: JsonObject = {} if ref else {"annotations": {BY_US: "yes"}}
    return {"metadata": notes, "spec": {"claimRef": whole}}


def consumers_of(claim: ResourceClaim) -> list[JsonObject]:
    """Who has reserved the claim."""
    return list(claim.status.get("reservedFor") or ())
