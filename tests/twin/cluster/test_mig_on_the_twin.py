"""MIG devices of pretended GPUs, from the node's hardware to pods: strategies change under running pods."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.fleet import Fleet, running_fleet
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import NODE

GPU, SMALL, LARGE = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
SCENARIO = """
name: divided
groups:
- {name: a100, nodes: 1, gpu: {model: A100-40, count: 3}}
- {name: ready, nodes: 1, gpu: {model: A100-40, count: 2, mig: [3g.20gb, 1g.5gb, 1c.2g.10gb]}}
configs:
  default: {version: v1, flags: {migStrategy: mixed}}
  single: {version: v1, flags: {migStrategy: single}}
  none: {version: v1}
  shared:
    version: v1
    flags: {migStrategy: mixed}
    sharing:
      timeSlicing: {renameByDefault: true, resources: [{name: mig-1g.5gb, replicas: 3, devices: ['1:0']}]}
"""


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with running_fleet(SCENARIO) as fleet:
        await fleet.until(lambda: _is_there(fleet))
        yield fleet


async def _is_there(fleet: Fleet) -> bool:
    return len((await fleet.api.list(NODE)).items) == 2


async def offers(fleet: Fleet, **expected: int) -> None:
    """Return once the node offers this many of each: `whole`, `small`, `large`, `shared`."""
    names = {"whole": GPU, "small": SMALL, "large": LARGE, "shared": f"{SMALL}.shared"}

    async def so() -> bool:
        found = {word: await fleet.allocatable(name, "a100-0") for word, name in names.items()}
        return {word: max(count, 0) for word, count in found.items()} == dict.fromkeys(names, 0) | expected

    await fleet.until(so)


async def choose(fleet: Fleet, key: str) -> None:
    labels: JsonObject = {"nvidia.com/device-plugin.config": key}
    await fleet.api.patch(NODE, "a100-0", {"metadata": {"labels": labels}})


async def test_cards_that_a_scenario_divides_are_offered_in_parts(fleet: Fleet) -> None:
    async def so() -> bool:
        names = (GPU, SMALL, LARGE, "nvidia.com/mig-1c.2g.10gb")
        return [await fleet.allocatable(name, "ready-0") for name in names] == [-1, 2, 2, 2]

    await fleet.until(so)


async def test_a_fleet_is_divided_and_its_strategy_changed_under_running_pods(fleet: Fleet) -> None:
    hardware = fleet.cluster.nodes["a100-0"].hardware
    await offers(fleet, whole=3)
    hardware.divide(1, "1g.5gb", "1g.5gb", "3g.20gb")
    await offers(fleet, whole=2, small=2, large=1)
    await fleet.run_pod("part", SMALL)
    await fleet.until_phase("part", "Running")

    await choose(fleet, "single")  # most of its devices are whole ones
    await offers(fleet, whole=2)
    hardware.divide(2, "3g.20gb", "3g.20gb")
    hardware.divide(0, "3g.20gb")
    await offers(fleet, whole=3)

    async def is_told() -> bool:
        problems = (await fleet.gpu_status("a100-0")).get("problems", [])
        return any("device 1 " in one and "more than one MIG device type" in one for one in problems)

    await fleet.until(is_told)

    await choose(fleet, "none")  # each of them whole, but for the one of which a part is held
    await offers(fleet, whole=2)
    await choose(fleet, "shared")  # the part that is held is not shared as well
    await offers(fleet, small=1, large=4)
    await fleet.kubectl("delete", "pod", "part", "--now")
    await offers(fleet, small=1, large=4, shared=3)
    await choose(fleet, "none")
    await offers(fleet, whole=3)


async def says(fleet: Fleet) -> tuple[str, str]:
    """(state, reason) of the node's layout."""
    meta = (await fleet.api.get(NODE, "a100-0")).metadata
    reason = meta.annotations.get("nvidia.com/mig.config.state.reason", "")
    return meta.labels.get("nvidia.com/mig.config.state", ""), reason


async def asks(fleet: Fleet, layout: str) -> None:
    await fleet.api.patch(NODE, "a100-0", {"metadata": {"labels": {"nvidia.com/mig.config": layout}}})


async def test_mig_4_a_label_divides_a_node_once_nobody_is_in_the_way(fleet: Fleet) -> None:
    await offers(fleet, whole=3)
    await asks(fleet, "all-balanced")
    await offers(fleet, small=6, large=3)
    await fleet.run_pod("part", LARGE)
    await fleet.until_phase("part", "Running")
    await asks(fleet, "all-1g.5gb")

    async def waits() -> bool:
        state, reason = await says(fleet)
        return state == "pending" and reason.endswith("is used by default/part")

    await fleet.until(waits)
    await offers(fleet, small=6, large=3)
    await fleet.kubectl("delete", "pod", "part", "--now")
    await offers(fleet, small=21)

    async def done() -> bool:
        return await says(fleet) == ("success", "")

    await fleet.until(done)
    await asks(fleet, "all-disabled")
    await offers(fleet, whole=3)
