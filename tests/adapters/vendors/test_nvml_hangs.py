"""A GPU or a driver whose calls do not come back: what is still known, who waits, and how many."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.state import FakeGpu, Rule, h100_node
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.adapters.vendors.nvml_child import ReadRequest
from tonnage.adapters.vendors.nvml_inventory import HANGS
from tonnage.adapters.vendors.nvml_process import Helper, Helpers
from tonnage.model.devices.inventory import Inventory, RawEvent, RawEventKind
from tonnage.model.errors import HardwareError

pytestmark = pytest.mark.long

PATIENCE_S = 60.0
DEADLINE_S = 1.0


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path / "driver", replace(h100_node(4), calls_file=tmp_path / "calls"))
    with fresh_bindings():
        yield made
    made.rule()


@pytest.fixture
async def backend(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NvmlBackend]:
    monkeypatch.setattr("tonnage.adapters.vendors.nvml._TRY_S", 0.0)
    monkeypatch.setattr("tonnage.adapters.vendors.nvml._TRY_MOST_S", 0.1)
    made = NvmlBackend(SystemClock(), root=driver.root, driver_root=driver.root, deadline_s=DEADLINE_S)
    yield made
    driver.rule()
    await made.close()
    assert not children()


def children() -> set[int]:
    """Processes of ours that read NVML."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if b"tonnage.adapters.vendors.nvml_child" in words and parent == str(os.getpid()):
                found.add(int(entry.name))
    return found


def health(inventory: Inventory) -> list[str]:
    return [device.reason or "healthy" for device in inventory.devices]


async def scan_until(backend: NvmlBackend, condition: Callable[[Inventory], bool]) -> Inventory:
    """Scan again and again; a scan that fails is a scan like others."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                inventory = await backend.scan()
            except HardwareError:
                continue
            if condition(inventory):
                return inventory
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "what",
    [
        pytest.param("nvmlDeviceGetMemoryInfo", id="one call"),
        pytest.param("nvmlDeviceGetFieldValues", id="its vitals"),
        pytest.param("*", id="every call, even for finding it"),
    ],
)
async def test_one_gpu_that_hangs_is_out_at_once_and_the_others_are_read_on(
    backend: NvmlBackend, driver: Driver, what: str
) -> None:
    before = await backend.scan()
    driver.rule(Rule("hang", what, slot=2))
    inventory = await backend.scan()
    assert health(inventory) == ["healthy", "healthy", HANGS, "healthy"]
    assert [device.uuid for device in inventory.devices] == [device.uuid for device in before.devices]
    assert [each.uuid for each in inventory.vitals if each.hangs] == [before.devices[2].uuid]
    assert not children(), "that much was known without another process"
    driver.lose(0)
    inventory = await scan_until(backend, lambda seen: not seen.devices[0].healthy)
    assert health(inventory) == ["GPU is lost", "healthy", HANGS, "healthy"]
    driver.recover(0)
    driver.plug(FakeGpu(4))
    assert len((await scan_until(backend, lambda seen: len(seen.devices) == 5)).devices) == 5
    assert backend.stuck_s() > 0


async def test_it_is_back_when_its_call_comes_back_and_nobody_else_is_needed_then(
    backend: NvmlBackend, driver: Driver
) -> None:
    before = await backend.scan()
    driver.rule(Rule("hang", "nvmlDeviceGetMemoryInfo", slot=1))
    await backend.scan()
    await backend.scan()
    assert children()
    driver.rule()
    await scan_until(backend, lambda seen: seen.devices == before.devices)
    await scan_until(backend, lambda _: not children())
    assert backend.stuck_s() == 0


async def test_one_that_hangs_from_the_start_is_a_problem_and_the_others_are_there(
    backend: NvmlBackend, driver: Driver
) -> None:
    driver.rule(Rule("hang", "*", slot=0))
    inventory = await backend.scan()
    assert [device.index for device in inventory.devices] == [1, 2, 3]
    assert inventory.problems == (f"device 0: {HANGS}",)
    driver.rule()
    await scan_until(backend, lambda seen: len(seen.devices) == 4)


async def test_several_hang_and_come_back_one_by_one(backend: NvmlBackend, driver: Driver) -> None:
    await backend.scan()
    rules = [Rule("hang", "nvmlDeviceGetMemoryInfo", slot=slot) for slot in (0, 2, 3)]
    driver.rule(*rules)
    await scan_until(backend, lambda seen: health(seen) == [HANGS, "healthy", HANGS, HANGS])
    driver.rule(*rules[:1])  # the thread's own goes on hanging
    await scan_until(backend, lambda seen: health(seen) == [HANGS, "healthy", "healthy", "healthy"])
    assert 1 <= len(children()) <= 4


async def test_errors_are_heard_while_a_gpu_hangs(backend: NvmlBackend, driver: Driver) -> None:
    inventory = await backend.scan()
    driver.rule(Rule("hang", "nvmlDeviceGetMemoryInfo", slot=2))
    await backend.scan()
    await backend.scan()
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(backend)) as events:
        driver.xid(3, 48)
        while (event := await anext(events)).kind is not RawEventKind.XID:
            pass
    assert event == RawEvent(RawEventKind.XID, inventory.devices[3].uuid, 48)


async def test_samples_are_of_the_others(backend: NvmlBackend, driver: Driver) -> None:
    uuids = [device.uuid for device in (await backend.scan()).devices]
    driver.rule(Rule("hang", "nvmlDeviceGetPowerUsage", slot=1))
    assert [sample.uuid for sample in await backend.sample(("power_w",))] == [uuids[0], *uuids[2:]]
    assert health(await backend.scan()) == ["healthy", HANGS, "healthy", "healthy"]


async def test_links_that_hang_speak_against_nobody(backend: NvmlBackend, driver: Driver) -> None:
    driver.rule(Rule("hang", "nvmlDeviceGetNvLinkState", slot=2))
    assert health(await backend.scan()) == ["healthy"] * 4
    await scan_until(backend, lambda _: backend._asks.stuck_s() > 0)
    driver.plug(FakeGpu(4))  # needs a new session, which the hanging call does not let go of
    await scan_until(backend, lambda seen: len(seen.devices) == 5 and all(d.healthy for d in seen.devices))


async def test_a_driver_that_hangs_altogether_is_an_error_until_it_answers(
    backend: NvmlBackend, driver: Driver
) -> None:
    before = await backend.scan()
    driver.rule(Rule("hang"))
    for _ in range(3):
        with pytest.raises(HardwareError, match="does not answer"):
            await backend.scan()
        assert len(children()) <= 4
    assert backend.stuck_s() > 0
    driver.rule()
    after = await scan_until(backend, lambda seen: len(seen.devices) == 4)
    assert after.devices == before.devices


async def test_processes_that_do_not_end_are_not_added_to(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that the kernel does not let go of holds its process even when it is killed."""

    def kill(self: Helper) -> None:
        self.killed = True

    driver.rule(Rule("hang"))
    helpers = Helpers(driver.root, driver.root, deadline_s=0.05, on_event=lambda _: None)
    with monkeypatch.context() as patched:
        patched.setattr(Helper, "kill", kill)
        patched.setattr("tonnage.adapters.vendors.nvml_process._ENDS_S", 0.0)
        for _ in range(6):
            for ask in (helpers.ask, helpers.try_once):
                with pytest.raises(HardwareError, match="does not answer"):
                    await ask(ReadRequest("scan"))
                assert helpers.count <= 4
    assert helpers.count == len(children()) == 4
    await helpers.close()
    assert not children()


async def test_a_process_that_dies_is_replaced(backend: NvmlBackend, driver: Driver) -> None:
    await backend.scan()
    driver.rule(Rule("hang", "nvmlDeviceGetMemoryInfo", slot=2))
    await backend.scan()
    await backend.scan()
    for pid in children():
        os.kill(pid, 9)
    inventory = await scan_until(backend, lambda _: bool(children()))
    assert health(inventory) == ["healthy", "healthy", HANGS, "healthy"]


def _generator(backend: NvmlBackend) -> Any:
    return backend.events()
