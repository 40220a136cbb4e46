"""Keys of ConfigMaps and Secrets as files of the driver's container, each where its system looks for it.

Source: NVIDIA/gpu-operator v26.7, internal/state/driver_volumes.go: the folders and the names of files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.decide.cluster.operate.drivers.groups import DriverGroup
from tonnage.model.drivers.policy import DriverOwnerKind, DriverPolicy
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, text

_YUM: Final = ("/etc/yum.repos.d", "/etc/pki/ca-trust/extracted/pem")
_APT: Final = ("/etc/apt/sources.list.d", "/usr/local/share/ca-certificates")
_ZYPP: Final = ("/etc/zypp/repos.d", "/etc/pki/trust/anchors")
_FOLDERS: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("centos", "rhcos", "rhel", "rocky", "ol"), _YUM),
    **dict.fromkeys(("debian", "ubuntu"), _APT),
    **dict.fromkeys(("sles", "sl-micro"), _ZYPP),
}
"""Where a system keeps package repositories and authorities, by its id in `os-release`."""
_ID: Final = re.compile(r"[a-z][a-z_-]*")
MODULE_SECTION: Final = "kernelModuleConfig"
"""What it says counts whenever the module is loaded; the other files count while a driver is installed."""
_DRIVERS: Final = "/drivers"
_LICENCE: Final = "gridd.conf"
_TOKEN: Final = "client_configuration_token.tok"  # noqa: S105 - the name of a file
_TOPOLOGY: Final = "nvidia-topologyd.conf"


@dataclass(frozen=True, slots=True)
class ConfigFolder:
    """A ConfigMap all of whose keys become files of one folder; `folder` empty: the system has none."""

    section: str
    volume: str
    config_map: str
    folder: str = ""


def config_folders(policy: DriverPolicy, system: str = "") -> Iterator[ConfigFolder]:
    """What a policy names, and where it belongs on this system. Precompiled drivers download nothing."""
    system_id = _ID.match(system)
    repositories, authorities = _FOLDERS.get(system_id[0] if system_id else "", ("", ""))
    folders = [(MODULE_SECTION, "kernel-module-params", _DRIVERS)]
    if not policy.precompiled:
        folders += [
            ("repoConfig", "repo-config", repositories),
            ("certConfig", "cert-config", authorities),
        ]
    for section, volume, folder in folders:
        if name := text(dict(policy.pod), section, "name"):
            yield ConfigFolder(section, volume, name, folder)


def unplaced(group: DriverGroup) -> list[str]:
    """The sections whose files have no place on the group's system."""
    return [config.section for config in config_folders(group.policy, group.os_tag) if not config.folder]


def missing_config(policy: DriverPolicy, namespace: str) -> str:
    """What is wrong where a ConfigMap is not there, or has no key; empty where each has its keys."""
    for config in config_folders(policy):
        if policy.file_names.get(config.config_map):
            continue
        where, key = "spec", "name"
        if policy.owner.kind is DriverOwnerKind.CLUSTER_POLICY:
            where = "spec.driver"
            key = "configMapName" if config.section == "repoConfig" else key
        gone = "has no key" if config.config_map in policy.file_names else "does not exist"
        return (
            f"{where}.{config.section}.{key}: the ConfigMap {config.config_map} in {namespace} {gone};"
            " make it, or leave the section out"
        )
    return ""


def config_mounts(group: DriverGroup) -> Iterator[JsonValue]:
    """Each file by itself: what else the image has in the folder stays."""
    for config in config_folders(group.policy, group.os_tag):
        for name in group.policy.file_names.get(config.config_map, ()):
            yield _file(config.volume, f"{config.folder}/{name}", name)
    pod = dict(group.policy.pod)
    if _licence_source(group, []):
        yield _file("licensing-config", f"{_DRIVERS}/{_LICENCE}", _LICENCE)
        if _has_token(pod):
            yield _file("licensing-config", f"{_DRIVERS}/ClientConfigToken/{_TOKEN}", _TOKEN)
    if text(pod, "virtualTopologyConfig", "name"):
        yield _file("topology-config", f"/etc/nvidia/{_TOPOLOGY}", _TOPOLOGY)


def config_volumes(group: DriverGroup) -> Iterator[JsonValue]:
    """What the files are in."""
    for config in config_folders(group.policy, group.os_tag):
        names = group.policy.file_names.get(config.config_map, ())
        yield {"name": config.volume, "configMap": {"name": config.config_map, "items": _items(*names)}}
    pod = dict(group.policy.pod)
    if source := _licence_source(group, _items(_LICENCE, *([_TOKEN] if _has_token(pod) else []))):
        yield {"name": "licensing-config", **source}
    if name := text(pod, "virtualTopologyConfig", "name"):
        yield {"name": "topology-config", "configMap": {"name": name, "items": _items(_TOPOLOGY)}}


def _licence_source(group: DriverGroup, entries: list[JsonValue]) -> JsonObject:
    """The Secret, or else the ConfigMap; empty where there is neither."""
    pod = dict(group.policy.pod)
    if secret := text(pod, "licensingConfig", "secretName"):
        return {"secret": {"secretName": secret, "items": entries}}
    name = text(pod, "licensingConfig", "name")
    return {"configMap": {"name": name, "items": entries}} if name else {}


def _has_token(pod: JsonObject) -> bool:
    """Whether a licence server is asked, by a token."""
    return flag(pod, "licensingConfig", "nlsEnabled")


def _items(*names: str) -> list[JsonValue]:
    return [{"key": name, "path": name} for name in names]


def _file(volume: str, path: str, name: str) -> JsonObject:
    return {"name": volume, "mountPath": path, "subPath": name, "readOnly": True}
