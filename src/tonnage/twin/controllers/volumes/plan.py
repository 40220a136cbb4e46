"""Which volume a claim gets.

Source: k8s.io/component-helpers storage/volume (FindMatchingVolume, CheckVolumeSatisfyClaim) and
pkg/controller/volume/persistentvolume of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.kubernetes.well_known import DEFAULT_STORAGE_CLASS
from tonnage.reading.volumes import class_of
from tonnage.twin.controllers.label_selection import takes
from tonnage.wire.claims import PersistentVolume, PersistentVolumeClaim, StorageClass

_MIGRATED: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""Drivers by the provisioners that were part of Kubernetes. Source: k8s.io/csi-translation-lib."""
_BELOW_TMP: Final = re.compile(r".*/tmp/.+")


def default_class(classes: Iterable[StorageClass]) -> str:
    """The newest class that is marked as the default, of several of the same age the first by name."""
    marked = sorted(
        (
            storage_class
            for storage_class in classes
            if any(storage_class.metadata.annotations.get(key) == "true" for key in DEFAULT_STORAGE_CLASS)
        ),
        key=lambda storage_class: storage_class.metadata.name,
    )
    marked.sort(key=lambda storage_class: storage_class.metadata.creation_timestamp or "", reverse=True)
    return marked[0].metadata.name if marked else ""


def is_reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is meant for this claim, by whoever wrote its claimRef."""
    ref = volume.spec.get("claimRef") or {}
    same = (ref.get("namespace"), ref.get("name")) == (claim.metadata.namespace, claim.metadata.name)
    return same and ref.get("uid") in (None, "", claim.metadata.uid)


def best_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, delayed: bool
) -> PersistentVolume | None:
    """The volume that a claim gets: of those with the fewest access modes a reserved one, else the smallest.

    With `delayed` binding nothing but a reserved one is taken before there is a pod.
    """
    candidates: list[tuple[tuple[int, bool, Fraction, str], PersistentVolume]] = []
    for volume in volumes:
        if _unsuited(volume, claim):
            continue
        reserved = is_reserved(volume, claim)
        if reserved or not (delayed or _is_claimed(volume) or _unwanted(volume, claim)):
            modes, size = len(volume.spec.get("accessModes") or []), _size(volume.spec.get("capacity"))
            candidates.append(((modes, not reserved, size, volume.metadata.name), volume))
    return min(candidates, key=lambda row: row[0])[1] if candidates else None


def driver_for(provisioner: str) -> str:
    """Who makes volumes for a class with this provisioner."""
    return _MIGRATED.get(provisioner, provisioner)


def undeletable(volume: PersistentVolume) -> str:
    """Why the controller manager cannot delete a volume itself, empty where it can: below /tmp of a host."""
    host = volume.spec.get("hostPath")
    if not isinstance(host, dict):
        why = "no deletable volume plugin matched"
        return f'error getting deleter volume plugin for volume "{volume.metadata.name}": {why}'
    path = str(host.get("path", ""))
    why = f"host_path deleter only supports /tmp/.+ but received provided {path}"
    return "" if _BELOW_TMP.match(path) else why


def _is_claimed(volume: PersistentVolume) -> bool:
    return volume.spec.get("claimRef") is not None or volume.status.get("phase") != "Available"


def _unwanted(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    selector: JsonObject | None = claim.spec.get("selector")
    chosen = selector is None or takes(selector, volume.metadata.labels)
    return not chosen or class_of(volume.metadata, volume.spec) != class_of(claim.metadata, claim.spec)


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a volume that a claim asks for by name cannot be its own, empty if it can."""
    why = _unsuited(volume, claim)
    if not why.startswith(_FIRST) and class_of(volume.metadata, volume.spec) != class_of(
        claim.metadata, claim.spec
    ):
        return "storageClassName does not match"
    return why


def _unsuited(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a volume suits a claim in no case."""
    if volume.metadata.deletion_timestamp is not None:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if _size(volume.spec.get("capacity")) < wants(claim):
        return "requested PV is too small"
    if _attributes(volume) != _attributes(claim):
        return "volumeAttributesClassName does not match"
    if _mode(volume) != _mode(claim):
        return "incompatible volumeMode"
    if not set(claim.spec.get("accessModes") or []) <= set(volume.spec.get("accessModes") or []):
        return "incompatible accessMode"
    return ""


_FIRST: Final = ("the volume is marked", "requested PV")
"""What is told before the class."""


def wants(claim: PersistentVolumeClaim) -> Fraction:
    """How much a claim asks for, in bytes."""
    return _size((claim.spec.get("resources") or {}).get("requests"))


def has(claim: PersistentVolumeClaim) -> Fraction:
    """How much a claim is said to have, in bytes."""
    return _size(claim.status.get("capacity"))


def _attributes(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    return str(obj.spec.get("volumeAttributesClassName") or "")


def _mode(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    return str(obj.spec.get("volumeMode") or "Filesystem")


def _size(amounts: JsonObject | None) -> Fraction:
    return parse_quantity(str((amounts or {}).get("storage") or "0"))
