"""The checks of `support.device_contract`, which run on GPUs too, over everything that pretends devices."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.device_contract import CHECKS, Check, agent_gives_every_device
from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.state import DriverState, FakeGpu, FakeMig, all_pairs, h100_node, linked
from support.plugin_node import plugin_node
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.ports.node import DeviceBackend
from tonnage.twin.devices.scenario import ScenarioBackend

_MIGS = (FakeMig("1g", 0, gi=7), FakeMig("2g", 2, gi=3), FakeMig("3g", 4, gi=2, slices=1))
DRIVERS = {
    "one T4": DriverState((FakeGpu(0, "T4"),)),
    "eight H100 behind switches": replace(h100_node(8), metrics={(i, 2): 12.5 * i for i in range(8)}),
    "A100, one divided": DriverState(
        (FakeGpu(0, "A100-80"), FakeGpu(1, "A100-80", mig_enabled=True, migs=_MIGS), FakeGpu(2, "A100-80")),
        links=linked(all_pairs(range(3), 4)),
    ),
    "sixty-four L40S": DriverState(tuple(FakeGpu(slot, "L40S", numa=slot // 16) for slot in range(64))),
}


@pytest.fixture(params=["a scenario", *DRIVERS])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DeviceBackend]:
    with fresh_bindings():
        if request.param in DRIVERS:
            root = Driver(tmp_path / "driver", DRIVERS[request.param]).root
            made: DeviceBackend = NvmlBackend(SystemClock(), root=root, driver_root=root)
        else:
            made = ScenarioBackend(scenario(tmp_path), SystemClock())
        yield made
        await made.close()


def scenario(folder: Path) -> Path:
    names = [f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, str(slot))}" for slot in range(4)]
    devices = [{"uuid": name, "model": "H100-80", "numa": i // 2} for i, name in enumerate(names)]
    file = folder / "hardware.json"
    file.write_text(json.dumps({"devices": [*devices[:3], {**devices[3], "mig": ["1g.10gb", "3g.40gb"]}]}))
    return file


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_pretended_devices_pass(backend: DeviceBackend, check: Check) -> None:
    await check(backend)


@pytest.fixture
def driver() -> Iterator[Driver]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        yield Driver(Path(folder), h100_node(4))


async def test_an_agent_gives_every_device(driver: Driver) -> None:
    uuids = {gpu.identity for gpu in driver.state.gpus}
    async with plugin_node() as node:
        await agent_gives_every_device(node, uuids, "--driver-root-ctr-path", str(driver.root))
