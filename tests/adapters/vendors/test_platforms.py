"""Platforms whose GPUs are not offered say so, and why, and cost no other GPU."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.state import DriverState, FakeGpu
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.model.errors import HardwareError

Open = Callable[[Path], AbstractAsyncContextManager[NvmlBackend]]


@pytest.fixture
def opened() -> Open:
    @asynccontextmanager
    async def backend(root: Path) -> AsyncIterator[NvmlBackend]:
        made = NvmlBackend(SystemClock(), root=root, driver_root=root)
        with fresh_bindings():
            try:
                yield made
            finally:
                await made.close()

    return backend


@pytest.mark.parametrize(
    ("file", "content"),
    [("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n"), ("dev/dxg", "")],
)
async def test_gpus_under_wsl_are_refused_though_the_driver_answers(
    tmp_path: Path, opened: Open, file: str, content: str
) -> None:
    driver = Driver(tmp_path, DriverState((FakeGpu(0),)))
    (driver.root / file).parent.mkdir(parents=True, exist_ok=True)
    (driver.root / file).write_text(content)
    async with opened(driver.root) as backend:
        with pytest.raises(HardwareError, match="Tonnage does not support GPUs under WSL") as caught:
            await backend.scan()
    assert "nodeSelector" in caught.value.problems[0].remedy


async def test_an_azure_kernel_is_no_wsl(tmp_path: Path, opened: Open) -> None:
    driver = Driver(tmp_path, DriverState((FakeGpu(0),)))
    (driver.root / "proc/sys/kernel/osrelease").write_text("6.8.0-1021-azure\n")
    async with opened(driver.root) as backend:
        assert len((await backend.scan()).devices) == 1


@pytest.mark.parametrize("name", ["Orin (nvgpu)", "NVIDIA Thor"])
async def test_the_gpu_of_a_tegra_processor_is_withheld_and_costs_no_other(
    tmp_path: Path, opened: Open, name: str
) -> None:
    driver = Driver(tmp_path, DriverState((FakeGpu(0, facts={"name": name}), FakeGpu(1))))
    async with opened(driver.root) as backend:
        found = await backend.scan()
    assert [device.index for device in found.devices] == [1]
    (problem,) = found.problems
    assert f"device 0: {name} is part of a Tegra processor" in problem


async def test_a_display_card_is_no_device_and_no_problem(tmp_path: Path, opened: Open) -> None:
    driver = Driver(tmp_path, DriverState((FakeGpu(0), FakeGpu(1, facts={"name": "NVIDIA DGX Display"}))))
    async with opened(driver.root) as backend:
        found = await backend.scan()
    assert ([device.index for device in found.devices], found.problems) == ([0], ())


@pytest.mark.parametrize(
    ("file", "content"), [("etc/nv_tegra_release", "# R36"), ("sys/devices/soc0/family", "Tegra\n")]
)
async def test_a_tegra_system_without_nvml_is_told_apart_from_a_missing_driver(
    tmp_path: Path, opened: Open, file: str, content: str
) -> None:
    async with opened(tmp_path) as backend:
        with pytest.raises(HardwareError, match=r"^NVML: "):
            await backend.scan()
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(content)
        with pytest.raises(HardwareError, match="Tonnage does not offer Tegra GPUs") as caught:
            await backend.scan()
    assert caught.value.problems[0].why.startswith("NVML: ")
