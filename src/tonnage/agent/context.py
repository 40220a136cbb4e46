"""What every loop of the agent is given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tonnage.agent.events import NodeEvents
from tonnage.agent.metrics.counters import AgentMetrics
from tonnage.loop.performer import Performer
from tonnage.model.mig.layouts import MigOptions
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesReader
from tonnage.ports.node import CheckpointReader, HostView


def _nothing_to_wait_for() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(frozen=True, slots=True)
class MigPermits:
    """What the agent may do for MIG layouts.

    `programs` are those of the host; None: nothing runs there. `boot` is the machine's boot, by its id, in
    which the host may be restarted; empty: it may not.
    """

    options: MigOptions
    programs: HostView | None = None
    boot: str = ""


@dataclass(frozen=True, slots=True)
class AgentContext:
    """The node's name and the outside; `api` is None where there is no cluster to talk to.

    `started` is set once kubelet knows the devices, or needs something first. What can wait waits for it:
    until then every module that is loaded and every question asked makes that later. The `performer` does
    what loops decide to change.
    """

    node: str
    api: KubernetesReader | None
    clock: Clock
    checkpoints: CheckpointReader
    events: NodeEvents
    metrics: AgentMetrics
    performer: Performer
    started: asyncio.Event = field(default_factory=_nothing_to_wait_for)
