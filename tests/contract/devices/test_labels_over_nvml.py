"""Labels of a node whose driver is the library in C: what it says in NVML's terms arrives in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.state import DriverState, FakeGpu, FakeMig
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.machine import MachineFiles
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.decide.node.labels.gpu import gpu_labels
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.node.plugin_settings import MigStrategy

CLUSTER = "5c7a0f1e-8d3b-4a52-9a53-0d0f6f2b7c11"


async def scanned(driver: Driver) -> Inventory:
    backend = NvmlBackend(SystemClock(), root=driver.root, driver_root=driver.root)
    with fresh_bindings():
        try:
            return await backend.scan()
        finally:
            await backend.close()


async def labels(driver: Driver, config: PluginConfig) -> dict[str, str]:
    inventory = await scanned(driver)
    machine = await MachineFiles(driver.root).read("/sys/class/dmi/id/product_name")
    return gpu_labels(inventory, config, share(inventory, config), machine)


@pytest.mark.parametrize("mig_enabled", [False, True])
async def test_a_gpu_says_what_its_mig_devices_would_have(tmp_path: Path, mig_enabled: bool) -> None:
    driver = Driver(tmp_path, DriverState((FakeGpu(0, "A100-80", mig_enabled=mig_enabled), FakeGpu(1, "T4"))))
    divisible, other = (await scanned(driver)).devices
    largest = divisible.profile_sizes[0]
    assert (largest.multiprocessors, largest.copy_engines) == (98, 7)
    assert not other.profile_sizes


async def test_a_divided_gpu_beside_a_whole_one(tmp_path: Path) -> None:
    divided = FakeGpu(0, "A100-80", mig_enabled=True, migs=(FakeMig("3g", 4, gi=1), FakeMig("1g", 0, gi=7)))
    driver = Driver(tmp_path, DriverState((divided, FakeGpu(1, "A100-80"))))
    found = await labels(driver, PluginConfig(mig_strategy=MigStrategy.MIXED))
    wanted = {
        "cuda.driver-version.full": driver.state.driver_version,
        "cuda.runtime-version.full": driver.state.cuda_version,
        "gpu.product": "NVIDIA-A100-SXM4-80GB",
        "gpu.count": "2",
        "gpu.replicas": "1",
        "gpu.memory": "81920",
        "gpu.family": "ampere",
        "gpu.mode": "compute",
        "mig.capable": "true",
        "mig.strategy": "mixed",
        "mig-3g.40gb.product": "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb",
        "mig-3g.40gb.count": "1",
        "mig-3g.40gb.memory": "40192",
        "mig-3g.40gb.multiprocessors": "42",
        "mig-3g.40gb.slices.gi": "3",
        "mig-1g.10gb.memory": "9856",
    }
    assert found.items() >= {f"nvidia.com/{key}": value for key, value in wanted.items()}.items()
    assert "nvidia.com/gpu.clique" not in found


@pytest.mark.parametrize(
    ("facts", "clique", "state"),
    [
        ({"fabric_state": 3, "fabric_cluster": CLUSTER, "fabric_clique": 7}, f"{CLUSTER}.7", "completed"),
        ({"fabric_state": 2, "fabric_cluster": CLUSTER, "fabric_clique": 7}, None, "in progress"),
        ({"fabric_state": 1}, None, "not started"),
        (
            {"fabric_state": 3, "fabric_cluster": CLUSTER, "fabric_clique": 7, "fabric_status": 999},
            *(None, "failed"),
        ),
        ({"fabric_state": 3, "fabric_clique": 7}, None, "completed"),
        ({}, None, ""),
    ],
    ids=["complete", "in progress", "not begun", "failed", "without a cluster", "no NVSwitches"],
)
async def test_the_fabric_of_a_board(
    tmp_path: Path, facts: dict[str, int | str], clique: str | None, state: str
) -> None:
    driver = Driver(tmp_path, DriverState((FakeGpu(0, "B200"),)))
    driver.change(0, **facts)
    assert (await labels(driver, PluginConfig())).get("nvidia.com/gpu.clique") == clique
    assert [device.fabric for device in (await scanned(driver)).devices] == [state]
