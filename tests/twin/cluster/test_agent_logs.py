"""Many agents share the twin's process; each pod's log is its own agent's."""

from __future__ import annotations

import logging

import pytest

from support.fleet import Fleet
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import NODE


async def test_the_log_of_an_agents_pod_speaks_of_its_node(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tonnage")
    agent = (await fleet.kubectl("get", "pods", "-n", "tonnage-system", "-o", "name")).strip()
    label: JsonObject = {"nvidia.com/device-plugin.config": "shared"}
    await fleet.api.patch(NODE, "t4-0", {"metadata": {"labels": label}})
    log = ""

    async def told() -> bool:
        nonlocal log
        log = await fleet.kubectl("logs", "-n", "tonnage-system", agent)
        return "INFO resource registered: node=t4-0 resource=nvidia.com/gpu.shared\n" in log

    await fleet.until(told)
    assert all("node=t4-0" in line for line in log.splitlines())
