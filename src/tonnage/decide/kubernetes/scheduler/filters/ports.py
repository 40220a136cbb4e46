"""NodePorts: a port of the node can be held once per address and protocol."""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import HostPort, Pod
from tonnage.model.reasons.pod.scheduling import HostPortTaken

NAME: Final = "NodePorts"
TEXT: Final = "node(s) didn't have free ports for the requested pod ports"
_ALL: Final = "0.0.0.0"  # noqa: S104 a value of the API, nothing listens


def prepare(pod: Pod, _view: ClusterView) -> Check | None:
    """Refuse nodes where another pod holds one of the host ports."""
    host_ports = pod.host_ports

    def check(view: NodeView) -> PluginRefusal | None:
        for holder in view.pods:
            for held in holder.host_ports:
                for port in host_ports:
                    if clash(held, port):
                        return _refusal(view.name, port, holder)
        return None

    return check if host_ports else None


def clash(a: HostPort, b: HostPort) -> bool:
    """Whether two pods cannot both hold these on one node."""
    if (a.port, a.protocol) != (b.port, b.protocol):
        return False
    return a.address == b.address or _ALL in (a.address, b.address)


def _refusal(node: str, port: HostPort, holder: Pod) -> PluginRefusal:
    reason = HostPortTaken(
        subject=f"Node {node}",
        message=f"host port {port.port}/{port.protocol} is held by pod {holder.namespace}/{holder.name}",
        remedy="use another host port, or a Service",
        source=NAME,
        port=port.port,
        protocol=port.protocol,
        holder=f"{holder.namespace}/{holder.name}",
    )
    return PluginRefusal(NAME, (TEXT,), unresolvable=False, reasons=(reason,))
