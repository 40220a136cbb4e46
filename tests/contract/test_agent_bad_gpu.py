"""The agent as a process over a driver of which one GPU of eight fails: what kubelet is told and given."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver_root import Driver
from support.nvml.state import DriverState, FakeGpu, Rule, switched
from support.plugin_node import PATIENCE_S, PluginNode, allocate, first_list, page, plugin_node

EIGHT = {f"GPU-{slot}" for slot in range(8)}


@pytest.fixture
def driver() -> Iterator[Driver]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        gpus = tuple(FakeGpu(slot, uuid=f"GPU-{slot}") for slot in range(8))
        made = Driver(Path(folder), DriverState(gpus, links=switched(range(8))))
        yield made
        made.rule()


@pytest.fixture
async def node() -> AsyncIterator[PluginNode]:
    async with plugin_node() as made:
        yield made


async def start(node: PluginNode, driver: Driver) -> None:
    await node.start_kubelet()
    flags = ("--driver-root-ctr-path", str(driver.root), "--metrics-address", "127.0.0.1:0")
    await node.start_agent(*flags, devices="nvml")


async def unhealthy(stream: AsyncIterator[Any], until: Callable[[set[str]], bool]) -> set[str]:
    """Ids that are unhealthy, once the condition holds for them; every list has all eight."""
    async with asyncio.timeout(PATIENCE_S):
        async for message in stream:
            assert {device.ID for device in message.devices} == EIGHT
            found = {device.ID for device in message.devices if device.health != "Healthy"}
            if until(found):
                return found
    raise AssertionError("the stream ended")


async def test_one_that_hangs_is_out_alone_and_holds_up_nobody_not_even_the_end(
    node: PluginNode, driver: Driver
) -> None:
    await start(node, driver)
    async with node.channel() as channel:
        stream, ids = await first_list(channel)
        assert ids == EIGHT
        driver.rule(Rule("hang", "*", slot=3))
        driver.xid(0, 31)  # harmless, and makes the agent look now
        assert await unhealthy(stream, bool) == {"GPU-3"}
        assert "GPU-3 is unhealthy (GPU does not answer)" in await allocate(channel, "GPU-3")
        assert await allocate(channel, "GPU-4") == ""
        driver.xid(5, 95)
        assert await unhealthy(stream, lambda found: "GPU-5" in found) == {"GPU-3", "GPU-5"}
        port = await node.port()
        assert await page(port, "/healthz") == (200, "ok\n")
        assert (await page(port, "/readyz"))[0] == 200
        assert node.agent is not None
        node.agent.send_signal(signal.SIGTERM)
        assert await node.ends() == 0


async def test_every_stream_is_told_and_a_restart_of_the_agent_heals_nobody(
    node: PluginNode, driver: Driver
) -> None:
    await start(node, driver)
    async with node.channel() as channel:
        streams = [(await first_list(channel))[0] for _ in range(3)]
        driver.xid(6, 81)
        for stream in streams:
            assert await unhealthy(stream, bool) == {"GPU-6"}
        assert node.agent is not None
        node.agent.send_signal(signal.SIGTERM)
        assert await node.ends() == 0
    await start_again(node, driver)
    async with node.channel() as channel:
        refused = await allocate(channel, "GPU-6")
    assert "Xid 81: VGA subsystem error; needs inspection or replacement" in refused


async def start_again(node: PluginNode, driver: Driver) -> None:
    flags = ("--driver-root-ctr-path", str(driver.root))
    await node.start_agent(*flags, devices="nvml")


async def test_one_that_is_lost_at_the_start_keeps_nobody_from_the_others(
    node: PluginNode, driver: Driver
) -> None:
    """Pain 3, #231 #2038: one dead GPU blocks every pod on the node."""
    driver.lose(0)
    await start(node, driver)
    async with node.channel() as channel:
        _, ids = await first_list(channel)
        assert ids == EIGHT - {"GPU-0"}
        assert await allocate(channel, "GPU-7") == ""
