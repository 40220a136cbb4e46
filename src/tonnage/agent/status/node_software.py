"""Follows which kubelet and container runtime the node has, and how they are configured, for its status."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.runtime.node_software import node_software
from tonnage.loop.ticks import next_beat
from tonnage.model.drivers.node import HostSystem
from tonnage.model.node.runtime_config import NodeRuntime
from tonnage.model.node.software import KubeletPolicies
from tonnage.ports.node import SoftwareView

_LOOK_S: Final = 60.0
"""Between two looks at files: whoever configures kubelet or runtime restarts it."""


class SoftwareWatch:
    """Publishes it."""

    def __init__(self, context: AgentContext, board: NodeBoard, files: SoftwareView) -> None:
        self._context = context
        self._board = board
        self._files = files
        self._facts: tuple[NodeRuntime, KubeletPolicies, HostSystem] | None = None
        board.node_versions.subscribe(self._publish)

    async def run(self) -> None:
        """Run until cancelled; where nothing is published, nothing is looked at."""
        if self._context.api is None:
            return
        await self._context.started.wait()
        # Before the first look, too: it loads modules, which the status would wait for.
        await next_beat(self._context.clock)
        while True:
            self._facts = await self._files.look(), await self._files.policies(), await self._files.host()
            self._publish()
            await next_beat(self._context.clock, _LOOK_S)

    def _publish(self) -> None:
        if self._facts is None:
            return
        node_runtime, policies, host = self._facts
        kubelet, runtime = self._board.node_versions.value
        software = node_software(replace(node_runtime, kubelet=kubelet, runtime=runtime), policies)
        self._board.software.publish(replace(software, host=host))
