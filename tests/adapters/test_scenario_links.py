"""Pretended devices are joined as those of the boards that they come on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.scenario import ScenarioBackend
from tonnage.model.links import NVSWITCH, Link


@pytest.mark.parametrize(
    ("model", "nvlinks"), [("T4", 0), ("L40S", 0), ("A100-80", 12), ("H100-80", 18), ("B200", 18)]
)
async def test_links_follow_from_the_model(tmp_path: Path, model: str, nvlinks: int) -> None:
    file = tmp_path / "hardware.yaml"
    file.write_text(f"devices: [{{uuid: GPU-a, model: {model}}}, {{uuid: GPU-b, model: {model}}}]")
    inventory = await ScenarioBackend(file, SystemClock()).scan()
    expected = (Link("GPU-a", NVSWITCH, nvlinks), Link("GPU-b", NVSWITCH, nvlinks))
    assert inventory.links == (expected if nvlinks else ())
