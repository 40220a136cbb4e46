"""A pod's containers: what they ask for, and the ports of the node that they hold."""

from __future__ import annotations

from typing import Final

from tonnage.model.kubernetes.cluster import Container, HostPort
from tonnage.reading.object_parts import ReadingProblems, amounts
from tonnage.wire import objects as w

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 a value of the API, nothing listens


def containers_of(containers: list[w.Container], where: str, notes: ReadingProblems) -> tuple[Container, ...]:
    """Those of one list; what cannot be read is noted with its place, which begins with `where`."""
    return tuple(_container(c, f"{where}[{index}]", notes) for index, c in enumerate(containers))


def _container(container: w.Container, where: str, notes: ReadingProblems) -> Container:
    resources = container.resources
    limits = amounts(resources.limits, f"{where}.resources.limits", notes)
    requests = amounts(resources.requests, f"{where}.resources.requests", notes)
    return Container(
        name=container.name,
        image=container.image,
        requests=limits | requests if limits else requests,
        limits=limits,
        requested=frozenset(requests),
        sidecar=container.restart_policy == "Always",
        env=frozenset(variable.name for variable in container.env),
    )


def pod_level_requests(spec: w.PodSpec) -> dict[str, str | int | float]:
    """`spec.resources.requests`; where neither it nor a container asks, the limit counts."""
    if spec.resources is None:
        return {}
    parts = [c.resources for c in (*spec.containers, *spec.init_containers)]
    names = {name for part in parts for name in (*part.limits, *part.requests)}
    limits = {name: amount for name, amount in spec.resources.limits.items() if name not in names}
    return limits | spec.resources.requests


def host_ports_of(spec: w.PodSpec) -> tuple[HostPort, ...]:
    """Ports held on the node by app containers and sidecars; with the host's network, all their ports."""
    containers = [*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always")]
    return tuple(
        HostPort(number, port.protocol or "TCP", port.host_ip or _ANY_ADDRESS)
        for container in containers
        for port in container.ports
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    )
