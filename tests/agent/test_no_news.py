"""What is read again and says the same is the same object, and nothing is worked out from it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.container_runtime import RuntimeFiles
from tonnage.agent.config import selection
from tonnage.agent.config.reading import Reading
from tonnage.agent.config.selection import NodeConfig
from tonnage.agent.devices import NodeDevices
from tonnage.agent.events import NodeEvents
from tonnage.agent.metrics.counters import AgentMetrics
from tonnage.agent.plugin.device_list import DeviceLists
from tonnage.agent.world import World
from tonnage.decide.node.choose_config import Choice, Wishes
from tonnage.model.devices.inventory import Device, Inventory, RawEvent, RawEventKind

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


def world_of(folder: Path, clock: Any) -> World:
    checkpoints = FolderCheckpoints(folder)
    return World("n", None, clock, checkpoints, NodeEvents("n", None, clock), AgentMetrics(clock))


async def until(loop: Any, enough: asyncio.Event) -> None:
    """Run the loop until that is set."""
    running = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await enough.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_configuration_that_is_read_again_is_the_same_object(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    enough = asyncio.Event()
    here = asyncio.get_running_loop()

    def read(file: Path) -> Choice:
        seen.append(loop.current)
        file.write_text("#" * len(seen))
        if len(seen) > 3:
            here.call_soon_threadsafe(enough.set)
        return Choice("version: v1\n", str(file))

    monkeypatch.setattr(selection, "_read", read)
    reading = Reading(Wishes("ns/map"), tmp_path / "config.yaml")
    world = world_of(tmp_path, clock)
    lists = DeviceLists(world, RuntimeFiles(tmp_path / "node"))
    loop = NodeConfig(world, reading, lists, on_change=lambda: None)
    await until(loop, enough)
    assert seen[1] is not None
    assert all(each is seen[1] for each in seen[1:])


async def test_a_file_that_nobody_touched_is_not_read_again(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text("version: v1\n")
    since = [0]  # looks since it was read last: at first the choice is not on disk yet, and it is read again
    enough = asyncio.Event()
    read, mark = selection._read, selection._mark

    def noted_read(file: Path) -> Any:
        since[0] = 0
        return read(file)

    def noted_mark(file: Path) -> tuple[int, ...]:
        since[0] += 1
        if since[0] > 20:
            enough.set()
        return mark(file)

    async def at_once(function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(selection, "_read", noted_read)
    monkeypatch.setattr(selection, "_mark", noted_mark)
    monkeypatch.setattr(asyncio, "to_thread", at_once)  # a read that takes long looks like none
    world = world_of(tmp_path, clock)
    reading = Reading(Wishes("ns/map"), tmp_path / "config.yaml")
    lists = DeviceLists(world, RuntimeFiles(tmp_path / "node"))
    await until(NodeConfig(world, reading, lists, on_change=lambda: None), enough)
    assert since[0] > 20


async def test_devices_that_are_read_again_are_the_same_object(tmp_path: Path, clock: Any) -> None:
    backend = Backend()
    seen: list[object] = []
    devices: NodeDevices = NodeDevices(
        world_of(tmp_path, clock),
        backend,  # type: ignore[arg-type]
        on_change=lambda: seen.append(devices.inventory),
    )
    await until(devices, backend.enough)
    assert len(seen) == 1
    assert devices.inventory is seen[0]
