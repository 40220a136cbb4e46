"""A node whose configuration the agent's own loop chooses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.agent_context import context_of, events_in
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.config_file import MountedConfigFile
from tonnage.adapters.container_runtime import RuntimeFiles
from tonnage.adapters.host_paths import HostPaths
from tonnage.agent.board import NodeBoard
from tonnage.agent.config.reading import Reading
from tonnage.agent.config.selection import NodeConfig
from tonnage.agent.plugin.device_list import DeviceLists
from tonnage.decide.node.choose_config import ConfigInForce, Wishes

MAP = "tonnage-system/device-plugin-config"


def replicas(count: int) -> str:
    return (
        f"version: v1\nsharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {count}}}]}}}}"
    )


class Told(FolderCheckpoints):
    """Says when something was saved."""

    def __init__(self, folder: Path, saved: asyncio.Event) -> None:
        super().__init__(folder)
        self.saved = saved

    async def save(self, name: str, payload: bytes, *, lasting: bool = True) -> None:
        await super().save(name, payload, lasting=lasting)
        self.saved.set()


class Watched:
    """A running NodeConfig whose changes can be awaited."""

    def __init__(
        self,
        folder: Path,
        cluster: Any,
        clock: Any,
        reading: Reading,
        driver_root: Path | None = None,
        file: Path | None = None,
    ) -> None:
        self.changed = asyncio.Event()
        self.events = events_in("node-1", cluster, clock)
        self.saved = asyncio.Event()
        self.checkpoints = Told(folder, self.saved)
        context = context_of("node-1", cluster, clock, self.checkpoints, self.events)
        lists = DeviceLists(context, RuntimeFiles(folder / "node"))
        host = HostPaths(folder / "node", driver_root)
        config_file = MountedConfigFile(file) if file else None
        self.board = NodeBoard.blank(clock)
        self.board.configuration.subscribe(self.changed.set)
        self.loop = NodeConfig(context, self.board, reading, lists, host=host, file=config_file)

    @property
    def current(self) -> ConfigInForce | None:
        """What runs."""
        return self.board.configuration.value

    async def until(self, condition: Any) -> ConfigInForce:
        async with asyncio.timeout(60):
            while self.current is None or not condition(self.current):
                self.changed.clear()
                await self.changed.wait()
            return self.current


@asynccontextmanager
async def running(
    folder: Path,
    cluster: Any,
    clock: Any,
    file: Path | None = None,
    wishes: Wishes | None = None,
    driver_root: Path | None = None,
    **reading: Any,
) -> AsyncIterator[Watched]:
    told = Reading(wishes or Wishes(MAP), **reading)
    watched = Watched(folder, cluster, clock, told, driver_root, file)
    tasks = [asyncio.create_task(watched.loop.run()), asyncio.create_task(watched.events.run())]
    try:
        yield watched
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def shared(current: ConfigInForce) -> int:
    return current.config.shared[0].replicas if current.config.shared else 1
