"""The agent as a process over a driver of which one GPU of eight fails: what kubelet is told and given."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.device_contract import preferred
from support.driver_root import Driver
from support.nvml.state import DriverState, FakeGpu, Rule, switched
from support.plugin_node import PATIENCE_S, PluginNode, allocate, first_list, page, plugin_node

pytestmark = pytest.mark.long

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


FAULTS: dict[str, tuple[Callable[[Driver], None], bool]] = {
    "is lost": (lambda driver: driver.lose(3), True),
    "hangs": (lambda driver: driver.rule(Rule("hang", "*", slot=3)), True),
    "does not say who it is": (lambda driver: driver.rule(Rule("error", "nvmlDeviceGetUUID", 3, 15)), True),
    "reports an error that asks for a reboot": (lambda driver: driver.xid(3, 79), True),
    "denies its links": (lambda driver: driver.become(without_links_of(driver.state, 3)), False),
    "says that half of its links are down": (lambda driver: driver.become(half_down(driver.state, 3)), False),
    "hangs over its links": (lambda driver: driver.rule(Rule("hang", "nvmlDeviceGetNvLinkState", 3)), False),
    "takes its time": (lambda driver: driver.rule(Rule("slow", "*", 3, 5000)), False),
}
"""What happens to GPU-3, and whether it may be used no longer."""


def without_links_of(state: DriverState, slot: int) -> DriverState:
    """Its links, seen from that GPU, are not there; the others know of none of this."""
    return replace(state, links=tuple(link for link in state.links if link.slot != slot))


def half_down(state: DriverState, slot: int) -> DriverState:
    down = [replace(link, active=link.slot != slot or link.link % 2 == 0) for link in state.links]
    return replace(state, links=tuple(down))


@pytest.mark.parametrize("fault", FAULTS)
async def test_while_one_of_eight_has_a_fault_the_seven_others_are_preferred_and_given(
    node: PluginNode, driver: Driver, fault: str
) -> None:
    happens, unusable = FAULTS[fault]
    if not unusable:
        happens(driver)
    await start(node, driver)
    async with node.channel() as channel:
        stream, ids = await first_list(channel)
        assert ids == EIGHT
        if unusable:
            happens(driver)
            driver.xid(0, 31)  # harmless, and makes the agent look now
            assert await unhealthy(stream, bool) == {"GPU-3"}
        others = sorted(EIGHT - {"GPU-3"})
        for size in range(1, 8):
            chosen = await preferred(channel, others, size)
            assert len(chosen) == len(chosen & set(others)) == size
        usable = EIGHT - {"GPU-3"} if unusable else EIGHT
        assert await preferred(channel, sorted(EIGHT), len(usable)) == usable
        for device in others:
            assert await allocate(channel, device) == ""
        assert ("GPU-3 is unhealthy" in await allocate(channel, "GPU-3")) == unusable
    assert node.agent is not None
    assert node.agent.returncode is None


async def test_an_error_takes_every_replica_out_on_every_stream(node: PluginNode, driver: Driver) -> None:
    """#1929: an Xid 79 on a GPU with 10 replicas marked 1 of 40 ids, and told one stream of several."""
    config = node.root / "config.yaml"
    config.write_text("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}")
    await node.start_kubelet()
    flags = ("--driver-root-ctr-path", str(driver.root), "--config-file", str(config))
    await node.start_agent(*flags, devices="nvml")
    replicas = {f"GPU-2::{number}" for number in range(10)}
    async with node.channel() as channel:
        streams = [(await first_list(channel))[0] for _ in range(2)]
        driver.xid(2, 79)
        for stream in streams:
            async with asyncio.timeout(PATIENCE_S):
                while not (bad := {d.ID for d in (await anext(stream)).devices if d.health != "Healthy"}):
                    pass
            assert bad == replicas
        assert "GPU-2::7 is unhealthy (Xid 79" in await allocate(channel, "GPU-2::7")
        assert await allocate(channel, "GPU-3::7") == ""
