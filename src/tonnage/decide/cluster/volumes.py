"""Volume claims before any node is looked at: what VolumeRestrictions and VolumeBinding say at once.

Which nodes a volume can reach, limits of drivers and storage that is left are not decided here.

Source: kube-scheduler 1.35 plugins volumerestrictions, volumebinding (PreFilter).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.model.cluster import Pod, Snapshot
from tonnage.model.volumes import PodVolume, VolumeClaim

NAME: Final = "VolumeBinding"
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"


def volumes_stop(pod: Pod, snapshot: Snapshot) -> str:
    """The scheduler's words on a volume claim that no node can help; empty: go on."""
    known = {(claim.namespace, claim.name): claim for claim in snapshot.volume_claims}
    for volume in pod.volumes:
        if not volume.ephemeral and (pod.namespace, volume.claim) not in known:
            return f'persistentvolumeclaim "{volume.claim}" not found'
    for volume in pod.volumes:
        if text := _says(pod, volume, known):
            return text
    claims = [known[pod.namespace, volume.claim] for volume in pod.volumes]
    return UNBOUND if any(_is_immediate(claim, snapshot) for claim in claims) else ""


def undecided_volumes(pod: Pod) -> tuple[str, ...]:
    """Volumes that may keep the pod from nodes in ways that are not decided here."""
    kinds = {False: "persistentVolumeClaim", True: "ephemeral"}
    return tuple(f"volume {volume.name} ({kinds[volume.ephemeral]})" for volume in pod.volumes)


def _says(pod: Pod, volume: PodVolume, known: Mapping[tuple[str, str], VolumeClaim]) -> str:
    claim = known.get((pod.namespace, volume.claim))
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
    """Whether the claim should be bound and is not. A class that is not known says nothing."""
    if claim.volume and claim.bound:
        return False
    if claim.volume or not claim.storage_class:
        return True
    classes = {cls.name: cls for cls in snapshot.storage_classes}
    return claim.storage_class in classes and not classes[claim.storage_class].waits
