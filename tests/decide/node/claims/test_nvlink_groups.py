"""Groups of GPUs that NVLink joins, as claims can ask for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.claim_inputs import GPUS
from tonnage.decide.node.claims.nvlink_groups import NVLINK_GROUP, nvlink_groups
from tonnage.decide.node.claims.published import published_devices
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.links import NVSWITCH, Link, PciLevel
from tonnage.model.devices.sharing import PluginConfig


def links(*ends: tuple[int, int]) -> tuple[Link, ...]:
    """NVLinks both ways between these GPUs."""
    return tuple(Link(f"GPU-{a}", f"GPU-{b}", 2) for end in ends for a, b in (end, end[::-1]))


SWITCHED = tuple(Link(f"GPU-{n}", NVSWITCH, 12) for n in (0, 2))


@pytest.mark.parametrize(
    ("joined", "groups"),
    [
        pytest.param((), {}, id="none"),
        pytest.param((Link("GPU-0", "GPU-1", 0, PciLevel.SWITCH),), {}, id="by-pci-alone"),
        pytest.param(links((2, 1)), {"GPU-1": "gpu-1", "GPU-2": "gpu-1"}, id="a-bridge"),
        pytest.param(
            links((0, 1), (1, 2)), dict.fromkeys(("GPU-0", "GPU-1", "GPU-2"), "gpu-0"), id="a-chain"
        ),
        pytest.param(SWITCHED, {"GPU-0": "gpu-0", "GPU-2": "gpu-0"}, id="switches"),
        pytest.param(SWITCHED[:1], {}, id="switches-and-nobody-else"),
        pytest.param((Link("GPU-0", "GPU-9", 2),), {}, id="a-gpu-that-is-not-listed"),
    ],
)
def test_gpus_that_reach_each_other_are_one_group(joined: Any, groups: Any) -> None:
    assert nvlink_groups(Inventory(GPUS, links=joined)) == groups


def test_a_gpu_that_mig_divides_is_in_none_and_its_neighbours_say_theirs() -> None:
    gpus = (replace(GPUS[0], mig_enabled=True), *GPUS[1:])
    inventory = Inventory(gpus, links=links((0, 1), (1, 2), (0, 2)))
    published = published_devices(inventory, PluginConfig(claimed=("all",)))
    assert [device.texts.get(NVLINK_GROUP) for device in published] == [None, "gpu-1", "gpu-1"]
