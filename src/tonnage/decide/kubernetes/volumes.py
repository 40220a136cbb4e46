"""Volume claims before any node is looked at: what VolumeRestrictions and VolumeBinding say at once.

And which volumes the filter `volumes` can judge on each node; of others it stays open where the pod can go.

Source: kube-scheduler 1.35 plugins volumerestrictions, volumebinding, volumezone (PreFilter).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.kubernetes.volumes import Disk, PodVolume, VolumeClaim

NAME: Final = "VolumeBinding"
BY_HAND: Final = ("", "kubernetes.io/no-provisioner")
"""Provisioners that make no volume."""
_IN_TREE: Final = "kubernetes.io/"
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"


def volumes_stop(pod: Pod, snapshot: Snapshot) -> str:
    """The scheduler's words on a volume claim that no node can help; empty: go on."""
    claims_by_key = {(claim.namespace, claim.name): claim for claim in snapshot.volume_claims}
    for volume in pod.volumes:
        if not volume.ephemeral and (pod.namespace, volume.claim) not in claims_by_key:
            return f'persistentvolumeclaim "{volume.claim}" not found'
    for volume in pod.volumes:
        if text := _says(pod, volume, claims_by_key):
            return text
    claims = {volume: claims_by_key[pod.namespace, volume.claim] for volume in pod.volumes}
    if any(_is_immediate(claim, snapshot) for claim in claims.values()):
        return UNBOUND
    there = {volume.name for volume in snapshot.volumes} if snapshot.was_read("PersistentVolume") else None
    for volume, claim in claims.items():
        if claim.volume and there is not None and claim.volume not in there and not volume.ephemeral:
            return f'persistentvolume "{claim.volume}" not found'
    return ""


def undecided_volumes(pod: Pod, snapshot: Snapshot, *, rated: bool = False) -> tuple[str, ...]:
    """Volumes that may keep the pod from nodes in ways that the snapshot does not tell or nobody judges.

    `rated`: nodes are rated by the storage that a volume would leave there.
    """
    texts = [
        f"volume {disk.volume} ({disk.source}), {why}"
        for disk in pod.disks
        if (why := _why_open_disk(disk, snapshot))
    ]
    if not pod.volumes:
        return tuple(texts)
    claims_by_key = {(claim.namespace, claim.name): claim for claim in snapshot.volume_claims}
    for volume in pod.volumes:
        claim = claims_by_key.get((pod.namespace, volume.claim))
        if why := _why_open(claim, snapshot, rated=rated) if claim is not None else "whose claim is unknown":
            texts.append(f"{_described(volume)}, {why}")
    return tuple(texts)


def _described(volume: PodVolume) -> str:
    return f"volume {volume.name} ({'ephemeral' if volume.ephemeral else 'persistentVolumeClaim'})"


def _why_open(claim: VolumeClaim, snapshot: Snapshot, *, rated: bool) -> str:
    if not snapshot.was_read("PersistentVolume"):
        return "whose volumes were not read"
    if not claim.bound:
        return _why_open_unbound(claim, snapshot, rated=rated)
    volume = next((volume for volume in snapshot.volumes if volume.name == claim.volume), None)
    if volume is None:
        return ""
    if not volume.source:
        return f"whose volume {claim.volume} is of a kind that is not judged"
    return _why_open_driver(volume.driver, snapshot)


def _why_open_unbound(claim: VolumeClaim, snapshot: Snapshot, *, rated: bool) -> str:
    cls = next((cls for cls in snapshot.storage_classes if cls.name == claim.storage_class), None)
    if cls is None:
        return f"whose class {claim.storage_class} is unknown"
    driver = next((driver for driver in snapshot.storage_drivers if driver.name == cls.provisioner), None)
    counts = driver is not None and driver.counts_storage
    if rated and (counts or any(volume.storage_class == cls.name for volume in snapshot.volumes)):
        return "for which nodes are rated by the storage that it would leave"
    if cls.provisioner in BY_HAND:
        return ""
    if cls.provisioner.startswith(_IN_TREE):
        return f"of which the volume would be made by {cls.provisioner}, which is not judged"
    if counts and not snapshot.was_read("CSIStorageCapacity"):
        return f"for which {cls.provisioner} must have storage left: CSIStorageCapacity was not read"
    return _why_open_driver(cls.provisioner, snapshot)


def _why_open_driver(name: str, snapshot: Snapshot) -> str:
    """What may stand against a volume of this driver; its limits count with what is attached already."""
    if not name:
        return ""
    needed = ("CSIDriver", "CSINode", *_attachments_needed(name, snapshot))
    unread = [kind for kind in needed if not snapshot.was_read(kind)]
    if unread:
        return f"of which the driver {name} is judged by {' and '.join(unread)}, which were not read"
    driver = next((driver for driver in snapshot.storage_drivers if driver.name == name), None)
    return f"for which {name} must run on the node" if driver is not None and driver.must_be_there else ""


def _why_open_disk(disk: Disk, snapshot: Snapshot) -> str:
    """Whether a node may count a disk among those of the driver that has taken over its kind."""
    if not disk.driver:
        return ""
    if not snapshot.was_read("CSINode"):
        return f"of which the driver {disk.driver} is judged by CSINode, which was not read"
    limited = any(disk.driver in limits for limits in snapshot.volume_limits.values())
    return f"which {disk.driver} may count among those that it attaches" if limited else ""


def _attachments_needed(name: str, snapshot: Snapshot) -> tuple[str, ...]:
    limited = any(name in limits for limits in snapshot.volume_limits.values())
    return ("VolumeAttachment",) if limited else ()


def _says(pod: Pod, volume: PodVolume, claims_by_key: Mapping[tuple[str, str], VolumeClaim]) -> str:
    claim = claims_by_key.get((pod.namespace, volume.claim))
    if claim is None:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{volume.claim}"'
    if claim.lost:
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.terminating:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if volume.ephemeral and claim.owner != pod.uid:
        where = f"{pod.namespace}/{pod.name}"
        return f"PVC {pod.namespace}/{claim.name} was not created for pod {where} (pod is not owner)"
    return ""


def _is_immediate(claim: VolumeClaim, snapshot: Snapshot) -> bool:
    """Whether the claim should be bound and is not; one of a class that does not exist should be."""
    if claim.volume and claim.bound:
        return False
    if claim.volume or not claim.storage_class:
        return True
    cls = next((cls for cls in snapshot.storage_classes if cls.name == claim.storage_class), None)
    return not cls.waits if cls is not None else snapshot.was_read("StorageClass")
