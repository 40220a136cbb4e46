"""GetBindVolumeToClaim: a volume reserved for a claim, as the scheduler and the controller write it.

Source: pkg/controller/volume/persistentvolume of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.well_known import BOUND_BY_CONTROLLER
from tonnage.wire.claims import PersistentVolume, PersistentVolumeClaim
from tonnage.wire.kinds import VOLUME_CLAIM


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
    notes: JsonObject = {} if ref else {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return {"metadata": notes, "spec": {"claimRef": whole}}
