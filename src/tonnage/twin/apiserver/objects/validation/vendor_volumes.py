"""Volumes of storage vendors: what each sort of them must say.

Source: pkg/apis/core/validation (validate...VolumeSource, v1.35).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import flag, mapping, number, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import complaints, invalid, required, unsupported
from tonnage.twin.apiserver.objects.validation.fields import Found, in_range

_REQUIRED: Final = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "glusterfs": ("endpoints", "path"),
    "rbd": ("monitors", "image"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
}
"""Fields that must not be empty, by the source that has them."""
_INITIATORS: Final = {
    "iqn": r"iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.-]+(:[^,;*&$|\t\n\f\r ]+)\Z",
    "eui": r"\Aeui.[A-Za-z0-9]{16}\Z",
    "naa": r"\Anaa.[A-Za-z0-9]{32}\Z",
}
_FORMAT: Final = "must be valid format"
_LONGEST_WITH_INITIATOR: Final = 64
_LONGEST_TENANT: Final = 64
_HOST_AND_PORT: Final = r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*"
_PAIRS: Final = "must be a host:port pair or multiple pairs separated by commas"
_CACHING: Final = ("None", "ReadOnly", "ReadWrite")
_MANAGED: Final = "Managed"
_DISK_KINDS: Final = ("Dedicated", _MANAGED, "Shared")
_MANAGED_DISK: Final = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)
_BLOB: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def vendor_volume(key: str, source: JsonObject, path: str, volume: str = "") -> Found:
    """A source of the kind `key`; `volume` is the name of the PersistentVolume that it is of."""
    for name in _REQUIRED.get(key, ()):
        if not source.get(name):
            yield required(f"{path}.{name}")
    if key == "iscsi":
        yield from _iscsi(source, path, volume)
    elif rule := _MORE.get(key):
        yield from rule(source, path)


def _partition(source: JsonObject, path: str) -> Found:
    if in_range(partition := number(source, "partition"), 0, 255):
        yield invalid(f"{path}.partition", partition, in_range(0, 1, 255)[0])


def _glusterfs(source: JsonObject, path: str) -> Found:
    where, namespace = f"{path}.endpointsNamespace", source.get("endpointsNamespace")
    if namespace == "":
        words = "if the endpointnamespace is set, it must be a valid namespace name"
        yield invalid(where, namespace, words)
    elif isinstance(namespace, str):
        yield from complaints(where, namespace, names.dns_label(namespace))


def _flocker(source: JsonObject, path: str) -> Found:
    name, uid = text(source, "datasetName"), text(source, "datasetUUID")
    if not name and not uid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        words = "datasetName and datasetUUID can not be specified simultaneously"
        yield invalid(path, "resource", words)
    if "/" in name:
        yield invalid(f"{path}.datasetName", name, "must not contain '/'")


def _quobyte(source: JsonObject, path: str) -> Found:
    registry = text(source, "registry")
    if not registry:
        yield required(f"{path}.registry", _PAIRS)
    elif len(text(source, "tenant").encode()) > _LONGEST_TENANT:
        words = f"must be a UUID and may not exceed a length of {_LONGEST_TENANT} characters"
        yield required(f"{path}.tenant", words)
    else:
        for pair in registry.split(","):
            if not re.fullmatch(_HOST_AND_PORT, pair):
                yield invalid(f"{path}.registry", registry, _PAIRS)
    if not text(source, "volume"):
        yield required(f"{path}.volume")


def _iscsi(source: JsonObject, path: str, volume: str) -> Found:
    portal, name, initiator = text(source, "targetPortal"), text(source, "iqn"), source.get("initiatorName")
    if not portal:
        yield required(f"{path}.targetPortal")
    if initiator is not None and len(f"{volume}:{portal}".encode()) > _LONGEST_WITH_INITIATOR:
        words = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under "
            f"{_LONGEST_WITH_INITIATOR} characters if iscsi.initiatorName is specified."
        )
        yield invalid(f"{path}.targetportal", portal, words)
    if not name:
        yield required(f"{path}.iqn")
    elif not _is_initiator(name):
        yield invalid(f"{path}.iqn", name, _FORMAT)
    yield from complaints(f"{path}.lun", number(source, "lun"), in_range(number(source, "lun"), 0, 255))
    secret = source.get("secretRef")
    if secret is None and (flag(source, "chapAuthDiscovery") or flag(source, "chapAuthSession")):
        yield required(f"{path}.secretRef")
    if secret is not None and not text(secret, "name"):
        yield required(f"{path}.secretRef.name")
    if isinstance(initiator, str) and not _is_initiator(initiator):
        yield invalid(f"{path}.initiatorname", initiator, _FORMAT)


def _is_initiator(name: str) -> bool:
    pattern = _INITIATORS.get(name[:3])
    return pattern is not None and re.search(pattern, name) is not None


def _with_secret(source: JsonObject, path: str) -> Found:
    """What names a Secret, and in which namespace."""
    for key in ("name", "namespace"):
        if source.get("secretRef") is not None and not text(source, "secretRef", key):
            yield required(f"{path}.secretRef.{key}")


def _fibre_channel(source: JsonObject, path: str) -> Found:
    targets, ids, lun = texts(source, "targetWWNs"), texts(source, "wwids"), source.get("lun")
    if not targets and not ids:
        yield required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if targets and ids:
        words = "targetWWNs and wwids can not be specified simultaneously"
        yield invalid(f"{path}.targetWWNs", list(targets), words)
    if targets and lun is None:
        yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif targets:
        yield from complaints(f"{path}.lun", lun, in_range(number(source, "lun"), 0, 255))


def _flex(source: JsonObject, path: str) -> Found:
    for key in sorted(mapping(source, "options")):
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            words = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(f"{path}.options[{key}]", key, words)


def _azure_file(source: JsonObject, path: str) -> Found:
    if source.get("secretNamespace") == "":
        yield required(f"{path}.secretNamespace")


def _azure_disk(source: JsonObject, path: str) -> Found:
    kind, uri = source.get("kind"), text(source, "diskURI")
    for key, supported in (("cachingMode", _CACHING), ("kind", _DISK_KINDS)):
        if (value := source.get(key)) is not None and value not in supported:
            yield unsupported(f"{path}.{key}", value, supported)
    if kind == _MANAGED and not uri.startswith("/subscriptions/"):
        yield unsupported(f"{path}.diskURI", uri, (_MANAGED_DISK,))
    if kind not in (None, _MANAGED) and not uri.startswith("https://"):
        yield unsupported(f"{path}.diskURI", uri, (_BLOB,))


def _storage_os(source: JsonObject, path: str) -> Found:
    for key in ("volumeName", "volumeNamespace"):
        if name := text(source, key):
            yield from complaints(f"{path}.{key}", name, names.dns_label(name))
        elif key == "volumeName":
            yield required(f"{path}.{key}")
    yield from _with_secret(source, path)


_MORE: Final[dict[str, Callable[[JsonObject, str], Found]]] = {
    "awsElasticBlockStore": _partition,
    "azureDisk": _azure_disk,
    "azureFile": _azure_file,
    "cinder": _with_secret,
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "flocker": _flocker,
    "gcePersistentDisk": _partition,
    "glusterfs": _glusterfs,
    "quobyte": _quobyte,
    "storageos": _storage_os,
}
