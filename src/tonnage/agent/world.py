"""What every loop of the agent is given."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.adapters.ports import Checkpoints, Clock, KubernetesApi
from tonnage.agent.events import NodeEvents
from tonnage.agent.metrics import AgentMetrics


@dataclass(frozen=True, slots=True)
class World:
    """The node's name and the outside; `api` is None where there is no cluster to talk to."""

    node: str
    api: KubernetesApi | None
    clock: Clock
    checkpoints: Checkpoints
    events: NodeEvents
    metrics: AgentMetrics
