"""Follows which kubelet and container runtime the node has, and how they are configured, for its status."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.runtime.node_software import node_software
from tonnage.loop.ticks import next_beat
from tonnage.ports.node import SoftwareView

_BEATS: Final = 40
"""Files are looked at on every fortieth beat: whoever configures kubelet or runtime restarts it."""


class SoftwareWatch:
    """Publishes it."""

    def __init__(self, context: AgentContext, board: NodeBoard, files: SoftwareView) -> None:
        self._context = context
        self._board = board
        self._files = files

    async def run(self) -> None:
        """Run until cancelled; where nothing is published, nothing is looked at."""
        if self._context.api is None:
            return
        await self._context.started.wait()
        for beat in count():
            # Before the first look, too: it loads modules, which the status would wait for.
            await next_beat(self._context.clock)
            if beat % _BEATS == 0:
                node_runtime, policies = await self._files.look(), await self._files.policies()
                host = await self._files.host()
            kubelet, runtime = self._board.node_versions.value
            software = node_software(replace(node_runtime, kubelet=kubelet, runtime=runtime), policies)
            self._board.software.publish(replace(software, host=host))
