"""MIG layouts on this node: what is asked for, the loop that makes it, and what is said of it."""

from __future__ import annotations

import asyncio
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext, MigPermits
from tonnage.agent.devices import NodeDevices
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.mig.config import NodeMigConfig
from tonnage.agent.mig.eviction import PodEvictions
from tonnage.agent.mig.host import MigHost
from tonnage.agent.mig.label import MigLabel
from tonnage.agent.mig.manager import MigWays, NodeMig
from tonnage.agent.mig.pause import NodePauses
from tonnage.model.mig.layouts import MigState, MigWork
from tonnage.model.names import MIG_CONFIG_LABEL
from tonnage.model.node.condition_report import ConditionReport
from tonnage.ports.node import DeviceReader

_STATUS_AND_REASON: Final = {
    MigState.SUCCESS: ("True", "MIGConfigApplied"),
    MigState.PENDING: ("False", "MIGConfigPending"),
    MigState.REBOOTING: ("False", "MIGConfigRebooting"),
    MigState.FAILED: ("False", "MIGConfigFailed"),
}


class NodeMigLayout:
    """All MIG loops of a node as one, and its condition `MIGConfigApplied`."""

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        hardware: DeviceReader,
        devices: NodeDevices,
        ledger: HoldLedger,
        permits: MigPermits,
    ) -> None:
        options = permits.options
        self._board = board
        self._unasked = False
        # First: with the label goes what was said of its layout, before a loop below looks at the node.
        board.node.subscribe(self._look_at_node)
        board.mig_standing.subscribe(self._report)
        config = NodeMigConfig(context, board, options)
        pauses = NodePauses(context, board, options)
        host = None if permits.programs is None else MigHost(context, board, permits.programs)
        ways = MigWays(
            evict=PodEvictions(context).evict if options.evict else None,
            pause_and_wait=pauses.pause_and_wait if options.cordon or options.pause else None,
            host=host,
            boot=permits.boot,
        )
        self._mig = NodeMig(context, board, hardware, devices, ledger, ways)
        label = MigLabel(context, board)
        self._loops = [loop for loop in (config, self._mig, label, pauses, host) if loop is not None]

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
            status, reason = _STATUS_AND_REASON[standing.state]
            text = f"{standing.config}: {standing.reason or 'every GPU is as it says'}"
            report = ConditionReport(status, reason, text)
        elif self._unasked:
            text = f"the node no longer has the label {MIG_CONFIG_LABEL}"
            report = ConditionReport("True", "NothingAsked", text, quiet=True)
        else:
            report = ConditionReport("Unknown", "MIGNeverAsked")
        self._board.mig_condition.publish(report)
