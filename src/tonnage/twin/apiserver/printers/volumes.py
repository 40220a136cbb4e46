"""Columns of storage.

Source: pkg/printers/internalversion/printers.go (v1.35).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, items, mapping, text, texts
from tonnage.model.kubernetes.well_known import DEFAULT_STORAGE_CLASS, OLD_STORAGE_CLASS
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.printers.columns import (
    NAME,
    UNSET,
    Column,
    Printer,
    age,
    age_column,
    created,
    name_of,
    named_columns,
    wide,
)

_OF_DRIVERS: Final = (
    "AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests"
    "|RequiresRepublish:boolean|Modes|Age"
)
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(modes: list[str]) -> str:
    """`RWO,ROX`, in upstream's order.

    >>> access_modes(["ReadOnlyMany", "ReadWriteOnce"])
    'RWO,ROX'
    """
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _storage_class(obj: JsonObject) -> str:
    old = text(obj, "metadata", "annotations", OLD_STORAGE_CLASS)
    return old or text(obj, "spec", "storageClassName")


def _phase(obj: JsonObject) -> str:
    return "Terminating" if text(obj, "metadata", "deletionTimestamp") else text(obj, "status", "phase")


def _claim(obj: JsonObject, now: datetime) -> list[JsonValue]:
    bound = text(obj, "spec", "volumeName")
    return [
        name_of(obj),
        _phase(obj),
        bound,
        (text(obj, "status", "capacity", "storage") or "0") if bound else "",
        access_modes(texts(obj, "status", "accessModes")) if bound else "",
        _storage_class(obj),
        text(obj, "spec", "volumeAttributesClassName") or UNSET,
        age(obj, now),
        text(obj, "spec", "volumeMode") or UNSET,
    ]


def _volume(obj: JsonObject, now: datetime) -> list[JsonValue]:
    claim = mapping(obj, "spec", "claimRef")
    return [
        name_of(obj),
        text(obj, "spec", "capacity", "storage"),
        access_modes(texts(obj, "spec", "accessModes")),
        text(obj, "spec", "persistentVolumeReclaimPolicy"),
        _phase(obj),
        f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else "",
        _storage_class(obj),
        text(obj, "spec", "volumeAttributesClassName") or UNSET,
        text(obj, "status", "reason"),
        age(obj, now),
        text(obj, "spec", "volumeMode") or UNSET,
    ]


def _class(obj: JsonObject, now: datetime) -> list[JsonValue]:
    name, notes = name_of(obj), mapping(obj, "metadata", "annotations")
    default = any(notes.get(key) == "true" for key in DEFAULT_STORAGE_CLASS)
    return [
        f"{name} (default)" if default else name,
        text(obj, "provisioner"),
        text(obj, "reclaimPolicy") or "Delete",
        text(obj, "volumeBindingMode") or "Immediate",
        flag(obj, "allowVolumeExpansion"),
        age(obj, now),
    ]


def _csi_node(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), len(items(obj, "spec", "drivers")), age(obj, now)]


def _driver(obj: JsonObject, now: datetime) -> list[JsonValue]:
    requests = items(obj, "spec", "tokenRequests")
    attach = at(obj, "spec", "attachRequired")
    return [
        name_of(obj),
        attach is None or attach is True,
        flag(obj, "spec", "podInfoOnMount"),
        flag(obj, "spec", "storageCapacity"),
        ",".join(str(at(entry, "audience") or "") for entry in requests) if requests else UNSET,
        flag(obj, "spec", "requiresRepublish"),
        ",".join(texts(obj, "spec", "volumeLifecycleModes")) or "Persistent",
        age(obj, now),
    ]


def _attachment(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [
        name_of(obj),
        text(obj, "spec", "attacher"),
        text(obj, "spec", "source", "persistentVolumeName"),
        text(obj, "spec", "nodeName"),
        flag(obj, "status", "attached"),
        age(obj, now),
    ]


def _attributes_class(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), text(obj, "driverName"), age(obj, now)]


VOLUMES: Final[dict[Resource, Printer]] = {
    ("", "persistentvolumeclaims"): Printer(
        (
            *named_columns("Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age"),
            *wide("VolumeMode"),
        ),
        _claim,
    ),
    ("", "persistentvolumes"): Printer(
        (
            *named_columns("Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass"),
            Column("VolumeAttributesClass"),
            Column("Reason"),
            age_column(),
            *wide("VolumeMode"),
        ),
        _volume,
    ),
    ("storage.k8s.io", "storageclasses"): Printer(
        named_columns("Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age"), _class
    ),
    ("storage.k8s.io", "volumeattachments"): Printer(
        (NAME, Column("Attacher", format="name"), *named_columns("PV|Node|Attached:boolean|Age")[1:]),
        _attachment,
    ),
    ("storage.k8s.io", "volumeattributesclasses"): Printer(
        named_columns("DriverName|Age"), _attributes_class
    ),
    ("storage.k8s.io", "csistoragecapacities"): Printer(named_columns("Created At:date"), created),
    ("storage.k8s.io", "csinodes"): Printer(named_columns("Drivers:integer|Age"), _csi_node),
    ("storage.k8s.io", "csidrivers"): Printer(
        named_columns(_OF_DRIVERS),
        _driver,
    ),
}
