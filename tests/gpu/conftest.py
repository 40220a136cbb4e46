"""GPUs of this machine, through the library that its own search finds; `make test-gpu` runs these alone.

It names a folder for figures, and then it is an error that there is no GPU. Otherwise the tests are skipped:
a process that has loaded the pretended driver would find that one, as it has the same name.
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
def gpu(request: pytest.FixtureRequest, gpu_results: Path | None) -> Iterator[None]:
    """The bindings, on a machine with a GPU."""
    if gpu_results is None:
        pytest.skip("for machines with GPUs: make test-gpu runs it")
    if reason := request.getfixturevalue("without_gpu"):
        pytest.exit(f"no GPU to test with: {reason}", returncode=2)
    with fresh_bindings():
        yield


@pytest.fixture
async def backend(gpu: None) -> AsyncIterator[NvmlBackend]:
    made = NvmlBackend(SystemClock())
    yield made
    await made.close()
