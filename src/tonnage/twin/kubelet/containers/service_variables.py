"""The variables that lead a container to the services of its namespace and to the API server.

Source: Kubernetes 1.35, pkg/kubelet/kubelet_pods.go (getServiceEnvVarMap), pkg/kubelet/envvars.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import mappings, number, text
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire import kinds
from tonnage.wire.objects import Pod, Service

_DEFAULT: Final = "default"
_SERVER: Final = "kubernetes"


async def service_variables(api: KubernetesApi, pod: Pod) -> dict[str, str]:
    """Of the API server always, of the other services unless the pod wants none."""
    variables: dict[str, str] = {}
    for service in await _services(api, pod):
        if text(service.spec, "clusterIP") not in ("", "None"):
            variables |= dict(variables_of(service.metadata.name, service.spec))
    return variables


async def _services(api: KubernetesApi, pod: Pod) -> list[Service]:
    """Those that are told of, a pod's own over the API server's."""
    home = pod.metadata.namespace
    system = (await api.list(kinds.SERVICE, namespace=_DEFAULT)).items
    services = {service.metadata.name: service for service in system if service.metadata.name == _SERVER}
    if pod.spec.enable_service_links:
        own = system if home == _DEFAULT else (await api.list(kinds.SERVICE, namespace=home)).items
        services |= {service.metadata.name: service for service in own}
    return list(services.values())


def variables_of(name: str, spec: JsonObject) -> Iterator[tuple[str, str]]:
    """Names and values of the variables of one service that has an address."""
    prefix, address = _upper(name), text(spec, "clusterIP")
    ports = mappings(spec, "ports")
    if not ports:
        return
    yield f"{prefix}_SERVICE_HOST", address
    yield f"{prefix}_SERVICE_PORT", str(number(ports[0], "port"))
    for port in ports:
        if named := text(port, "name"):
            yield f"{prefix}_SERVICE_PORT_{_upper(named)}", str(number(port, "port"))
    host = f"[{address}]" if ":" in address else address
    for index, port in enumerate(ports):
        at, protocol = number(port, "port"), text(port, "protocol") or "TCP"
        url = f"{protocol.lower()}://{host}:{at}"
        if index == 0:
            yield f"{prefix}_PORT", url
        link = f"{prefix}_PORT_{at}_{protocol.upper()}"
        yield link, url
        yield f"{link}_PROTO", protocol.lower()
        yield f"{link}_PORT", str(at)
        yield f"{link}_ADDR", address


def _upper(name: str) -> str:
    return name.replace("-", "_").upper()
