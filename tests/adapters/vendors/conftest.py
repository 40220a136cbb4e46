"""A pretended driver of four GPUs, and the backend over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.state import (
    h100_node,
)
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path / "driver", replace(h100_node(4), calls_file=tmp_path / "calls"))
    with fresh_bindings():
        yield made
    made.rule()


@pytest.fixture
async def backend(driver: Driver) -> AsyncIterator[NvmlBackend]:
    made = NvmlBackend(SystemClock(), root=driver.root, driver_root=driver.root)
    yield made
    await made.close()
