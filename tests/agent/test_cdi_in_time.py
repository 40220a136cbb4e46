"""CDI specs follow the node within two seconds, by a clock that stands still unless the test moves it.

All loops between driver and file run, over a driver of which nobody tells anything unless said: nodes,
devices, specs. Where they wait for anything else than that clock they are waited for, however long it takes
here. What the driver's own library needs to tell comes on top; benchmarks/cdi.py measures both.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, cast

from support.agent_context import context_of
from support.driver_root import LIBRARIES, Driver
from support.looking import until
from support.nvml.state import DriverState, FakeGpu, FakeMig
from tonnage.adapters.cdi.device_nodes import NodesBeside
from tonnage.adapters.cdi.files import FolderCdi
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.cdi import CdiSpecs, NodeCdi
from tonnage.agent.devices import NodeDevices
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.model.devices.inventory import Device, Inventory, MigDevice, RawEvent, RawEventKind
from tonnage.model.devices.sharing import DeviceListStrategy, PluginConfig
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.node.plugin_settings import MigStrategy
from tonnage.ports.node import DeviceBackend

SPEC: Final = "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
WITHIN_S: Final = 2
BEAT_S: Final = 1.5
"""Of the loops: see `loop.ticks`."""
PATIENCE_S: Final = 60
CDI: Final = PluginConfig(device_list=(DeviceListStrategy.CDI_CRI,), mig_strategy=MigStrategy.MIXED)
LOOPS: Final = ("nodes", "devices", "specs")
"""They look at each beat."""
PARTS: Final = (FakeMig("3g", 0, gi=1), FakeMig("3g", 4, gi=2))
WHOLE: Final = Inventory((Device("GPU-0", 0, "A100", 40960, minor=0),), DriverState(()).driver_version)
MIGS: Final = tuple(
    MigDevice(f"MIG-{place}", place, "3g.20gb", gpu_instance=place + 1, compute_instance=0, memory_mib=19968)
    for place in range(len(PARTS))
)
DIVIDED: Final = replace(WHOLE, devices=(replace(WHOLE.devices[0], mig_enabled=True, migs=MIGS),))


class StillClock:
    """A Clock whose time passes by `advance` alone."""

    def __init__(self) -> None:
        self._now = 999.0625  # shortly after a beat, so that the next one is far
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._now)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (round(self._now + seconds, 6), next(self._order), woken))
        await woken

    @property
    def on_beat(self) -> int:
        """How many wait for the next beat."""
        return sum(until % BEAT_S == 0 and not woken.done() for until, _, woken in self._sleepers)

    def end_pause(self, limit: float) -> None:
        """Pass to the end of somebody's short rest, which is no beat, if it is before `limit`."""
        rests = [until for until, _, woken in self._sleepers if until % BEAT_S and not woken.done()]
        if rests and min(rests) <= limit:
            self.advance(max(min(rests) - self._now, 0))

    def advance(self, seconds: float) -> None:
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            *_, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)


class Told:
    """A DeviceBackend that says what it is told to."""

    def __init__(self) -> None:
        self.inventory: Inventory | None = WHOLE
        self.heard: asyncio.Queue[RawEvent] = asyncio.Queue()

    async def scan(self) -> Inventory:
        if self.inventory is None:
            raise HardwareError(Problem("driver not loaded"))
        return self.inventory

    async def events(self) -> AsyncIterator[RawEvent]:
        while True:
            yield await self.heard.get()

    async def close(self) -> None:
        pass


class Node:
    def __init__(self, folder: Path) -> None:
        self.driver = Driver(folder, DriverState((FakeGpu(0, "A100-40"),)))
        self.told = Told()
        self.clock = StillClock()
        self.spec = folder / SPEC

    @property
    def text(self) -> str:
        try:
            return self.spec.read_text()
        except FileNotFoundError:
            return ""

    async def settle(self) -> None:
        """Every loop that waits for the clock does so again."""
        await until(lambda: self.clock.on_beat >= len(LOOPS))

    async def start(self) -> None:
        """Until there is a spec and nothing more happens."""
        await until(lambda: "GPU-" in self.text)
        await self.settle()
        for _ in range(2):
            self.clock.advance(BEAT_S)
            await self.settle()

    async def in_time(self, shown: Callable[[], bool]) -> None:
        """No later than that after what was done before, by the clock."""
        limit = self.clock.monotonic() + WITHIN_S
        self.clock.advance(BEAT_S)
        await self.settle()

        def shown_by_then() -> bool:
            self.clock.end_pause(limit)
            return shown()

        await until(shown_by_then)
        assert self.clock.monotonic() <= limit


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Node]:
    node = Node(folder)
    clock, root = node.clock, node.driver.root
    specs = FolderCdi(root, root)
    context = context_of("n", None, clock, FolderCheckpoints(folder / "state"), specs=specs)
    backend = NodesBeside(cast(DeviceBackend, node.told), clock, root=root, driver_root=root)
    board = NodeBoard.blank(clock)
    board.configuration.publish(ConfigInForce(CDI, ConfigChoice("", "built-in")))
    devices = NodeDevices(context, board, backend)
    cdi = NodeCdi(context, board, CdiSpecs(context, board, specs))
    tasks = [asyncio.create_task(each.run()) for each in (devices, cdi)]
    try:
        await node.start()
        yield node
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await backend.close()


async def test_mig_devices_are_in_the_spec_and_leave_it(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        node.driver.divide(0, *PARTS)
        node.told.inventory = DIVIDED
        await node.in_time(lambda: node.text.count('"MIG-') == len(PARTS) and '"GPU-' not in node.text)
        node.driver.divide(0, enabled=False)
        node.told.inventory = WHOLE
        await node.in_time(lambda: '"GPU-' in node.text and '"MIG-' not in node.text)


async def test_a_device_whose_node_goes_leaves_the_spec_and_comes_back(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        device = node.driver.root / "dev/nvidia0"
        away = device.rename(device.with_name("away"))
        await node.in_time(lambda: '"GPU-' not in node.text)
        away.rename(device)
        await node.in_time(lambda: '"GPU-' in node.text)


async def test_files_that_the_driver_brings_later_are_in_the_spec(tmp_path: Path) -> None:
    """CUDA's library, the last that an installer puts there."""
    async with running(tmp_path) as node:
        library = node.driver.root / LIBRARIES / f"libcuda.so.{node.driver.state.driver_version}"
        library.touch()
        library.with_name("libcuda.so.1").symlink_to(library.name)
        await node.in_time(lambda: library.name in node.text)


async def test_another_driver_is_in_the_spec(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        node.driver.upgrade("999.1.1")
        node.told.inventory = replace(WHOLE, driver_version="999.1.1")
        node.told.heard.put_nowait(RawEvent(RawEventKind.CHANGED))
        await node.in_time(lambda: "libnvidia-ml.so.999.1.1" in node.text)


async def test_the_spec_goes_with_the_driver_and_comes_back(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        node.told.inventory = None
        node.told.heard.put_nowait(RawEvent(RawEventKind.CHANGED))
        await node.in_time(lambda: not node.spec.exists())
        node.told.inventory = WHOLE
        await node.in_time(lambda: '"GPU-' in node.text)


async def test_what_is_waited_for_is_that_clock(tmp_path: Path) -> None:
    """Without a beat on it nothing that nobody tells of is noticed."""
    async with running(tmp_path) as node:
        node.spec.unlink()
        await node.settle()
        assert not node.spec.exists()
        await node.in_time(node.spec.exists)


async def test_a_spec_for_management_follows_the_node_where_there_is_one(tmp_path: Path) -> None:
    """`tonnage cdi generate --mode management` made it once; its devices are the driver's nodes."""
    async with running(tmp_path) as node:
        spec = node.spec.with_name("management.nvidia.com-gpu.json")
        assert not spec.exists()
        spec.write_text("{}")
        await node.in_time(lambda: spec.exists() and "nvidiactl" in spec.read_text())
        extra = node.driver.root / "dev/nvidia7"
        extra.symlink_to("nvidia0")
        await node.in_time(lambda: "nvidia7" in spec.read_text())
        node.told.inventory = None
        node.told.heard.put_nowait(RawEvent(RawEventKind.CHANGED))
        await node.in_time(lambda: not spec.exists())
        node.told.inventory = WHOLE
        await node.in_time(lambda: spec.exists() and "nvidiactl" in spec.read_text())
