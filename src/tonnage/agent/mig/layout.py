"""MIG layouts on this node: what is asked for, the loop that makes it, and what is said of it."""

from __future__ import annotations

import asyncio
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.devices import NodeDevices
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.mig.config import NodeMigConfig
from tonnage.agent.mig.eviction import PodEvictions
from tonnage.agent.mig.host import MigHost
from tonnage.agent.mig.label import MigLabel
from tonnage.agent.mig.manager import MigWays, NodeMig
from tonnage.agent.mig.pause import NodePauses
from tonnage.agent.world import AgentWorld, MigPermits
from tonnage.model.mig.layouts import MigState, MigWork
from tonnage.model.names import MIG_CONFIG_LABEL
from tonnage.model.node.condition_report import ConditionReport
from tonnage.ports.node import DeviceReader

_SAYS: Final = {
    MigState.SUCCESS: ("True", "MIGConfigApplied"),
    MigState.PENDING: ("False", "MIGConfigPending"),
    MigState.REBOOTING: ("False", "MIGConfigRebooting"),
    MigState.FAILED: ("False", "MIGConfigFailed"),
}


class NodeMigLayout:
    """The loops as one."""

    def __init__(
        self,
        world: AgentWorld,
        board: NodeBoard,
        hardware: DeviceReader,
        devices: NodeDevices,
        ledger: HoldLedger,
        permits: MigPermits,
    ) -> None:
        asks = permits.options
        self._board = board
        self._unasked = False
        board.node.subscribe(self._look_at_node)  # first: whoever is asked no more has nothing to label
        board.mig_standing.subscribe(self._report)
        self._wish = NodeMigConfig(world, board, asks)
        pauses = NodePauses(world, board, asks)
        host = None if permits.programs is None else MigHost(world, board, permits.programs)
        ways = MigWays(
            evict=PodEvictions(world).evict if asks.evict else None,
            settled=pauses.settled if asks.cordon or asks.pause else None,
            host=host,
            boot=permits.boot,
        )
        self._mig = NodeMig(world, board, hardware, devices, ledger, ways)
        label = MigLabel(world, board)
        self._loops = [loop for loop in (self._wish, self._mig, label, pauses, host) if loop is not None]

    async def restore(self) -> None:
        """See `NodeMig.restore`."""
        await self._mig.restore()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(loop.run())

    def _look_at_node(self) -> None:
        node = self._board.node.value
        busy = self._board.mig_work.value is not MigWork.NONE
        self._unasked = node is not None and not node.metadata.labels.get(MIG_CONFIG_LABEL) and not busy
        if self._unasked:
            self._board.mig_standing.publish(None)  # of what is asked for next it says nothing
        self._report()

    def _report(self) -> None:
        """The condition; nothing is said on a node that never had a layout to make."""
        standing = self._board.mig_standing.value
        if standing is not None:
            status, reason = _SAYS[standing.state]
            text = f"{standing.config}: {standing.reason or 'every GPU is as it says'}"
            report = ConditionReport(status, reason, text)
        elif self._unasked:
            gone = f"the node has no label {MIG_CONFIG_LABEL} any more"
            report = ConditionReport("True", "NothingAsked", gone, quiet=True)
        else:
            report = ConditionReport("Unknown", "MIGNeverAsked")
        self._board.mig_condition.publish(report)
