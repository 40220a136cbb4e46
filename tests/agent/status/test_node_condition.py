"""The agent's conditions of its Node: what they say, and that they are kept so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.status.node_condition import (
    CHECKPOINT,
    NodeConditions,
    applied,
    health_of,
)
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.node.condition_report import MIG_APPLIED, MPS_READY, ConditionReport
from tonnage.wire.kinds import NODE

PART = MigDevice("MIG-1", 0, "1g.10gb", gpu_instance=0, compute_instance=0, memory_mib=1)
GPUS = (Device("GPU-0", 0, "x", 1), Device("GPU-1", 1, "x", 1, mig_enabled=True, migs=(PART,)))
LOST = replace(GPUS[0], healthy=False, reason="GPU is lost")
SICK_PART = replace(GPUS[1], migs=(replace(PART, healthy=False, reason="Xid 94"),))


@pytest.mark.parametrize(
    ("inventory", "error", "expected"),
    [
        pytest.param(None, "", ("Unknown", "DevicesNotReadYet", "being read"), id="before the first look"),
        pytest.param(
            None, "NVML: no\n  remedy: wait", ("False", "DevicesNotReadable", "NVML: no; remedy"), id="none"
        ),
        pytest.param(Inventory(GPUS), "", ("True", "AllGPUsHealthy", "2 of 2 GPUs are usable"), id="well"),
        pytest.param(Inventory(), "", ("True", "AllGPUsHealthy", "0 of 0"), id="no device"),
        pytest.param(
            Inventory((LOST, GPUS[1])),
            "",
            ("False", "SomeGPUsUnhealthy", "1 of 2 GPUs are usable; GPU-0: GPU is lost"),
            id="one is lost",
        ),
        pytest.param(Inventory((LOST,)), "", ("False", "NoGPUHealthy", "0 of 1"), id="all are lost"),
        pytest.param(
            Inventory((GPUS[0], SICK_PART)),
            "",
            ("False", "SomeGPUsUnhealthy", "2 of 2 GPUs are usable; MIG-1: Xid 94"),
            id="a part of one",
        ),
    ],
)
def test_what_the_devices_come_to(
    inventory: Inventory | None, error: str, expected: tuple[str, str, str]
) -> None:
    found = health_of(inventory, error)
    assert (found.status, found.reason) == expected[:2]
    assert expected[2] in found.message


RUNNING = ConfigChoice("", "a/b[inference]", "inference")


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        pytest.param(None, ("Unknown", "ConfigNotReadYet", "being read"), id="before the first look"),
        pytest.param(
            ConfigInForce(PluginConfig(), RUNNING),
            ("True", "ConfigApplied", "in force: a/b[inference]"),
            id="as asked for",
        ),
        pytest.param(
            ConfigInForce(PluginConfig(), RUNNING, "f:1:1 flags: wrong\n  remedy: right"),
            ("False", "ConfigRefused", "f:1:1 flags: wrong; remedy: right; in force: a/b[inference]"),
            id="refused",
        ),
        pytest.param(
            ConfigInForce(PluginConfig(remarks=("f:2:1 colour: unknown, left out",)), RUNNING),
            (
                "True",
                "ConfigOverlooked",
                "in force: a/b[inference]; overlooked: f:2:1 colour: unknown, left out",
            ),
            id="leniently read",
        ),
    ],
)
def test_what_the_configuration_comes_to(
    current: ConfigInForce | None, expected: tuple[str, str, str]
) -> None:
    found = applied(current)
    assert (found.status, found.reason) == expected[:2]
    assert expected[2] in found.message


def test_a_message_is_cut() -> None:
    assert len(applied(ConfigInForce(PluginConfig(), RUNNING, "x" * 5000)).message) == 1024


def report(status: str, message: str = "") -> ConditionReport:
    return ConditionReport(status, "Because", message)


@asynccontextmanager
async def running(
    folder: Path, cluster: Any, clock: Any, mps: ConditionReport, mig: ConditionReport
) -> AsyncIterator[NodeBoard]:
    """Two conditions say this; of devices and configuration nothing is known."""
    context = context_of("node-1", cluster, clock, FolderCheckpoints(folder))
    board = NodeBoard.blank(clock)
    task = asyncio.create_task(NodeConditions(context, board).run())
    board.mps_condition.publish(mps)
    board.mig_condition.publish(mig)
    try:
        yield board
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_both_are_written_kept_and_leave_others_alone(tmp_path: Path, cluster: Any, clock: Any) -> None:
    ready = {"type": "Ready", "status": "True"}
    cluster.put(NODE, "node-1", status={"conditions": [ready]})
    async with running(tmp_path, cluster, clock, report("True", "a"), report("Unknown")) as board:
        await cluster.until(lambda: MPS_READY in cluster.conditions("node-1"))
        first = cluster.conditions("node-1")
        assert first["Ready"] == ready
        assert MIG_APPLIED not in first, "what is not known is not said"
        board.mps_condition.publish(report("True", "b"))
        board.mig_condition.publish(report("False"))
        await cluster.until(lambda: MIG_APPLIED in cluster.conditions("node-1"))
        second = cluster.conditions("node-1")
        assert (second[MPS_READY]["message"], second[MIG_APPLIED]["status"]) == ("b", "False")
        assert second[MPS_READY]["lastTransitionTime"] == first[MPS_READY]["lastTransitionTime"]


async def test_since_when_survives_a_restart(tmp_path: Path, cluster: Any, clock: Any) -> None:
    cluster.put(NODE, "node-1")
    (tmp_path / "state").mkdir()
    folder = FolderCheckpoints(tmp_path / "state")
    await folder.save(
        CHECKPOINT, b'{"MPSReady": ["True", "2020-01-01T00:00:00Z"], "MIGConfigApplied": ["True", "x"]}'
    )
    async with running(tmp_path / "state", cluster, clock, report("True"), report("False")):
        await cluster.until(lambda: MPS_READY in cluster.conditions("node-1"))
    found = cluster.conditions("node-1")
    assert found[MPS_READY]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert found[MIG_APPLIED]["lastTransitionTime"] == found[MIG_APPLIED]["lastHeartbeatTime"]


@pytest.mark.parametrize("payload", [b"[]", b'{"MPSReady": 3}', b"{"])
async def test_what_was_kept_and_makes_no_sense_is_forgotten(
    tmp_path: Path, cluster: Any, clock: Any, payload: bytes
) -> None:
    cluster.put(NODE, "node-1")
    await FolderCheckpoints(tmp_path).save(CHECKPOINT, payload)
    async with running(tmp_path, cluster, clock, report("True"), report("True")):
        await cluster.until(lambda: MPS_READY in cluster.conditions("node-1"))


@pytest.mark.parametrize("forbidden", [True, False])
async def test_a_refusal_is_said_once_and_tried_again(
    tmp_path: Path, cluster: Any, clock: Any, caplog: pytest.LogCaptureFixture, forbidden: bool
) -> None:
    if forbidden:
        cluster.put(NODE, "node-1")
        cluster.forbidden = {"nodes/status"}
    asked = asyncio.Event()
    refuse = cluster.patch

    async def patch(*arguments: Any, **options: Any) -> Any:
        asked.set()
        return await refuse(*arguments, **options)

    cluster.patch = patch
    async with running(tmp_path, cluster, clock, report("True"), report("True")) as board:
        await asked.wait()
        board.mps_condition.publish(report("False"))
        cluster.forbidden = set()
        cluster.put(NODE, "node-1")
        await cluster.until(lambda: cluster.conditions("node-1").get(MPS_READY, {}).get("status") == "False")
    assert sum("conditions not written" in record.message for record in caplog.records) == 1
