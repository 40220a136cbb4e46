"""What the agent's pod answers when it is asked whether it lives and whether it is ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.agent.config.selection import ConfigInForce, NodeConfig
from tonnage.agent.devices import NodeDevices
from tonnage.agent.metrics.counters import AgentMetrics
from tonnage.agent.plugin.device_plugin import DevicePlugin, Offer
from tonnage.agent.plugin.holders import Holders
from tonnage.model.names import ResourceName
from tonnage.ports.node import DeviceReader

_STUCK_S: Final = 60.0
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class Facts:
    """What is so at a moment, beside what was counted. `streams`: open ListAndWatch streams by resource."""

    ready: bool
    readable: bool
    driver_stuck_s: float
    offer: Offer | None
    config: ConfigInForce | None
    streams: Mapping[ResourceName, int]


@dataclass(frozen=True, slots=True)
class Probes:
    """Looks at the agent's loops from outside."""

    metrics: AgentMetrics
    backend: DeviceReader
    devices: NodeDevices
    config: NodeConfig
    holders: Holders
    plugin: DevicePlugin

    def hanging(self) -> tuple[str, ...]:
        """What does not move any more, a line each; a new process may help. Empty when all is well.

        A driver that hangs is not among it: it would hang for the new process as well, and the old one may
        not even end before the driver lets go of it.
        """
        late = self.metrics.late().items()
        return tuple(f"{loop}: this loop has not turned for {seconds:.0f} s" for loop, seconds in late)

    def missing(self) -> tuple[str, ...]:
        """What keeps the node's devices from being known or used, a line each; empty when ready."""
        return tuple(_line(subject, why) for subject, why in self._missing())

    def facts(self, streams: Mapping[ResourceName, int]) -> Facts:
        """All that the metrics show beside the counts."""
        return Facts(
            ready=not self.missing(),
            readable=self.devices.inventory is not None and not self.devices.error,
            driver_stuck_s=self.backend.stuck_s(),
            offer=self.plugin.offer,
            config=self.config.current,
            streams=streams,
        )

    def _missing(self) -> Iterator[tuple[str, str]]:
        inventory = self.devices.inventory
        if self.devices.error and not (inventory and inventory.devices):
            yield "devices", self.devices.error
        elif inventory is None:
            yield "devices", "not read yet"
        elif self.devices.error and (stuck := self.backend.stuck_s()) > _STUCK_S:
            yield "driver", f"it has not answered for {stuck:.0f} s"
        if self.config.current is None:
            yield "configuration", "not known yet"
        if not self.holders.known:
            yield "holders", "kubelet was not asked yet who holds what"
        if self.plugin.offer is None:
            yield "offer", "not made yet"
        yield from self.plugin.unregistered().items()


def _line(subject: str, why: str) -> str:
    text = "; ".join(part.strip() for part in why.splitlines())
    return f"{subject}: {text[:_LONGEST]}"
