"""From a fault of one GPU of eight to the update on every ListAndWatch stream, by an independent client.

The agent is a process over the pretended driver of the tests. A hang is a fault from the moment at which the
driver owes an answer; it shows after the deadline of the call, beside which it stands.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.driver_root import Driver
from support.nvml.state import Rule, h100_node
from support.plugin_node import PluginNode, first_list, plugin_node

STREAMS = 4
PATIENCE_S = 120.0


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds until the last of the streams has the device as unhealthy, or as healthy again."""
    figures: dict[str, list[float]] = {
        f"Xid to the update on {STREAMS} streams, s (wanted: under 1)": [],
        f"GPU lost to the update on {STREAMS} streams, s (wanted: under 1)": [],
        f"GPU hangs, and is asked, to the update on {STREAMS} streams, s (deadline: 5)": [],
        f"hanging GPU answers again to healthy on {STREAMS} streams, s (watched: 5)": [],
        "agent while one GPU hangs: processes that read the others": [],
    }
    for _ in range(rounds):
        for values, value in zip(figures.values(), asyncio.run(_one_round()), strict=True):
            values.append(value)
    return figures


async def _one_round() -> tuple[float, ...]:
    async with _agent() as (node, driver, streams):
        uuids = [gpu.identity for gpu in driver.state.gpus]
        xid = await _until(streams, lambda: driver.xid(1, 95), uuids[1], healthy=False)
        lost = await _until(streams, lambda: driver.lose(2), uuids[2], healthy=False)

        def hang() -> None:
            driver.rule(Rule("hang", "*", slot=3))
            driver.xid(0, 31)  # harmless; makes the agent look

        hung = await _until(streams, hang, uuids[3], healthy=False)
        await asyncio.sleep(3)
        assert node.agent is not None
        children = _children(node.agent.pid)
        back = await _until(streams, driver.rule, uuids[3], healthy=True)
    return xid, lost, hung, back, float(children)


@asynccontextmanager
async def _agent() -> AsyncIterator[tuple[PluginNode, Driver, list[AsyncIterator[Any]]]]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        driver = Driver(Path(folder), h100_node(8))
        async with plugin_node() as node:
            await node.start_kubelet()
            await node.start_agent("--driver-root-ctr-path", str(driver.root), devices="nvml")
            async with node.channel() as channel:
                yield node, driver, [(await first_list(channel))[0] for _ in range(STREAMS)]
        driver.rule()


def _children(pid: int) -> int:
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


async def _until(
    streams: list[AsyncIterator[Any]], deed: Callable[[], None], uuid: str, *, healthy: bool
) -> float:
    async def shown(stream: AsyncIterator[Any]) -> None:
        async for message in stream:
            if {device.ID: device.health == "Healthy" for device in message.devices}.get(uuid) is healthy:
                return

    started = time.perf_counter()
    deed()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*map(shown, streams))
    return time.perf_counter() - started
