"""What the volumes of a pod hold: config maps, secrets, fields of the pod, tokens, or what containers write.

Objects are read when a program looks, so that it always sees what is true now.

Source: Kubernetes 1.35, pkg/volume/{configmap,secret,downwardapi,projected,emptydir}.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tonnage.model.errors import ApiError, ClusterError
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.kubelet.containers.environment import (
    ConfigurationError,
    EnvironmentReader,
    expand,
    referred,
)
from tonnage.twin.kubelet.containers.files import FileTree, FileVolume, MemoryVolume, MountedVolume, volume_in
from tonnage.twin.kubelet.volumes.account_tokens import account_token
from tonnage.twin.kubelet.volumes.node_folder import node_folder
from tonnage.wire import kinds
from tonnage.wire.objects import Container, EnvVar, Pod, VolumeMount

_OBJECTS: Final = ("configMap", "secret", "downwardAPI", "projected")
_TOKEN_S: Final = 1800
_WHOLE: Final = ("metadata.labels", "metadata.annotations")


def tree_of(
    pod: Pod,
    container: Container,
    variables: Mapping[str, str],
    readers: VolumeSources,
    written: Callable[[str], MemoryVolume],
    node_root: Path,
) -> FileTree:
    """The container's files; `written` gives the volume that containers write to, by a name for it.

    Raises:
        ConfigurationError: a mount's path within its volume names a variable without a value, or leads out.
    """
    sources = {str(volume.get("name")): volume for volume in pod.spec.volumes}
    mounts: dict[str, MountedVolume] = {}
    for mount in container.volume_mounts:
        source = sources.get(mount.name, {})
        volume: FileVolume = node_folder(node_root, source) or written(_place(pod, source))
        if any(kind in source for kind in _OBJECTS):
            volume = _ObjectVolume(readers, pod, container, source)
        mounts[mount.mount_path] = MountedVolume(volume, _sub_path(mount, variables), mount.read_only)
    return FileTree(mounts)


def _sub_path(mount: VolumeMount, variables: Mapping[str, str]) -> str:
    if not mount.sub_path_expr:
        return mount.sub_path
    if missing := sorted(name for name in referred(mount.sub_path_expr) if not variables.get(name)):
        raise ConfigurationError(f"missing value for {', '.join(missing)}")
    path = expand(mount.sub_path_expr, variables)
    if path.startswith("/"):
        raise ConfigurationError(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise ConfigurationError(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def _place(pod: Pod, source: Mapping[str, Any]) -> str:
    """Who shares a volume: pods of a node share its folders and claims, containers of a pod all else."""
    match source:
        case {"hostPath": {"path": str(path)}}:
            return f"host/{path}"
        case {"persistentVolumeClaim": {"claimName": str(name)}}:
            return f"claim/{pod.metadata.namespace}/{name}"
    return volume_in(pod.metadata.uid, str(source.get("name")))


class VolumeSources:
    """Reads what volumes are made of; keeps tokens for half of their lives."""

    def __init__(self, api: KubernetesApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._tokens: dict[tuple[str, str], tuple[float, str]] = {}

    async def files_of(self, pod: Pod, container: Container, source: Mapping[str, Any]) -> dict[str, bytes]:
        """Contents by path; what is not there has none."""
        match source:
            case {"configMap": dict(fields)}:
                return await self._config_map(pod, fields)
            case {"secret": dict(fields)}:
                return await self._secret(pod, fields)
            case {"downwardAPI": dict(fields)}:
                return await self._fields(pod, container, fields)
            case {"serviceAccountToken": dict(fields)}:
                return {str(fields.get("path")): (await self._token(pod, fields)).encode()}
        return {}

    async def _config_map(self, pod: Pod, source: Mapping[str, Any]) -> dict[str, bytes]:
        config_map = await self._api.get(kinds.CONFIG_MAP, str(source.get("name")), pod.metadata.namespace)
        return _chosen({key: text.encode() for key, text in config_map.data.items()}, source)

    async def _secret(self, pod: Pod, source: Mapping[str, Any]) -> dict[str, bytes]:
        name = str(source.get("secretName") or source.get("name"))
        secret = await self._api.get(kinds.SECRET, name, pod.metadata.namespace)
        return _chosen({key: base64.b64decode(text) for key, text in secret.data.items()}, source)

    async def _fields(self, pod: Pod, container: Container, source: Mapping[str, Any]) -> dict[str, bytes]:
        reader = EnvironmentReader(pod, container, "", "", self._api)
        files: dict[str, bytes] = {}
        for file in source.get("items") or ():
            path = str((file.get("fieldRef") or {}).get("fieldPath", ""))
            if path in _WHOLE:
                files[str(file.get("path"))] = _lines(pod, path)
            else:
                entry = EnvVar(name="", value_from={k: v for k, v in file.items() if k.endswith("Ref")})
                files[str(file.get("path"))] = (await reader.value_of(entry, {}) or "").encode()
        return files

    async def _token(self, pod: Pod, source: Mapping[str, Any]) -> str:
        key = pod.metadata.uid, str(source.get("audience") or "")
        now = self._clock.monotonic()
        made, token = self._tokens.get(key, (0.0, ""))
        if not token or now - made > _TOKEN_S:
            token = await account_token(self._api, pod, key[1])
            self._tokens[key] = now, token
        return token

    def forget(self, pod_uid: str) -> None:
        """The pod is gone."""
        self._tokens = {key: value for key, value in self._tokens.items() if key[0] != pod_uid}


class _ObjectVolume:
    """A volume of objects, which nobody writes to."""

    read_only = True

    def __init__(
        self, reader: VolumeSources, pod: Pod, container: Container, source: Mapping[str, Any]
    ) -> None:
        self._reader = reader
        self._pod = pod
        self._container = container
        self._source = source

    async def entries(self) -> dict[str, bytes]:
        projected = self._source.get("projected")
        files: dict[str, bytes] = {}
        for source in (self._source,) if projected is None else projected.get("sources") or ():
            with suppress(ApiError, ClusterError, ConfigurationError):
                files |= await self._reader.files_of(self._pod, self._container, source)
        return files


def _chosen(contents: Mapping[str, bytes], source: Mapping[str, Any]) -> dict[str, bytes]:
    """The keys that the volume names, under their paths; all where it names none."""
    items = source.get("items")
    if not items:
        return dict(contents)
    return {str(entry.get("path")): contents[entry["key"]] for entry in items if entry.get("key") in contents}


def _lines(pod: Pod, path: str) -> bytes:
    values = pod.metadata.labels if path == "metadata.labels" else pod.metadata.annotations
    return "\n".join(f"{key}={json.dumps(text)}" for key, text in sorted(values.items())).encode()
