"""Sources of volumes that storage vendors brought into Kubernetes, most of which nothing serves any more.

A PersistentVolume says more than a pod's volume where its source names a Secret or a namespace.

Source: pkg/apis/core/validation (validate…VolumeSource), v1.35.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import flag, mapping, number, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import complaints, invalid, required, unsupported
from tonnage.twin.apiserver.objects.validation.fields import Found, in_range, one_of_if_set
from tonnage.twin.apiserver.objects.validation.file_paths import descending_path

_REQUIRED: Final = {
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "azureFile": ("secretName", "shareName"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "flexVolume": ("driver",),
    "gcePersistentDisk": ("pdName",),
    "gitRepo": ("repository",),
    "glusterfs": ("endpoints", "path"),
    "iscsi": ("targetPortal",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "rbd": ("monitors", "image"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "storageos": ("volumeName",),
    "vsphereVolume": ("volumePath",),
}
"""Fields that must not be empty, by the source that has them."""
_PARTITION: Final = "must be between 1 and 255, inclusive"
_INITIATORS: Final = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[a-zA-Z0-9.-]+:[^,;*&$|\t\n\f\r ]+\Z"),
    "eui": re.compile(r"\Aeui.[a-zA-Z0-9]{16}\Z"),
    "naa": re.compile(r"\Anaa.[a-zA-Z0-9]{32}\Z"),
}
"""Names of iSCSI targets and initiators by how they begin; the server finds an iqn at the end of any text."""
_NO_INITIATOR: Final = "must be valid format"
_LONGEST_PORTAL: Final = 64
PORTAL_WORDS: Final = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under "
    f"{_LONGEST_PORTAL} characters if iscsi.initiatorName is specified."
)
_PAIRS: Final = "must be a host:port pair or multiple pairs separated by commas"
_LONGEST_TENANT: Final = 64
_CACHING: Final = ("None", "ReadOnly", "ReadWrite")
_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED: Final = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)
_BLOB: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_RESERVED: Final = (".kubernetes.io", ".k8s.io")


def vendor_source(key: str, source: JsonObject, path: str) -> Found:
    """The source `key` of a pod's volume."""
    yield from _empty(source, path, _REQUIRED.get(key, ()))
    if rule := _RULES.get(key):
        yield from rule(source, path)


def stored_vendor_source(key: str, source: JsonObject, path: str, volume: str) -> Found:
    """The source `key` of the PersistentVolume `volume`."""
    yield from _empty(source, path, _REQUIRED.get(key, ()))
    if key == "iscsi" and is_long_portal(source, volume):
        yield invalid(f"{path}.targetportal", text(source, "targetPortal"), PORTAL_WORDS)
    if rule := _STORED_RULES.get(key):
        yield from rule(source, path)


def is_long_portal(source: JsonObject, volume: str) -> bool:
    """Whether a volume's name and the portal of its iSCSI target are too long for the one name they make."""
    joined = f"{volume}:{text(source, 'targetPortal')}"
    return source.get("initiatorName") is not None and len(joined.encode()) > _LONGEST_PORTAL


def _empty(source: JsonObject, path: str, keys: tuple[str, ...]) -> Found:
    for key in keys:
        if not source.get(key):
            yield required(f"{path}.{key}")


def _secret(source: JsonObject, path: str, *, keys: tuple[str, ...] = ("name",)) -> Found:
    """A reference to a Secret, which must say all that it is found by."""
    if source.get("secretRef") is not None:
        yield from _empty(mapping(source, "secretRef"), f"{path}.secretRef", keys)


def _directory(source: JsonObject, path: str) -> Found:
    yield from descending_path(text(source, "directory"), f"{path}.directory")


def _partition(source: JsonObject, path: str) -> Found:
    if not 0 <= (partition := number(source, "partition")) <= 255:
        yield invalid(f"{path}.partition", partition, _PARTITION)


def _endpoints(source: JsonObject, path: str) -> Found:
    where, namespace = f"{path}.endpointsNamespace", source.get("endpointsNamespace")
    if namespace == "":
        words = "if the endpointnamespace is set, it must be a valid namespace name"
        yield invalid(where, namespace, words)
    elif isinstance(namespace, str):
        yield from complaints(where, namespace, names.dns_label(namespace))


def _iscsi(source: JsonObject, path: str, *, stored: bool = False) -> Found:
    other = _NO_INITIATOR if stored else f"{_NO_INITIATOR} starting with iqn, eui, or naa"
    if name := text(source, "iqn"):
        yield from _qualified(name, f"{path}.iqn", other)
    else:
        yield required(f"{path}.iqn")
    lun = number(source, "lun")
    yield from complaints(f"{path}.lun", lun, in_range(lun, 0, 255))
    asks = flag(source, "chapAuthDiscovery") or flag(source, "chapAuthSession")
    if asks and source.get("secretRef") is None:
        yield required(f"{path}.secretRef")
    if stored:
        yield from _secret(source, path)
    if source.get("initiatorName") is not None:
        yield from _qualified(text(source, "initiatorName"), f"{path}.initiatorname", other)


def _qualified(name: str, path: str, other: str) -> Found:
    """A name of one of the three formats; `other` is what the server says of any other."""
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        yield invalid(path, name, other)
    elif not pattern.search(name):
        yield invalid(path, name, _NO_INITIATOR)


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
            if not re.fullmatch(r"([^:\[\]]*|\[[^\[\]]*\]):[^:\[\]]*", pair):
                yield invalid(f"{path}.registry", registry, _PAIRS)
    if not text(source, "volume"):
        yield required(f"{path}.volume")


def _fibre_channel(source: JsonObject, path: str) -> Found:
    targets, ids = texts(source, "targetWWNs"), texts(source, "wwids")
    if not targets and not ids:
        words = "must specify either targetWWNs or wwids, but not both"
        yield required(f"{path}.targetWWNs", words)
    if targets and ids:
        words = "targetWWNs and wwids can not be specified simultaneously"
        yield invalid(f"{path}.targetWWNs", list(targets), words)
    if targets and source.get("lun") is None:
        yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif targets:
        lun = number(source, "lun")
        yield from complaints(f"{path}.lun", lun, in_range(lun, 0, 255))


def _flexible(source: JsonObject, path: str) -> Found:
    for key in sorted(mapping(source, "options")):
        if f".{key.partition('/')[0].lower()}".endswith(_RESERVED):
            words = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(f"{path}.options[{key}]", key, words)


def _azure_disk(source: JsonObject, path: str) -> Found:
    yield from one_of_if_set(source, "cachingMode", _CACHING, path)
    yield from one_of_if_set(source, "kind", _KINDS, path)
    if source.get("kind") is None:
        return
    managed, uri = text(source, "kind") == "Managed", text(source, "diskURI")
    if not uri.startswith("/subscriptions/" if managed else "https://"):
        yield unsupported(f"{path}.diskURI", uri, (_MANAGED if managed else _BLOB,))


def _secret_namespace(source: JsonObject, path: str) -> Found:
    if source.get("secretNamespace") == "":
        yield required(f"{path}.secretNamespace")


def _storage_os(source: JsonObject, path: str, *, keys: tuple[str, ...] = ("name",)) -> Found:
    for key in ("volumeName", "volumeNamespace"):
        if name := text(source, key):
            yield from complaints(f"{path}.{key}", name, names.dns_label(name))
    yield from _secret(source, path, keys=keys)


_Rules = dict[str, Callable[[JsonObject, str], Found]]
_RULES: Final[_Rules] = {
    "awsElasticBlockStore": _partition,
    "azureDisk": _azure_disk,
    "cinder": _secret,
    "fc": _fibre_channel,
    "flexVolume": _flexible,
    "flocker": _flocker,
    "gcePersistentDisk": _partition,
    "gitRepo": _directory,
    "iscsi": _iscsi,
    "quobyte": _quobyte,
    "storageos": _storage_os,
}
"""What else is checked of a source of a pod's volume."""
_STORED_RULES: Final[_Rules] = {
    **_RULES,
    "azureFile": _secret_namespace,
    "cinder": partial(_secret, keys=("name", "namespace")),
    "glusterfs": _endpoints,
    "iscsi": partial(_iscsi, stored=True),
    "storageos": partial(_storage_os, keys=("name", "namespace")),
}
"""The same of a PersistentVolume."""
