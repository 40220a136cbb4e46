"""Where a PersistentVolume's data lies, and both kinds of the storage API as refusals show them: in Go.

Source: pkg/apis/core/types.go, pkg/apis/core/validation, apimachinery's util/diff (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.access import mapping, text
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import complaints, invalid, required, too_long, unsupported
from tonnage.twin.apiserver.objects.validation.fields import Found
from tonnage.twin.apiserver.objects.validation.file_paths import no_backsteps

SOURCES: Final = {
    "gcePersistentDisk": "GCEPersistentDisk", "awsElasticBlockStore": "AWSElasticBlockStore",
    "hostPath": "HostPath", "glusterfs": "Glusterfs", "nfs": "NFS", "rbd": "RBD", "quobyte": "Quobyte",
    "iscsi": "ISCSI", "flexVolume": "FlexVolume", "cinder": "Cinder", "cephfs": "CephFS", "fc": "FC",
    "flocker": "Flocker", "azureFile": "AzureFile", "vsphereVolume": "VsphereVolume",
    "azureDisk": "AzureDisk", "photonPersistentDisk": "PhotonPersistentDisk",
    "portworxVolume": "PortworxVolume", "scaleIO": "ScaleIO", "local": "Local", "storageos": "StorageOS",
    "csi": "CSI",
}  # fmt: skip
"""Fields of a PersistentVolume that say what stores it, with their names in Go."""
_FIELDS: Final[dict[str, tuple[tuple[str, str, JsonValue], ...]]] = {
    "hostPath": (("Path", "path", ""), ("Type", "type", None)),
    "nfs": (("Server", "server", ""), ("Path", "path", ""), ("ReadOnly", "readOnly", False)),
    "local": (("Path", "path", ""), ("FSType", "fsType", None)),
    "csi": (
        ("Driver", "driver", ""), ("VolumeHandle", "volumeHandle", ""), ("ReadOnly", "readOnly", False),
        ("FSType", "fsType", ""), ("VolumeAttributes", "volumeAttributes", None),
        ("ControllerPublishSecretRef", "controllerPublishSecretRef", None),
        ("NodeStageSecretRef", "nodeStageSecretRef", None),
        ("NodePublishSecretRef", "nodePublishSecretRef", None),
        ("ControllerExpandSecretRef", "controllerExpandSecretRef", None),
        ("NodeExpandSecretRef", "nodeExpandSecretRef", None),
    ),
}  # fmt: skip
"""Fields of the sources that are checked, with their names in Go and what they are when unset."""
_CLAIM: Final[tuple[tuple[str, str, JsonValue], ...]] = (
    ("AccessModes", "accessModes", None), ("Selector", "selector", None),
    ("Resources", "resources", None), ("VolumeName", "volumeName", ""),
    ("StorageClassName", "storageClassName", None), ("VolumeMode", "volumeMode", None),
    ("DataSource", "dataSource", None), ("DataSourceRef", "dataSourceRef", None),
    ("VolumeAttributesClassName", "volumeAttributesClassName", None),
)  # fmt: skip
_SECRETS: Final = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_LONGEST_DRIVER: Final = 63


def host_path(source: JsonObject, path: str) -> Found:
    """A directory of a node."""
    if not text(source, "path"):
        yield required(f"{path}.path")
        return
    yield from no_backsteps(text(source, "path"), f"{path}.path")
    if (kind := text(source, "type")) not in _HOST_PATH_TYPES:
        yield unsupported(f"{path}.type", kind, _HOST_PATH_TYPES)


def local_path(source: JsonObject, path: str) -> Found:
    """A disk of a node."""
    if not (shown := text(source, "path")):
        yield required(f"{path}.path")
    else:
        yield from no_backsteps(shown, f"{path}.path")


def network_path(source: JsonObject, path: str) -> Found:
    """A directory of an NFS server."""
    for key in ("server", "path"):
        if not text(source, key):
            yield required(f"{path}.{key}")
    if not (shown := text(source, "path")).startswith("/"):
        yield invalid(f"{path}.path", shown, "must be an absolute path")


def plugged_in(source: JsonObject, path: str) -> Found:
    """A volume of a CSI driver."""
    yield from driver_name(text(source, "driver"), f"{path}.driver")
    if not text(source, "volumeHandle"):
        yield required(f"{path}.volumeHandle")
    for key in _SECRETS:
        if not isinstance(source.get(key), dict):
            continue
        for part, rule in (("name", names.dns_subdomain), ("namespace", names.dns_label)):
            value, where = text(source, key, part), f"{path}.{key}.{part}"
            if not value:
                yield required(where)
            else:
                yield from complaints(where, value, rule(value))


def driver_name(name: str, path: str) -> Found:
    """The name of a CSI driver, in letters of any size."""
    if not name:
        yield required(path)
        return
    if len(name.encode()) > _LONGEST_DRIVER:
        yield too_long(path, _LONGEST_DRIVER)
    yield from complaints(path, name, names.dns_subdomain(name.lower()))


def source_in_go(spec: JsonObject) -> JsonObject:
    """What stores a volume; sources that are not checked have but the fields that are set."""
    shown: JsonObject = {}
    for key, name in SOURCES.items():
        source = spec.get(key)
        if not isinstance(source, dict):
            shown[name] = None
        elif key in _FIELDS:
            shown[name] = _in_go(source, _FIELDS[key])
        else:
            shown[name] = {field[0].upper() + field[1:]: value for field, value in sorted(source.items())}
    return shown


def claim_in_go(spec: JsonObject) -> JsonObject:
    """A claim's spec."""
    shown = _in_go(spec, _CLAIM)
    resources = mapping(spec, "resources")
    shown["Resources"] = {name.capitalize(): resources.get(name) for name in ("limits", "requests")}
    for name, key in (("DataSource", "dataSource"), ("DataSourceRef", "dataSourceRef")):
        if isinstance(source := spec.get(key), dict):
            fields: JsonObject = {"APIGroup": source.get("apiGroup"), "Kind": text(source, "kind")}
            fields["Name"] = text(source, "name")
            if key == "dataSourceRef":
                fields["Namespace"] = source.get("namespace")
            shown[name] = fields
    return shown


def _in_go(obj: JsonObject, fields: tuple[tuple[str, str, JsonValue], ...]) -> JsonObject:
    return {name: unset if obj.get(key) is None else obj[key] for name, key, unset in fields}
