"""Pretended devices are joined as those of the boards that they come on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.adapters.clock import SystemClock
from tonnage.decide.node.preference.device_sets import board_of
from tonnage.documents.hardware import Hardware
from tonnage.documents.scenario import parse_scenario
from tonnage.documents.yaml.source import parse_document
from tonnage.model.devices.links import NVSWITCH, Link
from tonnage.model.errors import ConfigError
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.machines import hardware_of


@pytest.mark.parametrize(
    ("model", "nvlinks"), [("T4", 0), ("L40S", 0), ("A100-80", 12), ("H100-80", 18), ("B200", 18)]
)
async def test_links_follow_from_the_model(tmp_path: Path, model: str, nvlinks: int) -> None:
    file = tmp_path / "hardware.yaml"
    file.write_text(f"devices: [{{uuid: GPU-a, model: {model}}}, {{uuid: GPU-b, model: {model}}}]")
    inventory = await ScenarioBackend(file, SystemClock()).scan()
    expected = (Link("GPU-a", NVSWITCH, nvlinks), Link("GPU-b", NVSWITCH, nvlinks))
    assert inventory.links == (expected if nvlinks else ())


PAIRS = """\
devices:
- {uuid: GPU-a, model: A100-80}
- {uuid: GPU-b, model: A100-80, nvlinksDown: 4}
- {uuid: GPU-c, model: A100-80}
links: [{gpus: [0, 1], nvlinks: 12, path: PIX}, {gpus: [1, 2], path: SYS}]
"""


async def test_links_that_are_given_replace_those_of_the_board(tmp_path: Path) -> None:
    file = tmp_path / "hardware.yaml"
    file.write_text(PAIRS)
    inventory = await ScenarioBackend(file, SystemClock()).scan()
    assert board_of(inventory.devices, inventory.links).ways == (
        ("X", "NV12", "SYS"),
        ("NV12", "X", "SYS"),
        ("SYS", "SYS", "X"),
    )
    assert [vitals.nvlinks_up for vitals in inventory.vitals] == [12, 8, None]


@pytest.mark.parametrize("pair", ["[0, 0]", "[0, 3]", "[0]"])
def test_a_link_between_gpus_that_are_not_there_is_refused(pair: str) -> None:
    with pytest.raises(ConfigError):
        parse_document(PAIRS.replace("[0, 1]", pair), Hardware, source="hardware.yaml")
    group = f"groups: [{{name: a, gpu: {{model: L40S, count: 2, links: [{{gpus: {pair}}}]}}}}]"
    with pytest.raises(ConfigError):
        parse_scenario(f"name: x\n{group}\n", source="x.yaml")


def test_a_scenario_gives_its_nodes_the_links() -> None:
    gpu = "{model: L40S, count: 2, links: [{gpus: [0, 1], path: PIX}]}"
    scenario = parse_scenario(f"name: x\ngroups: [{{name: a, gpu: {gpu}}}]\n", source="x.yaml")
    (link,) = hardware_of(scenario.groups[0], "a-0").links
    assert (link.gpus, link.path) == ((0, 1), "PIX")
