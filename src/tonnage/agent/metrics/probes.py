"""What the agent's pod answers when it is asked whether it lives and whether it is ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.metrics.counters import AgentMetrics
from tonnage.decide.node.choose_config import ConfigInForce
from tonnage.decide.node.offer import NodeOffer
from tonnage.model.names import ResourceName
from tonnage.ports.node import DeviceReader

_STUCK_S: Final = 60.0
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """What is so at a moment, beside what was counted. `streams`: open ListAndWatch streams by resource."""

    ready: bool
    readable: bool
    driver_stuck_s: float
    offer: NodeOffer | None
    config: ConfigInForce | None
    streams: Mapping[ResourceName, int]


@dataclass(frozen=True, slots=True)
class Probes:
    """Looks at the agent from outside.

    `unregistered`: why kubelet does not know resources of the offer. `streams`: as `ProbeFacts` has them.
    """

    metrics: AgentMetrics
    board: NodeBoard
    backend: DeviceReader
    unregistered: Callable[[], Mapping[ResourceName, str]]
    streams: Callable[[], Mapping[ResourceName, int]]

    def hanging(self) -> tuple[str, ...]:
        """What does not move any more, a line each; a new process may help. Empty when all is well.

        A driver that hangs is not among it: it would hang for the new process as well, and the old one may
        not even end before the driver lets go of it.
        """
        late = self.metrics.late().items()
        return tuple(f"{loop}: this loop has not run for {seconds:.0f} s" for loop, seconds in late)

    def missing(self) -> tuple[str, ...]:
        """What keeps the node's devices from being known or used, a line each; empty when ready."""
        return tuple(_line(subject, why) for subject, why in self._missing())

    def facts(self) -> ProbeFacts:
        """All that the metrics show beside the counts."""
        return ProbeFacts(
            ready=not self.missing(),
            readable=self.board.inventory.value is not None and not self.board.devices_error.value,
            driver_stuck_s=self.backend.stuck_s(),
            offer=self.board.offer.value,
            config=self.board.configuration.value,
            streams=self.streams(),
        )

    def _missing(self) -> Iterator[tuple[str, str]]:
        inventory, error = self.board.inventory.value, self.board.devices_error.value
        if error and not (inventory and inventory.devices):
            yield "devices", error
        elif inventory is None:
            yield "devices", "not read yet"
        elif error and (stuck := self.backend.stuck_s()) > _STUCK_S:
            yield "driver", f"it has not answered for {stuck:.0f} s"
        if self.board.configuration.value is None:
            yield "configuration", "not read yet"
        if not self.board.holds.value.settled:
            yield "holders", "kubelet has not been asked yet which pods hold devices"
        if self.board.offer.value is None:
            yield "offer", "not created yet"
        yield from self.unregistered().items()


def _line(subject: str, why: str) -> str:
    text = "; ".join(part.strip() for part in why.splitlines())
    return f"{subject}: {text[:_LONGEST]}"
