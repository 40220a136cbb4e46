"""What a loop of the agent is given, in tests of one loop alone."""

from __future__ import annotations

import asyncio
from typing import Any

from tonnage.agent.context import AgentContext
from tonnage.agent.events import NodeEvents
from tonnage.agent.metrics.counters import AgentMetrics
from tonnage.loop.effects import ActionPorts
from tonnage.loop.performer import Performer
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.ports.node import Checkpoints


def context_of(
    node: str,
    api: KubernetesApi | None,
    clock: Clock,
    checkpoints: Checkpoints,
    events: NodeEvents | None = None,
    *,
    started: asyncio.Event | None = None,
    **ports: Any,
) -> AgentContext:
    """A world in which actions change these, and `ports` besides; without `events` nobody is told of any."""
    if started is None:
        started = asyncio.Event()
        started.set()
    performer = Performer(ActionPorts(checkpoints=checkpoints, api=api, **ports))
    news = events or NodeEvents(node, None, clock)
    return AgentContext(node, api, clock, checkpoints, news, AgentMetrics(clock), performer, started)


def events_in(node: str, api: KubernetesApi, clock: Clock) -> NodeEvents:
    """Events that are written by that API."""
    return NodeEvents(node, Performer(ActionPorts(api=api)), clock)
