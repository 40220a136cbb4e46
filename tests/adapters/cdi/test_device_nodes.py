"""The driver's device nodes beside its devices: what is there, and that a change is heard of."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from pathlib import Path

import pytest

from tonnage.adapters.cdi.device_nodes import NodesBeside, read_device_nodes
from tonnage.model.devices.device_nodes import DeviceNodes
from tonnage.model.devices.inventory import Inventory, RawEvent, RawEventKind, Sample
from tonnage.model.errors import HardwareError

PATIENCE_S = 60.0
XID = RawEvent(RawEventKind.XID, "GPU-0", 79)
CHANGED = RawEvent(RawEventKind.CHANGED)


def node(file: Path) -> None:
    """A link to a device is one for whoever opens it, and needs no right to be made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to("/dev/null")


def minors(root: Path, text: str) -> None:
    file = root / "proc/driver/nvidia-caps/mig-minors"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_nodes_of_the_node_and_of_the_driver_s_root(tmp_path: Path) -> None:
    root, driver = tmp_path / "node", tmp_path / "driver"
    for name in ("nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap12", "sda"):
        node(root / "dev" / name)
    (root / "dev/nvidia-uvm").write_text("a file that a container made where the node should be")
    (root / "dev/nvidia-modeset").symlink_to("/nowhere")
    node(driver / "dev/nvidia-caps-imex-channels/channel0")
    minors(root, "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n")
    assert read_device_nodes(root, driver) == DeviceNodes(
        own=frozenset({"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-caps/nvidia-cap12"}),
        driver=frozenset({"/dev/nvidia-caps-imex-channels/channel0"}),
        capabilities={"config": 1, "monitor": 2, "gpu0/gi1/access": 12, "gpu0/gi1/ci0/access": 13},
    )


@pytest.mark.parametrize("text", ["", "gpu0/gi1/access", "a b c\n\n x -1", "gpu0 1e3", "é 99999999999"])
def test_lines_of_another_kind_are_none(tmp_path: Path, text: str) -> None:
    minors(tmp_path, text)
    assert read_device_nodes(tmp_path) == DeviceNodes()


def test_nothing_is_there_where_nothing_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "dev").write_text("no folder")
    (tmp_path / "proc/driver/nvidia-caps/mig-minors").mkdir(parents=True)
    assert read_device_nodes(tmp_path, tmp_path / "not-mounted-yet") == DeviceNodes()


class Backend:
    """Devices that say what they are told to say."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[RawEvent] = asyncio.Queue()
        self.broken = False
        self.ended = self.closed = False

    async def scan(self) -> Inventory:
        if self.broken:
            raise HardwareError
        return Inventory(driver_version="1")

    async def events(self) -> AsyncIterator[RawEvent]:
        try:
            while True:
                yield await self.told.get()
        finally:
            self.ended = True

    async def sample(self, fields: Collection[str]) -> tuple[Sample, ...]:
        return (Sample("GPU-0", dict.fromkeys(fields, 1)),)

    def stuck_s(self) -> float:
        return 3.0

    async def close(self) -> None:
        self.closed = True


class Ticks:
    """A clock whose sleepers wake when the test says so."""

    def __init__(self) -> None:
        self.next = asyncio.Event()
        self.asleep = asyncio.Event()

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, _seconds: float) -> None:
        self.asleep.set()
        await self.next.wait()
        self.next.clear()

    async def tick(self) -> None:
        """Return once the sleeper sleeps again."""
        self.asleep.clear()
        self.next.set()
        await self.asleep.wait()


async def test_a_change_of_nodes_is_an_event_once_and_the_backend_s_own_pass(tmp_path: Path) -> None:
    backend, clock = Backend(), Ticks()
    beside = NodesBeside(backend, clock, root=tmp_path)  # type: ignore[arg-type]
    assert await beside.scan() == Inventory(driver_version="1")
    heard: list[RawEvent] = []
    news = asyncio.Event()

    async def listen() -> None:
        async with aclosing(beside.events()) as events:  # type: ignore[type-var]
            async for event in events:
                heard.append(event)
                news.set()

    listening = asyncio.create_task(listen())
    async with asyncio.timeout(PATIENCE_S):
        await clock.asleep.wait()
        await clock.tick()
        backend.told.put_nowait(XID)
        await news.wait()
        assert heard == [XID]
        minors(tmp_path, "gpu0/gi1/access 12\n")
        await clock.tick()
        await clock.tick()
        assert heard == [XID, CHANGED]
        inventory = await beside.scan()
        assert inventory.nodes.capabilities == {"gpu0/gi1/access": 12}
        backend.broken = True
        minors(tmp_path, "gpu0/gi1/access 13\n")
        with pytest.raises(HardwareError):
            await beside.scan()
        await clock.tick()
        await clock.tick()
        assert heard == [XID, CHANGED, CHANGED], "a scan that failed has not seen it"
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    assert backend.ended


async def test_a_kernel_that_does_not_answer_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonnage.adapters.cdi.device_nodes._DEADLINE_S", 0.05)
    node(tmp_path / "dev/nvidia0")
    beside = NodesBeside(Backend(), Ticks(), root=tmp_path)  # type: ignore[arg-type]
    before = (await beside.scan()).nodes
    assert before.own == {"/dev/nvidia0"}
    folder = tmp_path / "proc/driver/nvidia-caps"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "mig-minors")  # who opens it waits for a writer
    async with asyncio.timeout(PATIENCE_S):
        assert (await beside.scan()).nodes == before
        assert (await beside.scan()).nodes == before
        (folder / "mig-minors").rename(folder / "waited-for")
        minors(tmp_path, "gpu0/gi1/access 12\n")
        with (folder / "waited-for").open("wb"):
            pass
        async with asyncio.timeout(PATIENCE_S):
            while (await beside.scan()).nodes == before:
                pass
    await beside.close()


async def test_everything_else_is_the_backend_s(tmp_path: Path) -> None:
    backend = Backend()
    beside = NodesBeside(backend, Ticks(), root=tmp_path)  # type: ignore[arg-type]
    assert await beside.sample(("power_w",)) == (Sample("GPU-0", {"power_w": 1}),)
    assert beside.stuck_s() == 3.0
    await beside.close()
    assert backend.closed


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_has_no_nodes(tmp_path: Path) -> None:
    node(tmp_path / "dev/nvidia0")
    (tmp_path / "dev").chmod(0)
    assert read_device_nodes(tmp_path) == DeviceNodes()
    (tmp_path / "dev").chmod(0o755)
