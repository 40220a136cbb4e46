"""What is read again and says the same is the same object, and nothing is worked out from it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.container_runtime import RuntimeFiles
from tonnage.agent.board import NodeBoard
from tonnage.agent.config.reading import Reading
from tonnage.agent.config.selection import NodeConfig
from tonnage.agent.devices import NodeDevices
from tonnage.agent.plugin.device_list import DeviceLists
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce, Wishes
from tonnage.model.devices.inventory import Device, Inventory, RawEvent, RawEventKind
from tonnage.model.devices.sharing import PluginConfig

PATIENCE_S = 30.0


class Backend:
    """The same devices with each scan, and an event that asks for the next."""

    def __init__(self) -> None:
        self.scans = 0
        self.enough = asyncio.Event()

    async def scan(self) -> Inventory:
        self.scans += 1
        if self.scans > 3:
            self.enough.set()
        return Inventory((Device("GPU-0", 0, "T4", 16384),))

    async def events(self) -> AsyncIterator[RawEvent]:
        while True:
            await asyncio.sleep(0)
            yield RawEvent(RawEventKind.CHANGED)


async def until(loop: Any, enough: asyncio.Event) -> None:
    """Run the loop until that is set."""
    running = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await enough.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class RewrittenFile:
    """A configuration's file that is another after every read, and says the same."""

    def __init__(self, on_read: Callable[[], None]) -> None:
        self._reads = 0
        self._on_read = on_read

    def __str__(self) -> str:
        return "config.yaml"

    def stamp(self) -> str:
        return str(self._reads)

    async def read(self) -> str:
        self._reads += 1
        self._on_read()
        return "version: v1\n"


class QuietFile:
    """One that nobody touches; `enough` is set once it was looked at twenty times since it was read."""

    def __init__(self) -> None:
        self._looks = 0  # at first the choice is not on disk yet, and the file is read again
        self.enough = asyncio.Event()

    def __str__(self) -> str:
        return "config.yaml"

    def stamp(self) -> str:
        self._looks += 1
        if self._looks > 20:
            self.enough.set()
        return "same"

    async def read(self) -> str:
        self._looks = 0
        return "version: v1\n"


def config_of(folder: Path, board: NodeBoard, clock: Any, file: Any) -> NodeConfig:
    context = context_of("n", None, clock, FolderCheckpoints(folder))
    lists = DeviceLists(context, RuntimeFiles(folder / "node"))
    return NodeConfig(context, board, Reading(Wishes("ns/map")), lists, file=file)


async def test_a_configuration_that_is_read_again_is_the_same_object(tmp_path: Path, clock: Any) -> None:
    seen: list[object] = []
    enough = asyncio.Event()

    def note() -> None:
        seen.append(board.configuration.value)
        if len(seen) > 3:
            enough.set()

    board = NodeBoard.blank(clock)
    await until(config_of(tmp_path, board, clock, RewrittenFile(note)), enough)
    assert seen[1] is not None
    assert all(each is seen[1] for each in seen[1:])


async def test_a_file_that_nobody_touched_is_not_read_again(tmp_path: Path, clock: Any) -> None:
    file = QuietFile()
    await until(config_of(tmp_path, NodeBoard.blank(clock), clock, file), file.enough)
    assert file.enough.is_set()


async def test_devices_that_are_read_again_are_the_same_object(tmp_path: Path, clock: Any) -> None:
    backend = Backend()
    seen: list[object] = []
    board = NodeBoard.blank(clock)
    board.configuration.publish(ConfigInForce(PluginConfig(), ConfigChoice("", "built-in")))
    board.inventory.subscribe(lambda: seen.append(board.inventory.value))
    loop = NodeDevices(context_of("n", None, clock, FolderCheckpoints(tmp_path)), board, backend)  # type: ignore[arg-type]
    await until(loop, backend.enough)
    assert len(seen) == 1
    assert board.inventory.value is seen[0]
