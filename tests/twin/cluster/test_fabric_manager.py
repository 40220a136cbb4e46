"""A board with NVSwitches whose Fabric Manager is late: the policy waits for it, and says since when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from support.fleet import Fleet, running_fleet
from tonnage.wire.kinds import CLUSTER_POLICY

SCENARIO = """
name: board
controller: true
groups:
- {name: h100, nodes: 1, gpu: {model: H100-80, count: 8}}
"""
POLICY = yaml.safe_load(
    (Path(__file__).parents[3] / "labs/time-slicing-by-policy/cluster-policy.yaml").read_text()
)


def set_up(fleet: Fleet, state: str) -> None:
    """Have Fabric Manager be so far."""
    hardware = fleet.cluster.nodes["h100-0"].hardware
    hardware.write(hardware.read().model_copy(update={"fabric": state}))


async def message(fleet: Fleet, state: str) -> str:
    """What the policy says of itself once it is so."""
    status: dict[str, Any] = {}

    async def is_so() -> bool:
        status.update((await fleet.api.get(CLUSTER_POLICY, "cluster-policy")).status)
        return status.get("state") == state

    await fleet.until(is_so)
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    return str(conditions["Ready"]["message"])


async def test_a_board_waits_for_fabric_manager_and_says_since_when() -> None:
    async with running_fleet(SCENARIO) as fleet:
        set_up(fleet, "in progress")

        async def is_reported() -> bool:
            return "fabricWaitsSince" in await fleet.gpu_status("h100-0")

        await fleet.until(is_reported)
        since = (await fleet.gpu_status("h100-0"))["fabricWaitsSince"]
        await fleet.api.create(CLUSTER_POLICY, POLICY)
        assert await message(fleet, "notReady") == (
            "1 of 1 GPU nodes are not ready\n"
            "h100-0: the NVLink fabric is not set up for GPUs 0, 1, 2, 3, 4, 5, 6, 7: in progress since"
            f" {since}; on h100-0, in the driver's version: systemctl status nvidia-fabricmanager"
        )
        set_up(fleet, "failed")

        async def failed() -> bool:
            return f": failed since {since}" in await message(fleet, "notReady")

        await fleet.until(failed)
        set_up(fleet, "completed")
        assert await message(fleet, "ready") == "all 1 GPU nodes are ready"
        assert "fabricWaitsSince" not in await fleet.gpu_status("h100-0")
