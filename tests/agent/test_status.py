"""What the whole agent publishes: NodeGPUStatus and Events, on sockets that nobody listens to."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tonnage.agent.config import Choice, ConfigInForce
from tonnage.agent.device_plugin import Offer
from tonnage.agent.main import AgentOptions, run_agent
from tonnage.agent.status_body import status_of
from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.share import share
from tonnage.documents.node_gpu_status import NodeGPUStatusBody, node_gpu_status_crd
from tonnage.model.devices import Device, Inventory
from tonnage.model.names import GPU
from tonnage.model.sharing import Hold, PluginConfig, SharedResource
from tonnage.wire.kinds import NODE_GPU_STATUS

SHARED = "version: v1\nsharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 4}]}}"


@pytest.fixture
async def agent(cluster: Any, clock: Any, hardware: Path) -> AsyncIterator[asyncio.Task[None]]:
    root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    task = asyncio.create_task(
        run_agent(AgentOptions("node-1", f"scenario:{hardware}", root), api=cluster, clock=clock)
    )
    yield task
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    shutil.rmtree(root)


def lose_one(hardware: Path) -> None:
    hardware.write_text("devices:\n- {uuid: GPU-0, model: T4, health: lost}\n")


async def test_the_status_says_what_is_offered_and_why(cluster: Any, agent: Any, hardware: Path) -> None:
    await cluster.until(lambda: cluster.status("node-1"))
    status = cluster.status("node-1")
    NodeGPUStatusBody.model_validate_json(json.dumps(status))
    assert status["config"] == {"source": "built-in", "key": "", "error": ""}
    assert (status["deviceCount"], status["healthyCount"]) == (2, 2)
    assert status["devices"][0]["numaNode"] == 0
    assert "numaNode" not in status["devices"][1]
    assert status["devices"][0]["memoryMiB"] == 15360
    assert [device["memoryUsedMiB"] for device in status["devices"]] == [0, 4096]
    cluster.configs(default=SHARED)
    await cluster.until(lambda: cluster.status("node-1")["config"]["key"] == "default")
    (resource,) = cluster.status("node-1")["resources"]
    assert (resource["name"], resource["replicas"], resource["capacity"]) == ("nvidia.com/gpu.shared", 4, 8)
    lose_one(hardware)
    await cluster.until(lambda: cluster.status("node-1")["deviceCount"] == 1)
    (device,) = cluster.status("node-1")["devices"]
    assert (device["health"], device["reason"]) == ("Unhealthy", "GPU is lost")
    await cluster.until(
        lambda: {"DeviceUnhealthy", "DeviceGone"} <= {reason for reason, _ in cluster.events()}
    )


async def test_a_deleted_status_comes_back(cluster: Any, agent: Any) -> None:
    await cluster.until(lambda: cluster.status("node-1"))
    cluster.remove(NODE_GPU_STATUS, "node-1")
    await cluster.until(lambda: cluster.status("node-1"))


async def test_a_refused_configuration_is_in_the_status(cluster: Any, agent: Any) -> None:
    cluster.configs(default="version: v3")
    await cluster.until(lambda: cluster.status("node-1").get("config", {}).get("error"))
    assert "unknown version: v3" in cluster.status("node-1")["config"]["error"]


def schemas(node: Any) -> Any:
    """Every schema in a schema."""
    yield node
    for child in (*node.get("properties", {}).values(), *([node["items"]] if "items" in node else [])):
        yield from schemas(child)


def test_the_definition_has_a_structural_schema() -> None:
    spec: Any = node_gpu_status_crd()["spec"]
    (version,) = spec["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    for node in schemas(schema):
        assert node.get("type"), node
        assert not {"$ref", "anyOf", "title", "additionalProperties", "default"} & node.keys()
    status = schema["properties"]["status"]
    fields = {field.alias for field in NodeGPUStatusBody.model_fields.values()}
    assert set(status["properties"]) == fields
    assert version["subresources"] == {"status": {}}
    assert all(column["jsonPath"].startswith(".") for column in version["additionalPrinterColumns"])
    assert issubclass(NodeGPUStatusBody, BaseModel)


def test_the_fullest_node_stays_below_what_etcd_takes() -> None:
    devices = tuple(Device(f"GPU-{i:032d}", i, "NVIDIA B200", 183359) for i in range(64))
    config = PluginConfig((SharedResource(GPU, GPU, 512),))
    plan = share(Inventory(devices), config)
    holds = tuple(
        Hold(GPU, (slot.id,), "team-" + "n" * 50, f"{'p' * 240}-{number}", "c" * 63)
        for number, slot in enumerate(plan.resources[0].slots)
    )
    greedy = (Hold(GPU, tuple(slot.id for slot in plan.resources[0].slots), "ml", "greedy", "main"),)
    in_force = ConfigInForce(config, Choice("", "built-in"), "e" * 100_000)
    for held in (holds, greedy):
        offer = Offer(Inventory(devices), in_force, plan, held, advertise(plan, held))
        text = json.dumps(status_of(offer, at="2026-01-01T00:00:00Z").to_json())
        assert len(text) < 3 << 19
