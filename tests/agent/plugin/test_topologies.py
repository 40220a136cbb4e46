"""What the agent knows of links: at once for few devices, soon for more, anew only when they change."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from support.looking import PATIENCE_S
from support.topologies import bridged_pairs, dgx1, partitions
from tonnage.agent.plugin.topologies import Topologies
from tonnage.decide.node.preference.prefer import prefer
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import PluginConfig, SharedResource
from tonnage.model.names import GPU, ResourceName

WHOLE = PluginConfig()


def following(inventory: Inventory, config: PluginConfig = WHOLE) -> Topologies:
    topologies = Topologies("node-0")
    topologies.follow(share(inventory, config), inventory)
    return topologies


def has_tables(topologies: Topologies) -> bool:
    topology = topologies.of(GPU)
    return topology is not None and topology.tables is not None


async def turns_until_tables(topologies: Topologies) -> int:
    """How often others had their turn until all was worked out."""
    running, turns = asyncio.create_task(topologies.run()), 0
    async with asyncio.timeout(PATIENCE_S):
        while not has_tables(topologies):
            await asyncio.sleep(0)
            turns += 1
    running.cancel()
    return turns


def test_eight_devices_are_worked_out_at_once() -> None:
    inventory = dgx1()
    (resource,) = share(inventory, WHOLE).resources
    topology = following(inventory).of(GPU)
    available = [slot.id for slot in resource.slots]
    assert prefer(resource, available, (), 2, topology=topology) == ("GPU-0", "GPU-3")


async def test_sixteen_devices_are_worked_out_while_others_run() -> None:
    topologies = following(bridged_pairs(16))
    assert topologies.of(GPU) is not None
    assert not has_tables(topologies)
    assert await turns_until_tables(topologies) > 100


def test_health_changes_nothing() -> None:
    inventory = dgx1()
    topologies = following(inventory)
    before = topologies.of(GPU)
    sick = tuple(replace(device, healthy=False, reason="Xid 79") for device in inventory.devices)
    again = replace(inventory, devices=sick, links=tuple(replace(link) for link in inventory.links))
    topologies.follow(share(again, WHOLE), again)
    assert topologies.of(GPU) is before


async def test_changed_links_are_worked_out_anew_and_old_work_is_given_up() -> None:
    topologies = following(bridged_pairs(16))
    running = asyncio.create_task(topologies.run())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not has_tables(topologies)
    fewer = replace(bridged_pairs(16), links=bridged_pairs(16).links[:8])
    topologies.follow(share(fewer, WHOLE), fewer)
    await turns_until_tables(topologies)
    running.cancel()
    topology = topologies.of(GPU)
    assert topology is not None
    assert topology.matrix.best[0][1] == 2400
    assert topology.matrix.best[14][15] == 99


def test_shared_devices_have_no_topology() -> None:
    shared = PluginConfig((SharedResource(GPU, GPU, 4),))
    assert following(dgx1(), shared).of(GPU) is None


async def test_many_devices_of_many_kinds_stay_without_tables() -> None:
    topologies = following(partitions(8, 8))
    running = asyncio.create_task(topologies.run())
    for _ in range(5):
        await asyncio.sleep(0)
    running.cancel()
    assert topologies.of(GPU) is not None
    assert not has_tables(topologies)


def test_a_choice_is_explained_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """NVIDIA's users cannot tell whether NVLinks counted (pain 5)."""
    caplog.set_level(logging.INFO)
    topologies = following(dgx1())
    caplog.clear()
    topologies.explain(GPU, ("GPU-0", "GPU-3"), of=8)
    topologies.explain(GPU, ("GPU-0", "GPU-5"), of=8)
    topologies.explain(GPU, ("GPU-0",), of=8)
    topologies.explain(ResourceName("nvidia.com/gpu.shared"), ("GPU-0::1", "GPU-0::2"), of=8)
    linked, apart = caplog.messages
    assert linked.endswith("ids=GPU-0,GPU-3 of=8 slowest_pair_gb_s=40.0 exact=True")
    assert "slowest_pair_gb_s=6.0" in apart
