"""A driver is upgraded under the running agent: devices go and come back, and all that names it follows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import grpc.aio
import pytest

from support.driver_root import Driver, install_driver
from support.looking import until
from support.nvml.state import DriverState, FakeGpu
from support.plugin_node import PATIENCE_S, PluginNode, allocate, plugin_node
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet.methods import LIST_AND_WATCH

OLD, NEW = "570.124.06", "575.51.03"
WHOLE = "version: v1\n"
SHARED = (
    "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n"
    "    resources: [{name: nvidia.com/gpu, replicas: 2}]\n"
)
GPUS = tuple(FakeGpu(slot, uuid=f"GPU-{slot}") for slot in range(2))
IDS = {gpu.uuid for gpu in GPUS}
REPLICAS = {f"{uuid}::{number}" for uuid in IDS for number in range(2)}
VERSION_LABEL = "nvidia.com/cuda.driver-version.full"


@pytest.fixture
async def node() -> AsyncIterator[PluginNode]:
    async with plugin_node() as made:
        await made.start_kubelet()
        yield made


async def lists(channel: grpc.aio.Channel) -> AsyncIterator[dict[str, str]]:
    """Health by id, of one stream that never ends meanwhile."""
    method = LIST_AND_WATCH
    stream = channel.unary_stream(method.path, method.request.SerializeToString, method.response.FromString)
    async for message in stream(plugin.Empty()):
        yield {device.ID: device.health for device in message.devices}


async def until_health(shown: AsyncIterator[dict[str, str]], health: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await anext(shown) != dict.fromkeys(IDS, health):
            pass


def library_in_the_spec(root: Path) -> str:
    """The version of the driver's library that the CDI spec mounts; empty without a spec."""
    texts = []
    for file in (root / "var/run/cdi").glob("*.json"):
        with suppress(FileNotFoundError):  # it goes with the driver, perhaps just now
            texts.append(file.read_text())
    mounted = [
        mount["hostPath"] for text in texts for mount in json.loads(text)["containerEdits"].get("mounts", ())
    ]
    return next((path.partition("libnvidia-ml.so.")[2] for path in mounted if "libnvidia-ml.so." in path), "")


def label(root: Path) -> str:
    file = root / "etc/kubernetes/node-feature-discovery/features.d/gfd"
    labels = dict(line.split("=", 1) for line in file.read_text().splitlines()) if file.exists() else {}
    return labels.get(VERSION_LABEL, "")


async def test_everything_follows_the_new_driver_and_nothing_of_a_pod_is_given_away(node: PluginNode) -> None:
    driver = Driver(
        node.root, DriverState(tuple(FakeGpu(slot, uuid=f"GPU-{slot}") for slot in range(2)), OLD)
    )
    config = node.root / "config.yaml"
    config.write_text(WHOLE)
    await node.start_agent(
        *("--driver-root-ctr-path", str(node.root), "--config", str(config)),
        *("--device-list-strategy=envvar,cdi-cri", "--labels=nfd-file"),
        devices="nvml",
    )
    async with node.channel() as channel:
        shown = lists(channel)
        await until_health(shown, "Healthy")
        assert await allocate(channel, "GPU-0") == ""
        await until(lambda: library_in_the_spec(node.root) == label(node.root) == OLD)
        driver.unload()
        install_driver(node.root, NEW)  # while no module is loaded, as installers do
        await until_health(shown, "Unhealthy")
        assert "is unhealthy" in await allocate(channel, "GPU-1")
        await until(lambda: library_in_the_spec(node.root) == "")
        assert label(node.root) == OLD, "labels go with the hardware, not with a driver that is away"
        driver.upgrade(NEW)
        driver.load()
        await until_health(shown, "Healthy")
        assert await allocate(channel, "GPU-1") == ""
        await until(lambda: library_in_the_spec(node.root) == label(node.root) == NEW)
        assert node.registered.empty(), "kubelet need not be told anew"
        config.write_text(SHARED)
        async with node.channel() as other:
            assert await anext(lists(other)) == {
                f"{uuid}::{n}": "Unhealthy" for uuid in IDS for n in range(2)
            }
            assert "GPU-0::0 is held as nvidia.com/gpu" in await allocate(other, "GPU-0::0")
    assert node.agent is not None
    assert node.agent.returncode is None


async def test_a_driver_that_never_comes_back_as_it_was_costs_only_what_it_lost(node: PluginNode) -> None:
    """The new driver does not take one of the GPUs, and has another one that the old one did not take."""
    driver = Driver(node.root, DriverState(GPUS, OLD))
    await node.start_agent("--driver-root-ctr-path", str(node.root), devices="nvml")
    async with node.channel() as channel:
        shown = lists(channel)
        await until_health(shown, "Healthy")
        driver.unload()
        await until_health(shown, "Unhealthy")
        driver.become(DriverState((GPUS[0], FakeGpu(2, uuid="GPU-2")), NEW))
        install_driver(node.root, NEW)
        driver.load()
        async with asyncio.timeout(PATIENCE_S):
            while await anext(shown) != {"GPU-0": "Healthy", "GPU-2": "Healthy"}:
                pass
        assert "unknown device: GPU-1" in await allocate(channel, "GPU-1")
        assert await allocate(channel, "GPU-2") == ""
