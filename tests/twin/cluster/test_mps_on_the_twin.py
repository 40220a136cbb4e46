"""MPS on the twin: the agent runs a pretended control program, and everybody hears when it is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.fleet import Fleet, running_fleet
from tonnage.wire.kinds import EVENT, NODE

SHARED = "nvidia.com/gpu.shared"
SCENARIO = """
name: steady
groups:
- {name: t4, nodes: 1, gpu: {model: T4, count: 1}}
configs:
  default:
    version: v1
    flags: {mpsRoot: /run/nvidia/mps}
    sharing:
      mps:
        renameByDefault: true
        resources: [{name: nvidia.com/gpu, replicas: 8}]
"""


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with running_fleet(SCENARIO) as fleet:
        await fleet.until(lambda: _is_there(fleet))
        yield fleet


async def _is_there(fleet: Fleet) -> bool:
    return bool((await fleet.api.list(NODE)).items)


def daemon(fleet: Fleet) -> int:
    """The process id of the node's daemon."""
    folder = fleet.gpu_node.root / "run/nvidia/mps" / SHARED / "pipe"
    return int((folder / "nvidia-cuda-mps-control.pid").read_text())


async def ready(fleet: Fleet) -> Any:
    """The condition `MPSReady`, None if the node has none."""
    conditions = (await fleet.api.get(NODE, "t4-0")).status.conditions
    return next((each for each in conditions if each.type == "MPSReady"), None)


async def test_shr_4_a_daemon_that_is_gone_is_seen_by_everybody_until_it_is_back(fleet: Fleet) -> None:
    async def offered() -> bool:
        found = await ready(fleet)
        return await fleet.allocatable(SHARED) == 8 and found is not None and found.status == "True"

    await fleet.until(offered)
    await fleet.run_pod("client", SHARED)
    await fleet.until_phase("client", "Running")
    assert "Test PASSED" in await fleet.kubectl("exec", "client", "--", "vectoradd")
    program = fleet.gpu_node.mps
    program.fault("refuse")
    os.kill(daemon(fleet), signal.SIGKILL)

    async def withdrawn() -> bool:
        found = await ready(fleet)
        return await fleet.allocatable(SHARED) == 0 and found.status == "False"

    await fleet.until(withdrawn)
    assert await fleet.capacity(SHARED) == 8
    found = await ready(fleet)
    assert (found.reason, found.message.partition(":")[0]) == ("MPSDaemonNotReady", SHARED)
    said = await fleet.kubectl("exec", "client", "--", "sh", "-c", "vectoradd 2>&1 || true")
    assert "MPS client failed to connect to the MPS control daemon or the MPS server" in said

    async def published() -> bool:
        resources = (await fleet.gpu_status()).get("resources", [])
        return any("the pretended driver refuses" in each["mps"]["reason"] for each in resources)

    await fleet.until(published)

    async def told() -> bool:
        events = (await fleet.api.list(EVENT)).items
        return {"MpsDaemonReady", "MpsDaemonNotReady"} <= {event.reason for event in events}

    await fleet.until(told)
    program.fault()
    await fleet.until(offered)
    assert "Test PASSED" in await fleet.kubectl("exec", "client", "--", "vectoradd")
