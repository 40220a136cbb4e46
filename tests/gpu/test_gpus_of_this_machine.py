"""The device contract, and the agent, on real GPUs. They are only looked at: no setting of theirs changes."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from support.device_contract import CHECKS, Check, agent_gives_every_device
from support.gpu_figures import record_of_gpus, write_record
from support.plugin_node import plugin_node
from support.smi_comparison import compared_with_nvidia_smi
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.decide.node.share import share
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.names import GPU

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_gpus_pass(backend: NvmlBackend, check: Check) -> None:
    await check(backend)


async def test_the_agent_gives_every_gpu(backend: NvmlBackend) -> None:
    resource = share(await backend.scan(), PluginConfig()).resource(GPU)
    if resource is None:
        pytest.skip("every GPU here has MIG enabled and no MIG devices")
    async with plugin_node() as node:
        await agent_gives_every_device(node, {slot.uuid for slot in resource.slots})


async def test_fields_are_those_of_nvidia_smi(backend: NvmlBackend) -> None:
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("no nvidia-smi in PATH: no field was compared with it")
    seen = await compared_with_nvidia_smi(backend, Path(program))
    print(f"compared with nvidia-smi: {len(seen.compared)} fields; it does not know: {seen.unknown}")
    assert seen.differences == ()
    assert "temperature_c" in seen.compared


async def test_figures_are_written(gpu_results: Path | None, request: pytest.FixtureRequest) -> None:
    assert gpu_results is not None
    day = date.fromisoformat(request.config.getoption("--gpu-date"))
    record = await record_of_gpus(day.isoformat())
    file = write_record(gpu_results, record)
    print(f"figures: {file}")
    assert file.stat().st_size
