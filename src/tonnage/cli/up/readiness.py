"""How far a starting fleet has come. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.documents.scenario import Scenario
from tonnage.wire.objects import Node, NodeGPUStatus


@dataclass(frozen=True, slots=True)
class Readiness:
    """Nodes that are Ready, nodes that advertise a device, and agents that have reported, of how many."""

    nodes: int
    ready: int
    gpu_nodes: int
    advertising: int
    agents: int
    reported: int

    @property
    def complete(self) -> bool:
        """Whether nothing is waited for any more."""
        return (
            self.ready >= self.nodes and self.advertising >= self.gpu_nodes and self.reported >= self.agents
        )

    def __str__(self) -> str:
        return (
            f"{self.ready}/{self.nodes} nodes Ready, {self.advertising}/{self.gpu_nodes} advertise GPUs, "
            f"{self.reported}/{self.agents} agents have reported"
        )


def readiness(scenario: Scenario, nodes: Iterable[Node], reports: Iterable[NodeGPUStatus]) -> Readiness:
    """What the scenario's nodes have reached; nodes that somebody added do not count.

    Nodes that offer GPUs as claims need not advertise any. What people ask first is answered from the agents'
    reports, which come a moment after the devices. Light nodes have no agent.
    """
    by_name = {node.metadata.name: node for node in nodes}
    reporters = {report.metadata.name for report in reports}
    agents = [name for group in scenario.groups if group.gpu and not group.light for name in group.node_names]
    gpu_nodes = [
        name
        for group in scenario.groups
        if group.gpu and "claims" not in scenario.configs.get(group.config or "default", {})
        for name in group.node_names
    ]
    names = [name for group in scenario.groups for name in group.node_names]
    return Readiness(
        nodes=len(names),
        ready=sum(name in by_name and is_ready(by_name[name]) for name in names),
        gpu_nodes=len(gpu_nodes),
        advertising=sum(name in by_name and advertises(by_name[name]) for name in gpu_nodes),
        agents=len(agents),
        reported=sum(name in reporters for name in agents),
    )


def is_ready(node: Node) -> bool:
    """Whether the node's kubelet says that it can run pods."""
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def advertises(node: Node) -> bool:
    """Whether the node offers at least one device of a vendor."""
    offered = (amount for name, amount in node.status.allocatable.items() if "/" in name)
    return any(str(amount) not in ("", "0") for amount in offered)
