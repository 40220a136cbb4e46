"""Sources of volumes that storage vendors brought into Kubernetes, most of which nothing serves any more.

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
from tonnage.twin.apiserver.objects.validation.fields import Found, in_range
from tonnage.twin.apiserver.objects.validation.file_paths import descending_path

_PARTITION: Final = "must be between 1 and 255, inclusive"
_INITIATORS: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)"),
    "eui": re.compile(r"eui.[a-zA-Z0-9]{16}"),
    "naa": re.compile(r"naa.[a-zA-Z0-9]{32}"),
}
_LONGEST_PORTAL: Final = 64
_PAIRS: Final = "must be a host:port pair or multiple pairs separated by commas"
_LONGEST_TENANT: Final = 64
_CACHING: Final = ("None", "ReadOnly", "ReadWrite")
_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED: Final = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)
_BLOB: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_RESERVED: Final = (".kubernetes.io", ".k8s.io")


def _filled(source: JsonObject, path: str, *, keys: tuple[str, ...]) -> Found:
    for key in keys:
        if not source.get(key):
            yield required(f"{path}.{key}")


def _secret(source: JsonObject, path: str) -> Found:
    """A reference to a secret, which must have a name."""
    if isinstance(source.get("secretRef"), dict) and not text(source, "secretRef", "name"):
        yield required(f"{path}.secretRef.name")


def _git(source: JsonObject, path: str) -> Found:
    yield from _filled(source, path, keys=("repository",))
    yield from descending_path(text(source, "directory"), f"{path}.directory")


def _partitioned(source: JsonObject, path: str, *, key: str) -> Found:
    yield from _filled(source, path, keys=(key,))
    if not 0 <= (partition := number(source, "partition")) <= 255:
        yield invalid(f"{path}.partition", partition, _PARTITION)


def _iscsi(source: JsonObject, path: str) -> Found:
    yield from _filled(source, path, keys=("targetPortal",))
    if name := text(source, "iqn"):
        yield from _initiator(name, f"{path}.iqn")
    else:
        yield required(f"{path}.iqn")
    lun = number(source, "lun")
    yield from complaints(f"{path}.lun", lun, in_range(lun, 0, 255))
    asks = flag(source, "chapAuthDiscovery") or flag(source, "chapAuthSession")
    if asks and source.get("secretRef") is None:
        yield required(f"{path}.secretRef")
    if source.get("initiatorName") is not None:
        yield from _initiator(text(source, "initiatorName"), f"{path}.initiatorname")


def _initiator(name: str, path: str) -> Found:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        yield invalid(path, name, "must be valid format starting with iqn, eui, or naa")
    elif not pattern.fullmatch(name):
        yield invalid(path, name, "must be valid format")


def portal_fits(volume: JsonObject, path: str) -> Found:
    """The name of a volume and the portal of its iSCSI target make one name, which is bounded."""
    source, name = mapping(volume, "iscsi"), text(volume, "name")
    joined = f"{name}:{text(source, 'targetPortal')}"
    if source.get("initiatorName") is not None and len(joined.encode()) > _LONGEST_PORTAL:
        bound = f"must be under {_LONGEST_PORTAL} characters if iscsi.initiatorName is specified."
        yield invalid(f"{path}.name", name, f"Total length of <volume name>:<iscsi.targetPortal> {bound}")


def _flocker(source: JsonObject, path: str) -> Found:
    name, uid = text(source, "datasetName"), text(source, "datasetUUID")
    if not name and not uid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        words = "datasetName and datasetUUID can not be specified simultaneously"
        yield invalid(path, "resource", words)
    if "/" in name:
        yield invalid(f"{path}.datasetName", name, "must not contain '/'")


def _cinder(source: JsonObject, path: str) -> Found:
    yield from _filled(source, path, keys=("volumeID",))
    yield from _secret(source, path)


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
    yield from _filled(source, path, keys=("volume",))


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
    yield from _filled(source, path, keys=("driver",))
    for key in mapping(source, "options"):
        if f".{key.partition('/')[0].lower()}".endswith(_RESERVED):
            words = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(f"{path}.options[{key}]", key, words)


def _azure_disk(source: JsonObject, path: str) -> Found:
    yield from _filled(source, path, keys=("diskName", "diskURI"))
    for key, known in (("cachingMode", _CACHING), ("kind", _KINDS)):
        if source.get(key) is not None and text(source, key) not in known:
            yield unsupported(f"{path}.{key}", text(source, key), known)
    if source.get("kind") is None:
        return
    managed, uri = text(source, "kind") == "Managed", text(source, "diskURI")
    if not uri.startswith("/subscriptions/" if managed else "https://"):
        yield unsupported(f"{path}.diskURI", uri, (_MANAGED if managed else _BLOB,))


def _storage_os(source: JsonObject, path: str) -> Found:
    if name := text(source, "volumeName"):
        yield from complaints(f"{path}.volumeName", name, names.dns_label(name))
    else:
        yield required(f"{path}.volumeName")
    if namespace := text(source, "volumeNamespace"):
        yield from complaints(f"{path}.volumeNamespace", namespace, names.dns_label(namespace))
    yield from _secret(source, path)


DISKS: Final[dict[str, Callable[[JsonObject, str], Found]]] = {
    "awsElasticBlockStore": partial(_partitioned, key="volumeID"),
    "azureDisk": _azure_disk,
    "azureFile": partial(_filled, keys=("secretName", "shareName")),
    "cephfs": partial(_filled, keys=("monitors",)),
    "cinder": _cinder,
    "fc": _fibre_channel,
    "flexVolume": _flexible,
    "flocker": _flocker,
    "gcePersistentDisk": partial(_partitioned, key="pdName"),
    "gitRepo": _git,
    "glusterfs": partial(_filled, keys=("endpoints", "path")),
    "iscsi": _iscsi,
    "photonPersistentDisk": partial(_filled, keys=("pdID",)),
    "portworxVolume": partial(_filled, keys=("volumeID",)),
    "quobyte": _quobyte,
    "rbd": partial(_filled, keys=("monitors", "image")),
    "scaleIO": partial(_filled, keys=("gateway", "system", "volumeName")),
    "storageos": _storage_os,
    "vsphereVolume": partial(_filled, keys=("volumePath",)),
}
"""What is checked of a source, by its field."""
