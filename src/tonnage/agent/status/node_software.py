"""Follows which kubelet and container runtime the node has, and how they are configured, for its status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Final

from tonnage.agent.world import World
from tonnage.decide.node.runtime.node_software import node_software
from tonnage.loop.ticks import next_beat
from tonnage.model.node.runtime_config import NodeRuntime
from tonnage.model.node.software import KubeletPolicies
from tonnage.ports.node import SoftwareView

_BEATS: Final = 60
"""Files are looked at on every sixtieth beat: whoever configures kubelet or runtime restarts it."""


class SoftwareWatch:
    """Keeps `current` up to date; `on_change` is called after it changed."""

    def __init__(
        self,
        world: World,
        files: SoftwareView,
        versions: Callable[[], tuple[str, str]],
        *,
        on_change: Callable[[], None],
    ) -> None:
        """`versions` are kubelet's and the runtime's as the Node says them, empty while it does not."""
        self._world = world
        self._files = files
        self._versions = versions
        self._on_change = on_change
        self.current = node_software(NodeRuntime(), KubeletPolicies(reason="its files are not looked at yet"))

    async def run(self) -> None:
        """Run until cancelled; where nothing is published, nothing is looked at."""
        if self._world.api is None:
            return
        await self._world.started.wait()
        for beat in count():
            await next_beat(
                self._world.clock
            )  # first, too: to look loads modules, which the status waits for
            if beat % _BEATS == 0:
                seen, policies = await self._files.look(), await self._files.policies()
            kubelet, runtime = self._versions()
            found = node_software(replace(seen, kubelet=kubelet, runtime=runtime), policies)
            if found != self.current:
                self.current = found
                self._on_change()
