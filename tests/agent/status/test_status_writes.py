"""When NodeGPUStatus is written: at a change, at a heartbeat, and no more often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.status.publisher import StatusPublisher
from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.claims.offer import ClaimOffer
from tonnage.decide.node.offer import NodeOffer
from tonnage.decide.node.share import share
from tonnage.model.devices.claims import PublishedDevice
from tonnage.model.devices.inventory import Device, Inventory, Sample
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import ClusterError, Problem
from tonnage.model.node.software import NodeSoftware
from tonnage.ports.node import KubeletDevices
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.wire.kinds import NODE_GPU_STATUS


class WaitingClock:
    """Time that stands still until a sleeper is let go."""

    def __init__(self) -> None:
        self.sleepers: list[tuple[float, asyncio.Event]] = []
        self.passed_s = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.passed_s)

    def monotonic(self) -> float:
        return self.passed_s

    async def sleep(self, seconds: float) -> None:
        event = asyncio.Event()
        self.sleepers.append((seconds, event))
        await event.wait()


class AtOnce(ScenarioBackend):
    """Reads at once, in no thread."""

    async def sample(self, fields: Collection[str]) -> tuple[Sample, ...]:
        return ()


class _Kubelet:
    """A kubelet that has devices of another plugin, or is silent."""

    silent = False

    async def replicas(self) -> dict[tuple[str, str], int]:
        if self.silent:
            raise ClusterError(Problem("silent"))
        names = [("nvidia.com/gpu", "GPU-1"), ("nvidia.com/gpu", "GPU-0"), ("example.com/nic", "nic-0")]
        return dict.fromkeys(names, 1)


class Publishing:
    """A publisher that runs, and a clock for it."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.clock = clock = WaitingClock()
        context = context_of("node-1", cluster, clock, FolderCheckpoints(folder))
        self.board = NodeBoard.blank(clock)
        self.board.software.publish(NodeSoftware())
        self.kubelet = _Kubelet()
        asked = cast(KubeletDevices, self.kubelet)
        self.publisher = StatusPublisher(context, self.board, AtOnce(folder / "none", clock), asked)

    def show(self, count: int, *, offered: bool = True) -> None:
        """A node with so many devices."""
        config = ConfigInForce(PluginConfig(), ConfigChoice("", "built-in"), "")
        inventory = Inventory(tuple(Device(f"GPU-{i}", i, "A", 1) for i in range(count)))
        plan = share(inventory, config.config)
        plan = plan if offered else replace(plan, resources=())
        self.board.offer.publish(NodeOffer(inventory, config, plan, (), advertise(plan, ())))

    async def minutes(self, count: int) -> None:
        """Let so many pass, and whatever was to be written be written."""
        for _ in range(count):
            await self.seconds(60)

    async def seconds(self, passed_s: float) -> None:
        """Let these pass at once."""
        while due := [each for each in self.clock.sleepers if each[0] < 1]:
            await self.wake(due)
        self.clock.passed_s += passed_s
        await self.wake([each for each in self.clock.sleepers if 1 <= each[0] <= passed_s])

    async def wake(self, due: list[tuple[float, asyncio.Event]]) -> None:
        """Let these sleepers go, and what follows happen."""
        for each in due:
            self.clock.sleepers.remove(each)
            each[1].set()
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def publishing(cluster: Any, tmp_path: Path) -> AsyncIterator[Publishing]:
    scene = Publishing(cluster, tmp_path)
    task = asyncio.create_task(scene.publisher.run())
    yield scene
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _resources(cluster: Any) -> list[Any]:
    return [each["name"] for each in cluster.status("node-1").get("resources", [])]


async def test_an_agent_that_waits_tells_which_devices_kubelet_has_and_what_it_would_offer(
    cluster: Any, publishing: Publishing
) -> None:
    publishing.board.parts_off.publish(frozenset({"device-plugin"}))
    publishing.show(1, offered=False)
    await cluster.until(lambda: cluster.status("node-1"))
    listed = [{"resource": "nvidia.com/gpu", "uuids": ["GPU-0", "GPU-1"]}]
    assert cluster.status("node-1")["kubeletDevices"] == listed
    assert cluster.status("node-1")["devices"][0]["resource"] == "nvidia.com/gpu"
    assert _resources(cluster) == []
    publishing.kubelet.silent = True
    await publishing.minutes(1)
    await cluster.until(lambda: not cluster.status("node-1").get("kubeletDevices"))


async def test_an_agent_that_was_adopted_tells_soon_once_kubelet_has_its_devices(
    cluster: Any, publishing: Publishing
) -> None:
    publishing.kubelet.silent = True
    publishing.show(1)
    await cluster.until(lambda: cluster.status("node-1"))
    assert _resources(cluster) == ["nvidia.com/gpu"]
    assert not cluster.status("node-1").get("kubeletDevices")
    publishing.kubelet.silent = False
    await publishing.seconds(2)
    await cluster.until(lambda: cluster.status("node-1").get("kubeletDevices"))


async def test_a_flood_of_changes_is_one_write_in_a_quarter_of_a_second(
    cluster: Any, publishing: Publishing
) -> None:
    publishing.show(1)
    await cluster.until(lambda: cluster.status("node-1"))
    written = cluster.version
    for count in range(2, 60):
        publishing.show(count)
        await asyncio.sleep(0)
    assert cluster.version == written
    (pause,) = [event for seconds, event in publishing.clock.sleepers if seconds < 1]
    pause.set()
    await cluster.until(lambda: cluster.version > written)
    assert cluster.version == written + 1
    assert cluster.status("node-1")["deviceCount"] == 59


async def test_what_is_offered_no_more_leaves_the_status_and_validation_stays(
    cluster: Any, publishing: Publishing
) -> None:
    device = PublishedDevice("gpu-0", "GPU-0")
    publishing.board.claims.publish(ClaimOffer((device,)))
    publishing.show(1)
    await cluster.until(lambda: "claims" in (cluster.status("node-1") or {}))
    cluster.status("node-1")["validation"] = {"subject": "boot"}
    publishing.board.claims.publish(ClaimOffer(()))
    await publishing.minutes(1)
    await cluster.until(lambda: not cluster.status("node-1").get("claims"))
    assert cluster.status("node-1")["validation"] == {"subject": "boot"}


async def test_at_rest_a_heartbeat_is_all_that_is_written_in_a_minute(
    cluster: Any, publishing: Publishing
) -> None:
    publishing.show(1)
    await cluster.until(lambda: cluster.status("node-1"))
    first, written = cluster.status("node-1"), cluster.version
    for minute in range(1, 4):
        publishing.show(1)
        await publishing.minutes(1)
        assert cluster.version == written + minute
        status = cluster.status("node-1")
        assert status == {**first, "heartbeatAt": f"2026-01-01T00:0{minute}:00Z"}, "updatedAt is as it was"
    await publishing.minutes(57)
    assert cluster.version == written + 60, "one a minute"
    status = cluster.status("node-1")
    assert (status["updatedAt"], status["heartbeatAt"]) == ("2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z")


async def test_a_heartbeat_is_by_the_clock_of_the_api_server(cluster: Any, publishing: Publishing) -> None:
    cluster.server_ahead_s = -3600.0
    publishing.show(1)
    await cluster.until(lambda: cluster.status("node-1"))
    assert cluster.status("node-1")["heartbeatAt"] == "2025-12-31T23:00:00Z"
    await publishing.minutes(1)
    assert cluster.status("node-1")["heartbeatAt"] == "2025-12-31T23:01:00Z"


async def test_a_change_of_what_nobody_tells_is_written_within_a_minute(
    cluster: Any, publishing: Publishing
) -> None:
    publishing.show(1)
    await cluster.until(lambda: cluster.status("node-1"))
    publishing.board.software.publish(NodeSoftware(kubelet_version="1.36.0"))
    await publishing.minutes(2)
    assert cluster.status("node-1")["kubelet"]["version"] == "1.36.0"


async def test_a_deleted_status_comes_back_with_the_next_heartbeat(
    cluster: Any, publishing: Publishing
) -> None:
    publishing.show(1)
    await cluster.until(lambda: cluster.status("node-1"))
    cluster.remove(NODE_GPU_STATUS, "node-1")
    await publishing.minutes(1)
    assert cluster.status("node-1")["deviceCount"] == 1


async def test_a_server_that_was_away_at_the_start_is_written_to_soon(
    cluster: Any, publishing: Publishing
) -> None:
    cluster.reachable = False
    publishing.show(1)
    await publishing.seconds(0)
    cluster.reachable = True
    await publishing.seconds(6)
    assert cluster.status("node-1")["deviceCount"] == 1


async def test_what_was_refused_is_written_once_it_may_be(cluster: Any, publishing: Publishing) -> None:
    cluster.reachable = False
    publishing.show(1)
    await publishing.minutes(3)
    assert not cluster.status("node-1")
    cluster.reachable = True
    await publishing.minutes(2)
    assert cluster.status("node-1")["deviceCount"] == 1
