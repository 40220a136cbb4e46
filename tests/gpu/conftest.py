"""GPUs of this machine, through the library that its own search finds; without any the tests are skipped.

`make test-gpu` names a folder for figures: then it is an error that there is no GPU.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.nvml.bindings import fresh_bindings
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.model.errors import HardwareError


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpu")
    group.addoption("--gpu-results", default="", help="a folder for figures; there must be a GPU then")
    group.addoption("--gpu-date", default="", help="the day that the figures are of, YYYY-MM-DD")


@pytest.fixture(scope="session")
def gpu_results(request: pytest.FixtureRequest) -> Path | None:
    """Where figures are wanted."""
    folder = request.config.getoption("--gpu-results", default="")
    return Path(folder) if folder else None


@pytest.fixture(scope="session")
def without_gpu() -> str:
    """Why there is no GPU to test with; empty if there is one."""

    async def look() -> str:
        backend = NvmlBackend(SystemClock())
        try:
            inventory = await backend.scan()
        except HardwareError as error:
            return error.problems[0].what
        finally:
            await backend.close()
        return "" if inventory.devices else "the driver has no GPU"

    with fresh_bindings():
        return asyncio.run(look())


@pytest.fixture(autouse=True)
def gpu(without_gpu: str, gpu_results: Path | None) -> Iterator[None]:
    """The bindings, on a machine with a GPU."""
    if without_gpu and gpu_results is not None:
        pytest.exit(f"no GPU to test with: {without_gpu}", returncode=2)
    if without_gpu:
        pytest.skip(f"no GPU to test with: {without_gpu}")
    with fresh_bindings():
        yield


@pytest.fixture
async def backend(gpu: None) -> AsyncIterator[NvmlBackend]:
    made = NvmlBackend(SystemClock())
    yield made
    await made.close()
