"""A pretended workload reads the same from a scenario's devices and from the pretended driver by NVML."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.load import FIELDS, loaded
from support.nvml.state import DriverState, FakeGpu
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.documents.pretended_load import parse_load
from tonnage.model.devices.pretended_load import PretendedLoad
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.load.load_file import LoadRun
from tonnage.twin.devices.scenario import ScenarioBackend


class SampledClock(SystemClock):
    """Waits as long as the machine does; what is measured between two samples is by the virtual time."""

    def __init__(self, virtual: VirtualClock) -> None:
        self._virtual = virtual

    def monotonic(self) -> float:
        return self._virtual.monotonic()


@pytest.mark.parametrize("text", ["training", "inference rate=60", "leak per-minute=50%", "idle"])
async def test_the_driver_in_c_reads_what_the_scenario_reads(tmp_path: Path, text: str) -> None:
    clock = VirtualClock(start=datetime(2026, 1, 1, tzinfo=UTC))
    file = tmp_path / "hardware.yaml"
    file.write_text(json.dumps({"devices": [{"uuid": f"GPU-{n}", "model": "H100-80"} for n in range(2)]}))
    scenario = ScenarioBackend(file, clock)
    scenario.start_load()
    load = parse_load(text)
    assert isinstance(load, PretendedLoad)
    scenario.begin_load(LoadRun("k", "ml", "p", "c", ("GPU-0",), load, 1, False, clock.now().timestamp()))
    driver = Driver(tmp_path / "driver", DriverState(tuple(FakeGpu(n, uuid=f"GPU-{n}") for n in range(2))))
    with fresh_bindings():
        nvml = NvmlBackend(SampledClock(clock), root=driver.root, driver_root=driver.root)
        await nvml.scan()
        await nvml.sample(FIELDS)  # what GPM measures lies between two samples
        for _ in range(3):
            await clock.advance(45)
            expected = await scenario.sample(FIELDS)
            driver.become(loaded(driver.state, expected))
            read = {sample.uuid: sample.values for sample in await nvml.sample(FIELDS)}
            assert read == {sample.uuid: {**sample.values} for sample in expected}
        await nvml.close()
