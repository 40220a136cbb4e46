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

from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.agent.status.body import status_of
from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.mps.daemons import daemons_of, gated
from tonnage.decide.node.offer import NodeOffer
from tonnage.decide.node.share import share
from tonnage.documents.node.gpu_status import NodeGPUStatusBody, node_gpu_status_crd
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.links import NVSWITCH, Link, PciLevel
from tonnage.model.devices.mps import MpsState
from tonnage.model.devices.sharing import Hold, PluginConfig, SharedPolicy, SharedResource
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.plugin_settings import MigStrategy, SharingKind
from tonnage.wire.kinds import NODE

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
    assert status["config"] == {
        "source": "built-in",
        "key": "",
        "error": "",
        "migStrategy": "none",
        "deviceList": "",
    }
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


@pytest.fixture
def node(cluster: Any) -> None:
    info = {"kubeletVersion": "v1.35.8", "containerRuntimeVersion": "containerd://1.6.20"}
    cluster.put(NODE, "node-1", status={"nodeInfo": info})


async def test_kubelet_and_runtime_are_in_the_status(cluster: Any, node: None, agent: Any) -> None:
    await cluster.until(lambda: cluster.status("node-1").get("kubelet", {}).get("version") == "1.35.8")
    status = cluster.status("node-1")
    NodeGPUStatusBody.model_validate_json(json.dumps(status))
    assert status["runtime"] == {
        "name": "containerd",
        "version": "1.6.20",
        "cdi": "off",
        "cdiReason": "it is older than containerd 1.7 or CRI-O 1.23 and newer",
        "nri": "off",
        "nriReason": "it is older than containerd 1.7 or CRI-O 1.26",
    }
    assert status["kubelet"]["topologyManagerPolicy"] == "unknown"
    assert "/var/lib/kubelet/config.yaml" in status["kubelet"]["reason"]


async def test_a_refused_configuration_is_in_the_status(cluster: Any, agent: Any) -> None:
    cluster.configs(default="version: v3")
    await cluster.until(lambda: cluster.status("node-1").get("config", {}).get("error"))
    assert "unknown version: v3" in cluster.status("node-1")["config"]["error"]


def schemas(node: Any) -> Any:
    """Every schema in a schema."""
    yield node
    for child in (*node.get("properties", {}).values(), *([node["items"]] if "items" in node else [])):
        yield from schemas(child)


def test_what_somebody_changes_in_a_definition_is_in_no_other() -> None:
    changed: Any = node_gpu_status_crd()
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["status"]["properties"].clear()
    assert node_gpu_status_crd() != changed


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


def status_with(inventory: Inventory, config: PluginConfig, *holds: Hold) -> NodeGPUStatusBody:
    plan = share(inventory, config)
    in_force = ConfigInForce(config, ConfigChoice("", "built-in"), "")
    offer = NodeOffer(inventory, in_force, plan, holds, advertise(plan, holds))
    return status_of(offer, at="2026-01-01T00:00:00Z")


def test_devices_say_how_they_are_joined_and_divided() -> None:
    migs = (
        MigDevice("MIG-a", 0, "1g.10gb", 7, 0, 9728, (0, 1)),
        MigDevice("MIG-b", 1, "3g.40gb", 2, 0, 40448, healthy=False, reason="Xid 95"),
    )
    inventory = Inventory(
        (
            Device("GPU-0", 0, "A", 81559, numa_node=0, clique="c.1"),
            Device("GPU-1", 1, "A", 81559, numa_node=0, mig_enabled=False),
            Device("GPU-3", 3, "A", 81559, numa_node=1, mig_enabled=True, migs=migs),
        ),
        links=(
            Link("GPU-0", "GPU-3", 0, PciLevel.SYSTEM),
            Link("GPU-0", "GPU-1", 4, PciLevel.SWITCH),
            Link("GPU-0", NVSWITCH, 14),
            Link("GPU-1", "GPU-0", 2, PciLevel.SWITCH),
            Link("GPU-1", "GPU-of-a-display", 1),
            Link("GPU-3", "GPU-0", 0, PciLevel.SYSTEM),
            Link("GPU-3", "GPU-1", 0, PciLevel.SYSTEM),
        ),
    )
    body = status_with(inventory, PluginConfig(mig_strategy=MigStrategy.MIXED))
    NodeGPUStatusBody.model_validate_json(json.dumps(body.to_json()))
    status: Any = body.to_json()
    assert status["config"]["migStrategy"] == "mixed"
    first, second, third = status["devices"]
    assert first["links"] == [
        {"peers": [], "switches": True, "nvlinks": 14, "path": ""},
        {"peers": [1], "switches": False, "nvlinks": 4, "path": "PIX"},
        {"peers": [3], "switches": False, "nvlinks": 0, "path": "SYS"},
    ]
    assert [(link["peers"], link["nvlinks"]) for link in second["links"]] == [([0], 2)], "as it states them"
    assert [(link["peers"], link["path"]) for link in third["links"]] == [([0, 1], "SYS")]
    assert (first["clique"], first["numaNode"], "migEnabled" in first) == ("c.1", 0, False)
    assert (second["migEnabled"], second["migDevices"]) == (False, [])
    small, large = third["migDevices"]
    assert (small["placement"], small["resource"]) == ({"start": 0, "size": 1}, "nvidia.com/mig-1g.10gb")
    assert (large["health"], large["reason"], "placement" in large) == ("Unhealthy", "Xid 95", False)
    assert third["health"] == "Healthy", "one part of it is not"


def test_a_part_of_what_is_not_healthy_is_not_healthy_either() -> None:
    mig = MigDevice("MIG-a", 0, "1g.10gb", 7, 0, 9728)
    lost = Device("GPU-0", 0, "A", 1, healthy=False, reason="GPU is lost", mig_enabled=True, migs=(mig,))
    (device,) = status_with(Inventory((lost,)), PluginConfig(mig_strategy=MigStrategy.MIXED)).devices
    assert [(part.health, part.reason) for part in device.mig_devices] == [("Unhealthy", "GPU is lost")]


def test_resources_say_how_they_are_shared() -> None:
    two = Inventory((Device("GPU-0", 0, "A", 1), Device("GPU-1", 1, "A", 1)))
    shared = SharedResource(GPU, ResourceName("nvidia.com/gpu.shared"), 4, 1)
    config = PluginConfig((shared,), shared_policy=SharedPolicy.SPREAD)
    hold = Hold("nvidia.com/gpu.shared", ("GPU-0::2",), "ml", "notebook", "main")
    body = status_with(two, config, hold)
    assert [(one.name, one.sharing, one.policy, one.allocated) for one in body.resources] == [
        ("nvidia.com/gpu.shared", "time-slicing", "spread", 1),
        ("nvidia.com/gpu", "none", "", 0),
    ]
    first, second = body.devices
    assert [(holder.pod, holder.ids) for holder in first.holders] == [("notebook", ["GPU-0::2"])]
    assert second.holders == []


def test_the_fullest_node_stays_below_what_etcd_takes() -> None:
    migs = [
        tuple(MigDevice(f"MIG-{i:02d}-{n:030d}", n, "1g.23gb+me", n, 0, 1, (n, 1)) for n in range(7))
        for i in range(64)
    ]
    devices = tuple(
        Device(f"GPU-{i:032d}", i, "NVIDIA B200", 183359, mig_enabled=True, migs=migs[i]) for i in range(64)
    )
    config = PluginConfig((SharedResource(GPU, GPU, 512),))
    # as bad as it gets: no two pairs alike
    links = tuple(
        Link(one.uuid, other.uuid, number, PciLevel.SYSTEM)
        for one in devices
        for number, other in enumerate(devices)
        if one is not other
    )
    inventory = Inventory(devices, links=links)
    plan = share(inventory, config)
    holds = tuple(
        Hold(GPU, (slot.id,), "team-" + "n" * 50, f"{'p' * 240}-{number}", "c" * 63)
        for number, slot in enumerate(plan.resources[0].slots)
    )
    greedy = (Hold(GPU, tuple(slot.id for slot in plan.resources[0].slots), "ml", "greedy", "main"),)
    in_force = ConfigInForce(config, ConfigChoice("", "built-in"), "e" * 100_000)
    for held in (holds, greedy):
        offer = NodeOffer(inventory, in_force, plan, held, advertise(plan, held))
        text = json.dumps(status_of(offer, at="2026-01-01T00:00:00Z").to_json())
        assert len(text) < 3 << 19


def test_shr_4_a_resource_says_what_a_client_of_its_daemon_may_use() -> None:
    two = Inventory((Device("GPU-0", 0, "A", 16384, "7.0"), Device("GPU-1", 1, "A", 15360, "7.5")))
    shared = SharedResource(GPU, ResourceName("nvidia.com/gpu.shared"), 8)
    config = PluginConfig((shared,), sharing_kind=SharingKind.MPS, mps_root="/mps")
    plan = share(two, config)
    (daemon,) = daemons_of(plan, two, config)
    in_force = ConfigInForce(config, ConfigChoice("", "built-in"), "")
    for state in (MpsState(daemon), MpsState(daemon, "signal 9", restarts=3)):
        states = {daemon.resource: state}
        shown = gated(plan, (daemon,), states)
        body = status_of(
            NodeOffer(two, in_force, shown, (), advertise(shown, ()), states), at="2026-01-01T00:00:00Z"
        )
        NodeGPUStatusBody.model_validate_json(json.dumps(body.to_json()))
        status: Any = body.to_json()
        (resource,) = status["resources"]
        assert (resource["sharing"], resource["allocatable"]) == ("mps", 0 if state.why else 16)
        assert resource["mps"] == {
            "ready": not state.why,
            "reason": state.why,
            "activeThreadPercentage": 12,
            "restarts": state.restarts,
            "devices": [
                {"uuid": "GPU-0", "pinnedMemoryMiB": 2048, "mostClients": 16},
                {"uuid": "GPU-1", "pinnedMemoryMiB": 1920, "mostClients": 48},
            ],
        }
        reason = "the MPS control daemon does not serve: signal 9" if state.why else ""
        assert {device["reason"] for device in status["devices"]} == {reason}
