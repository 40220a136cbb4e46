"""Which pods stand behind a service, and at which ports.

Source: k8s.io/endpointslice (utils.go, util/controller_utils.go) (v1.35).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.wire.objects import Pod, Service

HEADLESS: Final = "service.kubernetes.io/headless"
_MASK: Final = (1 << 128) - 1
_FNV_OFFSET: Final = 0x6C62272E07BB014262B821756295C58D
_FNV_PRIME: Final = 0x0000000001000000000000000000013B
_FIELDS: Final = (
    ("Name", "name", "string"),
    ("Protocol", "protocol", "v1.Protocol"),
    ("Port", "port", "int32"),
    ("AppProtocol", "appProtocol", "string"),
)
"""Fields of a port as upstream declares them: name, key, type. All are pointers."""


def has_endpoints(service: Service) -> bool:
    """Whether the controllers keep endpoints for a service: those of others are somebody else's."""
    return service.spec.get("type") != "ExternalName" and bool(service.spec.get("selector"))


def stands_behind(service: Service, labels: Mapping[str, str]) -> bool:
    """Whether the service's selector takes a pod with these labels."""
    selector: Mapping[str, str] = service.spec.get("selector") or {}
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def is_headless(service: Service) -> bool:
    """Whether the service has no address of its own."""
    return service.spec.get("clusterIP") in (None, "", "None")


def reachable(pod: Pod, *, ending: bool) -> bool:
    """Whether a pod has an address and is not over; on its way out it counts if `ending` ones do."""
    if pod.status.phase in ("Succeeded", "Failed") or not pod.status.pod_ip:
        return False
    return ending or pod.metadata.deletion_timestamp is None


def own_hostname(pod: Pod, service: Service) -> str:
    """The host name that a pod has under the service's name; empty without one."""
    same = pod.spec.subdomain == service.metadata.name
    return pod.spec.hostname if same else ""


def port_number(pod: Pod, port: JsonObject) -> int | None:
    """The pod's port that a service's port leads to; None where the pod names no such port."""
    target = port.get("targetPort")
    if not isinstance(target, str):
        return int(target) if isinstance(target, int) else None
    sidecars = [
        container_spec
        for container_spec in pod.spec.init_containers
        if container_spec.restart_policy == "Always"
    ]
    for container in (*pod.spec.containers, *sidecars):
        for container_port in container.ports:
            if container_port.name == target and container_port.protocol == port.get("protocol", "TCP"):
                return container_port.container_port
    return None


def ports_of(pod: Pod, service: Service) -> list[JsonObject]:
    """Ports of the service at this pod, in the service's order, as EndpointSlices write them.

    >>> ports_of(Pod(), Service(spec={"ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]}))
    [{'name': '', 'port': 8080, 'protocol': 'TCP'}]
    """
    endpoint_ports: list[JsonObject] = []
    for port in service.spec.get("ports") or []:
        number = port_number(pod, port)
        if number is None:
            continue
        shown: JsonObject = {
            "name": port.get("name", ""),
            "port": number,
            "protocol": port.get("protocol", "TCP"),
        }
        if port.get("appProtocol") is not None:
            shown["appProtocol"] = port["appProtocol"]
        endpoint_ports.append(shown)
    return endpoint_ports


def in_order(ports: list[JsonObject]) -> list[JsonObject]:
    """Ports in the order of their hashes, as genuine controllers write them.

    >>> ports = [{"name": name, "port": 80, "protocol": "TCP"} for name in ("a", "b")]
    >>> [port["name"] for port in in_order(ports)]
    ['b', 'a']
    """
    return sorted(ports, key=lambda port: _hash(_dumped(port)))


def _dumped(port: JsonObject) -> str:
    """A port as Go's dump for hashes shows it."""
    shown = []
    for name, key, kind in _FIELDS:
        value = port.get(key)
        shown.append(f"{name}:(*{kind}){'<nil>' if value is None else value}")
    return f"(v1.EndpointPort){{{' '.join(shown)}}}"


def _hash(text: str) -> int:
    """FNV-1a, 128 bits."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _FNV_PRIME & _MASK
    return value
