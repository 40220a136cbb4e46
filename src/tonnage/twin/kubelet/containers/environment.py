"""makeEnvironmentVariables: a container's environment and arguments, worked out from the pod.

Source: Kubernetes 1.36, pkg/kubelet/kubelet_pods.go and kubelet_resources.go, pkg/api/v1/resource/helpers.go,
third_party/forked/golang/expansion.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from tonnage.model.errors import ApiError
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.kubelet.admission import amount_of
from tonnage.twin.kubelet.containers.service_variables import service_variables
from tonnage.twin.kubelet.hostnames import hostname_of
from tonnage.wire import kinds
from tonnage.wire.objects import Container, EnvVar, Object, Pod

_REFERENCE: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
"""What has a limit in the eyes of the downward API even if nobody set one."""
_LONGEST: Final = 128 << 10
"""Linux's MAX_ARG_STRLEN."""
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


_AnyObject = TypeVar("_AnyObject", bound=Object)


class ConfigurationError(Exception):
    """The pod names something that is not there; the text is the kubelet's (CreateContainerConfigError)."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` where the name is known; `$$` is a dollar sign.

    Raises ConfigurationError: it becomes longer than Linux lets a word be, as of variables that double each
    other.

    >>> expand("$(A)-$(B)-$$(A)", {"A": "1"})
    '1-$(B)-$(A)'
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    more = sum(len(variables.get(name, "")) for name in _REFERENCE.findall(text))
    if more and len(text) + more > _LONGEST:
        raise ConfigurationError("argument list too long")
    return _REFERENCE.sub(value, text)


def referred(text: str) -> frozenset[str]:
    """The variables that a text refers to.

    >>> sorted(referred("$(A)/$$(B)"))
    ['A']
    """
    return frozenset(name for name in _REFERENCE.findall(text) if name)


def arguments_of(container: Container, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Command and arguments with their references replaced; empty when the image decides."""
    return tuple(expand(text, variables) for text in (*container.command, *container.args))


async def environment_of(
    pod: Pod, container: Container, *, pod_ip: str, host_ip: str, api: KubernetesApi
) -> dict[str, str]:
    """The variables that references may name: services', and the pod's own. Raises ConfigurationError."""
    reader = EnvironmentReader(pod, container, pod_ip, host_ip, api)
    variables = await service_variables(api, pod)
    for source in container.env_from:
        variables |= await reader.all_of(source)
    for entry in container.env:
        value = await reader.value_of(entry, variables)
        if value is not None:
            variables[entry.name] = value
    return variables


def surroundings_of(pod: Pod) -> dict[str, str]:
    """The variables that the runtime adds beneath the pod's own; no reference finds them."""
    return {"PATH": _PATH, "HOSTNAME": hostname_of(pod), "HOME": "/root"}


class EnvironmentReader:
    """Values that a pod takes from elsewhere: its own fields, config maps, secrets."""

    def __init__(self, pod: Pod, container: Container, pod_ip: str, host_ip: str, api: KubernetesApi) -> None:
        self._pod = pod
        self._container = container
        self._api = api
        meta, spec = pod.metadata, pod.spec
        self._fields = {
            "metadata.name": meta.name,
            "metadata.namespace": meta.namespace,
            "metadata.uid": meta.uid,
            "spec.nodeName": spec.node_name,
            "spec.serviceAccountName": spec.service_account_name,
            "status.podIP": pod_ip,
            "status.podIPs": pod_ip,
            "status.hostIP": host_ip,
            "status.hostIPs": host_ip,
        }

    async def value_of(self, entry: EnvVar, variables: Mapping[str, str]) -> str | None:
        """None for what may be absent and is."""
        match entry.value_from:
            case None:
                return expand(entry.value, variables)
            case {"fieldRef": {"fieldPath": str(path)}}:
                return self._field(path)
            case {"resourceFieldRef": {"resource": str(resource)} as reference}:
                return await self._resource(resource, reference)
            case {"configMapKeyRef": {"name": str(name), "key": str(key), **rest}}:
                optional = bool(rest.get("optional"))
                values = await self._config_map(name, optional=optional)
                return self._chosen(values, key, f"ConfigMap {self._where(name)}", optional=optional)
            case {"secretKeyRef": {"name": str(name), "key": str(key), **rest}}:
                optional = bool(rest.get("optional"))
                values = await self._secret(name, optional=optional)
                return self._chosen(values, key, f"Secret {self._where(name)}", optional=optional)
            case {"fileKeyRef": _}:
                raise ConfigurationError("the twin takes no variables out of files (fileKeyRef)")
        return ""

    def _chosen(self, values: Mapping[str, str], key: str, source: str, *, optional: bool) -> str | None:
        if key not in values and not optional:
            raise ConfigurationError(f"couldn't find key {key} in {source}")
        return values.get(key)

    def _where(self, name: str) -> str:
        return f"{self._pod.metadata.namespace}/{name}"

    async def all_of(self, source: dict[str, Any]) -> dict[str, str]:
        match source:
            case {"configMapRef": {"name": str(name), **rest}}:
                values = await self._config_map(name, optional=bool(rest.get("optional")))
            case {"secretRef": {"name": str(name), **rest}}:
                values = await self._secret(name, optional=bool(rest.get("optional")))
            case _:
                return {}
        prefix = source.get("prefix", "")
        return {f"{prefix}{key}": value for key, value in values.items()}

    def _field(self, path: str) -> str:
        subscript = _SUBSCRIPT.fullmatch(path)
        if subscript is not None:
            values = self._pod.metadata.labels if subscript[1] == "labels" else self._pod.metadata.annotations
            return values.get(subscript[2], "")
        if path not in self._fields:
            raise ConfigurationError(f"unsupported fieldPath: {path}")
        return self._fields[path]

    async def _resource(self, path: str, reference: Mapping[str, Any]) -> str:
        """An amount in units of the divisor, rounded up; what has no limit may have all that the node has."""
        kind, _, resource = path.partition(".")
        resources = self._container_of(str(reference.get("containerName") or "")).resources
        amount = amount_of(
            resource, (resources.limits if kind == "limits" else resources.requests).get(resource, 0)
        )
        if kind == "limits" and not amount and resource in _LIMITED:
            amount = await self._most(resource)
        divisor = amount_of(resource, reference.get("divisor") or 0) or amount_of(resource, 1)
        return str(-(-amount // divisor))

    def _container_of(self, name: str) -> Container:
        everyone = (*self._pod.spec.containers, *self._pod.spec.init_containers)
        return next((container for container in everyone if container.name == name), self._container)

    async def _most(self, resource: str) -> int:
        """What the pod as a whole may use, or all that its node can give."""
        spec = self._pod.spec
        limits = spec.resources.limits if spec.resources else {}
        if amount := amount_of(resource, limits.get(resource, 0)):
            return amount
        node = await self._api.get(kinds.NODE, spec.node_name)
        return amount_of(resource, node.status.allocatable.get(resource, 0))

    async def _config_map(self, name: str, *, optional: bool) -> dict[str, str]:
        config_map = await self._object(kinds.CONFIG_MAP, name, optional=optional)
        return config_map.data if config_map is not None else {}

    async def _secret(self, name: str, *, optional: bool) -> dict[str, str]:
        secret = await self._object(kinds.SECRET, name, optional=optional)
        values = secret.data if secret is not None else {}
        return {key: base64.b64decode(value).decode(errors="replace") for key, value in values.items()}

    async def _object(self, kind: kinds.Kind[_AnyObject], name: str, *, optional: bool) -> _AnyObject | None:
        try:
            return await self._api.get(kind, name, self._pod.metadata.namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            if optional:
                return None
            raise ConfigurationError(f'{kind.kind.lower()} "{name}" not found') from None
