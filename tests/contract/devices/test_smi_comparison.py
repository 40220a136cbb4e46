"""The comparison of our fields with nvidia-smi, over the pretended driver and its nvidia-smi."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.nvidia_smi import install
from support.nvml.state import DriverState, FakeGpu
from support.smi_comparison import FIELDS, PAIRS, compared_with_nvidia_smi
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.model.catalog.metrics import device_fields

BUSY: dict[str, int | str] = {
    "memory-used-mib": 4321,
    "gpu-utilization": 40,
    "memory-utilization": 30,
    "temperature": 61,
    "power-mw": 412_345,
    "clock-sm": 1755,
    "clock-reasons": 0x44,
    "performance-state": 2,
    "ecc-corrected-volatile": 3,
    "ecc-uncorrected-aggregate": 2,
    "remapped-uncorrected": 1,
    "remap-pending": 1,
    "compute-mode": 3,
    "persistence": 0,
    "fan-percent": 33,
    "pcie-width": 8,
}
GPUS = DriverState((FakeGpu(0, facts=BUSY), FakeGpu(1), FakeGpu(2, "L40S"), FakeGpu(3, "T4")))
OTHER: dict[str, int | str] = {
    "memory-used-mib": 9000,
    "temperature": 80,
    "power-mw": 212_345,
    "clock-sm": 345,
    "pcie-width": 16,
    "gpu-utilization": 90,
    "ecc-corrected-volatile": 4,
    "remap-pending": 0,
    "compute-mode": 0,
    "persistence": 1,
    "fan-percent": 80,
    "vbios": "1.2",
    "memory-mib": 40_960,
    "power-limit-mw": 300_000,
}
WRONG = frozenset(
    {
        *("memory_used_mib", "temperature_c", "power_w", "clock_sm_mhz", "utilization_percent"),
        *("ecc_corrected_volatile", "row_remap_pending", "compute_mode", "persistence_mode", "fan_percent"),
        *("vbios_version", "memory_total_mib", "memory_free_mib", "power_limit_w"),
        *("enforced_power_limit_w", "power_instant_w"),
    }
)


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[NvmlBackend]:
    with fresh_bindings():
        root = Driver(tmp_path / "driver", GPUS).root
        made = NvmlBackend(SystemClock(), root=root, driver_root=root)
        yield made
        await made.close()


def test_every_pair_is_of_a_field_that_is_served() -> None:
    assert device_fields().keys() >= FIELDS
    assert len(FIELDS) == len(PAIRS) == len({pair.smi for pair in PAIRS})


async def test_our_fields_are_those_of_nvidia_smi(backend: NvmlBackend, tmp_path: Path) -> None:
    seen = await compared_with_nvidia_smi(backend, install(tmp_path / "driver"))
    assert seen.differences == ()
    never = FIELDS - seen.compared.keys()
    of_unknown = {pair.ours for pair in PAIRS if pair.smi in seen.unknown}
    assert never <= of_unknown, "nvidia-smi knows these, and no GPU has them"
    assert seen.compared["temperature_c"] == 4
    assert seen.compared["fan_percent"] == 1
    assert len(seen.compared) >= 50


async def test_what_differs_is_named(backend: NvmlBackend, tmp_path: Path) -> None:
    others = (replace(GPUS.gpus[0], facts={**BUSY, **OTHER}), *GPUS.gpus[1:])
    program = install(Driver(tmp_path / "another", DriverState(others)).root)
    seen = await compared_with_nvidia_smi(backend, program)
    assert {line.split()[1] for line in seen.differences} == WRONG
    assert {line.partition(":")[0] for line in seen.differences} == {GPUS.gpus[0].identity}


async def test_a_gpu_that_we_lack_is_named(backend: NvmlBackend, tmp_path: Path) -> None:
    program = install(Driver(tmp_path / "more", DriverState((*GPUS.gpus, FakeGpu(4)))).root)
    (line,) = (await compared_with_nvidia_smi(backend, program)).differences
    assert "nvidia-smi has this GPU, and we have not" in line
