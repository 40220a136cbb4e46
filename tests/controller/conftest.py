"""A cluster of the twin with NVIDIA's kinds, on which a test begins controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from controller.driver_bench import DriverBench


@pytest.fixture
async def bench() -> AsyncIterator[DriverBench]:
    bench = DriverBench()
    await bench.install()
    yield bench
    for task in bench.tasks:
        task.cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)
