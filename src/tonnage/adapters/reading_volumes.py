"""Volumes of pods and their claims as model values."""

from __future__ import annotations

from tonnage.model.volumes import PodVolume, VolumeClaim
from tonnage.wire import claims as claim_objects
from tonnage.wire import objects as w


def volumes_of(spec: w.PodSpec, pod: str) -> tuple[PodVolume, ...]:
    """The volumes of the pod of this name that come from claims."""
    found: list[PodVolume] = []
    for volume in spec.volumes:
        name = str(volume.get("name", ""))
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict):
            found.append(PodVolume(name, str(claim.get("claimName", ""))))
        elif isinstance(volume.get("ephemeral"), dict):
            found.append(PodVolume(name, f"{pod}-{name}", ephemeral=True))
    return tuple(found)


def volume_claim_from(obj: claim_objects.PersistentVolumeClaim) -> VolumeClaim:
    """A claim of a volume."""
    meta, spec = obj.metadata, obj.spec
    older = meta.annotations.get("volume.beta.kubernetes.io/storage-class")
    return VolumeClaim(
        namespace=meta.namespace or "default",
        name=meta.name,
        volume=str(spec.get("volumeName") or ""),
        bound="pv.kubernetes.io/bind-completed" in meta.annotations or obj.status.get("phase") == "Bound",
        storage_class=older if older is not None else str(spec.get("storageClassName") or ""),
        lost=obj.status.get("phase") == "Lost",
        terminating=meta.deletion_timestamp is not None,
        owner=next((o.uid for o in meta.owner_references if o.controller), ""),
    )
