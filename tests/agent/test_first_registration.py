"""What an agent does first: kubelet gets its devices under the names of last time, whoever else is silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from support.plugin_node import PluginNode, allocate, first_list, plugin_node
from tonnage.adapters.clock import SystemClock
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.ports.kubernetes import KubernetesApi

PATIENCE_S = 60.0
SHARED = "nvidia.com/gpu.shared"
FOUR = "version: v1\nsharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, "
FOUR += "replicas: 4}]}}\n"


class DeadApi:
    """An API server that takes every call and answers none."""

    server_ahead_s = 0.0

    def __init__(self) -> None:
        self.called = asyncio.Event()

    def __getattr__(self, _name: str) -> Any:
        async def call(*_: Any, **__: Any) -> None:
            self.called.set()
            await asyncio.Event().wait()

        return call


@pytest.fixture
async def node() -> AsyncIterator[PluginNode]:
    async with plugin_node() as made:
        await made.start_kubelet()
        yield made


@asynccontextmanager
async def agent(
    node: PluginNode, hardware: Path, api: Any, started: asyncio.Event | None = None
) -> AsyncIterator[None]:
    options = AgentOptions("node-1", f"scenario:{hardware}", node.root)
    running = asyncio.create_task(
        run_agent(options, api=cast(KubernetesApi, api), clock=SystemClock(), started=started)
    )
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def ran_before(node: PluginNode, hardware: Path, cluster: Any) -> None:
    """A first run, with replicas from the cluster's configuration."""
    cluster.configs(default=FOUR)
    cluster.label("node-1", None)
    async with agent(node, hardware, cluster), asyncio.timeout(PATIENCE_S):
        assert (await node.registered.get()).resource_name == SHARED


async def test_a_dead_api_server_stops_neither_registration_nor_allocation(
    node: PluginNode, hardware: Path, cluster: Any
) -> None:
    await ran_before(node, hardware, cluster)
    dead = DeadApi()
    async with agent(node, hardware, dead), node.channel() as channel:
        _, ids = await first_list(channel)
        assert ids == {f"GPU-{i}::{r}" for i in (0, 1) for r in range(4)}
        assert await allocate(channel, "GPU-1::2") == ""
        async with asyncio.timeout(PATIENCE_S):
            await dead.called.wait()
        assert await allocate(channel, "GPU-0::0") == ""


async def test_an_api_server_that_dies_later_stops_no_allocation(
    node: PluginNode, hardware: Path, cluster: Any
) -> None:
    cluster.configs(default=FOUR)
    cluster.label("node-1", None)
    async with agent(node, hardware, cluster), node.channel() as channel:
        _, ids = await first_list(channel)
        assert len(ids) == 8
        cluster.reachable = False
        assert [await allocate(channel, one) for one in sorted(ids)] == [""] * 8


async def test_nothing_is_asked_of_the_cluster_before_kubelet_knows_the_devices(
    node: PluginNode, hardware: Path, cluster: Any
) -> None:
    await ran_before(node, hardware, cluster)
    dead, started = DeadApi(), asyncio.Event()
    async with agent(node, hardware, dead, started), asyncio.timeout(PATIENCE_S):
        first = asyncio.create_task(node.registered.get())
        await asyncio.wait([first, asyncio.create_task(dead.called.wait())], return_when="FIRST_COMPLETED")
        assert first.done()
        assert not dead.called.is_set()
        assert (await first).resource_name == SHARED
        await dead.called.wait()
        assert started.is_set()


async def test_without_a_configuration_of_before_the_cluster_is_asked_at_once(
    node: PluginNode, hardware: Path
) -> None:
    dead, started = DeadApi(), asyncio.Event()
    async with agent(node, hardware, dead, started), asyncio.timeout(PATIENCE_S):
        await dead.called.wait()
        assert started.is_set()
    assert node.registered.empty()


async def test_the_same_configuration_is_not_read_again(
    node: PluginNode, hardware: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ran_before(node, hardware, cluster)
    read: list[str] = []

    def parse(text: str, **_: Any) -> None:
        read.append(text)
        raise AssertionError(text)

    monkeypatch.setattr("tonnage.documents.device_plugin.config.parse_device_plugin_config", parse)
    async with agent(node, hardware, cluster), asyncio.timeout(PATIENCE_S):
        assert (await node.registered.get()).resource_name == SHARED
        await cluster.until(lambda: "GPUConfigApplied" in cluster.conditions("node-1"))
        assert cluster.conditions("node-1")["GPUConfigApplied"]["status"] == "True"
    assert read == []
