"""The few nodes of a cluster that rules ask about, found in one pass, so that none of them looks at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.agent_silence import silent_agents

MIG_STATE: Final = "nvidia.com/mig.config.state"


@dataclass(frozen=True, slots=True)
class NotableNodes:
    """Names of nodes, each in the order of the view.

    `complaining`: the agent reports problems; `strict`: of a shared resource a container may have one;
    `undivided`: the MIG manager failed; `ill`: more of a device are there than are given out; `silent`: the
    agent has given no heartbeat for minutes.
    """

    complaining: tuple[str, ...] = ()
    strict: tuple[str, ...] = ()
    undivided: tuple[str, ...] = ()
    ill: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


def notable_nodes_of(view: ClusterView) -> NotableNodes:
    """Found by looking at every node once."""
    statuses = view.snapshot.gpu
    nodes = {name: node.node for name, node in view.nodes.items()}
    return NotableNodes(
        tuple(name for name in nodes if name in statuses and statuses[name].problems),
        tuple(name for name in nodes if name in statuses and statuses[name].single_requests),
        tuple(name for name, node in nodes.items() if node.labels.get(MIG_STATE) == "failed"),
        tuple(
            name
            for name, node in nodes.items()
            if any(
                amount > node.allocatable.get(resource, 0)
                for resource, amount in node.capacity.items()
                if is_extended(resource)
            )
        ),
        silent_agents(view.snapshot, nodes),
    )
