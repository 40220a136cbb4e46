"""From NVML's links to the answer that kubelet gets: over the pretended driver, the backend and the agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.state import DriverState, FakeGpu, linked
from support.topologies import CUBE_MESH
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.agent.plugin.topologies import Topologies
from tonnage.decide.node.preference.prefer import prefer
from tonnage.decide.node.share import share
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.names import GPU


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    gpus = tuple(FakeGpu(slot, "A100-80", uuid=f"GPU-{slot}", numa=slot // 4) for slot in range(8))
    made = Driver(tmp_path / "driver", DriverState(gpus, links=linked(CUBE_MESH)))
    with fresh_bindings():
        yield made
    made.rule()


@pytest.fixture
async def backend(driver: Driver) -> AsyncIterator[NvmlBackend]:
    made = NvmlBackend(SystemClock(), root=driver.root, driver_root=driver.root)
    yield made
    await made.close()


async def preferred(backend: NvmlBackend, topologies: Topologies, free: str, size: int) -> str:
    """Digits of the GPUs that are preferred of those free; links are there from some scan on."""
    inventory = await backend.scan()
    while not inventory.links:
        inventory = await backend.scan()
    plan = share(inventory, PluginConfig())
    topologies.follow(plan, inventory)
    (resource,) = plan.resources
    got = prefer(resource, [f"GPU-{i}" for i in free], (), size, topology=topologies.of(GPU))
    return "".join(uuid.removeprefix("GPU-") for uuid in got)


async def test_the_links_of_a_cube_mesh_decide(backend: NvmlBackend) -> None:
    topologies = Topologies("node-0")
    assert await preferred(backend, topologies, "01234567", 2) == "03"
    assert await preferred(backend, topologies, "0124567", 4) == "4567"


async def test_links_that_one_gpu_denies_are_not_counted_and_break_nothing(
    backend: NvmlBackend, driver: Driver
) -> None:
    """#448: the process ended."""
    links = tuple(replace(link, active=link.slot != 3) for link in driver.state.links)
    driver.become(replace(driver.state, links=links))
    assert await preferred(backend, Topologies("node-0"), "0123", 2) == "12"


async def test_a_lost_gpu_spoils_no_answer_about_the_others(backend: NvmlBackend, driver: Driver) -> None:
    """#231 #2038: every request failed with "GPU is lost"."""
    topologies = Topologies("node-0")
    assert await preferred(backend, topologies, "01234567", 2) == "03"
    known = topologies.of(GPU)
    driver.lose(3)
    assert await preferred(backend, topologies, "0124567", 2) == "12"
    assert topologies.of(GPU) is known
