"""A driver that says nonsense about one GPU: that one is withheld with words, and every other is offered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.state import DriverState, FakeGpu
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.model.devices.inventory import Inventory

OTHERS = {"GPU-0", "GPU-2"}


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    gpus = tuple(FakeGpu(slot, "A100-80", uuid=f"GPU-{slot}") for slot in range(3))
    made = Driver(tmp_path / "driver", DriverState(gpus))
    with fresh_bindings():
        yield made
    made.rule()


@pytest.fixture
async def backend(driver: Driver) -> AsyncIterator[NvmlBackend]:
    made = NvmlBackend(SystemClock(), root=driver.root, driver_root=driver.root)
    yield made
    await made.close()


def withheld(inventory: Inventory) -> str:
    """The one problem there is, where all the others are offered."""
    assert {device.uuid for device in inventory.devices if device.healthy} == OTHERS
    (problem,) = inventory.problems
    return problem


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        pytest.param("GPU-0", "it shares a UUID with another device: GPU-0", id="another's"),
        pytest.param("GPU-2::0", "no UUID: 'GPU-2::0'", id="that of a replica"),
        pytest.param("GPU-1,GPU-2", "no UUID: 'GPU-1,GPU-2'", id="two at once"),
        pytest.param("all", "no UUID: 'all'", id="a word that means every device"),
    ],
)
async def test_a_uuid_that_cannot_be_told_to_a_container(
    backend: NvmlBackend, driver: Driver, said: str, problem: str
) -> None:
    driver.change(1, uuid=said)
    assert withheld(await backend.scan()) == f"device 1: {problem}"


async def test_a_name_that_is_no_text(backend: NvmlBackend, driver: Driver) -> None:
    """The bindings raise what is no error of NVML: it ended the agent."""
    text = driver.file.read_bytes()
    driver.file.write_bytes(text.replace(b"gpu 1 name ", b"gpu 1 name \xff\xfe"))
    assert "can't decode byte 0xff" in withheld(await backend.scan())
