"""Volumes of pods and their claims as model values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage.model.kubernetes.quantity import integer_value
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Requirement
from tonnage.model.kubernetes.volumes import (
    Disk,
    PodVolume,
    StorageClass,
    StorageDriver,
    StorageLeft,
    Volume,
    VolumeClaim,
)
from tonnage.model.kubernetes.well_known import BIND_COMPLETED, OLD_STORAGE_CLASS, SELECTED_NODE
from tonnage.reading.object_parts import selector_of
from tonnage.wire import claims as claim_objects
from tonnage.wire import objects as w

KNOWN_SOURCES: Final = ("csi", "nfs", "local", "hostPath", "iscsi", "fc")
"""What volumes are made of of which no driver's translation has a say in where they are."""

_DISKS: Final = {
    "gcePersistentDisk": ("pdName", "pd.csi.storage.gke.io"),
    "awsElasticBlockStore": ("volumeID", "ebs.csi.aws.com"),
    "azureDisk": ("", "disk.csi.azure.com"),
    "iscsi": ("iqn", ""),
    "rbd": ("image", ""),
}
"""Sources inside a pod that have a say in where it may run: what names the disk, and its driver by now."""
_NEVER_SHARED: Final = "awsElasticBlockStore"


def disks_of(spec: w.PodSpec) -> tuple[Disk, ...]:
    """The disks that volumes of a pod name themselves.

    Source: kube-scheduler 1.35 plugin volumerestrictions (isVolumeConflict).
    """
    disks: list[Disk] = []
    for volume in spec.volumes:
        for source, (key, driver) in _DISKS.items():
            fields = volume.get(source)
            if not isinstance(fields, dict):
                continue
            ids = {str(fields.get(key, ""))} if key else set()
            if source == "rbd":
                ids = {
                    f"{monitor}/{fields.get('pool')}/{fields.get('image')}"
                    for monitor in fields.get("monitors") or ()
                }
            shared = bool(fields.get("readOnly")) and source != _NEVER_SHARED
            disks.append(Disk(str(volume.get("name", "")), source, frozenset(ids), shared, driver))
    return tuple(disks)


def volumes_of(spec: w.PodSpec, pod: str) -> tuple[PodVolume, ...]:
    """The volumes of the pod of this name that come from claims."""
    pod_volumes: list[PodVolume] = []
    for volume in spec.volumes:
        name = str(volume.get("name", ""))
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict):
            pod_volumes.append(PodVolume(name, str(claim.get("claimName", ""))))
        elif isinstance(volume.get("ephemeral"), dict):
            pod_volumes.append(PodVolume(name, f"{pod}-{name}", ephemeral=True))
    return tuple(pod_volumes)


def volume_claim_from(obj: claim_objects.PersistentVolumeClaim) -> VolumeClaim:
    """A claim of a volume."""
    meta, spec = obj.metadata, obj.spec
    return VolumeClaim(
        namespace=meta.namespace or "default",
        name=meta.name,
        volume=str(spec.get("volumeName") or ""),
        bound=BIND_COMPLETED in meta.annotations or obj.status.get("phase") == "Bound",
        storage_class=class_of(meta, spec),
        lost=obj.status.get("phase") == "Lost",
        terminating=meta.deletion_timestamp is not None,
        owner=next((o.uid for o in meta.owner_references if o.controller), ""),
        size=_size(_object(_object(spec.get("resources")).get("requests")).get("storage")),
        modes=_modes(spec),
        node=meta.annotations.get(SELECTED_NODE, ""),
        uid=meta.uid,
        selector=selector_of(spec.get("selector")),
        block=spec.get("volumeMode") == "Block",
        attributes_class=str(spec.get("volumeAttributesClassName") or ""),
    )


def volume_from(obj: claim_objects.PersistentVolume) -> Volume:
    """A volume. A size that cannot be read is none."""
    spec = obj.spec
    claim, csi, affinity = (_object(spec.get(key)) for key in ("claimRef", "csi", "nodeAffinity"))
    terms = _object(affinity.get("required")).get("nodeSelectorTerms")
    name = f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""
    return Volume(
        name=obj.metadata.name,
        claim=name,
        storage_class=class_of(obj.metadata, spec),
        size=_size(_object(spec.get("capacity")).get("storage")),
        modes=_modes(spec),
        nodes=tuple(map(_term, _objects(terms))) if isinstance(terms, list) else None,
        labels=obj.metadata.labels,
        driver=str(csi.get("driver") or ""),
        source=next((source for source in KNOWN_SOURCES if source in spec), ""),
        available=obj.status.get("phase") == "Available",
        claim_uid=str(claim.get("uid") or ""),
        block=spec.get("volumeMode") == "Block",
        attributes_class=str(spec.get("volumeAttributesClassName") or ""),
        terminating=obj.metadata.deletion_timestamp is not None,
    )


def storage_class_from(obj: claim_objects.StorageClass) -> StorageClass:
    """A storage class."""
    waits = obj.volume_binding_mode == "WaitForFirstConsumer"
    terms = tuple(
        NodeSelectorTerm(
            tuple(
                Requirement(str(e.get("key", "")), "In", tuple(map(str, _list(e.get("values")))))
                for e in _objects(term.get("matchLabelExpressions"))
            )
        )
        for term in obj.allowed_topologies
    )
    return StorageClass(obj.metadata.name, waits, obj.provisioner, terms)


def limits_from(obj: claim_objects.CSINode) -> dict[str, int]:
    """How many volumes of each driver a node can have; drivers without a limit are left out."""
    limits: dict[str, int] = {}
    for driver in _objects(obj.spec.get("drivers")):
        count = _object(driver.get("allocatable")).get("count")
        if isinstance(count, int):
            limits[str(driver.get("name", ""))] = count
    return limits


def storage_driver_from(obj: claim_objects.CSIDriver) -> StorageDriver:
    """A CSI driver."""
    spec = obj.spec
    return StorageDriver(
        obj.metadata.name,
        counts_storage=spec.get("storageCapacity") is True,
        must_be_there=spec.get("preventPodSchedulingIfMissing") is True,
    )


def storage_left_from(obj: claim_objects.CSIStorageCapacity) -> StorageLeft:
    """What some nodes have left of a class; of the two amounts the one for a single volume counts."""
    quantity = obj.maximum_volume_size if obj.maximum_volume_size is not None else obj.capacity
    size = _size(quantity) if quantity is not None else None
    return StorageLeft(obj.storage_class_name, size, selector_of(obj.node_topology))


def attachment_from(obj: claim_objects.VolumeAttachment) -> tuple[str, str, str]:
    """The node of an attachment, its volume and its driver; empty where it does not say."""
    volume = _object(obj.spec.get("source")).get("persistentVolumeName")
    return str(obj.spec.get("nodeName") or ""), str(volume or ""), str(obj.spec.get("attacher") or "")


def class_of(meta: w.ObjectMeta, spec: Mapping[str, Any]) -> str:
    """The storage class of a volume or a claim, empty where there is none; the older annotation wins."""
    older = meta.annotations.get(OLD_STORAGE_CLASS)
    return older if older is not None else str(spec.get("storageClassName") or "")


def _term(term: Mapping[str, Any]) -> NodeSelectorTerm:
    parts = (_objects(term.get(key)) for key in ("matchExpressions", "matchFields"))
    expressions, fields = (tuple(map(_requirement, part)) for part in parts)
    return NodeSelectorTerm(expressions, fields)


def _requirement(expression: Mapping[str, Any]) -> Requirement:
    values = tuple(map(str, _list(expression.get("values"))))
    return Requirement(str(expression.get("key", "")), str(expression.get("operator", "")), values)


def _size(quantity: object) -> int:
    try:
        return integer_value(str(quantity)) if quantity is not None else 0
    except ValueError:
        return 0


def _modes(spec: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(map(str, _list(spec.get("accessModes"))))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [element for element in _list(value) if isinstance(element, dict)]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
