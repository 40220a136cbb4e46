"""Errors of GPUs on the twin, from the pretended driver to what everybody sees of the Node."""

from __future__ import annotations

import asyncio
from typing import Any

from support.fleet import Fleet
from tonnage.wire.kinds import EVENT, NODE, NODE_GPU_STATUS, POD

NODE_NAME = "t4-0"


async def condition(fleet: Fleet) -> Any:
    node = await fleet.api.get(NODE, NODE_NAME)
    return next((each for each in node.status.conditions if each.type == "GPUsHealthy"), None)


async def test_an_error_that_asks_for_a_reboot_stays_until_one(fleet: Fleet) -> None:
    """KUB-2"""
    hardware = fleet.gpu_node.hardware
    hardware.report(1, 31)  # a program's
    hardware.report(1, 79)

    async def told() -> bool:
        found = await condition(fleet)
        return found is not None and found.status == "False" and await fleet.allocatable() == 1

    await fleet.until(told)
    found = await condition(fleet)
    reason = "Xid 79: GPU has fallen off the bus; needs a reboot of the node"
    assert found.reason == "SomeGPUsUnhealthy"
    assert found.message.startswith("1 of 2 GPUs are usable; ")
    assert found.message.endswith(f": {reason}")
    assert await fleet.capacity() == 2

    async def shown() -> bool:
        status = (await fleet.api.get(NODE_GPU_STATUS, NODE_NAME)).status
        return [device.get("reason", "") for device in status["devices"]] == ["", reason]

    await fleet.until(shown)

    async def posted() -> bool:
        events = (await fleet.api.list(EVENT)).items
        told = [event.message.partition(": ")[2] for event in events if event.reason == "DeviceUnhealthy"]
        return told == [reason]

    await fleet.until(posted)
    hardware.write(hardware.read().model_copy(update={"boot": "2"}))

    async def well() -> bool:
        return (await condition(fleet)).status == "True" and await fleet.allocatable() == 2

    await fleet.until(well)


async def test_a_gpu_that_hangs_is_out_alone(fleet: Fleet) -> None:
    fleet.gpu_node.hardware.set_health(0, "hung")

    async def out() -> bool:
        return await fleet.allocatable() == 1

    await fleet.until(out)
    await fleet.run_pod("other")
    await fleet.until_phase("other", "Running")


async def test_a_restart_of_the_agents_pod_heals_nobody(fleet: Fleet) -> None:
    fleet.gpu_node.hardware.report(0, 81)

    async def out() -> bool:
        return await fleet.allocatable() == 1

    await fleet.until(out)
    agents = await fleet.api.list(
        POD, namespace="tonnage-system", field_selector=f"spec.nodeName={NODE_NAME}"
    )
    seen: list[int] = []

    async def gone() -> bool:
        seen.append(await fleet.allocatable())
        return seen[-1] == 0

    waiting = asyncio.create_task(fleet.until(gone))
    await fleet.api.delete(POD, agents.items[0].metadata.name, namespace="tonnage-system", grace_period_s=0)
    await waiting
    await fleet.until(out)
    fleet.gpu_node.hardware.exchange(0, "GPU-11111111-2222-3333-4444-555555555555")

    async def back() -> bool:
        return await fleet.allocatable() == 2

    await fleet.until(back)
