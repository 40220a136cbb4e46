"""What every loop of the agent is given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from tonnage.agent.events import NodeEvents
from tonnage.agent.metrics.counters import AgentMetrics
from tonnage.loop.performer import Performer
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.ports.node import Checkpoints, HostPrograms


def _nothing_to_wait_for() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


class TextOutput(Protocol):
    """A stream of text, such as standard output."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Host:
    """What the agent may do on its host beside reading and writing files.

    `programs` run there; None: those below `--mig-host-root` are really run. `output` is what the agent calls
    its standard output; None: that of this process.
    """

    programs: HostPrograms | None = None
    output: TextOutput | None = None


@dataclass(frozen=True, slots=True)
class World:
    """The node's name and the outside; `api` is None where there is no cluster to talk to.

    `started` is set once kubelet knows the devices, or needs something first. What can wait waits for it:
    until then every module that is loaded and every question asked makes that later. The `performer` does
    what loops decide to change.
    """

    node: str
    api: KubernetesApi | None
    clock: Clock
    checkpoints: Checkpoints
    events: NodeEvents
    metrics: AgentMetrics
    performer: Performer
    started: asyncio.Event = field(default_factory=_nothing_to_wait_for)
