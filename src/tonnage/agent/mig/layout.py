"""MIG layouts on this node: what is asked for, the loop that makes it, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from tonnage.agent.config.selection import NodeConfig
from tonnage.agent.devices import NodeDevices
from tonnage.agent.mig.config import NodeMigConfig
from tonnage.agent.mig.eviction import PodEvictions
from tonnage.agent.mig.host import MigHost
from tonnage.agent.mig.label import MigLabel
from tonnage.agent.mig.manager import NodeMig
from tonnage.agent.mig.pause import NodePauses
from tonnage.agent.plugin.holders import Holders
from tonnage.agent.status.node_condition import Finding
from tonnage.agent.world import World
from tonnage.model.mig.layouts import MigOptions, MigState, MigWork
from tonnage.model.names import MIG_CONFIG_LABEL
from tonnage.ports.node import DeviceReader, HostView

_SAYS: Final = {
    MigState.SUCCESS: ("True", "MIGConfigApplied"),
    MigState.PENDING: ("False", "MIGConfigPending"),
    MigState.REBOOTING: ("False", "MIGConfigRebooting"),
    MigState.FAILED: ("False", "MIGConfigFailed"),
}


class NodeMigLayout:
    """The loops as one."""

    CONDITION: ClassVar[str] = "MIGConfigApplied"

    def __init__(
        self,
        world: World,
        hardware: DeviceReader,
        devices: NodeDevices,
        config: NodeConfig,
        holders: Holders,
        asks: MigOptions,
    ) -> None:
        self._asked = NodeMigConfig(world, config, asks, on_change=self.look)
        self._mig = NodeMig(
            *(world, hardware, devices, holders),
            lambda: self._asked.wish,
            on_change=self._changed,
        )
        if asks.evict:
            self._mig.evict = PodEvictions(world).evict
        self._pauses = NodePauses(world, config, asks, lambda: self._mig.work)
        if asks.cordon or asks.pause:
            self._mig.settled = self._pauses.settled
        self._mig.on_work = self._pauses.look
        self._config = config
        self._unasked = False
        self._label = MigLabel(world, config, lambda: self._mig.standing, self._busy)
        self.on_change: Callable[[], None] | None = None
        """Called when `finding` says something else."""
        config.on_node = self._node_changed

    @property
    def withheld(self) -> Mapping[str, tuple[int, ...]]:
        """See `NodeMig.withheld`."""
        return self._mig.withheld

    def look(self) -> None:
        """What is asked for, devices or holders may be others now."""
        self._mig.look()

    def let_run(self, world: World, programs: HostView, *, boot: str = "") -> None:
        """Have changes do on the host what the ConfigMap asks for; in a `boot`, also restart the node."""
        self._mig.host = MigHost(world, programs, lambda: self._mig.work is MigWork.CHANGING)
        self._mig.boot = boot

    async def restore(self) -> None:
        """See `NodeMig.restore`."""
        await self._mig.restore()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for loop in (self._asked, self._mig, self._label, self._pauses, self._mig.host):
                if loop is not None:
                    group.create_task(loop.run())

    def finding(self) -> Finding:
        """The condition; nothing is said on a node that never had a layout to make."""
        standing = self._mig.standing
        if standing is None and self._unasked:
            gone = f"the node has no label {MIG_CONFIG_LABEL} any more"
            return Finding("True", "NothingAsked", gone, quiet=True)
        if standing is None:
            return Finding("Unknown", "MIGNeverAsked", "")
        status, reason = _SAYS[standing.state]
        return Finding(status, reason, f"{standing.config}: {standing.reason or 'every GPU is as it says'}")

    def _node_changed(self) -> None:
        node = self._config.node
        before = self._unasked
        self._unasked = (
            node is not None and not node.metadata.labels.get(MIG_CONFIG_LABEL) and not self._busy()
        )
        if self._unasked and (not before or self._mig.standing is not None):
            self._mig.standing = None  # of what is asked for next it says nothing
            self._changed()
        self._asked.look()
        self._label.look()
        self._pauses.look()

    def _busy(self) -> bool:
        return self._mig.work is not MigWork.NONE

    def _changed(self) -> None:
        self._label.look()
        if self.on_change is not None:
            self.on_change()
